"""Looks after the books: forgets what is old, and tells which invariants do not hold."""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.store.base import CLOCK_BEHIND
from duebook.store.sql.statements import Statements

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.store.sql.statements import Values

__all__ = ["Upkeep"]

OVERDUE: Final = timedelta(minutes=1)
_CHECKS: Final = {
    "check_overlaps": "schedule {0} has {1} runs under way that exclude each other",
    "check_abandoned": "run {0} belongs to {1}, which is dead; a live node takes it over",
    "check_doubled": "run {0} has a due time that was also recorded as {1}",
    "check_early": "run {0} started before it was due",
    "check_order": "schedule {0} has a next due time that is decided already",
    "check_overdue": "schedule {0} is overdue by more than a minute: is a node running?",
}


class Upkeep(Statements):
    """Retention and checks."""

    def purge(self, before: datetime, limit: int) -> int:
        left = limit
        # in this order: a session is forgotten only when no old run is left
        for query in ("delete_old_runs", "delete_old_ledger", "delete_old_sessions"):
            left -= self._run(query, before=before, limit=left)
        forgotten = self._all("list_old_schedules", before=before, limit=left)
        for (schedule_id,) in forgotten:
            self._run("delete_revisions", id=schedule_id)
            self._run("forget_schedule", id=schedule_id)
        return limit - left + len(forgotten)

    @abstractmethod
    def _damage(self) -> list[str]:
        """What the database itself finds wrong."""

    def check(self) -> list[str]:
        problems = self._damage()
        if self.behind >= CLOCK_BEHIND:
            problems.append(
                f"this machine's clock is {self.behind} behind the latest time on the books; "
                "nothing is due until it has caught up"
            )
        parameters: dict[str, Values] = {
            "check_abandoned": {"now": self.now},
            "check_overdue": {"before": self.now - OVERDUE},
        }
        for query, text in _CHECKS.items():
            rows = self._all(query, **parameters.get(query, {}))
            problems += [text.format(*row) for row in rows]
        return problems
