"""Keys of enqueued runs: how long a run keeps its key, and calls that find the key in use."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from duebook.book import Book
from duebook.errors import Invalid
from duebook.model.run import Outcome
from tests.support.backends import SqliteBackend
from tests.support.builders import SECOND, VirtualClock, begin, get_run, lose, settle
from tests.support.retention import purge_all
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.run import Claim
    from duebook.store.base import Store
    from tests.support.backends import Backend

INDEX: dict[str, Any] = {"key": "index", "unique": "pending"}
FAILED = Outcome("failed", "error", "it broke")


def claim(store: Store, limit: int = 10) -> list[Claim]:
    return store.transact(lambda tx: tx.claims.claim("node-1", "default", limit, ["digest"]))


# ------------------------------------------------------------ how long a key is in use


def test_a_pending_key_is_free_when_a_worker_claims_its_run(book: Book) -> None:
    first = book.enqueue("digest", **INDEX)
    assert book.enqueue("digest", **INDEX).id == first.id
    begin(book.store)
    (claimed,) = claim(book.store)
    second = book.enqueue("digest", **INDEX)
    assert (second.id != first.id, second.result) == (True, "created")
    settle(book.store, claimed.token)
    assert book.enqueue("digest", **INDEX).id == second.id


def test_a_buffered_run_has_given_up_its_pending_key(book: Book) -> None:
    first = book.enqueue("digest", **INDEX)
    begin(book.store)
    ((buffered,), _) = book.store.transact(
        lambda tx: tx.claims.claim_ahead("node-1", "default", 0, 1, ["digest"], "default", ())
    )
    assert buffered.run.started_at is None
    second = book.enqueue("digest", **INDEX)
    assert second.id != first.id


@pytest.mark.parametrize("how", ["handed back", "buffered and handed back", "lost", "retried"])
def test_a_requeued_run_does_not_take_its_pending_key_back(book: Book, how: str) -> None:
    store = book.store
    first = book.enqueue("digest", **INDEX, retry=3)
    begin(store)
    ahead = (0, 1) if how.startswith("buffered") else (1, 0)
    ((claimed,), _) = store.transact(
        lambda tx: tx.claims.claim_ahead("node-1", "default", *ahead, ["digest"], "default", ())
    )
    if how.endswith("handed back"):
        assert store.transact(lambda tx: tx.attempts.hand_back_all([claimed.token]))
    elif how == "lost":
        assert lose(store, "node-1") == 1
    else:
        store.transact(lambda tx: tx.attempts.settle(claimed.token, FAILED, 5 * SECOND))
    assert get_run(store, first.id).status == "queued"
    second = book.enqueue("digest", **INDEX)
    assert second.id != first.id
    assert book.enqueue("digest", **INDEX).id == second.id


def test_a_pending_run_that_is_cancelled_or_expires_frees_its_key(
    book: Book, clock: VirtualClock
) -> None:
    first = book.enqueue("digest", **INDEX)
    book.runs.cancel(first.id)
    second = book.enqueue("digest", **INDEX, expire_after="1m")
    assert second.id != first.id
    clock.advance(timedelta(minutes=2))
    book.store.transact(lambda tx: tx.attempts.expire(10))
    assert book.enqueue("digest", **INDEX).result == "created"


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_an_active_key_is_free_when_its_run_has_ended(book: Book, status: Any) -> None:
    how: dict[str, Any] = {"key": "sync", "unique": "active"}
    first = book.enqueue("digest", **how)
    begin(book.store)
    (claimed,) = claim(book.store)
    assert book.enqueue("digest", **how).id == first.id, "it runs"
    settle(book.store, claimed.token, status)
    assert book.enqueue("digest", **how).id != first.id


def test_an_active_key_is_taken_while_its_run_waits_for_its_retry(book: Book) -> None:
    how: dict[str, Any] = {"key": "sync", "unique": "active"}
    first = book.enqueue("digest", **how, retry=3)
    begin(book.store)
    (claimed,) = claim(book.store)
    book.store.transact(lambda tx: tx.attempts.settle(claimed.token, FAILED, 5 * SECOND))
    assert book.enqueue("digest", **how).id == first.id


def test_a_run_that_is_retried_by_hand_has_its_active_key_again_unless_another_has_it(
    book: Book,
) -> None:
    how: dict[str, Any] = {"key": "sync", "unique": "active"}
    begin(book.store)
    first = book.enqueue("digest", **how)
    settle(book.store, claim(book.store)[0].token, "failed")
    book.runs.retry(first.id)
    assert book.enqueue("digest", **how).id == first.id
    settle(book.store, claim(book.store)[0].token, "failed")
    second = book.enqueue("digest", **how)
    book.runs.retry(first.id)
    assert book.enqueue("digest", **how).id == second.id


def test_a_key_with_a_length_is_free_that_long_after_its_run_was_created(
    book: Book, clock: VirtualClock
) -> None:
    how: dict[str, Any] = {"key": "mail", "unique": "1h"}
    first = book.enqueue("digest", **how)
    begin(book.store)
    settle(book.store, claim(book.store)[0].token)
    clock.advance(timedelta(minutes=59, seconds=59))
    assert book.enqueue("digest", **how).id == first.id
    clock.advance(SECOND)
    second = book.enqueue("digest", **how)
    assert second.id != first.id
    assert book.enqueue("digest", **how).id == second.id


def test_a_key_is_kept_for_ever_by_default(book: Book, clock: VirtualClock) -> None:
    first = book.enqueue("digest", key="order-17")
    begin(book.store)
    settle(book.store, claim(book.store)[0].token)
    clock.advance(timedelta(days=30))
    assert book.enqueue("digest", key="order-17").id == first.id
    assert book.enqueue("digest", key="order-17", unique="pending").id == first.id, (
        "the run that has the key has said until when"
    )


def test_a_key_belongs_to_a_task_of_a_namespace(book: Book) -> None:
    elsewhere = Book(book.store, "elsewhere")
    made = [
        book.enqueue("digest", key="order-17"),
        book.enqueue("cleanup", key="order-17"),
        elsewhere.enqueue("digest", key="order-17"),
    ]
    assert len({run.id for run in made}) == 3
    assert [run.result for run in made] == ["created"] * 3


def test_the_key_of_a_run_that_is_deleted_is_free(book: Book, clock: VirtualClock) -> None:
    first = book.enqueue("digest", key="order-17")
    begin(book.store)
    settle(book.store, claim(book.store)[0].token)
    clock.advance(timedelta(days=100))
    before = clock.now - timedelta(days=90)
    book.store.transact(lambda tx: purge_all(tx, before, 100))
    assert book.enqueue("digest", key="order-17").id != first.id


def test_the_key_stays_with_its_run_when_the_one_before_is_deleted(
    book: Book, clock: VirtualClock
) -> None:
    book.enqueue("digest", **INDEX)
    begin(book.store)
    settle(book.store, claim(book.store)[0].token)
    clock.advance(timedelta(days=100))
    second = book.enqueue("digest", **INDEX)
    before = clock.now - timedelta(days=90)
    book.store.transact(lambda tx: purge_all(tx, before, 100))
    assert book.enqueue("digest", **INDEX).id == second.id


# ------------------------------------------------------------ what calls return


def test_what_meets_a_taken_key_with_another_payload_is_told(book: Book) -> None:
    first = book.enqueue("digest", {"n": 1}, key="order-17")
    same = book.enqueue("digest", {"n": 1}, key="order-17")
    other = book.enqueue("digest", {"n": 2}, key="order-17")
    assert [run.result for run in (first, same, other)] == [
        "created", "existing", "payload_ignored",
    ]  # fmt: skip
    assert [run.is_new for run in (first, same, other)] == [True, False, False]
    assert other.payload == {"n": 1}
    assert other == same == book.runs.get(first.id), "it equals the run"


# ------------------------------------------------------------ debounce


def test_the_newest_payload_of_a_debounced_run_wins(book: Book, clock: VirtualClock) -> None:
    how: dict[str, Any] = {"key": "page-3", "debounce": "5s"}
    first = book.enqueue("digest", {"n": 1}, **how)
    assert first.ready_at == clock.now + 5 * SECOND
    clock.advance(3 * SECOND)
    second = book.enqueue("digest", {"n": 2}, **how)
    assert (second.id, second.result, second.payload) == (first.id, "payload_replaced", {"n": 2})
    assert second.ready_at == clock.now + 5 * SECOND
    clock.advance(3 * SECOND)
    again = book.enqueue("digest", {"n": 2}, **how)
    assert (again.result, again.ready_at) == ("existing", clock.now + 5 * SECOND)
    begin(book.store)
    assert claim(book.store) == []
    clock.advance(5 * SECOND)
    (claimed,) = claim(book.store)
    assert claimed.run.payload == {"n": 2}


def test_a_debounced_run_waits_no_longer_than_its_longest_wait(
    book: Book, clock: VirtualClock
) -> None:
    how: dict[str, Any] = {"key": "page-3", "debounce": "5s", "max_wait": "12s"}
    first = book.enqueue("digest", {"n": 0}, **how)
    ready = []
    for number in range(1, 5):
        clock.advance(4 * SECOND)
        ready.append(book.enqueue("digest", {"n": number}, **how).ready_at - first.created_at)
    assert ready == [9 * SECOND, 12 * SECOND, 12 * SECOND, 12 * SECOND]
    begin(book.store)
    (claimed,) = claim(book.store)
    assert claimed.run.payload == {"n": 4}, "it was late, and still got the newest"


def test_debounce_waits_ten_times_its_length_by_default(book: Book, clock: VirtualClock) -> None:
    first = book.enqueue("digest", key="page-3", debounce="5s")
    for _ in range(13):
        clock.advance(4 * SECOND)
        last = book.enqueue("digest", key="page-3", debounce="5s")
    assert last.ready_at - first.created_at == 50 * SECOND


def test_debounce_changes_no_run_that_has_started(book: Book, clock: VirtualClock) -> None:
    how: dict[str, Any] = {"key": "page-3", "debounce": "5s"}
    first = book.enqueue("digest", {"n": 1}, **how)
    begin(book.store)
    clock.advance(5 * SECOND)
    (claimed,) = claim(book.store)
    second = book.enqueue("digest", {"n": 2}, **how)
    assert (second.id != first.id, second.ready_at) == (True, clock.now + 5 * SECOND)
    book.store.transact(lambda tx: tx.attempts.hand_back_all([claimed.token]))
    third = book.enqueue("digest", {"n": 3}, **how)
    assert third.id == second.id
    assert get_run(book.store, first.id).payload == {"n": 1}


def test_when_a_debounced_run_expires_moves_along(book: Book, clock: VirtualClock) -> None:
    how: dict[str, Any] = {"key": "page-3", "debounce": "5s", "expire_after": "1m"}
    book.enqueue("digest", **how)
    clock.advance(3 * SECOND)
    again = book.enqueue("digest", **how)
    assert again.expires_at == clock.now + 65 * SECOND


def test_debounce_leaves_a_key_alone_that_a_started_run_keeps(book: Book) -> None:
    first = book.enqueue("digest", {"n": 1}, key="order-17")
    begin(book.store)
    claim(book.store)
    second = book.enqueue("digest", {"n": 2}, key="order-17", debounce="5s")
    assert (second.id, second.result) == (first.id, "payload_ignored")


# ------------------------------------------------------------ throttle


def test_throttled_runs_start_at_most_once_in_that_time(book: Book, clock: VirtualClock) -> None:
    how: dict[str, Any] = {"key": "feed", "throttle": "1m"}
    first = book.enqueue("digest", {"n": 1}, **how)
    assert first.ready_at == clock.now, "the first starts at once"
    assert book.enqueue("digest", {"n": 2}, **how).result == "payload_replaced"
    clock.advance(10 * SECOND)
    begin(book.store, lease=timedelta(days=1))
    (claimed,) = claim(book.store)
    assert claimed.run.payload == {"n": 2}
    settle(book.store, claimed.token)
    clock.advance(10 * SECOND)
    second = book.enqueue("digest", {"n": 3}, **how)
    assert second.ready_at == clock.now + 50 * SECOND, "a minute after the first one started"
    clock.advance(10 * SECOND)
    third = book.enqueue("digest", {"n": 4}, **how)
    assert (third.id, third.ready_at) == (second.id, second.ready_at)
    clock.advance(40 * SECOND)
    (claimed,) = claim(book.store)
    assert claimed.run.payload == {"n": 4}, "the last call is never lost"
    settle(book.store, claimed.token)
    clock.advance(timedelta(minutes=5))
    assert book.enqueue("digest", {"n": 5}, **how).ready_at == clock.now


def test_a_throttled_run_that_never_started_leaves_its_time_to_the_next(
    book: Book,
) -> None:
    how: dict[str, Any] = {"key": "feed", "throttle": "1m"}
    book.enqueue("digest", **how)
    begin(book.store)
    settle(book.store, claim(book.store)[0].token)
    second = book.enqueue("digest", **how)
    book.runs.cancel(second.id)
    third = book.enqueue("digest", **how)
    assert (third.id != second.id, third.ready_at) == (True, second.ready_at)


# ------------------------------------------------------------ what is rejected


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"unique": "pending"}, "unique needs a key"),
        ({"debounce": "5s"}, "debounce needs a key"),
        ({"key": "k", "unique": "sometimes"}, "is not pending, active, forever or a duration"),
        ({"key": "k", "unique": "0s"}, "is not pending, active, forever or a duration"),
        ({"key": "k", "unique": 5}, "is not pending, active, forever or a duration"),
        ({"key": "k", "debounce": "0s"}, "debounce 0s is too short"),
        ({"key": "k", "debounce": "5s", "throttle": "1m"}, "cannot be combined"),
        ({"key": "k", "debounce": "5s", "unique": "active"}, "leave out unique"),
        ({"key": "k", "throttle": "5s", "unique": "1h"}, "leave out unique"),
        ({"key": "k", "debounce": "5s", "delay": "1m"}, "debounce is the delay"),
        ({"key": "k", "max_wait": "5s"}, "max_wait is for debounce"),
        ({"key": "k", "debounce": "5s", "max_wait": "4s"}, "max_wait 4s is shorter than debounce"),
        ({"key": "k" * 201}, "1 to 200 characters"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(
    book: Book, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(Invalid, match=told):
        book.enqueue("digest", **options)
    assert book.runs.list() == []


# ------------------------------------------------------------ several at once


def at_once(number: int, work: Callable[[int], None]) -> None:
    """Call it in so many threads, all ready before the first one starts."""
    failures: list[BaseException] = []
    gate = threading.Barrier(number)

    def run(place: int) -> None:
        gate.wait(PATIENCE)
        try:
            work(place)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []


@pytest.mark.parametrize(
    "how",
    [{}, {"unique": "pending"}, {"unique": "active"}, {"unique": "1h"}, {"debounce": "5s"}],
    ids=str,
)
def test_of_fifty_calls_at_once_one_creates_a_run(
    backend: Backend, book: Book, how: dict[str, Any]
) -> None:
    stores = [backend.open() for _ in range(2)]
    results: list[tuple[str, str]] = []

    def enqueue(place: int) -> None:
        run = Book(stores[place % 2]).enqueue("digest", {"n": place}, key="order-17", **how)
        results.append((run.id, run.result))

    at_once(50, enqueue)
    assert len({id_ for id_, _ in results}) == 1
    assert [result for _, result in results].count("created") == 1
    assert len(book.runs.list(limit=100)) == 1


def test_of_fifty_calls_at_once_one_takes_a_key_that_became_free(
    backend: Backend, book: Book
) -> None:
    first = book.enqueue("digest", **INDEX)
    begin(book.store)
    claim(book.store)
    stores = [backend.open() for _ in range(2)]
    found: list[str] = []
    at_once(50, lambda place: found.append(Book(stores[place % 2]).enqueue("digest", **INDEX).id))
    assert len(set(found)) == 1
    assert first.id not in found
    assert len(book.runs.list(limit=100)) == 2


def test_calls_that_race_with_claims_never_make_two_pending_runs_and_are_never_lost(
    backend: Backend, book: Book
) -> None:
    """Each call adds to a list before it enqueues; a run that starts takes all that is there."""
    if isinstance(backend, SqliteBackend):
        pytest.skip("one transaction at a time")
    begin(book.store)
    callers, rounds = 4, 25
    todo: list[str] = []
    done: set[str] = set()
    most_pending: list[int] = []
    calling = threading.Semaphore(0)

    def call(place: int) -> None:
        mine = Book(backend.open())
        try:
            for number in range(rounds):
                todo.append(f"{place}.{number}")
                mine.enqueue("digest", {"n": number}, **INDEX)
        finally:
            calling.release()

    def work() -> None:
        store, left = backend.open(), callers
        while left or Book(store).runs.list(status="queued"):
            if left and calling.acquire(blocking=False):
                left -= 1
            most_pending.append(len(Book(store).runs.list(status="queued")))
            for claimed in claim(store):
                done.update(list(todo))
                settle(store, claimed.token)

    def role(place: int) -> None:
        work() if place == callers else call(place)

    at_once(callers + 1, role)
    assert max(most_pending) <= 1
    assert set(todo) == done, "every call was followed by the start of a run"


def connected(backend: Backend) -> Any:
    """The caller's own connection, closed at the end of a `with`."""
    if isinstance(backend, SqliteBackend):
        connection = sqlite3.connect(backend.path)
        connection.execute("BEGIN IMMEDIATE")
        return closing(connection)
    return psycopg.connect(backend.url)  # type: ignore[attr-defined]


def test_a_run_that_a_caller_joined_does_not_start_before_the_caller_commits(
    backend: Backend, book: Book
) -> None:
    if isinstance(backend, SqliteBackend):
        pytest.skip("one transaction at a time")
    first = book.enqueue("digest", {"n": 1}, **INDEX)
    begin(book.store)
    with connected(backend) as connection:
        joined = book.enqueue("digest", {"n": 1}, **INDEX, connection=connection)
        assert joined.id == first.id
        assert claim(book.store) == [], "what the caller wrote is not there yet"
        connection.commit()
    assert [claimed.run.id for claimed in claim(book.store)] == [first.id]


def test_what_a_caller_rolls_back_leaves_the_key_as_it_was(backend: Backend, book: Book) -> None:
    first = book.enqueue("digest", {"n": 1}, key="page-3", debounce="5s")
    with connected(backend) as connection:
        again = book.enqueue("digest", {"n": 2}, key="page-3", debounce="5s", connection=connection)
        assert (again.id, again.result) == (first.id, "payload_replaced")
        connection.rollback()
    assert book.runs.get(first.id).payload == {"n": 1}
