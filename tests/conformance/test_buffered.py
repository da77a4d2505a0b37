"""Runs that a node claims ahead and buffers: not started, never where a limit counts them, and
not counted as taken over when lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.engine.settling import conclude
from duebook.model.queue import Queue, Rate
from duebook.model.run import Outcome
from tests.support.builders import (
    MINUTE,
    SECOND,
    add_run,
    add_schedule,
    begin,
    claim,
    get_run,
    lose,
    settle,
)

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.run import Claim
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock


def claim_ahead(
    store: Store, limit: int, ahead: int, session_id: str = "node-1", queue: str = "default"
) -> tuple[list[Claim], bool]:
    return store.transact(
        lambda tx: tx.claims.claim_ahead(session_id, queue, limit, ahead, (), "default", ())
    )


def buffered(store: Store, number: int = 1, **policies: Any) -> list[Claim]:
    """Runs that a new node has buffered."""
    schedule = add_schedule(store, overlap="allow", **policies)
    for _ in range(number):
        add_run(store, schedule)
    begin(store)
    claims, _ = claim_ahead(store, 0, number)
    assert len(claims) == number
    return claims


def early_losses(backend: Backend) -> int:
    return int(backend.rows("SELECT early_losses FROM runs")[0][0])


def test_what_is_claimed_ahead_belongs_to_its_node_and_has_not_begun(
    store: Store, clock: VirtualClock
) -> None:
    schedule = add_schedule(store, overlap="allow")
    ids = [add_run(store, schedule) for _ in range(4)]
    begin(store)
    claims, is_limited = claim_ahead(store, 1, 2)
    assert ([claimed.run.id for claimed in claims], is_limited) == (ids[:3], False)
    assert [claimed.started_at for claimed in claims] == [clock.now, None, None]
    runs = [get_run(store, id_) for id_ in ids]
    assert [run.status for run in runs] == ["running"] * 3 + ["queued"]
    assert [run.started_at for run in runs] == [clock.now, None, None, None]
    assert [run.claimed_at for run in runs] == [clock.now] * 3 + [None]
    assert {own.token for own in store.read(lambda tx: tx.claims.own_runs("node-1"))} == {
        claimed.token for claimed in claims
    }


@pytest.mark.parametrize(
    "limits",
    [{"overlap": "queue"}, {"overlap": "allow", "max_concurrent": 5}, {"max_takeovers": 0}],
)
def test_a_run_that_must_not_be_buffered_gets_a_place_and_nothing_overtakes_it(
    store: Store, limits: dict[str, Any]
) -> None:
    free = add_schedule(store, "free", overlap="allow")
    limited = add_schedule(store, "limited", **({"overlap": "allow"} | limits))
    begin(store)
    first, second, third = (add_run(store, owner) for owner in (free, limited, free))
    claims, is_limited = claim_ahead(store, 0, 5)
    assert ([claimed.run.id for claimed in claims], is_limited) == ([first], True)
    assert claim_ahead(store, 0, 5) == ([], True)
    claims, is_limited = claim_ahead(store, 1, 5)
    assert ([claimed.run.id for claimed in claims], is_limited) == ([second, third], False)
    assert claims[0].started_at is not None
    assert claims[1].started_at is None


@pytest.mark.parametrize("rate", [None, Rate(100, MINUTE)])
def test_of_a_queue_with_limits_nothing_is_buffered(store: Store, rate: Rate | None) -> None:
    schedule = add_schedule(store, overlap="allow")
    for _ in range(3):
        add_run(store, schedule)
    begin(store)
    concurrency = 50 if rate is None else None
    store.transact(lambda tx: tx.queues.limit_queue(Queue("default", concurrency, rate)))
    assert claim_ahead(store, 0, 5) == ([], True)
    claims, is_limited = claim_ahead(store, 2, 5)
    assert (len(claims), is_limited) == (2, True)
    assert all(claimed.started_at is not None for claimed in claims)


@pytest.mark.parametrize("many", [False, True])
def test_the_end_of_a_buffered_run_says_when_it_began(
    store: Store, clock: VirtualClock, many: bool
) -> None:
    (claimed,) = buffered(store)
    began = clock.advance(SECOND)
    ended = clock.advance(SECOND)
    token, outcome = claimed.token, Outcome("succeeded")
    if many:
        store.transact(lambda tx: tx.attempts.settle_all([(token, outcome)], {token: began}))
    else:
        store.transact(lambda tx: tx.attempts.settle(token, outcome, begun_at=began))
    run = get_run(store, claimed.run.id)
    assert (run.status, run.started_at, run.finished_at) == ("succeeded", began, ended)


@pytest.mark.parametrize("many", [False, True])
def test_nothing_began_after_it_ended_though_its_node_reckons_so(
    store: Store, clock: VirtualClock, many: bool
) -> None:
    (claimed,) = buffered(store)
    token, outcome, later = claimed.token, Outcome("succeeded"), clock.now + SECOND
    if many:
        store.transact(lambda tx: tx.attempts.settle_all([(token, outcome)], {token: later}))
    else:
        store.transact(lambda tx: tx.attempts.settle(token, outcome, begun_at=later))
    run = get_run(store, claimed.run.id)
    assert run.started_at == run.finished_at == clock.now


def test_a_buffered_run_that_goes_on_is_marked_as_begun_once(
    store: Store, clock: VirtualClock
) -> None:
    first, second = buffered(store, 2)
    began = clock.advance(SECOND)

    def mark(at: datetime) -> None:
        marks = [(claimed.token, at) for claimed in (second, first)]
        store.transact(lambda tx: tx.attempts.mark_begun(marks))

    mark(began)
    clock.advance(SECOND)
    mark(clock.now)
    assert [get_run(store, each.run.id).started_at for each in (first, second)] == [began] * 2


@pytest.mark.parametrize("outcome", [Outcome("failed", "error", "it broke"), None])
def test_the_account_of_an_attempt_that_was_buffered_says_when_it_began(
    store: Store, backend: Backend, clock: VirtualClock, outcome: Outcome | None
) -> None:
    """Both when it is retried, and when it is handed back after its start."""
    (claimed,) = buffered(store, retry={"attempts": 3, "delay": "1s"})
    claimed = claimed._replace(begun_at=clock.advance(SECOND))
    clock.advance(SECOND)
    assert store.transact(lambda tx: conclude(tx, claimed, outcome)) is not None
    assert get_run(store, claimed.run.id).status == "queued"
    rows = backend.rows("SELECT started_at - claimed_at = {second} FROM run_attempts")
    assert [bool(row[0]) for row in rows] == [True]


def test_a_mark_under_an_old_token_says_nothing_about_the_next_attempt(
    store: Store, clock: VirtualClock
) -> None:
    (old,) = buffered(store)
    assert store.transact(lambda tx: tx.attempts.hand_back_all([old.token])) == {old.token}
    (claimed,), _ = claim_ahead(store, 0, 1)
    store.transact(lambda tx: tx.attempts.mark_begun([(old.token, clock.now)]))
    assert get_run(store, claimed.run.id).started_at is None


def test_buffered_runs_are_handed_back_together_in_their_places(
    store: Store, clock: VirtualClock
) -> None:
    claims = buffered(store, 3)
    now = clock.advance(SECOND)
    tokens = [claimed.token for claimed in claims]
    assert store.transact(lambda tx: tx.attempts.hand_back_all(tokens)) == set(tokens)
    for claimed in claims:
        run = get_run(store, claimed.run.id)
        assert (run.status, run.losses, run.node) == ("queued", 0, None)
        assert (run.ready_at, run.claimed_at) == (claimed.run.ready_at, None)
        (attempt,) = store.read(lambda tx, id_=run.id: tx.runs.list_attempts(id_))  # type: ignore[misc]
        assert (attempt.outcome, attempt.finished_at) == ("handed_back", now)
    again, _ = claim_ahead(store, 0, 3)
    assert [claimed.run.id for claimed in again] == [claimed.run.id for claimed in claims]


def test_handing_back_again_never_takes_a_later_claim_of_the_same_node_away(store: Store) -> None:
    """As after a COMMIT whose response was lost, if the node has claimed the run again."""
    (old,) = buffered(store)
    store.transact(lambda tx: tx.attempts.hand_back_all([old.token]))
    (claimed,), _ = claim_ahead(store, 0, 1)
    assert store.transact(lambda tx: tx.attempts.hand_back_all([old.token])) == set()
    assert get_run(store, claimed.run.id).status == "running"
    assert settle(store, claimed.token)


def test_a_buffered_run_that_was_cancelled_ends_when_it_is_handed_back(store: Store) -> None:
    first, second = buffered(store, 2)
    assert store.transact(lambda tx: tx.runs.cancel(first.run.id, "cancelled")) == "requested"
    tokens = [first.token, second.token]
    assert store.transact(lambda tx: tx.attempts.hand_back_all(tokens)) == set(tokens)
    ended, back = get_run(store, first.run.id), get_run(store, second.run.id)
    assert (ended.status, ended.reason, ended.started_at) == ("cancelled", "cancelled", None)
    assert back.status == "queued"


def test_a_buffered_run_of_a_lost_node_does_not_count_as_taken_over(
    store: Store, backend: Backend
) -> None:
    (claimed,) = buffered(store)
    assert lose(store, "node-1") == 1
    run = get_run(store, claimed.run.id)
    assert (run.status, run.losses, early_losses(backend)) == ("queued", 0, 1)
    (attempt,) = store.read(lambda tx: tx.runs.list_attempts(run.id))
    assert attempt.outcome == "lost"
    assert not settle(store, claimed.token)


def test_a_buffered_run_that_is_known_to_have_begun_counts_as_taken_over(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    (claimed,) = buffered(store)
    store.transact(lambda tx: tx.attempts.mark_begun([(claimed.token, clock.now)]))
    lose(store, "node-1")
    assert (get_run(store, claimed.run.id).losses, early_losses(backend)) == (1, 0)


def test_a_run_that_was_lost_before_it_had_begun_is_not_buffered_again(store: Store) -> None:
    """It may have killed its node, and the runs buffered with it must not be blamed for that."""
    (claimed,) = buffered(store)
    lose(store, "node-1")
    begin(store, "node-2")
    assert claim_ahead(store, 0, 1, "node-2") == ([], True)
    (again,), _ = claim_ahead(store, 1, 0, "node-2")
    assert again.run.id == claimed.run.id
    assert again.started_at is not None


@pytest.mark.parametrize("most", [1, 3])
def test_a_run_lost_twice_as_often_as_it_may_before_it_had_begun_is_poison(
    store: Store, backend: Backend, most: int
) -> None:
    """No matter which node claims it, even one that buffers it despite its losses."""
    (claimed,) = buffered(store, max_takeovers=most)
    for number in range(1, 2 * most + 1):
        assert lose(store, f"node-{number}") == 1
        assert get_run(store, claimed.run.id).status == "queued"
        begin(store, f"node-{number + 1}")
        assert len(claim(store, f"node-{number + 1}")) == 1
        backend.write("UPDATE runs SET started_at = NULL")
    assert lose(store, f"node-{2 * most + 1}") == 1
    run = get_run(store, claimed.run.id)
    assert (run.status, run.reason, run.losses) == ("failed", "poison", 0)
    assert early_losses(backend) == 2 * most + 1


def test_a_lost_buffered_run_that_was_to_be_cancelled_is_cancelled(store: Store) -> None:
    (claimed,) = buffered(store)
    store.transact(lambda tx: tx.runs.cancel(claimed.run.id, "cancelled"))
    lose(store, "node-1")
    run = get_run(store, claimed.run.id)
    assert (run.status, run.reason, run.losses) == ("cancelled", "cancelled", 0)


def test_a_run_that_is_opened_again_may_be_buffered_again(store: Store, backend: Backend) -> None:
    (claimed,) = buffered(store)
    lose(store, "node-1")
    begin(store, "node-2")
    (again,) = claim(store, "node-2")
    settle(store, again.token, "failed")
    store.transact(lambda tx: tx.runs.reopen(claimed.run.id))
    assert early_losses(backend) == 0
