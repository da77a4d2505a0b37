"""Programs that read the log as members of a group: a loop, a function, their own transactions."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from duebook.delivery.courier import Courier
from duebook.delivery.handling import HandlerOutlet, TransactionCourier
from duebook.errors import Conflict, Invalid
from tests.support.builders import MINUTE
from tests.support.event_builders import append, stamp
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duebook.book import Book
    from duebook.book.consuming import Received
    from duebook.model.consumer import Consumer
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock


@pytest.fixture
def connection(backend: Any) -> Iterator[Any]:
    """A program's own connection, with a table of its own."""
    if hasattr(backend, "path"):
        made: Any = sqlite3.connect(backend.path)
    else:
        made = psycopg.connect(backend.url)
    with closing(made):
        made.execute("CREATE TABLE bills (id TEXT)")
        made.commit()
        yield made


def bills(connection: Any) -> list[str]:
    found = [row[0] for row in connection.execute("SELECT id FROM bills ORDER BY id").fetchall()]
    connection.rollback()
    return found


def bury(book: Book, store: Store, *keys: str) -> list[str]:
    ids = append(store, *keys)
    for _ in loop(book, attempts=1):
        break
    assert [letter.event.id for letter in book.events.dead_letters("billing")] == ids
    return ids


def loop(book: Book, **more: Any) -> Iterator[Received]:
    stamp(book.store)
    return book.events.consume("t", group="billing", follow=False, **more)


def test_a_loop_gets_each_event_once_and_goes_on_where_it_was(book: Book, store: Store) -> None:
    ids = append(store, *"abcabc")
    assert [event.id for event in loop(book, batch=2)] == ids
    assert list(loop(book)) == []
    ids = append(store, "d")
    assert [(event.id, event.replay) for event in loop(book)] == [(ids[0], False)]


def test_an_event_whose_loop_was_left_comes_again_and_at_last_is_a_dead_letter(
    book: Book, store: Store, clock: VirtualClock
) -> None:
    first, second = append(store, "a", "a")
    for attempt in range(3):
        for event in loop(book, attempts=3):
            if event.id == second:
                break
            assert (event.id, attempt) == (first, 0)
        clock.advance(MINUTE)
    assert list(loop(book, attempts=3)) == []
    (letter,) = book.events.dead_letters("billing")
    assert letter.event.id == second


def test_a_loop_that_is_left_after_done_has_done_its_event(book: Book, store: Store) -> None:
    ids = append(store, "a", "a")
    for event in loop(book):
        event.done()
        break
    assert [event.id for event in loop(book)] == ids[1:]


def test_an_event_counts_once_with_what_its_transaction_writes(
    book: Book, store: Store, connection: Any
) -> None:
    ids = append(store, *"abc")
    for event in loop(book):
        connection.execute(f"INSERT INTO bills VALUES ('{event.id}')")  # noqa: S608
        event.settle_in(connection)
        connection.commit()
    assert bills(connection) == sorted(ids)
    assert list(loop(book)) == []


def test_an_event_that_waited_counts_once_with_what_its_transaction_writes(
    book: Book, store: Store, connection: Any, clock: VirtualClock
) -> None:
    bad, other, behind = append(store, "bad", "other", "bad")
    for event in loop(book):
        assert event.id == bad
        break
    for event in loop(book):
        assert event.id == other
    clock.advance(MINUTE)
    events = loop(book)
    event = next(events)
    connection.execute("INSERT INTO bills VALUES ('x')")
    event.settle_in(connection)
    connection.rollback()
    with pytest.raises(Conflict, match="not committed"):
        next(events)
    clock.advance(MINUTE)
    for event in loop(book):
        connection.execute(f"INSERT INTO bills VALUES ('{event.id}')")  # noqa: S608
        event.settle_in(connection)
        connection.commit()
        if event.id == behind:
            break
    assert bills(connection) == sorted([bad, behind])
    clock.advance(MINUTE)
    assert list(loop(book)) == []


