"""Enqueueing and waiting for runs through a server, in threads and in coroutines."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.book.waiting import watch_of
from duebook.errors import NotFound, Unavailable, WaitTimeout
from duebook.remote import RemoteBook
from duebook.remote import waiting as remote_waiting
from tests.support.builders import begin, settle
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duebook.model.run import Claim
    from duebook.store.base import Store
    from tests.support.serving import Served


@pytest.fixture
def store(served: Served, tmp_path: Path) -> Iterator[Store]:
    opened = served.use(tmp_path / "duebook.db")
    yield opened
    opened.close()


@pytest.fixture
def remote(served: Served, store: Store) -> Iterator[RemoteBook]:
    assert store
    with RemoteBook(served.url, "admin") as opened:
        yield opened


def start(store: Store) -> Claim:
    begin(store)
    (claimed,) = store.transact(lambda tx: tx.claims.claim("node-1", "default", 1, ["digest"]))
    return claimed


def test_a_run_is_enqueued_and_awaited_through_a_server(remote: RemoteBook, store: Store) -> None:
    run = remote.enqueue("digest", {"n": 1}, key="k", unique="active", retry=2, timeout="1m")
    assert (run.is_new, run.status, run.payload) == (True, "queued", {"n": 1})
    other = remote.enqueue("digest", {"n": 2}, key="k")
    assert (other.result, other) == ("payload_ignored", run)
    claimed = start(store)
    ending = threading.Thread(
        target=lambda: (
            eventually(lambda: watch_of(store)._waiting)
            and settle(store, claimed.token, output="42")
        )
    )
    ending.start()
    ended = run.wait(PATIENCE)
    ending.join()
    assert (ended.status, ended.output) == ("succeeded", 42)
    assert remote.runs.wait(run.id[:20]) == ended
    assert remote.runs.wait_all([run.id, run.id]) == [ended, ended]


def test_what_cannot_be_awaited_raises_as_the_books_do(remote: RemoteBook, store: Store) -> None:
    run = Book(store).enqueue("digest")
    with pytest.raises(WaitTimeout, match=r"has not ended within 0.1s; it continues"):
        remote.runs.wait(run.id, 0.1)
    with pytest.raises(WaitTimeout):
        remote.runs.wait_all([run.id], 0)
    with pytest.raises(NotFound):
        remote.runs.wait("no-id")
    with RemoteBook("http://127.0.0.1:1") as nobody, pytest.raises(Unavailable):
        nobody.runs.wait(run.id)


def test_coroutines_wait_through_a_server(remote: RemoteBook, store: Store) -> None:
    async def main() -> Any:
        runs = [await remote.aio.enqueue("digest", {"n": n}) for n in range(3)]
        with pytest.raises(WaitTimeout):
            await remote.aio.wait(runs[0], 0.05)
        waiting = [asyncio.create_task(remote.aio.wait(run, PATIENCE)) for run in runs]
        working = asyncio.create_task(asyncio.to_thread(work))
        ended = await asyncio.gather(*waiting)
        await working
        assert (await remote.aio.runs.get(runs[0].id)).status == "succeeded"
        return ended

    def work() -> None:
        begin(store)
        eventually(lambda: len(watch_of(store)._waiting) == 3)
        for claimed in store.transact(
            lambda tx: tx.claims.claim("node-1", "default", 9, ["digest"])
        ):
            settle(store, claimed.token, output=str(claimed.run.payload["n"]))  # type: ignore[index]

    assert [run.output for run in asyncio.run(main())] == [0, 1, 2]


def test_a_server_without_room_for_waiting_is_asked_now_and_then(
    remote: RemoteBook, served: Served, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.api.log_stream.MOST_OF_ONE", 0)
    monkeypatch.setattr(remote_waiting, "REST", 0.01)
    run = Book(store).enqueue("digest")
    with pytest.raises(WaitTimeout):
        remote.runs.wait(run.id, 0.1)
    assert served.open_streams == 0
    settle(store, start(store).token)
    assert remote.runs.wait(run.id, PATIENCE).status == "succeeded"
