"""Life cycles as events: written for listeners, in order and without gaps; otherwise not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.engine.advancer import Advancer
from duebook.model.consumer import new_consumer
from duebook.model.flow_target import FlowTarget
from tests.support.builders import (
    MINUTE,
    add_run,
    add_schedule,
    begin,
    claim,
    lose,
    settle,
    tick,
)
from tests.support.event_builders import problems, stamp, step
from tests.support.flow_builders import CHAIN, put_flow, start

if TYPE_CHECKING:
    from duebook.model.event import Event
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock


def listen(store: Store, *topics: str, namespace: str = "default") -> None:
    wanted = new_consumer(namespace, "watcher", "group", list(topics), 1, 1)
    store.transact(lambda tx: tx.consumers.save_consumer(wanted, 0))


def told(store: Store, topic: str = "duebook.runs") -> list[Event]:
    stamp(store)
    return Book(store).events.list(topic)


def test_nothing_is_told_while_nobody_listens(store: Store, clock: VirtualClock) -> None:
    listen(store, "orders")
    listen(store, "duebook.runs", namespace="elsewhere")
    add_schedule(store)
    clock.advance(MINUTE)
    tick(store)
    begin(store)
    (claimed,) = claim(store)
    settle(store, claimed.token)
    assert told(store) == []
    assert told(store, "duebook.schedules") == []


def test_the_ends_of_runs_are_told(store: Store, clock: VirtualClock) -> None:
    listen(store, "duebook.runs")
    job = add_schedule(store, overlap="allow")
    clock.advance(MINUTE)
    tick(store)
    begin(store)
    (claimed,) = claim(store)
    settle(store, claimed.token, "failed", reason="exit_code", error="exit code 3")
    (event,) = told(store)
    assert (event.type, event.key, event.version) == ("run.failed", "job", 1)
    assert event.aggregate == f"run:{claimed.run.id}"
    assert event.meta["schedule_id"] == job
    assert {key: event.data[key] for key in ("run", "status", "error", "attempt")} == {
        "run": claimed.run.id,
        "status": "failed",
        "error": "exit code 3",
        "attempt": 1,
    }
    assert event.data["due_at"] == "2026-01-05T12:01:00Z"


def test_many_ends_at_once_are_told_each(store: Store) -> None:
    listen(store, "duebook.runs")
    for n in range(3):
        add_run(store, add_schedule(store, f"job-{n}"))
    begin(store)
    ended = [(claimed.token, claimed) for claimed in claim(store)]
    for token, _ in ended:
        settle(store, token)
        settle(store, token)
    assert [event.type for event in told(store)] == ["run.succeeded"] * 3


@pytest.mark.parametrize("how", ["cancel", "expire", "poison", "delete"])
def test_runs_that_end_in_other_ways_are_told_too(
    store: Store, clock: VirtualClock, book: Book, how: str
) -> None:
    listen(store, "duebook.runs")
    add_schedule(store, expire_after="1m", max_takeovers=0)
    clock.advance(MINUTE)
    tick(store)
    (run,) = book.runs.list()
    if how == "cancel":
        book.runs.cancel(run.id)
    elif how == "expire":
        clock.advance(5 * MINUTE)
        assert store.transact(lambda tx: tx.attempts.expire(10)) == 1
    elif how == "delete":
        book.schedules.delete("job")
    else:
        begin(store)
        claim(store)
        lose(store, "node-1")
    (event,) = told(store)
    assert event.data["run"] == run.id
    assert event.type == ("run.failed" if how == "poison" else "run.cancelled")


def test_what_is_made_up_for_is_told_as_late(store: Store, clock: VirtualClock) -> None:
    listen(store, "duebook.runs")
    add_schedule(store, target={"event": "orders"})
    add_schedule(store, "command")
    clock.advance(10 * MINUTE)
    step(store)
    late = [event for event in told(store) if event.type == "run.late"]
    assert [event.data["schedule"] for event in late] == ["command"]
    assert [event.data["status"] for event in late] == ["queued"]


def test_what_happens_to_schedules_is_told_without_gaps(
    store: Store, clock: VirtualClock, book: Book
) -> None:
    listen(store, "duebook.schedules")
    when = {"at": "2026-01-05T13:00:00Z"}
    book.schedules.create("job", trigger=when, target={"event": "orders"}, by="ann")
    book.schedules.update("job", description="new")
    book.schedules.pause("job", "holidays")
    book.schedules.resume("job")
    clock.advance(61 * MINUTE)
    step(store)
    book.schedules.delete("job")
    found = told(store, "duebook.schedules")
    assert [event.type.removeprefix("schedule.") for event in found] == [
        *("created", "updated", "paused", "resumed", "completed", "deleted")
    ]
    assert found[2].data["reason"] == "holidays"
    mixed = sorted([*found, *told(store, "orders")], key=lambda event: event.position or 0)
    assert [event.version for event in mixed] == list(range(1, 8))
    assert problems(store) == []


def test_a_pause_that_ends_by_itself_is_told(store: Store, clock: VirtualClock, book: Book) -> None:
    add_schedule(store)
    book.schedules.pause("job", until=clock.now + MINUTE)
    listen(store, "duebook.schedules")
    clock.advance(2 * MINUTE)
    step(store)
    assert [event.type for event in told(store, "duebook.schedules")] == ["schedule.resumed"]


def test_who_wants_all_topics_gets_none_about_life_cycles(
    store: Store, backend: Backend, clock: VirtualClock, book: Book
) -> None:
    listen(store, "duebook.runs")
    add_schedule(store, target={"event": "orders"})
    clock.advance(MINUTE)
    step(store)
    stamp(store)
    assert [event.topic for event in book.events.list()] == ["orders"]
    assert backend.rows("SELECT count(*) FROM events") == [(2,)]


def test_the_end_of_a_flow_is_told_beside_that_of_its_run(store: Store) -> None:
    listen(store, "duebook.runs")
    put_flow(store, CHAIN)
    run_id = start(store)
    begin(store)
    for _ in range(2):
        Advancer(store).step()
        (claimed,) = claim(store)
        settle(store, claimed.token)
    Advancer(store).step()
    found = told(store)
    assert [(e.type, e.data["flow"], e.data["step"], e.key) for e in found] == [
        ("run.succeeded", "chain", "one", "chain"),
        ("run.succeeded", "chain", "two", "chain"),
        ("run.succeeded", "chain", None, "chain"),
        ("flow.finished", "chain", None, "chain"),
    ]
    assert [(e.aggregate, e.version) for e in found[2:]] == [
        (f"run:{run_id}", 1),
        (f"run:{run_id}", 2),
    ]
    assert problems(store) == []


def scheduled(store: Store, clock: VirtualClock, **policies: Any) -> str:
    """A run of a flow that its schedule created and that has not started."""
    add_schedule(store, "often", target={"flow": "chain"}, **policies)
    clock.advance(MINUTE)
    tick(store)
    return Book(store).runs.list("often")[0].id


def call(store: Store) -> str:
    """A run of a flow that a step called, and that waits for another."""
    put_flow(store, CHAIN + "max_active_runs: 1\n")
    put_flow(store, "name: outer\nsteps: [{name: inner, call: chain}]\n", "outer")
    advancer = Advancer(store)
    start(store)
    advancer.step()
    start(store, "outer")
    begin(store)
    advancer.step()
    (inner,) = [claimed for claimed in claim(store) if claimed.run.step == "inner"]
    assert store.transact(lambda tx: tx.flow_runs.call_flow(inner.token, FlowTarget("chain")))
    advancer.step()
    return inner.run.id


@pytest.mark.parametrize(
    "how", ["cancel", "expire", "delete", "supersede", "called", "ghost", "stopped", "twice"]
)
def test_every_end_of_a_flow_is_told_once_however_it_ends(
    store: Store, clock: VirtualClock, book: Book, how: str
) -> None:
    listen(store, "duebook.runs")
    put_flow(store, CHAIN)
    ends = 1
    if how == "cancel":
        book.runs.cancel(run_id := start(store))
    elif how == "expire":
        run_id = scheduled(store, clock, expire_after="1m")
        clock.advance(5 * MINUTE)
        assert store.transact(lambda tx: tx.attempts.expire(10)) == 1
    elif how == "delete":
        run_id = scheduled(store, clock)
        book.schedules.delete("often")
    elif how == "supersede":
        run_id = scheduled(store, clock, overlap="cancel")
        clock.advance(MINUTE)
        tick(store)
    elif how == "called":
        run_id = call(store)
        book.flows.stop("outer")
        Advancer(store).step()
    elif how == "ghost":
        run_id = start(store, "ghost")
    else:
        run_id = start(store)
        Advancer(store).step()
        book.flows.stop("chain")
        if how == "twice":
            Advancer(store).step()
            book.flows.retry(run_id)
            Advancer(store).step()
            book.runs.cancel(run_id)
            ends = 2
    Advancer(store).step()
    assert book.runs.get(run_id).finished_at is not None
    found = [event.type for event in told(store) if event.data["run"] == run_id]
    status = book.runs.get(run_id).status
    assert found == [f"run.{status}", "flow.finished"] * ends
    assert problems(store) == []
