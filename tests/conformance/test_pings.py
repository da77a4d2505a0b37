"""Pings of schedules as definitions: one sink for all of a namespace, and no URL is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.errors import Conflict, Invalid, NotFound
from duebook.model.codec import encode
from duebook.model.ping import MOST_URLS
from tests.support.builders import add_schedule

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.store.base import Store

pytestmark = pytest.mark.book_as(by="token:ci")

SECRET = "eb095278-not-to-be-shown"  # noqa: S105
URL = f"https://hc-ping.com/{SECRET}"


def urls(book: Book) -> dict[str, str]:
    return {name: url for one in book.events.sinks() for name, url in one.options["urls"].items()}


def test_a_schedule_gets_a_ping_another_and_none(store: Store, book: Book) -> None:
    for name in ("etl", "backup"):
        add_schedule(store, name)
    book.events.set_ping("etl", URL)
    book.events.set_ping("backup", "https://hc-ping.com/b")
    book.events.set_ping("etl", f"{URL}-2")
    (sink,) = book.events.sinks()
    assert (sink.name, sink.kind, sink.topics) == ("pings", "ping", ("duebook.runs",))
    assert sink.types == ("run.failed", "run.partial", "run.succeeded")
    assert urls(book) == {"etl": f"{URL}-2", "backup": "https://hc-ping.com/b"}
    book.events.remove_ping("etl")
    with pytest.raises(NotFound, match='schedule "etl" has no ping'):
        book.events.remove_ping("etl")
    book.events.remove_ping("backup")
    assert book.events.sinks() == [], "nobody follows the runs any more"


def test_a_ping_is_set_by_the_id_of_a_schedule_and_belongs_to_its_name(
    store: Store, book: Book
) -> None:
    book.events.set_ping(add_schedule(store, "etl"), URL)
    assert urls(book) == {"etl": URL}


def test_urls_of_pings_are_in_nothing_that_is_shown(store: Store, book: Book) -> None:
    add_schedule(store, "etl")
    book.events.set_ping("etl", URL)
    book.events.set_ping("etl", f"{URL}-2")
    shown = encode(book.events.sinks()[0])
    assert shown["options"] == {"urls": {"etl": "https://hc-ping.com/***"}}
    book.events.remove_ping("etl")
    entries = [encode(entry) for entry in book.audit.list()]
    assert [entry["action"] for entry in entries] == ["delete", "update", "create"]
    assert SECRET not in str(entries)


@pytest.mark.parametrize(
    "url", ["hc-ping.com/x", "https://", "ftp://x/y", "https://u:hunter22@x/y", "https://h/***", 7]
)
def test_a_url_that_is_wrong_is_refused(store: Store, book: Book, url: str) -> None:
    add_schedule(store, "etl")
    with pytest.raises(Invalid, match="ping url") as caught:
        book.events.set_ping("etl", url)
    assert "hunter22" not in str(caught.value)
    assert book.events.sinks() == []


def test_what_is_not_there_or_too_much_is_refused(store: Store, book: Book) -> None:
    with pytest.raises(NotFound, match='schedule "etl" does not exist'):
        book.events.set_ping("etl", URL)
    add_schedule(store, "etl")
    book.events.add_sink("pings", "webhook", url="https://example.com")
    with pytest.raises(Conflict, match='"pings" already exists, as a webhook'):
        book.events.set_ping("etl", URL)
    with pytest.raises(NotFound):
        book.events.remove_ping("etl")
    book.events.remove("pings")
    book.events.set_ping("etl", URL)
    (sink,) = book.events.sinks()
    sink.options["urls"].update({f"job-{n}": URL for n in range(MOST_URLS - 1)})
    store.transact(lambda tx: tx.consumers.save_consumer(sink, 0))
    add_schedule(store, "one-more")
    with pytest.raises(Conflict, match="at most 1,000 schedules"):
        book.events.set_ping("one-more", URL)
    book.events.set_ping("etl", f"{URL}-2")
