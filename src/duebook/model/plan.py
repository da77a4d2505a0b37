"""The input and output of the planner: Snapshot in, Plan out.

These values are never modified. Those that every tick creates by the thousand are not frozen,
though, as that would make them four times as slow to create.
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Shown, shown
from duebook.model.run import Interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.model.event import Ended
    from duebook.model.run import Origin, RunStatus
    from duebook.model.schedule import ScheduleSpec, Status

__all__ = [
    "CONTROLS",
    "KINDS",
    "LANES",
    "ActiveRun",
    "Command",
    "Control",
    "Decision",
    "Defer",
    "Delay",
    "DueException",
    "DueKind",
    "Fire",
    "Handover",
    "Hold",
    "Kind",
    "Lane",
    "Owner",
    "Plan",
    "Reason",
    "ShadowSpan",
    "Skip",
    "Snapshot",
    "Stretch",
    "Unattended",
    "Upstream",
    "WindowSpan",
]


Control = Literal["stop", "restart"]
Kind = Literal["start", "stop", "restart"]
DueKind = Annotated[Kind, Shown("What the due time is for; stop and restart are those of flows.")]
CONTROLS: Final[tuple[Control, ...]] = ("stop", "restart")
KINDS: Final[tuple[Kind, ...]] = ("start", *CONTROLS)
"""The purposes of due times; those of schedules that start no flow all start something."""


class Reason(StrEnum):
    """Why a due time did not become a run, or not yet; the codes are stable."""

    OVERLAP = "overlap"
    """A run of the schedule was still active (`overlap=skip`)."""
    PAUSED = "paused"
    """The schedule was paused, and `on_resume=skip`; or it fell into a maintenance window."""
    MISSED = "missed"
    """No scheduler saw it within `grace`, and `catchup=skip`."""
    COALESCED = "coalesced"
    """It was missed, and `catchup=one` ran only the newest missed due time."""
    EXPIRED = "expired"
    """It was missed, and is beyond `catchup_window` or `catchup_limit`."""
    SUPERSEDED = "superseded"
    """A newer due time replaced it (`overlap=latest` or `cancel`), or a person moved it."""
    ALREADY_SUCCEEDED = "already_succeeded"
    """A manual run had succeeded since the previous due time (`skip_if_successful`)."""
    ALREADY_STARTED = "already_started"
    """The due time already has a run."""
    DEPENDENCY = "dependency"
    """A schedule in `depends_on` had not succeeded in time."""
    EXCLUDED = "excluded"
    """The day is excluded by the definition (`exclude`)."""
    CALENDAR = "calendar"
    """The calendar closes the day; with `roll`, it gave way to the next or previous open day."""
    SKIPPED_BY_USER = "skipped_by_user"
    """A person skipped it."""
    DST_GAP = "dst_gap"
    """Clocks went forward over that wall time, and `gap=skip`."""
    EDITED = "edited"
    """An edit removed it: only the earlier definition had this due time, or the day that it rolls
    to was over."""
    DELETED = "deleted"
    """The schedule was deleted before it was decided."""
    MAX_RUNS = "max_runs"
    """The schedule had reached its `max_runs`."""
    SHADOW = "shadow"
    """Shadow mode was on: it was recorded instead of run."""
    STOPPED = "stopped"
    """A stop of a flow: what was running was asked to stop."""
    RESTARTED = "restarted"
    """A restart of a flow: what was running was asked to stop, and the flow starts again."""
    PACE = "pace"
    """Only a reason to wait: the backlog is processed one due time at a time."""
    HELD = "held"
    """Only a reason to wait: more was missed than `catchup_approval`, so an operator decides."""
    UNATTENDED = "unattended"
    """Only a reason to wait: no node has read the flow's directory since one took it over."""


class Lane(IntEnum):
    """The order of a schedule's runs; lower lanes go first. The numbers are stored."""

    OWN = 0
    """a due time of the schedule itself"""
    EXTRA = 1
    """other work: manual runs, runs retried by a person, or a backfill that has started"""
    BACKFILL = 2
    """a backfill that has not started, and gives way to everything else"""
    BESIDE = 3
    """a backfill that runs in parallel with everything else, up to its limit"""


LANES: Final[dict[str, Lane]] = {
    "schedule": Lane.OWN,
    "catchup": Lane.OWN,
    "manual": Lane.EXTRA,
    "backfill": Lane.BACKFILL,
}
"""The lane of a new run, by origin."""


