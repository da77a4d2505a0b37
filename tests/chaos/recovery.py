"""How long it takes after each kind of fault until runs start on time again, judged by the evidence
of one steady schedule; the normal lateness is measured before the first fault."""

from __future__ import annotations

import os
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.nodes import Evidence

SHORTEST: Final = 0.5
"""Seconds; less than that counts as on time, whatever the machine does."""
TIMES: Final = 2
"""A start is late if it takes this many times as long as the slowest one in the calm."""
IN_ROW: Final = 3
"""This many due times in a row that started on time count as calm."""


@dataclass(frozen=True)
class Disturbance:
    """A fault of one kind, from its start until everything was available again."""

    kind: str
    began: float
    ended: float


@dataclass
class Recovery:
    """The normal lateness, and the faults that disturbed it."""

    beat: str
    """the schedule that is never changed, and whose starts show what is late"""
    normal: float = SHORTEST
    disturbances: list[Disturbance] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def learn(self, calm: Iterable[Evidence]) -> None:
        """Measure the normal lateness by starts before the first fault."""
        slowest = max((late(line) for line in calm if line.schedule == self.beat), default=0)
        self.normal = max(SHORTEST, TIMES * slowest)

    def note(self, kind: str, began: float) -> None:
        """Record that a fault is over now."""
        self.disturbances.append(Disturbance(kind, began, time.time()))
        self.loads.append(os.getloadavg()[0])

    def is_calm(self, starts: list[Evidence], since: float) -> bool:
        """Whether the last due times after `since` all started on time."""
        beats = [line for line in starts if line.schedule == self.beat and line.due > since]
        recent = beats[-IN_ROW:]
        return len(recent) == IN_ROW and all(late(line) <= self.normal for line in recent)

    def seconds(self, starts: Iterable[Evidence]) -> dict[str, list[float]]:
        """By kind: from the end of each fault to the last late start of the beat, or of any run
        that a node had lost; 0 if there was none. `starts` are of schedules that retry nothing by
        themselves."""
        lines = sorted(starts, key=lambda line: line.at)
        followers = [*self.disturbances, None][1:]
        found: dict[str, list[float]] = defaultdict(list)
        for here, following in zip(self.disturbances, followers, strict=True):
            until = following.began if following else float("inf")
            held_up = [
                line.at
                for line in lines
                if here.began <= line.at < until and self._is_held_up(line)
            ]
            found[here.kind].append(max(max(held_up, default=here.ended) - here.ended, 0))
        return dict(found)

    def _is_held_up(self, line: Evidence) -> bool:
        return line.attempt > 1 or (line.schedule == self.beat and late(line) > self.normal)

    def told(self, starts: Iterable[Evidence]) -> Iterator[str]:
        """The results as a table."""
        found = self.seconds(starts)
        if not found:
            return
        load = statistics.median(self.loads)
        yield (
            f"recovery: seconds after a fault until runs start within {self.normal:.1f} s of their"
            f" due time again, at a load of {load:.1f} on {os.cpu_count()} cores"
        )
        yield f"  {'kind of fault':32}{'times':>6}{'median':>9}{'longest':>9}"
        for kind, taken in sorted(found.items()):
            median, longest = statistics.median(taken), max(taken)
            yield f"  {kind:32}{len(taken):>6}{median:>9.1f}{longest:>9.1f}"


def late(line: Evidence) -> float:
    return line.at - line.due
