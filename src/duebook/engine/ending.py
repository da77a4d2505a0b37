"""How a stopping node waits for its runs, and announces that it stops; ends nothing itself."""

from __future__ import annotations

import logging
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import DuebookError, counted
from duebook.model.node import Drain
from duebook.targets.spawner import lease_clock
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.engine.keeper import Keeper
    from duebook.engine.slots import Slots
    from duebook.store.base import Store

__all__ = ["Ending"]

log = logging.getLogger(__name__)

POLL: Final = 0.1
SAY_EVERY: Final = 15.0
"""Seconds between two log lines about what is waited for."""


class Ending:
    """Created when a node starts to stop."""

    def __init__(
        self,
        store: Store,
        slots: Slots[Any],
        keeper: Callable[[], Keeper],
        stop_within: timedelta,
        asked: Callable[[], int],
    ) -> None:
        """`keeper` returns the keeper of the current session; `asked` counts the requests to stop,
        and another one from now on ends the wait."""
        self._store = store
        self._slots = slots
        self._keeper = keeper
        self._stop_within = stop_within
        self._asked = asked
        self._hurry_at = 2 if asked() else 1

    def wait_for_runs(self) -> bool:
        """Let runs finish, within the limit for a stop; False when some did not."""
        deadline = lease_clock() + self._stop_within.total_seconds()
        if self._slots.performing and self._stop_within:
            self._tell_others()
        while True:
            left = deadline - lease_clock()
            if left > 0 and (running := self._slots.performing):
                log.warning(
                    "waiting up to %s for %s; press Ctrl-C again to stop now",
                    format_duration(timedelta(seconds=math.ceil(left))),
                    counted(running, "run"),
                )
            if self.wait_idle(min(left, SAY_EVERY), impatient=True):
                return True
            if self._hurries or lease_clock() > deadline:
                return False

    def wait_idle(self, seconds: float, impatient: bool = False) -> bool:
        """Whether the work was done within this many seconds."""
        deadline = lease_clock() + seconds
        while not self._slots.wait_idle(POLL):
            self._keeper().guard()
            self._slots.look_after()
            if lease_clock() > deadline or (impatient and self._hurries):
                return False
        return True

    @property
    def _hurries(self) -> bool:
        return self._asked() >= self._hurry_at

    def _tell_others(self) -> None:
        """Show other nodes that this one takes on nothing more."""
        session_id = self._keeper().session_id
        try:
            self._store.transact(lambda tx: tx.nodes.drain(session_id, Drain(tx.now, stops=True)))
        except DuebookError as error:
            log.debug("could not tell that this node stops: %s", error)