@dataclass(slots=True)
class ActiveRun:
    """A run of the schedule that is queued, running or waiting for its retry."""

    id: str
    due_at: datetime | None
    since: datetime
    origin: Origin = "schedule"
    status: RunStatus = "running"
    lane: Lane = Lane.OWN


@dataclass(frozen=True, slots=True)
class Delay:
    """By how much manual and backfill work has put back a schedule's own due times.

    They are judged as they would have been without that work, so they have their own time: it
    stands still at `held_at` while such work keeps one waiting, and runs `lag` behind the clock
    afterwards, until the schedule has been idle long enough to make up for it.
    """

    held_at: datetime | None = None
    lag: timedelta = timedelta()

    def own_time(self, now: datetime) -> datetime:
        """The current time for the schedule's own due times."""
        return now - self.lag if self.held_at is None else self.held_at


@dataclass(frozen=True, slots=True)
class Upstream:
    """A schedule that another one depends on."""

    exists: bool
    succeeded_at: datetime | None = None


@shown("Exception")
@dataclass(frozen=True, slots=True)
class DueException:
    """A future due time that was skipped or moved.

    `skip` and `moved_away` remove a due time of the trigger; `moved_here` adds one. `done` is one
    that an edit decided while earlier ones still waited. Each is used up by the plan that passes
    its due time.
    """

    due_at: datetime
    kind: Annotated[
        Literal["skip", "moved_away", "moved_here", "done"],
        Shown(json=Literal["skip", "moved_away", "moved_here"]),
    ]
    moved_to: datetime | None = None
    moved_from: Annotated[
        datetime | None,
        Shown("For `moved_here`: the due time of the trigger that was moved there."),
    ] = None


@dataclass(frozen=True, slots=True)
class Handover:
    """What a definition inherits from the previous one: when that ended, and the last due time of
    its triggers until then, with any outcome."""

    at: datetime
    last_due_at: datetime | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of time that a plan has seen, up to and including `until`; it starts where the
    previous one ends, the first at the watermark.

    Whether a due time is live or missed is fixed by the first plan that sees it, at `seen_at`. The
    due times of a `done` stretch are decided, though earlier ones still wait. A `paused` one was
    resumed by a node that could not read the definition: `on_resume` is still to decide.
    """

    until: datetime
    kind: Literal["live", "missed", "done", "paused"]
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Unattended:
    """The directory of a flow that no node reads, so that the current files are unknown."""

    directory: str
    since: datetime | None
    """when a node last read them; None: never"""
    is_changing: bool = False
    """whether a node is just taking it over, or changing its flows"""


class WindowSpan(NamedTuple):
    """A maintenance window that pauses the schedule, from `start` until before `end`."""

    name: str
    start: datetime
    end: datetime

    @property
    def last(self) -> datetime:
        """The last instant in it."""
        return self.end - timedelta(microseconds=1)


class ShadowSpan(NamedTuple):
    """Due times from `start` until before `end` (None: open) are recorded instead of run."""

    start: datetime
    end: datetime | None

    def covers(self, due_at: datetime) -> bool:
        return self.start <= due_at and (self.end is None or due_at < self.end)


class Owner(NamedTuple):
    """Where a schedule belongs, and who created it."""

    namespace: str = "default"
    user: str = ""


NOBODY: Final = Owner()


@dataclass(slots=True)
class Snapshot:
    """The current state of one schedule, with the facts its policies need."""

    schedule_id: str
    name: str
    version: int
    spec: ScheduleSpec
    status: Status
    watermark: datetime | None
    """every due time up to it is decided; None for a new schedule"""
    active: tuple[ActiveRun, ...] = ()
    """the one that counts: a running one, else the first by lane and age; where due times cancel
    runs, all of them except backfills that have not started"""
    exceptions: tuple[DueException, ...] = ()
    seen: tuple[Stretch, ...] = ()
    """what plans have seen beyond the watermark and left waiting"""
    considered_at: datetime | None = None
    """when a due time of the backlog was last considered; None: there is no backlog"""
    fired: int = 0
    """how many of its due times became runs"""
    paused_until: datetime | None = None
    owner: Owner = NOBODY
    delay: Delay | None = None
    """None: its due times are on time"""
    settled_at: datetime | None = None
    """when the schedule's latest run ended, if there is a backlog"""
    manual_success: ActiveRun | None = None
    """the latest successful run without a due time, if a policy needs it"""
    upstreams: Mapping[str, Upstream] = field(default_factory=dict)
    controlled_until: datetime | None = None
    """every stop and restart up to it is decided; None: none since the schedule started"""
    unattended: Unattended | None = None
    """the directory of the flow that it starts, if no node reads it"""
    handover: Handover | None = None
    """None: the definition is the schedule's first"""
    windows: tuple[WindowSpan, ...] = ()
    """the maintenance windows that select it, in order; none overlaps another"""
    shadows: tuple[ShadowSpan, ...] = ()
    """when it is in shadow mode, in order; none overlaps another"""

    def decided_until(self, now: datetime) -> datetime:
        """The watermark; without one, the time from which a new schedule counts."""
        return now if self.watermark is None else self.watermark

    def in_shadow(self, due_at: datetime) -> bool:
        """Whether a due time is recorded instead of run."""
        return any(span.covers(due_at) for span in self.shadows)


