"""Which runs a claim leaves alone: of unknown tasks, beyond a limit, behind others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.model.run import Outcome
from tests.support.builders import (
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    find_work,
    get_run,
    settle,
    tick,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.run import Claim
    from duebook.store.base import Store


def claim_tasks(store: Store, tasks: Sequence[str], limit: int = 10) -> list[Claim]:
    return store.transact(lambda tx: tx.claims.claim("node-1", "default", limit, tasks))


def test_a_claim_takes_only_tasks_that_the_node_knows(store: Store) -> None:
    begin(store)
    wanted = add_run(store, add_schedule(store, "known", target="email"))
    other = add_run(store, add_schedule(store, "unknown", target="report"))
    command = add_run(store, add_schedule(store, "command"))
    assert {c.run.id for c in claim_tasks(store, ["email"])} == {wanted, command}
    assert get_run(store, other).status == "queued"
    assert not find_work(store, ["default"], ["email"]).places
    assert find_work(store, ["default"], ["email", "report"]).places


def test_a_node_without_tasks_takes_commands(store: Store) -> None:
    begin(store)
    add_run(store, add_schedule(store, "task", target="email"))
    command = add_run(store, add_schedule(store, "command"))
    assert [c.run.id for c in claim(store)] == [command]


def test_tasks_of_others_do_not_take_the_places_of_known_ones(store: Store) -> None:
    begin(store)
    for number in range(5):
        add_run(store, add_schedule(store, f"unknown-{number}", target="report", priority=9))
    wanted = add_run(store, add_schedule(store, "known", target="email"))
    assert [c.run.id for c in claim_tasks(store, ["email"], limit=1)] == [wanted]


def test_no_more_runs_than_max_concurrent_are_under_way(store: Store) -> None:
    begin(store)
    schedule_id = add_schedule(store, overlap="allow", max_concurrent=2)
    for _ in range(5):
        add_run(store, schedule_id)
    first = claim(store)
    assert len(first) == 2, "in one batch"
    assert claim(store) == [], "and over several"
    assert not find_work(store, ["default"]).places
    settle(store, first[0].token)
    assert len(claim(store)) == 1


def test_max_concurrent_does_not_loosen_an_exclusive_schedule(store: Store) -> None:
    begin(store)
    schedule_id = add_schedule(store, overlap="queue", max_concurrent=5)
    for _ in range(3):
        add_run(store, schedule_id)
    assert len(claim(store)) == 1


def test_a_run_that_waits_for_its_retry_keeps_others_of_its_exclusive_schedule_out(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, lease=60 * MINUTE)
    schedule_id = add_schedule(store)
    first = add_run(store, schedule_id)
    (claimed,) = claim(store)
    outcome = Outcome("failed", "exit", None, 1)
    store.transact(lambda tx: tx.attempts.settle(claimed.token, outcome, 10 * SECOND))
    second = add_run(store, schedule_id)
    assert claim(store) == []
    assert not find_work(store, ["default"]).places
    clock.advance(10 * SECOND)
    (again,) = claim(store)
    assert again.run.id == first
    settle(store, again.token)
    assert [c.run.id for c in claim(store)] == [second]


def test_a_run_that_waits_for_its_retry_keeps_nobody_out_where_overlap_is_allowed(
    store: Store,
) -> None:
    begin(store)
    schedule_id = add_schedule(store, overlap="allow")
    add_run(store, schedule_id)
    (claimed,) = claim(store)
    store.transact(lambda tx: tx.attempts.settle(claimed.token, Outcome("failed"), 10 * MINUTE))
    second = add_run(store, schedule_id)
    assert [c.run.id for c in claim(store)] == [second]


def test_of_two_reopened_runs_of_an_exclusive_schedule_one_is_under_way(store: Store) -> None:
    begin(store)
    schedule_id = add_schedule(store)
    runs = [add_run(store, schedule_id) for _ in range(2)]
    for _ in runs:
        settle(store, claim(store)[0].token)
    for run_id in runs:
        store.transact(lambda tx, id_=run_id: tx.runs.reopen(id_))  # type: ignore[misc]
    assert len(claim(store)) == 1
    assert claim(store) == []


def test_an_expired_run_holds_up_its_schedule_only_until_it_is_ended(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, lease=60 * MINUTE)
    schedule_id = add_schedule(store, expire_after="30s")
    clock.advance(MINUTE)
    tick(store)
    clock.advance(30 * SECOND)
    manual = add_run(store, schedule_id)
    store.transact(lambda tx: tx.attempts.expire(10))
    assert [c.run.id for c in claim(store)] == [manual]
