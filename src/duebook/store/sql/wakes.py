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
    """Whoever ends runs calls `hold` first, which keeps the order of locks."""

    def hold(self, run_ids: Sequence[str]) -> None:
        """Lock what the end of these runs may wake, before the runs: everybody in that order."""

    @cached_property
    def anybody_depends(self) -> bool:
        """Mostly nobody does, and then a settle need not look whom it wakes."""
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
        """Whoever waits for the end of a run: its schedule, or the run of its flow."""
        if parent_run_id is not None:
            self.wake_flows([parent_run_id])
        else:
            self._wake(wakes, schedule_id)

    def wake_dependents(self, schedule_ids: Iterable[str]) -> None:
        """Have the planner look at the schedules that depend on these."""
        if self._db.run("wake_dependents", ids=list(schedule_ids), now=self._db.now):
            self._db.notify(News.WAKE)

    def follow_flows(self, started: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Runs that were made, of flows with params: an advancer looks at them at once.

        A run that was not made after all, because its due time had one, is left out.
        """
        rows: list[Values] = [
            {"id": id_, "flow": flow, "params": json.dumps(dict(params)), "wake_at": self._db.now}
            for id_, flow, params in started
        ]
        if rows:
            self._db.many("name_flow", rows)
            self._db.many("insert_flow_run", rows)
            self._db.notify(News.FLOW)
