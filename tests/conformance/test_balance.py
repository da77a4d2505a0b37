"""The database check: silent about a good database, and reports each manipulation."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.balance import audit, check_books
from duebook.errors import NotFound
from duebook.model.run import LogLine, Outcome
from duebook.settings import RETENTION
from duebook.store.values import SessionInfo
from tests.support.backends import not_in_memory
from tests.support.builders import (
    BEGIN,
    LEASE,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    claimed_run,
    get_ledger,
    lose,
    settle,
    tick,
)
from tests.support.histories import History
from tests.support.retention import purge_all

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.finding import Finding
    from duebook.store.base import Store
    from tests.support.backends import Backend

HOUR = 60 * MINUTE


def problems(store: Store, deep: bool = False) -> list[Finding]:
    return [finding for finding in check_books(store, deep).findings if finding.problem]


def notes(store: Store, deep: bool = False) -> list[str]:
    """The notes, except those about the server that the tests use."""
    findings = check_books(store, deep).findings
    return [str(f) for f in findings if not f.problem and "may lose" not in f.text]


# -- good databases


def test_empty_books_balance(store: Store) -> None:
    checked = check_books(store)
    assert checked.balanced
    assert (checked.schedules, checked.due_times, checked.complete) == (0, 0, True)
    assert notes(store, deep=True) == []


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 12))]
)
def test_whatever_happened_the_books_balance_and_what_is_taken_out_is_missed(
    book: Book, backend: Backend, clock: VirtualClock, seed: int
) -> None:
    history = History(book, clock, 1_000 + seed)
    for _ in range(50):
        history.step()
    assert problems(book.store) == problems(book.store, deep=True) == []
    runs = [run for run in book.runs.list(limit=1_000) if run.origin in ("schedule", "catchup")]
    for run in history.rnd.sample(runs, min(3, len(runs))):
        entries = get_ledger(book.store, run.schedule_id or "")
        if any(entry.due_from <= (run.due_at or BEGIN) <= entry.due_to for entry in entries):
            continue
        backend.write("DELETE FROM run_logs WHERE run_id = ?", run.id)
        backend.write("DELETE FROM run_attempts WHERE run_id = ?", run.id)
        backend.write("DELETE FROM runs WHERE id = ?", run.id)
        if not regular(book, run.schedule_id or "", run.due_at):
            continue
        found = problems(book.store, deep=True)
        assert any(f.due_at and f.due_at <= (run.due_at or BEGIN) for f in found), run
        assert {f.rule for f in found} == {"I2"}


def regular(book: Book, schedule_id: str, due_at: Any) -> bool:
    """Whether the definition yields this due time, so that it was not moved there."""
    from duebook.balance.due_times import windows_of

    (account,) = book.store.read(
        lambda tx: [a for a in tx.checks.list_accounts("", 100) if a.id == schedule_id]
    )
    windows = windows_of(account, BEGIN - HOUR)
    return any(w.after < due_at <= w.until and w.due.knows(due_at) for w in windows)


def test_due_times_are_expected_from_creation_to_the_watermark(
    store: Store, clock: VirtualClock
) -> None:
    add_schedule(store, overlap="allow", catchup="all", catchup_pace="0s")
    clock.advance(10 * MINUTE)
    tick(store)
    clock.advance(MINUTE)
    checked = check_books(store)
    assert (checked.due_times, checked.balanced) == (10, True), "the eleventh is not decided"


def test_what_retention_forgot_is_not_missed(store: Store, clock: VirtualClock) -> None:
    hourly = {"every": "1h", "anchor": "2026-01-05T12:00:00Z"}
    add_schedule(store, trigger=hourly, overlap="allow", catchup="all", catchup_pace="0s")
    begin(store, lease=timedelta(days=400))
    clock.advance(48 * HOUR)
    tick(store)
    for claimed in claim(store, limit=100):
        settle(store, claimed.token)
    clock.advance(RETENTION)
    tick(store)
    store.transact(lambda tx: purge_all(tx, tx.now - RETENTION + SECOND, 1_000))
    assert problems(store, deep=True) == []


def test_books_with_work_under_way_balance(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    add_run(store, claimed.run.schedule_id or "")
    clock.advance(SECOND)
    assert problems(store, deep=True) == []
    lose(store, "node-1")
    assert problems(store, deep=True) == []


# -- what triggers reveal


def decided(store: Store, clock: VirtualClock, **definition: Any) -> str:
    """Ten minutes of a schedule: five runs, then five due times that were skipped."""
    schedule_id = add_schedule(store, **{"overlap": "allow"} | definition)
    for _ in range(5):
        clock.advance(MINUTE)
        tick(store)
    clock.advance(6 * MINUTE)
    store.transact(lambda tx: tx.now)
    return schedule_id


def at(minute: int) -> Any:
    return BEGIN + minute * MINUTE


def forget_run(backend: Backend, number: int) -> None:
    """The run of that due time, counted from the first."""
    ordered = f"SELECT id FROM runs ORDER BY due_at LIMIT 1 OFFSET {number - 1}"  # noqa: S608
    ((run_id,),) = backend.rows(ordered)
    backend.write("DELETE FROM runs WHERE id = ?", run_id)


def test_a_due_time_without_run_and_entry_is_named(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    decided(store, clock)
    forget_run(backend, 3)
    (found,) = problems(store)
    assert (found.rule, found.schedule, found.due_at) == ("I2", "job", at(3))
    assert str(found) == "job 2026-01-05 12:03:00 UTC: did not run and is not in the ledger"


def test_a_row_of_due_times_without_account_is_one_finding(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    decided(store, clock)
    forget_run(backend, 4)
    forget_run(backend, 3)
    (found,) = problems(store)
    assert found.due_at == at(3)
    assert "up to 2026-01-05 12:04:00 UTC" in found.text


def test_an_entry_that_is_gone_is_missed(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    add_schedule(store, overlap="allow", catchup="skip")
    clock.advance(10 * MINUTE)
    tick(store)
    assert problems(store) == []
    backend.write("DELETE FROM ledger")
    (found,) = problems(store)
    assert found.due_at == at(1)


def test_an_entry_that_was_shortened_leaves_a_gap(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    add_schedule(store, overlap="allow", catchup="skip")
    clock.advance(10 * MINUTE)
    tick(store)
    backend.write("UPDATE ledger SET due_to = due_to - 60 * {second}")
    found = {finding.due_at: finding.text for finding in problems(store)}
    assert "did not run" in found[at(8)], "grace lets only the last two run"
    assert "8 due times are recorded as missed, out of 7" in found[at(1)]


@pytest.mark.parametrize("count", [7, 9])
def test_an_entry_that_miscounts_its_due_times_is_reported(
    store: Store, backend: Backend, clock: VirtualClock, count: int
) -> None:
    add_schedule(store, overlap="allow", catchup="skip")
    clock.advance(10 * MINUTE)
    tick(store)
    backend.write("UPDATE ledger SET count = ?", count)
    (found,) = problems(store)
    assert str(found) == (
        f"job 2026-01-05 12:01:00 UTC: {count} due times are recorded as missed, out of 8"
    )


def test_each_version_is_asked_about_its_own_time(
    book: Book, backend: Backend, clock: VirtualClock
) -> None:
    store = book.store
    schedule_id = decided(store, clock, catchup="all", catchup_pace="0s")
    tick(store)
    book.schedules.update(schedule_id, trigger={"every": "5m", "anchor": "2026-01-05T12:00:00Z"})
    clock.advance(20 * MINUTE)
    tick(store)
    assert problems(store) == []
    forget_run(backend, 11)
    forget_run(backend, 2)
    assert [found.due_at for found in problems(store)] == [at(2), at(11)]


def test_a_deleted_schedule_is_checked_up_to_its_end(
    book: Book, backend: Backend, clock: VirtualClock
) -> None:
    decided(book.store, clock)
    book.schedules.delete("job")
    assert problems(book.store) == []
    backend.write("DELETE FROM ledger WHERE reason = 'deleted'")
    (found,) = problems(book.store)
    assert found.due_at == at(6)


def test_a_range_that_covers_a_due_time_which_ran_is_reported(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    decided(store, clock)
    backend.write(
        "INSERT INTO ledger (schedule_id, version, due_from, due_to, count, exact, verdict, "
        "reason, facts, at) SELECT schedule_id, 1, min(due_at) - 60 * {second}, "
        "max(due_at) + 60 * {second}, 7, true, 'skipped', 'overlap', '{}', max(created_at) "
        "FROM runs GROUP BY schedule_id"
    )
    found = problems(store)
    assert [f.due_at for f in found] == [at(n) for n in range(1, 6)]
    assert all("also recorded as overlap" in f.text and f.run_id for f in found)


def test_a_schedule_that_wakes_too_late_is_reported(store: Store, backend: Backend) -> None:
    add_schedule(store)
    backend.write("UPDATE schedule_state SET wake_at = wake_at + 3600 * {second}")
    (found,) = problems(store)
    assert "will be planned only at 2026-01-05 13:01:00 UTC" in str(found)
    assert found.due_at == at(1)


# -- how much is checked


def test_a_check_that_is_not_deep_looks_at_the_newest_and_says_so(
    store: Store, backend: Backend, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided(store, clock, catchup="all", catchup_pace="0s")
    tick(store)
    forget_run(backend, 2)
    assert len(problems(store)) == 1
    monkeypatch.setattr(audit, "MOST_EACH", 5)
    checked = check_books(store)
    assert (checked.complete, checked.due_times, checked.balanced) == (False, 5, True)
    monkeypatch.setattr(audit, "SLICE", 3)
    deep = check_books(store, deep=True)
    assert (deep.complete, deep.due_times, deep.balanced) == (True, 11, False)
    monkeypatch.setattr(audit, "MOST", 0)
    assert not check_books(store).complete


def test_what_is_older_than_a_day_is_for_a_deep_check(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    decided(store, clock)
    forget_run(backend, 2)
    clock.advance(25 * HOUR)
    assert problems(store) == []
    assert len(problems(store, deep=True)) == 1


# -- what the tables reveal


STRANGER = "UPDATE runs SET session_id = 'nobody'"
RECORDED = """
    INSERT INTO ledger (schedule_id, version, due_from, due_to, count, exact, verdict, reason,
        facts, at)
    SELECT schedule_id, 1, due_at, due_at, 1, true, 'skipped', 'missed', '{}', created_at FROM runs
