"""A node executes runs of the namespaces it serves, and of no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.engine.keeper import Keeper
from duebook.model.serving import ALL, NONE, Serving, StrandedTask
from duebook.store.values import SessionInfo
from tests.support.builders import (
    LEASE,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    claim,
    tick,
)

if TYPE_CHECKING:
    from duebook.store.base import Store

STAGING = Serving(("staging",))
PROD = Serving(("prod",))


def join(
    store: Store,
    session_id: str,
    namespaces: Serving,
    roles: str = "scheduler,worker",
    queues: tuple[str, ...] = ("default",),
    tasks: tuple[str, ...] = (),
) -> None:
    about = (session_id, "host", 1, roles, "0", "2026a", tasks, queues)
    info = SessionInfo(*about, namespaces=namespaces)
    store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))


@pytest.mark.parametrize("limited", [False, True])
def test_a_session_never_claims_a_run_of_a_namespace_that_it_does_not_serve(
    store: Store, limited: bool
) -> None:
    if limited:
        Book(store).queues.limit("default", concurrency=10)
    join(store, "node-1", STAGING)
    add_run(store, add_schedule(store, "deploy", "prod"))
    assert claim(store, namespace="prod") == []
    own = add_run(store, add_schedule(store, "deploy", "staging"))
    assert [claimed.run.id for claimed in claim(store, namespace="staging")] == [own]


def test_of_several_nodes_each_claims_what_it_serves(store: Store) -> None:
    join(store, "node-1", STAGING)
    join(store, "node-2", Serving(("billing", "prod")))
    join(store, "node-3", NONE)
    join(store, "node-4", ALL)
    for namespace in ("staging", "prod", "billing", "default"):
        add_run(store, add_schedule(store, "job", namespace))
    claimed = {
        (node, namespace)
        for namespace in ("staging", "prod", "billing", "default")
        for node in ("node-3", "node-1", "node-2", "node-4")
        if claim(store, node, namespace=namespace)
    }
    assert claimed == {
        ("node-1", "staging"),
        ("node-2", "prod"),
        ("node-2", "billing"),
        ("node-4", "default"),
    }


@pytest.mark.parametrize("limited", [False, True])
def test_work_is_looked_for_only_where_it_is_served(store: Store, limited: bool) -> None:
    if limited:  # then free places are computed in Python
        Book(store).queues.limit("other", concurrency=1)
    for namespace in ("prod", "staging", "test"):
        add_run(store, add_schedule(store, "job", namespace))

    def places(namespaces: Serving) -> tuple[tuple[str, str], ...]:
        queues = ["default", "other"]
        found = store.look_for_work(queues, [], (), namespaces)
        assert store.read(lambda tx: tx.claims.list_work(queues, (), (), namespaces)) == found
        return found.places

    assert places(STAGING) == (("default", "staging"),)
    assert places(Serving(("test", "prod"))) == (("default", "prod"), ("default", "test"))
    assert places(Serving(("empty",))) == places(NONE) == ()
    assert [namespace for _, namespace in places(ALL)] == ["prod", "staging", "test"]


def test_a_pulse_tells_only_of_work_that_the_node_serves(store: Store) -> None:
    join(store, "node-1", STAGING)

    def queued(namespaces: Serving) -> bool:
        return store.pulse("node-1", LEASE, ["default"], namespaces=namespaces).queued

    add_run(store, add_schedule(store, "job", "prod"))
    assert not queued(STAGING), "it would look for it again and again"
    assert queued(PROD)
    assert queued(ALL)
    keeper = Keeper(
        store, "node-1", LEASE, None, lambda *_: None, queues=("default",), namespaces=STAGING
    )
    keeper.renew()
    assert keeper.pulse is not None
    assert not keeper.pulse.queued
    add_run(store, add_schedule(store, "job", "staging"))
    assert queued(STAGING)
    assert store.transact(
        lambda tx: tx.nodes.pulse("node-1", LEASE, ["default"], False, STAGING)
    ).queued


def test_any_node_plans_any_namespace(store: Store, clock: VirtualClock) -> None:
    join(store, "node-1", STAGING)
    add_schedule(store, "job", "prod")
    clock.advance(MINUTE)
    assert tick(store, session_id="node-1") == 1
    assert claim(store, namespace="prod") == []


def test_a_run_that_is_taken_over_or_handed_back_stays_with_those_who_serve_it(
    store: Store, clock: VirtualClock
) -> None:
    join(store, "node-1", PROD)
    join(store, "node-2", STAGING)
    run_id = add_run(store, add_schedule(store, "job", "prod"))
    (claimed,) = claim(store, "node-1", namespace="prod")
    assert store.transact(lambda tx: tx.attempts.hand_back(claimed.token))
    assert claim(store, "node-2", namespace="prod") == []
    assert claim(store, "node-1", namespace="prod")
    store.transact(lambda tx: tx.nodes.end_session("node-1"))
    assert store.transact(lambda tx: tx.attempts.take_over(10)) == 1
    assert claim(store, "node-2", namespace="prod") == []
    clock.advance(SECOND)
    join(store, "node-3", PROD)
    assert [found.run.id for found in claim(store, "node-3", namespace="prod")] == [run_id]


# -- which nodes are notified


def test_books_with_work_in_a_namespace_that_nobody_serves_are_not_ready(store: Store) -> None:
    book = Book(store)
    join(store, "node-1", STAGING)
    add_run(store, add_schedule(store, "job", "prod"))
    (problem,) = book.readiness().problems
    told = 'runs are waiting in namespace "prod", which no live node serves; '
    assert (problem.code, problem.message) == (
        "namespace",
        told + "start one: duebook up --serve prod",
    )
    assert Book(store, "prod").problems() == [problem.message]
    assert Book(store, "staging").problems() == []
    join(store, "node-2", PROD, queues=("mail",))
    (problem,) = book.readiness().problems
    assert problem.message == (
        'runs of namespace "prod" are waiting in queue "default", but no live worker serves both; '
        "start one: duebook up --serve prod --queue default"
    )
    join(store, "node-3", PROD)
    assert book.readiness().ready


def test_status_tells_of_schedules_that_nobody_serves_before_they_are_due(store: Store) -> None:
    book, prod = Book(store), Book(store, "prod")
    prod.schedules.create("job", trigger={"every": "1h"}, target={"command": ["true"]})
    event = {"event": {"topic": "orders", "type": "tick", "data": {}}}
    Book(store, "events").schedules.create("job", trigger={"every": "1h"}, target=event)
    join(store, "node-1", STAGING)
    told = 'no live node serves namespace "prod", which has active schedules; '
    message = told + "start one: duebook up --serve prod"
    assert [problem.message for problem in book.readiness().problems] == [message]
    assert prod.readiness(namespace="prod").problems == book.readiness().problems
    assert book.readiness(namespace="staging").ready
    prod.schedules.pause("job")
    assert book.readiness().ready
    prod.schedules.resume("job")
    join(store, "node-2", ALL)
    assert book.readiness().ready


def test_a_task_that_only_other_namespaces_know_is_as_good_as_unknown(store: Store) -> None:
    prod = Book(store, "prod")
    prod.schedules.create("job", trigger={"every": "1h"}, target="digest")
    prod.enqueue("digest")
    join(store, "node-1", STAGING, tasks=("digest",))
    join(store, "node-2", PROD)
    stranded = StrandedTask("prod", "digest", elsewhere=True)
    assert store.read(lambda tx: tx.nodes.list_stranded_tasks()) == [stranded]
    assert store.read(lambda tx: tx.nodes.list_known_tasks("prod")) == set()
    assert store.read(lambda tx: tx.nodes.list_known_tasks("staging")) == {"digest"}
    (problem,) = prod.readiness().problems
    told = 'runs of namespace "prod" are waiting for task "digest", which only workers of other '
    assert (problem.code, problem.message) == ("task", told + "namespaces know")
    assert prod.schedules.get("job").problem == 'no live worker knows task "digest"'
    join(store, "node-3", ALL, tasks=("digest",))
    assert store.read(lambda tx: tx.nodes.list_stranded_tasks()) == []
    assert prod.schedules.get("job").problem is None


def test_a_schedule_of_a_namespace_that_nobody_serves_has_a_problem(store: Store) -> None:
    prod = Book(store, "prod")
    prod.schedules.create("job", trigger={"every": "1h"}, target={"command": ["true"]})
    event = {"event": {"topic": "orders", "type": "tick", "data": {}}}
    prod.schedules.create("signal", trigger={"every": "1h"}, target=event)
    assert prod.schedules.get("job").problem is None, "where no node lives, none is missing"
    join(store, "node-1", STAGING)
    told = 'no live node serves namespace "prod"; start one with --serve prod'
    assert prod.schedules.get("job").problem == told
    assert prod.schedules.get("signal").problem is None, "an event needs no worker"
    assert [found.name for found in prod.schedules.list(problem=True)] == ["job"]
    assert [found.name for found in prod.schedules.list(problem=False)] == ["signal"]
    join(store, "node-2", PROD)
    assert prod.schedules.list(problem=True) == []


def test_an_explanation_says_when_nobody_serves_the_namespace(
    store: Store, clock: VirtualClock
) -> None:
    prod = Book(store, "prod")
    add_schedule(store, "job", "prod")
    join(store, "node-1", STAGING)
    nobody = 'no live node serves namespace "prod"; start one with --serve prod'
    due_at = clock.now + MINUTE

    def told() -> str:
        found = prod.schedules.explain("job", due_at)
        assert not isinstance(found, list)
        return found.text

    assert told() == f"due in 1 min, at 12:01; {nobody}"
    clock.advance(MINUTE)
    store.transact(lambda tx: tx.nodes.renew("node-1", LEASE))
    tick(store)
    assert told() == f"queued since 12:01, for less than 1 s: {nobody}"
    join(store, "node-2", PROD)
    assert told().endswith("no worker has started it yet")


def test_nodes_tell_what_they_serve(store: Store) -> None:
    join(store, "node-1", STAGING)
    join(store, "node-2", ALL)
    nodes = {node.id: node for node in Book(store).nodes.list()}
    assert nodes["node-1"].namespaces == STAGING
    assert nodes["node-2"].namespaces == ALL
    assert nodes["node-1"].serves("staging")
    assert not nodes["node-1"].serves("prod")
    assert nodes["node-2"].serves("anything")
