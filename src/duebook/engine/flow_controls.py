"""Carries out the stops and restarts of flows that the planner decided."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.flows.flow_cache import FlowCache, NoFlow
from duebook.flows.lifecycle import restart_step, starts_at
from duebook.ids import new_id
from duebook.lazy_dataclasses import dataclass
from duebook.model.flow_target import FlowTarget

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.flow import Flow
    from duebook.model.run import Run
    from duebook.store.base import Tx
    from duebook.store.flow_values import FlowCommand, FlowControl

__all__ = ["FlowControls"]

log = logging.getLogger(__name__)

RESTARTING: Final = timedelta(seconds=1)
"""How often a restart checks whether the runs it stopped have ended."""
MOST_NAMED: Final = 10
"""Maximum number of stopped runs that the ledger names for a stop or restart."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The next step of a flow that is being restarted."""

    control: FlowControl
    wake_at: datetime | None
    """when to look again"""
    stop: tuple[str, ...] = ()
    start: Flow | None = None
    restarting: bool = False
    """whether the flow is still to be started again"""


class FlowControls:
    """A part of an advancer."""

    def __init__(self, flow_cache: FlowCache) -> None:
        self._flow_cache = flow_cache

    def step(self, tx: Tx, limit: int) -> int:
        """Stop and restart flows for which that was decided; returns how many it looked at.

        Flows are locked before their runs, as everywhere.
        """
        commands = tx.flow_controls.take_commands(limit)
        stopped = [run_id for command in commands for run_id in self._obey(tx, command)]
        verdicts = [self._judge(tx, control) for control in tx.flow_controls.take_controls(limit)]
        stopped += [run_id for verdict in verdicts for run_id in verdict.stop]
        tx.flow_controls.stop_flows(sorted(set(stopped)), "stopped")
        for verdict in verdicts:
            namespace, name = verdict.control.namespace, verdict.control.name
            if verdict.start is not None:
                params = _stopped_params(tx, namespace, verdict.start)
                target = FlowTarget(name, tuple(params.items()))
                tx.flow_runs.start_flow(
                    new_id(), namespace, target, verdict.start.policies.priority, "restart"
                )
            tx.flow_controls.control_flow(namespace, name, verdict.wake_at, verdict.restarting)
        return len(commands) + len(verdicts)

    def _obey(self, tx: Tx, command: FlowCommand) -> tuple[str, ...]:
        """The runs to stop; also starts or forgets a restart of the flow."""
        namespace, name = command.namespace, command.flow
        active = tuple(run_id for run_id, _ in tx.flow_controls.active_flow_runs(namespace, name))
        if command.kind == "stop":  # runs due after the stop are not affected
            active = tuple(
                id_ for id_ in active if _began_by(tx.runs.get_run(id_)) <= command.due_at
            )
        facts: dict[str, Any] = {"active": len(active), "runs": list(active[:MOST_NAMED])}
        if command.kind == "stop":
            tx.flow_controls.forget_restart(namespace, name)
            tx.flow_controls.end_command(command, facts)
            return active
        if self._starts_anyway(tx, command, active):
            facts["starts_anyway"] = True
        elif command.digest is not None:
            tx.flow_controls.control_flow(namespace, name, tx.now, restarting=True)
        tx.flow_controls.end_command(command, facts)
        return ()

    def _starts_anyway(self, tx: Tx, command: FlowCommand, active: tuple[str, ...]) -> bool:
        """Whether there is nothing to stop, and the schedule itself starts the flow at that
        time."""
        try:
            flow = self._flow_cache.find(tx.flows, command.namespace, command.flow, command.digest)
        except NoFlow as error:
            log.warning("%s; the flow is not restarted", error)
            return False
        if not starts_at(flow, command.due_at):
            return False
        return all(tx.runs.get_run(run_id).created_at >= command.due_at for run_id in active)

    def _judge(self, tx: Tx, control: FlowControl) -> _Verdict:
        """A restart stops, waits, and starts."""
        namespace, name, now = control.namespace, control.name, tx.now
        if not control.restarting:
            return _Verdict(control, None)
        try:
            flow = self._flow_cache.find(tx.flows, namespace, name, control.digest)
        except NoFlow as error:
            log.warning("%s; the flow is not restarted", error)
            return _Verdict(control, None)
        active = tuple(run_id for run_id, _ in tx.flow_controls.active_flow_runs(namespace, name))
        ended_at = tx.flow_controls.last_flow_end(namespace, name)
        what, until = restart_step(flow, bool(active), ended_at, now)
        if what == "start":
            return _Verdict(control, None, start=flow)
        return _Verdict(control, until or now + RESTARTING, stop=active, restarting=True)


def _stopped_params(tx: Tx, namespace: str, flow: Flow) -> dict[str, Any]:
    """The params of the run that was stopped last, as far as the flow still has them."""
    runs = tx.flow_runs.list_flow_runs(namespace, flow.name, 1)
    made = tx.flow_runs.flow_run(runs[0].id) if runs and runs[0].reason == "stopped" else None
    known = {param.name for param in flow.params}
    return {} if made is None else {name: v for name, v in made.params.items() if name in known}


def _began_by(run: Run) -> datetime:
    """The time at which a run counts among the due times of its flow."""
    return run.due_at or run.created_at
