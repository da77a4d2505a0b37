"""Failed attempts that are followed by others: by policy, or on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.engine.settling import conclude
from duebook.errors import Conflict, NotFound
from duebook.ids import new_id
from duebook.model.run import Outcome
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
    find_work,
    get_ledger,
    get_run,
    get_runs,
    lose,
    settle,
    tick,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from duebook.book import Book
    from duebook.model.run import Claim, Token
    from duebook.store.base import Store

FAILED = Outcome("failed", "exit", "it broke", 3)


def fail(store: Store, token: Token, retry_after: timedelta | None = SECOND) -> bool:
    return store.transact(lambda tx: tx.attempts.settle(token, FAILED, retry_after))


def attempts(store: Store, run_id: str) -> list[tuple[int, str, str | None, int | None]]:
    found = store.read(lambda tx: tx.runs.list_attempts(run_id))
    return [(a.number, a.outcome, a.error, a.exit_code) for a in found]


# -- settle with retry_after


def test_a_failed_attempt_is_recorded_and_the_run_waits_for_the_next(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    now = clock.advance(SECOND)
    assert fail(store, claimed.token, 30 * SECOND)
    run = get_run(store, claimed.run.id)
    assert (run.status, run.attempt, run.failures, run.losses) == ("queued", 1, 1, 0)
    assert (run.ready_at, run.finished_at, run.node) == (now + 30 * SECOND, None, None)
    assert (run.reason, run.error, run.exit_code) == ("exit", "it broke", 3)
    assert attempts(store, run.id) == [(1, "failed", "it broke", 3)]
    (attempt,) = store.read(lambda tx: tx.runs.list_attempts(run.id))
    assert (attempt.node, attempt.finished_at) == ("host-of-node-1", now)


def test_the_next_attempt_begins_when_its_time_has_come(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    fail(store, claimed.token, 10 * SECOND)
    clock.advance(10 * SECOND - SECOND)
    assert claim(store) == []
    assert find_work(store, ["default"]).next_at == clock.now + SECOND
    clock.advance(SECOND)
    (again,) = claim(store)
    assert (again.run.id, again.token.attempt) == (claimed.run.id, 2)


def test_repeating_a_settle_that_arranged_a_retry_is_harmless(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    fail(store, claimed.token)
    assert fail(store, claimed.token), "the attempt had ended so, should the answer have got lost"
    assert settle(store, claimed.token), "and nothing can be changed about that"
    run = get_run(store, claimed.run.id)
    assert (run.status, run.failures) == ("queued", 1)
    assert len(attempts(store, run.id)) == 1


def test_a_stale_token_arranges_no_retry(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    lose(store, "node-1")
    before = get_run(store, claimed.run.id)
    assert not fail(store, claimed.token)
    assert get_run(store, claimed.run.id) == before


def test_a_run_that_was_to_be_cancelled_ends_instead(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    assert store.transact(lambda tx: tx.runs.cancel(claimed.run.id, "cancelled")) == "requested"
    assert fail(store, claimed.token)
    run = get_run(store, claimed.run.id)
    assert (run.status, run.finished_at) == ("failed", clock.now)
    assert claim(store) == []


def test_failures_are_counted_over_attempts_and_takeovers_are_none(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    fail(store, claimed.token, 0 * SECOND)
    (second,) = claim(store)
    lose(store, "node-1")
    begin(store, "node-2")
    (third,) = claim(store, "node-2")
    assert (third.run.failures, third.run.losses, third.token.attempt) == (1, 1, 3)
    settle(store, third.token, "failed")
    assert get_run(store, second.run.id).failures == 2
    assert [outcome for _, outcome, _, _ in attempts(store, second.run.id)] == ["failed", "lost"]


def test_a_run_that_waits_for_its_retry_is_active(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    fail(store, claimed.token, 10 * MINUTE)
    clock.advance(MINUTE)
    assert tick(store) == 0
    schedule_id = claimed.run.schedule_id or ""
    assert [entry.reason for entry in get_ledger(store, schedule_id)] == ["overlap"]


def test_a_run_that_waits_for_its_retry_can_be_cancelled(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    fail(store, claimed.token, 10 * MINUTE)
    assert store.transact(lambda tx: tx.runs.cancel(claimed.run.id, "cancelled")) == "cancelled"
    clock.advance(10 * MINUTE)
    assert claim(store) == []


# -- the retry policy, from claim to end


def conclude_all(store: Store, clock: VirtualClock, claimed: Claim) -> list[str | None]:
    said = []
    while True:
        said.append(store.transact(lambda tx, c=claimed: conclude(tx, c, FAILED)))  # type: ignore[misc]
        clock.advance(MINUTE)
        store.transact(lambda tx: tx.nodes.renew("node-1", 10 * MINUTE))
        found = claim(store)
        if not found:
            return said
        claimed = found[0]


def test_the_policy_says_how_often_a_run_is_tried(store: Store, clock: VirtualClock) -> None:
    retry = {"attempts": 3, "delay": "5s", "jitter": False}
    claimed = claimed_run(store, clock, retry=retry)
    said = conclude_all(store, clock, claimed)
    assert said == ["failed, to be retried", "failed, to be retried", "failed"]
    run = get_run(store, claimed.run.id)
    assert (run.status, run.attempt, run.failures) == ("failed", 3, 3)


def test_without_a_policy_the_first_failure_is_the_end(store: Store, clock: VirtualClock) -> None:
    assert conclude_all(store, clock, claimed_run(store, clock)) == ["failed"]


def test_failures_that_the_policy_does_not_name_are_the_end(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock, retry={"attempts": 3, "on": ["timeout", 75]})
    assert conclude_all(store, clock, claimed) == ["failed"]


# -- reopen


def test_a_run_that_ended_is_opened_again_as_another_attempt(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock, retry={"attempts": 2})
    settle(store, claimed.token, "failed", reason="exit", error="broken", exit_code=2)
    now = clock.advance(MINUTE)
    store.transact(lambda tx: tx.runs.reopen(claimed.run.id))
    run = get_run(store, claimed.run.id)
    assert (run.status, run.attempt, run.failures, run.losses) == ("queued", 1, 0, 0)
    assert (run.ready_at, run.finished_at, run.reason, run.error) == (now, None, None, None)
    assert (run.due_at, run.origin) == (claimed.run.due_at, "schedule")
    assert attempts(store, run.id) == [(1, "failed", "broken", 2)]
    store.transact(lambda tx: tx.nodes.renew("node-1", MINUTE))
    begin(store, "node-2")
    (again,) = claim(store, "node-2")
    assert again.token.attempt == 2
    assert settle(store, claimed.token, "failed"), "it had settled, and changes nothing now"
    assert get_run(store, run.id).status == "running"
    assert settle(store, again.token)
    assert get_run(store, run.id).status == "succeeded"


def test_a_run_that_was_cancelled_before_it_began_can_be_opened_again(store: Store) -> None:
    run_id = add_run(store, add_schedule(store))
    store.transact(lambda tx: tx.runs.cancel(run_id, "cancelled"))
    store.transact(lambda tx: tx.runs.reopen(run_id))
    assert attempts(store, run_id) == [], "it made none"
    begin(store)
    (claimed,) = claim(store)
    assert (claimed.run.id, claimed.run.cancel_requested_at) == (run_id, None)
    settle(store, claimed.token, "failed")
    store.transact(lambda tx: tx.runs.reopen(run_id))
    assert attempts(store, run_id) == [(1, "failed", None, None)]


def test_an_expired_run_that_is_opened_again_has_made_no_attempt(
    store: Store, clock: VirtualClock
) -> None:
    add_schedule(store, expire_after="30s")
    clock.advance(MINUTE)
    tick(store)
    clock.advance(MINUTE)
    assert store.transact(lambda tx: tx.attempts.expire(10)) == 1
    (run,) = get_runs(store)
    store.transact(lambda tx: tx.runs.reopen(run.id))
    assert attempts(store, run.id) == []
    begin(store)
    assert [c.token.attempt for c in claim(store)] == [1]


def test_a_retry_that_was_cancelled_while_it_waited_keeps_the_attempts_there_were(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    fail(store, claimed.token, MINUTE)
    store.transact(lambda tx: tx.runs.cancel(claimed.run.id, "cancelled"))
    store.transact(lambda tx: tx.runs.reopen(claimed.run.id))
    assert [(number, end) for number, end, *_ in attempts(store, claimed.run.id)] == [(1, "failed")]


def test_only_a_run_that_has_ended_is_opened_again(store: Store) -> None:
    run_id = add_run(store, add_schedule(store))
    with pytest.raises(Conflict, match="queued"):
        store.transact(lambda tx: tx.runs.reopen(run_id))
    begin(store)
    claim(store)
    with pytest.raises(Conflict, match="running"):
        store.transact(lambda tx: tx.runs.reopen(run_id))
    with pytest.raises(NotFound):
        store.transact(lambda tx: tx.runs.reopen(new_id()))


def test_a_run_that_is_open_again_is_active(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    settle(store, claimed.token)
    store.transact(lambda tx: tx.runs.reopen(claimed.run.id))
    clock.advance(MINUTE)
    assert tick(store) == 0
    assert len(get_runs(store)) == 1


# -- expiry


def test_a_run_that_nobody_began_in_time_ends_as_expired(store: Store, clock: VirtualClock) -> None:
    add_schedule(store, expire_after="30s", overlap="queue")
    clock.advance(MINUTE)
    tick(store)
    (run,) = get_runs(store)
    assert run.expires_at == BEGIN + MINUTE + 30 * SECOND
    assert store.read(lambda tx: tx.attempts.earliest_expiry()) == run.expires_at
    clock.advance(30 * SECOND - SECOND)
    assert store.transact(lambda tx: tx.attempts.expire(10)) == 0
    now = clock.advance(SECOND)
    assert store.transact(lambda tx: tx.attempts.expire(10)) == 1
    run = get_run(store, run.id)
    assert (run.status, run.reason, run.finished_at) == ("cancelled", "expired", now)
    assert store.read(lambda tx: tx.attempts.earliest_expiry()) is None
    assert store.read(lambda tx: tx.plans.earliest_wake()) == now, "its schedule may go on"


def test_a_run_that_has_begun_does_not_expire(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock, expire_after="30s")
    fail(store, claimed.token, 10 * SECOND)
    clock.advance(MINUTE)
    assert store.transact(lambda tx: tx.attempts.expire(10)) == 0
    assert store.read(lambda tx: tx.attempts.earliest_expiry()) is None
    begin(store, "node-2")
    assert [c.run.id for c in claim(store, "node-2")] == [claimed.run.id]


def test_an_expired_run_is_not_claimed_though_nobody_ended_it_yet(
    store: Store, clock: VirtualClock
) -> None:
    add_schedule(store, expire_after="30s")
    clock.advance(MINUTE)
    tick(store)
    clock.advance(30 * SECOND)
    begin(store)
    assert claim(store) == []
    assert not find_work(store, ["default"]).places


def test_no_more_runs_expire_at_once_than_the_limit_says(store: Store, clock: VirtualClock) -> None:
    for number in range(3):
        add_schedule(store, f"job-{number}", expire_after="30s")
    clock.advance(MINUTE)
    tick(store)
    clock.advance(MINUTE)
    assert [store.transact(lambda tx: tx.attempts.expire(2)) for _ in range(3)] == [2, 1, 0]


def test_a_retry_by_hand_goes_through_the_book(book: Book, clock: VirtualClock) -> None:
    claimed = claimed_run(book.store, clock)
    settle(book.store, claimed.token, "failed")
    assert book.runs.retry(claimed.run.id).status == "queued"
    with pytest.raises(Conflict):
        book.runs.retry(claimed.run.id)
