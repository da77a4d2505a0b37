"""Parameters and results of transactions that are not part of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from enum import Flag, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from duebook.lazy_dataclasses import dataclass
from duebook.model.celery_target import KNOWN_ONLY
from duebook.model.codec import Shown, shown
from duebook.model.plan import DueKind
from duebook.model.serving import ALL

if TYPE_CHECKING:
    from duebook.model.consumer import Consumer
    from duebook.model.event import Event
    from duebook.model.node import Drain
    from duebook.model.plan import DueException, Kind, Plan, Snapshot, Stretch
    from duebook.model.revision import Revision
    from duebook.model.run import Token
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.model.serving import Serving

__all__ = [
    "CLOCK_BEHIND",
    "FIRST",
    "IN_TURN",
    "NO_DELAY",
    "START",
    "WHOLE_QUEUE",
    "WHOLE_QUEUES",
    "Abilities",
    "Account",
    "Batch",
    "Broken",
    "Edit",
    "Filling",
    "Labels",
    "LedgerEntry",
    "LogSize",
    "Mark",
    "Neighbour",
    "NewSchedule",
    "News",
    "OwnRun",
    "Page",
    "Place",
    "Pulse",
    "QueuePart",
    "QueueParts",
    "Record",
    "Records",
    "SessionInfo",
    "SessionSpan",
    "Swept",
    "Taken",
    "Work",
]

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """The description of a node when it starts."""

    id: str
    node: str
    pid: int
    roles: str
    version: str
    tzdata: str
    tasks: tuple[str, ...] = ()
    """those that its worker knows"""
    queues: tuple[str, ...] = ()
    """those that its worker serves"""
    labels: Labels = ()
    """those that its worker has"""
    namespaces: Serving = ALL
    """those whose runs its worker may claim"""
    machine: str = ""
    """where its pid is valid, as machine.ProcessId; empty if unknown"""
    process_started: int = 0
    secrets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """the names of those that it offers, by namespace"""


class Abilities(NamedTuple):
    """What the live workers can do."""

    served: list[Serving]
    """the namespaces of each, without duplicates"""
    known: list[tuple[Serving, list[str]]]
    """the tasks of workers that know some, with the namespaces that they serve"""

    def tasks_of(self, namespace: str) -> set[str]:
        """Those known to any of them that serves the namespace."""
        return {task for serving, tasks in self.known if namespace in serving for task in tasks}


class Neighbour(NamedTuple):
    """A session of a process on the same machine that has not ended in the database."""

    session_id: str
    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """A schedule that is about to be stored, with its first state."""

    id: str
    namespace: str
    name: str
    spec: ScheduleSpec
    next_due_at: datetime | None
    wake_at: datetime | None
    paused: bool = False
    owner: str = ""
    """who declares it"""


class Edit(NamedTuple):
    """A new definition of a schedule, with the state from its plan."""

    schedule: Schedule
    spec: ScheduleSpec
    plan: Plan
    was: ScheduleSpec | None
    """None: the former definition cannot be read"""


@dataclass(frozen=True, slots=True)
class OwnRun:
    """A run that a session is working on, according to the database."""

    token: Token
    cancel_reason: str | None
    """why it was asked to stop; None: it was not"""


class News(Flag):
    """Kinds of new work for others; only hints: a process that misses one looks by itself later."""

    WAKE = auto()
    """a schedule is due for a look, perhaps earlier than was known"""
    WORK = auto()
    """runs are ready"""
    CANCEL = auto()
    """an active run should end"""
    LEAD = auto()
    """there is no leader"""
    EVENTS = auto()
    """events wait for their position"""
    LOG = auto()
    """the log has become longer"""
    SINKS = auto()
    """readers of the log, or their settings, have changed"""
    FLOW = auto()
    """a run of a flow is due for a look"""
    LOOK = auto()
    """no notifications arrive here for now: only a pulse shows what there is to do"""
    ENDS = auto()
    """runs have ended"""
    AWAITED = auto()
    """a process waits for runs to end, and needs notifications"""
    DRAIN = auto()
    """a node should start no more runs, or may again"""


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a node learns when it renews its lease; at rest it sends no other queries."""

    now: datetime
    alive: bool
    """False: the session was declared dead, and was not renewed"""
    term: int | None
    """of this node's leadership; None if another leads, or it did not ask"""
    lead_until: datetime | None
    """when the leader's lease ends, unless it is renewed"""
    wake_at: datetime | None
    """when the next schedule is due for a look"""
    queued: bool
    """whether any run waits in the queues and namespaces of the node, ready or not"""
    ready_at: datetime | None
    """when a run that waits for its time becomes ready"""
    expiry: datetime | None
    """when the next unstarted run expires"""
    deaths: bool
    """whether a lease has expired, or runs were left behind"""
    own: tuple[OwnRun, ...]
    """what this node is working on, according to the database"""
    behind: timedelta = timedelta()
    """like Tx.behind"""
    unstamped: bool = False
    """whether events wait for their position"""
    sinks: tuple[Consumer, ...] = ()
    """where events are published, by namespace and name"""
    flow_at: datetime | None = None
    """when the next run of a flow, or its stop or restart, is due for a look"""
    neighbours: tuple[Neighbour, ...] = ()
    """the other sessions of the node's machine"""
    drain: Drain | None = None
    """the request to start no more runs, if any"""
    alerts: bool = False
    """whether alert evaluators or channels without an owner may have something to do"""


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker may claim now, and when to look again."""

    places: tuple[tuple[str, str], ...]
    """queues and namespaces with runs that may start"""
    next_at: datetime | None
    """when more may start: a run becomes ready, or a limited rate allows one"""
    now: datetime
    """the time of the look"""
    firsts: Mapping[tuple[str, str], tuple[int, datetime]] = field(
        default_factory=dict, compare=False
    )
    """for places, if known: rank and readiness of the first of these runs"""


@shown()
@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Due times that did not become runs, and why."""

    due_from: datetime
    due_to: datetime
    count: Annotated[int, Shown(least=1)]
    exact: Annotated[bool, Shown("false: there were at least this many.")]
    verdict: str
    reason: str
    facts: dict[str, Any]
    at: datetime
    version: int
    session_id: str | None = None
    kind: DueKind = "start"

    @property
    def due_at(self) -> datetime:
        """The due time, for an entry about one; else the first."""
        return self.due_from


