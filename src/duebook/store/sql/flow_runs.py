"""Runs of flows in a transaction: takes those that are due, and writes the moves of their steps."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from duebook.model.flow_run import FlowMove, FlowParent, StepRow
from duebook.model.flow_target import FlowTarget
from duebook.model.plan import Lane, Snapshot
from duebook.store.flow_values import Begun, BegunWith, FlowWake, WaitingStep
from duebook.store.sql.rows import clean, read_output, read_run
from duebook.store.sql.statements import Part, Row, Statements, Values
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from duebook.model.run import Run, Token
    from duebook.store.sql.definitions import DefinitionReader
    from duebook.store.sql.lifecycle import Lifecycle
    from duebook.store.sql.plans import Plans
    from duebook.store.sql.run_ends import RunEnds
    from duebook.store.sql.runs import Runs
    from duebook.store.sql.schedules import Schedules
    from duebook.store.sql.wakes import Wakes

__all__ = ["FlowRuns", "LimitKey", "columns_of_flows"]


class Waiting(NamedTuple):
    """A run of a flow that waits to start."""

    id: str
    namespace: str
    flow: str
    schedule_id: str | None
    lane: int
    exclusive: bool
    max_concurrent: int | None
    priority: int
    ready_at: Any
    created_at: Any
    backfill_limit: int | None

    @property
    def fills(self) -> bool:
        """Whether it is a backfill about to start, of a schedule whose runs exclude each other."""
        return self.exclusive and self.lane == Lane.BACKFILL

    def turn(self) -> tuple[Any, ...]:
        """The order in which they start."""
        return self.lane, -self.priority, self.ready_at, self.created_at


class LimitKey(NamedTuple):
    """What limits the number of runs of flows: a schedule, or a flow of a namespace."""

    owner: str
    """the id of the schedule, or the namespace of the flow"""
    flow: str | None = None
    beside: bool = False
    """for a schedule: whether it counts backfills that run beside the other runs"""


class FlowRuns(Part, ABC):
    """Runs of flows, for advancers and for people."""

    def __init__(
        self,
        db: Statements,
        definitions: DefinitionReader,
        wakes: Wakes,
        lifecycle: Lifecycle,
        ends: RunEnds,
        plans: Plans,
        schedules: Schedules,
        runs: Runs,
    ) -> None:
        super().__init__(db)
        self._definitions = definitions
        self._wakes = wakes
        self._lifecycle = lifecycle
        self._ends = ends
        self._plans = plans
        self._schedules = schedules
        self._runs = runs

    def take_flows(self, limit: int) -> list[FlowParent]:
        """Runs of flows that are due for a look, with those of their steps.

        They stay locked until the transaction ends. A step that ends meanwhile wakes its flow
        again.
        """
        ids = {row[0] for row in self._db.all("take_woken", limit=limit)}
        ids |= {row[0] for row in self._db.all("take_flows", now=self._db.now, limit=limit)}
        if not ids:
            return []
        taken = sorted(ids)
        self._wakes.hold(taken)  # what they may wake, before any run is locked
        self._db.run("use_wakes", ids=taken)  # before their steps are read: a later end wakes again
        steps: dict[str, list[StepRow]] = defaultdict(list)
        for parent_id, *row in self._db.all("list_steps", ids=taken):
            steps[parent_id].append(StepRow._make(row))
        return [
            _parent(row, self._db.time, steps) for row in self._db.all("list_parents", ids=taken)
        ]

    def begin_flows(self, run_ids: Sequence[str], limits: Mapping[str, int]) -> Begun:
        """Start queued runs of flows as far as the limits of their schedules and of their flows
        allow; `limits` has the latter by run. Runs start in order of priority and time."""
        rows = [Waiting._make(row) for row in self._db.all("lock_beginning", ids=sorted(run_ids))]
        allowed = {row.id: _limits_of(row, limits.get(row.id)) for row in rows}
        all_keys = {key for found in allowed.values() for key in found}
        schedules = {key for key in all_keys if key.flow is None}
        free = self._alone_with_schedules(schedules)
        free |= self._alone_with_flows(all_keys - schedules) if all_keys - schedules else set()
        filling = {LimitKey(row.schedule_id) for row in rows if row.schedule_id and row.fills}
        free -= filling - self._decided_schedules(filling)
        busy = self._count_under_way(free, {row.schedule_id for row in rows if row.exclusive})
        extra = [row.id for row in rows if row.lane > Lane.OWN]
        yielding = self._db.all("list_yielding", ids=extra, now=self._db.now) if extra else []
        gives_way = {id_ for (id_,) in yielding}
        begun, held = list[str](), set[str]()
        for row in sorted(rows, key=Waiting.turn):
            mine = allowed[row.id]
            if row.id in gives_way:
                continue
            if not mine.keys() <= free:
                held.add(row.id)
            elif all(busy[key] < most for key, most in mine.items()):
                busy.update(mine.keys())
                begun.append(row.id)
        if begun:
            self._db.run("begin_flow_run", ids=begun, now=self._db.now)
        return Begun(set(begun), held)

    def _count_under_way(
        self, keys: set[LimitKey], exclusive: set[str | None]
    ) -> Counter[LimitKey]:
        """For schedules whose runs exclude each other, counts only those that do."""
        busy: Counter[LimitKey] = Counter()
        if schedules := sorted({key.owner for key in keys if key.flow is None}):
            for id_, count, beside in self._db.all("count_under_way", ids=schedules):
                busy[LimitKey(id_, beside=True)] = beside
                busy[LimitKey(id_)] = count - beside if id_ in exclusive else count
        if flows := [(key.owner, key.flow) for key in keys if key.flow is not None]:
            counted = self._db.all("count_flows_under_way", **columns_of_flows(flows))
            busy.update({LimitKey(namespace, flow): count for namespace, flow, count in counted})
        return busy

    def _alone_with_schedules(self, keys: set[LimitKey]) -> set[LimitKey]:
        """The schedules with limits whose runs no other transaction is just counting."""
        return keys

    def _decided_schedules(self, keys: set[LimitKey]) -> set[LimitKey]:
        """The schedules about whose due times no other transaction is just deciding."""
        return keys

    def _alone_with_flows(self, keys: set[LimitKey]) -> set[LimitKey]:
        """Like `_alone_with_schedules`, for flows with their own limit."""
        return keys

    def commit_flows(self, moves: Sequence[FlowMove]) -> None:
        """Write runs of steps, ask runs to stop, end runs of flows; wake what waits for that."""
        started = [
            self._row_of(move)
            | {
                "id": step.run_id,
                "step": step.step,
                "queue": step.queue,
                "task": step.task,
                "needs": step.needs,
                "options": step.options,
            }
            for move in moves
            for step in move.start
        ]
        skipped = [
            self._row_of(move) | {"id": id_, "step": skip.step, "reason": skip.reason}
            for move in moves
            for id_, skip in move.skip
        ]
        if started:
            self._db.many("insert_step_run", started)
            self._db.notify(News.WORK)
        if skipped:
            self._db.many("insert_skipped_run", skipped)
        cancelled = [(id_, move.cancel_reason) for move in moves for id_ in move.cancel]
        for run_id, reason in sorted(cancelled, key=lambda item: item[0]):
            self._ends.stop(run_id, reason or "flow_cancelled")
        for move in moves:
            if move.again_at is not None:
                self._run_again(move, move.again_at)
        ended = [move for move in moves if move.end is not None and move.again_at is None]
        self._after_flows(self._end_flows(ended) if ended else [])
        self._ends.keep_large((move.parent.run_id, move.output) for move in ended)
        self._ends.keep_secrets(
            (move.parent.run_id, self._secrets_of_steps(move.parent.run_id))
            for move in ended
            if move.output is not None
        )
        self._wakes.wake_flows(id_ for move in moves for id_ in move.wake)
        self._let_others_begin(moves)
        self._db.many(
            "rest_flow", [{"wake_at": m.wake_at, "run_id": m.parent.run_id} for m in moves]
        )

    def _let_others_begin(self, moves: Sequence[FlowMove]) -> None:
        """Wake as many waiting runs of flows with a limit as have ended."""
        over = Counter(
            (move.parent.namespace, move.parent.flow)
            for move in moves
            if move.is_limited and move.end is not None
        )
        for (namespace, flow), count in sorted(over.items()):
            where: Values = {"namespace": namespace, "flow": flow, "limit": count}
            self._wakes.wake_flows(id_ for (id_,) in self._db.all("list_waiting_for_flow", **where))

    def _run_again(self, move: FlowMove, at: datetime) -> None:
        """The runs of its steps stay stored, without their names."""
        id_, reason = move.parent.run_id, None if move.end is None else move.end.reason
        told = clean(move.error)
        self._ends.end_attempt(id_, "failed", told, None)
        if self._db.run("retry_flow", id=id_, ready_at=at, reason=reason, error=told):
            if move.forgotten is None:
                self._db.run("forget_all_steps", id=id_)
            else:
                self._forget_steps(id_, move.forgotten)

    def _row_of(self, move: FlowMove) -> Values:
        """The common values of all step runs of a flow."""
        parent = move.parent
        return {
            "namespace": parent.namespace,
            "trigger": f"flow:{parent.flow}",
            "parent_run_id": parent.run_id,
            "flow": parent.flow,
            "queue": "default",
            "priority": parent.priority,
            "now": self._db.now,
            "requested_by": parent.requested_by,
        }

    @abstractmethod
    def _end_flows(self, ended: Sequence[FlowMove]) -> list[Row]:
        """End runs of flows; returns what waits for each of them."""

    def _after_flows(self, rows: Sequence[Row]) -> None:
        self._lifecycle.record_run_events([row[0] for row in rows])
        limited, succeeded = set(), set()
        self._wakes.wake_flows(row[3] for row in rows)
        if woken := sorted({row[2] for row in rows if row[1] and row[2] is not None}):
            self._db.run("wake_schedules", ids=woken, now=self._db.now)
            self._db.notify(News.WAKE)
        for _, _, schedule_id, _, well, is_limited in rows:
            if schedule_id is not None and well:
                succeeded.add(schedule_id)
            if schedule_id is not None and is_limited:
                limited.add(schedule_id)
        if succeeded and self._wakes.anybody_depends:
            self._wakes.wake_dependents(sorted(succeeded))
        if limited:
            waiting = self._db.all("list_waiting_flows", ids=sorted(limited))
            self._wakes.wake_flows(id_ for (id_,) in waiting)

    def earliest_flow(self) -> FlowWake:
        """When runs of flows are due for another look."""
        wake_at, is_woken, is_commanded, control_at = self._db.all("get_flow_wake")[0]
        moments = [self._db.time(wake_at), self._db.now if is_woken else None]
        found = [moment for moment in moments if moment is not None]
        control_at = self._db.now if is_commanded else self._db.time(control_at)
        return FlowWake(min(found, default=None), control_at)

    def flow_outputs(self, run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The outputs of ended steps of runs of flows; Apart if
        large."""
        found: dict[str, dict[str, Any]] = {id_: {} for id_ in run_ids}
        for parent_id, step, _, _, _, *kept in self._db.all("list_outputs", ids=list(run_ids)):
            found[parent_id][step] = read_output(*kept)
        return found

    def _secrets_of_steps(self, run_id: str) -> list[str]:
        """The output of a flow has the secrets of its steps."""
        rows = self._db.all("list_output_secrets", run_id=run_id)
        return sorted({text for (kept,) in rows for text in json.loads(kept)})

    def call_flow(self, token: Token, target: FlowTarget) -> bool:
        """A step becomes a run of a flow that waits to start; False when the token is no longer
        current."""
        row = self._db.one("call_flow", flow=target.name, **token._asdict())
        if row is None:
            return False
        namespace, parent_run_id = row
        if target.source is not None:
            self._db.run(
                "save_made_up_flow",
                namespace=namespace,
                flow=target.name,
                source=clean(target.source),
                parent_run_id=parent_run_id,
                now=self._db.now,
            )
        self._db.run(
            "insert_called",
            id=token.run_id,
            namespace=namespace,
            flow=target.name,
            params=json.dumps(dict(target.params)),
            parent_run_id=parent_run_id,
            now=self._db.now,
        )
        self._db.notify(News.FLOW)
        return True

    def list_callers(self, run_ids: Sequence[str]) -> dict[str, set[str]]:
        """The flows that called each of these runs, directly or not; only for called ones."""
        found: dict[str, set[str]] = defaultdict(set)
        for id_, flow in self._db.all("list_callers", ids=list(run_ids)):
            found[id_].add(flow)
        return found

    def start_flow(
        self,
        run_id: str,
        namespace: str,
        target: FlowTarget,
        priority: int,
        trigger: str,
        requested_by: str | None = None,
    ) -> None:
        """A run of a flow, under the limits of the schedule of its name if that starts it."""
        schedule = self._schedule_of(namespace, target.name)
        limits = None if schedule is None else self._definitions.of(schedule).copied
        self._db.run(
            "insert_flow_start",
            id=run_id,
            namespace=namespace,
            schedule_id=None if schedule is None else schedule.schedule_id,
            version=None if schedule is None else schedule.version,
            trigger=trigger,
            flow=target.name,
            priority=priority,
            exclusive=limits is not None and limits.exclusive,
            max_concurrent=None if limits is None else limits.max_concurrent,
            wakes=schedule is not None,
            now=self._db.now,
            requested_by=clean(requested_by),
        )
        self._wakes.follow_flows([(run_id, target.name, dict(target.params))])

    def _schedule_of(self, namespace: str, flow: str) -> Snapshot | None:
        id_ = self._schedules.list_taken(namespace, [flow]).get(flow)
        found = self._plans.snapshots([id_]) if id_ is not None else []
        starts = [s for s in found if getattr(s.spec.target, "name", "") == flow]
        return starts[0] if starts and isinstance(starts[0].spec.target, FlowTarget) else None

    def flow_run(self, run_id: str) -> BegunWith | None:
        """What a run of a flow started with; None for any other run."""
        row = self._db.one("get_flow_run", id=run_id)
        return None if row is None else BegunWith(row[0], json.loads(row[1]))

    def list_steps_of(self, run_id: str) -> list[Run]:
        """The runs of its steps in order, including those that a retry replaced."""
        return [read_run(row, self._db.time) for row in self._db.all("list_steps_of", id=run_id)]

    def list_waiting_steps(self, run_id: str) -> list[WaitingStep]:
        """The steps of a run of a flow that wait for a worker with special abilities."""
        rows = self._db.all("list_waiting_steps", id=run_id)
        return [WaitingStep(step, task, json.loads(needs or "{}")) for step, task, needs in rows]

    def list_flow_runs(self, namespace: str, flow: str, limit: int) -> list[Run]:
        """The newest first."""
        rows = self._db.all("list_flow_runs_of", namespace=namespace, flow=flow, limit=limit)
        return [read_run(row, self._db.time) for row in rows]

    def latest_flow_runs(self, namespace: str, names: Sequence[str]) -> dict[str, Run]:
        """The newest run of each of these flows that has any."""
        rows = self._db.all("list_latest_flow_runs", namespace=namespace, names=list(names))
        return {run.flow or "": run for run in (read_run(row, self._db.time) for row in rows)}

    def lock_flow_run(self, run_id: str) -> None:
        """Keep this run of a flow from being advanced before the transaction ends."""
        if (schedule_id := self._runs.get_run(run_id).schedule_id) is not None:
            self._db.lock_state(schedule_id)  # before any run, as everywhere
        self._db.all("lock_flow_run", id=run_id)

    def reopen_flow(self, run_id: str, forgotten: Iterable[str]) -> None:
        """Continue an ended run of a flow as if these steps had not started."""
        self._forget_steps(run_id, forgotten)
        self._runs.reopen(run_id)
        self._wakes.wake_flows([run_id])

    def _forget_steps(self, run_id: str, names: Iterable[str]) -> None:
        steps = sorted(names)
        self._db.run("delete_skipped_steps", id=run_id, steps=steps)
        self._db.run("forget_steps", id=run_id, steps=steps)


