"""Steps through the due times of a schedule that nothing else affects, many at once.

As long as its runs start when they are planned, a due time that finds the schedule idle runs, and
one that finds it busy is skipped (`overlap=skip`) or also runs (`allow`). The planner is called
once for each of these cases, and its decision is repeated. Everything else is left to the event
loop.
"""

from __future__ import annotations

from bisect import bisect_right
from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.foresight.entry import SimulatedRun, Traced, from_micros, in_micros, micros
from duebook.foresight.world import World
from duebook.model.plan import ActiveRun, Fire, Reason, Skip
from duebook.planner import DueTimes, plan
from duebook.planner.due import LONGEST_UNRECORDED
from duebook.triggers.base import TimelineTrigger
from duebook.triggers.zones import to_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from datetime import datetime

    from duebook.budget import Budget
    from duebook.foresight.entry import Entry
    from duebook.foresight.load import Load
    from duebook.foresight.world import Resources
    from duebook.model.schedule import ScheduleSpec

__all__ = ["Stepper"]

SECOND: Final = 1_000_000
NEVER: Final = 1 << 62


class DueStretch(NamedTuple):
    """The due times of a window, the next one after it, and the shortest time between two."""

    due: list[int]
    following: int | None
    gap: int


class Judged(NamedTuple):
    """Which due times run, and the one from which the event loop must decide."""

    due: list[int]
    begin: list[int]
    skipped: int
    stop: int | None


