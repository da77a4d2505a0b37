"""Whose turn it is to look for due schedules, among the tickers of a process; reads no database."""

from __future__ import annotations

from threading import Condition
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Answer", "PlanningTurn"]


class Answer(NamedTuple):
    """The result of another ticker that looked after this one had started to wait."""

    wake_at: datetime | None


class PlanningTurn:
    """One ticker looks at a time, and passes its turn on as soon as it has taken a full batch.

    A ticker that has to wait returns the result of another one if that one's look started after the
    wait started: only then has it seen everything that was due by then. Otherwise it takes its own
    turn next, so that no wake-up is lost.
    """

    def __init__(self) -> None:
        self.waiting = 0
        """how many tickers wait for their turn"""
        self._changed = Condition()
        self._holder: object = None
        self._looks = 0
        """how many looks have started"""
        self._answered = 0
        """the number of the look that the last answer came from"""
        self._answer = Answer(None)

    def begin(self, ticker: object) -> Answer | None:
        """Wait for the turn; after an Answer there is nothing left to do, and no turn to end."""
        with self._changed:
            seen = self._looks
            self.waiting += 1
            self._changed.wait_for(lambda: self._holder is None or self._answered > seen)
            self.waiting -= 1
            if self._answered > seen:
                return self._answer
            self._holder = ticker
            return None

    def look(self, ticker: object) -> None:
        """The database is read now: whatever is visible in it by now will be seen."""
        with self._changed:
            if self._holder is ticker:
                self._looks += 1

    def pass_on(self, ticker: object) -> None:
        """More is due than this ticker has taken, or it failed: another one may look."""
        with self._changed:
            if self._holder is ticker:
                self._holder = None
                self._changed.notify_all()

    def end(self, ticker: object, wake_at: datetime | None) -> None:
        """It looked at everything; the next is due at `wake_at`."""
        with self._changed:
            if self._holder is ticker:
                self._answer, self._answered = Answer(wake_at), self._looks
        self.pass_on(ticker)
