"""Requests repeated with their key: done once, with the same response; and joined transactions."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.book.idempotency import IdempotencyKey, perform_once
from duebook.errors import Conflict, Invalid, KeyReused, NotFound, Unavailable
from duebook.store.joined import JoinedStore
from tests.support.builders import MINUTE, SECOND, VirtualClock, add_schedule, get_schedule
from tests.support.retention import purge_all
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store, Tx
    from tests.support.backends import Backend

DAY = timedelta(hours=24)
ONCE = IdempotencyKey("token POST /schedules", "order-17", "a body")


def make(name: str) -> Callable[[Store], dict[str, Any]]:
    def work(store: Store) -> dict[str, Any]:
        schedule = Book(store).schedules.create(name, trigger={"every": "1h"}, target="report")
        return {"status": 201, "id": schedule.id}

    return work


def names(store: Store) -> list[str]:
    return [schedule.name for schedule in Book(store).schedules.list()]


def test_a_repeated_request_is_done_once_and_answered_alike(store: Store) -> None:
    first, again = perform_once(store, ONCE, make("a")), perform_once(store, ONCE, make("b"))
    assert first == (again[0], False)
    assert again[1]
    assert names(store) == ["a"]


def test_a_key_that_comes_with_another_request_is_refused(store: Store) -> None:
    perform_once(store, ONCE, make("a"))
    with pytest.raises(KeyReused, match='key "order-17" came with another request') as caught:
        perform_once(store, IdempotencyKey(ONCE.scope, ONCE.key, "another"), make("b"))
    assert caught.value.code == "key_reused"
    assert isinstance(caught.value, Conflict)
    assert names(store) == ["a"]


def test_a_key_counts_in_its_scope_only(store: Store) -> None:
    perform_once(store, ONCE, make("a"))
    assert not perform_once(store, IdempotencyKey("other", ONCE.key, "another"), make("b"))[1]
    assert names(store) == ["a", "b"]


def test_a_request_that_failed_leaves_nothing_not_even_its_key(
    store: Store, backend: Backend
) -> None:
    def fail(joined: Store) -> dict[str, Any]:
        make("a")(joined)
        raise Conflict("no")

    with pytest.raises(Conflict):
        perform_once(store, ONCE, fail)
    assert backend.rows("SELECT count(*) FROM idempotency_keys") == [(0,)]
    assert names(store) == []
    other = IdempotencyKey(ONCE.scope, ONCE.key, "another body")
    assert not perform_once(store, other, make("b"))[1]


def test_a_key_is_free_again_after_a_day_whether_it_was_purged_or_not(
    store: Store, clock: VirtualClock
) -> None:
    perform_once(store, ONCE, make("a"))
    clock.advance(DAY - SECOND)
    assert perform_once(store, ONCE, make("b"))[1]
    clock.advance(SECOND)
    other = IdempotencyKey(ONCE.scope, ONCE.key, "another")
    assert not perform_once(store, other, make("c"))[1]
    assert perform_once(store, other, make("d"))[1]
    assert names(store) == ["a", "c"]


def test_answers_are_purged_after_a_day_in_small_batches(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    for number in range(5):
        perform_once(store, IdempotencyKey("s", f"k{number}", ""), lambda _: {})
        clock.advance(SECOND)
    assert store.transact(lambda tx: purge_all(tx, clock.now - 90 * DAY, 2).number) == 0
    clock.advance(DAY - 2 * SECOND)
    assert store.transact(lambda tx: purge_all(tx, clock.now - 90 * DAY, 2).number) == 2
    assert store.transact(lambda tx: purge_all(tx, clock.now - 90 * DAY, 2).number) == 2
    assert store.transact(lambda tx: purge_all(tx, clock.now - 90 * DAY, 2).number) == 0
    assert backend.rows("SELECT key FROM idempotency_keys") == [("k4",)]


@pytest.mark.parametrize(("point", "repeated"), [("before", False), ("after", True)])
def test_a_request_whose_commit_nobody_heard_of_is_repeated_without_harm(
    backend: Backend, point: str, repeated: bool
) -> None:
    lost = [f"{point}:COMMIT"]

    def hook(name: str) -> None:
        if name in lost:
            lost.clear()
            raise Unavailable("the answer was lost")

    backend.open()
    store = backend.open(hook)
    with pytest.raises(Unavailable):
        perform_once(store, ONCE, make("a"))
    answer, again = perform_once(store, ONCE, make("a"))
    assert again == repeated
    (made,) = Book(store).schedules.list()
    assert answer["id"] == made.id


@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 256, "a\n", "\0"])
def test_a_wrong_key_is_refused(key: str) -> None:
    with pytest.raises(Invalid, match="is not a string of 1 to 255 visible ASCII characters"):
        IdempotencyKey("s", key, "")


def test_the_same_key_under_way_elsewhere_is_waited_for(backend: Backend) -> None:
    """The second request gets the response of the first, which is not there yet when it asks."""
    began, goes_on = threading.Event(), threading.Event()
    got: list[tuple[dict[str, Any], bool]] = []

    def slow(joined: Store) -> dict[str, Any]:
        began.set()
        goes_on.wait(PATIENCE)
        return make("a")(joined)

    def second() -> None:
        got.append(perform_once(backend.open(), ONCE, make("b")))

    first = threading.Thread(target=lambda: got.append(perform_once(backend.open(), ONCE, slow)))
    other = threading.Thread(target=second)
    first.start()
    assert began.wait(PATIENCE)
    other.start()
    goes_on.set()
    for thread in (first, other):
        thread.join(PATIENCE)
    assert sorted(repeated for _, repeated in got) == [False, True]
    assert got[0][0] == got[1][0]
    assert names(backend.open()) == ["a"]


def test_who_waited_for_a_request_that_failed_does_it(backend: Backend) -> None:
    began, asked = threading.Event(), threading.Event()
    got: list[tuple[dict[str, Any], bool]] = []

    def fails(_: Store) -> dict[str, Any]:
        began.set()
        asked.wait(PATIENCE)
        raise Conflict("no")

    def first() -> None:
        with pytest.raises(Conflict):
            perform_once(backend.open(), ONCE, fails)

    def second() -> None:
        asked.set()  # SQLite lets no other writer in meanwhile
        got.append(perform_once(theirs, ONCE, make("b")))

    theirs = backend.open()
    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert began.wait(PATIENCE)
    threads[1].start()
    eventually(lambda: got)
    for thread in threads:
        thread.join(PATIENCE)
    assert [repeated for _, repeated in got] == [False]
    assert names(backend.open()) == ["b"]


# -- a store inside a transaction


def test_use_cases_in_a_joined_store_are_one_transaction(store: Store) -> None:
    def work(tx: Tx) -> None:
        book = Book(JoinedStore(tx))
        book.schedules.create("a", trigger={"every": "1h"}, target="report")
        assert book.schedules.get("a").status == "active", "it sees what it wrote"
        book.schedules.pause("a")
        raise Conflict("no")

    with pytest.raises(Conflict):
        store.transact(work)
    assert names(store) == []


def test_a_use_case_that_fails_in_a_joined_store_is_undone_alone(
    store: Store, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store, "a")
    clock.advance(MINUTE)

    def broken(tx: Tx) -> None:
        Book(JoinedStore(tx)).schedules.update("a", queue="wrong")
        tx.plans.snapshot(schedule_id)
        raise Conflict("no")

    def work(tx: Tx) -> None:
        joined = JoinedStore(tx)
        book = Book(joined)
        book.schedules.create("b", trigger={"every": "1h"}, target="report")
        with pytest.raises(Conflict):
            joined.transact(broken)
        with pytest.raises(Conflict, match="already exists"):
            book.schedules.create("b", trigger={"every": "1h"}, target="report")
        with pytest.raises(NotFound):
            book.schedules.get("nobody")
        book.schedules.update("a", queue="right")

    store.transact(work)
    assert names(store) == ["a", "b"]
    spec = get_schedule(store, schedule_id).spec
    assert spec is not None
    assert spec.queue == "right"
    snapshot = store.transact(lambda tx: tx.plans.snapshot(schedule_id))
    assert (snapshot.version, snapshot.spec.queue) == (2, "right"), "not what was undone"


def test_a_joined_store_joins_nobody_else_and_closes_nothing(store: Store) -> None:
    def work(tx: Tx) -> None:
        joined = JoinedStore(tx)
        with pytest.raises(Invalid, match="a transaction is already open"):
            joined.join(object())
        with pytest.raises(Invalid, match="no"):
            joined.news(0)
        assert joined.look_for_work(["default"], ()).places == ()
        joined.close()

    store.transact(work)
    assert names(store) == []
