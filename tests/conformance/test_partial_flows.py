"""Runs of flows that ended partial, and what treats that as a success."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.engine.advancer import Advancer
from duebook.model.flow_target import FlowTarget
from tests.support.builders import (
    MINUTE,
    add_schedule,
    begin,
    claim,
    get_run,
    get_runs,
    tick,
)
from tests.support.flow_builders import put_flow, work

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.run import Run
    from duebook.store.base import Store
    from tests.support.builders import VirtualClock

ETL = """
name: etl
steps:
  - {name: tidy, command: "true", continue_on: failed}
  - {name: load, command: "true"}
"""


def ended_partial(book: Book, store: Store) -> Run:
    put_flow(store, ETL, "etl")
    run = book.flows.start("etl")
    begin(store)
    assert work(store, tidy="failed") == ["tidy", "load"]
    return get_run(store, run.id)


def test_a_flow_that_continued_after_a_failure_ends_partial_and_says_so(
    book: Book, store: Store
) -> None:
    run = ended_partial(book, store)
    assert (run.status, run.state, run.reason) == ("partial", "partial", "step")
    assert run.error == "step tidy failed, and the flow continued"
    assert not run.is_active
    assert "partial: step tidy failed" in book.flows.explain(run.id).text


def test_partial_runs_are_listed_by_their_status(book: Book, store: Store) -> None:
    run = ended_partial(book, store)
    assert [each.id for each in book.runs.list(status="partial")] == [run.id]
    assert [each.step for each in book.runs.list(status="failed")] == ["tidy"]


def test_a_retry_of_a_partial_run_keeps_what_succeeded(book: Book, store: Store) -> None:
    run = ended_partial(book, store)
    book.flows.retry(run.id)
    assert work(store) == ["tidy"]
    assert get_run(store, run.id).status == "succeeded"
    assert [a.outcome for a in book.runs.attempts(run.id)] == ["partial"]


def test_a_called_flow_that_ends_partial_makes_its_caller_partial(book: Book, store: Store) -> None:
    put_flow(store, ETL, "etl")
    put_flow(
        store, "name: outer\nsteps: [{name: inner, call: etl}, {name: after, command: ok}]", "outer"
    )
    run = book.flows.start("outer")
    begin(store)
    Advancer(store).step()
    (claimed,) = claim(store)
    store.transact(lambda tx: tx.flow_runs.call_flow(claimed.token, FlowTarget("etl")))
    assert work(store, tidy="failed") == ["tidy", "load", "after"]
    ended = get_run(store, run.id)
    assert (ended.status, ended.error) == (
        "partial",
        "step inner ended partial, and the flow continued",
    )


def test_a_partial_run_satisfies_depends_on(store: Store, clock: VirtualClock) -> None:
    once = {"at": "2026-01-05T12:01:00Z"}
    put_flow(store, ETL, "etl")
    up = add_schedule(store, "up", trigger=once, target={"flow": "etl"})
    depends_on = [{"schedule": "up", "within": "1h", "wait": "1h"}]
    down = add_schedule(store, "down", trigger=once, depends_on=depends_on)
    clock.advance(MINUTE)
    begin(store)
    tick(store)
    assert [len(get_runs(store, id_)) for id_ in (up, down)] == [1, 0]
    assert work(store, tidy="failed") == ["tidy", "load"]
    tick(store)  # its end woke what depends on it
    assert [run.status for run in get_runs(store, up)] == ["partial"]
    assert len(get_runs(store, down)) == 1


def test_a_manual_run_that_ended_partial_satisfies_skip_if_successful(
    book: Book, store: Store, clock: VirtualClock
) -> None:
    put_flow(store, ETL, "etl")
    job = add_schedule(
        store, "job", trigger={"every": "10m"}, target={"flow": "etl"}, skip_if_successful=True
    )
    clock.advance(MINUTE)
    book.schedules.trigger("job")
    begin(store)
    assert work(store, tidy="failed") == ["tidy", "load"]
    clock.advance(10 * MINUTE)
    tick(store)
    assert [run.status for run in get_runs(store, job)] == ["partial"]


def test_statistics_count_partial_runs_apart(book: Book, store: Store) -> None:
    put_flow(store, ETL, "etl")
    add_schedule(store, "job", target={"flow": "etl"})
    begin(store)
    book.schedules.trigger("job")
    assert work(store, tidy="failed") == ["tidy", "load"]
    found = book.schedules.statistics("job")
    assert (found.total.partial, found.total.succeeded, found.total.failed) == (1, 0, 0)
    assert (found.total.success_rate, found.last_success_at) == (0.0, None)