def test_an_event_that_its_transaction_settled_stays_settled_when_the_loop_is_left(
    book: Book, store: Store, connection: Any, clock: VirtualClock
) -> None:
    append(store, "a")
    for event in loop(book):
        event.settle_in(connection)
        connection.commit()
        break
    clock.advance(MINUTE)
    assert list(loop(book)) == []


def test_a_transaction_that_is_not_committed_has_done_nothing(
    book: Book, store: Store, connection: Any, clock: VirtualClock
) -> None:
    ids = append(store, "a")
    events = loop(book)
    event = next(events)
    connection.execute("INSERT INTO bills VALUES ('x')")
    event.settle_in(connection)
    connection.rollback()
    with pytest.raises(Conflict, match="not committed"):
        next(events)
    assert bills(connection) == []
    clock.advance(MINUTE)
    assert [again.id for again in loop(book)] == ids


def test_a_member_that_lost_its_partition_settles_nothing(
    book: Book, store: Store, connection: Any, clock: VirtualClock
) -> None:
    append(store, "a")
    events = loop(book)
    event = next(events)
    clock.advance(10 * MINUTE)
    assert len(list(loop(book))) == 1, "another member has it by now"
    connection.execute("INSERT INTO bills VALUES ('x')")
    with pytest.raises(Conflict, match="another member"):
        event.settle_in(connection)
    connection.rollback()
    assert bills(connection) == []


def test_a_dead_letter_counts_once_though_two_members_have_it(
    book: Book, store: Store, connection: Any, clock: VirtualClock
) -> None:
    ids = bury(book, store, "a")
    book.events.replay_dead("billing")
    events = loop(book)
    event = next(events)
    clock.advance(10 * MINUTE)
    assert [again.id for again in loop(book)] == ids, "another member has it by now"
    connection.execute("INSERT INTO bills VALUES ('x')")
    with pytest.raises(Conflict, match="another member"):
        event.settle_in(connection)
    connection.rollback()
    assert bills(connection) == []


def test_a_dead_letter_stays_one_when_its_transaction_is_not_committed(
    book: Book, store: Store, connection: Any
) -> None:
    bury(book, store, "a")
    book.events.replay_dead("billing")
    events = loop(book)
    next(events).settle_in(connection)
    connection.rollback()
    with pytest.raises(Conflict, match="not committed"):
        next(events)
    assert len(book.events.dead_letters("billing")) == 1


def test_a_function_undoes_what_it_wrote_for_a_dead_letter_that_another_settled(
    book: Book, store: Store, connection: Any
) -> None:
    if not store.sequences:
        return
    bury(book, store, "a")
    book.events.replay_dead("billing")
    group = store.read(lambda tx: tx.consumers.get_consumer("default", "billing"))

    def bill(event: Any, own: Any) -> None:
        own.execute("INSERT INTO bills VALUES ('x')")
        book.events.drop_dead("billing", event.id)

    with closing(TransactionCourier(store, group, function=bill)) as member:
        member.step()
    assert bills(connection) == []


def test_an_event_is_published_if_and_only_if_the_transaction_commits(
    book: Book, store: Store, connection: Any
) -> None:
    connection.execute("INSERT INTO bills VALUES ('x')")
    book.events.publish("t", 1, connection=connection)
    connection.rollback()
    assert list(loop(book)) == []
    connection.execute("INSERT INTO bills VALUES ('x')")
    id_ = book.events.publish("t", 1, connection=connection)
    assert store.read(lambda tx: tx.events.last_position()) == 0
    connection.commit()
    assert [event.id for event in loop(book)] == [id_]


def test_a_new_group_begins_where_it_is_told(book: Book, store: Store) -> None:
    append(store, *"abc")
    stamp(store)
    assert len(list(book.events.consume("t", "all", follow=False))) == 3
    assert list(book.events.consume("t", "end", start="end", follow=False)) == []
    assert len(list(book.events.consume("t", "one", start=2, follow=False))) == 1
    with pytest.raises(Invalid, match="start"):
        book.events.consume("t", "wrong", start="yesterday")
    with pytest.raises(Invalid, match="group"):
        book.events.consume("t", "NO GROUP")


