"""One transaction, composed of its parts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from duebook.store.sql.access import Access
from duebook.store.sql.alerts import Alerts
from duebook.store.sql.attempts import Attempts
from duebook.store.sql.audit import Audit
from duebook.store.sql.calendars import Calendars
from duebook.store.sql.consumers import Consumers
from duebook.store.sql.definitions import DefinitionReader
from duebook.store.sql.directories import Directories
from duebook.store.sql.events import Events
from duebook.store.sql.flow_controls import FlowControls
from duebook.store.sql.flows import Flows
from duebook.store.sql.held import HeldCatchup
from duebook.store.sql.history import Histories
from duebook.store.sql.insights import Insights
from duebook.store.sql.ledger import Ledger
from duebook.store.sql.lifecycle import Lifecycle
from duebook.store.sql.lists import Lists
from duebook.store.sql.new_runs import NewRuns
from duebook.store.sql.nodes import Nodes
from duebook.store.sql.plans import Plans
from duebook.store.sql.queues import Queues
from duebook.store.sql.quotas import Quotas
from duebook.store.sql.run_ends import RunEnds
from duebook.store.sql.run_keys import EnqueuedRuns
from duebook.store.sql.runs import Runs
from duebook.store.sql.schedules import Schedules
from duebook.store.sql.shadow import Shadows
from duebook.store.sql.snapshots import Snapshots
from duebook.store.sql.status import Status
from duebook.store.sql.upkeep import Upkeep
from duebook.store.sql.wakes import Wakes

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from duebook.store.sql.checks import Checks
    from duebook.store.sql.checkups import Checkups
    from duebook.store.sql.claims import Claims
    from duebook.store.sql.flow_runs import FlowRuns
    from duebook.store.sql.statements import Statements

__all__ = ["Tx"]

T = TypeVar("T")


class part(Generic[T]):  # noqa: N801 - it reads like `property`
    """A part of a transaction, created when first used."""

    def __init__(self, make: Callable[[Tx], T]) -> None:
        self._make = make

    def __set_name__(self, owner: type[Tx], name: str) -> None:
        self._name = name

    def __get__(self, tx: Tx, owner: type[Tx]) -> T:
        made = tx.__dict__[self._name] = self._make(tx)  # from now on it is found there
        return made


class Tx:
    """One transaction. Its changes become visible when all of it commits, or not at all.

    Its parts share one connection, one `now` and one lock order: schedules and keys before
    runs, and each kind by id. The class of each part documents what it offers:

    - `plans`: due schedules and the decisions about them; `ledger`: why due times did not run
    - `held`: missed due times that wait for an operator
    - `schedules`, `runs`, `lists`: what people define, create, cancel and read; `enqueued`: runs
      without a schedule; `calendars`: the days for schedules, maintenance windows, feeds;
      `shadows`: due times that are only recorded
    - `claims`, `attempts`, `queues`: the work of workers, and its limits
    - `flows`, `flow_runs`, `flow_controls`, `directories`: flows, from their files to their runs
    - `events`, `consumers`: the log of events, and its readers; `alerts`: problems and their rules
    - `nodes`, `upkeep`, `status`, `checks`, `checkups`: the nodes and state of the database
    - `access`, `quotas`, `audit`: permissions, limits, and who changed what
    - `insights`: data for an overview

    The others serve these. A database that implements a part in its own way names the class in
    its transaction.
    """

    wakes_type: type[Wakes] = Wakes
    events_type: type[Events] = Events
    ledger_type: type[Ledger] = Ledger
    new_runs_type: type[NewRuns] = NewRuns
    plans_type: type[Plans] = Plans
    attempts_type: type[Attempts] = Attempts
    claims_type: type[Claims]
    flow_runs_type: type[FlowRuns]
    checks_type: type[Checks]
    checkups_type: type[Checkups]

    def __init__(self, db: Statements) -> None:
        self.db = db

    # each depends only on those above it
    definitions = part(lambda tx: DefinitionReader(tx.db))
    wakes = part(lambda tx: tx.wakes_type(tx.db))
    events = part(lambda tx: tx.events_type(tx.db))
    lifecycle = part(lambda tx: Lifecycle(tx.db, tx.events))
    ends = part(lambda tx: RunEnds(tx.db, tx.wakes, tx.lifecycle))
    directories = part(lambda tx: Directories(tx.db))
    snapshots = part(lambda tx: Snapshots(tx.db, tx.definitions, tx.directories))
    ledger = part(lambda tx: tx.ledger_type(tx.db))
    held = part(lambda tx: HeldCatchup(tx.db))
    new_runs = part(
        lambda tx: tx.new_runs_type(tx.db, tx.definitions, tx.wakes, tx.events, tx.lifecycle)
    )
    plans = part(
        lambda tx: tx.plans_type(
            tx.db,
            tx.definitions,
            tx.wakes,
            tx.lifecycle,
            tx.ends,
            tx.snapshots,
            tx.ledger,
            tx.new_runs,
        )
    )
    quotas = part(lambda tx: Quotas(tx.db))
    history = part(lambda tx: Histories(tx.db))
    schedules = part(
        lambda tx: Schedules(
            tx.db, tx.lifecycle, tx.snapshots, tx.ledger, tx.plans, tx.quotas, tx.history
        )
    )
    runs = part(lambda tx: Runs(tx.db, tx.definitions, tx.wakes, tx.ends, tx.new_runs))
    enqueued = part(lambda tx: EnqueuedRuns(tx.db))
    queues = part(lambda tx: Queues(tx.db))
    attempts = part(lambda tx: tx.attempts_type(tx.db, tx.wakes, tx.events, tx.lifecycle, tx.ends))
    claims = part(lambda tx: tx.claims_type(tx.db, tx.definitions, tx.queues, tx.attempts))
    flows = part(lambda tx: Flows(tx.db))
    flow_runs = part(
        lambda tx: tx.flow_runs_type(
            tx.db,
            tx.definitions,
            tx.wakes,
            tx.lifecycle,
            tx.ends,
            tx.plans,
            tx.schedules,
            tx.runs,
        )
    )
    flow_controls = part(lambda tx: FlowControls(tx.db, tx.wakes, tx.ends))
    nodes = part(lambda tx: Nodes(tx.db, tx.plans, tx.attempts, tx.claims, tx.flow_runs))
    lists = part(lambda tx: Lists(tx.db, tx.schedules, tx.runs, tx.nodes))
    insights = part(lambda tx: Insights(tx.db, tx.definitions, tx.runs, tx.lists))
    consumers = part(lambda tx: Consumers(tx.db, tx.events))
    alerts = part(lambda tx: Alerts(tx.db))
    upkeep = part(lambda tx: Upkeep(tx.db))
    shadows = part(lambda tx: Shadows(tx.db))
    status = part(lambda tx: Status(tx.db, tx.directories, tx.nodes, tx.shadows))
    checks = part(lambda tx: tx.checks_type(tx.db, tx.snapshots, tx.schedules, tx.upkeep, tx.held))
    checkups = part(lambda tx: tx.checkups_type(tx.db))
    access = part(lambda tx: Access(tx.db))
    audit = part(lambda tx: Audit(tx.db))
    calendars = part(lambda tx: Calendars(tx.db))

    @property
    def now(self) -> datetime:
        """The database's clock, the same for the whole transaction; it never runs backwards."""
        return self.db.now

    @property
    def behind(self) -> timedelta:
        """How far this machine's clock is behind the latest recorded time; usually zero."""
        return self.db.behind

    def undoable(self, work: Callable[[], T]) -> T:
        """A part of the transaction: if `work` raises, only that part is undone."""
        db = self.db
        learned, used = dict(db.learned), dict(db.used)
        db.run("begin_part")
        try:
            result = work()
        except BaseException:
            db.used = used
            db.learned = learned  # definitions that are undone are not committed
            with suppress(Exception):  # the whole transaction may be lost, for the same reason
                db.run("undo_part")
                db.run("end_part")
            raise
        db.run("end_part")
        return result
