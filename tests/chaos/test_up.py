"""`duebook up` as people start it, on PostgreSQL: from schedule to run, alone or with others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.store.postgres import PostgresStore
from tests.chaos.fleet import QUICK
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.chaos.fleet import Fleet

HOUR = timedelta(hours=1)


def add_hourly(fleet: Fleet, name: str, **definition: Any) -> datetime:
    """A schedule that was created an hour ago and has just become due; returns when it did."""
    made_at = datetime.now(UTC) - HOUR
    target = {"shell": QUICK, "env": {"WORK_MARK": fleet.world.mark}}
    with Book(PostgresStore(fleet.url, lambda: made_at)) as book:
        made = book.schedules.create(name, trigger={"every": "1h"}, target=target, **definition)
    assert made.next_due_at is not None
    return made.next_due_at


def test_a_schedule_becomes_due_and_is_executed_once(fleet: Fleet) -> None:
    due = add_hourly(fleet, "job")
    book = fleet.world.book
    assert book.runs.list("job") == []
    fleet.up()
    fleet.world.wait_evidence("end", "job")
    (run,) = book.runs.list("job")
    fleet.world.wait_for(run.id, "succeeded")
    following = book.schedules.get("job").next_due_at
    assert run.due_at == due
    assert following is not None
    assert following > datetime.now(UTC)
    fleet.end()
    assert len(fleet.world.evidence("start", "job")) == 1


@pytest.mark.parametrize("nodes", [3, pytest.param(5, marks=pytest.mark.long)])
def test_several_nodes_execute_each_due_time_once(fleet: Fleet, nodes: int) -> None:
    add_hourly(fleet, "once", max_runs=1)
    fleet.load(("all-1", "all-2", "cron", "queue", "skip", "latest"))
    for _ in range(nodes):
        fleet.start_up()
    for member in fleet.members:
        member.process.wait_ready()
    fleet.world.wait_evidence("end", "once")
    fleet.wait_more("all-1", 3)
    eventually(lambda: len({e.node for e in fleet.world.evidence()}) > 1)  # they share the work
    fleet.settle_accounts()
    assert len(fleet.world.book.runs.list("once")) == 1


def test_a_paused_schedule_waits_and_a_resumed_one_goes_on(fleet: Fleet) -> None:
    fleet.world.add("other", QUICK, trigger={"every": "1s"}, overlap="allow")
    fleet.world.add("job", QUICK, trigger={"every": "1s"}, overlap="allow")
    fleet.up()
    fleet.world.wait_evidence("start", "job", 2)
    paused = fleet.world.book.schedules.pause("job")
    fleet.seen.paused.add("job")
    assert paused.paused_at is not None
    since = paused.paused_at.timestamp() + 2
    eventually(lambda: any(line.due > since for line in fleet.world.evidence("start", "other")))
    runs = fleet.world.book.runs.list("job")
    assert all(run.due_at and run.due_at <= paused.paused_at for run in runs)
    fleet.world.book.schedules.resume("job")
    fleet.wait_more("job", 2)
    fleet.end()
    reasons = {entry.reason for entry in fleet.world.book.schedules.ledger("job")}
    assert reasons == {"paused"}
    queued = [run["id"] for run in fleet.books().runs if run["status"] == "queued"]
    assert [text for text in fleet.verdict() if not any(run in text for run in queued)] == []
