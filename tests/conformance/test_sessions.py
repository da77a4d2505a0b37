"""Sessions and leases: renewal, expiry, and the takeover of runs that dead nodes left running."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.model.run import Outcome, overlapped
from duebook.store.values import Neighbour
from tests.support.builders import (
    BEGIN,
    LEASE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    claimed_run,
    get_run,
    get_runs,
    get_schedule,
    lose,
    settle,
    tick,
)

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.book import Book
    from duebook.model.run import Attempt, Token
    from duebook.store.base import Store
    from tests.support.backends import Backend


def bury(store: Store) -> list[str]:
    return store.transact(lambda tx: tx.nodes.bury())


def renew(store: Store, session_id: str = "node-1") -> bool:
    return store.transact(lambda tx: tx.nodes.renew(session_id, LEASE))


# -- leases


def test_only_sessions_whose_lease_ran_out_are_buried(store: Store, clock: VirtualClock) -> None:
    begin(store, "short", lease=LEASE)
    begin(store, "long", lease=2 * LEASE)
    clock.advance(LEASE - SECOND)
    assert bury(store) == []
    clock.advance(SECOND)
    assert bury(store) == ["short"]
    assert bury(store) == []


def test_a_renewed_session_lives_on(store: Store, clock: VirtualClock) -> None:
    begin(store)
    clock.advance(LEASE - SECOND)
    assert renew(store)
    clock.advance(LEASE - SECOND)
    assert bury(store) == []
    clock.advance(SECOND)
    assert bury(store) == ["node-1"]


def test_a_renewal_is_of_its_own_session_whatever_other_sessions_the_node_has(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, "before", node="host")
    begin(store, "after", node="host")
    clock.advance(LEASE - SECOND)
    assert renew(store, "after")
    clock.advance(SECOND)
    assert bury(store) == ["before"]
    assert not renew(store, "before")
    assert renew(store, "after")


def test_a_buried_session_cannot_renew(store: Store, clock: VirtualClock) -> None:
    begin(store)
    clock.advance(LEASE)
    bury(store)
    assert not renew(store)


def test_a_session_that_ended_cannot_renew_and_is_not_buried(
    store: Store, clock: VirtualClock
) -> None:
    begin(store)
    store.transact(lambda tx: tx.nodes.end_session("node-1"))
    assert not renew(store)
    clock.advance(LEASE)
    assert bury(store) == []


def test_a_session_that_nobody_began_cannot_renew(store: Store) -> None:
    assert not renew(store, "nobody")


def test_ending_a_session_twice_is_harmless(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    begin(store)
    store.transact(lambda tx: tx.nodes.end_session("node-1"))
    ended = backend.rows("SELECT ended_at FROM node_sessions")
    clock.advance(SECOND)
    store.transact(lambda tx: tx.nodes.end_session("node-1"))
    assert backend.rows("SELECT ended_at FROM node_sessions") == ended


# -- takeover


def test_runs_of_the_living_are_not_taken_over(store: Store, clock: VirtualClock) -> None:
    claimed_run(store, clock)
    assert store.transact(lambda tx: tx.attempts.take_over(100)) == 0


def test_a_dead_nodes_run_is_queued_again_with_a_loss_and_a_new_attempt(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    clock.advance(LEASE)
    assert bury(store) == ["node-1"]
    assert store.transact(lambda tx: tx.attempts.take_over(100)) == 1
    run = get_run(store, claimed.run.id)
    assert (run.status, run.losses, run.attempt, run.node) == ("queued", 1, 1, None)
    assert (run.ready_at, run.finished_at) == (claimed.run.ready_at, None)
    begin(store, "node-2")
    (again,) = claim(store, "node-2")
    assert (again.run.id, again.token.attempt) == (claimed.run.id, 2)


def test_a_run_that_is_taken_over_keeps_its_place_in_its_queue(
    store: Store, clock: VirtualClock
) -> None:
    begin(store)
    first = [add_run(store, add_schedule(store, f"first-{n}")) for n in range(2)]
    clock.advance(SECOND)
    second = [add_run(store, add_schedule(store, f"second-{n}")) for n in range(2)]
    assert [c.run.id for c in claim(store, limit=2)] == first
    lose(store, "node-1")
    begin(store, "node-2")
    assert [c.run.id for c in claim(store, "node-2")] == [*first, *second]


def test_a_run_that_was_taken_over_waits_since_then(store: Store, clock: VirtualClock) -> None:
    """Even though it was ready long before."""
    claimed_run(store, clock)
    now = clock.advance(LEASE)
    bury(store)
    store.transact(lambda tx: tx.attempts.take_over(100))
    clock.advance(SECOND)
    assert store.read(lambda tx: tx.status.inventory()).waits_since == now


# -- tasks that continue after their node was lost


def test_the_account_of_a_lost_attempt_says_until_when_its_task_went_on(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    clock.advance(LEASE)
    bury(store)
    store.transact(lambda tx: tx.attempts.take_over(100))
    begin(store, "node-2")
    (again,) = claim(store, "node-2")

    def note(token: Token, until: datetime) -> datetime | None:
        store.transact(lambda tx: tx.attempts.note_overlaps([(token, until)]))
        return attempts_of(store, claimed.run.id)[0].went_on_until

    lost_at, later = clock.now, clock.advance(5 * SECOND)
    assert note(claimed.token, lost_at) is None, "it had ended by then"
    assert note(again.token, later) is None, "it is under way"
    assert note(claimed.token._replace(session_id="node-3"), later) is None
    assert note(claimed.token, later) == later
    assert note(claimed.token, later - SECOND) == later
    assert note(claimed.token, later + SECOND) == later + SECOND
    run, attempts = get_run(store, claimed.run.id), attempts_of(store, claimed.run.id)
    assert overlapped(attempts[0], attempts, run) == [2]
    assert settle(store, again.token)


def test_a_late_end_of_a_run_that_ended_for_good_says_nothing(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    assert settle(store, claimed.token, "failed")
    later = clock.advance(SECOND)
    store.transact(lambda tx: tx.attempts.note_overlaps([(claimed.token, later)]))
    assert attempts_of(store, claimed.run.id) == []


def attempts_of(store: Store, run_id: str) -> list[Attempt]:
    return store.read(lambda tx: tx.runs.list_attempts(run_id))


# -- sessions of the same machine


def test_a_node_knows_the_other_sessions_of_its_machine(store: Store) -> None:
    mine = "boot pid:[1]"
    begin(store, "node-1", pid=11, process_started=100, machine=mine)
    begin(store, "node-2", pid=12, process_started=200, machine=mine)
    begin(store, "node-3", pid=13, process_started=300, machine=mine)
    begin(store, "container", pid=12, process_started=200, machine="boot pid:[2]")
    begin(store, "elsewhere", pid=12, process_started=200, machine="other pid:[1]")
    for name in ("nameless-1", "nameless-2"):
        begin(store, name, pid=12, process_started=200)
    store.transact(lambda tx: tx.nodes.end_session("node-3"))
    neighbour = Neighbour("node-2", 12, 200)
    assert store.read(lambda tx: tx.nodes.neighbours("node-1")) == [neighbour]
    assert store.pulse("node-1", LEASE, []).neighbours == (neighbour,)
    assert store.pulse("nameless-1", LEASE, []).neighbours == ()
    assert store.pulse("container", LEASE, []).neighbours == ()


def test_a_session_whose_process_is_gone_is_buried_before_its_lease_ends(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    begin(store, "node-2")
    assert store.transact(lambda tx: tx.nodes.bury_gone(["node-1", "nobody"])) == ["node-1"]
    assert store.transact(lambda tx: tx.nodes.bury_gone(["node-1"])) == []
    assert store.transact(lambda tx: tx.nodes.bury_gone([])) == []
    assert not renew(store)
    assert renew(store, "node-2")
    assert store.transact(lambda tx: tx.attempts.take_over(10)) == 1
    (again,) = claim(store, "node-2")
    assert again.run.id == claimed.run.id


def test_a_leader_whose_process_is_gone_is_followed_at_once(store: Store) -> None:
    begin(store, "node-1")
    begin(store, "node-2")
    assert store.pulse("node-1", LEASE, [], leads=True).term == 1
    assert store.pulse("node-2", LEASE, [], leads=True).term is None
    store.transact(lambda tx: tx.nodes.bury_gone(["node-1"]))
    assert store.pulse("node-2", LEASE, [], leads=True).term == 2


def test_a_queued_run_does_not_look_as_if_it_had_started(store: Store, clock: VirtualClock) -> None:
    claimed = claimed_run(store, clock)
    lose(store, "node-1")
    run = get_run(store, claimed.run.id)
    assert (run.claimed_at, run.started_at) == (None, None)


def test_a_takeover_keeps_the_account_of_the_lost_attempt(
    store: Store, backend: Backend, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    for number in (2, 3):
        clock.advance(SECOND)
        lose(store, f"node-{number - 1}")
        begin(store, f"node-{number}")
        claim(store, f"node-{number}")
    history = backend.rows(
        "SELECT run_id, attempt, session_id, outcome, finished_at - claimed_at = {second} "
        "FROM run_attempts ORDER BY attempt"
    )
    assert history == [
        (claimed.run.id, 1, "node-1", "lost", True),
        (claimed.run.id, 2, "node-2", "lost", True),
    ]
    assert get_run(store, claimed.run.id).losses == 2


@pytest.mark.parametrize("most", [0, 1, 3])
def test_beyond_max_takeovers_a_run_fails_as_poison(
    store: Store, clock: VirtualClock, most: int
) -> None:
    claimed = claimed_run(store, clock, max_takeovers=most)
    for number in range(2, most + 2):
        assert lose(store, f"node-{number - 1}") == 1
        assert get_run(store, claimed.run.id).status == "queued"
        begin(store, f"node-{number}")
        assert len(claim(store, f"node-{number}")) == 1
    now = clock.advance(SECOND)
    assert lose(store, f"node-{most + 1}") == 1
    run = get_run(store, claimed.run.id)
    assert (run.status, run.reason, run.losses) == ("failed", "poison", most + 1)
    assert run.finished_at == now
    assert "lost" in (run.error or "")
    assert claim(store, begin(store, "last")) == []


def test_a_lost_run_that_was_to_be_cancelled_is_cancelled(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    assert store.transact(lambda tx: tx.runs.cancel(claimed.run.id, "cancelled")) == "requested"
    assert lose(store, "node-1") == 1
    run = get_run(store, claimed.run.id)
    assert (run.status, run.reason) == ("cancelled", "cancelled")
    assert claim(store, begin(store, "node-2")) == []


def test_a_run_lost_too_often_has_no_exit_code_of_an_attempt_before(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock, max_takeovers=0, retry={"attempts": 2, "delay": "1s"})
    failed = Outcome("failed", "exit_code", "exit code 3", 3)
    assert store.transact(lambda tx: tx.attempts.settle(claimed.token, failed, SECOND))
    assert get_run(store, claimed.run.id).exit_code == 3
    clock.advance(SECOND)
    assert len(claim(store, begin(store, "node-2"))) == 1
    assert lose(store, "node-2") == 1
    run = get_run(store, claimed.run.id)
    assert (run.status, run.reason, run.exit_code) == ("failed", "poison", None)


def test_a_lost_last_run_that_ends_wakes_its_schedule(store: Store, clock: VirtualClock) -> None:
    trigger = {"at": (BEGIN + SECOND).isoformat()}
    claimed = claimed_run(store, clock, trigger=trigger, max_takeovers=0)
    clock.advance(SECOND)
    lose(store, "node-1")
    assert tick(store) == 0
    assert get_schedule(store, claimed.run.schedule_id or "").status == "completed"


def test_a_takeover_takes_no_more_than_its_limit_and_goes_on_later(store: Store) -> None:
    schedule_id = add_schedule(store, overlap="allow")
    for _ in range(5):
        add_run(store, schedule_id)
    begin(store)
    claim(store)
    assert lose(store, "node-1", limit=2) == 2
    assert sorted(run.status for run in get_runs(store)) == ["queued"] * 2 + ["running"] * 3
    assert store.transact(lambda tx: tx.attempts.take_over(2)) == 2
    assert store.transact(lambda tx: tx.attempts.take_over(2)) == 1
    assert store.transact(lambda tx: tx.attempts.take_over(2)) == 0


def test_a_run_of_a_deleted_schedule_is_taken_over(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    book.schedules.delete("job")
    lose(store, "node-1")
    (again,) = claim(store, begin(store, "node-2"))
    assert again.run.id == claimed.run.id
    assert again.spec == claimed.spec
    assert settle(store, again.token)
