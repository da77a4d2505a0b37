"""The part of a transaction that makes runs of flows and wakes them, for all other parts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duebook.store.sql.statements import Statements
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from duebook.store.sql.statements import Values

__all__ = ["Flowing"]


class Flowing(Statements):
    """Makes runs of flows, and wakes them."""

    def _follow_flows(self, started: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Runs that were made, of flows with params: an advancer looks at them at once.

        A run that was not made after all, because its due time had one, is left out.
        """
        rows: list[Values] = [
            {"id": id_, "flow": flow, "params": json.dumps(dict(params)), "wake_at": self.now}
            for id_, flow, params in started
        ]
        if rows:
            self._many("name_flow", rows)
            self._many("insert_flow_run", rows)
            self._notify(News.FLOW)

    def _wake_flows(self, run_ids: Iterable[str | None]) -> None:
        """Have an advancer look at runs of flows."""
        rows: list[Values] = [{"run_id": id_} for id_ in run_ids if id_ is not None]
        if rows:
            self._many("wake_flow", rows)
            self._notify(News.FLOW)

    def _wake_owner(
        self, wakes: object, schedule_id: str | None, parent_run_id: str | None
    ) -> None:
        """Whoever waits for the end of a run: its schedule, or the run of its flow."""
        if parent_run_id is not None:
            self._wake_flows([parent_run_id])
        else:
            self._wake(wakes, schedule_id)
