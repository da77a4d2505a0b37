"""Queues: how many of their runs may be under way, and how many may begin in a while."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, shorten
from duebook.timetext import format_duration, parse_duration

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Gate", "Queue", "QueueLoad", "Rate", "read_rate"]

_RATE: Final = re.compile(r"([0-9]{1,7}) ?/ ?([0-9a-z]*[a-z])", re.ASCII)
MOST: Final = 1_000_000
LONGEST: Final = timedelta(days=1)
UNBOUNDED: Final = 1_000_000_000
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Rate:
    """So many runs begin in every such while; after a rest so many at once."""

    count: int
    per: timedelta

    def __str__(self) -> str:
        per = format_duration(self.per)
        return f"{self.count}/{per.removeprefix('1') if per in ('1s', '1m', '1h', '1d') else per}"

    @property
    def per_second(self) -> float:
        return self.count / self.per.total_seconds()


@dataclass(frozen=True, slots=True)
class Queue:
    """The limits of a queue; None for none."""

    name: str
    concurrency: int | None = None
    """most runs under way at once, over all nodes; 0 holds the queue"""
    rate: Rate | None = None


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """A queue as people see it."""

    queue: Queue
    queued: int
    running: int


@dataclass(frozen=True, slots=True)
class Gate:
    """The limits of a queue and how far they are used up; a bucket of tokens for the rate."""

    queue: Queue
    tokens: float
    refilled_at: datetime

    def tokens_at(self, now: datetime) -> float:
        """A clock that ran back adds nothing and takes nothing."""
        if self.queue.rate is None:
            return self.tokens
        passed = max((now - self.refilled_at).total_seconds(), 0.0)
        filled = self.tokens + passed * self.queue.rate.per_second
        return min(filled, float(self.queue.rate.count))

    def room(self, now: datetime, running: int) -> int:
        """How many runs may begin now."""
        most = UNBOUNDED
        if self.queue.concurrency is not None:
            most = max(self.queue.concurrency - running, 0)
        if self.queue.rate is not None:
            most = min(most, math.floor(self.tokens_at(now) + _ROUNDING))
        return most

    def opens_at(self, now: datetime) -> datetime | None:
        """When the rate lets the next one pass; None when it does so now."""
        missing = 1.0 - self.tokens_at(now)
        if self.queue.rate is None or missing <= _ROUNDING:
            return None
        return now + timedelta(seconds=missing / self.queue.rate.per_second)


def read_rate(key: str, value: Any) -> Rate:
    """Texts such as 10/s, 100/m or 5/10s."""
    if isinstance(value, Rate):
        return value
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise Invalid(f"{key} {shorten(value)} is no rate such as 10/s, 100/m or 5/10s")
    count, length = found.groups()
    try:
        per = parse_duration(length if length[0].isdecimal() else f"1{length}")
    except Invalid as error:
        raise Invalid(f"{key}: {error}") from None
    if not 1 <= int(count) <= MOST:
        raise Invalid(f"{key} {shorten(value)}: the number is not 1 to {MOST:,}")
    if not timedelta(seconds=1) <= per <= LONGEST:
        raise Invalid(f"{key} {shorten(value)}: the while is not 1s to 1d")
    return Rate(int(count), per)