class Stepper:
    """Takes schedules through one window of time, one after the other."""

    def __init__(
        self,
        after: datetime,
        until: datetime,
        shared: Resources,
        load: Load,
        budget: Budget | None = None,
    ) -> None:
        self._after, self._until = after, until
        self._last = micros(until)
        self._shared = shared
        self._load = load
        self._budget = budget
        self._known: dict[Hashable, DueStretch] = {}
        """shared by equal triggers, which are due at the same times"""

    def take(self, entry: Entry) -> None:
        """Simulate everything up to and including the end of the window."""
        now: datetime | None = self._after
        while now is not None and _can_step(entry, now, self._until):
            stretch = self._stretch(entry, now)
            if not self._keeps_apart(entry, stretch):
                break
            busy_at = self._step(entry, stretch)
            if busy_at is None:
                return
            now = self._live(entry, busy_at, lambda: entry.idle)
        if now is not None:
            self._live(entry, now, lambda: False)

    def _live(self, entry: Entry, now: datetime, stop: Callable[[], bool]) -> datetime | None:
        world = World([entry], now, self._shared, self._load, budget=self._budget)
        return world.advance(self._until, stop)

    def _step(self, entry: Entry, stretch: DueStretch) -> datetime | None:
        """Step to the end of the window, or to a due time that finds the schedule busy if the event
        loop must decide it; returns that due time's planned time."""
        if self._budget is not None:
            self._budget.spend()
        planned = _planned(entry, stretch.due)
        number = len(planned) if not entry.spec.jitter else bisect_right(planned, self._last)
        takes, ended = in_micros(entry.takes), _last_end(entry)
        apart = stretch.gap - in_micros(entry.spec.jitter) > takes
        if _never_busy(entry) or (apart and (not number or planned[0] > ended)):
            begin = planned[:number] if number < len(planned) else planned
            judged = Judged(stretch.due, begin, 0, None)
            if begin and not entry.spec.instant:
                entry.figures.overlaps += begin[0] <= ended
            if takes >= stretch.gap and not entry.spec.instant:
                entry.figures.overlaps += sum(b - a <= takes for a, b in pairwise(begin))
        else:
            judged = _judge(entry, stretch.due, planned[:number], takes, ended)
        stop = judged.stop
        until = self._last if stop is None else planned[stop] - 1
        self._end(entry, until)
        self._begin(entry, judged, takes, until)
        self._move_on(entry, planned, number if stop is None else stop)
        if stop is not None:
            entry.wake_at = from_micros(planned[stop])
            return entry.wake_at
        following = planned[number] if number < len(planned) else None
        if following is None and stretch.following is not None:
            (following,) = _planned(entry, [stretch.following])
        entry.wake_at = None if following is None else from_micros(following)
        return None

    def _keeps_apart(self, entry: Entry, stretch: DueStretch) -> bool:
        """Whether each due time is planned before the next one comes, no maintenance window is
        near, and excluded due times are recorded with the due time after them."""
        spec, known = entry.spec, entry.snapshot
        after, until = known.watermark or self._after, self._until
        if stretch.following is not None:
            until = max(until, from_micros(stretch.following))
        elif _leaves_out(spec):
            return False
        if any(window.end > after and window.start <= until for window in known.windows):
            return False
        if spec.calendar is not None:
            steps = pairwise([micros(after), *stretch.due, micros(until)])
            if max(b - a for a, b in steps) > in_micros(LONGEST_UNRECORDED):
                return False
        return stretch.gap > in_micros(spec.jitter)

    def _stretch(self, entry: Entry, now: datetime) -> DueStretch:
        """The due times after the watermark, in microseconds."""
        spec, after = entry.spec, entry.snapshot.watermark or now
        trigger, due = spec.triggers[0], []
        bounded = spec.start_at or spec.end_at or _leaves_out(spec) or len(spec.triggers) > 1
        if bounded or not isinstance(trigger, TimelineTrigger):
            known = DueTimes.of(entry.snapshot, now, self._budget)
            found = known.next_after(after)
            while found is not None and found <= self._until:
                due.append(micros(found))
                found = known.next_after(found)
            return _stretched(due, None if found is None else micros(found))
        key = (trigger, first := to_seconds(after))
        if key not in self._known:
            following, until = trigger.timeline.next, to_seconds(self._until)
            at = following(first)
            while at is not None and at <= until:
                due.append(at * SECOND)
                at = following(at)
                if self._budget is not None:
                    self._budget.spend()
            self._known[key] = _stretched(due, None if at is None else at * SECOND)
        return self._known[key]

    def _end(self, entry: Entry, until: int) -> None:
        """End earlier runs on time."""
        for run in entry.runs[:]:
            if run.ends_at is not None and run.started_at is not None:
                end, began = micros(run.ends_at), micros(run.started_at)
                if end <= until:
                    self._load.ends.append(max(end, began + 1))
                    entry.figures.busy += end - began
                    entry.runs.remove(run)

    def _begin(self, entry: Entry, judged: Judged, takes: int, until: int) -> None:
        """Start runs when they are planned; they end on time or are left running."""
        due, begin, figures = judged.due, judged.begin, entry.figures
        entry.snapshot.fired += len(begin)
        figures.runs += len(begin)
        if figures.trace is not None:
            figures.trace += [Traced(*pair) for pair in zip(due, begin, strict=False)]
        if judged.skipped:
            figures.skips[Reason.OVERLAP.value] += judged.skipped
            figures.overlaps += judged.skipped
        if entry.spec.instant:
            return
        over = bisect_right(begin, until - takes)
        length = max(takes, 1)
        self._load.starts += begin
        self._load.ends += [at + length for at in begin[:over]]
        figures.busy += takes * over
        for number in range(over, len(begin)):
            self._shared.number += 1
            at = from_micros(begin[number])
            run = SimulatedRun(entry, self._shared.number, from_micros(due[number]), at, at)
            run.status, run.attempt, run.started_at = "running", 1, at
            run.ends_at, run.wakes = at + entry.takes, True
            entry.runs.append(run)

    def _move_on(self, entry: Entry, planned: list[int], decided: int) -> None:
        """Mark due times as decided; excluded ones are recorded with the due time after them."""
        known, before = entry.snapshot, entry.snapshot.watermark or self._after
        leaves_out = _leaves_out(entry.spec)
        if decided == len(planned) and not leaves_out:
            known.watermark = self._until
        elif decided:
            known.watermark = from_micros(planned[decided - 1])
            if leaves_out:
                due = DueTimes.of(known, before, self._budget)
                for skip in due.left_out(before, known.watermark):
                    entry.figures.left_out(skip)


