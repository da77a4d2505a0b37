"""Schedules and runs inside a simulation, and their statistics; mutable."""

from __future__ import annotations

from array import array
from collections import Counter
from copy import copy
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.lazy_dataclasses import dataclass
from duebook.model.simulation import MOVED
from duebook.planner.due import jittered

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from duebook.model.plan import Skip, Snapshot
    from duebook.model.run import Origin, RunStatus
    from duebook.model.schedule import ScheduleSpec

__all__ = [
    "Entry",
    "Figures",
    "SimulatedRun",
    "Traced",
    "from_micros",
    "in_micros",
    "is_moved",
    "micros",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    return in_micros(moment - _EPOCH)


def in_micros(length: timedelta) -> int:
    return length // _MICRO


def from_micros(number: int) -> datetime:
    return _EPOCH + timedelta(microseconds=number)


def is_moved(skip: Skip) -> bool:
    """Whether a user moved the due time."""
    return "moved_to" in skip.facts


class Traced(NamedTuple):
    """A run that has started, in the form that tests compare."""

    due: int
    began: int


@dataclass(slots=True)
class Figures:
    """Statistics of one schedule; times and durations are in microseconds."""

    runs: int = 0
    """runs that started"""
    skips: Counter[str] = field(default_factory=Counter)
    """due times that did not run, by reason"""
    late: array[int] = field(default_factory=lambda: array("q"))
    """by how much each late run started late"""
    most_late: int = 0
    most_late_due: int = 0
    """the due time that was latest"""
    overlaps: int = 0
    """due times that came while a run of the schedule was active"""
    undecided: int = 0
    """due times that still waited for other runs at the end"""
    cancelled: int = 0
    timed_out: int = 0
    busy: int = 0
    blocked_by: Counter[str] = field(default_factory=Counter)
    """by schedule: how long runs waited while runs of that schedule used the workers"""
    trace: list[Traced] | None = None

    def began(self, due: int, ripe: int, now: int) -> None:
        """Count the first start of a run."""
        self.runs += 1
        if now > ripe:
            self.was_late(due, now - ripe)
        if self.trace is not None:
            self.trace.append(Traced(due, now))

    def left_out(self, skip: Skip) -> None:
        """Due times do not run; one that a user moved runs at another time."""
        reason = MOVED if is_moved(skip) else skip.reason.value
        self.skips[reason] += skip.count

    def was_late(self, due: int, late: int) -> None:
        self.late.append(late)
        if late > self.most_late:
            self.most_late, self.most_late_due = late, due

    def copied(self) -> Figures:
        """A copy that shares the lists that only grow."""
        made = copy(self)
        made.skips, made.blocked_by = Counter(self.skips), Counter(self.blocked_by)
        return made

    @property
    def lengths(self) -> tuple[int, int]:
        """The lengths of the lists that only grow, for `cut`."""
        return len(self.late), len(self.trace or ())

    def cut(self, late: int, trace: int) -> None:
        del self.late[late:]
        if self.trace is not None:
            del self.trace[trace:]


@dataclass(slots=True)
class SimulatedRun:
    """A run that is queued or running."""

    entry: Entry
    number: int
    due_at: datetime
    created_at: datetime
    ready_at: datetime
    origin: Origin = "schedule"
    expires_at: datetime | None = None
    wakes: bool = False
    status: RunStatus = "queued"
    attempt: int = 0
    failures: int = 0
    started_at: datetime | None = None
    ends_at: datetime | None = None
    stopped: bool = False
    """whether a newer due time replaced it while it ran"""
    blockers: tuple[tuple[str, float], ...] = ()
    """the schedules that used the workers when the run had to wait, with their shares"""

    @property
    def id(self) -> str:
        return f"{self.entry.name} {self.number}"

    @property
    def place(self) -> tuple[int, datetime, int]:
        """The position of the run in its queue, as a sort key."""
        return (-self.entry.spec.priority, self.ready_at, self.number)


@dataclass(slots=True)
class Entry:
    """A schedule with its state, its active runs, and how long each run takes."""

    snapshot: Snapshot
    takes: timedelta
    wake_at: datetime | None
    runs: list[SimulatedRun] = field(default_factory=list)
    """the active runs, oldest first"""
    succeeded_at: datetime | None = None
    settled_at: datetime | None = None
    figures: Figures = field(default_factory=Figures)
    dependents: list[Entry] = field(default_factory=list)
    upstreams: dict[str, Entry | None] = field(default_factory=dict)
    deferred: datetime | None = None
    """the due time that last waited for a run of the schedule to end"""
    steps: bool | None = None
    """whether it may be stepped through in bulk; None: not checked yet"""

    @property
    def id(self) -> str:
        return self.snapshot.schedule_id

    @property
    def name(self) -> str:
        return self.snapshot.name

    @property
    def spec(self) -> ScheduleSpec:
        return self.snapshot.spec

    @property
    def idle(self) -> bool:
        """Whether no run is active and no due time is waiting."""
        return not self.runs and not self.snapshot.seen

    def rests_until(self, moment: datetime) -> bool:
        """Whether nothing happens to it until then by itself; other schedules may wake due times
        that wait."""
        if self.runs or self.snapshot.seen:
            return False
        return self.wake_at is None or self.wake_at > moment

    @property
    def waiting(self) -> Iterable[SimulatedRun]:
        return (run for run in self.runs if run.status == "queued")

    def ripe_at(self, due_at: datetime) -> datetime:
        return jittered(due_at, self.spec.jitter, self.name)

    def saved(self) -> tuple[Any, ...]:
        """The state of the schedule, for `restore`."""
        runs, known = [copy(run) for run in self.runs], copy(self.snapshot)
        times = (self.wake_at, self.succeeded_at, self.settled_at, self.deferred)
        return known, runs, times, self.figures.copied(), self.figures.lengths

    def restore(self, saved: tuple[Any, ...]) -> None:
        self.snapshot, self.runs, times, self.figures, lengths = saved
        self.wake_at, self.succeeded_at, self.settled_at, self.deferred = times
        self.figures.cut(*lengths)
