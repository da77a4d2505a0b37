"""The client: every use case, one transaction each."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from duebook.book.alerts import Alerts
from duebook.book.audit import PEOPLE, Audit, Auditor
from duebook.book.calendars import Calendars
from duebook.book.catchup import Catchup
from duebook.book.events import Events
from duebook.book.feeds import Feeds
from duebook.book.foresight import Foresight, Outlay, read_label
from duebook.book.insights import Insights
from duebook.book.namespaces import Namespaces
from duebook.book.nodes import Nodes
from duebook.book.queues import Queues
from duebook.book.quotas import refuse_high_priority
from duebook.book.readiness import GRACE, look, unable
from duebook.book.rights import Rights
from duebook.book.runs import Runs
from duebook.book.schedules import Schedules
from duebook.book.shadow import Shadow
from duebook.book.templates import Templates
from duebook.book.tokens import Tokens
from duebook.book.waiting import stop_watching
from duebook.book.windows import Windows
from duebook.closing import Closing
from duebook.ids import check_name, new_id
from duebook.model.access import Role
from duebook.model.enqueued import ENQUEUE_POLICIES, load_enqueued
from duebook.model.run import EnqueuedRun
from duebook.model.serving import ALL
from duebook.model.target import TaskTarget
from duebook.targets.task import Tasks
from duebook.targets.trace_context import link_current_span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta
    from typing import Unpack

    from duebook.book.doctor import Doctor
    from duebook.book.flows import Flows
    from duebook.book.zones import Zones
    from duebook.budget import Budget
    from duebook.model.policies import EnqueuePolicies
    from duebook.model.readiness import Readiness
    from duebook.model.serving import Serving
    from duebook.model.simulation import SimulationReport, SpreadProposal
    from duebook.store.base import Store, Tx

__all__ = [
    "Alerts",
    "Audit",
    "Book",
    "Catchup",
    "Events",
    "Insights",
    "Namespaces",
    "Nodes",
    "Queues",
    "Runs",
    "Schedules",
    "Templates",
    "Tokens",
]


class Book(Closing):
    """One namespace of a Duebook database; safe to use from several threads.

    `tasks` are the tasks whose payloads can be checked here. `by` identifies the user, such as
    `token:ci` or `cli:alice`, and is recorded with every object that is created or changed.
    `budget` limits the processor time of previews and explanations, which raise OverBudget when
    it is used up. Nodes and queues are shared by all namespaces; `sees` are the namespaces whose
    work is shown for them. `role` decides which targets may be defined.
    """

    def __init__(
        self,
        store: Store | None,
        namespace: str = "default",
        tasks: Tasks | None = None,
        by: str = "",
        budget: Budget | None = None,
        sees: Serving = ALL,
        role: Role = Role.ADMIN,
    ) -> None:
        self._opened = store
        self.budget = budget
        self._sees = sees
        self._role = role
        self.by = by
        self.namespace = check_name(namespace, "namespace")
        self.tasks = tasks or Tasks()

    @property
    def store(self) -> Store:
        assert self._opened is not None  # noqa: S101 - it was given
        return self._opened

    @cached_property
    def rights(self) -> Rights:
        return Rights(self.namespace, self.tasks, self.by, self._role)

    @cached_property
    def schedules(self) -> Schedules:
        mine = self.by, self.budget, self.rights
        return Schedules(self.store, self.namespace, self.tasks, *mine)

    @cached_property
    def catchup(self) -> Catchup:
        return Catchup(self.store, self.namespace, self.by)

    @cached_property
    def templates(self) -> Templates:
        return Templates(self.store, self.namespace, self.by, self.rights)

    @cached_property
    def calendars(self) -> Calendars:
        return Calendars(self.store, self.namespace, self.by, self.budget)

    @cached_property
    def windows(self) -> Windows:
        return Windows(self.store, self.namespace, self.by)

    @cached_property
    def shadow(self) -> Shadow:
        return Shadow(self.store, self.namespace, self.by)

    @cached_property
    def feeds(self) -> Feeds:
        return Feeds(self.store, self.namespace, self.by)

    @cached_property
    def alerts(self) -> Alerts:
        return Alerts(self.store, self.namespace, self.by, self.rights)

    @cached_property
    def runs(self) -> Runs:
        return Runs(self.store, self.namespace, self.by)

    @cached_property
    def flows(self) -> Flows:
        from duebook.book.flows import Flows  # most programs have no flows, and start faster

        return Flows(self.store, self.namespace, self.by)

    @cached_property
    def nodes(self) -> Nodes:
        return Nodes(self.store, self._sees, self.by)

    @cached_property
    def events(self) -> Events:
        return Events(self.store, self.namespace, self.by)

    @cached_property
    def queues(self) -> Queues:
        return Queues(self.store, self.by, self._sees)

    @cached_property
    def tokens(self) -> Tokens:
        return Tokens(self.store, self.by)

    @cached_property
    def namespaces(self) -> Namespaces:
        return Namespaces(self.store, self.by)

    @cached_property
    def doctor(self) -> Doctor:
        from duebook.book.doctor import Doctor  # few programs need it

        return Doctor(self.store, self.by, self.budget)

    @cached_property
    def zones(self) -> Zones:
        from duebook.book.zones import Zones  # as above

        return Zones(self.store, self.budget)

    @cached_property
    def insights(self) -> Insights:
        return Insights(self.store, self.namespace, self._sees)

    @cached_property
    def audit(self) -> Audit:
        return Audit(self.store, self.namespace)

    def enqueue(
        self,
        task: str | Callable[..., Any],
        payload: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        connection: Any = None,
        **policies: Unpack[EnqueuePolicies],
    ) -> EnqueuedRun:
        """Queue a run of a task, now or after a `delay`, without a schedule.

        While a run of the task has the `key`, other calls with that key return it: until a worker
        claims it (`unique="pending"`), until it ends (`"active"`), for a time (`"1h"`), or always
        (`"forever"`, the default). With `debounce` or `throttle`, they also replace its payload
        until it starts. `result` of the returned run says what the call did, and its `wait` waits
        until the run has ended.

        Policies that are not given are those declared with the task, if this program knows it.
        With `connection` (psycopg, sqlite3, Django's, or SQLAlchemy's connection or session, to the
        same database), the run exists if and only if the caller's transaction commits.

        >>> import tempfile
        >>> from duebook import Duebook
        >>> with Duebook(f"{tempfile.mkdtemp()}/books.db") as book:
        ...     run = book.enqueue("digest", {"audience": "staff"}, key="news-17", delay="5m")
        >>> run.origin, run.status, run.task
        ('enqueue', 'queued', 'digest')

        Raises Invalid if the payload does not match the task's arguments.
        """
        name = task if isinstance(task, str) else self.tasks.name_of(task)
        declared = self.tasks.get(name).policies if name in self.tasks else {}
        kept = {policy: value for policy, value in declared.items() if policy in ENQUEUE_POLICIES}
        if payload is None:
            payload = declared.get("payload", {})
        wanted = load_enqueued(name, payload, key, kept | policies)
        self.tasks.refuse_fenced(TaskTarget(name), self.namespace)
        self.tasks.check(TaskTarget(name), wanted.payload)

        def work(tx: Tx) -> EnqueuedRun:
            self.rights.refuse(tx, TaskTarget(name))
            refuse_high_priority(tx, self.namespace, wanted.policies.priority)
            made = tx.enqueued.enqueue(new_id(), self.namespace, wanted, self.by or None)
            run = tx.runs.get_run(made.run_id)
            if self.by.startswith(PEOPLE):
                after = {"status": run.status, "result": made.result}
                Auditor(self.namespace, self.by).note(
                    tx, "enqueue", "run", name, run.id, None, after
                )
            return EnqueuedRun.of(run, made.result, self.runs.wait)

        if connection is None:
            run = self.store.transact(work)
        else:
            with self.store.join(connection) as tx:
                run = work(tx)
        link_current_span(run.id)
        return run

    def simulate(
        self,
        days: int = 30,
        start: str | datetime | None = None,
        workers: int | None = None,
        takes: Mapping[str, str | timedelta] | None = None,
        percentile: int = 50,
        schedules: Sequence[Mapping[str, Any]] = (),
        only: bool = False,
        progress: Callable[[float, int], None] | None = None,
        calendars: Sequence[Mapping[str, Any]] = (),
    ) -> SimulationReport:
        """Simulate the schedules of the namespace from `start` (now) on, and change nothing.

        The planner decides every due time, on a virtual clock. Runs take as long as past runs did
        (the median, or another `percentile`), or as long as `takes` says, by schedule; its key
        `"*"` is for schedules without past runs, by default a minute. At most `workers` run at the
        same time. `schedules` are additional definitions to simulate; with `only`, they are the
        only ones. `calendars` are definitions, each with its `name`, which replace those that are
        stored. `progress` is called with the completed fraction and the number of due times.

        >>> import tempfile
        >>> from duebook import Duebook, cron
        >>> with Duebook(f"{tempfile.mkdtemp()}/books.db") as book:
        ...     _ = book.schedules.create("etl", trigger=cron("0 * * * *"), target="etl")
        ...     report = book.simulate(days=1, start="2026-02-07T12:00:00Z", takes={"etl": "90m"})
        >>> report.runs, report.skips, report.peak
        (12, {'overlap': 12}, 1)

        Raises Invalid that names the argument, and OverBudget if a budget is used up.
        """
        asked = (days, start, workers, takes, percentile, schedules, only, calendars)
        return self._foresight().simulate(Outlay(*asked), progress or (lambda *_: None))

    def spread(
        self,
        names: Sequence[str] = (),
        label: str | None = "may-move:true",
        days: int = 7,
        start: str | datetime | None = None,
        workers: int | None = None,
        takes: Mapping[str, str | timedelta] | None = None,
        percentile: int = 50,
        schedules: Sequence[Mapping[str, Any]] = (),
        calendars: Sequence[Mapping[str, Any]] = (),
    ) -> SpreadProposal:
        """Propose minutes for schedules that may move, so that fewer runs start together.

        The schedules in `names`, those with the `label`, and those with `H` as their minute may
        move; only the minute changes. The other arguments are those of `simulate`. Changes nothing.
        """
        asked = Outlay(days, start, workers, takes, percentile, schedules, False, calendars)
        return self._foresight().spread(asked, read_label(label), names)

    def _foresight(self) -> Foresight:
        return Foresight(lambda: self.store, self.namespace, self.tasks, self.budget)

    def problems(self) -> list[str]:
        """What prevents queued runs of this namespace from starting; usually empty."""
        return unable(self.readiness(namespace=self.namespace))

    def readiness(self, grace: timedelta | str = GRACE, namespace: str | None = None) -> Readiness:
        """Whether everything that is due can run, and if not, why.

        For all namespaces, or for one. A schedule may be overdue by up to `grace`. An unreachable
        database is reported in the result; it does not raise.
        """
        return look(self.store, grace, None if namespace is None else (namespace,))

    def close(self) -> None:
        if self._opened is not None:
            stop_watching(self._opened)
            self._opened.close()
