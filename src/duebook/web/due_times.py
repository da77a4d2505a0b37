"""Due times as table rows: wall times, with marks where clocks change; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass
from duebook.planner import instant_before
from duebook.timetext import format_time
from duebook.triggers.moves import moved_walls
from duebook.triggers.zones import local_datetime, to_seconds, wall_second, zone

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.schedule import ScheduleSpec

__all__ = ["DueRow", "due_rows", "earlier_due_times"]


_KINDS: Final = {"stop": "stops the flow", "restart": "restarts the flow"}


@dataclass(frozen=True, slots=True)
class DueRow:
    """One due time."""

    at: datetime
    wall: datetime
    """in the schedule's zone, with its offset"""
    marks: tuple[str, ...]
    """what is unusual about it"""


def due_rows(spec: ScheduleSpec, due_times: Sequence[datetime], now: datetime) -> list[DueRow]:
    """Rows with marks where clocks change between two of them, or at one of them."""
    if not due_times:
        return []
    tz = spec.tz
    moved = moved_walls(spec.triggers, instant_before(min(now, due_times[0])), due_times[-1])
    rows: list[DueRow] = []
    before = local_datetime(now, tz)
    for at in due_times:
        wall, marks = local_datetime(at, tz), []
        if (kind := getattr(at, "kind", "start")) != "start":
            marks.append(_KINDS[kind])
        if wall.utcoffset() != before.utcoffset():
            forward = (wall.utcoffset() or wall - wall) > (before.utcoffset() or wall - wall)
            marks.append(f"after the clocks go {'forward' if forward else 'back'}")
        if at in moved:
            marks.append(f"{format_time(moved[at])} does not exist on that day: moved")
        place = wall_second(wall.replace(tzinfo=None))
        clocks = zone(tz)
        if clocks.first_at(place) != clocks.last_at(place) and at not in moved:
            first = to_seconds(at) == clocks.first_at(place)
            marks.append(f"this hour occurs twice: {'first' if first else 'second'} time")
        rows.append(DueRow(at, wall, tuple(marks)))
        before = wall
    return rows


def earlier_due_times(spec: ScheduleSpec, now: datetime, count: int) -> datetime | None:
    """The `count`-th latest due time before `now`; the earliest one if there are fewer."""
    found: datetime | None = None
    for _ in range(count):
        past = (trigger.previous_before(found or now) for trigger in spec.triggers)
        latest = max((at for at in past if at is not None), default=None)
        if latest is None:
            break
        found = latest
    return found
