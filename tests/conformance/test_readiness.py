"""Whether due work can run: each thing that may be missing, in words, and its effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.book.readiness import look
from duebook.engine.unserved import Unserved
from duebook.errors import Conflict, InvalidTime, Unavailable
from duebook.model.celery_target import CELERY
from duebook.model.readiness import Problem
from duebook.model.serving import ALL, Serving
from duebook.store.health_values import Overdue
from duebook.store.values import SessionInfo
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
    tick,
)

if TYPE_CHECKING:
    from duebook.store.base import Store
    from tests.support.backends import Backend


def join(
    store: Store,
    session_id: str = "node-1",
    roles: str = "scheduler,worker",
    queues: tuple[str, ...] = ("default",),
    tasks: tuple[str, ...] = (),
    namespaces: Serving = ALL,
) -> None:
    known = (tasks, queues, (), namespaces)
    info = SessionInfo(session_id, "host", 1, roles, "0", "2026a", *known)
    store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))


def test_books_with_a_scheduler_and_nothing_to_do_are_ready(store: Store, book: Book) -> None:
    join(store)
    readiness = book.readiness()
    assert readiness.ready
    assert (readiness.checked_at, readiness.problems) == (BEGIN, ())
    assert set(readiness.checks.values()) == {True}


def test_without_a_scheduler_nothing_is_ready(store: Store, book: Book) -> None:
    join(store, roles="worker")
    (problem,) = book.readiness().problems
    assert problem.code == "scheduler"
    assert "duebook up" in problem.message
    assert book.readiness().checks["scheduler"] is False


def test_a_node_whose_lease_ran_out_does_not_count(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    join(store)
    clock.advance(LEASE)
    assert [problem.code for problem in book.readiness().problems] == ["scheduler"]


def test_a_queue_with_work_needs_a_worker_that_serves_it(store: Store, book: Book) -> None:
    add_run(store, add_schedule(store, "slow", queue="reports"))
    join(store, queues=("default",))
    (problem,) = book.readiness().problems
    assert problem == Problem(
        "queue",
        'runs are waiting in queue "reports", which no live worker serves; '
        "start one: duebook up --queue reports",
    )
    join(store, "node-2", "worker", ("mail", "reports"))
    assert book.readiness().ready


def test_a_task_that_is_waited_for_needs_a_worker_that_knows_it(store: Store, book: Book) -> None:
    book.enqueue("known")
    for _ in range(3):
        book.enqueue("stranger")
    join(store, tasks=("known",))
    assert book.readiness().problems == (
        Problem("task", 'runs are waiting for task "stranger", which no live worker knows'),
    )
    join(store, "node-2", "worker", tasks=("stranger",))
    assert book.readiness().ready


def test_what_runs_already_needs_nobody_else(store: Store, book: Book) -> None:
    add_run(store, add_schedule(store, queue="reports"))
    join(store)
    claim(store, queue="reports")
    assert book.readiness().ready


def test_the_most_overdue_schedule_is_named_beyond_the_grace(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    add_schedule(store, "first", namespace="shop")
    add_schedule(store, "second", trigger={"every": "2m", "anchor": "2026-01-05T12:00:00Z"})
    clock.advance(2 * MINUTE + SECOND)
    join(store)
    assert book.readiness("2m").ready
    (problem,) = book.readiness().problems
    message = 'schedule "first" of namespace shop is overdue by 1m1s'
    assert problem == Problem("overdue", message)
    tick(store)
    assert book.readiness().ready


def test_a_namespace_has_a_readiness_of_its_own(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    add_run(store, add_schedule(store, "slow", namespace="shop", queue="reports"))
    Book(store, "shop").enqueue("errand")
    add_schedule(store, "late", namespace="bank")
    clock.advance(3 * MINUTE)
    join(store)
    shop = book.readiness(grace="1h", namespace="shop").problems
    assert [(problem.code, '"reports"' in problem.message) for problem in shop] == [
        ("queue", True),
        ("task", False),
    ]
    (late,) = book.readiness(namespace="bank").problems
    assert (late.code, '"late"' in late.message) == ("overdue", True)
    assert book.readiness(namespace="empty").ready
    assert Book(store, "bank").problems() == []
    assert len(Book(store, "shop").problems()) == 1


def test_a_grace_that_is_no_duration_is_refused(book: Book) -> None:
    with pytest.raises(InvalidTime):
        book.readiness("soon")


def test_a_schema_that_calls_this_duebook_too_old_is_a_problem(
    backend: Backend, store: Store, book: Book
) -> None:
    join(store)
    stamp = backend.rows("SELECT applied_at FROM migrations")[0][0]
    backend.write("INSERT INTO migrations VALUES (9999, 'next', '', ?)", stamp)
    backend.write("DELETE FROM meta WHERE key = 'min_compatible'")
    (problem,) = book.readiness().problems
    assert problem.code == "schema"
    assert "upgrade Duebook" in problem.message
    backend.write("INSERT INTO meta (key, value) VALUES ('min_compatible', 1)")
    assert book.readiness().ready  # it says that older ones may use it


@pytest.mark.parametrize(
    ("error", "code"), [(Unavailable("no route"), "database"), (Conflict("moved"), "schema")]
)
def test_books_that_do_not_answer_are_an_answer(
    store: Store,
    book: Book,
    error: Exception,
    code: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(*_: object) -> None:
        raise error

    monkeypatch.setattr(store, "read", read)
    readiness = book.readiness()
    assert readiness.problems == (Problem(code, str(error)),)
    assert readiness.checked_at is None
    assert readiness.checks["scheduler"] is None


def test_the_load_says_what_waits_and_runs_and_who_lives(store: Store, clock: VirtualClock) -> None:
    schedule_id = add_schedule(store, overlap="allow")
    other = add_schedule(store, "other", queue="mail", overlap="allow")
    for _ in range(3):
        add_run(store, schedule_id)
    for _ in range(2):
        add_run(store, other)
    join(store, tasks=("a", "b"))
    begin(store, "node-2")
    claim(store, "node-1", limit=1)
    clock.advance(MINUTE + SECOND)
    join(store, "node-3")
    load = store.read(lambda tx: tx.status.load(100))
    assert load.queued == {"default": 2, "mail": 2}
    assert load.running == {"default": 1}
    (node,) = load.nodes
    assert (node.roles, node.queues) == (("scheduler", "worker"), ("default",))
    assert load.overdue is not None
    assert load.overdue.since == BEGIN + MINUTE
    assert load.overdue == Overdue("default", load.overdue.name, BEGIN + MINUTE)
    assert store.read(lambda tx: tx.status.load(2)).queued == {"default": 1, "mail": 1}


def test_the_load_of_empty_books_is_empty(store: Store) -> None:
    load = store.read(lambda tx: tx.status.load(100))
    assert (load.queued, load.running, load.nodes, load.overdue) == ({}, {}, (), None)


def test_schedules_are_counted_by_state_in_slices(store: Store, book: Book) -> None:
    for number in range(5):
        add_schedule(store, f"job-{number}")
    book.schedules.pause("job-3")
    counts: dict[str, int] = {}
    after, slices = "", 0
    while True:
        found, last = store.read(lambda tx, after=after: tx.status.count_statuses(after, 2))  # type: ignore[misc]
        slices += 1
        for status, number in found.items():
            counts[status] = counts.get(status, 0) + number
        if last is None:
            break
        after = last
    assert counts == {"active": 4, "paused": 1}
    assert slices == 3


def test_celery_runs_wait_while_no_node_can_reach_the_broker(store: Store, book: Book) -> None:
    why = "the broker of Celery cannot be reached: Connection refused"
    unserved = Unserved(store)
    tell = unserved.celery(ALL)
    join(store, tasks=(CELERY,))
    unserved.session_id = "node-1"
    tell(why)
    (problem,) = book.readiness().problems
    assert problem == Problem("task", f"runs with Celery tasks wait on host (process 1): {why}")
    join(store, "node-2", tasks=(CELERY,))
    assert book.readiness().ready
    assert book.readiness().notes == (problem,)
    tell(None)
    assert book.readiness().notes == ()
    assert [node.unserved for node in book.nodes.list()] == [{}, {}]


def test_what_a_node_cannot_serve_is_written_for_its_next_session_although_nobody_tells_it(
    store: Store, book: Book
) -> None:
    unserved = Unserved(store)
    unserved.celery(ALL)("no broker")
    for session_id in ("node-1", "node-2"):
        join(store, session_id)
        unserved.session_id = session_id
        unserved.write()
    assert [node.unserved for node in book.nodes.list()] == [{"*": {CELERY: "no broker"}}] * 2


def test_what_could_not_be_written_is_written_later(
    store: Store, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    def transact(_: object) -> None:
        raise Unavailable("the database cannot be reached")

    join(store)
    unserved = Unserved(store)
    unserved.session_id = "node-1"
    unserved.celery(ALL)("no broker")
    with monkeypatch.context() as patch:
        patch.setattr(store, "transact", transact)
        with pytest.raises(Unavailable):
            unserved.celery(ALL)(None)
    unserved.write()
    assert [node.unserved for node in book.nodes.list()] == [{}]


def test_what_was_written_although_that_failed_is_corrected(
    store: Store, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = store.transact

    def transact(work: Any) -> None:
        original(work)
        raise Unavailable("the connection broke")

    join(store)
    unserved = Unserved(store)
    unserved.session_id = "node-1"
    with monkeypatch.context() as patch:
        patch.setattr(store, "transact", transact)
        with pytest.raises(Unavailable):
            unserved.celery(ALL)("no broker")
    unserved.celery(ALL)(None)
    assert [node.unserved for node in book.nodes.list()] == [{}]


def lose_celery(store: Store, session_id: str, namespaces: Serving) -> None:
    join(store, session_id, tasks=(CELERY,), namespaces=namespaces)
    unserved = Unserved(store)
    unserved.session_id = session_id
    unserved.celery(namespaces)("no broker")


@pytest.mark.parametrize(
    ("others", "is_ready"),
    [
        ((Serving(("a",)), Serving(("b",))), True),
        ((Serving(("a",)),), False),
        ((ALL,), True),
    ],
)
def test_each_namespace_of_a_node_without_celery_may_have_another_node(
    store: Store, book: Book, others: tuple[Serving, ...], is_ready: bool
) -> None:
    lose_celery(store, "lost", Serving(("a", "b")))
    for number, namespaces in enumerate(others):
        join(store, f"node-{number}", tasks=(CELERY,), namespaces=namespaces)
    assert ("task" not in {problem.code for problem in book.readiness().problems}) is is_ready


def test_an_outage_of_celery_is_shown_to_those_whose_namespaces_its_node_serves(
    store: Store,
) -> None:
    lose_celery(store, "node-1", Serving(("a", "b")))
    join(store, "node-2", tasks=(CELERY,), namespaces=Serving(("b",)))

    def problems(namespace: str) -> list[str]:
        return [problem.code for problem in look(store, "1m", (namespace,)).problems]

    def noted(namespace: str) -> list[str]:
        return [note.code for note in look(store, "1m", (namespace,)).notes]

    assert (problems("a"), noted("a")) == (["task"], [])
    assert (problems("b"), noted("b")) == ([], ["task"])
    assert (problems("c"), noted("c")) == ([], [])


def test_an_outage_of_celery_on_a_node_for_all_namespaces_is_shown_to_all(store: Store) -> None:
    lose_celery(store, "node-1", ALL)
    join(store, "node-2", tasks=(CELERY,), namespaces=Serving(("b",)))
    assert [problem.code for problem in look(store, "1m", ("a",)).problems] == ["task"]
    assert [problem.code for problem in look(store, "1m", ("b",)).problems] == []


def test_what_a_node_cannot_serve_is_told_again_by_its_next_session(
    store: Store, book: Book
) -> None:
    unserved = Unserved(store)
    unserved.tell("relay", {("default", "kafka"): "it is down"})
    for session_id in ("node-1", "node-2"):
        join(store, session_id)
        unserved.session_id = session_id
        unserved.tell("relay", {("default", "kafka"): "it is down"})
    unserved.celery(ALL)("no broker")
    assert [node.unserved for node in book.nodes.list()] == [
        {"default": {"kafka": "it is down"}},
        {"default": {"kafka": "it is down"}, "*": {CELERY: "no broker"}},
    ]
