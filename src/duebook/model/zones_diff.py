"""Which due times move under other time zone data, as values."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Final

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Shown, shown
from duebook.model.plan import Kind

__all__ = ["YEAR", "MovedDueTime", "MovedSchedule", "ZonesDiff"]

YEAR: Final = timedelta(days=366)
"""How far ahead due times are compared by default."""


@shown("MovedDueTime")
@dataclass(frozen=True, slots=True)
class MovedDueTime:
    """A due time before and after."""

    was: Annotated[datetime | None, Shown("null: it is new.")]
    becomes: Annotated[datetime | None, Shown("null: it disappears.")]
    kind: Kind = "start"


@shown("MovedSchedule")
@dataclass(frozen=True, slots=True)
class MovedSchedule:
    """A schedule with due times that move."""

    schedule: Annotated[str, Shown("In a namespace other than default as namespace/name.")]
    tz: str
    count: Annotated[int, Shown("How many due times move, appear or disappear.")]
    complete: Annotated[bool, Shown("false: there are more, which were not counted.")]
    first: Annotated[tuple[MovedDueTime, ...], Shown("The first ten of them.")]


@shown("ZonesDiff")
@dataclass(frozen=True, slots=True)
class ZonesDiff:
    """What other time zone data changes until a time."""

    current: Annotated[str, Shown("The version in use.", example="2026f")]
    new: Annotated[str, Shown("The version compared with; empty if the data does not say.")]
    until: datetime
    zones: Annotated[tuple[str, ...], Shown("Zones whose rules differ.")]
    missing: Annotated[tuple[str, ...], Shown("Zones in use that the new data does not have.")]
    looked_at: Annotated[int, Shown("How many schedules were compared.")]
    schedules: tuple[MovedSchedule, ...]
