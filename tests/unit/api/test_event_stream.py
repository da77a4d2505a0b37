"""The log of events as a stream: where it begins, what it says while nothing comes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api import log_stream
from duebook.api.event_stream import EventStream, read_position
from duebook.api.log_stream import Streams
from duebook.api.permissions import Caller
from duebook.api.problems import Malformed
from duebook.book import Book
from duebook.model.access import Role
from duebook.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SOMEBODY = Caller("1", "ci", Role.VIEWER)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with Book(SqliteStore(tmp_path / "books.db")) as opened:
        for number in range(3):
            opened.events.publish("orders" if number else "other", number)
        yield opened


def read(
    book: Book, count: int, still: Callable[[], Caller | None] = lambda: SOMEBODY, **asked: Any
) -> list[str]:
    """So many events of a stream."""

    async def take() -> list[str]:
        events: Any = EventStream(book, 0, asked, Streams(), still, "1").events()
        taken = [await anext(events) for _ in range(count)]
        await events.aclose()
        return taken

    return asyncio.run(take())


def test_an_event_has_its_position_as_its_id(book: Book) -> None:
    first, second = read(book, 2, topic="orders")
    assert first.startswith("id: 2\nevent: event\ndata: {")
    assert second.startswith("id: 3\n")


def test_a_stream_that_waits_tells_how_far_it_looked(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "CHECK_EVERY", -1)
    monkeypatch.setattr(log_stream, "ALIVE_EVERY", -1)
    assert read(book, 1, topic="rare") == [": still there\nid: 3\n\n"]


def test_a_token_that_was_revoked_ends_the_stream(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "CHECK_EVERY", -1)
    monkeypatch.setattr(log_stream, "ALIVE_EVERY", -1)
    (told,) = read(book, 1, still=lambda: None, topic="rare")
    assert told.startswith("event: problem")
    assert '"unauthorized"' in told


def test_what_is_no_position_is_refused() -> None:
    assert read_position(None) is None
    assert read_position("17") == 17
    for text in ("", "x", "-1", "1.1", "9" * 19, "١"):
        with pytest.raises(Malformed):
            read_position(text)
