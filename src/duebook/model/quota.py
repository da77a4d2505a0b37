"""How much a namespace may hold, and how much it does."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from duebook.errors import Invalid, quoted
from duebook.ids import check_name
from duebook.model.access import EVERYWHERE
from duebook.model.fields import whole

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DEFAULTS", "NamespaceUse", "Quota", "Standing", "check_quota_name", "load_quota"]

T = TypeVar("T")
MOST_SCHEDULES: Final = 100_000_000
MOST_FIRES: Final = 1_000_000_000
MOST_BYTES: Final = 1_000_000_000
MOST_DEFINITION_BYTES: Final = 1_000_000_000_000


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of a namespace; None for none."""

    namespace: str
    schedules: int | None = None
    fires_per_minute: float | None = None
    """of all its schedules together, by the mean of each"""
    payload_bytes: int | None = None
    """of one payload as JSON"""
    definition_bytes: int | None = None
    """of the definitions of all schedules as JSON"""
    max_priority: int | None = None
    """that a schedule or run may ask for"""


DEFAULTS: Final = Quota(EVERYWHERE, schedules=5_000_000, definition_bytes=4_000_000_000)
"""Of a namespace for which nobody set anything: a million ordinary schedules have 0.3 GB."""


@dataclass(frozen=True, slots=True)
class NamespaceUse:
    """A namespace as people see it."""

    quota: Quota
    schedules: int
    fires_per_minute: float | None
    """known where it is limited"""
    definition_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What a namespace is held against when something is added to it."""

    own: Quota | None
    """None: it has no quota of its own"""
    default: Quota
    """what holds where the own quota says nothing: as set for all namespaces, else DEFAULTS"""
    schedules: int
    definition_bytes: int


def check_quota_name(name: Any) -> str:
    """The name of a namespace, or `*` for the default of all; raises Invalid."""
    return EVERYWHERE if name == EVERYWHERE else check_name(name, "namespace")


def load_quota(
    namespace: Any,
    schedules: Any = None,
    fires_per_minute: Any = None,
    payload_bytes: Any = None,
    definition_bytes: Any = None,
    max_priority: Any = None,
) -> Quota:
    """Limits, of which at least one is given; raises Invalid."""
    quota = Quota(
        check_quota_name(namespace),
        _read(whole(0, MOST_SCHEDULES), "schedules", schedules),
        _read(_fires, "fires_per_minute", fires_per_minute),
        _read(whole(2, MOST_BYTES), "payload_bytes", payload_bytes),
        _read(whole(0, MOST_DEFINITION_BYTES), "definition_bytes", definition_bytes),
        _read(whole(-1_000, 1_000), "max_priority", max_priority),
    )
    if quota == Quota(quota.namespace):
        names = ", ".join(field.name for field in fields(Quota)[1:])
        raise Invalid(f"a quota needs at least one of {names}")
    if quota.namespace == EVERYWHERE:
        for key in ("fires_per_minute", "max_priority"):
            if (value := getattr(quota, key)) is not None:
                raise Invalid(
                    f'{key} {quoted(value)} cannot be the default of all namespaces, "*"; '
                    "set it for each namespace that needs it"
                )
    return quota


def _read(reader: Callable[[str, Any], T], key: str, value: Any) -> T | None:
    return None if value is None else reader(key, value)


def _fires(key: str, value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 <= value <= MOST_FIRES:
        return float(value)
    raise Invalid(f"{key} {quoted(value)} is no number 0 to {MOST_FIRES:,}")
