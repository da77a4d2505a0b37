"""Flows through the client: start, stop, restart, retry, inspect."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.engine.advancer import Advancer
from duebook.errors import Conflict, Invalid, NotFound
from duebook.explain import Explanation
from duebook.flows.problems import Problem
from duebook.ids import new_id
from duebook.model.flow_target import FlowTarget
from duebook.model.listing import BadCursor
from duebook.model.schedule import InvalidSchedule
from duebook.store.flow_values import BrokenFile
from duebook.timetext import format_instant
from tests.support.builders import BEGIN, MINUTE, begin, claim, get_run, tick
from tests.support.flow_builders import (
    CHAIN,
    FORK,
    GUARDED,
    PARTLY,
    UNMET,
    claim_steps,
    leave_out,
    put_flow,
    settle,
    steps_of,
    work,
)

if TYPE_CHECKING:
    from duebook.model.run import Run, Token
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock


def test_the_default_of_a_param_that_is_a_secret_is_hidden(book: Book, store: Store) -> None:
    put_flow(store, "params: {DAY: monday, DB_PASSWORD: a-secret}\nsteps: [a]", "etl")
    assert [param["default"] for param in book.flows.get("etl").params] == ["monday", "***"]


def test_a_flow_that_is_started_gets_the_params_that_it_has(book: Book, store: Store) -> None:
    put_flow(store, FORK, "fork")
    run = book.flows.start("fork", {"DAY": "friday"})
    assert (run.flow, run.origin, run.status) == ("fork", "manual", "queued")
    assert store.read(lambda tx: tx.flow_runs.flow_run(run.id)) is not None
    (parent,) = store.transact(lambda tx: tx.flow_runs.take_flows(1))
    assert parent.params == {"DAY": "friday"}
    with pytest.raises(Invalid, match='has no param "DAI"'):
        book.flows.start("fork", {"DAI": "friday"})
    with pytest.raises(NotFound, match='flow "ghost" does not exist'):
        book.flows.start("ghost")


OUTER = """
name: outer
steps:
  - {name: before, command: "true"}
  - {name: inner, call: middle}
  - {name: last, command: "true"}
---
name: middle
steps:
  - {name: nested, call: deep}
---
name: deep
steps:
  - {name: good, command: "true"}
  - {name: bad, command: "true"}
"""


def call_and_work(store: Store, **ends: str) -> list[str]:
    """Like `work`, but steps that call flows do so."""
    ran = work_once(store, ends)
    while more := work_once(store, ends):
        ran += more
    return ran


def call(store: Store, token: Token, flow: str) -> None:
    assert store.transact(lambda tx: tx.flow_runs.call_flow(token, FlowTarget(flow)))


def work_once(store: Store, ends: dict[str, str]) -> list[str]:
    calls = {"inner": "outer.middle", "nested": "outer.deep"}
    Advancer(store).step()
    ran = []
    for claimed in claim(store):
        step = claimed.run.step or ""
        ran.append(step)
        if step in calls:
            call(store, claimed.token, calls[step])
        else:
            settle(store, claimed.token, ends.get(step, "succeeded"))  # type: ignore[arg-type]
    Advancer(store).step()
    return ran


def test_a_retry_goes_on_within_the_flows_that_were_called(book: Book, store: Store) -> None:
    for name in ("outer", "outer.middle", "outer.deep"):
        put_flow(store, OUTER, name)
    run = book.flows.start("outer")
    begin(store)
    assert call_and_work(store, bad="failed") == ["before", "inner", "nested", "good", "bad"]
    assert get_run(store, run.id).status == "failed"
    book.flows.retry(run.id)
    assert call_and_work(store, bad="failed") == ["bad"]
    assert get_run(store, run.id).status == "failed"
    book.flows.retry(run.id)
    assert call_and_work(store) == ["bad", "last"]
    assert get_run(store, run.id).status == "succeeded"
    book.flows.retry(run.id, step="inner")
    assert call_and_work(store) == ["inner", "nested", "good", "bad", "last"]


def test_a_called_flow_of_which_nothing_is_to_be_kept_begins_anew(book: Book, store: Store) -> None:
    put_flow(store, "name: outer\nsteps: [{name: inner, call: ghost}]", "outer")
    run = book.flows.start("outer")
    begin(store)
    Advancer(store).step()
    (claimed,) = claim(store)
    call(store, claimed.token, "ghost")
    Advancer(store).step()
    assert get_run(store, run.id).status == "failed"
    book.flows.retry(run.id)
    Advancer(store).step()
    assert [claimed.run.step for claimed in claim(store)] == ["inner"]


def failed_within(book: Book, store: Store) -> tuple[Run, Run]:
    """A run of a flow that allows one active run, and the called flow's run that failed in it."""
    put_flow(store, "max_active_runs: 1\n" + OUTER.lstrip(), "outer")
    for name in ("outer.middle", "outer.deep"):
        put_flow(store, OUTER, name)
    run = book.flows.start("outer")
    begin(store)
    call_and_work(store, bad="failed")
    return run, steps_of(store, run.id)["inner"]


