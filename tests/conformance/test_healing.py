"""Schedules that no node would ever plan again are found, woken and reported."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from duebook.balance import check_books
from duebook.engine.healing import wake_asleep
from duebook.engine.keeper import Keeper
from duebook.engine.measures import Measures
from tests.support.builders import BEGIN, LEASE, MINUTE, VirtualClock, add_schedule, begin, tick

if TYPE_CHECKING:
    import pytest

    from duebook.book import Book
    from duebook.store.base import Store
    from tests.support.backends import Backend


def put_to_sleep(backend: Backend, *names: str) -> None:
    for name in names:
        backend.write(
            "UPDATE schedule_state SET next_due_at = NULL, wake_at = NULL WHERE schedule_id IN"
            " (SELECT id FROM schedules WHERE name = ?)",
            name,
        )


def test_a_keeper_wakes_it_and_says_so(
    backend: Backend, book: Book, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("asleep", "well"):
        add_schedule(book.store, name, overlap="allow")
    put_to_sleep(backend, "asleep")
    clock.advance()
    tick(book.store)
    assert book.runs.list("asleep") == []
    measures = Measures()
    keeper = Keeper(book.store, begin(book.store), LEASE, None, lambda *_: None, measures=measures)
    keeper.hurry()
    with caplog.at_level(logging.ERROR, "duebook.engine.healing"):
        keeper.step()
    (logged,) = caplog.records
    assert "schedule asleep of namespace default" in logged.getMessage()
    assert measures.woken == 1
    (change,) = book.audit.list(by="duebook")
    assert (change.action, change.subject) == ("wake", "asleep")
    tick(book.store)
    (run,) = book.runs.list("asleep")
    assert run.due_at == BEGIN + MINUTE
    assert book.schedules.get("asleep").next_due_at == BEGIN + 2 * MINUTE
    assert check_books(book.store).balanced


def test_the_check_reports_it(backend: Backend, book: Book) -> None:
    add_schedule(book.store, "asleep", trigger={"at": (BEGIN + MINUTE).isoformat()})
    put_to_sleep(backend, "asleep")
    found = [f for f in check_books(book.store).findings if f.problem]
    assert {f.schedule for f in found} == {"asleep"}
    assert any("no node will plan it" in f.text for f in found)


def test_a_pause_that_would_not_end_is_woken_when_it_ends(
    backend: Backend, book: Book, clock: VirtualClock
) -> None:
    add_schedule(book.store, "asleep")
    book.schedules.pause("asleep", until=BEGIN + 5 * MINUTE)
    put_to_sleep(backend, "asleep")
    assert book.store.transact(wake_asleep) == 1
    clock.advance(2 * MINUTE)
    tick(book.store)
    assert book.schedules.get("asleep").status == "paused"
    clock.advance(3 * MINUTE)
    tick(book.store)
    assert book.schedules.get("asleep").status == "active"


def test_what_has_nothing_to_wait_for_stays_as_it_is(book: Book, clock: VirtualClock) -> None:
    """Completed, paused, and waiting: none of them is broken."""
    for name in ("over", "waits"):
        add_schedule(book.store, name, trigger={"at": (BEGIN + MINUTE).isoformat()})
    add_schedule(book.store, "paused")
    book.schedules.pause("paused")
    clock.advance()
    tick(book.store)
    for run in book.runs.list("over"):
        book.runs.cancel(run.id)
    tick(book.store)
    states = {s.name: s.status for s in book.schedules.list()}
    assert states == {"over": "completed", "waits": "active", "paused": "paused"}
    assert book.store.transact(wake_asleep) == 0
    assert check_books(book.store).balanced


def test_one_that_has_ended_completes(
    backend: Backend, book: Book, clock: VirtualClock, store: Store
) -> None:
    add_schedule(store, "over", trigger={"at": (BEGIN + MINUTE).isoformat()})
    clock.advance()
    tick(store)
    for run in book.runs.list("over"):
        book.runs.cancel(run.id)
    put_to_sleep(backend, "over")
    assert store.transact(wake_asleep) == 1
    tick(store)
    assert book.schedules.get("over").status == "completed"
