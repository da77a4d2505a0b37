"""One question a second to the books, however many look."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from duebook.api import log_stream
from duebook.api.gate import LIVE
from duebook.api.log_stream import Streams
from duebook.book import Book
from duebook.errors import NotFound, Unavailable
from duebook.store.sqlite import SqliteStore
from duebook.web import watching
from duebook.web.routes.live import changes
from duebook.web.watching import Watch, Watches

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from pathlib import Path


class Signals:
    """Insights that only count how often they are asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.value = 0

    def signal(self) -> tuple[object, ...]:
        self.asked += 1
        return (self.value,)


def test_a_hundred_who_look_ask_the_books_as_often_as_one() -> None:
    signals, now = Signals(), [0.0]
    watch = Watch(signals, lambda: now[0])  # type: ignore[arg-type]

    async def look() -> set[int]:
        return set(await asyncio.gather(*(watch.look() for _ in range(100))))

    async def story() -> None:
        assert await look() == {1}
        assert signals.asked == 1
        now[0] += 1
        signals.value += 1
        assert await look() == {2}
        now[0] += 1
        assert await look() == {2}
        assert signals.asked == 3

    asyncio.run(story())


@pytest.fixture
def watches(tmp_path: Path) -> Iterator[Watches]:
    store = SqliteStore(tmp_path / "books.db")
    yield Watches(store)
    store.close()


def test_pages_that_look_again_after_one_change_share_what_they_show(watches: Watches) -> None:
    loaded: list[int] = []

    def load() -> int:
        loaded.append(1)
        return len(loaded)

    def look(key: Hashable, number: str | None = None) -> int:
        return watches.shared("default", key, {LIVE: number} if number else {}, load)

    watches.of("default").number = 7
    for _ in range(3):
        assert look("page", "7") == 1
    watches.of("default").number = 8
    assert look("page", "8") == 2
    assert look("other", "8") == 3
    assert look("page") == 4
    for number in range(watching.KEPT + 5):
        look(number, "8")
    assert look("page", "8") == watching.KEPT + 10


@pytest.mark.parametrize("number", ["8", "999999999999999999", "9" * 40, "-1", "x", "٣"])
def test_a_number_that_is_made_up_freezes_nobodys_page(watches: Watches, number: str) -> None:
    values = iter(range(10))

    def look(number: str) -> int:
        return watches.shared("default", "page", {LIVE: number}, lambda: next(values))

    watches.of("default").number = 7
    assert look(number) == 0
    assert look("7") == 1  # nothing was kept for the number
    watches.of("default").number = 8
    assert look("8") == 2
    assert look("8") == 2


def test_what_was_loaded_counts_for_the_latest_change_before_it(watches: Watches) -> None:
    watches.of("default").number = 7
    assert watches.shared("default", "page", {LIVE: "0"}, lambda: "at 7") == "at 7"
    assert watches.shared("default", "page", {LIVE: "7"}, lambda: "again") == "at 7"
    assert watches.shared("other", "page", {LIVE: "7"}, lambda: "other") == "other"


def test_what_could_not_be_loaded_leaves_nothing_behind(watches: Watches) -> None:
    watches.of("default").number = 1

    def fail() -> None:
        raise NotFound("nothing")

    for number in range(5):
        with pytest.raises(NotFound):
            watches.shared("default", number, {LIVE: "1"}, fail)
    assert not watches._busy


def test_the_stream_tells_of_changes_and_ends_with_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(watching, "TURN", 0.0)
    monkeypatch.setattr(log_stream, "CHECK_EVERY", -1.0)
    store = SqliteStore(tmp_path / "books.db")
    watches = Watches(store)
    streams = Streams()
    sessions: list[object] = ["somebody", Unavailable("the database is locked"), "somebody", None]

    def still() -> object:
        if isinstance(found := sessions.pop(0), Exception):
            raise found
        return found

    async def read() -> list[str]:
        events: list[str] = []
        async for event in changes(watches, "default", streams, still, "1"):
            assert streams.open == 1
            if not events:
                Book(store).schedules.create(
                    "job", trigger={"cron": "@daily"}, target={"command": ["true"]}
                )
            events.append(event)
        return events

    events = asyncio.run(read())
    told = [event.split("\n")[0] for event in events if not event.startswith(":")]
    assert told == ["event: changed", "event: changed", "event: over"]
    assert streams.open == 0
    store.close()


def test_a_live_page_ends_quietly_when_the_books_stay_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((watching, "TURN"), (log_stream, "CHECK_EVERY"), (log_stream, "PATIENCE")):
        monkeypatch.setattr(module, name, -1.0)
    store = SqliteStore(tmp_path / "books.db")

    def silent() -> object:
        raise Unavailable("the database does not answer")

    async def read() -> list[str]:
        return [event async for event in changes(Watches(store), "default", Streams(), silent, "1")]

    assert asyncio.run(read()) == []
    store.close()