@dataclass(frozen=True, slots=True)
class Account:
    """A schedule with everything that its due times can be checked against."""

    id: str
    title: str
    """with its namespace, if that is not `default`"""
    name: str
    created_at: datetime
    deleted_at: datetime | None
    revisions: tuple[Revision, ...]
    version: int | None
    """the current one; None for a deleted schedule, like the following fields"""
    status: str | None
    watermark: datetime | None
    next_due_at: datetime | None
    wake_at: datetime | None
    fired: int | None
    seen: tuple[Stretch, ...]
    exceptions: tuple[DueException, ...]
    problem: str | None
    controlled_until: datetime | None = None
    """up to where stops and restarts are decided"""


@dataclass(frozen=True, slots=True)
class Record:
    """What a check needs of a LedgerEntry."""

    due_from: datetime
    due_to: datetime
    count: int
    exact: bool
    reason: str
    version: int
    kind: Kind = "start"


@dataclass(frozen=True, slots=True)
class Records:
    """The runs and entries of a schedule's due times."""

    runs: dict[datetime, tuple[str, str]]
    """id and origin by due time"""
    entries: list[Record]
    """by their first due time"""


@dataclass(frozen=True, slots=True)
class SessionSpan:
    """When a node was alive: from `started_at` to `seen_at`, and then while its lease lasts."""

    id: str
    node: str
    roles: str
    started_at: datetime
    seen_at: datetime
    expires_at: datetime
    ended_at: datetime | None

    @property
    def plans(self) -> bool:
        return "scheduler" in self.roles.split(",")

    def alive(self, now: datetime) -> bool:
        return self.ended_at is None and self.expires_at > now


@dataclass(frozen=True, slots=True)
class Page:
    """A place in a log to continue from."""

    attempt: int
    seq: int


class LogSize(NamedTuple):
    """How much of an attempt's output is kept."""

    attempt: int
    kept: int
    printed: int


class Filling(NamedTuple):
    """Who requested the runs of a backfill, and how they start."""

    requested_by: str | None = None
    beside: bool = False
    """whether they run in parallel with each other and with all others of the schedule"""
    limit: int | None = None
    """how many of those may run at once; None: as many as workers take"""


IN_TURN: Final = Filling()
START: Final = Page(0, 0)
CLOCK_BEHIND: Final = timedelta(seconds=30)
"""From this on, people are warned that this machine's clock is behind the database."""
NO_DELAY: Final = timedelta()


class Mark(NamedTuple):
    """A place in the order of wake times of schedules."""

    wake_at: datetime
    schedule_id: str


class FreeWorker(NamedTuple):
    """A session that can start this many runs at once, and which ones."""

    session_id: str
    free: int
    queues: Sequence[str]
    tasks: Sequence[str]
    namespaces: Serving

    def can_begin(self, queue: str, namespace: str, task: str | None) -> bool:
        served = queue in self.queues and namespace in self.namespaces
        return served and (task in self.tasks or (task is None and KNOWN_ONLY not in self.tasks))


class Place(NamedTuple):
    """A place in the order in which runs ended."""

    at: datetime
    place: int
    """among those that ended at the same time"""


class Swept(NamedTuple):
    """The result of one step of retention."""

    deleted: int
    looked: int
    """how many it looked at, to compare with its limit"""
    after: Place | None
    """where to continue"""


class QueuePart(NamedTuple):
    """A part of a queue in its order: from a rank, which is the negated priority, and an instant of
    readiness to the end of another rank."""

    rank: int
    since: datetime
    last: int


WHOLE_QUEUE: Final = (QueuePart(-(2**31), datetime(1, 1, 1, tzinfo=UTC), 2**31 - 1),)
QueueParts = Mapping[tuple[str, str], Sequence[QueuePart]]
"""by queue and namespace, the parts with runs that may wait; for others the whole queue"""
WHOLE_QUEUES: Final[QueueParts] = MappingProxyType({})


class Batch(NamedTuple):
    """A stretch of the log of events."""

    events: list[Event]
    after: int
    """where to continue: everything up to there was searched"""
    more: bool
    """whether the log continues beyond it"""
    size: int = 0
    """bytes of data"""


FIRST: Final = Mark(datetime.min.replace(tzinfo=UTC), "")


class Broken(NamedTuple):
    """A schedule whose definition this node cannot read, and why."""

    id: str
    version: int
    title: str
    problem: str


class Taken(NamedTuple):
    """Due schedules, and the last one if there may be more; None if these were all."""

    snapshots: list[Snapshot]
    last: Mark | None
    broken: tuple[Broken, ...] = ()
    """those that were due, and whose definitions this node cannot read"""
