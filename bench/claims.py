"""What one claim costs: the real dispatcher, whose runs are settled without being executed."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from bench.drain import LEASE
from duebook.engine.dispatcher import Dispatcher
from duebook.engine.places import Room
from duebook.engine.session import new_session
from duebook.engine.slots import Slots
from duebook.model.run import Outcome
from duebook.model.serving import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.model.run import Claim
    from duebook.store.base import Store

__all__ = ["CLAIMED", "claimer"]

CLAIMED: Final = 100
"""Runs that are claimed at once."""


@contextmanager
def claimer(store: Store) -> Iterator[Callable[[int], float]]:
    """Each call claims this many times, and returns the mean milliseconds of one claim."""
    session = new_session("claimer", ("job",), namespaces=ALL)
    store.transact(lambda tx: tx.nodes.begin_session(session, LEASE))
    places = Collecting(store)
    dispatcher = Dispatcher(store, places, session.id, ("default",), lambda: ("job",))

    def claim(number: int) -> float:
        taken = 0.0
        for _ in range(number):
            began = time.perf_counter()
            dispatcher.step()
            taken += time.perf_counter() - began
            places.settle()
        return taken / number * 1e3

    yield claim
    places.close()


class Collecting(Slots[Any]):
    """Slots for one claim, which execute nothing."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, None, CLAIMED, lambda: None)  # type: ignore[arg-type]
        self._store = store
        self._claims: list[Claim] = []

    def room(self) -> Room:
        return Room(CLAIMED - len(self._claims), 0)

    def begin(self, claims: list[Claim]) -> None:
        self._claims += claims

    def settle(self) -> None:
        ended = [(claim.token, Outcome("succeeded")) for claim in self._claims]
        assert len(ended) == CLAIMED, len(ended)
        settled = self._store.transact(lambda tx: tx.attempts.settle_all(ended))
        assert len(settled) == CLAIMED, len(settled)
        self._claims.clear()
