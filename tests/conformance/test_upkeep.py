"""Upkeep: deleting what is old, and reporting what is stored."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.errors import NotFound
from duebook.model.run import LogLine
from duebook.store.values import Place
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    claimed_run,
    get_ledger,
    get_run,
    get_runs,
    lose,
    settle,
    tick,
)
from tests.support.retention import Purged, purge_all

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.store.base import Store
    from tests.support.backends import Backend

DAY = timedelta(days=1)


def purge(store: Store, before: datetime, limit: int = 100) -> int:
    return store.transact(lambda tx: purge_all(tx, before, limit).number)


def test_runs_that_ended_long_ago_are_forgotten_with_their_logs_and_attempts(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    line = LogLine(BEGIN, "stdout", "text")
    store.transact(lambda tx: tx.attempts.append_log(claimed.token, 1, [line]))
    lose(store, "node-1")
    (again,) = claim(store, begin(store, "node-2"))
    settle(store, again.token)
    ended_at = clock.now
    assert purge(store, ended_at) == 0
    assert get_run(store, claimed.run.id).status == "succeeded"
    assert purge(store, ended_at + timedelta(microseconds=1)) == 2, "and the node that was lost"
    with pytest.raises(NotFound):
        get_run(store, claimed.run.id)
    for table in ("runs", "run_logs", "run_attempts"):
        assert backend.rows(f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608


def test_runs_that_have_not_ended_are_kept_however_old(store: Store, clock: VirtualClock) -> None:
    claimed_run(store, clock, overlap="allow")
    add_run(store, add_schedule(store, "other"))
    clock.advance(1_000 * DAY)
    assert purge(store, clock.now) == 0
    assert sorted(run.status for run in get_runs(store)) == ["queued", "running"]


def test_old_entries_of_the_ledger_are_forgotten(store: Store, clock: VirtualClock) -> None:
    schedule_id = add_schedule(store, catchup="one", overlap="allow", grace="0s")
    for _ in range(2):
        clock.advance(DAY + SECOND)
        tick(store)
    assert purge(store, clock.now) == 1
    assert [entry.at for entry in get_ledger(store, schedule_id)] == [clock.now]


def test_a_purge_takes_the_oldest_first_and_no_more_than_its_limit(
    store: Store, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store)
    for _ in range(5):
        clock.advance(SECOND)
        begin(store, f"node-{clock.now}")
        add_run(store, schedule_id)
        settle(store, claim(store, f"node-{clock.now}")[0].token)
    kept = [run.id for run in get_runs(store)]
    assert purge(store, clock.now + DAY, limit=2) == 2
    assert [run.id for run in get_runs(store)] == kept[:3]


def test_a_purge_goes_on_where_the_last_one_ended(store: Store, clock: VirtualClock) -> None:
    schedule_id = add_schedule(store, overlap="allow")
    begin(store, lease=DAY)
    for _ in range(5):
        clock.advance(SECOND)
        add_run(store, schedule_id)
        settle(store, claim(store)[0].token)
    ended = sorted(run.finished_at for run in get_runs(store) if run.finished_at is not None)
    first = store.transact(lambda tx: purge_all(tx, clock.now + DAY, 2))
    assert first.number == 2
    assert first.after is not None
    assert first.after.at == ended[1]
    last = Place(ended[3], sys.maxsize)
    behind = store.transact(lambda tx: purge_all(tx, clock.now + DAY, 2, last))
    assert behind == Purged(1, None), "the two before it are somebody else's"
    rest = store.transact(lambda tx: purge_all(tx, clock.now + DAY, 9, first.after))
    assert rest == Purged(2, None)
    assert get_runs(store) == []


def test_a_purge_of_runs_and_entries_together_keeps_its_limit(
    store: Store, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(store, catchup="skip", grace="0s")
    begin(store, lease=DAY)
    for _ in range(3):
        clock.advance(10 * MINUTE)
        tick(store)
        for claimed in claim(store):
            settle(store, claimed.token)
    assert len(get_runs(store)) == len(get_ledger(store, schedule_id)) == 3
    assert purge(store, clock.now + DAY, limit=2) == 2


def test_a_due_time_whose_run_was_forgotten_does_not_run_again(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    settle(store, claimed.token)
    purge(store, clock.now + DAY)
    assert tick(store) == 0
    clock.advance(MINUTE)
    assert tick(store) == 1
    assert [run.due_at for run in get_runs(store)] == [BEGIN + 2 * MINUTE]


def test_the_inventory_tells_what_is_there_who_works_and_what_waits(
    store: Store, clock: VirtualClock
) -> None:
    empty = store.read(lambda tx: tx.status.inventory())
    assert (empty.schedules, empty.runs, empty.nodes, empty.waits_since) == ({}, 0, (), None)
    claimed = claimed_run(store, clock)
    line = LogLine(BEGIN, "stdout", "text")
    store.transact(lambda tx: tx.attempts.append_log(claimed.token, 1, [line]))
    add_run(store, claimed.run.schedule_id or "")
    clock.advance(MINUTE)
    found = store.read(lambda tx: tx.status.inventory())
    assert found.schedules == {"active": 1}
    assert found.active_runs == {"queued": 1, "running": 1}
    assert (found.runs, found.entries, found.log_lines) == (2, 0, 1)
    assert found.waits_since == found.now - MINUTE
    assert found.wake_at == BEGIN + 2 * MINUTE
    assert found.nodes == ()
    begin(store, "node-2")
    assert store.read(lambda tx: tx.status.inventory()).nodes == (
        ("host-of-node-2", "worker", "0"),
    )
