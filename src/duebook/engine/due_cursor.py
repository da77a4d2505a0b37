"""A cursor over what is due: no look walks over what a process has taken already; only a hint."""

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
"""Who wants to be looked at now may show in the books as late as that."""


class DueCursor:
    """Shared by the tickers of a process.

    In a backlog a look begins after the last one taken; then once at the very beginning, for what
    others held meanwhile; and when nothing is left, a little before now. The keeper looks from
    the beginning now and then, and whatever was left behind makes the tickers look back.
    """

    def __init__(self) -> None:
        self.mark: Mark | None = None
        self.turn = PlanningTurn()
        self._rests = False
        self._lock = Lock()

    def take(self, tx: Tx, limit: int) -> Taken:
        """One ticker after the other, so that none walks over what another has just locked."""
        with self._lock:
            taken = tx.plans.take(limit, self.mark)
            if taken.last is not None:
                self.mark, self._rests = taken.last, False
            return taken

    def rest(self, now: datetime, wake_at: datetime | None) -> bool:
        """Not even a batch was left, and the next is due at `wake_at`.

        False when a look from the beginning has to say whether that is all.
        """
        with self._lock:
            if self.mark is not None and not self._rests:
                self.mark = None
                return False
            if wake_at is None or wake_at > now:
                self.mark, self._rests = Mark(now - LONGEST_COMMIT, ""), True
            return True

    def forget(self) -> None:
        """What was taken came to nothing, and is due again."""
        with self._lock:
            self.mark = None

    def look_back(self, wake_at: datetime) -> None:
        """Something may be due at `wake_at`."""
        with self._lock:
            if self.mark is not None and wake_at <= self.mark.wake_at:
                self.mark = None
