"""Advances runs of flows: takes those that are due, asks flows/advance what to do, and commits.

Any number of nodes share the work. A step that ends only wakes its flow. The node that then takes
the flow sees every step that has ended, so the last two steps of a join cannot miss each other.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.engine.flow_controls import FlowControls
from duebook.engine.flow_limits import FlowLimits, Limits
from duebook.errors import Invalid, shorten
from duebook.flows.advance import advance
from duebook.flows.each import is_each, results_of
from duebook.flows.flow_cache import FlowCache, NoFlow
from duebook.flows.lifecycle import retried
from duebook.flows.param_values import check_params, check_start
from duebook.ids import new_id
from duebook.model.enqueued import run_options, step_spec
from duebook.model.fate import TriedAgain, fate_of
from duebook.model.flow import CHECK, COMPUTE, MOST_OUTPUT_SIZE
from duebook.model.flow_run import (
    Apart,
    FlowEnd,
    FlowMove,
    NewStep,
    Standing,
    StepState,
    step_state,
)
from duebook.model.run import DONE, Outcome
from duebook.model.target import worker_task

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.engine.tracing import Tracing
    from duebook.model.flow import Flow
    from duebook.model.flow_run import FlowParent
    from duebook.store.base import Store, Tx
    from duebook.store.flow_values import Begun

__all__ = ["Advancer"]

log = logging.getLogger(__name__)

BATCH: Final = 500
LOOK_AGAIN: Final = timedelta(seconds=5)
"""When to look again at a run that may not start yet; other flow runs wake it when they end."""
TRY_AGAIN: Final = timedelta(minutes=1)
"""When to look again at a run that could not be advanced."""
COUNTED_AGAIN: Final = timedelta(milliseconds=50)
"""When to look again at a run that may not start because another transaction is counting the runs
of its flow or schedule."""
OTHERS_HOLD: Final = timedelta(milliseconds=20)
"""When to look again if other nodes hold every run that is due."""
MOST_DEPTH: Final = 10
NEVER_BEGUN: Final = ("missing_target", "depth", "circle")
"""Reasons why a run of a flow ends before any of its steps started."""


class Advancer:
    """One per scheduler node."""

    def __init__(
        self,
        store: Store,
        flow_cache: FlowCache | None = None,
        batch: int = BATCH,
        tracing: Tracing | None = None,
    ) -> None:
        self._store = store
        self._flow_cache = FlowCache() if flow_cache is None else flow_cache
        self._limits = FlowLimits(self._flow_cache)
        self._controls = FlowControls(self._flow_cache)
        self._limit = self._batch = batch
        self._tracing = tracing
        self._ended: list[str] = []
        """runs that the last batch ended"""
        self.begun = 0
        """how many steps it has started; a growing number means that there is work to claim"""
        self.advanced = 0
        """how many runs it has looked at; a run that ended may have woken its schedule"""

    def step(self) -> datetime | None:
        """Advance what is due; returns when to look again, None when nothing is foreseen."""
        while True:
            wake, now = self._store.read(lambda tx: (tx.flow_runs.earliest_flow(), tx.now))
            if wake.earliest is None or wake.earliest > now:
                return wake.earliest
            taken = 0
            if wake.run_at is not None and wake.run_at <= now:
                taken += self._take_and_advance()
            if wake.control_at is not None and wake.control_at <= now:
                taken += self._store.transact(lambda tx: self._controls.step(tx, self._limit))
            if not taken:
                return now + OTHERS_HOLD

    def _take_and_advance(self) -> int:
        """Returns how many runs it took; after a failure the next batch is smaller."""
        try:
            taken = self._store.transact(self.advance)
        except Exception:
            self._limit = max(self._limit // 2, 1)  # one bad run may have spoiled the batch
            raise
        self._limit = min(self._limit * 2, self._batch)
        if self._tracing is not None and self._ended:
            self._tracing.flow_ended(self._ended)
        return taken

    def advance(self, tx: Tx) -> int:
        """Advance a batch in the caller's transaction; returns how many runs it took."""
        self._ended = []
        parents = tx.flow_runs.take_flows(self._limit)
        if not parents:
            return 0
        beginning = [parent for parent in parents if _may_begin(parent, tx.now)]
        limits = self._limits.of(tx, beginning) if beginning else Limits()
        begun = tx.flow_runs.begin_flows([parent.run_id for parent in beginning], limits.most)
        moves = self._with_outputs(tx, [self._move(tx, p, begun, limits) for p in parents])
        tx.flow_runs.commit_flows(moves)
        self._ended = [move.parent.run_id for move in moves if move.end is not None]
        self.begun += sum(len(move.start) for move in moves)
        self.advanced += len(parents)
        return len(parents)

    def _move(self, tx: Tx, parent: FlowParent, begun: Begun, limits: Limits) -> FlowMove:
        """The next move of a run; when the run starts or ends, its queued child runs are woken."""
        if parent.status == "queued" and parent.run_id not in begun.ids:
            return _held_up(parent, begun, tx.now)
        if parent.status == "running":
            return self._next(tx, parent, limits)
        move = self._next(tx, parent, limits) if parent.status == "queued" else FlowMove(parent)
        return replace(move, wake=tuple(r.run_id for r in parent.steps if r.status == "queued"))

    def _next(self, tx: Tx, parent: FlowParent, limits: Limits) -> FlowMove:
        """The next move of a run that has started."""
        if told := limits.circles.get(parent.run_id):
            return FlowMove(parent, end=FlowEnd("failed", "circle"), error=told)
        if parent.depth > MOST_DEPTH:
            told = f"flows call each other more than {MOST_DEPTH} levels deep"
            return FlowMove(parent, end=FlowEnd("failed", "depth"), error=told)
        try:
            flow = self._flow_cache.find(tx.flows, parent.namespace, parent.flow, parent.digest)
            if not parent.steps:
                (check_params if parent.depth else check_start)(flow, parent.params)
            return _or_again(_decided(flow, parent, tx.now), flow, tx.now)
        except Invalid as error:  # the caller or a schedule passed invalid params
            end, limited = FlowEnd("failed", "invalid"), parent.run_id in limits.most
            return FlowMove(parent, end=end, error=str(error), is_limited=limited)
        except NoFlow as error:
            return FlowMove(parent, end=FlowEnd("failed", "missing_target"), error=str(error))
        except Exception:  # one bad run must not hold up the others
            log.exception("cannot advance run %s of flow %s", parent.run_id, parent.flow)
            return FlowMove(parent, wake_at=tx.now + TRY_AGAIN)

    def _with_outputs(self, tx: Tx, moves: Sequence[FlowMove]) -> list[FlowMove]:
        """Give flows that end the values that their steps printed into variables."""
        names: dict[str, dict[str, str]] = {}
        each: dict[str, Flow] = {}
        for move in moves:
            parent = move.parent
            if move.end is not None and move.end.reason not in NEVER_BEGUN:
                flow = self._flow_cache.find(tx.flows, parent.namespace, parent.flow, parent.digest)
                if is_each(flow):
                    each[parent.run_id] = flow
                elif kept := {s.name: s.output for s in flow.steps if s.output is not None}:
                    names[parent.run_id] = kept
        wanted = [*names, *each]
        outputs = tx.flow_runs.flow_outputs(wanted) if wanted else {}

        def returning(move: FlowMove) -> FlowMove:
            id_ = move.parent.run_id
            if id_ in each:
                return _returning_each(tx, move, each[id_], outputs[id_])
            return _returning(tx, move, names[id_], outputs[id_]) if id_ in names else move

        return list(map(returning, moves))


