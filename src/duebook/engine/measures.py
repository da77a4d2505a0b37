"""Counters of a node's own work: plain numbers that each loop adds to once per batch."""

from __future__ import annotations

import socket
import threading
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from duebook.model.plan import Defer, Fire, Reason, Skip
from duebook.planner.due import lateness_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from duebook.model.plan import Plan
    from duebook.model.run import Claim

__all__ = ["Histogram", "Measures"]

WAITS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
TICKS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
CLAIMS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
LENGTHS: Final = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
STALL: Final = 0.5
"""The part of a lease after which a renewal, due after a third of it, counts as stalled."""


class Histogram:
    """How many values were at most each of the `bounds`, and the sum of all values."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """between each bound and the one before it; the last is above all bounds"""
        self.total = 0.0

    def to_json(self) -> dict[str, Any]:
        return {"bounds": self.bounds, "counts": self.counts, "total": self.total}

    @classmethod
    def load(cls, form: Mapping[str, Any]) -> Histogram:
        found = cls(tuple(form["bounds"]))
        found.counts, found.total = list(form["counts"]), form["total"]
        return found

    def add(self, values: Iterable[float]) -> None:
        bounds, counts = self.bounds, self.counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
            self.total += value


class Measures:
    """One per node; its loops add to the attributes, and reports read them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.node = socket.gethostname()
        self.due = 0
        self.fired = 0
        self.skipped: Counter[str] = Counter()
        self.deferred = 0
        self.set_aside = 0
        self.planned_by_origin: Counter[str] = Counter()
        self.ticks = Histogram(TICKS)
        self.tick_latency = Histogram(WAITS)
        self.lateness = Histogram(WAITS)
        self.queue_wait = Histogram(WAITS)
        self.claims = Histogram(CLAIMS)
        self.claimed = 0
        self.ends: Counter[str] = Counter()
        self.lengths = Histogram(LENGTHS)
        self.takeovers = 0
        self.burials = 0
        self.expired = 0
        self.woken = 0
        self.lease_stalls = 0
        self.sessions_lost = 0
        self.step_failures: Counter[str] = Counter()
        self.web_restarts = 0

    def to_json(self) -> dict[str, Any]:
        """All numbers as they are now; `load` reads them."""
        with self._lock:
            return {
                name: _number_form(value) for name, value in vars(self).items() if name[0] != "_"
            }

    @classmethod
    def load(cls, form: Mapping[str, Any]) -> Measures:
        """The numbers of a node in another process."""
        measures = cls()
        for name, value in form.items():
            former = getattr(measures, name)
            if isinstance(former, Histogram):
                setattr(measures, name, Histogram.load(value))
            else:
                setattr(measures, name, type(former)(value))
        return measures

    def planned(
        self,
        plans: Sequence[Plan],
        fired: int,
        set_aside: int,
        seconds: float = 0.0,
        latency: float | None = None,
    ) -> None:
        """A tick was committed within `seconds` and created `fired` runs; `latency` is the time
        since the first of its schedules should have been planned, if it took any."""
        deferred, skipped, origins = 0, Counter[str](), Counter[str]()
        for plan in plans:
            for decision in plan.decisions:
                if isinstance(decision, Fire):
                    origins[decision.origin] += 1
                elif isinstance(decision, Skip):
                    skipped[decision.reason.value] += decision.count
                elif isinstance(decision, Defer):
                    deferred += 1
        if (doubled := origins.total() - fired) > 0:  # these due times had a run already
            skipped[Reason.ALREADY_STARTED.value] += doubled
        with self._lock:
            self.due += fired + skipped.total()
            self.fired += fired
            self.skipped += skipped
            self.deferred += deferred
            self.set_aside += set_aside
            self.planned_by_origin += origins
            self.ticks.add((seconds,))
            self.tick_latency.add(() if latency is None else (latency,))

    def took(self, claims: Sequence[Claim], seconds: float | None) -> None:
        """A claim returned these within `seconds`; None if they came with a tick."""
        waits, late = _waits(claims)
        with self._lock:
            self.claims.add(() if seconds is None else (seconds,))
            self.claimed += len(claims)
            self.queue_wait.add(waits)
            self.lateness.add(late)

    def ended(self, claims: Sequence[Claim], ends: Sequence[str | None], now: datetime) -> None:
        """Attempts were settled at `now`; an end is None when its token was not current.

        For buffered runs, this is the first news that they started.
        """
        began = [claim.started_at for claim in claims]
        lengths = [(now - at).total_seconds() for at in began if at is not None]
        waits, late = _waits([claim for claim in claims if claim.begun_at is not None])
        counted: Counter[str] = Counter()
        for end, number in Counter(ends).items():
            counted[_end_word(end)] += number
        with self._lock:
            self.ends += counted
            self.lengths.add(lengths)
            self.queue_wait.add(waits)
            self.lateness.add(late)

    def took_over(self, runs: int, sessions: int) -> None:
        with self._lock:
            self.takeovers += runs
            self.burials += sessions

    def ran_out(self, runs: int) -> None:
        """Runs that were not started in time."""
        with self._lock:
            self.expired += runs

    def woke(self, schedules: int) -> None:
        """Schedules that no node would have looked at again."""
        with self._lock:
            self.woken += schedules

    def renewed(self, gap: float, lease: timedelta) -> None:
        """The lease was renewed, `gap` seconds after the time before."""
        if gap > lease.total_seconds() * STALL:
            with self._lock:
                self.lease_stalls += 1

    def lost_session(self) -> None:
        with self._lock:
            self.sessions_lost += 1

    def restarted_web(self) -> None:
        with self._lock:
            self.web_restarts += 1

    def step_failed(self, loop: str) -> None:
        with self._lock:
            self.step_failures[loop] += 1


def _waits(claims: Sequence[Claim]) -> tuple[list[float], list[float]]:
    """How long first attempts waited until they started, and how late those of live due times were,
    in seconds; buffered runs are left out, as they have not started."""
    waits, late = [], []
    for claim in claims:
        run, began = claim.run, claim.started_at
        if run.attempt != 1 or began is None:
            continue
        waits.append((began - run.ready_at).total_seconds())
        if run.origin == "schedule":
            found = lateness_by(run, claim.spec, began)
            if found is not None:
                late.append(found.total_seconds())
    return waits, late


def _number_form(value: Any) -> Any:
    if isinstance(value, Histogram):
        return value.to_json()
    return dict(value) if isinstance(value, Counter) else value


def _end_word(end: str | None) -> str:
    if end is None:
        return "refused"
    return "retried" if end.endswith("to be retried") else end.replace(" ", "_")
