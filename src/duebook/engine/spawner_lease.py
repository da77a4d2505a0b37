"""Gives the spawner a lease that ends before that of its node, and restarts it if it dies."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from duebook.errors import Unavailable
from duebook.targets.spawner import lease_clock

if TYPE_CHECKING:
    from duebook.targets.spawner import Spawner

__all__ = ["SPAWNER_PART", "SpawnerLease"]

log = logging.getLogger(__name__)

SPAWNER_PART: Final = 0.9
"""The part of a lease after which the spawner kills whatever the node has not stopped itself."""


class SpawnerLease:
    """Until the first renewal, the spawner has `seconds`."""

    def __init__(self, spawner: Spawner, seconds: float) -> None:
        self._spawner = spawner
        self._lock = threading.Lock()
        self._granted = (lease_clock(), seconds)

    def renewed(self, since: float, seconds: float) -> None:
        """The spawner kills all work a little before other nodes may take it over."""
        self._granted = (since, seconds * SPAWNER_PART)
        try:
            self._spawner.extend_lease(seconds * SPAWNER_PART, since)
        except Unavailable:
            self.revive()

    def revive(self) -> None:
        """Restart a spawner that has stopped, with the lease that it had."""
        with self._lock:
            if self._spawner.is_alive():
                return
            log.warning("the spawner has stopped; it is restarted")
            try:
                self._spawner.start()
                since, seconds = self._granted
                self._spawner.extend_lease(seconds, since)
            except Unavailable as error:
                log.warning("%s", error)