def test_a_called_flow_does_not_go_on_before_its_caller(
    book: Book, store: Store, clock: VirtualClock
) -> None:
    run, called = failed_within(book, store)
    other = book.flows.start("outer")
    Advancer(store).step()
    book.flows.retry(run.id)
    Advancer(store).step()
    assert [get_run(store, id_).status for id_ in (run.id, called.id)] == ["queued", "queued"]
    told = {step.step: step.text for step in book.flows.explain(run.id).steps}
    assert told["inner"].endswith("it continues when the run starts")
    book.flows.stop("outer")
    assert get_run(store, run.id).status == "cancelled"
    (before,) = claim(store)
    settle(store, before.token, "cancelled", reason="flow_cancelled")
    clock.advance(MINUTE)
    Advancer(store).step()
    assert get_run(store, other.id).status == "cancelled"
    assert get_run(store, called.id).status == "cancelled"


def test_a_called_flow_goes_on_as_soon_as_its_caller_does(book: Book, store: Store) -> None:
    run, called = failed_within(book, store)
    other = book.flows.start("outer")
    Advancer(store).step()
    book.flows.retry(run.id)
    Advancer(store).step()
    store.transact(lambda tx: tx.runs.cancel(other.id, "cancelled"))
    Advancer(store).step()
    assert [get_run(store, id_).status for id_ in (run.id, called.id)] == ["running", "running"]
    assert call_and_work(store) == ["bad", "last"]
    assert get_run(store, run.id).status == "succeeded"


def test_a_run_of_a_flow_that_never_began_has_made_no_attempt_when_it_is_retried(
    book: Book, store: Store
) -> None:
    put_flow(store, CHAIN)
    run = book.flows.start("chain")
    book.runs.cancel(run.id)
    Advancer(store).step()
    assert get_run(store, run.id).attempt == 0
    book.flows.retry(run.id)
    assert list(book.runs.attempts(run.id)) == []


def test_a_retry_goes_on_where_the_flow_failed_and_keeps_what_succeeded(
    book: Book, store: Store
) -> None:
    put_flow(store, FORK, "fork")
    run = book.flows.start("fork")
    begin(store)
    assert set(work(store, bad="failed")) == {"good", "bad", "handler_on.exit"}
    assert get_run(store, run.id).status == "failed"
    again = book.flows.retry(run.id)
    assert (again.id, again.status) == (run.id, "queued")
    assert work(store) == ["bad", "join", "handler_on.exit"]
    ended = get_run(store, run.id)
    assert (ended.status, ended.attempt) == ("succeeded", 2)
    assert len(book.flows.steps(run.id)) == 6  # steps that started again are remembered
    with pytest.raises(Conflict, match="no failed step"):
        book.flows.retry(run.id)
    assert store.read(lambda tx: [f for f in tx.checks.check(deep=True) if f.problem]) == []


def test_a_run_is_repeated_from_a_step_on(book: Book, store: Store) -> None:
    put_flow(store, FORK, "fork")
    run = book.flows.start("fork")
    begin(store)
    work(store)
    book.flows.retry(run.id, step="good")
    assert work(store) == ["good", "join", "handler_on.exit"]


def test_from_a_step_on_after_a_failed_init_all_begins_with_that(book: Book, store: Store) -> None:
    put_flow(store, CHAIN + 'handler_on: {init: "true"}')
    run = book.flows.start("chain")
    begin(store)
    assert work(store, **{"handler_on.init": "failed"}) == ["handler_on.init"]
    book.flows.retry(run.id, step="two")
    assert work(store, one="failed") == ["handler_on.init", "one"]
    with pytest.raises(Conflict, match='step "two" cannot run: "one" before it failed'):
        book.flows.retry(run.id, step="two")
    book.flows.retry(run.id, step="one")
    assert work(store) == ["one", "two"]
    assert get_run(store, run.id).status == "succeeded"


