"""Due times of flows wait until a node reads the directory of their files."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from duebook.balance import check_books
from duebook.book.flow_registry import FlowRegistry
from duebook.engine.ticker import Ticker
from duebook.errors import Conflict
from duebook.explain import Explanation
from duebook.flows.directory_keeper import scan_once
from tests.support.builders import LEASE, MINUTE, SECOND, begin, tick
from tests.support.flow_builders import Folder

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from duebook.book import Book
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock

TEN = 10 * MINUTE
ETL = """
schedule: "*/10 * * * *"
steps: [{name: work, command: "true"}]
"""
NEW = ETL.replace("work", "better")


def digests(book: Book, store: Store, name: str = "etl") -> list[str | None]:
    """The revisions that its runs started with, the oldest first."""
    runs = book.flows.runs(name)[::-1]
    begun = [store.read(lambda tx, run=run: tx.flow_runs.flow_run(run.id)) for run in runs]  # type: ignore[misc]
    return [made and made.digest for made in begun]


def explain(book: Book, at: datetime) -> Explanation:
    told = book.schedules.explain("etl", at=at)
    assert isinstance(told, Explanation)
    return told


@pytest.fixture
def folder(tmp_path: Path, store: Store) -> Folder:
    folder = Folder(tmp_path, store)
    folder.write("etl.yaml", ETL)
    folder.sync()
    return folder


def test_after_a_stop_an_edit_and_a_start_the_new_revision_runs(
    folder: Folder, book: Book, store: Store, clock: VirtualClock
) -> None:
    folder.registry.release()
    folder.write("etl.yaml", NEW)
    clock.advance(TEN)
    assert tick(store) == 0, "whoever ticks first"
    again = Folder(folder.path.parent, store)
    assert again.sync() == [("change", "etl")]
    assert tick(store) == 1, "the scan woke it"
    assert digests(book, store) == [book.flows.get("etl").digest]
    assert book.schedules.ledger("etl") == []


def test_a_flow_that_was_deleted_while_no_node_read_the_directory_never_runs(
    folder: Folder, book: Book, store: Store, clock: VirtualClock
) -> None:
    folder.registry.release()
    (folder.path / "etl.yaml").unlink()
    clock.advance(TEN)
    assert tick(store) == 0
    assert Folder(folder.path.parent, store).sync() == [("delete", "etl")]
    assert tick(store) == 0
    (entry,) = book.schedules.ledger("etl")
    assert (entry.due_from, entry.reason) == (clock.now, "deleted")


def test_what_waited_is_judged_by_the_first_plan_after_the_scan(
    folder: Folder, book: Book, store: Store, clock: VirtualClock
) -> None:
    folder.registry.release()
    clock.advance(TEN)
    assert tick(store) == 0
    clock.advance(30 * SECOND)
    folder.sync()
    assert tick(store) == 1, "live, though a plan came to it in vain"
    folder.registry.release()
    clock.advance(TEN)
    assert tick(store) == 0
    clock.advance(5 * MINUTE)
    folder.sync()
    assert tick(store) == 0
    (entry,) = book.schedules.ledger("etl")
    assert entry.reason == "missed"


def test_a_node_that_took_over_decides_nothing_before_it_has_scanned(
    backend: Backend, tmp_path: Path, clock: VirtualClock
) -> None:
    first, second = backend.open(), backend.open()
    mine, other = Folder(tmp_path, first), Folder(tmp_path, second)
    mine.registry.owned_by(begin(first, "node-1"))
    other.registry.owned_by(begin(second, "node-2", 60 * MINUTE))
    mine.write("etl.yaml", ETL)
    mine.sync()
    clock.advance(TEN)  # the first node is stopped, and its lease runs out
    assert tick(first) == tick(second) == 0
    assert other.registry.hold(["flows"])[0] == {"flows"}
    clock.advance(5 * MINUTE)
    other.registry.hold(["flows"])
    assert tick(first) == tick(second) == 0
    other.sync()
    clock.advance(5 * MINUTE)
    other.sync()
    assert tick(first) == 1, "any node may plan what another one reads"


def test_a_node_whose_lease_ran_out_has_to_read_the_directory_again(
    folder: Folder, store: Store, clock: VirtualClock
) -> None:
    clock.advance(TEN)  # it was stopped, and no other node took over
    assert folder.registry.hold(["flows"])[0] == {"flows"}
    assert tick(store) == 0
    folder.sync()
    assert tick(store) == 1


def test_a_schedule_of_a_person_for_a_flow_waits_as_well_and_one_for_a_command_does_not(
    folder: Folder, book: Book, store: Store, clock: VirtualClock
) -> None:
    book.schedules.create("mine", cron="*/10 * * * *", target={"flow": "etl"})
    book.schedules.create("other", cron="*/10 * * * *", target={"command": ["true"]})
    book.schedules.create("none", cron="*/10 * * * *", target={"flow": "unknown"})
    folder.registry.release()
    clock.advance(TEN)
    assert tick(store) == 2, "the command, and the flow that is in no directory"
    folder.sync()
    assert tick(store) == 2


def test_the_books_say_since_when_no_node_has_read_the_directory(
    folder: Folder, book: Book, store: Store, clock: VirtualClock
) -> None:
    read_at = clock.now
    folder.registry.release()
    clock.advance(5 * MINUTE)
    told = 'no node has read directory "flows" since Mon 2026-01-05 12:00'
    coming = explain(book, read_at + TEN)
    assert (coming.verdict, coming.reason) == ("to_come", "unattended")
    assert told in coming.text
    readiness = book.readiness()
    assert [note.code for note in readiness.notes] == ["flows"]
    assert readiness.checks["flows"]
    clock.advance(5 * MINUTE)
    tick(store)
    waiting = explain(book, clock.now)
    assert (waiting.verdict, waiting.reason) == ("waiting", "unattended")
    assert told in waiting.text
    assert "duebook flow forget flows" in waiting.text
    (problem,) = (p for p in book.readiness().problems if p.code == "flows")
    assert "1 schedule is waiting for it" in problem.message
    assert book.flows.get("etl").unread == problem.message
    folder.sync()
    assert book.flows.get("etl").unread is None
    assert not [p for p in book.readiness().problems if p.code == "flows"]


def test_the_books_balance_while_due_times_wait_for_a_scan(
    folder: Folder, store: Store, clock: VirtualClock
) -> None:
    folder.registry.release()
    clock.advance(TEN)
    tick(store)
    assert check_books(store).balanced


def test_a_takeover_that_brings_back_an_earlier_revision_is_told(
    folder: Folder, book: Book, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write("etl.yaml", NEW)
    folder.sync()
    assert book.readiness().notes == ()
    folder.registry.release()
    folder.write("etl.yaml", ETL)  # as in an older checkout
    other = Folder(folder.path.parent, store)
    with caplog.at_level(logging.WARNING):
        other.sync()
    assert "etl has an earlier revision" in caplog.text
    (note,) = book.readiness().notes
    assert "has an earlier revision of etl" in note.message
    other.write("etl.yaml", NEW)
    other.sync()
    assert book.readiness().notes == ()


def test_going_back_to_an_earlier_revision_in_an_attended_directory_is_an_edit(
    folder: Folder, book: Book
) -> None:
    for text in (NEW, ETL):
        folder.write("etl.yaml", text)
        folder.sync()
    assert book.readiness().notes == ()


def test_one_tick_reads_the_directory_plans_and_leaves(
    folder: Folder, book: Book, store: Store, clock: VirtualClock
) -> None:
    folder.registry.release()
    folder.write("etl.yaml", NEW)
    clock.advance(TEN)
    Ticker(store).step()
    assert book.flows.runs("etl") == []
    session = begin(store, "node-1")
    pauses: list[float] = []
    scan_once([folder.path], FlowRegistry(store, "default"), session, pauses.append)
    Ticker(store, session).step()
    store.transact(lambda tx: tx.nodes.end_session(session))
    assert digests(book, store) == [book.flows.get("etl").digest]
    (directory,) = store.read(lambda tx: tx.directories.list_directories())
    assert (directory.is_attended, directory.scanned_at) == (False, clock.now)


def test_a_directory_that_was_forgotten_waits_for_nobody(
    folder: Folder, book: Book, store: Store, clock: VirtualClock
) -> None:
    folder.registry.release()
    clock.advance(TEN)
    assert book.flows.forget("flows") == ["etl"]
    assert store.read(lambda tx: tx.directories.list_directories()) == []
    assert book.readiness().notes == ()


def test_a_person_may_start_a_flow_whose_directory_no_node_reads(
    folder: Folder, book: Book, clock: VirtualClock
) -> None:
    folder.registry.release()
    clock.advance(LEASE)
    assert book.flows.start("etl").origin == "manual"


def test_a_new_session_between_two_looks_at_the_terms_is_a_conflict_and_no_accident(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path, store)
    registry = folder.registry
    assert registry.hold(["flows"])[0] == {"flows"}
    transact = store.transact

    def after_another_thread(work: Any) -> Any:
        registry.owned_by("11111111-2222-7333-8444-555555555555")
        return transact(work)

    monkeypatch.setattr(store, "transact", after_another_thread)
    with pytest.raises(Conflict):
        registry.scanned(["flows"])
