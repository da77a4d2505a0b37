"""A due time that replaces the previous run: that run ends, or its node is asked to stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.builders import (
    MINUTE,
    SECOND,
    VirtualClock,
    add_schedule,
    begin,
    claim,
    claimed_run,
    get_runs,
    settle,
    tick,
)

if TYPE_CHECKING:
    from duebook.store.base import Store


def test_work_under_way_that_a_due_time_replaces_is_asked_to_stop(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock, overlap="cancel", catchup="skip", grace="10m")
    assert tick(store) == 0
    clock.advance(MINUTE)
    assert tick(store) == 1
    (own,) = store.read(lambda tx: tx.claims.own_runs("node-1"))
    assert (own.token, own.cancel_reason) == (claimed.token, "superseded")
    begin(store, "node-2")
    assert claim(store, "node-2") == [], "the newer one waits for its end"
    clock.advance(SECOND)
    assert settle(store, claimed.token, "cancelled", reason="superseded")
    (newer,) = claim(store, "node-2")
    assert newer.run.due_at == claimed.run.due_at + MINUTE  # type: ignore[operator]


def test_work_that_has_not_begun_ends_when_a_due_time_replaces_it(
    store: Store, clock: VirtualClock
) -> None:
    add_schedule(store, overlap="cancel", grace="10m")
    for fired in (1, 1):
        clock.advance(MINUTE)
        assert tick(store) == fired
    newer, older = sorted(get_runs(store), key=lambda run: run.created_at, reverse=True)
    assert newer.status == "queued"
    assert (older.status, older.reason) == ("cancelled", "superseded")
