"""Small builders for tests of alerts: an evaluator on a virtual clock, and the alerts that it
sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.engine.alert_evaluator import AlertEvaluator
from duebook.model.alert import ALERTS
from tests.support.builders import LEASE, add_run, begin, claim, settle
from tests.support.event_builders import stamp

if TYPE_CHECKING:
    from duebook.model.event import Event
    from duebook.store.base import Store
    from tests.support.builders import VirtualClock

HOOK = "https://hooks.example.com/services/marked-secret"


def evaluator(store: Store, clock: VirtualClock, namespace: str = "default") -> AlertEvaluator:
    consumer = store.read(lambda tx: tx.consumers.get_consumer(namespace, ALERTS))

    def monotonic() -> float:
        return clock.now.timestamp()

    return AlertEvaluator(store, consumer, LEASE, monotonic)


def evaluate(one: AlertEvaluator, store: Store) -> float:
    """Step until there is nothing to do; returns the seconds until it wants to look again."""
    stamp(store)
    while (rest := one.step()) == 0:
        pass
    stamp(store)
    return rest


def alerts_told(store: Store, namespace: str = "default") -> list[Event]:
    """The events that channels deliver."""
    return store.read(lambda tx: tx.events.read_events(namespace, 0, 1_000, [ALERTS])).events


def titles(store: Store, namespace: str = "default") -> list[str]:
    return [event.data["title"] for event in alerts_told(store, namespace)]


def end_run(
    store: Store,
    schedule_id: str,
    status: Any = "failed",
    namespace: str = "default",
    **more: Any,
) -> str:
    """A manual run that ends with this status; returns its id."""
    run_id = add_run(store, schedule_id)
    begin(store, f"session-{run_id}")
    (claimed,) = claim(store, f"session-{run_id}", limit=1, namespace=namespace)
    assert settle(store, claimed.token, status, **more)
    return run_id
