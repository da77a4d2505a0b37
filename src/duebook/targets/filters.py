"""The filters of templates: small pure functions, each with limits on its input and output."""

from __future__ import annotations

import json
import re
from functools import wraps
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from duebook.errors import Invalid, shorten
from duebook.timetext import format_instant, parse_duration, parse_instant
from duebook.triggers.zones import local_datetime

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FILTERS", "MOST_OUTPUT", "Budget", "TemplateFailed", "counted"]

MOST_OUTPUT: Final = 1_000_000
"""Maximum characters of a rendered template."""
_DIRECTIVE: Final = re.compile(r"%(?:[YmdHMSjUWVGuwaAbByIpzZ%])|[^%]")


class TemplateFailed(Invalid):
    """A template that cannot be parsed, or has no value in this run."""

    code = "template"


class Budget:
    """How much a template may still produce, including all intermediate results."""

    def __init__(self) -> None:
        self._left = 4 * MOST_OUTPUT

    def spend(self, made: Any) -> None:
        """Raises TemplateFailed when nothing is left."""
        self._left -= _size(made)
        if self._left < 0:
            raise TemplateFailed(f"it produces more than {MOST_OUTPUT:,} characters")


def counted(
    name: str, work: Callable[..., Any], budget: Callable[[], Budget]
) -> Callable[..., Any]:
    """A filter that spends the size of its output, and names itself in errors."""

    @wraps(work)
    def filtered(value: Any, *options: Any, **named: Any) -> Any:
        if value is None and work is not _default:
            raise TemplateFailed(
                f"{name}: the value is undefined or null; use default(…) before it"
            )
        try:
            made = work(value, *options, **named)
        except Invalid as error:
            raise TemplateFailed(f"{name}: {error}") from None
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
            told = ", ".join(shorten(option, 20) for option in (value, *options))
            raise TemplateFailed(f"{name} cannot be applied to {told}") from None
        budget().spend(made)
        return made

    return filtered


def _size(value: Any) -> int:
    if isinstance(value, str | list | dict):
        return len(value)
    return 1


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _default(value: Any, other: Any = "") -> Any:
    return other if value is None else value


def _replace(value: Any, old: str, new: str) -> str:
    text = _text(value)
    if not old:
        raise Invalid("the text to replace is empty")
    _refuse_large(text.count(old) * len(new))
    return text.replace(old, new)


def _join(value: Any, between: str = "") -> str:
    if not isinstance(value, list | tuple):
        raise TypeError
    _refuse_large(len(value) * len(between))
    return between.join(map(_text, value))


def _refuse_large(size: int) -> None:
    """Checked before it is created: a product of two sizes quickly exceeds a machine's memory."""
    if size > MOST_OUTPUT:
        raise Invalid(f"it would produce more than {MOST_OUTPUT:,} characters")


def _split(value: str, at: str | None = None) -> list[str]:
    return value.split(at)


def _items(value: dict[str, Any]) -> list[list[Any]]:
    return [[key, item] for key, item in value.items()]


def _int(value: Any) -> int:
    return int(value)


def _round(value: float, digits: int = 0) -> float:
    return round(value, digits) if digits else round(value)


def _tojson(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _urlencode(value: Any) -> str:
    return quote(_text(value), safe="")


def _time(value: str, form: str = "%Y-%m-%d", tz: str = "UTC") -> str:
    """An instant formatted by strftime, in a zone."""
    if len(form) > 100 or "".join(_DIRECTIVE.findall(form)) != form:
        raise Invalid(f'"{shorten(form)}" is not a format such as %Y-%m-%d %H:%M')
    return local_datetime(parse_instant(value), tz).strftime(form)


def _shift(value: str, length: str) -> str:
    """An instant moved by a length, such as 1d or -2h."""
    back = length.startswith("-")
    moved = parse_duration(length.removeprefix("-"))
    return format_instant(parse_instant(value) + (-moved if back else moved))


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "capitalize": lambda value: _text(value).capitalize(),
    "default": _default,
    "first": lambda value: value[0],
    "float": float,
    "int": _int,
    "items": _items,
    "join": _join,
    "last": lambda value: value[-1],
    "length": len,
    "lower": lambda value: _text(value).lower(),
    "replace": _replace,
    "round": _round,
    "shift": _shift,
    "split": _split,
    "time": _time,
    "tojson": _tojson,
    "trim": lambda value: _text(value).strip(),
    "upper": lambda value: _text(value).upper(),
    "urlencode": _urlencode,
}
