"""Splits ranges of held due times into those chosen and those that stay held; pure."""

from __future__ import annotations

from dataclasses import replace
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from duebook.lazy_dataclasses import dataclass
from duebook.model.plan import Reason
from duebook.planner.due import DueTimes, instant_before

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from duebook.model.held import HeldRange
    from duebook.model.plan import ShadowSpan
    from duebook.model.schedule import ScheduleSpec

__all__ = ["Held", "newest_since", "parted"]


@dataclass(frozen=True, slots=True)
class Held:
    """A range with the due times of its definition."""

    range: HeldRange
    due: DueTimes

    @staticmethod
    def of(found: HeldRange, spec: ScheduleSpec) -> Held:
        return Held(found, DueTimes(spec, (), found.held_at, found.schedule))

    @property
    def is_single(self) -> bool:
        """One due time; the definition need not have it, as it may have been moved there."""
        return self.range.due_from == self.range.due_to

    def among(self) -> Iterator[datetime]:
        """Its due times in order."""
        found = self.range
        if self.is_single:
            yield found.due_from
        else:
            yield from self.due.among(instant_before(found.due_from), found.due_to)

    def latest(self) -> Iterator[datetime]:
        """Its due times, the newest one first."""
        after = instant_before(self.range.due_from)
        at: datetime | None = self.range.due_to
        while at is not None:
            yield at
            at = None if self.is_single else self.due.last(after, instant_before(at))

    def covers(self, instant: datetime) -> bool:
        first, last = self.range.due_from, self.range.due_to
        return instant in (first, last) or (first < instant < last and self.due.knows(instant))

    def cut(self, start: datetime, end: datetime) -> tuple[Held | None, list[Held]]:
        """The part from `start` to `end`, both included, and the parts before and after it."""
        first, last = instant_before(self.range.due_from), self.range.due_to
        since = instant_before(start)
        if self.is_single:
            return (self, []) if start <= last <= end else (None, [self])
        inside = self._part(max(first, since), min(last, end))
        if inside is None:
            return None, [self]
        rest = self._part(first, min(last, since)), self._part(max(first, end), last)
        return inside, [part for part in rest if part is not None]

    def _part(self, after: datetime, until: datetime) -> Held | None:
        if after >= until:
            return None
        for skip in self.due.skip_all(after, until, Reason.HELD, {}):
            span = replace(self.range, due_from=skip.due_from, due_to=skip.due_to)
            return replace(self, range=replace(span, count=skip.count, exact=skip.exact))
        return None


def newest_since(ranges: Sequence[Held], number: int) -> datetime:
    """Where the newest `number` due times of all ranges start; if there are fewer, the first."""
    newest = merge(*(held.latest() for held in ranges), reverse=True)
    return list(islice(newest, number))[-1]


def parted(
    shadows: Sequence[ShadowSpan], after: datetime, until: datetime
) -> Iterator[tuple[datetime, bool]]:
    """The ends of the parts of a stretch, in order, and whether each is in shadow mode."""
    for span in shadows:
        begins = min(instant_before(span.start), until)
        ends = until if span.end is None else min(instant_before(span.end), until)
        for end, shadow in ((begins, False), (ends, True)):
            if end > after:
                yield end, shadow
                after = end
    if until > after:
        yield until, False
