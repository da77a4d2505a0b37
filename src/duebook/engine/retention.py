"""Deletes history older than its retention, a batch at a time, and leaves most of the database's
time to others."""

from __future__ import annotations

import time
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass
from duebook.settings import RETENTION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duebook.model.history import SweptKeep
    from duebook.store.base import Store, Tx
    from duebook.store.values import Place

__all__ = ["Retention"]

FEWEST: Final = 200
MOST: Final = 5_000
"""Maximum number of things that a batch looks at."""
BRIEF: Final = 0.1
"""Target seconds for a batch; when one takes longer, the next one is smaller."""
REST: Final = 4.0
"""A pause lasts this many times as long as the batch before it."""
EVERY: Final = 600.0
"""Seconds until the next sweep, once nothing old is left."""
ANEW: Final = 86_400.0
"""Seconds after which runs that were kept are looked at again."""


@dataclass(frozen=True, slots=True)
class Round:
    """The progress of a sweep: first by namespaces with equal retention, then by schedules."""

    waits: tuple[SweptKeep, ...]
    """the namespaces that are still to be swept"""
    schedule: str | None = ""
    """the last schedule looked at; None: all were looked at"""
    places: Mapping[SweptKeep, Place] = field(default_factory=dict)
    """up to where runs of namespaces were looked at"""


class Retention:
    """One per node; any number of them share the work.

    Batches grow while they are quick, so that history is deleted at least as fast as it
    accumulates, and the pause after each leaves most of the database's time for runs. A sweep
    starts where the last one ended: what that one kept stays for longer, and the index still holds
    what was deleted until a vacuum. Once a day a sweep starts from the beginning.
    """

    def __init__(self, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._monotonic = monotonic
        self._limit = FEWEST
        self._round: Round | None = None
        self._places: Mapping[SweptKeep, Place] = {}
        self._anew_at = float("-inf")

    def step(self) -> float:
        """Delete a batch; returns in how many seconds to continue."""
        began = self._monotonic()
        if self._round is None and began >= self._anew_at:
            self._places, self._anew_at = {}, began + ANEW
        reached, left = self._store.transact(self._batch)
        seconds = self._monotonic() - began
        self._places = reached.places
        if left > 0:
            self._round = None
            return EVERY
        self._round = reached
        size = self._limit // 2 if seconds > BRIEF else self._limit * 2
        self._limit = min(max(size, FEWEST), MOST)
        return seconds * REST

    def _batch(self, tx: Tx) -> tuple[Round, int]:
        """How far it came, and how many things it could still have looked at."""
        keeps = tx.history.keeps()
        current = keeps.swept()
        reached = self._round or Round(tuple(current), places=self._places)
        waits = [sweep for sweep in reached.waits if sweep in current]
        left, places = self._limit, dict(reached.places)
        while waits and left > 0:
            swept = tx.history.sweep(waits[0], left, places.get(waits[0]))
            if swept.after is not None:
                places[waits[0]] = swept.after
            if swept.looked < left:
                waits.pop(0)
            left -= swept.looked
        after = reached.schedule
        while after is not None and left > 0:
            of_schedules, after = tx.history.sweep_schedules(after, left)
            left -= min(of_schedules.looked, left)
        if left > 0:
            horizon = tx.now - keeps.longest
            left -= tx.upkeep.purge(horizon, left, min(horizon, tx.now - RETENTION))
        return replace(reached, waits=tuple(waits), schedule=after, places=places), left
