"""What SQLite promises of ends that come together: their order, and the first of two counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.model.consumer import new_consumer
from duebook.model.run import Outcome
from duebook.store.sqlite import SqliteStore
from tests.support.builders import VirtualClock, add_run, add_schedule, begin, claim, get_run

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.model.run import Claim


def claimed_runs(store: SqliteStore, number: int) -> list[Claim]:
    schedule = add_schedule(store, overlap="allow")
    for _ in range(number):
        add_run(store, schedule)
    begin(store)
    return claim(store)


def test_of_two_ends_of_one_attempt_the_first_counts(path: Path) -> None:
    store = SqliteStore(path, VirtualClock())
    claims = claimed_runs(store, 3)
    done, failed = Outcome("succeeded"), Outcome("failed", "error", "late")
    ended = [(claimed.token, end) for end in (done, failed) for claimed in claims]
    settled = store.transact(lambda tx: tx.attempts.settle_all(ended))
    assert settled == {claimed.token for claimed in claims}
    runs = [get_run(store, claimed.run.id) for claimed in claims]
    assert {(run.status, run.failures) for run in runs} == {("succeeded", 0)}
    store.close()


def test_ends_are_told_in_the_order_in_which_they_came(path: Path) -> None:
    store = SqliteStore(path, VirtualClock())
    claims = claimed_runs(store, 6)
    watcher = new_consumer("default", "watcher", "group", ["duebook.runs"], 1, 1)
    store.transact(lambda tx: tx.consumers.save_consumer(watcher, 0))
    done, failed = Outcome("succeeded"), Outcome("failed", "error", "it broke")
    order = [claims[place] for place in (3, 0, 5, 1, 4, 2)]
    ended = [(claimed.token, failed if n % 3 else done) for n, claimed in enumerate(order)]
    store.transact(lambda tx: tx.attempts.settle_all(ended))
    topics = ("duebook.runs",)
    batch = store.read(lambda tx: tx.events.read_events("default", 0, 100, topics))
    assert [event.data["run"] for event in batch.events] == [c.run.id for c in order]
    store.close()
