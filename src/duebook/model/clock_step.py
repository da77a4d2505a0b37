"""How steps back of the database's clock affect recorded times; pure.

Times on either side of a step cannot be compared directly, because the clock showed a stretch of
time twice. They can be laid end to end once it is known on which side of each step they are.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_duration, format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ClockStep", "Span", "overlap", "repeated", "shown_before"]

IN_FLIGHT: Final = timedelta(minutes=2)
"""Runs created this shortly before a step may have been committed after it."""


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The database's clock stepped back; a node noticed it at its next heartbeat."""

    before: datetime
    """what the clock would have shown when it was noticed"""
    earliest: datetime
    """the earliest it can have shown right after the step"""
    noticed: datetime
    """what it showed when it was noticed"""
    place: int
    """the newest run at that time, in the order of creation"""
    active: frozenset[str] | None
    """the runs that had not ended; None if there were too many"""

    @property
    def size(self) -> timedelta:
        return self.before - self.noticed

    def __str__(self) -> str:
        size = format_duration(timedelta(seconds=round(self.size.total_seconds())))
        return f"the database clock stepped back by {size} before {format_instant(self.noticed)}"


class Span(NamedTuple):
    """An attempt, or anything else with two times of a run."""

    run_id: str
    place: int
    """the place of its run in the order of creation"""
    created: datetime
    """when its run was created"""
    began: datetime
    ended: datetime | None


def repeated(steps: Sequence[ClockStep], moment: datetime) -> bool:
    """Whether the clock may have shown that time twice."""
    return any(step.earliest <= moment <= step.before for step in steps)


def overlap(steps: Sequence[ClockStep], one: Span, other: Span, slack: timedelta) -> bool:
    """Whether two spans certainly overlapped, wherever their times lie."""
    return all(
        min(one_end, other_end) - max(one_begin, other_begin) > slack
        for one_begin, one_end in _laid_out(steps, one)
        for other_begin, other_end in _laid_out(steps, other)
    )


def shown_before(steps: Sequence[ClockStep], span: Span, moment: datetime) -> bool:
    """Whether the clock may have shown this time before the span started, and then stepped back."""
    most = max(_sides(steps, span, span.began))
    return any(step.before >= moment for step in steps[:most])


def _laid_out(steps: Sequence[ClockStep], span: Span) -> list[tuple[datetime, datetime]]:
    """Where the span may lie when all times are laid end to end."""
    begins = [_unrolled(steps, span.began, side) for side in _sides(steps, span, span.began)]
    if span.ended is None:
        return [(begin, datetime.max.replace(tzinfo=begin.tzinfo)) for begin in begins]
    ends = [_unrolled(steps, span.ended, side) for side in _sides(steps, span, span.ended)]
    found = [(begin, end) for begin in begins for end in ends if begin <= end]
    return found or [(begin, begin) for begin in begins]


def _unrolled(steps: Sequence[ClockStep], moment: datetime, side: int) -> datetime:
    return moment + sum((step.size for step in steps[:side]), timedelta())


def _sides(steps: Sequence[ClockStep], span: Span, moment: datetime) -> list[int]:
    """How many steps may have come before that time of a run; at least one number."""
    least, most = 0, len(steps)
    for number, step in enumerate(steps):
        match _side(step, span, moment):
            case "after":
                least = number + 1
            case "before":
                most = min(most, number)
    sides = range(least, max(least, most) + 1)
    return [side for side in sides if _fits(steps, moment, side)] or list(sides)


def _fits(steps: Sequence[ClockStep], moment: datetime, side: int) -> bool:
    """Whether the clock showed that time between two steps."""
    early = side > 0 and moment < steps[side - 1].earliest
    late = side < len(steps) and moment > steps[side].before
    return not early and not late


def _side(step: ClockStep, span: Span, moment: datetime) -> str:
    if span.place > step.place:
        return "after"
    if step.active is None or span.run_id in step.active:
        return "either"
    fresh = any(step.earliest <= at <= step.noticed for at in (moment, span.created))
    return "either" if fresh or span.created >= step.before - IN_FLIGHT else "before"
