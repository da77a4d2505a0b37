"""Stop and restart schedules of flows: looks at those that are due, and stops and starts runs."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.flows.lifecycle import due_control, next_control, restart_step, starts_at
from duebook.flows.shelf import NoFlow, Shelf
from duebook.ids import new_id
from duebook.model.flow_target import FlowTarget

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.flows.lifecycle import Control
    from duebook.model.flow import Flow
    from duebook.store.base import Tx
    from duebook.store.values import FlowControl

__all__ = ["FlowControls"]

log = logging.getLogger(__name__)

RESTARTING: Final = timedelta(seconds=1)
"""How often a restart looks whether what it stopped has ended."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What becomes of a flow's runs."""

    control: FlowControl
    wake_at: datetime | None
    """when to look again"""
    stop: tuple[str, ...] = ()
    start: Flow | None = None
    restarting: bool = False
    """whether it is still to be started again"""


class FlowControls:
    """A part of an advancer."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def step(self, tx: Tx, limit: int) -> int:
        """Stop and restart flows for which that is due; how many were looked at."""
        verdicts = [self._judge(tx, control) for control in tx.take_controls(limit)]
        tx.stop_flows([run_id for verdict in verdicts for run_id in verdict.stop], "stopped")
        for verdict in verdicts:
            namespace, name = verdict.control.namespace, verdict.control.name
            if verdict.start is not None:
                params = _stopped_params(tx, namespace, verdict.start)
                target = FlowTarget(name, tuple(params.items()))
                tx.start_flow(new_id(), namespace, target, verdict.start.priority, "restart")
            tx.control_flow(namespace, name, verdict.wake_at, verdict.restarting)
        return len(verdicts)

    def _judge(self, tx: Tx, control: FlowControl) -> _Verdict:
        """A stop acts only on what is running; a restart stops, waits, and starts."""
        namespace, name, now = control.namespace, control.name, tx.now
        try:
            flow = self._shelf.find(tx, namespace, name, control.digest)
        except NoFlow as error:
            log.warning("%s; its stops and restarts are not looked at", error)
            return _Verdict(control, None)
        due, wake_at = due_control(flow, control.controlled_at, now), next_control(flow, now)
        active = tuple(run_id for run_id, _ in tx.active_flow_runs(namespace, name))
        if due is not None and due.command == "stop":
            return _Verdict(control, wake_at, stop=active)
        if due is None and not control.restarting:
            return _Verdict(control, wake_at)
        if due is not None and not control.restarting and _starts_anyway(tx, flow, due, active):
            return _Verdict(control, wake_at)
        ended_at = tx.last_flow_end(namespace, name)
        what, until = restart_step(flow, bool(active), ended_at, now)
        if what == "start":
            return _Verdict(control, wake_at, start=flow)
        again = until or now + RESTARTING
        return _Verdict(
            control,
            again if wake_at is None else min(again, wake_at),
            stop=active,
            restarting=True,
        )


def _starts_anyway(tx: Tx, flow: Flow, due: Control, active: tuple[str, ...]) -> bool:
    """Whether a restart has nothing to stop, and the schedule starts the flow at its instant."""
    if not starts_at(flow, due.due_at):
        return False
    return all(tx.get_run(run_id).created_at >= due.due_at for run_id in active)


def _stopped_params(tx: Tx, namespace: str, flow: Flow) -> dict[str, Any]:
    """Those of the run that was stopped last, as far as the flow still has them."""
    runs = tx.list_flow_runs(namespace, flow.name, 1)
    made = tx.flow_run(runs[0].id) if runs and runs[0].reason == "stopped" else None
    known = {param.name for param in flow.params}
    return {} if made is None else {name: v for name, v in made.params.items() if name in known}
