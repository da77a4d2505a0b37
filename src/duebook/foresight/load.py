"""How many runs are active at any time: exact peaks, and counts per minute."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.foresight.entry import from_micros, micros

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Load", "Sweep"]

MINUTE: Final = 60_000_000


class Sweep(NamedTuple):
    """The load of one window."""

    level: int
    """active runs at its end"""
    peak: int
    peak_at: int
    minutes: dict[int, int]
    """the most active runs in each minute"""


class Load:
    """Collects starts and ends of runs for one window of time at a time, and counts them."""

    def __init__(self, start: datetime, until: datetime) -> None:
        self._start = micros(start) // MINUTE
        length = micros(until) // MINUTE - self._start + 2
        self.started = array("L", bytes(array("L").itemsize * length))
        """runs that started, by minute"""
        self.busiest = array("L", bytes(array("L").itemsize * length))
        """the most active runs, by minute"""
        self._ended = array("L", bytes(array("L").itemsize * length))
        self.level = self.peak = self.peak_at = 0
        self.starts: list[int] = []
        self.ends: list[int] = []

    def clear(self) -> None:
        self.starts.clear()
        self.ends.clear()

    def sweep(self) -> Sweep:
        """Count what was collected; a run that ends makes room for one that starts at the same
        time."""
        starts, ends = sorted(self.starts), sorted(self.ends)
        level, peak, peak_at = self.level, 0, 0
        minutes: dict[int, int] = {}
        ended, number = 0, len(ends)
        for start in starts:
            while ended < number and ends[ended] <= start:
                ended += 1
            now = level + 1 - ended
            level += 1
            minute = start // MINUTE
            if now > minutes.get(minute, 0):
                minutes[minute] = now
                if now > peak:
                    peak, peak_at = now, start
        return Sweep(level - number, peak, peak_at, minutes)

    def accept(self, sweep: Sweep) -> None:
        """Add a window to the total."""
        self.level = sweep.level
        if sweep.peak > self.peak:
            self.peak, self.peak_at = sweep.peak, sweep.peak_at
        for minute, level in sweep.minutes.items():
            self.busiest[minute - self._start] = max(self.busiest[minute - self._start], level)
        started, first = self.started, self._start
        for start in self.starts:
            started[start // MINUTE - first] += 1
        ended = self._ended
        for end in self.ends:
            ended[end // MINUTE - first] += 1
        self.clear()

    def fill(self) -> None:
        """Count runs that started earlier in minutes in which no run starts."""
        level = 0
        for minute, busiest in enumerate(self.busiest):
            if level > busiest:
                self.busiest[minute] = level
            level += self.started[minute] - self._ended[minute]

    def minute_at(self, index: int) -> datetime:
        return from_micros((self._start + index) * MINUTE)
