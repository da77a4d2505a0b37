"""One question a second to the books, however many look."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api.gate import LIVE
from duebook.book import Book
from duebook.errors import NotFound
from duebook.store.sqlite import SqliteStore
from duebook.web import watching
from duebook.web.routes.live import changes
from duebook.web.watching import Watch, Watches

if TYPE_CHECKING:
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


def test_pages_that_look_again_after_one_change_share_what_they_show(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "books.db")
    watches, loaded = Watches(store), []

    def load() -> int:
        loaded.append(1)
        return len(loaded)

    for _ in range(3):
        assert watches.shared("page", {LIVE: "7"}, load) == 1
    assert watches.shared("page", {LIVE: "8"}, load) == 2
    assert watches.shared("other", {LIVE: "8"}, load) == 3
    assert watches.shared("page", {}, load) == 4
    for number in range(watching.KEPT + 5):
        watches.shared(number, {LIVE: "8"}, load)
    assert watches.shared("page", {LIVE: "8"}, load) == watching.KEPT + 10
    store.close()


def test_what_could_not_be_loaded_leaves_nothing_behind(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "books.db")
    watches = Watches(store)
    for number in range(5):
        with pytest.raises(NotFound):
            watches.shared(number, {LIVE: "1"}, lambda: Book(store).runs.get("nothing"))
    assert not watches._busy
    store.close()


def test_the_stream_tells_of_changes_and_ends_with_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(watching, "TURN", 0.0)
    monkeypatch.setattr("duebook.web.routes.live.CHECK_EVERY", -1.0)
    store = SqliteStore(tmp_path / "books.db")
    watches = Watches(store)
    sessions: list[object] = ["somebody", "somebody", None]

    class Open:
        ending = False

    async def read() -> list[str]:
        events: list[str] = []
        streams: Any = Open()
        async for event in changes(watches, "default", streams, lambda: sessions.pop(0)):
            if not events:
                Book(store).schedules.create(
                    "job", trigger={"cron": "@daily"}, target={"command": ["true"]}
                )
            events.append(event)
        return events

    events = asyncio.run(read())
    told = [event.split("\n")[0] for event in events if not event.startswith(":")]
    assert told == ["event: changed", "event: changed", "event: over"]
    assert watches.viewers == 0
    store.close()
