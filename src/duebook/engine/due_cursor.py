"""A cursor over due schedules, so that a look skips those that the process has already taken; only
a hint."""

from __future__ import annotations

from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final

from duebook.engine.planning_turn import PlanningTurn
from duebook.store.values import Mark

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.store.base import Tx
    from duebook.store.values import Taken

__all__ = ["DueCursor"]

LONGEST_COMMIT: Final = timedelta(seconds=30)
"""A schedule whose wake time is now may become visible in the database up to this much later."""


class DueCursor:
    """Shared by the tickers of a process.

    In a backlog, each look starts after the last schedule taken. When nothing is left, one look
    from the very beginning finds what others held meanwhile; after that, looks start a little
    before now. The keeper looks from the beginning now and then, and makes the tickers look back if
    anything was left behind.
    """

    def __init__(self) -> None:
        self.mark: Mark | None = None
        self.turn = PlanningTurn()
        self._rests = False
        self._lock = Lock()

    def take(self, tx: Tx, limit: int) -> Taken:
        """One ticker at a time, so that none walks over what another has just locked."""
        with self._lock:
            taken = tx.plans.take(limit, self.mark)
            if taken.last is not None:
                self.mark, self._rests = taken.last, False
            return taken

    def rest(self, now: datetime, wake_at: datetime | None) -> bool:
        """Less than a batch was left, and the next schedule is due at `wake_at`.

        Returns False when a look from the beginning is needed to be sure that this is all.
        """
        with self._lock:
            if self.mark is not None and not self._rests:
                self.mark = None
                return False
            if wake_at is None or wake_at > now:
                self.mark, self._rests = Mark(now - LONGEST_COMMIT, ""), True
            return True

    def forget(self) -> None:
        """The transaction failed, so what was taken is due again."""
        with self._lock:
            self.mark = None

    def look_back(self, wake_at: datetime) -> None:
        """Something may be due at `wake_at`."""
        with self._lock:
            if self.mark is not None and wake_at <= self.mark.wake_at:
                self.mark = None
