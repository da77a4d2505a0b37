"""The log one page at a time, bounded in positions and bytes; changes to its consumers are in the
audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book, event_log, listeners
from duebook.delivery.courier import Courier
from duebook.errors import Conflict, DuebookError, Invalid, NotFound
from duebook.model.codec import encode
from duebook.model.consumer import Delivery, Report
from duebook.model.listing import BadCursor, write_cursor
from duebook.store.sql import consumers
from duebook.store.sql import events as sql_events
from tests.support.retention import purge_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.change import Change
    from duebook.model.event import Event
    from duebook.store.base import Store

pytestmark = pytest.mark.book_as(by="token:ci")

SECRET = "hunter2-not-to-be-shown"  # noqa: S105
HOOK = "https://example.com/hooks"


def publish(book: Book, *numbers: int, topic: str = "t", **more: Any) -> None:
    for number in numbers:
        book.events.publish(topic, {"n": number}, **more)
    book.store.transact(lambda tx: tx.events.stamp_events(10_000))


def numbers(events: Sequence[Event]) -> list[int]:
    return [event.data["n"] for event in events]


def pages(book: Book, **asked: Any) -> list[list[int]]:
    """Every page of a query."""
    found, cursor = [], None
    while True:
        page = book.events.page(cursor=cursor, **asked)
        found.append(numbers(page))
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_the_log_is_read_page_by_page_in_both_directions(book: Book) -> None:
    publish(book, *range(7))
    assert pages(book, limit=3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert pages(book, limit=3, newest=True) == [[6, 5, 4], [3, 2, 1], [0]]
    third = book.events.list()[2].position
    assert pages(book, after=third, limit=3) == [[3, 4, 5], [6]]
    assert pages(book, after=third, limit=3, newest=True) == [[6, 5, 4], [3]]
    assert numbers(book.events.latest(limit=2)) == [5, 6]


def test_type_and_key_choose_among_events(book: Book) -> None:
    publish(book, 1, 2, key="a", type="made")
    publish(book, 3, key="b", type="made")
    publish(book, 4, key="a", type="changed", topic="other")
    assert numbers(book.events.list(type="made")) == [1, 2, 3]
    assert numbers(book.events.list(key="a")) == [1, 2, 4]
    assert numbers(book.events.list("t", key="a", type="made")) == [1, 2]
    assert numbers(book.events.latest(key="a", limit=2)) == [2, 4]
    following = book.events.tail(after=0, key="b", pause=lambda _: None)
    assert next(following).data == {"n": 3}


def test_a_page_of_a_rare_topic_looks_at_a_part_of_the_log(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_events, "WINDOW", 2)
    monkeypatch.setattr(event_log, "LOOKS", 2)
    publish(book, *range(9))
    publish(book, 9, topic="rare")
    page = book.events.page("rare")
    assert (numbers(page), page.position) == ([], 4)
    assert page.next_cursor is not None
    assert pages(book, topic="rare") == [[], [], [9]]
    assert numbers(book.events.list("rare")) == [9]
    assert numbers(book.events.latest("rare")) == [9]
    monkeypatch.setattr(event_log, "MOST_LOOKED_AT", 4)
    assert [use.topic for use in book.events.topics()] == ["rare", "t"]
    assert [use.events for use in book.events.topics()] == [1, 3]


def test_one_look_takes_a_bounded_number_of_bytes(
    book: Book, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_events, "MOST_BYTES", 2_500)
    monkeypatch.setattr(event_log, "ENOUGH", 2_500)
    for number in range(7):
        book.events.publish("t", {"n": number, "text": "é" * 500})
    publish(book, 7)
    assert pages(book) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert pages(book, newest=True) == [[7, 6, 5, 4], [3, 2, 1], [0]]
    assert numbers(book.events.latest(limit=8)) == list(range(8))
    assert numbers(book.events.list()) == list(range(8))
    batches: list[list[int]] = []

    class Outlet:
        def deliver(self, deliveries: Sequence[Delivery]) -> Report:
            batches.append(numbers([delivery.event for delivery in deliveries]))
            return Report()

    book.events.add_sink("hooks", "webhook", url=HOOK, start="beginning", partitions=1)
    (sink,) = book.events.sinks()
    courier = Courier(store, sink, Outlet())
    while courier.step() == 0.0:
        pass
    assert batches == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_large_events_of_other_topics_do_not_count(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_events, "MOST_BYTES", 100)
    book.events.publish("large", "x" * 500)
    publish(book, 1, 2)
    assert pages(book, topic="t") == [[1, 2]]


def test_a_cursor_is_for_its_own_question(book: Book) -> None:
    publish(book, *range(3))
    cursor = book.events.page(limit=1).next_cursor
    for asked in ({"topic": "t"}, {"key": "a"}, {"newest": True}, {"after": 1}):
        with pytest.raises(BadCursor):
            book.events.page(cursor=cursor, **asked)
    with pytest.raises(BadCursor):
        Book(book.store, "elsewhere").events.page(cursor=cursor)
    question = ["events", "default", None, None, None, False, None, None]
    key = book.store.cursor_key()
    assert numbers(book.events.page(cursor=write_cursor(key, question, (1,)))) == [1, 2]
    for odd in ((2**70,), (1, 2), ("x",), ()):
        with pytest.raises(BadCursor):
            book.events.page(cursor=write_cursor(key, question, odd))
    with pytest.raises(BadCursor):
        book.events.page(cursor=write_cursor(bytes(32), question, (1,)))


@pytest.mark.parametrize(
    "asked",
    [
        {"topic": "no topic"},
        {"topic": ""},
        {"topic": "x" * 250},
        {"topic": "t'; DROP TABLE events; --"},
        {"type": "a b"},
        {"key": "x" * 501},
        {"key": "\0"},
        {"after": -1},
        {"after": 2**63},
        {"after": True},
        {"since": "yesterday"},
        {"after": 1, "since": "2026-01-01T00:00:00Z"},
        {"limit": 0},
        {"limit": 10_001},
    ],
    ids=str,
)
def test_what_is_no_question_is_refused(book: Book, asked: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        book.events.page(**asked)


def test_a_position_beyond_the_end_of_the_log_waits_for_it(book: Book) -> None:
    publish(book, 1)
    page = book.events.page(after=100)
    assert (list(page), page.next_cursor, page.position) == ([], None, 100)


# -- dead letters


def bury(book: Book, count: int, name: str = "billing", **data: Any) -> list[str]:
    """Create dead letters of a group; return the ids of the events."""
    for number in range(count):
        book.events.publish("t", {"n": number, **data})
    book.store.transact(lambda tx: tx.events.stamp_events(1_000))

    class Outlet:
        def deliver(self, deliveries: Sequence[Delivery]) -> Report:
            return Report({d.event.id: f"no: {d.event.data}" for d in deliveries})

    consume = book.events.consume("t", name, attempts=1, partitions=1, follow=False)
    consume.close()  # type: ignore[attr-defined]
    (consumer,) = [one for one in book.events.consumers() if one.name == name]
    courier = Courier(book.store, consumer, Outlet())
    for _ in range(count):
        courier.step()
    courier.close()
    return [letter.event.id for letter in book.events.dead_letters(name)]


def test_dead_letters_are_listed_page_by_page(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = bury(book, 5)
    assert len(ids) == 5

    def read() -> list[list[str]]:
        found, cursor = [], None
        while True:
            page = book.events.dead_letters(limit=2, cursor=cursor)
            found.append([letter.event.id for letter in page])
            cursor = page.next_cursor
            if cursor is None:
                return found

    assert read() == [ids[:2], ids[2:4], ids[4:]]
    monkeypatch.setattr(consumers, "MOST_BYTES", 1)
    assert read() == [[one] for one in ids] + [[]]
    with pytest.raises(NotFound):
        book.events.dead_letters("nobody")
    with pytest.raises(BadCursor):
        book.events.dead_letters(cursor="x")


def test_what_is_secret_in_a_dead_letter_is_shown_to_nobody_and_delivered(book: Book) -> None:
    bury(book, 1, password=SECRET)
    (letter,) = book.events.dead_letters()
    assert letter.event.data["password"] == SECRET
    shown = encode(letter)
    assert SECRET not in str(shown)
    assert shown["event"]["data"]["password"] == "***"  # noqa: S105
    book.events.replay_dead("billing")
    (event,) = book.events.consume("t", "billing", attempts=1, follow=False)
    assert event.data["password"] == SECRET


# -- who did it


def newest(book: Book) -> Change:
    return book.audit.list(limit=1)[0]


def told(book: Book) -> tuple[str, str, str, str, Any, Any]:
    change = newest(book)
    who = (change.by, change.action, change.kind, change.subject)
    return (*who, change.before, change.after)


def test_sinks_that_are_made_changed_and_forgotten_are_put_down(book: Book) -> None:
    sink, secret = book.events.add_sink("hooks", "webhook", url=HOOK)
    assert secret == sink.options["secret"]
    form = {
        "name": "hooks",
        "kind": "webhook",
        "topics": None,
        "partitions": sink.partitions,
        "attempts": 10,
        "options": {"url": HOOK, "secret": "***"},
        "types": None,
        "labels": {},
    }
    assert told(book) == ("token:ci", "create", "sink", "hooks", None, form)
    changed, secret = book.events.add_sink("hooks", "webhook", "orders", url=HOOK)
    assert secret is None
    assert changed.options == sink.options, "the secret stays"
    update = ("token:ci", "update", "sink", "hooks")
    assert told(book) == (*update, {"topics": None}, {"topics": ["orders"]})
    new = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    book.events.add_sink("hooks", "webhook", "orders", url=HOOK, secret=new)
    hidden = {"options": {"url": HOOK, "secret": "***"}}
    assert told(book) == (*update, hidden, hidden)
    count = len(book.audit.list())
    book.events.add_sink("hooks", "webhook", "orders", url=HOOK, secret="***")  # noqa: S106
    assert len(book.audit.list()) == count, "nothing is different"
    assert book.events.sinks()[0].options["secret"] == new
    book.events.remove("hooks")
    assert told(book)[1:4] == ("delete", "sink", "hooks")
    assert new not in str(book.audit.list())


def test_replays_are_put_down_and_begin_with_what_is_kept(book: Book, store: Store) -> None:
    publish(book, *range(4))
    for _ in book.events.consume("t", "billing", partitions=1, follow=False):
        pass
    store.transact(lambda tx: purge_all(tx, tx.now.replace(year=2100), 2))
    first = book.events.list()[0].position or 0
    assert first > 1
    assert book.events.replay("billing", after=0) == (first - 1, 1)
    before, after = {"positions": [4]}, {"positions": [first - 1]}
    assert told(book) == ("token:ci", "replay", "group", "billing", before, after)
    count = len(book.audit.list())
    for wrong in ({"after": 5}, {"after": -1}, {"after": 2**63}, {}, {"since": "soon"}):
        with pytest.raises(Invalid):
            book.events.replay("billing", **wrong)
    assert len(book.audit.list()) == count


def test_what_becomes_of_dead_letters_is_put_down(book: Book) -> None:
    first, *_ = bury(book, 3)
    book.events.replay_dead("billing", first)
    after = {"dead": 3, "letters": 1, "event": first}
    assert told(book) == ("token:ci", "replay_dead", "group", "billing", {"dead": 3}, after)
    assert book.events.drop_dead("billing", first) == 1
    after = {"dead": 2, "letters": 1, "event": first}
    assert told(book) == ("token:ci", "drop_dead", "group", "billing", {"dead": 3}, after)
    for wrong in (
        lambda: book.events.drop_dead("billing", first),
        lambda: book.events.replay_dead("billing", "nothing"),
        lambda: book.events.drop_dead("nobody"),
        lambda: Book(book.store, "elsewhere").events.drop_dead("billing"),
        lambda: Book(book.store, "elsewhere").events.remove("billing"),
        lambda: Book(book.store, "elsewhere").events.replay("billing", after=0),
        lambda: Book(book.store, "elsewhere").events.partitions("billing"),
    ):
        with pytest.raises(NotFound):
            wrong()
    assert book.events.drop_dead("billing") == 2
    assert book.events.dead_letters() == []


def test_a_sink_that_would_begin_beyond_the_log_or_of_another_kind_is_refused(book: Book) -> None:
    publish(book, 1)
    bury(book, 1)
    for kind, start in (("kafka", 100), ("kafka", 2**70), ("kafka", -1), ("webhook", True)):
        with pytest.raises(DuebookError):
            book.events.add_sink("bus", kind, servers="k:9092", start=start)  # type: ignore[arg-type]
    with pytest.raises(Conflict, match="as a group"):
        book.events.add_sink("billing", "kafka", servers="k:9092")
    assert book.events.sinks() == []


def test_a_namespace_has_a_bounded_number_of_sinks(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "MOST_SINKS", 2)
    bury(book, 1)
    for name in ("one", "two", "two"):
        book.events.add_sink(name, "webhook", url=HOOK)
    with pytest.raises(Conflict, match="already has 2 sinks"):
        book.events.add_sink("three", "webhook", url=HOOK)
    Book(book.store, "elsewhere").events.add_sink("three", "webhook", url=HOOK)


def test_partitions_tell_positions_owners_and_what_went_wrong(book: Book) -> None:
    publish(book, 1, 2)
    book.events.add_sink("hooks", "webhook", url=HOOK, start="beginning", partitions=1)

    class Outlet:
        def deliver(self, deliveries: Sequence[Delivery]) -> Report:
            return Report(undelivered={d.event.id: "nobody is there" for d in deliveries})

    courier = Courier(book.store, book.events.sinks()[0], Outlet())
    courier.step()
    (part,) = book.events.partitions("hooks")
    assert (part.part, part.position, part.behind, part.owner) == (0, 0, 2, courier.member)
    assert (part.error, part.retry_at is not None) == ("nobody is there", True)
    courier.close()
    assert book.events.partitions("hooks")[0].owner is None


def test_a_publisher_is_named(book: Book) -> None:
    publish(book, 1)
    assert book.events.list()[0].meta == {"user": "token:ci"}
