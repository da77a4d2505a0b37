"""Settling: only the current token ends a run, once; handing back; waking the schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.model.run import Outcome, Token
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
    get_run,
    lose,
    settle,
    tick,
)

if TYPE_CHECKING:
    from duebook.store.base import Store
    from tests.support.backends import Backend


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("succeeded", exit_code=0),
        Outcome("failed", "exit_code", "it broke", 3),
        Outcome("cancelled", "cancelled", None, -15),
    ],
)
def test_a_settled_run_has_ended_as_the_outcome_says(
    store: Store, clock: VirtualClock, outcome: Outcome
) -> None:
    claimed = claimed_run(store, clock)
    now = clock.advance(SECOND)
    assert store.transact(lambda tx: tx.attempts.settle(claimed.token, outcome))
    run = get_run(store, claimed.run.id)
    assert (run.status, run.reason, run.error, run.exit_code) == (
        outcome.status,
        outcome.reason,
        outcome.error,
        outcome.exit_code,
    )
    assert (run.finished_at, run.node, run.attempt) == (now, "host-of-node-1", 1)


def test_settling_again_is_harmless_and_changes_nothing(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    assert settle(store, claimed.token, "failed", reason="first")
    before = get_run(store, claimed.run.id)
    clock.advance(SECOND)
    assert settle(store, claimed.token, "failed", reason="first")
    assert settle(store, claimed.token, "succeeded")
    assert get_run(store, claimed.run.id) == before


def test_only_the_current_token_settles(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    begin(store, "node-2")
    run_id = claimed.run.id
    for wrong in (
        Token(run_id, 0, "node-1"),
        Token(run_id, 2, "node-1"),
        Token(run_id, 1, "node-2"),
        Token("no-such-run", 1, "node-1"),
    ):
        assert not settle(store, wrong)
    assert get_run(store, run_id).status == "running"


def test_a_queued_run_cannot_be_settled(store: Store) -> None:
    run_id = add_run(store, add_schedule(store))
    begin(store)
    for attempt in (0, 1):
        assert not settle(store, Token(run_id, attempt, "node-1"))
    assert get_run(store, run_id).status == "queued"


def test_a_wrong_token_does_not_settle_a_run_that_has_ended(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    settle(store, claimed.token)
    assert not settle(store, Token(claimed.run.id, 1, "node-2"))
    assert not settle(store, Token(claimed.run.id, 2, "node-1"))


def test_a_late_settle_after_the_takeover_is_refused(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    lose(store, "node-1")
    assert not settle(store, claimed.token)
    assert get_run(store, claimed.run.id).status == "queued"
    begin(store, "node-2")
    (again,) = claim(store, "node-2")
    assert not settle(store, claimed.token)
    assert get_run(store, claimed.run.id).status == "running"
    assert settle(store, again.token, "failed")
    assert not settle(store, claimed.token)
    assert get_run(store, claimed.run.id).status == "failed"


def test_a_late_settle_does_not_change_a_run_that_failed_as_poison(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock, max_takeovers=0)
    lose(store, "node-1")
    before = get_run(store, claimed.run.id)
    settle(store, claimed.token)
    assert get_run(store, claimed.run.id) == before


def test_the_owner_settles_until_it_is_taken_over_even_with_its_lease_run_out(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    clock.advance(LEASE)
    assert settle(store, claimed.token)
    assert get_run(store, claimed.run.id).status == "succeeded"


def test_the_first_settle_wins_over_a_request_to_cancel(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    assert store.transact(lambda tx: tx.runs.cancel(claimed.run.id, "cancelled")) == "requested"
    assert settle(store, claimed.token, "succeeded")
    assert get_run(store, claimed.run.id).status == "succeeded"


@pytest.mark.parametrize("text", ["a\0b", "lone \udc80 surrogate", "'; --", "\x1b"])
def test_a_settle_survives_any_error_text(store: Store, clock: VirtualClock, text: str) -> None:
    claimed = claimed_run(store, clock)
    assert settle(store, claimed.token, "failed", error=text)
    assert get_run(store, claimed.run.id).status == "failed"


# -- handing back


def test_a_run_that_is_handed_back_begins_anew(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    now = clock.advance(SECOND)
    assert store.transact(lambda tx: tx.attempts.hand_back(claimed.token))
    run = get_run(store, claimed.run.id)
    assert (run.status, run.losses, run.node) == ("queued", 0, None)
    kept = (claimed.run.ready_at, None, None)
    assert (run.ready_at, run.claimed_at, run.started_at) == kept, "it keeps its place"
    (attempt,) = store.read(lambda tx: tx.runs.list_attempts(run.id))
    assert (attempt.number, attempt.outcome, attempt.finished_at) == (1, "handed_back", now)
    assert attempt.node == "host-of-node-1"
    (again,) = claim(store)
    assert again.run.id == claimed.run.id
    assert again.token != claimed.token


def test_a_token_is_worth_nothing_after_its_run_was_handed_back(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    store.transact(lambda tx: tx.attempts.hand_back(claimed.token))
    assert not store.transact(lambda tx: tx.attempts.hand_back(claimed.token))
    assert not settle(store, claimed.token)
    (again,) = claim(store)
    assert not store.transact(lambda tx: tx.attempts.hand_back(claimed.token))
    assert not settle(store, claimed.token)
    assert settle(store, again.token)
    assert not store.transact(lambda tx: tx.attempts.hand_back(again.token))


def test_a_run_that_was_to_be_cancelled_does_not_start_again_after_it_was_handed_back(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    store.transact(lambda tx: tx.runs.cancel(claimed.run.id, "cancelled"))
    store.transact(lambda tx: tx.attempts.hand_back(claimed.token))
    assert claim(store) == []
    assert get_run(store, claimed.run.id).status == "cancelled"


# -- waking


def wake_at(backend: Backend) -> object:
    return backend.rows("SELECT wake_at FROM schedule_state")[0][0]


@pytest.mark.parametrize("trigger", [{}, {"trigger": {"at": (BEGIN + MINUTE).isoformat()}}])
def test_a_settle_wakes_the_schedule_only_when_the_run_says_so(
    store: Store, backend: Backend, clock: VirtualClock, trigger: dict[str, Any]
) -> None:
    claimed = claimed_run(store, clock, **trigger)
    before = wake_at(backend)
    clock.advance(SECOND)
    settle(store, claimed.token)
    assert (wake_at(backend) != before) == bool(trigger)
    woken = store.transact(lambda tx: tx.plans.take(10).snapshots)
    assert len(woken) == bool(trigger)


def test_a_settle_that_is_refused_wakes_nobody(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock, trigger={"at": (BEGIN + MINUTE).isoformat()})
    before = wake_at(backend)
    clock.advance(SECOND)
    assert not settle(store, Token(claimed.run.id, 9, "node-1"))
    assert wake_at(backend) == before


def test_waking_never_delays_a_schedule_that_is_overdue(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    begin(store)
    add_run(store, add_schedule(store))
    (claimed,) = claim(store)
    clock.advance(2 * MINUTE)
    before = wake_at(backend)
    settle(store, claimed.token)
    assert wake_at(backend) == before
    assert tick(store) == 1


def test_of_two_attempts_of_a_run_the_current_one_is_settled(
    store: Store, clock: VirtualClock
) -> None:
    old = claimed_run(store, clock).token
    assert store.transact(lambda tx: tx.attempts.hand_back(old))
    (current,) = (claimed.token for claimed in claim(store))
    succeeded = Outcome("succeeded")
    ended = [(current, succeeded), (old, succeeded)]
    assert store.transact(lambda tx: tx.attempts.settle_all(ended)) == {current}