def test_a_called_flow_that_a_stop_cut_off_keeps_what_it_has_when_another_step_begins_again(
    book: Book, store: Store
) -> None:
    for name in ("outer", "outer.middle", "outer.deep"):
        put_flow(store, OUTER, name)
    run = book.flows.start("outer")
    begin(store)
    while work_once(store, {}) != ["good"]:
        pass
    book.flows.stop("outer")
    call_and_work(store, bad="cancelled")
    assert get_run(store, run.id).status == "cancelled"
    book.flows.retry(run.id, step="last")
    assert call_and_work(store) == ["bad", "last"]


def test_a_run_of_a_flow_is_retried_like_any_other_and_its_steps_are_not(
    book: Book, store: Store
) -> None:
    put_flow(store, FORK, "fork")
    run = book.flows.start("fork")
    begin(store)
    work(store, bad="failed")
    with pytest.raises(Conflict, match="is a step; retry its flow run"):
        book.runs.retry(steps_of(store, run.id)["bad"].id)
    book.runs.retry(run.id)
    assert "join" in work(store)


def test_stop_cancels_what_runs_and_nothing_else(book: Book, store: Store) -> None:
    put_flow(store, CHAIN)
    with pytest.raises(Conflict, match='flow "chain" is not running'):
        book.flows.stop("chain")
    run = book.flows.start("chain")
    begin(store)
    Advancer(store).step()
    claims = claim_steps(store)
    assert [stopped.id for stopped in book.flows.stop("chain")] == [run.id]
    Advancer(store).step()
    settle(store, claims["one"].token, "cancelled", reason="flow_cancelled")
    assert work(store) == []
    ended = get_run(store, run.id)
    assert (ended.status, ended.reason) == ("cancelled", "stopped")


def test_what_has_ended_meanwhile_is_no_obstacle_to_a_stop(book: Book, store: Store) -> None:
    put_flow(store, CHAIN)
    ended, running, queued = (book.flows.start("chain").id for _ in range(3))
    store.transact(lambda tx: tx.runs.cancel(ended, "cancelled"))
    store.transact(lambda tx: tx.flow_runs.begin_flows([running], {}))
    store.transact(lambda tx: tx.flow_controls.stop_flows([ended, running, queued], "stopped"))
    found = [get_run(store, id_) for id_ in (ended, running, queued)]
    assert [run.status for run in found] == ["cancelled", "running", "cancelled"]
    assert [run.reason for run in found] == ["cancelled", "stopped", "stopped"]


def restart(book: Book, store: Store, clock: VirtualClock) -> None:
    """Restart the flow: its running step stops, and the flow starts again."""
    claims = claim_steps(store)
    book.flows.restart("chain")
    Advancer(store).step()
    settle(store, claims["one"].token, "cancelled", reason="flow_cancelled")
    clock.advance()
    begin(store, "node-2")
    Advancer(store).step()


def test_restart_stops_and_starts(book: Book, store: Store, clock: VirtualClock) -> None:
    put_flow(store, CHAIN)
    run = book.flows.start("chain")
    begin(store)
    Advancer(store).step()
    restart(book, store, clock)
    assert [found.status for found in book.flows.runs("chain")] == ["running", "cancelled"]
    assert book.flows.runs("chain")[1].id == run.id
    assert book.flows.get("chain").last_run == book.flows.runs("chain")[0]


def test_a_restart_keeps_the_params_of_what_it_stopped(
    book: Book, store: Store, clock: VirtualClock
) -> None:
    put_flow(store, CHAIN + "params: {DAY: today, OLD: x}\n")
    book.flows.start("chain", {"DAY": "monday", "OLD": "y"})
    begin(store)
    Advancer(store).step()
    put_flow(store, CHAIN + "params: [{name: DAY, required: true}]\n")
    restart(book, store, clock)
    (step,) = claim(store, "node-2")
    assert step.step_context is not None
    assert step.step_context.params == {"DAY": "monday"}


