"""Queues: how many of their runs may be active, and how many may start in a period."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from duebook.errors import Invalid, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Name, Shown, shown
from duebook.timetext import format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "Begun",
    "NamespaceQueue",
    "Queue",
    "QueueLimiter",
    "QueueLoad",
    "Rate",
    "read_rate",
    "shares",
]

_RATE: Final = re.compile(r"([0-9]{1,7}) ?/ ?([0-9a-z]*[a-z])", re.ASCII)
MOST: Final = 1_000_000
LONGEST: Final = timedelta(days=1)
UNBOUNDED: Final = 1_000_000_000
EXACT: Final = 100
"""Up to this rate, each start is kept; beyond it, the period is divided into so many steps."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

NamespaceQueue = tuple[str, str]
"""a queue and a namespace"""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` runs start in any window of length `per`."""

    count: int
    per: timedelta

    def __str__(self) -> str:
        per = format_duration(self.per)
        return f"{self.count}/{per.removeprefix('1') if per in ('1s', '1m', '1h', '1d') else per}"


@shown("Limits")
@dataclass(frozen=True, slots=True)
class Queue:
    """The limits of a queue; None for none."""

    name: Name
    concurrency: Annotated[int | None, Shown("The most runs at the same time; null: no limit.")] = (
        None
    )
    """over all nodes; 0 holds the queue"""
    rate: Annotated[
        Rate | None,
        Shown(
            write=str,
            read=lambda text: read_rate("rate", text),
            json=str | None,
            example="10/s",
        ),
    ] = None


@shown("Queue")
@dataclass(frozen=True, slots=True)
class QueueLoad:
    """The limits of a queue, and how many of its runs are waiting and running."""

    queue: Annotated[Queue, Shown(spread=True)]
    queued: int
    running: int


class Begun(NamedTuple):
    """Runs that started together."""

    at: datetime
    number: int


@dataclass(frozen=True, slots=True)
class QueueLimiter:
    """The limits of a queue, and its most recent starts.

    No window of the rate's period, from any instant until just before the instant one period later,
    has more starts than the rate allows. Starts are kept one by one up to a rate of 100 per period.
    Beyond that, those of one hundredth of the period count as the last of them, so that the limiter
    may open that much later, and never earlier.
    """

    queue: Queue
    begun: tuple[Begun, ...] = ()
    """the oldest first; all of the last period, and some before that in case the period grows"""

    def instant(self, now: datetime) -> datetime:
        """When a run that may start now starts: never before one that has started already."""
        limited = self.queue.rate is not None and self.begun
        return max(now, self.begun[-1].at) if limited else now

    def room(self, now: datetime, running: int) -> int:
        """How many runs may start now."""
        rate, concurrency = self.queue.rate, self.queue.concurrency
        most = UNBOUNDED if concurrency is None else max(concurrency - running, 0)
        if rate is None:
            return most
        since = self.instant(now) - rate.per
        return min(most, max(rate.count - sum(b.number for b in self.begun if b.at > since), 0))

    def opens_at(self, now: datetime) -> datetime | None:
        """When the rate lets the next one start; None if it may start now."""
        rate = self.queue.rate
        if rate is None or self.room(now, 0) > 0:
            return None
        counted = 0
        for begun in reversed(self.begun):
            counted += begun.number
            if counted >= rate.count:
                return begun.at + rate.per
        return None

    def is_ahead(self, now: datetime) -> bool:
        """Whether the clock was set back so far that waiting for it would take too long."""
        rate = self.queue.rate
        return rate is not None and self.instant(now) - now > rate.per

    def set_back(self, now: datetime) -> QueueLimiter:
        """The limiter after the clock was set back that far: starts that seem to be in the future
        count as made now, so that the queue waits for one period at most."""
        return QueueLimiter(
            self.queue, _merged(Begun(min(b.at, now), b.number) for b in self.begun)
        )

    def passed(self, now: datetime, number: int) -> QueueLimiter:
        """The limiter after this many runs have started."""
        rate = self.queue.rate
        if rate is None or not number:
            return self
        at = self.instant(now)
        step = timedelta() if rate.count <= EXACT else rate.per / EXACT
        begun = _merged((*self.begun, Begun(at, number)), step)
        old = sum(b.at <= at - rate.per for b in begun)
        return QueueLimiter(self.queue, begun[min(old, max(len(begun) - EXACT, 0)) :])


def _merged(begun: Iterable[Begun], step: timedelta = timedelta()) -> tuple[Begun, ...]:
    """Merge starts of one instant, or within one step of the clock, into the last of them."""
    merged: list[Begun] = []
    for at, number in begun:
        if merged and (merged[-1].at == at or (step and _same(merged[-1].at, at, step))):
            merged[-1] = Begun(at, merged[-1].number + number)
        else:
            merged.append(Begun(at, number))
    return tuple(merged)


def _same(one: datetime, other: datetime, step: timedelta) -> bool:
    return (one - _EPOCH) // step == (other - _EPOCH) // step


def read_rate(key: str, value: Any) -> Rate:
    """Texts such as 10/s, 100/m or 5/10s; a Rate is checked too."""
    if isinstance(value, Rate):
        return _checked(key, value, value)
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise Invalid(f"{key} {shorten(value)} is not a rate such as 10/s, 100/m or 5/10s")
    count, length = found.groups()
    try:
        per = parse_duration(length if length[0].isdecimal() else f"1{length}")
    except Invalid as error:
        raise Invalid(f"{key}: {error}") from None
    return _checked(key, Rate(int(count), per), value)


def _checked(key: str, rate: Rate, value: Any) -> Rate:
    if not 1 <= rate.count <= MOST:
        raise Invalid(f"{key} {shorten(value)}: the number must be between 1 and {MOST:,}")
    if not timedelta(seconds=1) <= rate.per <= LONGEST or rate.per.microseconds:
        raise Invalid(
            f"{key} {shorten(value)}: the period must be between 1s and 1d, in whole seconds"
        )
    return rate


def shares(
    free: int, places: Sequence[NamespaceQueue], turn: int
) -> list[tuple[NamespaceQueue, int]]:
    """How many of the free slots each place gets; the places take turns for the remainder."""
    each, rest = divmod(free, len(places))
    first = turn % len(places)
    in_turn = [*places[first:], *places[:first]]
    given = [(place, each + (number < rest)) for number, place in enumerate(in_turn)]
    return [(place, share) for place, share in given if share]
