"""How much a namespace may hold, and how much it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from duebook.errors import Invalid, quoted
from duebook.ids import check_name
from duebook.model.fields import whole

__all__ = ["NamespaceUse", "Quota", "load_quota"]

MOST_SCHEDULES: Final = 100_000_000
MOST_FIRES: Final = 1_000_000_000
MOST_BYTES: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of a namespace; None for none."""

    namespace: str
    schedules: int | None = None
    fires_per_minute: float | None = None
    """of all its schedules together, by the mean of each"""
    payload_bytes: int | None = None
    """of one payload as JSON"""


@dataclass(frozen=True, slots=True)
class NamespaceUse:
    """A namespace as people see it."""

    quota: Quota
    schedules: int
    fires_per_minute: float | None
    """known where it is limited"""


def load_quota(namespace: Any, schedules: Any, fires_per_minute: Any, payload_bytes: Any) -> Quota:
    """Limits, of which at least one is given; raises Invalid."""
    if schedules is None and fires_per_minute is None and payload_bytes is None:
        raise Invalid(
            "a quota needs schedules, fires_per_minute, payload_bytes, or several of them"
        )
    return Quota(
        check_name(namespace, "namespace"),
        None if schedules is None else whole(0, MOST_SCHEDULES)("schedules", schedules),
        None if fires_per_minute is None else _fires("fires_per_minute", fires_per_minute),
        None if payload_bytes is None else whole(2, MOST_BYTES)("payload_bytes", payload_bytes),
    )


def _fires(key: str, value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 <= value <= MOST_FIRES:
        return float(value)
    raise Invalid(f"{key} {quoted(value)} is no number 0 to {MOST_FIRES:,}")
