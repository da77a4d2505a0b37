"""Claims ready runs for the free slots of a node, a fair share from every queue and namespace."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.engine.slots import Places
    from duebook.store.base import Store

__all__ = ["Dispatcher", "shares"]

HELD_BY_OTHERS: Final = timedelta(milliseconds=20)
"""When to look again at work that somebody else was claiming just now."""

Place = tuple[str, str]
"""a queue and a namespace"""


def shares(free: int, places: Sequence[Place], turn: int) -> list[tuple[Place, int]]:
    """How many of the free slots each place gets; those that are too few go round by turns."""
    each, rest = divmod(free, len(places))
    first = turn % len(places)
    in_turn = [*places[first:], *places[:first]]
    given = [(place, each + (number < rest)) for number, place in enumerate(in_turn)]
    return [(place, share) for place, share in given if share]


class Dispatcher:
    """One per worker node."""

    def __init__(
        self,
        store: Store,
        slots: Places,
        session_id: str,
        queues: tuple[str, ...],
        tasks: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._slots = slots
        self.session_id = session_id
        self._queues = queues
        self._turn = 0

    def step(self) -> datetime | None:
        """Fill the free slots; returns when to look again, None when nothing is foreseen."""
        while free := self._slots.free:
            tasks = self._tasks()
            work = self._store.look_for_work(self._queues, tasks)
            if not work.places:
                return work.next_at
            self._turn += 1
            claimed = [
                self._claim(place, share, tasks)
                for place, share in shares(free, work.places, self._turn)
            ]
            if not any(claimed):
                return work.now + HELD_BY_OTHERS
        return None  # a slot that gets free rings

    def _claim(self, place: Place, share: int, tasks: Sequence[str]) -> int:
        queue, namespace = place
        with self._slots.claiming:
            claims = self._store.transact(
                lambda tx: tx.claim(self.session_id, queue, share, tasks, namespace)
            )
            self._slots.begin(claims)
        return len(claims)
