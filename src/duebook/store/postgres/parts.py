"""The parts of a transaction that PostgreSQL implements in its own way: with locks, and many rows
at once."""

from __future__ import annotations

import json
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from duebook.model.access import EVERYWHERE
from duebook.model.finding import Finding
from duebook.model.plan import Fire, Lane, Plan
from duebook.model.run import Claim, Outcome, Run, Token
from duebook.store.postgres.alike import Alike
from duebook.store.postgres.statements import columns_of
from duebook.store.sql.attempts import Attempts
from duebook.store.sql.checks import Checks
from duebook.store.sql.claims import Claims, Taken, Wanted
from duebook.store.sql.events import Events
from duebook.store.sql.flow_runs import FlowRuns, LimitKey, columns_of_flows
from duebook.store.sql.ledger import Ledger
from duebook.store.sql.lifecycle import LISTENERS
from duebook.store.sql.new_runs import NewRuns
from duebook.store.sql.plans import Plans, moved_row
from duebook.store.sql.rows import NewRun, claimed_run, clean, inline
from duebook.store.sql.statements import Ask
from duebook.store.sql.wakes import Wakes
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duebook.model.flow_run import FlowMove
    from duebook.store.postgres.statements import PostgresStatements
    from duebook.store.sql.definitions import Definition
    from duebook.store.sql.new_runs import Firing
    from duebook.store.sql.statements import Row, Statements, Values
    from duebook.store.values import FreeWorker

__all__ = [
    "PostgresAttempts",
    "PostgresChecks",
    "PostgresClaims",
    "PostgresEvents",
    "PostgresFlowRuns",
    "PostgresLedger",
    "PostgresNewRuns",
    "PostgresPlans",
    "PostgresWakes",
]

LOG_LOCK: Final = 0x6475_6562_6F6F_6B01
"""The advisory lock for assigning positions to events."""
FLOW_LOCK: Final = 0x6475_6562_6F6F_6B02
"""The salt of the advisory locks of flows."""
NEW_RUNS: Final = Alike(
    NewRun._fields, ("id", "schedule_id", "version", "due_at", "trigger", "interval_start")
)


class PostgresWakes(Wakes):
    """Locks what the end of runs may wake, before the runs."""

    def hold(self, run_ids: Sequence[str]) -> None:
        (rows,) = self._db.together(self.holding(run_ids))
        self.held(rows)

    @staticmethod
    def holding(run_ids: Sequence[str]) -> Ask:
        """The query whose result `held` needs."""
        return Ask("lock_wakes", {"ids": list(run_ids)})

    def held(self, rows: Sequence[Row]) -> None:
        self.anybody_depends = any(depends for _, depends in rows)


class PostgresEvents(Events):
    """Positions are assigned later, by one process at a time."""

    def stamp_events(self, limit: int) -> int | None:
        """The lock has a separate statement, so that the next one sees everything others wrote."""
        if not self._db.value("lock_log", key=LOG_LOCK):
            return None
        stamped = self._db.run("stamp_events", limit=limit)
        if stamped:
            self._db.notify(News.LOG)
        return stamped


class PostgresLedger(Ledger):
    """Extends entries of the ledger together."""

    def _extend(self, rows: list[Values]) -> list[Values]:
        """One statement for the first of each schedule, which is usually the only one."""
        firsts: dict[str, Values] = {}
        for row in rows:
            if row["follows"] is not None:
                firsts.setdefault(row["schedule_id"], row)
        extended = self._extended(list(firsts.values()))
        new = []
        for row in rows:
            if row is firsts.get(row["schedule_id"]):
                goes_on = row["schedule_id"] in extended
            else:
                goes_on = row["follows"] is not None and bool(self._extended([row]))
            if not goes_on:
                new.append(row)
        return new

    def _extended(self, rows: list[Values]) -> set[str]:
        if not rows:
            return set()
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        return {row[0] for row in self._db.all("extend_ledger", **columns)}


class PostgresNewRuns(NewRuns):
    """Sends values common to many runs once."""

    def insert(self, rows: Sequence[Row]) -> int:
        values = NEW_RUNS.values(rows)
        return super().insert(rows) if values is None else self._db.run("insert_alike", **values)


