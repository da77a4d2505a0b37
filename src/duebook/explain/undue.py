"""Explains why nothing is due at an instant: by fields, bounds, gaps and folds; pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from duebook.errors import InvalidTime
from duebook.explain.words import Clock, day_text, wall_text
from duebook.planner import DueTimes, instant_before
from duebook.timetext import format_duration, format_instant
from duebook.triggers.at import At
from duebook.triggers.cron import Cron
from duebook.triggers.every import Every
from duebook.triggers.zones import from_seconds, to_seconds, wall_datetime, wall_second, zone

if TYPE_CHECKING:
    from duebook.budget import Budget
    from duebook.model.schedule import ScheduleSpec
    from duebook.triggers import Trigger
    from duebook.triggers.typed_time import TypedTime

__all__ = [
    "check_years",
    "gap_text",
    "in_fold",
    "omitted_at",
    "raw_due_times",
    "undue_text",
    "zone_of",
]

FIRST: Final = datetime.min.replace(tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


def zone_of(spec: ScheduleSpec | None) -> str:
    """The zone of a definition; UTC if this node cannot read it."""
    return spec.tz if spec else "UTC"


def check_years(instant: datetime) -> None:
    """Raises InvalidTime for an instant at the very start or end of the calendar."""
    if not 1900 <= instant.year <= 9000:
        raise InvalidTime(f"{format_instant(instant)} is outside the years 1900 to 9000")


def gap_text(asked: TypedTime, now: datetime) -> str:
    """`02:30 did not exist on 9 March (clocks moved from 02:00 to 03:00)`"""
    assert asked.wall is not None and asked.jump is not None  # noqa: S101, PT018 - a gap
    before, after = (wall_text(wall_datetime(at)) for at in (asked.jump.before, asked.jump.after))
    exist, move = ("did", "moved") if asked.at <= now else ("does", "move")
    wall = f"{wall_text(asked.wall)} {exist} not exist on {day_text(asked.wall)}"
    return f"{wall} (clocks {move} from {before} to {after})"


def omitted_at(spec: ScheduleSpec, asked: TypedTime) -> tuple[bool, str | None]:
    """Whether the definition has the wall time, and what excluded it, if anything did."""
    why = None
    for trigger in spec.triggers:
        for omission in trigger.omitted(asked.at - _SECOND, asked.at):
            if omission.wall == asked.wall and omission.moved_to is not None:
                return True, None
            if omission.wall == asked.wall:
                why = _why_left_out(trigger)
    return why is not None, why


def _why_left_out(trigger: Trigger) -> str:
    if getattr(trigger, "gap", "") == "skip":
        return "gap=skip skipped it"
    if isinstance(trigger, Cron) and trigger.follows_real_time:
        return "an expression with a star there follows real time, which skipped it"
    return "due times in a jump this long are not run later"


def raw_due_times(spec: ScheduleSpec, budget: Budget | None = None) -> DueTimes:
    """What the triggers yield within the bounds, and where that rolls, ignoring excluded and closed
    days."""
    return DueTimes.everything(spec, budget)


def in_fold(raw: DueTimes, at: datetime, clock: Clock, now: datetime) -> str | None:
    """A sentence about the second pass of a wall time that is due only the first time."""
    wall = clock.wall(at)
    first = zone(clock.tz).first_at(wall_second(wall))
    if first >= to_seconds(at) or not raw.knows(from_seconds(first)):
        return None
    came = "came" if at <= now else "comes"
    where = f"{day_text(wall)} in {clock.tz}"
    return f"{wall_text(wall)} {came} twice on {where}; it is due only the first time"


def undue_text(spec: ScheduleSpec, due: DueTimes, at: datetime, wall: datetime, tz: str) -> str:
    """Why nothing is due at `at`, at which clocks show, or would have shown, `wall`; and what is
    due next."""
    clock = Clock(tz, at)
    if spec.start_at and at < spec.start_at:
        why = f"the schedule starts on {clock.full(spec.start_at)}"
    elif spec.end_at and at > spec.end_at:
        why = f"the schedule ended on {clock.full(spec.end_at)}"
    else:
        why = _why_undue(spec.triggers, wall, clock)
    following = due.next_after(at)
    if following is not None:
        return f"not due: {why}; the next is {clock.full(following)}"
    last = due.last(FIRST, instant_before(at))
    return (
        f"not due: {why}; "
        f"{f'the last was {clock.full(last)}' if last else 'there are no due times'}"
    )


def _why_undue(triggers: tuple[Trigger, ...], wall: datetime, clock: Clock) -> str:
    if not triggers:
        return "the flow starts only manually"
    trigger = triggers[0]
    if len(triggers) > 1:
        return f"none of its {len(triggers)} triggers matches it"
    if isinstance(trigger, Cron):
        return trigger.why_not(wall) or "it is between two due times"
    if isinstance(trigger, Every):
        since = f" from {clock.full(trigger.anchor)}" if trigger.anchor else ""
        return f"every {format_duration(trigger.period)}{since}"
    if isinstance(trigger, At):
        return "it is due only once"
    text = trigger.describe()
    return f"{text[0].lower()}{text[1:]}"