"""
ATTEMPT = """
    INSERT INTO run_attempts (run_id, attempt, session_id, claimed_at, finished_at, outcome)
    SELECT id, 7, 'node-1', created_at, created_at, 'lost' FROM runs
"""
LATE_LOG = """
    INSERT INTO run_logs (run_id, attempt, seq, at, stream, text)
    SELECT id, 9, 1, created_at, 'stdout', 'late' FROM runs
"""
CROWDED = """
    INSERT INTO queues (name, concurrency) VALUES ('default', 0)
"""
EVENT = """
    INSERT INTO events (id, namespace, topic, type, key, slot, aggregate, version, data, meta, at,
        position)
    SELECT 'e{n}', 'default', 't', 't', 'k', 1, 'job', {n}, '{{}}', '{{}}', created_at, {position}
    FROM runs
"""


@pytest.mark.parametrize(
    ("damages", "rule", "words"),
    [
        (["UPDATE runs SET started_at = due_at - {second}"], "I7", "before it was due"),
        (["UPDATE runs SET created_at = due_at - {second}"], "I7", "was queued at"),
        (["UPDATE schedule_state SET next_due_at = watermark"], "I2", "already decided"),
        (["UPDATE schedule_state SET wake_at = NULL"], "I2", "no node will plan it"),
        ([RECORDED], "I2", "also recorded as missed"),
        ([STRANGER], "I8", "session nobody, which is not in the database"),
        ([ATTEMPT], "I4", "1 attempts are on record"),
        (["UPDATE runs SET losses = 2"], "I4", "has 2 losses, but 0 are on record"),
        ([LATE_LOG], "I4", "a log of attempt 9, but is in attempt 1"),
        (["DELETE FROM schedule_state"], "I6", "has no state"),
        (["UPDATE schedules SET version = 2"], "I6", "is at version 2, but version 1"),
        (["UPDATE schedules SET version = 2"], "I6", "has no definition of version 2"),
        (["DELETE FROM schedule_revisions"], "I6", "belongs to version 1, which has no"),
        (["UPDATE schedules SET deleted_at = created_at"], "I6", "was deleted, but is still"),
        (
            [EVENT.format(n=1, position=8), EVENT.format(n=2, position=7)],
            "I5",
            "event e1 comes after a later event of job",
        ),
        (
            [EVENT.format(n=1, position=1), EVENT.format(n=3, position=2)],
            "I5",
            "of job: 1 of 3 events are missing",
        ),
    ],
)
def test_damage_is_reported(
    store: Store,
    backend: Backend,
    clock: VirtualClock,
    damages: list[str],
    rule: str,
    words: str,
) -> None:
    claimed_run(store, clock)
    assert problems(store, deep=True) == []
    for damage in damages:
        backend.write(damage)
    found = [finding for finding in problems(store, deep=True) if words in str(finding)]
    assert [finding.rule for finding in found] == [rule], problems(store, deep=True)


def test_two_runs_that_exclude_each_other_are_reported(store: Store, backend: Backend) -> None:
    schedule_id = add_schedule(store)
    for _ in range(2):
        add_run(store, schedule_id)
    begin(store)
    claim(store)
    backend.write(
        "UPDATE runs SET status = 'running', session_id = 'node-1', attempt = 1, "
        "claimed_at = created_at, started_at = created_at"
    )
    (found,) = problems(store)
    assert (found.rule, str(found)) == (
        "I3",
        "job: 2 runs that exclude each other are running",
    )


def test_runs_that_were_under_way_together_are_reported(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    begin(store, lease=HOUR)
    for _ in range(2):
        add_run(store, schedule_id)
        (claimed,) = claim(store)
        clock.advance(MINUTE / 2)
        settle(store, claimed.token)
    assert problems(store) == []
    backend.write(
        "UPDATE runs SET started_at = started_at - 20 * {second} WHERE id = ?", claimed.run.id
    )
    (found,) = problems(store)
    assert (found.rule, found.run_id) == ("I3", claimed.run.id)


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
def test_a_due_time_with_two_runs_is_reported(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    """Only where the table's unique index can be dropped."""
    decided(store, clock)
    backend.write("DROP INDEX runs_due")
    backend.write("UPDATE runs SET due_at = ? WHERE due_at = ?", at(1), at(2))
    found = problems(store, deep=True)
    assert ("I1", at(1), "has 2 runs") in [(f.rule, f.due_at, f.text) for f in found]