class PostgresPlans(Plans):
    """Moves states, and counts their events, with one statement."""

    _db: PostgresStatements

    def _move_states(self, plans: Sequence[Plan]) -> tuple[int, dict[str, int]]:
        """Plans that write events are counted in the same statement, as touching a row twice
        doubles the cost."""
        emits = {plan.schedule_id: number for plan in plans if (number := plan.emits)}
        if not emits:
            return super()._move_states(plans)
        moved, _ = super()._move_states([plan for plan in plans if plan.schedule_id not in emits])
        rows = [
            (*moved_row(plan, self._db.stamp), emits[plan.schedule_id])
            for plan in plans
            if plan.schedule_id in emits
        ]
        counted = self._db.all_rows("move_and_count", rows)
        return moved + len(counted), dict(counted)

    def _insert_rows(self, fires: Sequence[Firing], rows: Sequence[Row]) -> int:
        """Runs that the worker can start now belong to it from the beginning, and never wait."""
        worker = self.worker
        if worker is None:
            return super()._insert_rows(fires, rows)
        made = [NewRun._make(row) for row in rows]
        begins = [self._can_begin(worker, run) for run in made]
        exclusive = [run.schedule_id for run in made if run.exclusive]
        is_clear = len(exclusive) == len(set(exclusive))
        if not is_clear or not 0 < sum(begins) <= worker.free:  # a claim decides whose turn it is
            return super()._insert_rows(fires, rows)
        own = {"session_id": worker.session_id, "now": self._db.now, "begins": begins}
        inserted = self._db.all("start_runs", **columns_of("insert_run", rows), **own)
        begun = {id_: rest for id_, *rest, begins in inserted if begins}
        self.claims = [
            _started(run, fire, self._definitions.of(owner), worker.session_id, *begun[run.id])
            for run, (_, owner, fire) in zip(made, fires, strict=True)
            if run.id in begun
        ]
        return len(inserted)

    def _can_begin(self, worker: FreeWorker, run: NewRun) -> bool:
        """Whether the worker can run it, and no limit of its schedule can count it."""
        if not worker.can_begin(run.queue, run.namespace, run.task):
            return False
        return run.schedule_id in self._snapshots.idle if run.exclusive else not run.max_concurrent


def _started(
    new: NewRun, fire: Fire, definition: Definition, session_id: str, node: str, priority: int
) -> Claim:
    run = Run(
        new.id,
        new.namespace,
        new.schedule_id,
        definition.name,
        new.version,
        new.due_at,
        fire.origin,
        new.trigger,
        new.queue,
        priority,
        "running",
        1,
        0,
        0,
        None,
        new.created_at,
        new.ready_at,
        new.ready_at,
        new.ready_at,
        None,
        new.expires_at,
        node,
        task=new.task,
        planned_by=new.planned_by,
        interval=fire.interval,
    )
    return Claim(run, Token(run.id, 1, session_id), definition.spec, definition.owner.user)


class PostgresAttempts(Attempts):
    """Many end with one statement."""

    _wakes: PostgresWakes

    def settle_all(
        self,
        ended: Sequence[tuple[Token, Outcome]],
        begun: Mapping[Token, datetime] = MappingProxyType({}),
    ) -> set[Token]:
        """One statement for all, in the order of their ids, so that no two such statements wait for
        each other; only runs that it did not find are looked at one by one. Locks, ends and
        listeners are queried in one message, and wake-ups go with the COMMIT."""
        if not ended:
            return set()
        ended = sorted(ended, key=lambda end: end[0].run_id)
        tokens = {(token.run_id, token.attempt): token for token, _ in ended}
        columns: Values = {
            "now": self._db.at,
            "run_id": [token.run_id for token, _ in ended],
            "attempt": [token.attempt for token, _ in ended],
            "session_id": [token.session_id for token, _ in ended],
            "status": [outcome.status for _, outcome in ended],
            "reason": [clean(outcome.reason) for _, outcome in ended],
            "error": [clean(outcome.error) for _, outcome in ended],
            "exit_code": [outcome.exit_code for _, outcome in ended],
            "output": [inline(outcome.output) for _, outcome in ended],
            "output_ref": [clean(outcome.output_ref) for _, outcome in ended],
            "begun_at": [begun.get(token) for token, _ in ended],
        }
        held, rows, listeners = self._db.together(
            self._wakes.holding(columns["run_id"]), Ask("settle_runs", columns), LISTENERS
        )
        self._wakes.held(held)
        self._lifecycle.learn(listeners)
        settled = {tokens.pop((run_id, attempt)) for run_id, attempt, *_ in rows}
        told = [
            (token.run_id, end)
            for token, end in ended
            if (end.output is not None or end.events) and token in settled
        ]
        if told:
            self._append_of_runs(told)
            self._ends.keep_large((run_id, end.output) for run_id, end in told)
            self._ends.keep_secrets((run_id, end.output_secrets) for run_id, end in told)
        self._lifecycle.record_run_events([token.run_id for token in settled])
        if any(others_wait for *_, others_wait in rows):
            self._db.notify(News.WORK)
        self._wakes.wake_flows(row[4] for row in rows)
        if woken := [row[3] for row in rows if row[2] and row[3] is not None]:
            self._db.ask_last("wake_schedules", ids=woken, now=self._db.now)
            self._db.notify(News.WAKE)
        if self._wakes.anybody_depends:
            self._wakes.wake_dependents({row[3] for row in rows if row[5]})
        return settled | {token for token in tokens.values() if self._settled_before(token)}