def _judge(entry: Entry, due: list[int], planned: list[int], takes: int, ended: int) -> Judged:
    """Decide one by one: due times that find a run active are skipped, or left to the event
    loop."""
    skips, skipped = entry.spec.overlap == "skip", 0
    ran: list[int] = []
    begin: list[int] = []
    for number, at in enumerate(planned):
        if at > ended:
            ran.append(due[number])
            begin.append(at)
            ended = at + takes
        elif skips:
            skipped += 1
        else:
            return Judged(ran, begin, 0, number)
    return Judged(ran, begin, skipped, None)


def _stretched(due: list[int], following: int | None) -> DueStretch:
    return DueStretch(due, following, min((b - a for a, b in pairwise(due)), default=NEVER))


def _planned(entry: Entry, due: list[int]) -> list[int]:
    """When due times are planned, which jitter can delay."""
    if not entry.spec.jitter:
        return due
    return [micros(entry.ripe_at(from_micros(at))) for at in due]


def _leaves_out(spec: ScheduleSpec) -> bool:
    """Whether some days of the schedule are excluded or closed."""
    return bool(spec.exclude) or spec.calendar is not None


def _last_end(entry: Entry) -> int:
    return max((micros(run.ends_at) for run in entry.runs if run.ends_at), default=-NEVER)


def _never_busy(entry: Entry) -> bool:
    """Whether a due time can always run, whatever else is running."""
    return entry.spec.instant or entry.spec.overlap == "allow"


def _can_step(entry: Entry, now: datetime, until: datetime) -> bool:
    """Whether the schedule can be stepped through in its present state."""
    known = entry.snapshot
    if known.status != "active" or known.seen or known.exceptions or known.delay is not None:
        return False
    if any(run.status != "running" or run.stopped for run in entry.runs):
        return False
    if entry.steps is None:
        if not _is_simple(entry):
            entry.steps = False
        elif (due_at := _next_due(entry, now)) is None or due_at > until:
            return True  # nothing is due; times after the last year cannot be planned
        else:
            entry.steps = _planner_agrees(entry, now, due_at)
    return entry.steps


def _is_simple(entry: Entry) -> bool:
    """Whether the decision about a due time depends only on the run before it."""
    spec = entry.spec
    if not spec.triggers or spec.depends_on or spec.controlled or spec.max_runs is not None:
        return False
    if spec.calendar is not None and spec.calendar.roll != "skip":
        return False
    if spec.overlap == "allow" and spec.max_concurrent:
        return False
    if entry.snapshot.manual_success is not None and spec.skip_if_successful:
        return False
    return spec.timeout is None or entry.takes <= spec.timeout


def _next_due(entry: Entry, now: datetime) -> datetime | None:
    return DueTimes.of(entry.snapshot, now).next_after(entry.snapshot.watermark or now)


def _planner_agrees(entry: Entry, now: datetime, due_at: datetime) -> bool:
    """Ask the planner about the next due time, for an idle schedule and for a busy one."""
    at, snapshot = entry.ripe_at(due_at), copy(entry.snapshot)
    snapshot.active = ()
    if due_at not in {d.due_at for d in plan(snapshot, at).decisions if isinstance(d, Fire)}:
        return False
    if entry.spec.overlap not in ("skip", "allow"):
        return True
    snapshot.active = (ActiveRun("before", now, now),)
    decisions = plan(snapshot, at).decisions
    if _never_busy(entry):
        return any(isinstance(d, Fire) and d.due_at == due_at for d in decisions)
    return any(isinstance(d, Skip) and d.reason == Reason.OVERLAP for d in decisions)
