"""The protocol of a store: which transactions the engine and the client may ask for.

Every method of a Tx runs inside one transaction and sees one `now`, the database's. What a
method changes becomes visible when the whole transaction commits, or not at all.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from duebook.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from duebook.model.access import AccessToken
    from duebook.model.change import Change, ChangeFilter
    from duebook.model.consumer import Consumer, Cursor, DeadLetter, Lag, Move, Partition
    from duebook.model.enqueued import Enqueued
    from duebook.model.event import Draft, Event, TopicUse
    from duebook.model.filters import LedgerFilter, RunFilter, ScheduleFilter, ScheduleSort
    from duebook.model.finding import Finding
    from duebook.model.flow import Revision as FlowRevision
    from duebook.model.flow_run import FlowMove, FlowParent
    from duebook.model.flow_target import FlowTarget
    from duebook.model.insight import HourLoad, Planned, RunMark
    from duebook.model.listing import Found, Place
    from duebook.model.node import LiveNode
    from duebook.model.plan import DueException, Fire, Plan, Skip, Snapshot, Stretch
    from duebook.model.queue import Queue, QueueLoad
    from duebook.model.quota import Quota
    from duebook.model.run import Attempt, Claim, LatestRun, LogLine, Outcome, Progress, Run, Token
    from duebook.model.schedule import Revision, Schedule, ScheduleSpec
    from duebook.model.template import ScheduleTemplate

    Topics = Sequence[str] | None
    Share = Callable[[str, Collection[str], Mapping[int, str | None]], tuple[set[int], set[int]]]
    """who am I, who lives, whose is what: what to give up and what to take"""

__all__ = [
    "CLOCK_BEHIND",
    "FIRST",
    "START",
    "Account",
    "Batch",
    "FlowControl",
    "FlowWake",
    "Health",
    "Inventory",
    "KeptFlow",
    "Labels",
    "LedgerEntry",
    "Load",
    "Mark",
    "NewSchedule",
    "News",
    "Overdue",
    "OwnRun",
    "Page",
    "Pulse",
    "Record",
    "Records",
    "SessionInfo",
    "SessionSpan",
    "Store",
    "Taken",
    "Tx",
    "WaitingStep",
    "Work",
    "refuse_fork",
]

T = TypeVar("T")
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What a node says about itself when it begins."""

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


@dataclass(frozen=True, slots=True)
class OwnRun:
    """What the books say a session is working on."""

    token: Token
    cancel_reason: str | None
    """why it was asked to end; None: it was not"""


class News(Flag):
    """What somebody gave others to do; a hint, for whoever misses it looks by himself later."""

    WAKE = auto()
    """a schedule wants to be looked at, perhaps earlier than was known"""
    WORK = auto()
    """runs are ready"""
    CANCEL = auto()
    """a run under way shall end"""
    LEAD = auto()
    """nobody leads"""
    EVENTS = auto()
    """events wait for their position"""
    LOG = auto()
    """the log has become longer"""
    SINKS = auto()
    """somebody else reads the log, or otherwise than before"""
    FLOW = auto()
    """a run of a flow wants to be looked at"""
    LOOK = auto()
    """nobody tells anything here for now: only a pulse shows what there is to do"""


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a node learns when it renews its lease: at rest it asks nothing else."""

    now: datetime
    alive: bool
    """False: the session was declared dead, and renewed nothing"""
    term: int | None
    """of this node's leadership; None when another leads, or nobody was asked"""
    lead_until: datetime | None
    """when the leader's lease ends, unless it renews it"""
    wake_at: datetime | None
    """when the next schedule wants to be looked at"""
    queued: bool
    """whether any run waits in the node's queues, be it ready or not"""
    ready_at: datetime | None
    """when a run that waits for its time gets ready"""
    expiry: datetime | None
    """when the next run that nobody has begun expires"""
    deaths: bool
    """whether somebody's lease ran out, or left runs behind"""
    own: tuple[OwnRun, ...]
    """what the books say this node is working on"""
    behind: timedelta = timedelta()
    """as Tx.behind"""
    unstamped: bool = False
    """whether events wait for their position"""
    sinks: tuple[Consumer, ...] = ()
    """where events are published, by namespace and name"""
    flow_at: datetime | None = None
    """when the next run of a flow, or its stop or restart, wants to be looked at"""


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker may claim now, and when to look again."""

    places: tuple[tuple[str, str], ...]
    """queues and namespaces with runs that may begin"""
    next_at: datetime | None
    """when more may: a run gets ready, or a limited rate lets one pass"""
    now: datetime
    """when that was"""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Due times that did not become runs, and why."""

    due_from: datetime
    due_to: datetime
    count: int
    exact: bool
    verdict: str
    reason: str
    facts: dict[str, Any]
    at: datetime
    version: int
    session_id: str | None = None

    @property
    def due_at(self) -> datetime:
        """The due time, of an entry about one; else the first."""
        return self.due_from


