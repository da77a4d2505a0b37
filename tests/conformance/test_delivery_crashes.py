"""Couriers that die at every point between read, delivery and mark: nothing is lost, no key goes
backwards, and what comes twice has the same id."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from duebook.delivery.courier import Courier
from duebook.model.consumer import Report, new_consumer
from tests.conformance.builders import LEASE
from tests.conformance.test_events import append, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.consumer import Delivery
    from duebook.model.event import Event
    from duebook.store.base import Store
    from tests.conformance.builders import VirtualClock
    from tests.conformance.conftest import Backend


class Crash(BaseException):
    """The end of a process: nothing of it is heard again."""


class Evidence:
    """What was delivered, outside of the books; a process may die between two deliveries."""

    def __init__(self) -> None:
        self.got: list[Event] = []
        self.dies_after: int | None = None

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        for delivery in deliveries:
            if self.dies_after is not None and len(self.got) == self.dies_after:
                self.dies_after = None
                raise Crash
            self.got.append(delivery.event)
        return Report()


def check(got: list[Event], ids: list[str]) -> None:
    assert {event.id for event in got} == set(ids)
    latest: dict[str, int] = defaultdict(int)
    seen: set[str] = set()
    for event in got:
        if event.id not in seen:
            assert (event.position or 0) > latest[event.key]
            latest[event.key] = event.position or 0
        seen.add(event.id)


class Bench:
    """The same log, and one consumer after another on it."""

    def __init__(self, backend: Backend, store: Store, clock: VirtualClock) -> None:
        self._backend, self._store, self._clock = backend, store, clock
        self._number = 0
        self.ids = append(store, *"abcaabcdc")
        stamp(store)

    def _courier(self, store: Store, evidence: Evidence) -> Courier:
        wanted = new_consumer("default", f"c-{self._number}", "group", None, 4, 3)
        consumer = store.transact(lambda tx: tx.save_consumer(wanted, 0))

        def monotonic() -> float:
            return self._clock.now.timestamp()

        return Courier(store, consumer, evidence, batch=3, lease=LEASE, monotonic=monotonic)

    def die(self, hook: Callable[[str], None] | None, evidence: Evidence) -> None:
        """Deliver until something kills the process; then another one takes over."""
        self._number += 1
        store = self._backend.open(hook)
        try:
            dying = self._courier(store, evidence)
            while dying.step() == 0:
                pass
        except Crash:
            pass
        self._clock.advance(2 * LEASE)
        heir = self._courier(self._store, evidence)
        while heir.step() == 0:
            pass
        check(evidence.got, self.ids)
        heir.close()


@pytest.fixture
def bench(backend: Backend, store: Store, clock: VirtualClock) -> Bench:
    return Bench(backend, store, clock)


def test_a_courier_that_dies_at_any_point_loses_nothing(bench: Bench) -> None:
    points: list[str] = []
    bench.die(points.append, Evidence())
    assert {"after:list_events", "before:move_cursor", "before:COMMIT"} <= set(points)
    for moment in range(len(points)):
        count = 0

        def hook(_: str, moment: int = moment) -> None:
            nonlocal count
            count += 1
            if count == moment + 1:
                raise Crash

        bench.die(hook, Evidence())


def test_a_courier_that_dies_between_two_deliveries_loses_nothing(bench: Bench) -> None:
    for number in range(len(bench.ids)):
        evidence = Evidence()
        evidence.dies_after = number
        bench.die(None, evidence)
