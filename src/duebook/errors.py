"""The error tree: every error Duebook raises on purpose, each with a stable code.

DuebookError
├── Invalid            the caller's input is wrong; the message says what would be right
│   ├── InvalidTime    a value that is not an instant, duration or time of day
│   ├── InvalidTrigger a trigger that cannot be built
│   └── OverBudget     the request takes more processor time than allowed
├── NotFound           the named object does not exist
├── Conflict           the object exists, but not in the state that the caller expected
│   ├── KeyReused      an idempotency key was already used for another request
│   └── QuotaReached   a quota of the namespace is used up
├── Forbidden          the caller is known, but may not do this
├── Unavailable        worth retrying later
│   └── DiskFull       the disk of the database file has no space left
└── WaitTimeout        a run did not end within the given time
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

__all__ = [
    "Conflict",
    "DiskFull",
    "DuebookError",
    "Forbidden",
    "Invalid",
    "InvalidTime",
    "InvalidTrigger",
    "KeyReused",
    "NotFound",
    "OverBudget",
    "QuotaReached",
    "Unavailable",
    "WaitTimeout",
    "counted",
    "json_problem",
    "printable",
    "quoted",
    "refuse_keys",
    "shorten",
]

MOST_NAMED: Final = 20
"""How many unknown keys an error lists."""


class DuebookError(Exception):
    """Base class of all errors that Duebook raises; `code` is shared by REST, CLI and docs."""

    code = "error"


class Invalid(DuebookError, ValueError):
    """The caller's input is wrong."""

    code = "invalid"


class NotFound(DuebookError, LookupError):
    """The named object does not exist."""

    code = "not_found"


class Conflict(DuebookError):
    """The object exists, but not in the state that the caller expected."""

    code = "conflict"


class Forbidden(DuebookError):
    """The caller is known, but may not do this."""

    code = "forbidden"


class Unavailable(DuebookError):
    """A service that is needed does not respond; try again later."""

    code = "unavailable"


class WaitTimeout(DuebookError, TimeoutError):
    """The run has not ended within the given time; it continues."""

    code = "wait_timeout"


class DiskFull(Unavailable):
    """The disk of the database file has no space left."""


class KeyReused(Conflict):
    """The idempotency key was already used for another request."""

    code = "key_reused"


class QuotaReached(Conflict):
    """A quota of the namespace is used up."""

    code = "quota"


class InvalidTime(Invalid):
    """The value is not an instant, a duration or a time of day."""

    code = "invalid_time"


class OverBudget(Invalid):
    """The request takes more processor time than allowed."""

    code = "over_budget"


class InvalidTrigger(Invalid):
    """A trigger that cannot be built; `field` names the part that is wrong."""

    code = "invalid_trigger"

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field

    def __reduce__(self) -> tuple[type[InvalidTrigger], tuple[str, str]]:
        return type(self), (str(self), self.field)


def shorten(value: object, limit: int = 60) -> str:
    """`value` as one line of text that fits into a message, whatever a caller passed."""
    try:
        text = value if isinstance(value, str) else _as_written(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number too long to print
        text = f"a {type(value).__name__}"
    text = printable(text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _as_written(value: object) -> str:
    """Objects and lists as JSON, as in files and requests."""
    if isinstance(value, dict | list):
        try:
            return json.dumps(value, ensure_ascii=False)
        except TypeError:  # a program passed something else
            pass
    return repr(value)


def json_problem(error: Exception) -> str:
    """Why a text is not valid JSON, without Python's terms."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8 text"
    return shorten(str(error), 120)


def quoted(value: object) -> str:
    """As `shorten`, with text in quotes, so that "3" and 3 look different."""
    return f'"{shorten(value)}"' if isinstance(value, str) else shorten(value)


def counted(number: int, noun: str) -> str:
    """A number and its noun: `1 run`, `2,000 due times`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def refuse_keys(
    given: Iterable[object], known: Container[object], told: Callable[[str], str]
) -> dict[str, str]:
    """Describe unknown keys: a sentence for each of the first few, and how many more there are.
    A caller may send a million of them."""
    unknown = [key for key in given if key not in known]
    problems = {shorten(key): told(shorten(key)) for key in unknown[:MOST_NAMED]}
    if (more := len(unknown) - MOST_NAMED) > 0:
        problems["…"] = f"and {more:,} more unknown keys"
    return problems


def printable(text: str) -> str:
    """Text that cannot steer a terminal or break a line."""
    return "".join(c if c.isprintable() else "?" for c in text)
