"""Shadow mode on both databases: what is planned, recorded and reported."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.balance import check_books
from duebook.book import Book
from duebook.book.shadow import MOST
from duebook.errors import Invalid
from tests.support.builders import begin, get_ledger, get_runs, tick

if TYPE_CHECKING:
    from duebook.store.base import Store
    from tests.support.builders import VirtualClock

MINUTE = timedelta(minutes=1)


def test_due_times_are_recorded_until_the_switch_and_run_from_then_on(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, lease=timedelta(days=1))
    book, other = Book(store, by="ann"), Book(store, "other")
    book.shadow.on()
    ids = [
        one.schedules.create("job", trigger={"every": "1m"}, target="t", overlap="allow").id
        for one in (book, other)
    ]
    start = clock.now
    clock.advance(MINUTE)
    assert tick(store) == 1  # of the other namespace
    book.shadow.off(at=clock.now + MINUTE)  # for what is due then
    book.shadow.on(labels={"team": "x"})
    clock.advance(MINUTE)
    assert tick(store) == 2
    (entry,) = get_ledger(store, ids[0])
    assert (entry.due_from, entry.reason, entry.facts) == (
        start + MINUTE,
        "shadow",
        {"origin": "schedule"},
    )
    assert [run.due_at for run in get_runs(store, ids[0])] == [clock.now]
    (found,) = book.shadow.report(start)
    assert (found.schedule, found.due_at, found.planned_at) == ("job", entry.due_from, entry.at)
    assert book.shadow.report(start, start) == []
    assert other.shadow.report(start) == []
    assert [(one.shadow, one.created_by) for one in book.shadow.list()] == [
        (True, "ann"),
        (True, "ann"),
        (False, "ann"),
    ]
    assert other.shadow.list() == []
    assert check_books(store, deep=True).balanced
    notes = [note.code for note in other.readiness(namespace="other").notes]
    assert "shadow" not in notes


def test_switches_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duebook.book.shadow.MOST", 3)
    assert MOST == 1_000
    book = Book(store)
    for _ in range(3):
        book.shadow.on()
    with pytest.raises(Invalid, match="which is the most; use labels"):
        book.shadow.off()


def test_wrong_switches_are_refused(store: Store, clock: VirtualClock) -> None:
    book = Book(store)
    with pytest.raises(Invalid, match="is in the past"):
        book.shadow.on(at=clock.now - 2 * MINUTE)
    with pytest.raises(Invalid, match="schedule"):
        book.shadow.on("no name")
    with pytest.raises(Invalid, match="limit"):
        book.shadow.report(clock.now, limit=0)
    assert book.shadow.list() == []