@pytest.mark.parametrize(
    "wrong",
    [{"batch": 0}, {"batch": -1}, {"batch": "x"}, {"lease": "0s"}, {"topic": 5}, {"topic": []}],
    ids=str,
)
def test_a_loop_that_could_get_nothing_is_refused(book: Book, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=next(iter(wrong))):
        book.events.consume(**{"topic": "t", "group": "billing"} | wrong)
    assert book.events.consumers() == []


def test_functions_get_events_until_they_are_told_to_stop(book: Book, store: Store) -> None:
    got, stop = [], threading.Event()

    @book.events.consumer("t", group="billing")
    def bill(event: Any) -> None:
        got.append(event.id)

    serving = threading.Thread(target=book.events.serve, args=(stop,))
    serving.start()
    ids = append(store, *"abc")
    stamp(store)
    try:
        eventually(lambda: len(got) == 3)
    finally:
        stop.set()
        serving.join()
    assert got == ids


def test_a_function_knows_what_it_gets_again(book: Book, store: Store, backend: Backend) -> None:
    append(store, "a")
    list(loop(book))
    book.events.replay("billing", after=0)
    group = store.read(lambda tx: tx.consumers.get_consumer("default", "billing"))
    got: list[bool] = []
    outlet = HandlerOutlet(lambda event: got.append(event.replay))
    with closing(Courier(store, group, outlet)) as member:
        member.step()
    if store.sequences:
        book.events.replay("billing", after=0)
        both = TransactionCourier(store, group, function=lambda event, _: got.append(event.replay))
        with closing(both) as member:
            member.step()
    append(store, "a")
    stamp(store)
    with closing(Courier(backend.open(), group, outlet)) as member:
        member.step()
    assert got == [True] * (len(got) - 1) + [False]


def test_a_function_that_would_end_its_thread_has_failed(book: Book, store: Store) -> None:
    append(store, "a")
    stamp(store)

    def leave(*_: object) -> None:
        raise SystemExit(3)

    makers: list[Callable[[Consumer], Courier]] = [
        lambda group: Courier(store, group, HandlerOutlet(leave)),
        lambda group: TransactionCourier(store, group, function=leave),
    ]
    for number, make in enumerate(makers if store.sequences else makers[:1]):
        book.events.consume("t", f"group-{number}")
        with closing(make(book.events.consumers()[number])) as member:
            member.step()
        (part,) = [one for one in book.events.partitions(f"group-{number}") if one.failures]
        assert (part.failures, part.error) == (1, "SystemExit: 3")


def test_the_functions_of_a_group_are_for_the_same_topics(book: Book) -> None:
    book.events.consumer("orders", group="billing")(print)
    book.events.consumer("payments", group="book-keeping")(print)
    book.events.consumer(["orders"], group="billing")(print)
    with pytest.raises(Invalid, match='group "billing"'):
        book.events.consumer("payments", group="billing")(print)


def test_what_a_function_writes_counts_once_and_a_failure_undoes_only_its_own(
    book: Book, store: Store, backend: Backend, connection: Any
) -> None:
    stop, calls = threading.Event(), []

    @book.events.consumer("t", group="billing", attempts=1)
    def bill(event: Any, own: Any) -> None:
        calls.append(event.key)
        own.execute(f"INSERT INTO bills VALUES ('{event.key}')")  # noqa: S608
        if event.key == "bad":
            raise ValueError("no such customer")

    append(store, "a", "bad", "b")
    stamp(store)
    if not store.sequences:
        with pytest.raises(Invalid, match="PostgreSQL"):
            book.events.serve(stop)
        return
    serving = threading.Thread(target=book.events.serve, args=(stop,))
    serving.start()
    try:
        eventually(lambda: bills(connection) == ["a", "b"])
        eventually(lambda: len(book.events.dead_letters("billing")) == 1)
    finally:
        stop.set()
        serving.join()
    (letter,) = book.events.dead_letters("billing")
    assert (letter.event.key, letter.error) == ("bad", "ValueError: no such customer")
    assert set(calls) == {"a", "b", "bad"}
    assert backend.rows("SELECT count(*) FROM members") == [(0,)]