def _decided(flow: Flow, parent: FlowParent, now: datetime) -> FlowMove:
    standing = Standing(parent.begun_at or now, _states(parent), parent.stop_asked)
    found = advance(flow, standing, now)
    runs = {row.step: row.run_id for row in parent.steps}
    return FlowMove(
        parent,
        start=tuple(_new_step(flow, name) for name in found.start),
        skip=tuple((new_id(), skip) for skip in found.skip),
        cancel=tuple(runs[name] for name in found.cancel),
        cancel_reason=found.cancel_reason,
        end=found.end,
        error=None if found.end is None else _told(found.end, parent),
        wake_at=found.wake_at,
        is_limited=flow.policies.max_concurrent is not None,
    )


def _may_begin(parent: FlowParent, now: datetime) -> bool:
    if parent.status != "queued" or parent.caller not in (None, "running"):
        return False
    return parent.ready_at is None or parent.ready_at <= now


def _held_up(parent: FlowParent, begun: Begun, now: datetime) -> FlowMove:
    """A run that may not start yet, because of other runs, its ready time, or a caller waiting for
    its own retry."""
    if parent.caller == "queued":
        return FlowMove(parent)  # its caller wakes it
    if parent.caller not in (None, "running"):
        return FlowMove(parent, cancel=(parent.run_id,), cancel_reason="flow_cancelled")
    if parent.ready_at is not None and parent.ready_at > now:
        return FlowMove(parent, wake_at=parent.ready_at)
    soon = COUNTED_AGAIN if parent.run_id in begun.held else LOOK_AGAIN
    return FlowMove(parent, wake_at=now + soon)