class PostgresClaims(Claims):
    """Takes runs that no other transaction is just taking."""

    def _claim_runs(self, wanted: Wanted, limit: int, ahead: int) -> Taken:
        """One statement, unless the queue has limits, which are locked first."""
        limited, taken = self._take(wanted, limit, ahead)
        if not limited:
            return taken

        def take(most: int, more: int, at: datetime) -> Taken:
            return self._take(wanted, most, more, at)[1]

        return self._within_queue(wanted.queue, limit, ahead, take)

    def _take(
        self, wanted: Wanted, limit: int, ahead: int, admitted_at: datetime | None = None
    ) -> tuple[bool, Taken]:
        """Runs start when they were admitted, or else now. From a queue with limits nothing is
        taken without admission; the result says so."""
        values: Values = {
            "now": self._db.at,
            "at": admitted_at or self._db.at,
            "straight": limit,
            "limit": limit + ahead,
            "admitted": admitted_at is not None,
            "session_id": wanted.session_id,
            "queue": wanted.queue,
            "namespace": wanted.namespace,
            "everywhere": EVERYWHERE,
            "tasks": wanted.tasks,
            "labels": json.dumps(dict(wanted.labels)),
            "ranks": [part.rank for part in wanted.parts],
            "sinces": [part.since for part in wanted.parts],
            "lasts": [part.last for part in wanted.parts],
        }
        (rows,) = self._db.together(Ask("claim_ready", values))
        at = admitted_at or self._db.now
        if not rows:  # the session is dead, or does not serve the namespace
            return False, Taken([], is_limited=False)
        node, limited, is_limited, bound = rows[0][-4:]
        given = rows if rows[0][0] is not None else []  # a row without a run: none could be taken
        if bound is not None:
            given = [*given, *self._take_bound(bound, wanted.session_id, at)]
        given.sort(key=_turn)
        pairs = dict.fromkeys(row[2:4] for row in given)
        definitions = self._definitions.read([pair for pair in pairs if pair[0] is not None])
        names = {pair: found.name for pair in pairs if (found := definitions.get(pair))}
        runs = [claimed_run(row, names.get(row[2:4]), node, at) for row in given]
        return limited and admitted_at is None, Taken(runs, is_limited)

    def _take_bound(self, bound: list[list[Any]], session_id: str, at: datetime) -> list[Row]:
        """Count runs of limited schedules again under a lock of their schedule; a backfill starts
        only if no other transaction is deciding about due times at the same time."""
        exclusive = {schedule_id for _, schedule_id, _, alone in bound if alone}
        counted = {schedule_id for _, schedule_id, _, _ in bound} - exclusive
        filling = {owner for _, owner, lane, alone in bound if alone and lane == Lane.BACKFILL}
        free = _locked(self._db, "lock_exclusive", exclusive) | _locked(
            self._db, "lock_limited", counted
        )
        free -= filling - _locked(self._db, "lock_decided", filling)
        ids = [id_ for id_, owner, *_ in bound if owner in free]
        mine: Values = {"session_id": session_id, "at": at, "now": self._db.now}
        return self._db.all("claim_limited", ids=ids, **mine) if ids else []


def _turn(row: Row) -> tuple[int, datetime, int]:
    """By priority, then readiness."""
    return -row[8], row[14], row[25]


class PostgresFlowRuns(FlowRuns):
    """Starts flows under locks, and ends many with one statement."""

    def _alone_with_schedules(self, keys: set[LimitKey]) -> set[LimitKey]:
        locked = _locked(self._db, "lock_exclusive", {key.owner for key in keys})
        return {key for key in keys if key.owner in locked}

    def _decided_schedules(self, keys: set[LimitKey]) -> set[LimitKey]:
        return {
            LimitKey(id_) for id_ in _locked(self._db, "lock_decided", {key.owner for key in keys})
        }

    def _alone_with_flows(self, keys: set[LimitKey]) -> set[LimitKey]:
        """A flow has no row that only this would lock, so its name is locked."""
        flows = sorted((key.owner, key.flow) for key in keys if key.flow is not None)
        rows = self._db.all("lock_flow_names", salt=FLOW_LOCK, **columns_of_flows(flows))
        return {LimitKey(namespace, flow) for namespace, flow in rows}

    def _end_flows(self, ended: Sequence[FlowMove]) -> list[Row]:
        ends = [(move, move.end) for move in ended if move.end is not None]
        columns: Values = {
            "id": [move.parent.run_id for move, _ in ends],
            "status": [end.status for _, end in ends],
            "reason": [end.reason for _, end in ends],
            "error": [clean(move.error) for move, _ in ends],
            "output": [inline(move.output) for move, _ in ends],
        }
        return self._db.all("end_flow_runs", now=self._db.now, **columns)


class PostgresChecks(Checks):
    """Also checks how safely the server is configured."""

    _slack = timedelta(seconds=10)  # a transaction's time is that of its start

    def _damage(self, deep: bool) -> list[Finding]:
        """A check may take longer than other reads, as nothing waits for it."""
        self._db.run("allow_time", longest="0" if deep else "60s")
        return [
            Finding("I6", f"the server may lose committed data: {name} is off", False)
            for name, _ in self._db.all("list_settings")
        ]


def _locked(db: Statements, query: str, schedule_ids: set[str]) -> set[str]:
    if not schedule_ids:
        return set()
    return {row[0] for row in db.all(query, ids=list(schedule_ids))}
