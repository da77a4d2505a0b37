"""Reads the Go templates that `template.render` has: strings, and the values between them; pure.

Only tags that name a value are supported. A tag that does more, such as a loop, is refused, and the
error quotes it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from duebook.errors import shorten
from duebook.flows.problems import Misplaced

__all__ = ["parse_go_template"]

FILTERS: Final = ("lower", "trim", "upper")
_TAG: Final = re.compile(r"\{\{(-\s)?(.*?)(\s-)?\}\}", re.DOTALL)
_VALUE: Final = re.compile(r"((?:\.[A-Za-z_]\w*)+)((?:\s*\|\s*[a-z]+)*)")
_COMMENT: Final = re.compile(r"/\*.*\*/", re.DOTALL)


def parse_go_template(text: str) -> list[Any]:
    """Its parts in order: a string, or {"path": names, "filters": names}; raises Misplaced."""
    parts: list[Any] = []
    place, trims = 0, False
    for tag in _TAG.finditer(text):
        before = text[place : tag.start()]
        before = before.lstrip() if trims else before
        parts += _pieces(before.rstrip() if tag[1] else before)
        place, trims = tag.end(), tag[3] is not None
        if not _COMMENT.fullmatch(tag[2].strip()):
            parts.append(_value(tag))
    rest = text[place:]
    if (open_at := rest.find("{{")) >= 0:
        raise Misplaced(
            "a tag of the template is not closed; add `}}`", place + open_at, None, text
        )
    return parts + _pieces(rest.lstrip() if trims else rest)


def _value(tag: re.Match[str]) -> dict[str, list[str]]:
    found = _VALUE.fullmatch(tag[2].strip())
    filters = [] if found is None else re.findall(r"[a-z]+", found[2])
    if found is None or not set(filters) <= set(FILTERS):
        raise Misplaced(
            f'"{shorten(tag[0])}" is not supported in a template; use {{{{ .name }}}}, or '
            f"{{{{ .name | upper }}}} with {', '.join(FILTERS)}",
            tag.start(),
            None,
            tag.string,
        )
    return {"path": found[1].lstrip(".").split("."), "filters": filters}


def _pieces(text: str) -> list[str]:
    """Strings that no other template language takes for its own."""
    return [piece for piece in re.split(r"(?<=\{)", text) if piece]
