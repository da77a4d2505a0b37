"""Couriers that die at every point between read, delivery and mark: nothing is lost, no key goes
backwards, and repeated events have the same id."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.delivery.courier import Courier
from duebook.errors import Unavailable
from duebook.model.consumer import new_consumer
from duebook.sinks.each import deliver_each
from tests.support.backends import not_in_memory
from tests.support.builders import LEASE
from tests.support.event_builders import append, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.consumer import Delivery, Report
    from duebook.model.event import Event
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock


class Crash(BaseException):
    """The end of a process."""


class Evidence:
    """Records deliveries outside of the database; a process may die between two of them.

    Events of the keys in `busy` fail the first time.
    """

    def __init__(self, busy: str = "") -> None:
        self.got: list[Event] = []
        self.dies_after: int | None = None
        self._busy = busy
        self._tried: set[str] = set()

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        return deliver_each(deliveries, self._deliver)

    def _deliver(self, delivery: Delivery) -> None:
        event = delivery.event
        if self.dies_after is not None and len(self.got) == self.dies_after:
            self.dies_after = None
            raise Crash
        if event.key in self._busy and event.id not in self._tried:
            self._tried.add(event.id)
            raise Unavailable("busy")
        self.got.append(event)


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
        consumer = store.transact(lambda tx: tx.consumers.save_consumer(wanted, 0))

        def monotonic() -> float:
            return self._clock.now.timestamp()

        return Courier(store, consumer, evidence, batch=3, lease=LEASE, monotonic=monotonic)

    def die(self, hook: Callable[[str], None] | None, evidence: Evidence) -> None:
        """Deliver until something kills the process; then another one takes over."""
        self._number += 1
        store = self._backend.open(hook)
        with suppress(Crash):
            self._deliver_all(self._courier(store, evidence), evidence)
        self._clock.advance(2 * LEASE)
        heir = self._courier(self._store, evidence)
        self._deliver_all(heir, evidence)
        check(evidence.got, self.ids)
        heir.close()

    def _deliver_all(self, courier: Courier, evidence: Evidence) -> None:
        for _ in range(100):
            rest = courier.step()
            if rest and {event.id for event in evidence.got} == set(self.ids):
                return
            self._clock.advance(timedelta(seconds=rest))
        raise AssertionError("it does not come to an end")


@pytest.fixture
def bench(backend: Backend, store: Store, clock: VirtualClock) -> Bench:
    not_in_memory(backend)
    return Bench(backend, store, clock)


def dies_at(moment: int) -> Callable[[str], None]:
    """A hook that kills the process after `moment` calls."""
    count = 0

    def hook(_: str) -> None:
        nonlocal count
        count += 1
        if count == moment + 1:
            raise Crash

    return hook


def test_a_courier_that_dies_at_any_point_loses_nothing(bench: Bench) -> None:
    points: list[str] = []
    bench.die(points.append, Evidence())
    assert {"after:list_events", "before:move_cursor", "before:COMMIT"} <= set(points)
    for moment in range(len(points)):
        bench.die(dies_at(moment), Evidence())


def test_a_courier_that_dies_while_keys_wait_loses_nothing(bench: Bench) -> None:
    points: list[str] = []
    bench.die(points.append, Evidence(busy="ac"))
    for name in ("before:move_cursor", "after:hold_key", "after:free_keys", "after:COMMIT"):
        moments = [moment for moment, point in enumerate(points) if point == name]
        for moment in {moments[0], moments[len(moments) // 2], moments[-1]}:
            bench.die(dies_at(moment), Evidence(busy="ac"))


def test_a_courier_that_dies_between_two_deliveries_loses_nothing(bench: Bench) -> None:
    for number in range(len(bench.ids)):
        evidence = Evidence()
        evidence.dies_after = number
        bench.die(None, evidence)
