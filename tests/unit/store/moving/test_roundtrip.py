"""Whatever happened to books, their copy answers every question as they did."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.balance import check_books
from duebook.book import Book
from duebook.errors import DuebookError
from duebook.model.run import LogLine, Outcome
from tests.support.builders import BEGIN, VirtualClock, tick
from tests.support.examples import some_of
from tests.support.histories import HOUR, LEASE, History
from tests.unit.store.moving.conftest import Move

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store, Tx
    from tests.support.postgres import Server

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)


def answers(store: Store, schedule_ids: list[str], end: Any) -> dict[str, Any]:
    """What the books say to whoever asks."""
    book = Book(store)
    found: dict[str, Any] = {
        "schedules": book.schedules.list(),
        "templates": book.templates.list(),
        "queues": book.queues.list(),
        "namespaces": book.namespaces.list(),
        "audit": book.audit.list(everywhere=True, limit=1_000),
    }
    runs = book.runs.list(limit=1_000)
    found["runs"] = runs
    for run in runs:
        found[run.id] = (book.runs.get(run.id), book.runs.attempts(run.id), book.runs.log(run.id))
    ask: dict[str, Callable[[str], Any]] = {
        "get": book.schedules.get,
        "revisions": book.schedules.revisions,
        "ledger": lambda id_: book.schedules.ledger(id_, limit=1_000),
        "exceptions": book.schedules.exceptions,
        "preview": book.schedules.preview,
        "explain": lambda id_: book.schedules.explain(id_, start=BEGIN - HOUR, end=end),
        "snapshot": lambda id_: store.read(lambda tx: tx.plans.snapshot(id_)),
    }
    for id_ in schedule_ids:
        for name, question in ask.items():
            try:
                found[f"{name} {id_}"] = question(id_)
            except DuebookError as error:
                found[f"{name} {id_}"] = str(error)
    found["wakes"] = store.read(
        lambda tx: (tx.plans.earliest_wake(), tx.attempts.earliest_expiry())
    )
    return found


def say(tx: Tx, history: History, text: str) -> None:
    """Texts that people and programs write end up in several places."""
    for claim in history.claims:
        tx.attempts.append_log(claim.token, 1, [LogLine(BEGIN, "stdout", text)])
        tx.attempts.settle(claim.token, Outcome("failed", "error", text, 3))


@pytest.mark.lengthy
@pytest.mark.parametrize("ends", [True, False], ids=["at the end", "in the middle"])
@settings(max_examples=some_of(8))
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 60), text=TEXT)
def test_the_copy_of_any_books_answers_as_they_did(
    postgres_server: Server, seed: int, steps: int, text: str, ends: bool
) -> None:
    with postgres_server.database() as url, tempfile.TemporaryDirectory() as folder:
        clock = VirtualClock()
        move = Move(Path(folder) / "book.db", url, clock)
        try:
            book = Book(move.old())
            history = History(book, clock, seed)
            book.queues.limit("default", concurrency=3, rate="7/m")
            book.namespaces.limit("default", schedules=9, fires_per_minute=1e6)
            book.templates.save("nightly", by="ann", cron="H 2 * * *", description=text)
            for _ in range(steps):
                history.step()
            book.schedules.trigger("up", payload={"text": text})
            if ends:
                book.store.transact(lambda tx: say(tx, history, text))
                book.store.transact(lambda tx: tx.nodes.end_session(history.node or ""))
            else:  # its node died with its work
                clock.advance(LEASE)
            ids = [history.id, book.schedules.get("up").id]
            before = answers(book.store, ids, clock.now + HOUR)
            move()
            new = move.new()
            assert answers(new, ids, clock.now + HOUR) == before
            assert {run.due_at for run in Book(new).runs.list(limit=1_000)} == {
                run.due_at for run in before["runs"]
            }
            assert check_books(new, deep=True).balanced
            tick(new)
            assert check_books(new, deep=True).balanced
        finally:
            move.close()
