"""The event loop: due times, starts and ends in the order of virtual time. The planner decides
about due times; queues and workers are modelled after stores and nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from duebook.foresight.entry import SimulatedRun, is_moved, micros
from duebook.model.fate import TriedAgain, fate_of
from duebook.model.plan import ActiveRun, Defer, Fire, Reason, Skip, Upstream
from duebook.model.queue import shares
from duebook.model.run import Outcome
from duebook.planner import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from duebook.budget import Budget
    from duebook.foresight.entry import Entry
    from duebook.foresight.load import Load
    from duebook.model.plan import Plan
    from duebook.model.queue import QueueLimiter

__all__ = ["Resources", "World"]

BATCH: Final = 1_000
"""Schedules that one tick plans, as on a node."""
UNLIMITED: Final = 1_000_000_000
BLAMED: Final = 3
"""Schedules that are blamed for the wait of one run."""
TIMEOUT: Final = Outcome("failed", "timeout", "it took longer than its timeout")

Waiting = tuple[int, "datetime", int, SimulatedRun]
"""a run with its position in its queue"""


class Resources:
    """What runs share: workers, limits of queues, and a counter."""

    def __init__(self, limiters: Iterable[QueueLimiter] = (), workers: int | None = None) -> None:
        self.limiters = {limiter.queue.name: limiter for limiter in limiters}
        self.workers = workers
        self.number = 0
        self.turn = 0

    def saved(self) -> dict[str, QueueLimiter]:
        return dict(self.limiters)


class World:
    """Some schedules and all their runs, from one instant to another.

    At each instant, in this order: runs that waited too long expire; then, until nothing changes
    any more, due schedules are planned, runs that have ended are settled, and ready runs start.
    `testing.Simulation` uses the same order, with the loops of a node.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        now: datetime,
        shared: Resources,
        load: Load,
        workers: int | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._shared = shared
        self._load = load
        self._free = UNLIMITED if workers is None else workers
        self._budget = budget
        self._wakes: list[tuple[datetime, str, Entry]] = []
        self._ends: list[tuple[datetime, int, SimulatedRun]] = []
        self._later: list[tuple[datetime, int, SimulatedRun]] = []
        self._expiries: list[tuple[datetime, int, SimulatedRun]] = []
        self._looks: list[datetime] = []
        self._ready: defaultdict[str, list[Waiting]] = defaultdict(list)
        self._held: defaultdict[str, list[Waiting]] = defaultdict(list)
        """runs that wait for other runs of their schedule (`max_concurrent`)"""
        self._holding: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """by queue: how many runs of each schedule are running"""
        self._fresh: list[SimulatedRun] = []
        for entry in entries:
            if entry.wake_at is not None:
                heappush(self._wakes, (entry.wake_at, entry.id, entry))
            for run in entry.runs:
                self._resume(run, now)

    def _resume(self, run: SimulatedRun, now: datetime) -> None:
        """Continue a run that was active at the start."""
        if run.ends_at is not None:
            heappush(self._ends, (run.ends_at, run.number, run))
            self._free -= 1
            self._holding[run.entry.spec.queue][run.entry.name] += 1
            return
        if run.expires_at is not None and not run.attempt:
            heappush(self._expiries, (run.expires_at, run.number, run))
        self._queue(run, now)
        heappush(self._looks, now)

    # -- time

    def advance(self, until: datetime, stop: Callable[[], bool] = lambda: False) -> datetime | None:
        """Simulate everything up to and including `until`; returns when it stopped, if earlier."""
        while (now := self._next()) is not None and now <= until:
            self._at(now)
            if stop():
                return now
        return None

    def _next(self) -> datetime | None:
        found = self._wakes[0][0] if self._wakes else None
        if self._ends and (found is None or self._ends[0][0] < found):
            found = self._ends[0][0]
        for rare in (self._later, self._expiries):
            if rare and (found is None or rare[0][0] < found):
                found = rare[0][0]
        if self._looks and (found is None or self._looks[0] < found):
            found = self._looks[0]
        return found

    def _at(self, now: datetime) -> None:
        while self._looks and self._looks[0] <= now:
            heappop(self._looks)
        self._expire(now)
        while self._later and self._later[0][0] <= now:
            _, _, run = heappop(self._later)
            if run.status == "queued" and run.ends_at is None:
                heappush(self._ready[run.entry.spec.queue], (*run.place, run))
        while True:
            self._tick(now)
            ended = self._settle(now)
            begun = self._claim(now)
            if not ended and not begun and not (self._wakes and self._wakes[0][0] <= now):
                break
        if self._fresh:
            self._blame(now)

    # -- plans

    def _tick(self, now: datetime) -> None:
        taken: list[Entry] = []
        while self._wakes and self._wakes[0][0] <= now and len(taken) < BATCH:
            wake_at, _, entry = heappop(self._wakes)
            if entry.wake_at == wake_at:
                entry.wake_at = None
                taken.append(entry)
        plans = [(entry, self._plan(entry, now)) for entry in taken]
        for entry, planned in plans:
            self._commit(entry, planned, now)

    def _plan(self, entry: Entry, now: datetime) -> Plan:
        """The planner's plan, given a snapshot with what a store would return."""
        if self._budget is not None:
            self._budget.spend()
        snapshot, spec = entry.snapshot, entry.spec
        if spec.heeds_runs:
            snapshot.active = _active(entry) if entry.runs else ()
        if not spec.plain:
            snapshot.settled_at = entry.settled_at if snapshot.considered_at else None
            if spec.depends_on:
                snapshot.upstreams = {
                    name: Upstream(up is not None, None if up is None else up.succeeded_at)
                    for name, up in entry.upstreams.items()
                }
        return plan(snapshot, now)

    def _commit(self, entry: Entry, planned: Plan, now: datetime) -> None:
        snapshot, figures, was_busy = entry.snapshot, entry.figures, bool(entry.runs)
        if snapshot.status != planned.status:
            snapshot.status, snapshot.paused_until = planned.status, None
        snapshot.watermark, snapshot.seen = planned.watermark, planned.seen
        snapshot.considered_at, snapshot.delay = planned.considered_at, planned.delay
        snapshot.fired = planned.fired
        if planned.controlled_until is not None:
            snapshot.controlled_until = planned.controlled_until
        if planned.used:
            snapshot.exceptions = tuple(e for e in snapshot.exceptions if e not in planned.used)
        self._wake(entry, planned.wake_at)
        for decision in planned.decisions:
            if isinstance(decision, Fire):
                self._fire(entry, decision, now)
                figures.overlaps += was_busy
                was_busy = True
            elif isinstance(decision, Skip):
                figures.left_out(decision)
                figures.overlaps += decision.count if _overlaps(decision) else 0
            elif isinstance(decision, Defer):
                new = decision.due_at != entry.deferred
                figures.overlaps += new and decision.reason == Reason.OVERLAP
                entry.deferred = decision.due_at
                self._give_way(entry, decision.cancels, now)
        if planned.command is not None:
            self._give_way(entry, [run.id for run in entry.runs], now)
            if planned.command.kind == "restart":
                self._fire(entry, Fire(planned.command.due_at, "schedule"), now)

    def _wake(self, entry: Entry, wake_at: datetime | None) -> None:
        entry.wake_at = wake_at
        if wake_at is not None:
            heappush(self._wakes, (wake_at, entry.id, entry))

    def _fire(self, entry: Entry, fire: Fire, now: datetime) -> None:
        if fire.cancels:
            self._give_way(entry, fire.cancels, now)
        if fire.ended is not None:
            due = micros(fire.due_at)
            entry.figures.began(due, micros(entry.ripe_at(fire.due_at)), micros(now))
            entry.settled_at = now
            if fire.ended.error is None:
                self._succeeded(entry, now)
            return
        self._shared.number += 1
        run = SimulatedRun(entry, self._shared.number, fire.due_at, now, now, fire.origin)
        run.wakes = fire.wakes
        entry.runs.append(run)
        if entry.spec.expire_after is not None:
            run.expires_at = now + entry.spec.expire_after
            heappush(self._expiries, (run.expires_at, run.number, run))
        self._queue(run, now)
        self._fresh.append(run)

    # -- ends

    def _give_way(self, entry: Entry, ids: Iterable[str], now: datetime) -> None:
        """End or stop runs that a newer due time replaces."""
        wanted = set(ids)
        for run in [run for run in entry.runs if run.id in wanted]:
            if run.status == "queued":
                self._end(run, now, wakes=False)
                entry.figures.cancelled += 1
            elif not run.stopped:
                run.stopped, run.ends_at = True, now
                heappush(self._ends, (now, run.number, run))

    def _expire(self, now: datetime) -> None:
        while self._expiries and self._expiries[0][0] <= now:
            _, _, run = heappop(self._expiries)
            if run.status == "queued" and not run.attempt:
                run.entry.figures.skips["expired"] += 1
                self._end(run, now)

    def _settle(self, now: datetime) -> bool:
        """Settle runs that have ended by now; returns whether there were any."""
        settled = False
        while self._ends and self._ends[0][0] <= now:
            ends_at, _, run = heappop(self._ends)
            if run.status != "running" or run.ends_at != ends_at:
                continue  # it was stopped earlier
            settled = True
            self._leave(run, now)
            entry = run.entry
            if run.stopped:
                entry.figures.cancelled += 1
                self._end(run, now)
            elif not _times_out(entry):
                self._end(run, now)
                self._succeeded(entry, now)
            else:
                self._fail(run, now)
        return settled

    def _leave(self, run: SimulatedRun, now: datetime) -> None:
        """Free the worker of a run."""
        assert run.started_at is not None  # noqa: S101 - it was running
        self._free += 1
        began, ended = micros(run.started_at), micros(now)
        self._load.ends.append(max(ended, began + 1))
        run.entry.figures.busy += ended - began
        holding = self._holding[run.entry.spec.queue]
        holding[run.entry.name] -= 1
        if run.entry.name in self._held:
            for waiting in self._held.pop(run.entry.name):
                heappush(self._ready[run.entry.spec.queue], waiting)

    def _fail(self, run: SimulatedRun, now: datetime) -> None:
        """Handle a run that took longer than its timeout; its policy decides whether it is
        retried."""
        entry = run.entry
        fate = fate_of(TIMEOUT, entry.spec.retry, run.failures, f"{entry.name} {run.due_at}")
        if not isinstance(fate, TriedAgain):
            entry.figures.timed_out += 1
            self._end(run, now)
            return
        run.failures += 1
        run.status, run.ends_at, run.started_at = "queued", None, None
        run.ready_at = now + fate.after
        self._queue(run, now)

    def _end(self, run: SimulatedRun, now: datetime, *, wakes: bool = True) -> None:
        """End a run; wakes its schedule if that may be waiting for it."""
        entry = run.entry
        run.status = "cancelled"
        entry.runs.remove(run)
        entry.settled_at = now
        if wakes and run.wakes and entry.snapshot.status == "active":
            self._look_again(entry, now)

    def _look_again(self, entry: Entry, now: datetime) -> None:
        if entry.wake_at is None or entry.wake_at > now:
            self._wake(entry, now)

    def _succeeded(self, entry: Entry, now: datetime) -> None:
        entry.succeeded_at = now
        for other in entry.dependents:
            known = other.snapshot
            waits = known.seen or any(e.kind == "moved_here" for e in known.exceptions)
            if waits and known.status == "active" and other.wake_at is not None:
                self._look_again(other, now)

    # -- queues and workers

    def _queue(self, run: SimulatedRun, now: datetime) -> None:
        if run.ready_at > now:
            heappush(self._later, (run.ready_at, run.number, run))
        else:
            heappush(self._ready[run.entry.spec.queue], (*run.place, run))

    def _claim(self, now: datetime) -> bool:
        """Give ready runs to free workers, a fair share to each queue; returns whether any
        started."""
        begun = False
        while self._free > 0:
            open_queues = [(queue, "") for queue in self._queues() if self._room(queue, now)]
            if not open_queues:
                break
            self._shared.turn += 1
            if len(open_queues) == 1:
                given = [(open_queues[0], self._free)]
            else:
                given = shares(min(self._free, BATCH), open_queues, self._shared.turn)
            took = sum(self._take(queue, share, now) for (queue, _), share in given)
            begun = begun or took > 0
        return begun

    def _queues(self) -> list[str]:
        """The queues in which runs may be waiting."""
        found = [queue for queue, waiting in self._ready.items() if waiting]
        return sorted(found) if len(found) > 1 else found

    def _room(self, queue: str, now: datetime) -> int:
        """How many runs of the queue may start; 0 if none is ready."""
        waiting = self._ready[queue]
        while waiting and waiting[0][3].status != "queued":
            heappop(waiting)  # it was cancelled, or has expired
        if not waiting:
            return 0
        limiter = self._shared.limiters.get(queue)
        if limiter is None:
            return UNLIMITED
        room = limiter.room(now, self._holding[queue].total())
        if not room and (opens_at := limiter.opens_at(now)) is not None and opens_at > now:
            heappush(self._looks, opens_at)
        return room

    def _take(self, queue: str, share: int, now: datetime) -> int:
        room, waiting, took = min(self._room(queue, now), share), self._ready[queue], 0
        while waiting and took < room:
            place = heappop(waiting)
            run = place[3]
            if run.status != "queued":
                continue
            if self._holding[queue][run.entry.name] >= _most(run.entry):
                self._held[run.entry.name].append(place)
                continue
            self._begin(run, now)
            took += 1
        limiter = self._shared.limiters.get(queue)
        if limiter is not None and took:
            self._shared.limiters[queue] = limiter.passed(now, took)
        return took

    def _begin(self, run: SimulatedRun, now: datetime) -> None:
        entry = run.entry
        run.attempt += 1
        run.status, run.started_at = "running", now
        takes = entry.takes
        if _times_out(entry):
            takes = entry.spec.timeout or takes
        run.ends_at = now + takes
        heappush(self._ends, (run.ends_at, run.number, run))
        self._free -= 1
        self._holding[entry.spec.queue][entry.name] += 1
        at = micros(now)
        self._load.starts.append(at)
        if run.attempt == 1:
            ripe_at = entry.ripe_at(run.due_at) if entry.spec.jitter else run.due_at
            entry.figures.began(micros(run.due_at), micros(ripe_at), at)
            for name, share in run.blockers:
                entry.figures.blocked_by[name] += int(share * (at - micros(run.created_at)))

    def _blame(self, now: datetime) -> None:
        """Record which schedules use the workers that new runs have to wait for."""
        found: dict[str, tuple[tuple[str, float], ...]] = {}
        for run in self._fresh:
            queue = run.entry.spec.queue
            if run.status != "queued" or run.entry.name in self._held:
                continue
            if queue not in found:
                found[queue] = self._holders(queue, now)
            run.blockers = tuple(one for one in found[queue] if one[0] != run.entry.name)
        self._fresh.clear()

    def _holders(self, queue: str, now: datetime) -> tuple[tuple[str, float], ...]:
        limiter = self._shared.limiters.get(queue)
        holding = self._holding[queue]
        if limiter is None or limiter.room(now, holding.total()):
            holding = sum(self._holding.values(), Counter())
        every = max(holding.total(), 1)
        return tuple((name, held / every) for name, held in holding.most_common(BLAMED) if held)


def _most(entry: Entry) -> int:
    """How many runs of the schedule may be active at the same time."""
    limited = entry.spec.overlap == "allow" and entry.spec.max_concurrent is not None
    return entry.spec.max_concurrent or UNLIMITED if limited else UNLIMITED


def _overlaps(skip: Skip) -> bool:
    """Whether the due times were skipped because a run was active, not because a user moved
    them."""
    return skip.reason == Reason.OVERLAP or (
        skip.reason == Reason.SUPERSEDED and not is_moved(skip)
    )


def _times_out(entry: Entry) -> bool:
    return entry.spec.timeout is not None and entry.takes > entry.spec.timeout


def _active(entry: Entry) -> tuple[ActiveRun, ...]:
    """The active run as a store reports it; all active runs if due times cancel earlier runs."""
    if entry.spec.overlap == "cancel":
        return tuple(map(_active_run, entry.runs))
    running = next((run for run in entry.runs if run.status == "running"), entry.runs[0])
    return (_active_run(running),)


def _active_run(run: SimulatedRun) -> ActiveRun:
    since = run.started_at or run.created_at
    return ActiveRun(run.id, run.due_at, since, run.origin, run.status)
