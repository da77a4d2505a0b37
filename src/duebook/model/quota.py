"""How much a namespace may hold, and how much it does."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar

from duebook.errors import Invalid, quoted
from duebook.ids import check_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.access import EVERYWHERE
from duebook.model.codec import NEVER_SHOWN, Name, Shown, decode, shown
from duebook.model.fields import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["DEFAULTS", "NamespaceUse", "Quota", "Standing", "check_quota_name", "load_quota"]

T = TypeVar("T")
MOST_SCHEDULES: Final = 100_000_000
MOST_FIRES: Final = 1_000_000_000
MOST_BYTES: Final = 1_000_000_000
MOST_DEFINITION_BYTES: Final = 1_000_000_000_000


@shown(partial=True)
@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of a namespace, at least one; null means no limit. They replace the previous ones."""

    namespace: Annotated[str, NEVER_SHOWN]
    schedules: Annotated[int | None, Shown(least=0, most=MOST_SCHEDULES)] = None
    fires_per_minute: Annotated[
        float | None,
        Shown("Of all schedules together, on average.", least=0, most=MOST_FIRES),
    ] = None
    payload_bytes: Annotated[int | None, Shown(least=2, most=MOST_BYTES)] = None
    """of one payload as JSON"""
    definition_bytes: Annotated[
        int | None,
        Shown("Of the definitions of all schedules.", least=0, most=MOST_DEFINITION_BYTES),
    ] = None
    """as JSON"""
    max_priority: Annotated[
        int | None, Shown("Of schedules and runs.", least=-1_000, most=1_000)
    ] = None


DEFAULTS: Final = Quota(EVERYWHERE, schedules=5_000_000, definition_bytes=4_000_000_000)
"""For namespaces without a quota: a million ordinary schedules take 0.3 GB."""


@shown("QuotaUse")
class Used(NamedTuple):
    """The usage of a quota."""

    schedules: int
    fires_per_minute: Annotated[float | None, Shown("Known where it is limited.")]
    definition_bytes: int


@shown("Namespace")
@dataclass(frozen=True, slots=True)
class NamespaceUse:
    """The quota of a namespace, and its usage."""

    quota: Quota
    schedules: Annotated[int, NEVER_SHOWN]
    fires_per_minute: Annotated[float | None, NEVER_SHOWN]
    """known if it is limited"""
    definition_bytes: Annotated[int, NEVER_SHOWN] = 0
    keep: Annotated[
        str, Shown("How long its runs are kept, unless their schedule says otherwise.")
    ] = "90d"

    @property
    def name(self) -> Annotated[Name, Shown()]:
        return self.quota.namespace

    @property
    def used(self) -> Annotated[Used, Shown()]:
        return Used(self.schedules, self.fires_per_minute, self.definition_bytes)

    @staticmethod
    def read_shown(form: Mapping[str, Any]) -> dict[str, Any]:
        quota = decode(Quota, form["quota"], namespace=form["name"])
        used = decode(Used, form["used"])._asdict()
        return {"quota": quota, "keep": form.get("keep", "")} | used


@dataclass(frozen=True, slots=True)
class Standing:
    """What additions to a namespace are checked against."""

    own: Quota | None
    """None: it has no quota"""
    default: Quota
    """for limits that the namespace's own quota leaves out: those set for all, else DEFAULTS"""
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
    raise Invalid(f"{key} {quoted(value)} is not a number from 0 to {MOST_FIRES:,}")
