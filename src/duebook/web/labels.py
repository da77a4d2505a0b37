"""Reads and writes labels in a search field: several at once, quoted if needed; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LONGEST", "label_text", "labels_text", "read_labels", "read_pairs"]

LONGEST: Final = 1_000
"""Characters in the field."""
_ONE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(?=[\s,]|$)|([^\s,]+)', re.DOTALL)
_PARTS: Final = re.compile(r'[\s,"]')
_MARKED: Final = re.compile(r"\\(.)", re.DOTALL)


def label_text(name: str, value: str) -> str:
    """A label as the field expects it: quoted if it would otherwise be split."""
    text = f"{name}:{value}"
    if not _PARTS.search(text):
        return text
    marked = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{marked}"'


def read_labels(text: str) -> list[str]:
    """The labels in the field; the inverse of `label_text`."""
    return [plain or _MARKED.sub(r"\1", quoted) for quoted, plain in _ONE.findall(text)]


def labels_text(labels: Mapping[str, str]) -> str:
    """Several labels as the field expects them."""
    return " ".join(label_text(name, value) for name, value in labels.items())


def read_pairs(text: str) -> dict[str, str]:
    """The inverse of `labels_text`. Raises Invalid."""
    found: dict[str, str] = {}
    for item in read_labels(text):
        name, colon, value = item.partition(":")
        if not name or not colon:
            raise Invalid(f'labels: "{shorten(item)}" is not NAME:VALUE, such as team:data')
        if name in found:
            raise Invalid(f'labels: "{shorten(name)}" appears twice')
        found[name] = value
    return found