def test_a_file_that_changes_meanwhile_does_not_hold_up_a_restart(
    book: Book, store: Store, clock: VirtualClock
) -> None:
    put_flow(store, CHAIN)
    book.flows.restart("chain")
    put_flow(store, CHAIN + "description: another\n")
    clock.advance()
    Advancer(store).step()
    assert [run.status for run in book.flows.runs("chain")] == ["running"]


def test_a_stop_takes_back_a_restart(book: Book, store: Store, clock: VirtualClock) -> None:
    put_flow(store, CHAIN)
    book.flows.restart("chain")
    assert book.flows.stop("chain") == []
    clock.advance()
    Advancer(store).step()
    assert book.flows.runs("chain") == []
    with pytest.raises(Conflict, match="is not running"):
        book.flows.stop("chain")


def test_runs_of_a_flow_that_was_deleted_can_be_stopped(book: Book, store: Store) -> None:
    put_flow(store, CHAIN)
    run = book.flows.start("chain")
    store.transact(lambda tx: tx.flows.remove_flows("default", ["chain"]))
    assert [stopped.id for stopped in book.flows.stop("chain")] == [run.id]
    with pytest.raises(NotFound):
        book.flows.stop("chain")


def test_lists_say_what_a_flow_is_and_what_is_wrong_with_its_file(book: Book, store: Store) -> None:
    put_flow(store, FORK, "fork")
    (view,) = book.flows.list()
    assert (view.name, view.place, view.problem) == ("fork", "flows/fork.yaml", None)
    assert [step["name"] for step in view.steps] == ["good", "bad", "join", "handler_on.exit"]
    assert book.flows.source("fork").startswith("\nname: fork")
    problem = Problem("flows/fork.yaml", 2, 1, "steps", "unknown key").to_json()
    store.transact(
        lambda tx: tx.flows.save_problems(
            "default", ["flows"], {"flows/fork.yaml": BrokenFile([problem])}
        )
    )
    assert book.flows.get("fork").problem == "flows/fork.yaml:2:1: unknown key"
    assert book.flows.problems() == [problem]


def test_a_text_is_validated_without_being_kept(book: Book) -> None:
    (problem,) = book.flows.validate("steps: [{name: a, command: x, retires: 3}]")
    assert problem["hint"] == "did you mean `retries`?"
    assert book.flows.validate(CHAIN) == []
    assert book.flows.list() == []


def test_flows_come_a_page_at_a_time_each_with_its_latest_run(book: Book, store: Store) -> None:
    for number in range(5):
        put_flow(store, CHAIN.replace("chain", f"f{number}"), f"f{number}")
        book.flows.start(f"f{number}")
    runs = [book.flows.start(f"f{number}").id for number in range(5)]
    first = book.flows.list(2)
    second = book.flows.list(2, cursor=first.next_cursor)
    last = book.flows.list(2, cursor=second.next_cursor)
    pages = [*first, *second, *last]
    assert [view.name for view in pages] == ["f0", "f1", "f2", "f3", "f4"]
    assert [view.last_run.id for view in pages if view.last_run] == runs
    assert last.next_cursor is None
    with pytest.raises(BadCursor):
        book.flows.list(cursor="x")


def test_however_many_files_a_list_has_to_read_it_asks_for_them_once(backend: Backend) -> None:
    points: list[str] = []
    store = backend.open(points.append)
    book = Book(store)
    for number in range(5):
        name = f"fresh-{number}"
        put_flow(store, CHAIN.replace("chain", name) + f"description: {new_id()}", name)
    broken = put_flow(store, "steps: [", "wrong")
    points.clear()
    views = book.flows.list()
    assert points.count("before:list_flow_revisions") == 1
    assert [len(view.steps) for view in views] == [2] * 5 + [0]
    assert views[-1].digest == broken
    assert 'flow "wrong" cannot be read: flows/wrong.yaml:' in (views[-1].problem or "")


def test_what_a_flow_cannot_have_is_refused_for_its_schedule(book: Book) -> None:
    definition: dict[str, Any] = {"trigger": {"every": "1h"}, "target": {"flow": "chain"}}
    others: list[dict[str, Any]] = [{"retry": 3}, {"timeout": "1m"}, {"payload": {"a": 1}}]
    for more in others:
        with pytest.raises(InvalidSchedule, match="does not apply to a flow"):
            book.schedules.create("often", **definition, **more)


