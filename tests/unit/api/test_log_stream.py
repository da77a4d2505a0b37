"""A log as a stream: who is no longer let in is told so, and there are not too many."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api import log_stream
from duebook.api.log_stream import LogStream, Streams, place_text, read_place
from duebook.api.permissions import Caller
from duebook.api.problems import Busy, Malformed
from duebook.book import Book
from duebook.errors import Unavailable
from duebook.model.access import Role
from duebook.store.sqlite import SqliteStore
from duebook.store.values import START

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SOMEBODY = Caller("1", "ci", Role.VIEWER)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with Book(SqliteStore(tmp_path / "books.db")) as opened:
        opened.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
        yield opened


def stream(
    book: Book, streams: Streams, still: Callable[[], Caller | None], who: str = "1"
) -> LogStream:
    run = book.schedules.trigger("job")
    return LogStream(book, run.id, START, streams, still, who)


async def first(events: Any) -> str:
    event: str = await anext(events)
    await events.aclose()
    return event


def test_a_token_that_was_revoked_ends_the_stream(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "CHECK_EVERY", -1)
    monkeypatch.setattr(log_stream, "ALIVE_EVERY", -1)
    assert asyncio.run(first(stream(book, Streams(), lambda: SOMEBODY).events())).startswith(":")
    told = asyncio.run(first(stream(book, Streams(), lambda: None).events()))
    assert told.startswith("event: problem")
    assert '"unauthorized"' in told


def test_there_are_not_too_many_streams(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream, "MOST", 1)
    monkeypatch.setattr(log_stream, "CHECK_EVERY", -1)
    monkeypatch.setattr(log_stream, "ALIVE_EVERY", -1)
    streams = Streams()

    async def read() -> None:
        events: Any = stream(book, streams, lambda: SOMEBODY).events()
        await anext(events)
        with pytest.raises(Unavailable, match="1 streams are already open"):
            stream(book, streams, lambda: SOMEBODY)
        await events.aclose()

    asyncio.run(read())
    assert streams.open == 0
    stream(book, streams, lambda: SOMEBODY)


def test_one_token_does_not_take_the_streams_of_others(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "MOST_OF_ONE", 1)
    monkeypatch.setattr(log_stream, "CHECK_EVERY", -1)
    monkeypatch.setattr(log_stream, "ALIVE_EVERY", -1)
    streams = Streams()

    async def read() -> None:
        late = stream(book, streams, lambda: SOMEBODY)
        events: Any = stream(book, streams, lambda: SOMEBODY).events()
        await anext(events)
        with pytest.raises(Unavailable, match="this token has 1 streams already open"):
            stream(book, streams, lambda: SOMEBODY)
        assert "this token has 1 streams" in await first(late.events())  # asked before, opened now
        assert (await first(stream(book, streams, lambda: SOMEBODY, "2").events())).startswith(":")
        await events.aclose()

    asyncio.run(read())
    assert streams.open == 0


def test_a_stream_outlives_a_moment_without_books(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "CHECK_EVERY", -1)
    monkeypatch.setattr(log_stream, "LOOK_EVERY", 0)
    monkeypatch.setattr(log_stream, "ALIVE_EVERY", -1)

    def silent() -> Caller | None:
        raise Unavailable("the database does not answer")

    assert asyncio.run(first(stream(book, Streams(), silent).events())).startswith(":")
    reads = stream(book, Streams(), lambda: SOMEBODY)
    monkeypatch.setattr(reads, "_read", lambda *_: silent())
    assert asyncio.run(first(reads.events())).startswith(":")
    monkeypatch.setattr(log_stream, "PATIENCE", -1)
    for ended in (stream(book, Streams(), silent), reads):
        assert '"unavailable"' in asyncio.run(first(ended.events()))


def test_streams_leave_half_of_the_connections_to_others() -> None:
    streams = Streams(connections=16)
    with ExitStack() as opened:
        for who in "abcd":
            for _ in range(2):
                opened.enter_context(streams.count(who, page=True))
            if streams.open < 8:
                with pytest.raises(Busy, match="this token has 2 live pages already open"):
                    streams.refuse_more(who, page=True)
                streams.refuse_more(who)
        for page in (True, False):
            with pytest.raises(Unavailable, match="8 streams are already open; try again later"):
                streams.refuse_more("e", page)
    streams.refuse_more("a", page=True)


def test_streams_end_with_their_server(book: Book) -> None:
    streams = Streams()
    streams.ending = True

    async def read() -> list[str]:
        return [event async for event in stream(book, streams, lambda: SOMEBODY).events()]

    assert asyncio.run(read()) == []


def test_a_place_is_read_back() -> None:
    assert read_place(None) == START
    place = read_place("3.17")
    assert (place.attempt, place.seq, place_text(place)) == (3, 17, "3.17")
    for text in ("", "3", "3.17.1", "-1.2", "a.b", "3.17 ", "9" * 20 + ".1", "３.1"):
        with pytest.raises(Malformed):
            read_place(text)