def test_a_dead_node_s_run_is_a_note_until_somebody_should_have_taken_it_over(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    clock.advance(LEASE)
    (note,) = notes(store)
    assert claimed.run.id[:13] in note
    assert "was left by host-of-node-1, and no node is running" in note
    begin(store, "node-2", lease=HOUR)
    assert "will take it over soon" in notes(store)[0]
    clock.advance(2 * LEASE)
    (found,) = problems(store)
    assert (found.rule, found.run_id) == ("I8", claimed.run.id)
    lose(store, "node-1")
    assert problems(store) == []


def test_an_overdue_schedule_is_a_note_unless_a_scheduler_is_running(
    store: Store, clock: VirtualClock
) -> None:
    add_schedule(store)
    add_schedule(store, "other")
    clock.advance(2 * MINUTE)
    assert notes(store) == []
    clock.advance(SECOND)
    (note,) = notes(store)
    assert "and 1 more: overdue for 1m1s, and no scheduler is running" in note
    info = SessionInfo("node-1", "host", 1, "scheduler,worker", "0", "2026a")
    store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))
    assert {(f.rule, f.schedule) for f in problems(store)} == {("I2", "job"), ("I2", "other")}


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE schedule_state SET problem = 'no such task'", "cannot be planned: no such task"),
        ("UPDATE schedule_revisions SET spec = '{}'", "this node cannot read"),
        (
            CROWDED,
            "queue default: 1 runs are running, 0 are allowed",
        ),
        ("UPDATE schedule_state SET watermark = watermark + 30 * {second}", "in the future"),
    ],
)
def test_what_only_looks_odd_is_a_note(
    store: Store, backend: Backend, clock: VirtualClock, damage: str, words: str
) -> None:
    claimed_run(store, clock)
    assert notes(store) == []
    backend.write(damage)
    assert any(words in note for note in notes(store)), notes(store)


