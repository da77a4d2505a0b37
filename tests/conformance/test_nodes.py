"""Live nodes: what they report about themselves, what they run, and which one leads."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.book import Book
from duebook.model.codec import encode
from duebook.store.values import SessionInfo
from tests.support.builders import BEGIN, LEASE, SECOND, add_run, add_schedule, begin, claim

if TYPE_CHECKING:
    from duebook.store.base import Store
    from tests.support.builders import VirtualClock


def test_a_node_that_lives_is_listed_with_what_it_does(store: Store, clock: VirtualClock) -> None:
    info = SessionInfo("n1", "alpha", 42, "scheduler,worker", "1.2", "2026a", ("digest", "etl"))
    store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))
    clock.advance(SECOND)
    assert store.transact(lambda tx: tx.nodes.pulse("n1", LEASE, ("default",), True)).term == 1
    add_run(store, add_schedule(store))
    assert len(claim(store, "n1")) == 1
    begin(store, "n2")
    first, second = Book(store).nodes.list()
    assert encode(first) == {
        "id": "n1",
        "node": "alpha",
        "pid": 42,
        "roles": ["scheduler", "worker"],
        "version": "1.2",
        "tzdata": "2026a",
        "tasks": ["digest", "etl"],
        "queues": [],
        "namespaces": ["*"],
        "labels": {},
        "started_at": "2026-01-05T12:00:00Z",
        "seen_at": "2026-01-05T12:00:01Z",
        "expires_at": "2026-01-05T12:00:31Z",
        "clock_ahead": 0.0,
        "running": 1,
        "leads": True,
        "draining_at": None,
        "stops_when_idle": False,
        "secrets": {},
        "unserved": {},
    }
    assert (second.node, second.running, second.leads) == ("host-of-n2", 0, False)


def test_a_node_that_left_or_died_is_not(store: Store, clock: VirtualClock) -> None:
    book = Book(store)
    begin(store, "left")
    begin(store, "dead", lease=SECOND)
    begin(store, "alive", lease=timedelta(hours=1))
    store.transact(lambda tx: tx.nodes.end_session("left"))
    clock.advance(2 * SECOND)
    (node,) = book.nodes.list()
    assert (node.id, node.started_at) == ("alive", BEGIN)