@dataclass(frozen=True, slots=True)
class Account:
    """A schedule with all that its due times can be checked against."""

    id: str
    title: str
    """with its namespace, when that is not `default`"""
    name: str
    created_at: datetime
    deleted_at: datetime | None
    revisions: tuple[Revision, ...]
    version: int | None
    """the one that is planned; None of a deleted schedule, as are the following"""
    status: str | None
    watermark: datetime | None
    next_due_at: datetime | None
    wake_at: datetime | None
    fired: int | None
    seen: tuple[Stretch, ...]
    exceptions: tuple[DueException, ...]
    problem: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """What a check needs of a LedgerEntry."""

    due_from: datetime
    due_to: datetime
    count: int
    exact: bool
    reason: str
    version: int


@dataclass(frozen=True, slots=True)
class Records:
    """What became of a schedule's due times."""

    runs: dict[datetime, tuple[str, str]]
    """id and origin by due time"""
    entries: list[Record]
    """by their first due time"""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What is in the books."""

    now: datetime
    schedules: dict[str, int]
    """by status"""
    active_runs: dict[str, int]
    """by status"""
    runs: int
    entries: int
    """of the ledger"""
    log_lines: int
    nodes: tuple[tuple[str, str, str], ...]
    """name, roles and version of those that live"""
    waits_since: datetime | None
    """from when on the oldest run that may begin has waited"""
    wake_at: datetime | None
    """when the first schedule wants to be looked at; in the past: planning lags"""


@dataclass(frozen=True, slots=True)
class Overdue:
    """A schedule that should have been looked at."""

    namespace: str
    name: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Load:
    """How much there is to do, at a price that does not grow with the books."""

    now: datetime
    queued: dict[str, int]
    """by queue, as far as it was counted"""
    running: dict[str, int]
    """by queue"""
    nodes: tuple[LiveNode, ...]
    overdue: Overdue | None
    """the schedule that should have been looked at first"""


@dataclass(frozen=True, slots=True)
class Health:
    """What tells whether the books are worked on, at a price that does not grow with them."""

    now: datetime
    unfit: str | None
    """why this Duebook should not use the schema"""
    nodes: tuple[LiveNode, ...]
    queues: tuple[str, ...]
    """those with queued runs"""
    tasks: tuple[str, ...]
    """those of the runs that are first in their queues"""
    overdue: Overdue | None


class FlowWake(NamedTuple):
    """When runs of flows want to be looked at, and stop and restart schedules."""

    run_at: datetime | None
    control_at: datetime | None

    @property
    def earliest(self) -> datetime | None:
        return min((moment for moment in self if moment is not None), default=None)


class KeptFlow(NamedTuple):
    """A flow by its newest good revision."""

    name: str
    place: str
    digest: str
    updated_at: datetime


class WaitingStep(NamedTuple):
    """A step that not every worker can perform."""

    step: str
    task: str | None
    needs: dict[str, str]
    """the labels that its worker must have"""


class FlowControl(NamedTuple):
    """A flow whose stop or restart schedules want to be looked at."""

    namespace: str
    name: str
    digest: str
    controlled_at: datetime
    """up to when they have been looked at"""
    restarting: bool
    """whether a restart is under way"""


@dataclass(frozen=True, slots=True)
class SessionSpan:
    """When a node lived: from `started_at` to `seen_at`, and on while its lease lasts."""

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
    """A place in a log, to go on from."""

    attempt: int
    seq: int


START: Final = Page(0, 0)
CLOCK_BEHIND: Final = timedelta(seconds=30)
"""From when on people are told that this machine's clock is behind the books."""
NO_DELAY: Final = timedelta()


def refuse_fork(pid: int) -> None:
    """Connections do not outlive a fork; raises Unavailable in any process but `pid`."""
    if os.getpid() != pid:
        raise Unavailable("a store cannot be used after a fork; open it again in the child")


class Mark(NamedTuple):
    """A place in the order in which schedules want to be looked at."""

    wake_at: datetime
    schedule_id: str


class Batch(NamedTuple):
    """A stretch of the log of events."""

    events: list[Event]
    after: int
    """where to go on: everything up to there was looked at"""
    more: bool
    """whether the log goes on beyond"""
    size: int = 0
    """bytes of data"""


FIRST: Final = Mark(datetime.min.replace(tzinfo=UTC), "")