def test_a_run_that_ended_before_it_began_is_a_note(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    store.transact(lambda tx: tx.attempts.settle(claimed.token, Outcome("failed")))
    backend.write("UPDATE runs SET finished_at = started_at - {second}")
    assert any("clock set back" in note for note in notes(store)), notes(store)


def test_more_runs_of_a_schedule_than_it_allows_are_a_note(store: Store, backend: Backend) -> None:
    schedule_id = add_schedule(store, overlap="allow", max_concurrent=2)
    for _ in range(2):
        add_run(store, schedule_id)
    begin(store)
    claim(store)
    backend.write("UPDATE runs SET max_concurrent = 1")
    assert notes(store) == ["job: 2 runs are running, 1 are allowed: was the limit lowered?"]
    assert problems(store) == []


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
def test_a_server_that_may_forget_is_a_note(store: Store) -> None:
    found = [finding for finding in check_books(store).findings if finding.rule == "I6"]
    assert {finding.text.split()[-3] for finding in found} == {
        "fsync",
        "full_page_writes",
        "synchronous_commit",
    }


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_reference_to_nothing_is_reported(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    store.transact(
        lambda tx: tx.attempts.append_log(claimed.token, 1, [LogLine(BEGIN, "stdout", "x")])
    )
    backend.write("UPDATE run_logs SET run_id = 'nothing'")
    assert problems(store) == []
    assert "run_logs" in str(problems(store, deep=True)[0])


# -- effects on others


def test_a_check_sees_one_instant_and_holds_nobody_up(
    backend: Backend, clock: VirtualClock
) -> None:
    not_in_memory(backend)
    others = backend.open()
    claimed = claimed_run(others, clock)

    def meanwhile(tx: Any) -> bool:
        before = tx.checks.check(True)
        assert settle(others, claimed.token)
        clock.advance(MINUTE)
        tick(others)
        with pytest.raises(NotFound):
            tx.runs.get_run("nothing")
        return [f for f in tx.checks.check(True) if f.problem] == [f for f in before if f.problem]

    assert backend.open().read(meanwhile)
