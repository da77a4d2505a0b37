"""Claims ready runs for the free slots of a node and for its buffer, a fair share from every queue
and namespace."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.engine.books_clock import BooksClock
from duebook.engine.measures import Measures
from duebook.engine.places import Room
from duebook.engine.verbose import tell_claims
from duebook.engine.work_cursor import WorkCursor
from duebook.model.queue import shares
from duebook.model.serving import ALL
from duebook.store.values import FreeWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.engine.places import Places
    from duebook.model.queue import NamespaceQueue
    from duebook.model.run import Claim
    from duebook.model.serving import Serving
    from duebook.store.base import Store
    from duebook.store.values import Labels, Work

__all__ = ["Dispatcher", "shares"]

log = logging.getLogger(__name__)

HELD_BY_OTHERS: Final = timedelta(milliseconds=20)
"""When to look again at work that other nodes were just claiming."""
GOOD_FOR: Final = 0.1
"""Seconds for which queues that filled every request are claimed from without a new look."""
RESTRAINT: Final = 1.0
"""Seconds for which nothing is claimed ahead after meeting a run that must not be: such a run needs
a free slot, and each of several queues should get its share of the slots."""

MOST_AT_ONCE: Final = 1_000
"""Maximum runs per claim: no run of a claim can start before the whole claim is done."""


class Dispatcher:
    """One per worker node."""

    def __init__(
        self,
        store: Store,
        slots: Places,
        session_id: str,
        queues: Sequence[str],
        tasks: Callable[[], Sequence[str]] = tuple,
        monotonic: Callable[[], float] = time.monotonic,
        measures: Measures | None = None,
        labels: Labels = (),
        namespaces: Serving = ALL,
        clock: BooksClock | None = None,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._labels = labels
        self._namespaces = namespaces
        self._slots = slots
        self.session_id = session_id
        self._queues = queues
        self._monotonic = monotonic
        self._measures = Measures() if measures is None else measures
        self._clock = BooksClock() if clock is None else clock
        self._cursor = WorkCursor()
        self._turn = 0
        self._known: Work | None = None
        """what the last look found, while there is plenty"""
        self._looked_at = 0.0
        self._limited_at: float | None = None
        """when a run came up that must not be claimed ahead"""
        self.caught_up = False
        """whether the last look found nothing and there has been room since"""

    def step(self) -> datetime | None:
        """Fill the free slots and the buffer; returns when to look again, None when nothing is
        foreseen."""
        self._slots.work_waits = True  # set before asking for room, or a ring could be missed
        while any(room := self._room()):
            tasks = self._tasks()
            known = self._plenty()
            work = known or self._look(tasks)
            self.caught_up = not work.places
            if not work.places:
                self._slots.work_waits = False
                return work.next_at
            self._turn += 1
            asked = self._asked(room, work.places)
            given = [self._claim(place, share, tasks) for place, share in asked]
            if known is None and not any(given):
                return work.now + HELD_BY_OTHERS
            self._known = work if given == [sum(share) for _, share in asked] else None
        self.caught_up = False
        return None  # the next slot to become free rings

    def worker(self, free: int) -> FreeWorker:
        """What the free slots of this node can start."""
        return FreeWorker(
            self.session_id, free, tuple(self._queues), self._tasks(), self._namespaces
        )

    def took(self, claims: Sequence[Claim], seconds: float | None = None) -> None:
        """Count what was claimed; a tick that claimed it counts its own time."""
        self._measures.took(claims, seconds)
        tell_claims(log, claims)

    def _room(self) -> Room:
        """How much to claim now. While a run needs a slot and none is free, nothing; what exceeds
        one claim is left to the next."""
        free, ahead = self._slots.room()
        if not free and self._limited_at is not None:
            return Room(0, 0)
        free = min(free, MOST_AT_ONCE)
        return Room(free, min(ahead, MOST_AT_ONCE - free))

    def _asked(
        self, room: Room, places: Sequence[NamespaceQueue]
    ) -> list[tuple[NamespaceQueue, Room]]:
        """The share of each queue in the free slots and in the buffer."""
        if self._limited_at is not None and (
            len(places) == 1 or self._monotonic() - self._limited_at > RESTRAINT
        ):
            self._limited_at = None  # its run gets the first slot
        free = dict(shares(room.free, places, self._turn))
        ahead = {}
        if room.ahead and self._limited_at is None:
            ahead = dict(shares(room.ahead, places, self._turn))
        return [
            (place, Room(free.get(place, 0), ahead.get(place, 0)))
            for place in places
            if place in free or place in ahead
        ]

    def _plenty(self) -> Work | None:
        """What was found a moment ago, while it still fills every request."""
        is_old = self._monotonic() - self._looked_at > GOOD_FOR
        return None if is_old else self._known

    def _look(self, tasks: Sequence[str]) -> Work:
        self._known, self._looked_at = None, self._monotonic()
        return self._cursor.look(
            lambda parts: self._store.look_for_work(
                self._queues, tasks, self._labels, self._namespaces, parts
            ),
            self._monotonic,
        )

    def _claim(self, place: NamespaceQueue, share: Room, tasks: Sequence[str]) -> int:
        queue, namespace = place
        parts = self._cursor.parts(place)
        with self._slots.claiming:
            asked_at, heard_from = self._monotonic(), self._clock.monotonic()
            (claims, limited), now = self._store.transact(
                lambda tx: (
                    tx.claims.claim_ahead(
                        self.session_id, queue, *share, tasks, namespace, self._labels, parts
                    ),
                    tx.now,
                )
            )
            seconds = self._monotonic() - asked_at
            self._clock.heard(now, heard_from)
            self._cursor.claimed(place, claims, now)
            self._slots.begin(claims)
        if limited:
            self._limited_at = self._monotonic()
        self.took(claims, seconds)
        return len(claims)
