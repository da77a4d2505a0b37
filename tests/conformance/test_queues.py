"""Queues with limits: how many runs are active, and how many start in a period; fair shares."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duebook.ids import new_id
from duebook.model.queue import Queue, QueueLoad, Rate
from duebook.model.run import Outcome, Token
from tests.support.builders import (
    BEGIN,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    find_work,
    settle,
)
from tests.support.examples import some_of

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.run import Claim
    from duebook.store.base import Store, Tx
    from duebook.store.values import Work
    from tests.support.backends import Backend

MICRO = timedelta(microseconds=1)
SLOW = Queue("slow", concurrency=2)
RARE = Queue("rare", rate=Rate(3, timedelta(seconds=30)))


def add_runs(store: Store, queue: str, number: int, namespace: str = "default") -> list[str]:
    """Add ready runs, one for each of as many schedules."""
    return [
        add_run(store, add_schedule(store, f"{queue}-{n}", namespace, queue=queue))
        for n in range(number)
    ]


def limit(store: Store, queue: Queue) -> None:
    store.transact(lambda tx: tx.queues.limit_queue(queue))


def work(store: Store, *queues: str) -> Work:
    return find_work(store, queues)


def test_no_more_runs_of_a_queue_are_under_way_than_it_allows(store: Store) -> None:
    limit(store, SLOW)
    add_runs(store, "slow", 5)
    begin(store)
    first = claim(store, queue="slow")
    assert len(first) == 2
    begin(store, "node-2")
    assert claim(store, "node-2", queue="slow") == []
    assert work(store, "slow").places == ()
    settle(store, first[0].token)
    assert work(store, "slow").places == (("slow", "default"),)
    assert len(claim(store, "node-2", queue="slow")) == 1


def test_a_queue_without_limits_is_not_held_up_by_others(store: Store) -> None:
    limit(store, Queue("slow", concurrency=0))
    add_runs(store, "slow", 2)
    add_runs(store, "default", 3)
    begin(store)
    assert claim(store, queue="slow") == []
    assert len(claim(store)) == 3


def test_no_more_runs_of_a_queue_begin_than_its_rate_allows(
    store: Store, clock: VirtualClock
) -> None:
    limit(store, RARE)
    add_runs(store, "rare", 9)
    begin(store, lease=timedelta(hours=1))
    assert len(claim(store, queue="rare", limit=2)) == 2
    clock.advance(10 * SECOND)
    assert len(claim(store, queue="rare")) == 1
    assert claim(store, queue="rare") == []
    seen = work(store, "rare")
    assert (seen.places, seen.next_at) == ((), BEGIN + 30 * SECOND)
    clock.advance(20 * SECOND - MICRO)
    assert claim(store, queue="rare") == []
    clock.advance(MICRO)
    assert work(store, "rare").places == (("rare", "default"),)
    assert len(claim(store, queue="rare")) == 2, "what began one period ago does not count"
    clock.advance(10 * SECOND)
    assert len(claim(store, queue="rare")) == 1
    clock.advance(timedelta(minutes=30))
    begin(store, "node-2")
    assert len(claim(store, "node-2", queue="rare")) == 3, "a rest saves nothing"


ops = st.tuples(
    st.integers(0, 2),
    st.one_of(
        st.sampled_from([timedelta(), MICRO, SECOND - MICRO, SECOND, 2 * SECOND]),
        st.integers(0, 1_500_000).map(lambda micros: timedelta(microseconds=micros)),
    ),
    st.integers(1, 6),
    st.booleans(),
)


@settings(
    max_examples=some_of(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.integers(1, 5), st.integers(1, 2), st.lists(ops, min_size=4, max_size=16))
def test_in_no_window_more_runs_begin_than_the_rate_allows_whichever_node_claims(
    backend: Backend,
    clock: VirtualClock,
    count: int,
    seconds: int,
    ops: list[tuple[int, timedelta, int, bool]],
) -> None:
    """Attempts that are handed back count. A node may wait between the start of its transaction
    and its turn at the gate, in which case others go first."""
    stores = nodes(backend)
    queue = f"queue-{new_id()}"
    limit(stores[0], Queue(queue, rate=Rate(count, seconds * SECOND)))
    add_runs(stores[0], queue, count + 1)
    began: list[datetime] = []
    for node, wait, wanted, waits_within in ops:

        def work(tx: Tx) -> list[Claim]:
            assert tx.now <= clock.advance(wait if waits_within else timedelta())  # noqa: B023
            claims = tx.claims.claim(f"node-{node}", queue, wanted)  # noqa: B023
            assert all(tx.attempts.hand_back(claimed.token) for claimed in claims)
            return claims

        clock.advance(timedelta() if waits_within else wait)
        claims = stores[node].transact(work)
        room = count - sum(at > clock.now - seconds * SECOND for at in began)
        assert len(claims) == min(wanted, room), "no more, and no fewer"
        began += [claimed.run.started_at or BEGIN for claimed in claims]
    for at in began:
        assert sum(at <= other < at + seconds * SECOND for other in began) <= count


def nodes(backend: Backend) -> list[Store]:
    """Three nodes, each with its own store; those of the previous example keep running."""
    if not (stores := OPEN.get(backend)):
        stores = OPEN[backend] = [backend.open() for _ in range(3)]
        for number, store in enumerate(stores):
            begin(store, f"node-{number}", timedelta(days=1))
    return stores


OPEN: WeakKeyDictionary[Backend, list[Store]] = WeakKeyDictionary()


def test_a_clock_that_is_set_back_a_little_breaks_no_window(
    store: Store, clock: VirtualClock
) -> None:
    limit(store, RARE)
    add_runs(store, "rare", 9)
    begin(store, lease=timedelta(hours=1))
    clock.advance(20 * SECOND)
    assert len(claim(store, queue="rare", limit=2)) == 2
    clock.advance(-20 * SECOND)
    assert len(claim(store, queue="rare")) == 1
    assert claim(store, queue="rare") == []
    clock.advance(50 * SECOND - MICRO)
    assert claim(store, queue="rare") == []
    clock.advance(MICRO)
    assert len(claim(store, queue="rare")) == 3


def test_a_clock_that_is_set_back_far_holds_a_rate_up_for_one_period_only(
    store: Store, clock: VirtualClock
) -> None:
    """Even though the time of a SQLite file then stands still."""
    limit(store, RARE)
    add_runs(store, "rare", 9)
    begin(store, lease=timedelta(days=1))
    clock.advance(timedelta(hours=3))
    assert len(claim(store, queue="rare")) == 3
    clock.advance(timedelta(hours=-3))
    for _ in range(2):
        assert claim(store, queue="rare") == []
    seen = work(store, "rare")
    assert (seen.places, seen.next_at) == ((), seen.now + 30 * SECOND)
    clock.advance(30 * SECOND - MICRO)
    assert claim(store, queue="rare") == []
    clock.advance(MICRO)
    assert len(claim(store, queue="rare")) == 3
    assert claim(store, queue="rare") == []


def test_a_node_that_only_looks_finds_out_that_the_clock_was_set_back(
    store: Store, clock: VirtualClock
) -> None:
    """Nodes claim only where they saw work, so a look must not hide what a claim records."""
    limit(store, RARE)
    add_runs(store, "rare", 9)
    begin(store, lease=timedelta(days=1))
    clock.advance(timedelta(hours=3))
    claim(store, queue="rare")
    clock.advance(timedelta(hours=-3))
    assert work(store, "rare").places == (("rare", "default"),)
    assert claim(store, queue="rare") == []
    assert work(store, "rare").places == ()


def retry(store: Store, token: Token) -> None:
    store.transact(lambda tx: tx.attempts.settle(token, Outcome("failed"), timedelta()))


def test_a_retry_counts_as_a_beginning(store: Store, clock: VirtualClock) -> None:
    limit(store, Queue("rare", rate=Rate(2, 30 * SECOND)))
    add_runs(store, "rare", 1)
    begin(store, lease=timedelta(hours=1))
    for _ in range(2):
        (claimed,) = claim(store, queue="rare")
        retry(store, claimed.token)
    assert claim(store, queue="rare") == []
    clock.advance(30 * SECOND)
    assert len(claim(store, queue="rare")) == 1


def test_a_smaller_claim_leaves_the_rest_of_the_rate_to_others(store: Store) -> None:
    limit(store, RARE)
    add_runs(store, "rare", 9)
    begin(store)
    assert len(claim(store, limit=1, queue="rare")) == 1
    assert len(claim(store, limit=9, queue="rare")) == 2


def test_limits_that_are_changed_keep_what_was_used_up(store: Store, clock: VirtualClock) -> None:
    limit(store, RARE)
    add_runs(store, "rare", 20)
    begin(store, lease=timedelta(hours=1))
    claim(store, queue="rare")
    limit(store, Queue("rare", rate=Rate(5, timedelta(seconds=30))))
    assert len(claim(store, queue="rare")) == 2
    limit(store, Queue("rare", concurrency=6))
    assert len(claim(store, queue="rare")) == 1
    clock.advance(30 * SECOND)
    limit(store, Queue("rare", rate=Rate(6, timedelta(minutes=1))))
    assert len(claim(store, queue="rare")) == 1, "a longer period counts more of it"
    limit(store, Queue("rare", rate=Rate(2, timedelta(minutes=1))))
    assert claim(store, queue="rare") == []


def test_a_queue_that_is_freed_has_no_limits(store: Store) -> None:
    limit(store, Queue("slow", concurrency=0))
    add_runs(store, "slow", 3)
    begin(store)
    assert store.transact(lambda tx: tx.queues.free_queue("slow"))
    assert not store.transact(lambda tx: tx.queues.free_queue("slow"))
    assert len(claim(store, queue="slow")) == 3


def test_queues_are_listed_with_their_limits_and_load(store: Store) -> None:
    limit(store, SLOW)
    limit(store, RARE)
    add_runs(store, "slow", 5)
    add_runs(store, "default", 1)
    begin(store)
    claim(store, queue="slow")
    assert store.read(lambda tx: tx.queues.list_queues()) == [
        QueueLoad(Queue("default"), 1, 0),
        QueueLoad(RARE, 0, 0),
        QueueLoad(SLOW, 3, 2),
    ]


def test_work_is_listed_by_queue_and_namespace(store: Store) -> None:
    assert work(store, "default").places == ()
    add_runs(store, "default", 2, "zoo")
    add_runs(store, "default", 2, "alpha")
    add_runs(store, "late", 1)
    assert work(store, "late", "default", "none").places == (
        ("late", "default"),
        ("default", "alpha"),
        ("default", "zoo"),
    )


def test_a_claim_takes_from_its_namespace_only(store: Store) -> None:
    add_runs(store, "default", 3, "zoo")
    (mine,) = add_runs(store, "default", 1, "alpha")
    begin(store)
    claims = claim(store, namespace="alpha")
    assert [claimed.run.id for claimed in claims] == [mine]


def test_many_runs_are_settled_at_once(store: Store) -> None:
    add_runs(store, "default", 4)
    begin(store)
    claims = claim(store)
    done, failed = Outcome("succeeded"), Outcome("failed", "exit", "it broke\0", 3)
    stale = Token(claims[2].run.id, 7, "node-1")
    ended = [(claims[0].token, done), (claims[1].token, failed), (stale, done)]
    for _ in range(2):  # repeating it is harmless
        settled = store.transact(lambda tx: tx.attempts.settle_all(ended))
        assert settled == {claims[0].token, claims[1].token}
    runs = store.read(lambda tx: [tx.runs.get_run(claimed.run.id) for claimed in claims])
    assert [run.status for run in runs] == ["succeeded", "failed", "running", "running"]
    assert (runs[1].reason, runs[1].error, runs[1].exit_code) == ("exit", "it broke�", 3)
    assert (runs[0].failures, runs[1].failures) == (0, 1)


def test_runs_that_are_settled_at_once_wake_whom_they_shall(
    store: Store, clock: VirtualClock
) -> None:
    ids = [add_schedule(store, f"job-{n}") for n in range(2)]
    add_schedule(store, "after", depends_on=[{"schedule": "job-0", "within": "1h", "wait": "1h"}])
    for schedule_id in ids:
        add_run(store, schedule_id)
    begin(store)
    claims = claim(store)
    clock.advance(SECOND)
    assert store.read(lambda tx: tx.plans.earliest_wake()) != clock.now
    store.transact(
        lambda tx: tx.attempts.settle_all([(c.token, Outcome("succeeded")) for c in claims])
    )
    assert store.read(lambda tx: tx.plans.earliest_wake()) == clock.now
