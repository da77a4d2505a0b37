"""Waiting for runs to end, with hints and without any."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from duebook.aio import AsyncBook
from duebook.book import Book, waiting
from duebook.book.waiting import read_timeout
from duebook.errors import Invalid, NotFound, Unavailable, WaitTimeout
from tests.support.builders import begin, settle
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.run import Claim
    from duebook.store.base import Store
    from tests.support.backends import Backend


def start(store: Store) -> Claim:
    begin(store)
    (claimed,) = store.transact(lambda tx: tx.claims.claim("node-1", "default", 1, ["digest"]))
    return claimed


class Waiting:
    """Waits for a run in a thread."""

    def __init__(self, wait: Callable[[], Any]) -> None:
        self.result: Any = None
        self._wait = wait
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._wait()
        except BaseException as error:
            self.result = error

    def ended(self) -> Any:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.result


def watched(store: Store) -> bool:
    """Whether a thread waits for a run in the store."""
    return bool(waiting.watch_of(store)._waiting)


def test_a_run_that_has_ended_is_not_waited_for(book: Book) -> None:
    run = book.enqueue("digest")
    settle(book.store, start(book.store).token, output="42")
    ended = run.wait()
    assert (ended.id, ended.status, ended.output) == (run.id, "succeeded", 42)
    assert book.runs.wait(run.id, 0) == ended


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_waiting_ends_with_the_run_however_that_ends(
    backend: Backend, book: Book, status: Any
) -> None:
    run = book.enqueue("digest")
    claimed = start(book.store)
    there = backend.open()  # as another process uses it
    one = Waiting(lambda: Book(there).runs.wait(run.id))
    other = Waiting(lambda: run.wait(PATIENCE))
    eventually(lambda: watched(there) and watched(book.store))
    settle(book.store, claimed.token, status)
    assert [one.ended().status, other.ended().status] == [status] * 2
    eventually(lambda: not watched(there))


def test_without_any_hint_a_look_now_and_then_finds_the_end(
    backend: Backend, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "SELDOM", 0.1)
    run = book.enqueue("digest")
    claimed = start(book.store)
    there = backend.open()
    paused = threading.Event()

    def deaf(seen: int, timeout: float) -> int:
        paused.wait(timeout)
        return seen

    monkeypatch.setattr(there, "wait_for_ends", deaf)
    one = Waiting(lambda: Book(there).runs.wait(run.id))
    eventually(lambda: watched(there))
    settle(book.store, claimed.token)
    assert one.ended().status == "succeeded"


def test_a_hint_ends_waiting_long_before_the_next_look(
    backend: Backend, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polling itself is as rare as possible here."""
    monkeypatch.setattr(waiting, "SOON", 3 * PATIENCE)
    monkeypatch.setattr(waiting, "SELDOM", 3 * PATIENCE)
    run = book.enqueue("digest")
    claimed = start(book.store)
    book.store.news(0)  # this process listens, as a node does
    there = backend.open()
    one = Waiting(lambda: Book(there).runs.wait(run.id))
    eventually(lambda: watched(there))
    if (listener := getattr(book.store, "_listener", None)) is not None:
        eventually(lambda: listener.are_ends_awaited)
    settle(book.store, claimed.token)
    assert one.ended().status == "succeeded"


def test_a_timeout_says_so_and_leaves_the_run_alone(book: Book) -> None:
    run = book.enqueue("digest")
    with pytest.raises(WaitTimeout, match=f"run {run.id} has not ended within 0.05s"):
        run.wait(0.05)
    with pytest.raises(TimeoutError):
        book.runs.wait(run.id, "0s")
    assert book.runs.get(run.id).status == "queued"
    eventually(lambda: not watched(book.store))


def test_several_runs_are_waited_for_in_order(book: Book) -> None:
    first, second = book.enqueue("digest"), book.enqueue("digest")
    settle(book.store, start(book.store).token)
    with pytest.raises(WaitTimeout, match=f"run {second.id} has not ended within 0.05s"):
        book.runs.wait_all([first.id, second.id], 0.05)
    (claimed,) = book.store.transact(lambda tx: tx.claims.claim("node-1", "default", 1, ["digest"]))
    settle(book.store, claimed.token, "failed")
    ended = book.runs.wait_all([second.id, first.id], "1m")
    assert [run.id for run in ended] == [second.id, first.id]


def test_a_run_of_another_namespace_is_not_there(book: Book) -> None:
    run = Book(book.store, "elsewhere").enqueue("digest")
    with pytest.raises(NotFound):
        book.runs.wait(run.id, 1)


def test_a_run_that_is_deleted_meanwhile_is_not_waited_for_any_longer(
    backend: Backend, book: Book
) -> None:
    run = book.enqueue("digest")
    one = Waiting(run.wait)
    eventually(lambda: watched(book.store))
    backend.write("DELETE FROM runs WHERE id = ?", run.id)
    assert isinstance(one.ended(), NotFound)


def test_closing_the_books_ends_all_waiting(backend: Backend, book: Book) -> None:
    run = book.enqueue("digest")
    there = Book(backend.open())
    one = Waiting(lambda: there.runs.wait(run.id))
    eventually(lambda: watched(there.store))
    there.close()
    assert isinstance(one.ended(), Unavailable)


@pytest.mark.parametrize("value", ["soon", -1, "1.5h", True, float("nan"), [1]])
def test_a_timeout_that_is_none_is_refused(book: Book, value: Any) -> None:
    run = book.enqueue("digest")
    with pytest.raises(Invalid):
        run.wait(value)
    assert (read_timeout("2.5"), read_timeout("1m"), read_timeout(3)) == (2.5, 60.0, 3.0)


# ------------------------------------------------------------ async programs


def test_async_programs_wait_for_more_runs_than_there_are_threads(
    backend: Backend, book: Book
) -> None:
    there = Book(backend.open())
    aio = AsyncBook(there, waiting.watch_of(there.store).when_ended)

    async def wait_for(number: int) -> Any:
        run = await aio.enqueue("digest", {"n": number})
        return await aio.wait(run, PATIENCE)

    async def main() -> list[Any]:
        awaited = [asyncio.create_task(wait_for(number)) for number in range(30)]
        settling = asyncio.create_task(asyncio.to_thread(work))
        ended = await asyncio.gather(*awaited)
        await settling
        return ended

    def work() -> None:
        begin(book.store)
        done, deadline = 0, time.monotonic() + PATIENCE
        while done < 30 and time.monotonic() < deadline:
            for claimed in book.store.transact(
                lambda tx: tx.claims.claim("node-1", "default", 10, ["digest"])
            ):
                settle(book.store, claimed.token, output=str(claimed.run.payload["n"]))  # type: ignore[index]
                done += 1

    ended = asyncio.run(main())
    aio.stop()
    assert [run.output for run in ended] == list(range(30))


def test_an_async_timeout_says_so(book: Book) -> None:
    aio = AsyncBook(book, waiting.watch_of(book.store).when_ended)

    async def main() -> None:
        run = await aio.enqueue("digest")
        with pytest.raises(WaitTimeout):
            await aio.wait(run, 0.05)
        with pytest.raises(WaitTimeout):
            await aio.runs.wait_all([run.id], "0s")
        assert await aio.runs.cancel(run.id) == "cancelled"
        assert (await aio.wait(run.id)).status == "cancelled"
        assert (await aio.runs.list(limit=1))[0].id == run.id

    asyncio.run(main())
    aio.stop()
    eventually(lambda: not watched(book.store))