class Taken(NamedTuple):
    """Due schedules, and after which one there may be more: None when these were all."""

    snapshots: list[Snapshot]
    last: Mark | None


class Tx(Protocol):
    """One transaction."""

    @property
    def now(self) -> datetime:
        """The database's clock, the same for the whole transaction; it never runs backwards."""

    @property
    def behind(self) -> timedelta:
        """How far this machine's clock is behind the latest time on the books; mostly not."""

    # -- the tick
    def take(self, limit: int, after: Mark | None = None) -> Taken:
        """Up to `limit` active schedules whose wake time has come, the most overdue first.

        They stay locked until the transaction ends. One whose definition this node cannot read
        gets a problem instead, and is looked at again later. `after` is a hint: nothing before
        it needs to be found.
        """

    def commit(self, plans: Sequence[Plan], session_id: str | None) -> int:
        """Write runs, ledger entries and the schedules' new state; returns the number of runs.

        A due time that has a run already becomes a ledger entry (`already_started`). A plan of
        another version than the one in force changes nothing.
        """

    def mark_problem(self, schedule_id: str, problem: str, wake_at: datetime) -> None:
        """Show what is wrong with a schedule that cannot be planned; look again at `wake_at`."""

    def earliest_wake(self, after: Mark | None = None) -> datetime | None:
        """When the next active schedule wants to be looked at; `after` is a hint as above."""

    # -- sessions and leases
    def begin_session(self, session: SessionInfo, lease: timedelta) -> None: ...

    def renew(self, session_id: str, lease: timedelta) -> bool:
        """Prolong a session's lease; False when it was declared dead."""

    def end_session(self, session_id: str) -> None:
        """The node leaves; whatever it still runs is taken over, and it leads no more."""

    def bury(self) -> list[str]:
        """Declare sessions dead whose lease ran out; returns their ids."""

    def take_over(self, limit: int) -> int:
        """Requeue up to `limit` runs of dead sessions; beyond `max_takeovers` they fail."""

    def pulse(self, session_id: str, lease: timedelta, queues: Sequence[str], leads: bool) -> Pulse:
        """As Store.pulse, in a transaction with other things."""

    def holds_term(self, session_id: str, term: int) -> bool:
        """Whether the session leads under this term; nobody can take over before the
        transaction ends."""

    # -- work
    def list_work(
        self, queues: Sequence[str], tasks: Sequence[str] = (), labels: Labels = ()
    ) -> Work:
        """Where `claim` would find runs now, as far as limits allow."""

    def claim(
        self,
        session_id: str,
        queue: str,
        limit: int,
        tasks: Sequence[str] = (),
        namespace: str = "default",
        labels: Labels = (),
    ) -> list[Claim]:
        """Up to `limit` ready runs, by priority, then readiness; none when the session is dead.

        Of a schedule whose runs must not overlap, at most one is under way at any time, and of
        one with `max_concurrent` at most so many; of a queue with limits no more than those
        allow. Runs of tasks other than `tasks` are left to those who know them, steps that need
        other labels to those who have them, and those that expired to nobody.
        """

    def settle(self, token: Token, outcome: Outcome, retry_after: timedelta | None = None) -> bool:
        """End a run; False when the token is no longer current. Repeating it is harmless.

        With `retry_after` only the attempt ends, and the run waits for the next one; a run that
        was to be cancelled ends nevertheless.
        """

    def settle_all(self, ended: Sequence[tuple[Token, Outcome]]) -> set[Token]:
        """As `settle`, for many; returns the tokens that were current."""

    def expire(self, limit: int) -> int:
        """Cancel up to `limit` runs that nobody began by the time they were given."""

    def earliest_expiry(self) -> datetime | None:
        """When the next run that nobody has begun expires."""

    def hand_back(self, token: Token, delay: timedelta = NO_DELAY) -> bool:
        """Return a run unfinished, to be begun again after `delay`; one that was cancelled ends."""

    def own_runs(self, session_id: str) -> list[OwnRun]:
        """The runs that the books say the session is working on."""

    def append_log(self, token: Token, first_seq: int, lines: Sequence[LogLine]) -> None:
        """Add lines, numbered from `first_seq`; lines that are there already stay."""

    def trim_log(self, token: Token, head_seq: int, tail_seq: int) -> None:
        """Drop the lines between the two, both kept."""

    def note_progress(self, told: Sequence[tuple[Token, Progress]]) -> None:
        """Put down how far attempts under way have come; a token that is not current is ignored."""

    # -- who knows which tasks
    def tell_tasks(self, session_id: str, tasks: Sequence[str]) -> None:
        """From now on the session knows these tasks, and no others."""

    def list_known_tasks(self) -> set[str]:
        """The tasks that any live worker knows."""

    def list_waiting_steps(self, run_id: str) -> list[WaitingStep]:
        """The steps of a run of a flow that wait for a worker who knows or has something."""

    def list_stranded_tasks(self) -> list[str]:
        """The tasks of queued runs that no live worker knows, by name."""

    # -- queues with limits
    def limit_queue(self, queue: Queue) -> None:
        """Put the limits of a queue in force; what runs already goes on."""

    def free_queue(self, name: str) -> bool:
        """Lift the limits of a queue; whether it had any."""

    def get_queue(self, name: str) -> Queue | None:
        """The limits of a queue, locked; None when it has none."""

    def list_queues(self) -> list[QueueLoad]:
        """Every queue that has limits or work, by name."""

    # -- schedule templates
    def save_template(self, namespace: str, name: str, defaults: dict[str, Any], by: str) -> None:
        """Keep defaults under a name; they replace the ones that it had."""

    def get_template(self, namespace: str, name: str) -> ScheduleTemplate | None: ...

    def list_templates(self, namespace: str) -> list[ScheduleTemplate]:
        """By name."""

    def remove_template(self, namespace: str, name: str) -> bool:
        """Whether there was one."""

    # -- who may use the books from outside
    def create_token(self, token: AccessToken, digest: str) -> None:
        """Store a new token; raises Conflict when another has its name that was not revoked."""

    def find_token(self, name: str) -> str:
        """The id of a token by its name, unless it was revoked, or by its id; raises NotFound."""

    def get_token(self, token_id: str) -> tuple[AccessToken, str] | None:
        """A token and the digest of its secret."""

    def get_tokens(self, token_ids: Sequence[str]) -> dict[str, tuple[AccessToken, str]]:
        """As `get_token`, for many, by their id; those that do not exist are left out."""

    def list_tokens(self) -> list[AccessToken]:
        """By name; also those that were revoked."""

    def revoke_token(self, token_id: str) -> bool:
        """False when it was revoked before."""

    def use_token(self, token_id: str, before: datetime) -> None:
        """Put down that it is used now, unless it was used since `before`."""

    # -- requests that may be repeated
    def keep_key(self, scope: str, key: str, fingerprint: str) -> Any:
        """Make a key the one of this request; returns None, or what was answered to it before.

        Waits while another transaction has the key. Raises KeyReused when it came with another
        request. It is free again after a day.
        """

    def keep_answer(self, scope: str, key: str, answer: Any) -> None:
        """What `keep_key` returns from now on: any JSON but null."""

    # -- quotas of namespaces
    def get_quota(self, namespace: str) -> Quota | None: ...

    def lock_quota(self, namespace: str) -> Quota | None:
        """The limits of a namespace; others who lock them wait until this transaction ends."""

    def list_quotas(self) -> list[Quota]:
        """By namespace."""

    def save_quota(self, quota: Quota) -> None:
        """Put limits in force; they replace the ones that the namespace had."""

    def remove_quota(self, namespace: str) -> None: ...

    def count_schedules(self, namespace: str) -> int:
        """Those that are not deleted."""

    def count_by_namespace(self) -> dict[str, int]:
        """As above, of every namespace that has any."""

    def sum_rates(self, namespace: str) -> float:
        """How often per minute its schedules are due that are not completed, where it is known."""

    def list_unrated(
        self, namespace: str, limit: int
    ) -> list[tuple[str, int, str, ScheduleSpec | None]]:
        """Schedules whose rate nobody knows: id, version, name and definition."""

    def rate_revisions(self, rates: Sequence[tuple[str, int, float]]) -> None:
        """How often per minute definitions are due: id of the schedule, version and rate."""

    # -- who changed what
    def record(self, changes: Sequence[Change]) -> None:
        """Put changes on the books, at their time; their ids are given here."""

    def list_changes(
        self, namespace: str | None, wanted: ChangeFilter, after: Place | None, limit: int
    ) -> Found[Change]:
        """The newest first, of a namespace or of all; an instant and an id are a place."""

    # -- runs of flows
    def take_flows(self, limit: int) -> list[FlowParent]:
        """Runs of flows that want to be looked at, with those of their steps.

        They stay locked until the transaction ends. A step that ends meanwhile wakes its flow
        again.
        """

    def begin_flows(self, run_ids: Sequence[str]) -> set[str]:
        """Of queued runs of flows, those that may begin by the limits of their schedules; they
        have begun then."""

    def commit_flows(self, moves: Sequence[FlowMove]) -> None:
        """Write the runs of steps, ask others to end, end runs of flows; wake who waits for it."""

    def earliest_flow(self) -> FlowWake:
        """When somebody has to look at runs of flows again."""

    def flow_outputs(self, run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """What the steps of runs of flows returned, of those that have ended."""

    def get_flow_revision(self, namespace: str, flow: str, digest: str) -> FlowRevision | None:
        """The file of a flow as it once was."""

    def call_flow(self, token: Token, target: FlowTarget) -> bool:
        """A step becomes the run of a flow; False when the token is no longer current."""

    def take_controls(self, limit: int) -> list[FlowControl]:
        """Flows whose stop or restart schedules want to be looked at; locked."""

    def control_flow(
        self, namespace: str, name: str, control_at: datetime | None, restarting: bool
    ) -> None:
        """They have been looked at now; look again at `control_at`."""

    def active_flow_runs(self, namespace: str, flow: str) -> list[tuple[str, str]]:
        """Id and status of the runs of a flow that have not ended; not those that steps called."""

    def last_flow_end(self, namespace: str, flow: str) -> datetime | None:
        """When its latest run ended that did."""

    def start_flow(
        self,
        run_id: str,
        namespace: str,
        target: FlowTarget,
        priority: int,
        trigger: str,
    ) -> None:
        """A run of a flow, by the limits of the schedule of its name if that starts it."""

    def flow_run(self, run_id: str) -> tuple[str | None, dict[str, Any], int] | None:
        """Digest, params and depth of a run of a flow; None for any other run."""

    def list_steps_of(self, run_id: str) -> list[Run]:
        """The runs of its steps in order, also those that a retry began again."""

    def list_flow_runs(self, namespace: str, flow: str, limit: int) -> list[Run]:
        """The newest first."""

    def lock_flow_run(self, run_id: str) -> bool:
        """Nobody advances it before the transaction ends; False when it is no run of a flow."""

    def reopen_flow(self, run_id: str, forgotten: Iterable[str]) -> None:
        """Go on with a run of a flow that has ended, as if these steps had not begun."""

    # -- flows of files
    def get_flow(self, namespace: str, name: str) -> KeptFlow | None: ...

    def list_flows(self, namespace: str) -> list[KeptFlow]:
        """All of them, by name."""

    def page_flows(self, namespace: str, after: Place | None, limit: int) -> Found[KeptFlow]:
        """By name; a name is a place."""

    def latest_flow_runs(self, namespace: str, names: Sequence[str]) -> dict[str, Run]:
        """The newest run of each of these flows that has any."""

    def get_flows(self, namespace: str, names: Sequence[str]) -> dict[str, KeptFlow]:
        """Those that exist, by name."""

    def save_flows(
        self, namespace: str, revisions: Sequence[tuple[FlowRevision, datetime | None]]
    ) -> None:
        """Put revisions of flows in force; look at the stops and restarts of each at its time."""

    def move_flow(self, namespace: str, name: str, place: str) -> None: ...

    def remove_flows(self, namespace: str, names: Sequence[str]) -> None: ...

    def save_problems(
        self, namespace: str, roots: Collection[str], problems: Mapping[str, Sequence[Any]]
    ) -> None:
        """What is wrong with the files of some directories, by place, in place of what was."""

    def list_flow_problems(self, namespace: str) -> dict[str, list[dict[str, Any]]]:
        """By place."""

    def lease_flows(
        self, namespace: str, roots: Iterable[str], holder: str, lease: timedelta
    ) -> None:
        """Look after the flows of directories for a while; raises Conflict when another does."""

    def release_flows(self, holder: str) -> None:
        """Let others look after them."""

    # -- a part of a transaction
    def undoable(self, work: Callable[[], T]) -> T:
        """A part of the transaction: when `work` raises, nothing of it stays, and the rest does."""

    # -- the log of events
    def append_events(self, drafts: Sequence[Draft]) -> None:
        """Write events that belong to no schedule or run."""

    def stamp_events(self, limit: int) -> int | None:
        """Give up to `limit` events that can be seen their positions; returns how many.

        None when somebody else is at it. Whoever reads the log never finds a position beyond
        which a smaller one appears later.
        """

    def last_position(self) -> int:
        """0 for an empty log."""

    def first_position(self) -> int:
        """Where the log begins, for what is older is no longer kept; 1 while it is empty."""

    def position_at(self, moment: datetime) -> int:
        """The position after which all events come that were written at `moment` or later."""

    def read_events(
        self,
        namespace: str,
        after: int,
        limit: int,
        topics: Topics = None,
        parts: Sequence[int] = (0,),
        partitions: int = 1,
        type_: str | None = None,
        key: str | None = None,
    ) -> Batch:
        """Up to `limit` events after a position, in their order; of some partitions of the keys.

        Without topics: of all of them but those about life cycles. It ends earlier with the event
        that makes it more than MOST_BYTES of data.
        """

    def read_events_back(
        self,
        namespace: str,
        before: int,
        limit: int,
        topics: Topics = None,
        type_: str | None = None,
        key: str | None = None,
    ) -> Batch:
        """Up to `limit` events before a position, the newest first; `after` of the batch is where
        to go on: everything from there on was looked at."""

    def list_topics(self, namespace: str, after: int) -> list[TopicUse]:
        """The topics of what comes after a position, by name."""

    def get_event(self, namespace: str, event_id: str) -> Event:
        """Raises NotFound."""

    # -- who reads the log
    def save_consumer(self, consumer: Consumer, start: int) -> Consumer:
        """A group or sink that begins after a position; one that exists goes on where it is.

        Its topics, attempts and options become those given; its partitions stay. Raises Conflict
        when it is of another kind.
        """

    def get_consumer(self, namespace: str, name: str) -> Consumer:
        """Raises NotFound."""

    def list_consumers(self, namespace: str | None = None) -> list[Consumer]:
        """By namespace and name."""

    def remove_consumer(self, namespace: str, name: str) -> bool:
        """Whether there was one; its dead letters go with it."""

    def share_cursors(
        self, consumer: Consumer, member: str, lease: timedelta, share: Share
    ) -> list[Cursor]:
        """A member lives, gives up and takes what `share` says, and learns what is its own.

        Raises NotFound when the consumer was removed.
        """

    def renew_member(self, consumer: Consumer, member: str, lease: timedelta) -> None:
        """A member lives."""

    def leave_group(self, consumer: Consumer, member: str) -> None:
        """What a member owned is free."""

    def hold_cursors(self, consumer: Consumer, member: str, cursors: Sequence[Cursor]) -> set[int]:
        """The partitions whose cursors are still the member's, and where they were; nobody takes
        them over before the transaction ends."""

    def get_position(self, consumer: Consumer, part: int) -> int:
        """How far a consumer has come in a partition."""

    def move_cursors(self, consumer: Consumer, member: str, moves: Sequence[Move]) -> set[int]:
        """Move cursors by their terms, and bury what cannot be delivered; returns the partitions
        whose cursors were moved."""

    def take_letters(self, consumer: Consumer, parts: Sequence[int], limit: int) -> list[Event]:
        """Dead letters of these partitions that shall be delivered once more, the oldest first."""

    def settle_letter(self, consumer: Consumer, event_id: str, error: str | None) -> bool:
        """A dead letter was delivered, or was not and rests again; False: it is none any more."""

    def list_letters(
        self, namespace: str, name: str | None, limit: int, after: Place | None = None
    ) -> Found[DeadLetter]:
        """The newest first, after a place; up to MOST_BYTES of them."""

    def count_letters(self, namespace: str, name: str, event_id: str | None) -> int:
        """How many dead letters a consumer has; with an event whether it is one of them."""

    def replay_letters(self, namespace: str, name: str, event_id: str | None) -> int:
        """Have dead letters delivered once more, one or all; returns how many."""

    def drop_letters(self, namespace: str, name: str, event_id: str | None) -> int:
        """Give dead letters up, one or all; returns how many."""

    def replay(self, namespace: str, name: str, position: int) -> int:
        """Have what comes after a position delivered again, marked as such; returns in how many
        partitions. Raises NotFound, and Invalid for a position that is not on the log."""

    def list_lags(self) -> list[Lag]:
        """How far each consumer is behind."""

    def list_partitions(self, namespace: str, name: str) -> list[Partition]:
        """How far a consumer has come in each of its partitions."""

    # -- schedules and runs, for people
    def create_schedule(
        self,
        schedule_id: str,
        namespace: str,
        name: str,
        spec: ScheduleSpec,
        next_due_at: datetime | None,
        wake_at: datetime | None,
        by: str,
    ) -> None:
        """Store a new schedule; raises Conflict when the name is taken."""

    def create_schedules(self, made: Sequence[NewSchedule], by: str, now: datetime) -> None:
        """Store new schedules as of `now`; raises Conflict when a name is taken."""

    def list_taken(self, namespace: str, names: Sequence[str]) -> dict[str, str]:
        """Which of these names are taken, and by which ids."""

    def update_schedule(self, schedule: Schedule, spec: ScheduleSpec, plan: Plan, by: str) -> None:
        """Put another definition in force, with the state that `plan` says."""

    def list_revisions(self, schedule_id: str) -> list[Revision]:
        """Every definition of the schedule, the first one first."""

    def find_schedule(self, namespace: str, name: str, deleted: bool = False) -> str:
        """The id of a schedule by its name, or its id; raises NotFound.

        With `deleted`, a name that is free means the schedule that had it last.
        """

    def get_schedule(self, schedule_id: str) -> Schedule: ...

    def list_schedules(
        self,
        namespace: str,
        wanted: ScheduleFilter,
        sort: ScheduleSort,
        after: Place | None,
        limit: int,
    ) -> Found[Schedule]:
        """Schedules in an order, from the one after a place on, each with its latest run."""

    def find_schedules(
        self,
        namespace: str,
        wanted: ScheduleFilter,
        sort: ScheduleSort,
        after: Place | None,
        limit: int,
    ) -> Found[tuple[str, str]]:
        """As list_schedules, but only their ids and names."""

    def latest_runs(self, schedule_ids: Sequence[str]) -> dict[str, LatestRun]:
        """The newest run of each schedule that has one."""

    def list_made_by(self, namespace: str, by: str) -> list[str]:
        """The names of the schedules that somebody made, in order."""

    def list_exceptions(self, schedule_id: str) -> list[DueException]:
        """What people said about due times that are not decided yet, by due time."""

    def snapshot(self, schedule_id: str) -> Snapshot:
        """One schedule, locked, as the planner sees it."""

    def snapshots(self, schedule_ids: Sequence[str]) -> list[Snapshot]:
        """As `snapshot`, of those that are not deleted and can be read, by id."""

    def pause(
        self, plans: Sequence[Plan], reason: str | None, until: datetime | None = None
    ) -> None:
        """Commit the state of schedules that pause now, `until` they resume by themselves."""

    def delete_schedules(self, ended: Sequence[tuple[Schedule, Sequence[Skip]]]) -> None:
        """Cancel queued runs, record pending due times, free the name; history stays."""

    def add_exception(self, schedule_id: str, exception: DueException) -> None: ...

    def remove_exception(self, schedule_id: str, exception: DueException) -> None: ...

    def create_run(self, snapshot: Snapshot, run_id: str, payload: dict[str, Any] | None) -> None:
        """A manual run of a schedule, ready now."""

    def create_ended(
        self, snapshot: Snapshot, fires: Sequence[Fire], payload: dict[str, Any] | None = None
    ) -> list[str]:
        """Runs that have ended, with their events; returns the ids of those whose due time had
        none."""

    def enqueue(self, run_id: str, namespace: str, wanted: Enqueued) -> str:
        """A run without a schedule; returns its id, or that of the run that has its key.

        Raises Conflict when that one was made by a transaction which this one cannot see.
        """

    def create_backfill(self, snapshot: Snapshot, due_times: Sequence[datetime]) -> list[str]:
        """Runs for due times that have none; returns their ids."""

    def reopen(self, run_id: str) -> None:
        """Queue a run again that has ended, as another attempt; raises NotFound and Conflict."""

    def cancel(self, run_id: str, reason: str) -> str:
        """Cancel a run; returns `cancelled`, or `requested` when it runs.

        Raises NotFound, and Conflict when it has ended.
        """

    def get_run(self, run_id: str) -> Run:
        """Raises NotFound."""

    def find_run(self, namespace: str, text: str) -> str:
        """The id of a run by its id or the beginning of it.

        Raises NotFound, and Invalid when several begin so.
        """

    def short_id(self, run_id: str) -> str:
        """The beginning of an id that stands for this run alone."""

    def list_attempts(self, run_id: str) -> list[Attempt]:
        """The attempts that are over while the run goes on, or went on; the oldest first."""

    def list_runs(
        self, namespace: str, wanted: RunFilter, after: Place | None, limit: int
    ) -> Found[Run]:
        """The newest first: of a schedule by when they were due or made, of all by creation."""

    def list_runs_due(
        self, schedule_id: str, since: datetime, until: datetime, limit: int
    ) -> list[Run]:
        """The runs of due times from `since` to `until`, the first one first."""

    def list_ledger(
        self, schedule_id: str, wanted: LedgerFilter, after: Place | None, limit: int
    ) -> Found[LedgerEntry]:
        """The newest first."""

    def list_ledger_between(
        self, schedule_id: str, since: datetime, until: datetime, limit: int
    ) -> list[LedgerEntry]:
        """The entries about due times from `since` to `until`, the first one first."""

    def list_sessions(self, since: datetime, until: datetime) -> list[SessionSpan]:
        """The nodes that lived at some time from `since` to `until`."""

    def purge(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` things from before: runs, ledger entries, changes, nodes, tokens.

        Answers to repeated requests go after a day. Returns how many there were.
        """

    def list_nodes(self) -> list[LiveNode]:
        """The nodes whose lease has not run out, by name, the oldest first."""

    def load(self, most: int) -> Load:
        """What waits and runs in each queue, counting up to `most` queued runs."""

    def health(self, grace: timedelta) -> Health:
        """Who works, on what, and which schedule is overdue by more than `grace`."""

    def count_statuses(self, after: str, limit: int) -> tuple[dict[str, int], str | None]:
        """The states of up to `limit` schedules by id, and after which one to go on, if any."""

    def inventory(self) -> Inventory:
        """What is in the books, who works on them, and what waits."""

    def check(self, deep: bool = False) -> list[Finding]:
        """Which invariants do not hold, as far as the books tell without the triggers.

        Of what is over only the last day, unless `deep`.
        """

    def list_accounts(self, after: str, limit: int) -> list[Account]:
        """All schedules by id, the deleted ones too, from the one after `after` on."""

    def list_records(
        self, wanted: Sequence[tuple[str, datetime]], until: datetime
    ) -> dict[str, Records]:
        """What became of the due times of schedules, each after the instant beside it."""

    def list_log(self, run_id: str, after: Page, limit: int) -> list[tuple[Page, LogLine]]: ...

    # -- at a glance
    def list_marks(self, schedule_ids: Sequence[str], each: int) -> dict[str, list[RunMark]]:
        """The newest runs of each of these schedules that has any, the oldest of them first."""

    def list_running(self, namespace: str, limit: int) -> list[Run]:
        """What is under way, the oldest first."""

    def list_late(self, namespace: str, since: datetime, late: timedelta, limit: int) -> list[Run]:
        """Runs that began so `late` after they were due, from `since` on, the newest first; among
        the newest few thousand."""

    def count_failed(self, namespace: str, since: datetime, most: int) -> int:
        """How many runs made from `since` on failed; no more are counted than `most`."""

    def count_hours(self, namespace: str, since: datetime, until: datetime) -> list[HourLoad]:
        """The hours in which runs ended, in any order."""

    def list_durations(self, namespace: str) -> dict[str, timedelta]:
        """How long runs of each schedule take, in the mean of the newest few thousand runs."""

    def list_planned(
        self, namespace: str, after: str, limit: int
    ) -> tuple[list[Planned], str | None]:
        """Active schedules by name, and the name to go on after; None: these are all."""

    def list_inhabited(self) -> list[str]:
        """The namespaces that have schedules, by name."""

    def signal(self, namespace: str) -> tuple[object, ...]:
        """Something cheap that differs when what a page shows may have changed."""


class Store(Protocol):
    """A database that holds the books."""

    parallel: bool
    """whether two transactions of one process go faster side by side than in turn"""
    sequences: bool
    """whether events get their positions later, by a sequencer"""

    def transact(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in one writing transaction and return its result once it is durable.

        When `work` raises, nothing of it stays.
        """

    def read(self, work: Callable[[Tx], T], patient: bool = False) -> T:
        """Run `work` on one consistent view; it must not write.

        Its statements are given up after some seconds; `patient` ones, which look at everything,
        after a minute.
        """

    def pulse(
        self,
        session_id: str,
        lease: timedelta,
        queues: Sequence[str],
        leads: bool = False,
        after: Mark | None = None,
    ) -> Pulse:
        """Prolong a session's lease, and look at everything a node waits for, in one query.

        With `leads` also the leadership: kept, or taken when the leader's lease has ended. No
        wake before `after` needs to be found.
        """

    def join(self, connection: object) -> AbstractContextManager[Tx]:
        """A Tx inside the caller's own transaction: what it writes exists iff that commits.

        Takes a connection of the database's driver, Django's, or SQLAlchemy's connection or
        session. Raises Invalid for anything else, for another database, and for one that is in no
        transaction.
        """

    def look_for_work(
        self, queues: Sequence[str], tasks: Sequence[str], labels: Labels = ()
    ) -> Work:
        """What Tx.list_work says, at the price of one question."""

    def news(self, timeout: float) -> News:
        """What anybody, here or in another process, gave others to do since it was last asked.

        Waits for it up to `timeout` seconds, and costs no query. Only one thread may ask. Raises
        Conflict when these are no longer the books that others see.
        """

    def wait_for_log(self, seen: int, timeout: float) -> int:
        """Wait up to `timeout` seconds for the log of events to grow, as others tell.

        Takes and returns how often that was told; any number of threads may wait.
        """

    def connect(self) -> Any:
        """A connection of the caller's own to the database of the books, for his own tables."""

    def close(self) -> None: ...
