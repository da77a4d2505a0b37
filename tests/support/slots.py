"""Slots of a node that never acts by itself, and a store that settles slowly, for tests."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.engine.performer import TargetPerformer
from duebook.engine.slots import Slots
from duebook.flows.flow_cache import FlowCache
from duebook.store.sqlite import SqliteStore
from duebook.targets.spawner import Spawner
from duebook.targets.task import Tasks
from tests.support.builders import add_run, add_schedule, begin, get_run
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from duebook.model.run import Claim, Run

GRACE: Final = 5.0
PLACES: Final = 3


class Place:
    """Slots of a node that never acts by itself, on a database in a file, with a separate clock."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path / "books.db")
        self.tasks = Tasks()
        self.now = 0.0
        self.rings = 0
        self.flow_cache = FlowCache()
        self.performer = TargetPerformer(
            self.store, Spawner(), lambda: None, tasks=self.tasks, flow_cache=self.flow_cache
        )
        self.holds_lease = True
        self.slots = Slots(
            self.store,
            self.performer,
            PLACES,
            self._ring,
            GRACE,
            monotonic=lambda: self.now,
            may_begin=lambda: self.holds_lease,
        )
        begin(self.store, lease=timedelta(hours=1))

    def _ring(self) -> None:
        self.rings += 1

    def begin(self, function: Callable[..., Any], number: int = 1, **policies: Any) -> list[Claim]:
        """Declare a task and start runs of it."""
        return self._claim(function, number, 0, policies)

    def buffer(self, function: Callable[..., Any], number: int = 1, **policies: Any) -> list[Claim]:
        """Like `begin`, but the runs are claimed ahead."""
        return self._claim(function, 0, number, policies)

    def _claim(
        self, function: Callable[..., Any], limit: int, ahead: int, policies: dict[str, Any]
    ) -> list[Claim]:
        name = function.__name__
        self.tasks.add(function)
        definition = {"target": name, "overlap": "allow"} | policies
        schedule = add_schedule(self.store, name, **definition)
        for _ in range(limit + ahead):
            add_run(self.store, schedule)
        claims, _ = self.store.transact(
            lambda tx: tx.claims.claim_ahead(
                "node-1", "default", limit, ahead, [name], "default", ()
            )
        )
        assert len(claims) == limit + ahead
        self.slots.begin(claims)
        return claims

    def ended(self, claim: Claim) -> Run:
        """The run, once its outcome is recorded and its place is free."""
        eventually(lambda: claim.token not in self.slots.working())
        return get_run(self.store, claim.run.id)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.slots.look_after()

    def close(self) -> None:
        self.slots.close()
        self.performer.close()
        self.store.close()


@contextmanager
def slow_books(place: Place) -> Iterator[None]:
    """While this is active, no outcome is recorded."""
    transact, go = place.store.transact, threading.Event()

    def waits(work: Any) -> Any:
        if threading.current_thread().name == "duebook-settler":
            assert go.wait(PATIENCE)
        return transact(work)

    vars(place.store)["transact"] = waits
    try:
        yield
    finally:
        go.set()
        vars(place.store)["transact"] = transact
