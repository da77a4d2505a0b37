"""Lists as the text of PostgreSQL arrays; several times as fast as the driver's conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

__all__ = ["array_text"]


def array_text(kind: str, values: Sequence[Any]) -> str:
    """Values of one column, any of which may be None, as an array of that kind."""
    if values and values.count(values[0]) == len(values):  # like most columns of a batch
        return "{" + ",".join([_item(kind, values[0])] * len(values)) + "}"
    if kind == "text":
        return _texts(values)
    return "{" + ",".join([_item(kind, value) for value in values]) + "}"


def _texts(values: Sequence[str | None]) -> str:
    try:
        joined = '","'.join(values)  # type: ignore[arg-type]
    except TypeError:  # one is None
        return "{" + ",".join([_item("text", value) for value in values]) + "}"
    if "\\" in joined or joined.count('"') != 2 * (len(values) - 1):
        return "{" + ",".join([_item("text", value) for value in values]) + "}"
    return '{"' + joined + '"}'


def _item(kind: str, value: Any) -> str:
    return "NULL" if value is None else _WRITERS[kind](value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _instant(moment: datetime) -> str:
    return moment.isoformat()


_WRITERS: Final[dict[str, Callable[[Any], str]]] = {
    "text": _quoted,
    "integer": str,
    "bigint": str,
    "float8": str,
    "boolean": lambda value: "t" if value else "f",
    "timestamptz": _instant,
}