@dataclass(slots=True)
class Fire:
    """The due time becomes a run."""

    due_at: datetime
    origin: Origin
    wakes: bool = False
    """settling the run wakes the schedule, because it may wait for that"""
    cancels: tuple[str, ...] = ()
    """the runs that it cancels"""
    ended: Ended | None = None
    """how the run ends at once, for a target that takes no time"""
    since: datetime | None = None
    """the previous due time, where the interval of its data starts; None: it has no interval"""
    nominal_at: datetime | None = None
    """the due time that it stands for, if different: the end of its interval"""

    @property
    def interval(self) -> Interval | None:
        return None if self.since is None else Interval(self.since, self.nominal_at or self.due_at)

    @property
    def emits(self) -> bool:
        """Whether it writes an event."""
        return self.ended is not None and self.ended.draft is not None


@dataclass(frozen=True, slots=True)
class Skip:
    """The due times from first to last (often one) do not become runs."""

    due_from: datetime
    due_to: datetime
    count: int
    exact: bool
    reason: Reason
    facts: Mapping[str, Any] = field(default_factory=dict)
    follows: datetime | None = None
    """the due time before the first: an entry that ends there, for the same reason, is extended"""
    version: int | None = None
    """the definition that has these due times, if it is not the plan's"""
    kind: Kind = "start"

    @property
    def verdict(self) -> Literal["skipped", "done"]:
        """A stop or restart that took effect is done."""
        return "done" if self.reason in (Reason.STOPPED, Reason.RESTARTED) else "skipped"


@dataclass(frozen=True, slots=True)
class Defer:
    """The due time and all later ones wait; `until` is the latest time to look again"""

    due_at: datetime
    reason: Reason
    until: datetime
    facts: Mapping[str, Any] = field(default_factory=dict)
    cancels: tuple[str, ...] = ()
    """the runs that it cancels even so"""


@dataclass(frozen=True, slots=True)
class Hold:
    """Missed due times from first to last that are set aside until an operator decides.

    They are all that the definition has between the two, except for excluded days.
    """

    due_from: datetime
    due_to: datetime
    count: int
    exact: bool


Decision = Fire | Skip | Defer | Hold


class Command(NamedTuple):
    """A stop or restart of the flow that is to be carried out."""

    due_at: datetime
    kind: Control


@dataclass(slots=True)
class Plan:
    """The decisions about one schedule, and its state after they are committed."""

    schedule_id: str
    version: int
    decisions: tuple[Decision, ...]
    status: Status
    watermark: datetime
    next_due_at: datetime | None
    wake_at: datetime | None
    used: tuple[DueException, ...] = ()
    said: tuple[DueException, ...] = ()
    """exceptions that the plan itself creates"""
    seen: tuple[Stretch, ...] = ()
    considered_at: datetime | None = None
    fired: int = 0
    resumed: bool = False
    """whether it was paused before"""
    delay: Delay | None = None
    controlled_until: datetime | None = None
    """up to where stops and restarts are decided; None: as before"""
    command: Command | None = None
    handover: Handover | None = None
    """for an edit: what it leaves to the new definition"""

    def deciding(self, decisions: tuple[Decision, ...]) -> Plan:
        """The same plan with other decisions; `replace` would take several times as long."""
        return Plan(
            self.schedule_id,
            self.version,
            decisions,
            self.status,
            self.watermark,
            self.next_due_at,
            self.wake_at,
            self.used,
            self.said,
            self.seen,
            self.considered_at,
            self.fired,
            self.resumed,
            self.delay,
            self.controlled_until,
            self.command,
            self.handover,
        )

    @property
    def emits(self) -> int:
        """How many events it writes."""
        number = 0
        for decision in self.decisions:
            if isinstance(decision, Fire) and decision.emits:
                number += 1
        return number
