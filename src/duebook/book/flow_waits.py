"""What runs of flows and their steps are waiting for, according to the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.explain.flow_runs import FlowStanding
from duebook.explain.words import length_text
from duebook.flows.flow_cache import FlowCache, NoFlow
from duebook.model.flow_target import FLOW_QUEUE, HUMAN_QUEUE
from duebook.model.flow_view import waiting_for
from duebook.model.serving import unserved
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from duebook.model.flow import Flow
    from duebook.model.run import Run
    from duebook.store.base import Tx

__all__ = ["standing_of", "stopping", "waits_of"]

MOST_TOLD: Final = 3
"""Steps that a message names."""


def waits_of(tx: Tx, flow_cache: FlowCache, run: Run | None) -> tuple[str, ...]:
    """Why a run or its steps do not start: because of other runs, a person, or a missing worker."""
    if run is None or not run.is_active:
        return ()
    runs = [run, *tx.flow_runs.list_steps_of(run.id)]
    steps = {each.id: "" if each.step is None else f'step "{each.step}": ' for each in runs}
    held = _held_up(tx, flow_cache, runs)
    told = [f"{steps[id_]}{why}" for id_, why in held.items()]
    told += [
        f'step "{each.step}" waits for a person: {each.progress_text}'
        for each in runs
        if each.status == "queued" and each.queue == HUMAN_QUEUE
    ]
    owned = (FLOW_QUEUE, HUMAN_QUEUE)
    if not any(each.status == "queued" and each.queue not in owned for each in runs):
        return tuple(told)
    nodes = tx.nodes.list_nodes()
    workers = [node.namespaces for node in nodes if node.works]
    if (nobody := unserved(run.namespace, workers)) is not None:
        return (*told, nobody)
    found = [
        waiting_for(step.step, run.namespace, step.task, step.needs, nodes)
        for step in tx.flow_runs.list_waiting_steps(run.id)
    ]
    return (*told, *(each for each in found if each is not None))


def standing_of(tx: Tx, flow_cache: FlowCache, flow: Flow, run: Run) -> FlowStanding:
    """Everything known about a run; if it has ended, only what is still stored."""
    steps = {
        step.step: step for step in tx.flow_runs.list_steps_of(run.id) if step.step is not None
    }
    if not run.is_active:
        return FlowStanding(flow, run, steps, {}, (), {}, tx.now)
    queues = {load.queue.name: load for load in tx.queues.list_queues()}
    held = _held_up(tx, flow_cache, [run, *steps.values()])
    return FlowStanding(flow, run, steps, held, tx.nodes.list_nodes(), queues, tx.now)


def stopping(tx: Tx, run: Run) -> str:
    """Since when a run of a flow has been stopping, and what it waits for."""
    since = run.cancel_requested_at or tx.now
    active = [step for step in tx.flow_runs.list_steps_of(run.id) if step.is_active]
    steps = ", ".join(f'"{s.step}" ({s.status}{_where(s)})' for s in active[:MOST_TOLD])
    more = f" and {len(active) - MOST_TOLD:,} more" if len(active) > MOST_TOLD else ""
    what = f"step {steps}{more}" if active else "a scheduler"
    length = length_text(tx.now - since)
    return f"run {run.id} since {format_instant(since)}, for {length}; it is waiting for {what}"


def _where(run: Run) -> str:
    return f" on {run.node}" if run.node else ""


def _held_up(tx: Tx, flow_cache: FlowCache, runs: list[Run]) -> dict[str, str]:
    """Why flow runs that are ready do not start, by id: because of other runs."""
    waiting = [r for r in runs if r.status == "queued" and r.ready_at <= tx.now]
    found = {run.id: _why(tx, flow_cache, run) for run in waiting if run.queue == FLOW_QUEUE}
    return {id_: why for id_, why in found.items() if why is not None}


def _why(tx: Tx, flow_cache: FlowCache, run: Run) -> str | None:
    name, busy = run.flow or "", tx.flow_controls.count_flow_runs(run.namespace, run.flow or "")
    limit = _limit(tx, flow_cache, run)
    if limit is not None and busy >= limit:
        runs = "run is" if busy == 1 else "runs are"
        return f'{busy:,} {runs} active for flow "{name}", and its max_active_runs is {limit:,}'
    if run.schedule_id is None:
        return None
    active = tx.flow_controls.active_flow_runs(run.namespace, name)
    other = next((id_ for id_, status in active if status == "running"), None)
    return None if other is None else f"it waits for run {other} to finish"


def _limit(tx: Tx, flow_cache: FlowCache, run: Run) -> int | None:
    """From the revision in force, which also decides when the run starts."""
    kept, made = tx.flows.get_flow(run.namespace, run.flow or ""), tx.flow_runs.flow_run(run.id)
    digest = kept.digest if kept is not None else made.digest if made is not None else None
    try:
        return flow_cache.find(
            tx.flows, run.namespace, run.flow or "", digest
        ).policies.max_concurrent
    except NoFlow:
        return None
