"""The interface of all triggers, and the arithmetic of due seconds behind it.

A trigger is a frozen value; its Timeline is compiled once, shared by equal triggers, and pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from duebook.errors import Invalid, InvalidTime, InvalidTrigger, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.triggers.zones import (
    EPOCH,
    FIRST_SECOND,
    LAST_SECOND,
    Fold,
    Gap,
    Line,
    Pattern,
    from_seconds,
    to_seconds,
    wall_datetime,
    zone_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import tzinfo

__all__ = [
    "COUNT_LIMIT",
    "Bounded",
    "Count",
    "Omission",
    "Timeline",
    "TimelineTrigger",
    "Trigger",
    "TriggerWarning",
    "WallTimeline",
    "check_policy",
    "policy_json",
    "reading",
]

T = TypeVar("T")

COUNT_LIMIT: Final = 100_000


class Count(int):
    """A number of due times; beyond 100,000 it is 100,000 with `exact` False."""

    exact: bool

    def __new__(cls, number: int) -> Count:
        count = super().__new__(cls, min(number, COUNT_LIMIT))
        count.exact = number <= COUNT_LIMIT
        return count

    @classmethod
    def at_least(cls, number: int) -> Count:
        """A lower bound."""
        count = cls(number)
        count.exact = False
        return count

    def __repr__(self) -> str:
        return f"{int(self)}" if self.exact else f"{int(self)}+"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class Omission:
    """A wall time that clocks jumped over: it moved to the end of the gap, or was dropped."""

    wall: datetime
    """naive: what a clock on the wall would have shown"""
    moved_to: datetime | None
    """when it is due instead; None if it is not due"""


@dataclass(frozen=True, slots=True)
class TriggerWarning:
    """Something legal that often surprises; `code` is stable, `text` is for people."""

    code: str
    text: str

    def __str__(self) -> str:
        return self.text


class Timeline(Protocol):
    """The due UTC seconds of a compiled trigger."""

    def next(self, second: int) -> int | None:
        """The first one after `second`."""

    def previous(self, second: int) -> int | None:
        """The last one before `second`."""

    def count(self, after: int, until: int) -> int:
        """How many lie in (after, until]; may stop counting beyond COUNT_LIMIT."""

    def lost(self, after: int, until: int) -> Iterator[tuple[int, int | None]]:
        """Wall seconds that gaps in (after, until] removed, and where they moved to."""


class WallTimeline:
    """A pattern of wall seconds seen through a zone's line."""

    def __init__(self, line: Line, pattern: Pattern) -> None:
        self.line = line
        self.pattern = pattern
        # a tick asks twice, for what is due and what follows; the next tick, or the next schedule
        # with an equal trigger, asks about the same stretches again
        self._stretch = self._stretch_before = (0, 0)
        # each has two consecutive due times, the earlier one first
        self._pair = self._pair_before = (0, 0)
        self.latest: tuple[datetime | None, datetime | None] = (None, None)

    def next(self, second: int) -> int | None:
        start, due = self._stretch
        if start <= second < due:
            return due
        start, due = self._stretch_before
        if start <= second < due:
            return due
        found = self.line.next(self.pattern, second)
        if found is not None:
            if second == self._stretch[1]:
                self._pair, self._pair_before = (second, found), self._pair
            self._stretch, self._stretch_before = (second, found), self._stretch
        return found

    def previous(self, second: int) -> int | None:
        due, following = self._pair_before
        if following == second and due:
            return due
        due, following = self._pair
        if following == second and due:
            return due
        found = self.line.previous(self.pattern, second)
        if found is not None:
            self._pair_before = (found, second)
        return found

    def count(self, after: int, until: int) -> int:
        return self.line.count(self.pattern, after, until, COUNT_LIMIT)

    def lost(self, after: int, until: int) -> Iterator[tuple[int, int | None]]:
        return self.line.lost(self.pattern, after, until)


class Bounded:
    """The due seconds of another timeline from `first` to `last`, either of which may be open."""

    def __init__(self, inner: Timeline, first: int | None, last: int | None) -> None:
        self._inner = inner
        self._first = FIRST_SECOND if first is None else first
        self._last = LAST_SECOND if last is None else last

    def next(self, second: int) -> int | None:
        due = self._inner.next(max(second, self._first - 1))
        return None if due is None or due > self._last else due

    def previous(self, second: int) -> int | None:
        due = self._inner.previous(min(second, self._last + 1))
        return None if due is None or due < self._first else due

    def count(self, after: int, until: int) -> int:
        after, until = max(after, self._first - 1), min(until, self._last)
        return self._inner.count(after, until) if after < until else 0

    def lost(self, after: int, until: int) -> Iterator[tuple[int, int | None]]:
        return self._inner.lost(max(after, self._first - 1), min(until, self._last))


