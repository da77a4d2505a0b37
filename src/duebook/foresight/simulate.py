"""Simulates weeks or years of many schedules: schedules that share nothing one by one, and all of
them together when there are too few workers."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from duebook.foresight.alone import Stepper
from duebook.foresight.entry import Entry, micros
from duebook.foresight.load import Load
from duebook.foresight.world import Resources, World
from duebook.lazy_dataclasses import dataclass
from duebook.planner import DueTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duebook.budget import Budget
    from duebook.model.queue import QueueLimiter

__all__ = ["Simulated", "connect", "simulate"]

WEEK: Final = timedelta(days=7)
DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)


@dataclass(slots=True)
class Simulated:
    """Schedules after a simulation from `start` to `until`, and the load that they caused."""

    entries: Sequence[Entry]
    start: datetime
    until: datetime
    workers: int | None
    load: Load

    @property
    def due_times(self) -> int:
        figures = (entry.figures for entry in self.entries)
        waiting = sum(len(list(entry.waiting)) for entry in self.entries)
        return waiting + sum(f.runs + f.undecided + f.skips.total() for f in figures)


def simulate(
    entries: Sequence[Entry],
    start: datetime,
    until: datetime,
    workers: int | None = None,
    limiters: Iterable[QueueLimiter] = (),
    budget: Budget | None = None,
    progress: Callable[[float, int], None] = lambda _part, _due_times: None,
    *,
    in_bulk: bool = True,
) -> Simulated:
    """Simulate everything after `start`, up to and including `until`.

    `progress` gets the share of the time that has passed, and the number of due times so far.
    Without `in_bulk`, every due time goes through the event loop; the result is the same.
    """
    connect(entries)
    shared = Resources(limiters)
    load = Load(start, until)
    found = Simulated(entries, start, until, workers, load)
    course = _Course(found, shared, budget, in_bulk)
    now = start
    while now < until:
        following = min(now + (WEEK if workers is None else DAY), until)
        course.advance(now, following)
        now = following
        progress((now - start) / (until - start), found.due_times)
    load.fill()
    for entry in entries:
        _count_waiting(entry, until, budget)
    return found


def _count_waiting(entry: Entry, until: datetime, budget: Budget | None) -> None:
    """Count as late what has not started by the end: runs, and due times waiting to become runs."""
    figures, known = entry.figures, entry.snapshot
    waiting = [run.due_at for run in entry.waiting if not run.attempt]
    if known.seen and known.watermark is not None:
        due = DueTimes.of(known, until, budget)
        behind = list(due.among(known.watermark, known.seen[-1].until))
        figures.undecided = len(behind)
        waiting += behind
    for due_at in waiting:
        figures.was_late(micros(due_at), micros(until) - micros(entry.ripe_at(due_at)))


def connect(entries: Iterable[Entry]) -> None:
    """Link each schedule with those that it depends on, and with those that depend on it."""
    by_name = {entry.name: entry for entry in entries}
    for entry in by_name.values():
        entry.upstreams = {d.schedule: by_name.get(d.schedule) for d in entry.spec.depends_on}
        for upstream in entry.upstreams.values():
            if upstream is not None and entry not in upstream.dependents:
                upstream.dependents.append(entry)


class _Course:
    """Simulates one window after the other."""

    def __init__(
        self, found: Simulated, shared: Resources, budget: Budget | None, in_bulk: bool
    ) -> None:
        self._found = found
        self._shared = shared
        self._budget = budget
        self._alone: list[Entry] = []
        self._groups: list[list[Entry]] = []
        for group in _groups(found.entries, frozenset(shared.limiters)):
            limited = group[0].spec.queue in shared.limiters
            if len(group) == 1 and not limited and in_bulk:
                self._alone += group
            else:
                self._groups.append(group)

    def advance(self, now: datetime, until: datetime) -> None:
        """Simulate a window as if there were no limit of workers; if they suffice, that is the
        result. Otherwise simulate it again in smaller windows; a small one in which they still do
        not suffice is simulated by one event loop."""
        load, workers = self._found.load, self._found.workers
        if workers is None:
            self._apart(now, until)
            load.accept(load.sweep())
            return
        if not any(next(iter(entry.waiting), None) for entry in self._found.entries):
            saved = [
                (entry, entry.saved())
                for entry in self._found.entries
                if not entry.rests_until(until)
            ]
            limiters = self._shared.saved()
            self._apart(now, until)
            sweep = load.sweep()
            if sweep.peak <= workers:
                load.accept(sweep)
                return
            load.clear()
            self._shared.limiters = limiters
            for entry, state in saved:
                entry.restore(state)
        if until - now > HOUR:
            while now < until:
                following = min(now + HOUR, until)
                self.advance(now, following)
                now = following
            return
        world = World(self._found.entries, now, self._shared, load, workers, self._budget)
        world.advance(until)
        load.accept(load.sweep())

    def _apart(self, now: datetime, until: datetime) -> None:
        """Simulate schedules separately, as if there were always enough workers."""
        load = self._found.load
        stepper = Stepper(now, until, self._shared, load, self._budget)
        for entry in self._alone:
            if not entry.rests_until(until):
                stepper.take(entry)
        for group in self._groups:
            if not all(entry.rests_until(until) for entry in group):
                World(group, now, self._shared, load, budget=self._budget).advance(until)


def _groups(entries: Sequence[Entry], limited: frozenset[str]) -> list[list[Entry]]:
    """Groups of schedules that share something: one depends on another, or their queue has
    limits."""
    group_of = {entry.name: entry.name for entry in entries}

    def first(name: str) -> str:
        while group_of[name] != name:
            group_of[name] = group_of[group_of[name]]
            name = group_of[name]
        return name

    in_queue: dict[str, str] = {}
    for entry in entries:
        linked = [upstream.name for upstream in entry.upstreams.values() if upstream is not None]
        if entry.spec.queue in limited:
            linked.append(in_queue.setdefault(entry.spec.queue, entry.name))
        for name in linked:
            group_of[first(entry.name)] = first(name)
    groups: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[first(entry.name)].append(entry)
    return list(groups.values())
