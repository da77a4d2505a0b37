"""Labels as people ask for them: several in one field, some with spaces in them; pure."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["LONGEST", "label_text", "read_labels"]

LONGEST: Final = 1_000
"""Characters of the field."""
_ONE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(?=[\s,]|$)|([^\s,]+)', re.DOTALL)
_PARTS: Final = re.compile(r'[\s,"]')
_MARKED: Final = re.compile(r"\\(.)", re.DOTALL)


def label_text(name: str, value: str) -> str:
    """A label as the field takes it: in quotes where it would fall apart."""
    text = f"{name}:{value}"
    if not _PARTS.search(text):
        return text
    marked = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{marked}"'


def read_labels(text: str) -> list[str]:
    """What stands in the field, label by label; the opposite of `label_text`."""
    return [plain or _MARKED.sub(r"\1", quoted) for quoted, plain in _ONE.findall(text)]