class Trigger(ABC):
    """The rule that yields due times. Build one with cron, every, daily, weekly, at or rrule.

    A frozen value: equal triggers have equal due times. Due times are aware UTC datetimes, and an
    instant without a zone raises InvalidTime (a ValueError).
    """

    __slots__ = ()

    @property
    @abstractmethod
    def text(self) -> str:
        """One line that names the rule, such as `0 * * * *` or `every 15m`."""

    @abstractmethod
    def describe(self) -> str:
        """A readable sentence, with the zone."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The JSON form; `load_trigger` reads it back to an equal trigger."""

    @abstractmethod
    def next_after(self, instant: datetime) -> datetime | None:
        """The first due time after `instant`; None if nothing is due until the year 9999."""

    @abstractmethod
    def previous_before(self, instant: datetime) -> datetime | None:
        """The last due time before `instant`; None if nothing was due since the year 1."""

    @abstractmethod
    def count(self, start: datetime, end: datetime) -> Count:
        """How many due times `between` would find without a limit."""

    def anchored(self, instant: datetime) -> Trigger:  # noqa: ARG002
        """The same rule with its phase fixed at `instant`, for a schedule that is created then.

        A trigger that has its own phase stays as it is.
        """
        return self

    def between(self, start: datetime, end: datetime, limit: int = 1_000) -> list[datetime]:
        """The due times after `start`, up to and including `end`; the first `limit` of them."""
        to_seconds(end)  # rejects naive times
        check_limit(limit)
        found: list[datetime] = []
        while len(found) < limit:
            due = self.next_after(found[-1] if found else start)
            if due is None or due > end:
                break
            found.append(due)
        return found

    def omitted(
        self,
        start: datetime,
        end: datetime,
        limit: int = COUNT_LIMIT,
    ) -> tuple[Omission, ...]:
        """The wall times that gaps after `start`, up to and including `end`, moved or dropped.

        Several wall times of one gap move to the same instant and are due once. An expression with
        a wildcard follows real time: wall times that it would have matched in the gap are dropped.
        Yields the first `limit` of them.
        """
        to_seconds(start), to_seconds(end)  # rejects naive times
        check_limit(limit)
        return ()

    def warnings(self, now: datetime | None = None) -> tuple[TriggerWarning, ...]:  # noqa: ARG002
        """What is legal but often surprises; `now` (default: the current time) determines the year.

        Times in a gap or fold are searched in that year and the next.
        """
        return ()


class TimelineTrigger(Trigger):
    """A trigger with a compiled timeline of whole seconds: every kind but `at`."""

    __slots__ = ()

    @property
    @abstractmethod
    def timeline(self) -> Timeline:
        """The compiled form, shared by equal triggers."""

    def next_after(self, instant: datetime) -> datetime | None:
        due = self.timeline.next(to_seconds(instant))
        return None if due is None else EPOCH + timedelta(0, due)  # the hot path: no further call

    def previous_before(self, instant: datetime) -> datetime | None:
        timeline = self.timeline
        if isinstance(timeline, WallTimeline):
            asked, answer = timeline.latest
            if asked == instant:
                return answer
        due = timeline.previous(to_seconds(instant) + (instant.microsecond > 0))
        found = None if due is None else from_seconds(due)
        if isinstance(timeline, WallTimeline):
            timeline.latest = (instant, found)
        return found

    def count(self, start: datetime, end: datetime) -> Count:
        after, until = to_seconds(start), to_seconds(end)
        return Count(self.timeline.count(after, until) if after < until else 0)

    def omitted(
        self, start: datetime, end: datetime, limit: int = COUNT_LIMIT
    ) -> tuple[Omission, ...]:
        check_limit(limit)
        lost = self.timeline.lost(to_seconds(start), to_seconds(end))
        return tuple(
            Omission(wall_datetime(wall), None if moved is None else from_seconds(moved))
            for wall, moved in islice(lost, limit)
        )


def check_limit(limit: int) -> None:
    """Raise unless it is a valid number of things to return."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise Invalid(f"limit {shorten(limit)} is not a whole number, 0 or greater")


def check_policy(tz: str | tzinfo, gap: str, fold: str) -> tuple[str, Gap, Fold]:
    """Return the zone's name and the two options if all are known; raises InvalidTrigger."""
    if gap not in ("run_after", "skip"):
        raise InvalidTrigger(f'gap "{shorten(gap)}" is not one of run_after, skip', "gap")
    if fold not in ("first", "both"):
        raise InvalidTrigger(f'fold "{shorten(fold)}" is not one of first, both', "fold")
    return zone_name(tz), gap, fold  # type: ignore[return-value]


def policy_json(tz: str, gap: Gap, fold: Fold) -> dict[str, Any]:
    """The options that differ from their defaults."""
    options = {"tz": (tz, "UTC"), "gap": (gap, "run_after"), "fold": (fold, "first")}
    return {name: value for name, (value, default) in options.items() if value != default}


def reading(field: str, parse: Callable[[Any], T], value: object) -> T:
    """parse(value); a ValueError becomes an InvalidTrigger that names the field."""
    try:
        return parse(value)
    except InvalidTime as error:
        raise InvalidTrigger(f"{field}: {error}", field) from None
