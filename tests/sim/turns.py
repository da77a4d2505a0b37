"""Lets loops take turns at the points where they access the database. One scheduler picks whose
turn it is, so that the same choices give the same history. Does not depend on Duebook."""

from __future__ import annotations

import contextlib
from math import inf
from typing import TYPE_CHECKING, Final

import greenlet

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Actor", "Crash", "TurnLock", "pause"]

AT_ONCE: Final = -inf


class Crash(BaseException):
    """The end of a node; not an exception that Duebook catches."""


class Actor:
    """A loop around `step`, which returns the seconds until it wants to step again.

    In the middle of a step, it waits at `pause()` for its next turn.
    """

    def __init__(self, name: str, step: Callable[[], float]) -> None:
        self.name = name
        self.next_turn = AT_ONCE
        """when it can go on: at once in the middle of a step"""
        self.wake_at = AT_ONCE
        self.not_before = AT_ONCE
        self.failures = 0
        self.wait: float | None = None
        """the result of the last step; None in the middle of one"""
        self._step = step
        self._turn: greenlet.greenlet | None = None

    def rest(self, until: float) -> None:
        """After a failure nobody hurries it."""
        self.failures += 1
        self.not_before = until
        self.ring(until)

    def resume(self) -> None:
        """Continue until the next pause, or the end of the step; raises what the step raises."""
        if self._turn is None:
            self.wait, self.wake_at = None, inf
            self._turn = greenlet.greenlet(self._run)
        turn = self._turn
        try:
            turn.switch()
        finally:
            if turn.dead:
                self._turn = None
                self._plan()
            else:
                self.next_turn = AT_ONCE

    def _run(self) -> None:
        self.wait = self._step()

    def kill(self) -> None:
        """Unwind a step that is in progress."""
        turn, self._turn = self._turn, None
        if turn is not None and not turn.dead:
            with contextlib.suppress(Crash):
                turn.throw(Crash())
            while not turn.dead:  # it pauses again in a clause that cleans up
                with contextlib.suppress(Crash):
                    turn.throw(Crash())

    def ring(self, at: float) -> None:
        if at < self.wake_at:
            self.wake_at = at
            self._plan()

    def _plan(self) -> None:
        if self._turn is None:
            self.next_turn = max(self.wake_at, self.not_before)


def pause() -> None:
    """Give up the turn; does nothing outside of an actor."""
    parent = greenlet.getcurrent().parent
    if parent is not None:
        parent.switch()


class TurnLock:
    """A lock among actors, in place of one among threads: an actor that waits gives up its turn."""

    def __init__(self) -> None:
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        del timeout
        while self._held:
            if not blocking:
                return False
            pause()
        self._held = True
        return True

    def release(self) -> None:
        self._held = False

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