def columns_of_flows(flows: Sequence[tuple[str, str]]) -> Values:
    """Namespaces and names, as parameters of statements about several flows."""
    return {"namespaces": [place for place, _ in flows], "flows": [flow for _, flow in flows]}


def _limits_of(row: Waiting, limit: int | None) -> dict[LimitKey, int]:
    """How many active runs each of its limits allows."""
    limits = {}
    if row.schedule_id is not None and row.exclusive:
        limits[LimitKey(row.schedule_id)] = 1
    elif row.schedule_id is not None and row.max_concurrent is not None:
        limits[LimitKey(row.schedule_id)] = row.max_concurrent
    if row.schedule_id is not None and row.backfill_limit is not None:
        limits[LimitKey(row.schedule_id, beside=True)] = row.backfill_limit
    if limit is not None:
        limits[LimitKey(row.namespace, row.flow)] = limit
    return limits


def _parent(row: Row, time: Any, steps: Mapping[str, Sequence[StepRow]]) -> FlowParent:
    id_, namespace, flow, digest, params, depth, status, stop, begun_at, priority, *rest = row
    caller, ready_at, failures, options, requested_by = rest
    return FlowParent(
        run_id=id_,
        namespace=namespace,
        flow=flow,
        digest=digest,
        params=json.loads(params),
        depth=depth,
        status=status,
        stop_asked=bool(stop),
        begun_at=time(begun_at),
        priority=priority,
        caller=caller,
        ready_at=time(ready_at),
        failures=failures,
        options=options,
        steps=tuple(steps.get(id_, ())),
        requested_by=requested_by,
    )
