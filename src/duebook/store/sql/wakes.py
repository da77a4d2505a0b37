"""Wakes what waits for the end of a run: its schedule, those that depend on it, its flow."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from duebook.store.sql.statements import Part, Values
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Wakes"]


class Wakes(Part):
    """Before ending runs, call `hold`, which keeps the lock order."""

    def hold(self, run_ids: Sequence[str]) -> None:
        """Lock what the end of these runs may wake, before the runs: the common lock order."""

    @cached_property
    def anybody_depends(self) -> bool:
        """Usually false, and then a settle need not search what it wakes."""
        return bool(self._db.one("get_any_dependency"))

    def _wake(self, wakes: object, schedule_id: str | None) -> None:
        if wakes and schedule_id is not None:
            self._db.run("wake_schedule", schedule_id=schedule_id, now=self._db.now)
            self._db.notify(News.WAKE)

    def wake_flows(self, run_ids: Iterable[str | None]) -> None:
        """Have an advancer look at runs of flows."""
        rows: list[Values] = [{"run_id": id_} for id_ in run_ids if id_ is not None]
        if rows:
            self._db.many("wake_flow", rows)
            self._db.notify(News.FLOW)

    def wake_owner(self, wakes: object, schedule_id: str | None, parent_run_id: str | None) -> None:
        """Wake what waits for the end of a run: its schedule, or the run of its flow."""
        if parent_run_id is not None:
            self.wake_flows([parent_run_id])
        else:
            self._wake(wakes, schedule_id)

    def wake_dependents(self, schedule_ids: Iterable[str]) -> None:
        """Have the planner look at the schedules that depend on these."""
        if self._db.run("wake_dependents", ids=list(schedule_ids), now=self._db.now):
            self._db.notify(News.WAKE)

    def follow_flows(self, started: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Have an advancer look at new runs of flows at once, given with their params.

        Omits runs that were not created because their due time already had one.
        """
        rows: list[Values] = [
            {"id": id_, "flow": flow, "params": json.dumps(dict(params)), "wake_at": self._db.now}
            for id_, flow, params in started
        ]
        if rows:
            self._db.many("name_flow", rows)
            self._db.many("insert_flow_run", rows)
            self._db.notify(News.FLOW)
