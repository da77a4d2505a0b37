"""Small builders for tests of events: a log, an outlet, and couriers that deliver to it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from duebook.delivery.courier import Courier
from duebook.engine.ticker import Ticker
from duebook.ids import new_id
from duebook.model.consumer import Delivery, Report, new_consumer
from duebook.model.event import Event, new_draft
from tests.support.builders import LEASE, VirtualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.consumer import Consumer
    from duebook.store.base import Store


def append(store: Store, *keys: str, topic: str = "t", namespace: str = "default") -> list[str]:
    drafts = [new_draft(new_id(), namespace, topic, None, key, {"key": key}) for key in keys]
    store.transact(lambda tx: tx.events.append_events(drafts))
    return [draft.id for draft in drafts]


def stamp(store: Store, limit: int = 1_000) -> int | None:
    return store.transact(lambda tx: tx.events.stamp_events(limit))


def step(store: Store, times: int = 1) -> None:
    """Do what a node does at a due time."""
    for _ in range(times):
        Ticker(store, "scheduler").step()


def problems(store: Store) -> list[str]:
    found = store.read(lambda tx: tx.checks.check(deep=True))
    return [finding.text for finding in found if finding.problem]


class Box:
    """An outlet that keeps what it gets; it can refuse some events, or be unreachable."""

    def __init__(self) -> None:
        self.got: list[Delivery] = []
        self.refuses: set[str] = set()
        self.down = False

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        if self.down:
            return Report(undelivered={d.event.id: "it is down" for d in deliveries})
        report, waiting = Report(), set[str]()
        for delivery in deliveries:
            event = delivery.event
            if event.key not in self.refuses:
                self.got.append(delivery)
            elif event.key in waiting:
                report.untried.add(event.id)
            else:
                report.rejected[event.id] = "no such thing"
                waiting.add(event.key)
        return report

    @property
    def ids(self) -> list[str]:
        return [delivery.event.id for delivery in self.got]


def join(
    store: Store, name: str = "billing", partitions: int = 4, attempts: int = 3, **more: Any
) -> Consumer:
    wanted = new_consumer(
        *("default", name, "group", more.pop("topics", None), partitions, attempts),
        types=more.pop("types", None),
        labels=more.pop("labels", None),
    )
    return store.transact(lambda tx: tx.consumers.save_consumer(wanted, more.pop("start", 0)))


def courier(store: Store, box: Box, clock: VirtualClock, **more: Any) -> Courier:
    def monotonic() -> float:
        return clock.now.timestamp()

    made = Courier(store, join(store, **more), box, lease=LEASE, monotonic=monotonic)
    made.share()
    return made


def run(*couriers: Courier) -> None:
    """Step until no courier has anything to do."""
    stamp(couriers[0]._store)
    while any([one.step() == 0 for one in couriers]):  # noqa: C419 - step each of them
        pass


def lag(store: Store, name: str = "billing") -> tuple[int, int, int]:
    (found,) = [
        one for one in store.read(lambda tx: tx.consumers.list_lags()) if one.consumer == name
    ]
    return found.behind, found.dead, found.failing


def delivery(number: int, key: str = "k", replay: bool = False) -> Delivery:
    at = datetime(2026, 1, 5, 12, tzinfo=UTC)
    meta = {"schedule": "etl", "run_id": "r-1", "due_at": "2026-01-05T12:00:00Z"}
    event = Event(f"e{number}", "default", "orders", "due", key, {"n": number}, meta, at, number)
    return Delivery(event, 0, replay)