def test_flows_of_other_namespaces_are_not_seen(store: Store) -> None:
    put_flow(store, CHAIN)
    other = Book(store, "other")
    assert other.flows.list() == []
    with pytest.raises(NotFound):
        other.flows.start("chain")


def test_the_runs_of_a_flow_are_listed_page_by_page_and_without_its_steps(
    book: Book, store: Store
) -> None:
    put_flow(store, CHAIN)
    begin(store)
    runs = [book.flows.start("chain").id]
    work(store, one="failed")
    runs.append(book.flows.start("chain").id)
    work(store)
    put_flow(store, FORK, "fork")
    book.flows.start("fork")
    page = book.runs.list(flow="chain", limit=1)
    assert [run.id for run in page] == runs[1:]
    (older,) = book.runs.list(flow="chain", cursor=page.next_cursor, limit=1)
    assert older.id == runs[0]
    assert [run.id for run in book.runs.list(flow="chain", status="failed")] == runs[:1]
    assert book.runs.list(flow="nobody") == []
    with pytest.raises(Invalid, match="flow"):
        book.runs.list(flow="No Name")


def test_what_was_not_to_run_is_skipped_in_the_words_of_people(
    book: Book, store: Store, clock: VirtualClock
) -> None:
    put_flow(store, PARTLY, "partly")
    put_flow(store, GUARDED, "guarded")
    begin(store, lease=timedelta(hours=1))
    partly = book.flows.start("partly")
    leave_out(store)
    work, after = book.flows.steps(partly.id)
    assert (work.status, work.state, work.why) == ("cancelled", "skipped", UNMET)
    assert (after.state, after.why) == ("skipped", "an earlier step was skipped")
    assert book.flows.get("partly").last_run == book.runs.get(partly.id)
    trigger = {"every": "1m", "anchor": format_instant(BEGIN)}
    book.schedules.create("often", trigger=trigger, target={"flow": "guarded"})
    clock.advance(MINUTE)
    tick(store)
    leave_out(store)
    (run,) = book.runs.list("often")
    assert (run.status, run.state, run.why) == ("cancelled", "skipped", UNMET)
    told = book.schedules.explain("often", at=run.due_at)
    assert isinstance(told, Explanation)
    assert f"skipped: {UNMET}" in told.text
    (schedule,) = book.schedules.list()
    assert schedule.last_run is not None
    assert (schedule.last_run.status, schedule.last_run.state) == ("cancelled", "skipped")


def test_a_step_that_its_stopped_flow_did_not_begin_is_cancelled(book: Book, store: Store) -> None:
    put_flow(store, CHAIN)
    begin(store)
    run = book.flows.start("chain")
    Advancer(store).step()
    book.flows.stop("chain")
    Advancer(store).step()
    states = [(step.state, step.why) for step in book.flows.steps(run.id)]
    assert states == [("cancelled", "its flow was stopped")] * 2


def test_a_second_stop_says_since_when_it_is_stopping_and_what_it_waits_for(
    book: Book, store: Store, clock: VirtualClock
) -> None:
    text = CHAIN + 'handler_on: {abort: "true"}\n'
    put_flow(store, text)
    begin(store)
    run = book.flows.start("chain")
    Advancer(store).step()
    (one,) = claim(store)
    assert [stopped.id for stopped in book.flows.stop("chain")] == [run.id]
    since = format_instant(clock.now)
    told = f'flow "chain" is already stopping: run {run.id} since {since}, for '
    with pytest.raises(Conflict, match="it is waiting for step") as found:
        book.flows.stop("chain")
    assert (
        str(found.value)
        == f'{told}less than 1 s; it is waiting for step "one" (running on host-of-node-1)'
    )
    settle(store, one.token, "cancelled", reason="flow_cancelled")
    clock.advance(timedelta(seconds=5))
    with pytest.raises(Conflict) as found:
        book.flows.stop("chain")
    assert str(found.value) == f"{told}5 s; it is waiting for a scheduler"
    Advancer(store).step()
    with pytest.raises(Conflict, match=r'it is waiting for step "handler_on.abort" \(queued\)'):
        book.flows.stop("chain")
    other = book.flows.start("chain")
    assert {stopped.id for stopped in book.flows.stop("chain")} == {run.id, other.id}
