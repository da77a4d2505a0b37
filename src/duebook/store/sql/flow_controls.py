"""Stops and restarts of flows in a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.store.flow_values import FlowCommand, FlowControl
from duebook.store.sql.flow_runs import columns_of_flows
from duebook.store.sql.rows import facts_text
from duebook.store.sql.statements import Part, Statements
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duebook.store.sql.run_ends import RunEnds
    from duebook.store.sql.wakes import Wakes

__all__ = ["FlowControls"]


class FlowControls(Part):
    """Requests of stop and restart schedules, and the runs of a flow that they affect."""

    def __init__(self, db: Statements, wakes: Wakes, ends: RunEnds) -> None:
        super().__init__(db)
        self._wakes = wakes
        self._ends = ends

    def take_controls(self, limit: int) -> list[FlowControl]:
        """Flows with a restart to continue; locked."""
        rows = self._db.all("take_controls", now=self._db.now, limit=limit)
        return [
            FlowControl(namespace, name, digest, bool(restarting))
            for namespace, name, digest, restarting in rows
        ]

    def take_commands(self, limit: int) -> list[FlowCommand]:
        """The oldest stops and restarts to carry out, locked; those of a flow together and in
        order, with flows in the common lock order."""
        found = (FlowCommand(*row) for row in self._db.all("take_commands", limit=limit))
        return [command._replace(due_at=self._db.time(command.due_at)) for command in found]

    def end_command(self, command: FlowCommand, facts: Mapping[str, Any]) -> None:
        """It was carried out; record its results in the ledger."""
        self._db.run("delete_commands", ids=[command.id])
        self._db.run(
            "note_command",
            schedule_id=command.schedule_id,
            due_at=command.due_at,
            kind=command.kind,
            facts=facts_text(facts),
        )

    def control_flow(
        self, namespace: str, name: str, control_at: datetime | None, restarting: bool
    ) -> None:
        """Whether a restart is in progress, and when to continue it."""
        self._db.run(
            "control_flow",
            namespace=namespace,
            name=name,
            control_at=control_at,
            restarting=restarting,
        )
        self._db.notify(News.FLOW)

    def forget_restart(self, namespace: str, name: str) -> bool:
        """Whether it was to be started again; cancels that."""
        row = self._db.one("forget_restart", namespace=namespace, name=name, restarting=False)
        return row is not None

    def active_flow_runs(self, namespace: str, flow: str) -> list[tuple[str, str]]:
        """Id and status of the runs of a flow that have not ended, without those called by
        steps."""
        return [
            (id_, status)
            for id_, status in self._db.all("list_active_flow_runs", namespace=namespace, flow=flow)
        ]

    def stop_flows(self, run_ids: Sequence[str], reason: str) -> None:
        """Cancel runs of flows that have not ended; active ones are asked to stop."""
        if run_ids:
            self._wakes.hold(run_ids)  # all of them, before any run is locked
        for run_id in sorted(run_ids):
            self._ends.stop(run_id, reason)

    def count_flow_runs(self, namespace: str, flow: str) -> int:
        """How many runs of a flow are active, including those called by steps."""
        counted = self._db.all("count_flows_under_way", **columns_of_flows([(namespace, flow)]))
        return int(counted[0][2])

    def last_flow_end(self, namespace: str, flow: str) -> datetime | None:
        """When the latest of its ended runs ended."""
        found = self._db.value("get_last_flow_end", namespace=namespace, flow=flow)
        ended_at: datetime | None = self._db.time(found)
        return ended_at
