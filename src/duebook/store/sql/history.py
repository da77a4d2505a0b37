"""How long runs are kept, what was deleted already, and the deletion itself, a batch at a time.

A due time whose run was deleted must never run again. So before a run is deleted, the horizon of
its history is recorded, and code that fills past due times reads the horizon after it has searched
for their runs.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.model.access import EVERYWHERE
from duebook.model.history import History, Keeps, NamespaceKeep
from duebook.settings import RETENTION
from duebook.store.sql.rows import EARLIEST
from duebook.store.sql.statements import Ask, Part
from duebook.store.values import Place, Swept

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duebook.model.history import SweptKeep
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.sql.statements import Row

__all__ = ["Histories"]

PAGE: Final = 100
"""Schedules with their own retention that are looked at together,"""
MOST_COUNTED: Final = 20_000
"""and of how many runs that they keep the places are counted."""
FIRST: Final = Place(EARLIEST, 0)


class Histories(Part):
    """Retention settings, horizons and deletion of runs."""

    def keeps(self) -> Keeps:
        """How long each namespace keeps its runs."""
        time, found = self._db.time, {}
        for namespace, keep, forgotten, ledger in self._db.all("list_keeps"):
            found[namespace] = NamespaceKeep(_length(keep), time(forgotten), time(ledger))
        longest = self._db.value("get_longest_keep")
        return Keeps(found, _length(longest) or timedelta())

    def set_keep(self, namespace: str, keep: timedelta | None) -> None:
        """Set how long a namespace keeps its runs; `*` stands for all without their own setting.

        What was deleted under the former setting stays forgotten.
        """
        self._hold([EVERYWHERE, namespace])
        keeps = self.keeps()
        shared = keeps.own(namespace).keep is None  # until now, it was deleted with the others
        self._db.run(
            "save_keep",
            namespace=namespace,
            keep=None if keep is None else int(keep.total_seconds()),
            forgotten_until=keeps.own(EVERYWHERE).forgotten_until if shared else None,
        )

    def _hold(self, namespaces: Iterable[str]) -> None:
        """Keep their runs from being deleted by retention before this transaction ends."""
        for namespace in sorted(set(namespaces)):
            self._db.run("hold_keep", namespace=namespace)

    def save(self, schedules: Iterable[tuple[str, str, ScheduleSpec]], new: bool) -> None:
        """Save the settings of definitions, each with its id and namespace; most have none."""
        found = sorted(schedules, key=lambda one: one[0])
        said = [one for one in found if one[2].keep is not None or one[2].keep_last is not None]
        if said:
            self._hold([EVERYWHERE, *(namespace for _, namespace, _ in said)])
        for id_, namespace, spec in said:
            self._db.run(
                "save_schedule_keep",
                id=id_,
                namespace=namespace,
                everywhere=EVERYWHERE,
                keep=None if spec.keep is None else int(spec.keep.total_seconds()),
                keep_last=spec.keep_last,
            )
        silent = [id_ for id_, _, spec in found if spec.keep is None and spec.keep_last is None]
        if silent and not new:
            self._db.run("clear_schedule_keeps", ids=silent)

    def of(self, schedule_id: str) -> History:
        """What remains of the past of a schedule."""
        return self.of_many([schedule_id]).get(schedule_id, History())

    def of_many(self, schedule_ids: Sequence[str]) -> dict[str, History]:
        keeps = self.keeps()
        return {
            id_: keeps.history(namespace, _length(keep), keep_last, self._db.time(forgotten))
            for id_, namespace, keep, keep_last, forgotten in self._db.all(
                "list_histories", ids=list(schedule_ids)
            )
        }

    # -- retention
    def sweep(self, swept: SweptKeep, limit: int, after: Place | None = None) -> Swept:
        """Delete runs of namespaces that ended before their retention time, looking at `limit` runs
        after `after` in the order of their ends.

        Runs of schedules with their own retention stay, and for a while the newest success of each
        schedule.
        """
        now = self._db.now
        return self.sweep_before(swept, now - swept.keep, now - RETENTION, limit, after)

    def sweep_before(
        self,
        swept: SweptKeep,
        before: datetime,
        remembered: datetime,
        limit: int,
        after: Place | None = None,
    ) -> Swept:
        """As above, for runs that ended before `before`; successes since `remembered` may stay."""
        at, place = after or FIRST
        looked = self._db.all(
            "look_at_old_runs",
            namespaces=list(swept.namespaces),
            among=swept.among,
            before=before,
            remembered=remembered,
            at=at,
            place=place,
            limit=limit,
        )
        ids = [id_ for id_, _, _, goes in looked if goes]
        if ids:
            for namespace in swept.namespaces if swept.among else (EVERYWHERE,):
                self._db.run("mark_namespace", namespace=namespace, until=before)
        last = Place(self._db.time(looked[-1][1]), looked[-1][2]) if looked else after
        return Swept(self._delete(ids, kept=False), len(looked), last)

    def sweep_schedules(self, after: str, limit: int) -> tuple[Swept, str | None]:
        """Delete runs of schedules that set how long, or how many, they keep, for the page of
        schedules after `after`. Returns where the next page starts, None after the last."""
        page = self._page(after)
        if not page:
            return Swept(0, 0, None), None
        found = self._outdated(page, limit)[:limit]
        marks: dict[str, datetime] = {}
        for id_, _, due_at in found:
            if due_at is not None:
                marks[id_] = max(marks.get(id_, EARLIEST), self._db.time(due_at))
        for id_, until in sorted(marks.items()):
            self._db.run("mark_schedule", id=id_, until=until)
        gone = self._delete([run_id for _, run_id, _ in found], kept=True)
        if gone and len(found) == limit:
            return Swept(gone, limit, None), after
        return Swept(gone, len(page) + len(found), None), page[-1][0]

    def _page(self, after: str) -> list[Row]:
        """As many as can be looked at quickly."""
        page: list[Row] = []
        counted = 0
        for row in self._db.all("list_kept_schedules", after=after, limit=PAGE):
            counted += row[2] or 0
            if page and counted > MOST_COUNTED:
                break
            page.append(row)
        return page

    def _outdated(self, page: Sequence[Row], limit: int) -> list[Row]:
        now = self._db.now
        common: dict[str, Any] = {"limit": limit, "remembered": now - RETENTION}
        asks = []
        for id_, keep, keep_last in page:
            if keep is not None:
                before = now - timedelta(seconds=keep)
                asks.append(Ask("look_at_outdated_runs", common | {"id": id_, "before": before}))
            if keep_last is not None:
                asks.append(Ask("look_at_surplus_runs", common | {"id": id_, "last": keep_last}))
        rows = {row[1]: row for answer in self._db.together(*asks) for row in answer}
        return list(rows.values())

    def _delete(self, ids: Sequence[str], kept: bool) -> int:
        """Without the runs of schedules that have got their own retention meanwhile, unless that is
        the reason for the deletion."""
        if not ids:
            return 0
        return self._db.run("delete_runs", ids=list(ids), kept=kept)


def _length(seconds: int | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
