"""The time whose data a run works on: from the previous due time to its own.

Both are nominal: as the triggers yield them, regardless of manual changes, exclusions and policies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.model.plan import Fire, Handover
from duebook.model.run import Interval
from duebook.planner.merged import TICK as _TICK
from duebook.planner.open_days import open_days
from duebook.triggers.at import At

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Snapshot
    from duebook.model.run import Origin

__all__ = ["handover_of", "interval_of", "last_before", "new_fire", "nominal_time"]


def new_fire(
    snapshot: Snapshot,
    due_at: datetime,
    origin: Origin,
    wakes: bool = False,
    cancels: tuple[str, ...] = (),
) -> Fire:
    """A due time that becomes a run, with its interval."""
    if (found := interval_of(snapshot, due_at)) is None:
        return Fire(due_at, origin, wakes, cancels)
    nominal_at = None if found.end == due_at else found.end
    return Fire(due_at, origin, wakes, cancels, None, found.start, nominal_at)


def interval_of(snapshot: Snapshot, due_at: datetime) -> Interval | None:
    """The interval of a due time; None for a one-off, and if no due time comes before."""
    triggers = snapshot.spec.triggers
    if len(triggers) == 1 and isinstance(triggers[0], At):
        return None
    is_nominal = not snapshot.exceptions and snapshot.spec.calendar is None
    end = due_at if is_nominal else nominal_time(snapshot, due_at)
    start = last_before(snapshot, end)
    return None if start is None else Interval(start, end)


def nominal_time(snapshot: Snapshot, due_at: datetime) -> datetime:
    """The due time of the triggers that a due time stands for: a different one if it was moved, or
    rolled to another day by its calendar."""
    if _yields(snapshot, due_at):
        return due_at
    moved_from = (e.moved_from for e in snapshot.exceptions if e.due_at == due_at)
    origin = next((at for at in moved_from if at is not None), due_at)
    days = open_days(snapshot.spec)
    return (days and days.rolled_from(origin)) or origin


def handover_of(snapshot: Snapshot, at: datetime) -> Handover:
    """What a definition that applies up to `at` leaves to the next one."""
    return Handover(at, last_before(snapshot, at + _TICK))


def last_before(snapshot: Snapshot, instant: datetime) -> datetime | None:
    """The last due time before `instant`, by the definition in use at that time."""
    triggers, handover = snapshot.spec.triggers, snapshot.handover
    if len(triggers) == 1:
        last = triggers[0].previous_before(instant)
    else:
        found = (trigger.previous_before(instant) for trigger in triggers)
        last = max((at for at in found if at is not None), default=None)
    if handover is None or instant <= handover.at or (last is not None and last > handover.at):
        return last
    return handover.last_due_at or last


def _yields(snapshot: Snapshot, instant: datetime) -> bool:
    before = instant - _TICK
    return any(trigger.next_after(before) == instant for trigger in snapshot.spec.triggers)