def _or_again(move: FlowMove, flow: Flow, now: datetime) -> FlowMove:
    """Run a failed flow again: from the start under the retry_policy of the step that called it, or
    from where it failed under the flow's own."""
    parent, end = move.parent, move.end
    if end is None or end.status != "failed" or parent.stop_asked:
        return move
    called = None if parent.options is None else step_spec(None, parent.options).retry
    retry = called or flow.retry
    outcome = Outcome("failed", end.reason, move.error)
    fate = fate_of(outcome, retry, parent.failures, parent.run_id)
    if not isinstance(fate, TriedAgain):
        return move
    again_at, forgotten = now + fate.after, None
    if called is None:
        ended = {skip.step: StepState("skipped", skip.reason) for _, skip in move.skip}
        forgotten = retried(flow, {**_states(parent), **ended})
    return replace(move, again_at=again_at, wake_at=again_at, forgotten=forgotten)


def _states(parent: FlowParent) -> dict[str, StepState]:
    return {row.step: step_state(row.status, row.reason, row.exit_code) for row in parent.steps}


def _told(end: FlowEnd, parent: FlowParent) -> str | None:
    """The error text of a flow that failed, or that continued after failures."""
    if end.reason == "precondition":
        return next((row.unmet for row in parent.steps if row.step == CHECK), None)
    if end.status == "cancelled":
        return None  # the caller that cancelled it gives the reason
    if end.reason == "timeout":
        return "it took longer than its timeout_sec"
    if end.failed:
        return shorten(f"{_steps(end.failed)} failed", 500)
    return shorten(_continued(end.warnings, parent), 500) if end.warnings else None


def _continued(names: Sequence[str], parent: FlowParent) -> str:
    """Which steps failed, and which flows called by it ended partial."""
    calls = {row.step for row in parent.steps if row.status == "partial"}
    failed, called = ([n for n in names if (n in calls) is is_call] for is_call in (False, True))
    told = [f"{_steps(failed)} failed"] if failed else []
    told += [f"{_steps(called)} ended partial"] if called else []
    return f"{' and '.join(told)}, and the flow continued"


def _steps(names: Sequence[str]) -> str:
    return f"step{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _new_step(flow: Flow, name: str) -> NewStep:
    if name in (CHECK, COMPUTE):
        return NewStep(new_id(), name, flow.policies.queue)
    step = flow.step(name)
    return NewStep(
        new_id(),
        name,
        flow.policies.queue,
        worker_task(step.target),
        json.dumps(dict(step.workers)) if step.workers else None,
        run_options({"retry": step.retry, "timeout": step.timeout}),
    )


def _returning_each(tx: Tx, move: FlowMove, flow: Flow, outputs: dict[str, Any]) -> FlowMove:
    """Outputs that are too large to return stay with the runs of the items."""
    size = sum(end.size for end in outputs.values() if isinstance(end, Apart))
    if size > MOST_OUTPUT_SIZE:
        outputs = {step: end for step, end in outputs.items() if not isinstance(end, Apart)}
    read = {
        step: tx.runs.get_output(end.run_id) if isinstance(end, Apart) else end
        for step, end in outputs.items()
    }
    found = results_of(flow, move.parent.steps, move.parent.params, read)
    return replace(move, output=json.dumps(found, ensure_ascii=False))


def _returning(tx: Tx, move: FlowMove, names: dict[str, str], outputs: dict[str, Any]) -> FlowMove:
    kept = {variable: outputs[step] for step, variable in names.items() if step in outputs}
    apart = {variable: end for variable, end in kept.items() if isinstance(end, Apart)}
    size = sum(end.size for end in apart.values())
    if size <= MOST_OUTPUT_SIZE:
        kept |= {variable: tx.runs.get_output(end.run_id) for variable, end in apart.items()}
    elif move.parent.caller is None:  # no caller waits for them, and the steps keep them
        kept = {variable: value for variable, value in kept.items() if variable not in apart}
    elif move.end is not None and move.end.status in DONE:
        told = f"its steps printed {size:,} bytes into {', '.join(apart)}"
        told = f"{told}; at most {MOST_OUTPUT_SIZE:,} are returned to the flow that calls it"
        return replace(move, end=FlowEnd("failed", "output"), error=told)
    else:
        kept = {}
    return replace(move, output=json.dumps(kept, ensure_ascii=False) if kept else None)
