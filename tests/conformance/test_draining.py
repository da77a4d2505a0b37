"""A draining node: it claims nothing more, and no longer counts as a worker."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.book.readiness import look
from duebook.errors import Conflict, NotFound
from duebook.model.node import Drain
from duebook.model.serving import ALL
from tests.support.builders import (
    BEGIN,
    LEASE,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    get_run,
    settle,
)

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.store.base import Store


def test_a_draining_node_claims_nothing_and_settles_what_it_has(store: Store, book: Book) -> None:
    begin(store, lease=LEASE)
    begin(store, "node-2", lease=LEASE)
    first = add_run(store, add_schedule(store, overlap="allow"))
    (claimed,) = claim(store)
    second = add_run(store, add_schedule(store, "other"))
    found = book.nodes.drain("host-of-node-1")
    assert (found.id, found.draining_at, found.stops_when_idle) == ("node-1", BEGIN, False)
    assert claim(store) == []
    assert [one.run.id for one in claim(store, "node-2")] == [second]
    assert settle(store, claimed.token)
    assert get_run(store, first).status == "succeeded"


def test_a_node_hears_of_its_drain_with_its_pulse_and_whether_to_stop(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    begin(store)

    def pulse() -> Drain | None:
        return store.pulse("node-1", LEASE, ["default"], namespaces=ALL).drain

    assert pulse() is None
    book.nodes.drain("node-1", stop=True)
    clock.advance(SECOND)
    assert pulse() == Drain(BEGIN, stops=True)
    book.nodes.drain("node-1")
    assert pulse() == Drain(BEGIN, stops=False), "since it was first asked"
    book.nodes.undrain("node-1")
    assert pulse() is None
    assert store.read(lambda tx: tx.nodes.get_drain("nobody")) is None


def test_a_node_that_drains_and_is_let_go_claims_again(store: Store, book: Book) -> None:
    begin(store)
    add_run(store, add_schedule(store))
    book.nodes.drain("node-1")
    assert claim(store) == []
    assert book.nodes.undrain("node-1").draining_at is None
    assert len(claim(store)) == 1


def test_what_only_draining_nodes_serve_counts_as_unserved(store: Store, book: Book) -> None:
    begin(store, roles="scheduler,worker", tasks=("mail",), queues=("default",))
    book.enqueue("mail")
    assert look(store).ready
    book.nodes.drain("node-1")
    problems = [problem.message for problem in look(store).problems]
    assert problems == [
        'runs are waiting in queue "default", which no live worker serves; start one: duebook up',
        'runs are waiting for task "mail", which no live worker knows',
    ]
    assert store.read(lambda tx: tx.nodes.list_known_tasks("default")) == set()
    assert store.read(lambda tx: tx.nodes.list_served()) == []
    begin(store, "node-2", roles="worker", tasks=("mail",), queues=("default",))
    assert look(store).ready


def test_a_node_is_named_by_its_name_its_process_or_its_id(store: Store, book: Book) -> None:
    for session_id, pid in (("one", 7), ("two", 8)):
        begin(store, session_id, node="twin", pid=pid)
    with pytest.raises(Conflict, match=r"2 nodes with the name .twin.; use one of twin:7, twin:8"):
        book.nodes.drain("twin")
    assert book.nodes.drain("twin:8").id == "two"
    assert book.nodes.drain("one").pid == 7
    with pytest.raises(NotFound, match=r'"ghost" does not exist; live nodes: twin:7, twin:8'):
        book.nodes.drain("ghost")
    with pytest.raises(NotFound, match="does not exist"):
        book.nodes.undrain("twin:9")


def test_only_a_live_node_is_drained(store: Store, book: Book, clock: VirtualClock) -> None:
    begin(store)
    clock.advance(LEASE)
    with pytest.raises(NotFound, match="no node is running"):
        book.nodes.drain("node-1")


def test_a_drain_that_was_not_asked_for_cannot_be_undone(store: Store, book: Book) -> None:
    begin(store)
    with pytest.raises(Conflict, match="is not draining"):
        book.nodes.undrain("node-1")


def test_who_drained_a_node_is_in_the_audit(store: Store, book: Book) -> None:
    begin(store)
    book.nodes.drain("node-1", stop=True)
    book.nodes.undrain("node-1")
    found = [(c.action, c.subject, c.after) for c in book.audit.list(kind="node", everywhere=True)]
    assert found == [
        ("undrain", "host-of-node-1", {"draining": False}),
        ("drain", "host-of-node-1", {"draining": True, "stop": True}),
    ]


# -- leases of different lengths


def test_a_node_is_not_buried_by_one_that_has_not_been_at_it_for_as_long_as_its_lease(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, "short", lease=LEASE)
    begin(store, "long", lease=10 * MINUTE)
    clock.advance(timedelta(hours=1))

    def bury(trusted: timedelta) -> list[str]:
        return store.transact(lambda tx: tx.nodes.bury(trusted))

    assert bury(LEASE - SECOND) == []
    assert bury(LEASE) == ["short"]
    assert bury(10 * MINUTE - SECOND) == []
    assert bury(10 * MINUTE) == ["long"]
