"""Warns of triggers that are legal but often surprise; decides nothing."""

from __future__ import annotations

from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from duebook.clock import utc_now
from duebook.triggers.base import TriggerWarning
from duebook.triggers.words import clock, join
from duebook.triggers.zones import DAY, Line, Pattern, members, to_seconds, wall_datetime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.triggers.fields import Field, Fields
    from duebook.triggers.zones import Jump

__all__ = ["cron_cautions", "jump_cautions", "policy_cautions"]


def cron_cautions(fields: Fields, gap: str, fold: str) -> Iterator[TriggerWarning]:
    """Surprises in the expression itself: uneven steps, two day fields, options without effect."""
    for field in dataclass_fields(fields):
        yield from _uneven_step(getattr(fields, field.name))
    if fields.either_day:
        yield TriggerWarning(
            "both_days",
            "day-of-month and day-of-week are both restricted: a day that matches either is due",
        )
    if fields.follows_real_time:
        yield from policy_cautions(gap, fold, "an expression with * in hour, minute or second")


def policy_cautions(gap: str, fold: str, kind: str) -> Iterator[TriggerWarning]:
    """Options that have no effect on triggers that follow real time."""
    if (gap, fold) != ("run_after", "first"):
        yield TriggerWarning(
            "no_effect", f"gap and fold have no effect: {kind} is not affected by clock changes"
        )


def _uneven_step(field: Field) -> Iterator[TriggerWarning]:
    base, slash, step = field.text.partition("/")
    open_range = base in ("*", "?") or base.isalnum()  # a number or H with a step runs to the end
    if slash and open_range and step.isdigit() and (why := _why_uneven(field, int(step))):
        yield TriggerWarning("uneven_step", f"{field.text} {why}")


def _why_uneven(field: Field, step: int) -> str:
    """Why the values of a field are unevenly spaced around the clock or the calendar."""
    name, values = field.spec.name, field.values
    if len(values) == 1:
        return f"is {name} {values[0]} only: a step of {step} leaves the range immediately"
    last_gap = field.span - values[-1] + values[0]
    if name == "day-of-month" and step > 1:
        return f"starts again each month: day {values[-1]} is followed by day {values[0]}"
    if last_gap < step:
        return (
            f"is uneven, as {step} does not divide {field.span}: {name} {values[-1]} is followed "
            f"by {values[0]}, only {last_gap} later"
        )
    return ""


def jump_cautions(line: Line, pattern: Pattern, now: datetime | None) -> Iterator[TriggerWarning]:
    """Times of the pattern that clocks will jump over or repeat, to the end of next year."""
    moment = now or utc_now()
    start = to_seconds(moment)
    end = to_seconds(datetime(min(moment.year + 2, 9999), 1, 1, tzinfo=UTC))
    for jump in line.zone.jumps(start, end):
        low, high = sorted((jump.before, jump.after))
        times = list(members(pattern, low, high))
        if times:
            yield _gap(line, jump, times) if jump.after > jump.before else _fold(line, jump, times)


def _gap(line: Line, jump: Jump, times: list[int]) -> TriggerWarning:
    moved = line.catches_up(jump)
    plural = len(times) > 1
    verb = "they are" if plural else "it is"
    return TriggerWarning(
        "dst_gap",
        f"{_times(times)} {'do' if plural else 'does'} not exist on {_date(times[0])} in "
        f"{line.zone.name} (clocks go from {_clock(jump.before)} to {_clock(jump.after)}): "
        + (f"{verb} due at {_clock(jump.after)} instead" if moved else f"{verb} skipped that day"),
    )


def _fold(line: Line, jump: Jump, times: list[int]) -> TriggerWarning:
    plural = len(times) > 1
    which = "the first time only" if line.fold == "first" else "both times"
    return TriggerWarning(
        "dst_fold",
        f"{_times(times)} {'happen' if plural else 'happens'} twice on {_date(times[0])} in "
        f"{line.zone.name} (clocks go back from {_clock(jump.before)} to {_clock(jump.after)}): "
        f"{'they are' if plural else 'it is'} due {which}",
    )


def _times(walls: list[int]) -> str:
    shown = [_clock(wall) for wall in walls[:3]]
    if len(walls) > 3:
        shown[2:] = [f"{len(walls) - 2} more times"]
    return join(shown)


def _clock(wall: int) -> str:
    return clock(wall % DAY)


def _date(wall: int) -> str:
    return f"{wall_datetime(wall):%Y-%m-%d}"
