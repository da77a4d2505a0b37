"""Runs of flows: how they are created, and that no worker claims them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.ids import new_id
from duebook.model.flow_run import FlowMove, NewStep
from tests.support.builders import (
    add_run,
    add_schedule,
    begin,
    claim,
    find_work,
    get_run,
    get_runs,
    lose,
    tick,
)
from tests.support.flow_builders import CHAIN, claim_steps, put_flow, settle, start, steps_of

if TYPE_CHECKING:
    from duebook.store.base import Store, Tx
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock


def test_a_due_time_of_a_flow_becomes_a_run_that_wants_to_be_advanced_and_nobody_claims(
    store: Store, clock: VirtualClock
) -> None:
    digest = put_flow(store, CHAIN)
    schedule = add_schedule(store, target={"flow": "chain", "params": {"DAY": "monday"}})
    clock.advance()
    assert tick(store) == 1
    (run,) = get_runs(store, schedule)
    assert (run.status, run.origin, run.flow) == ("queued", "schedule", "chain")
    begin(store)
    assert find_work(store, ["default"]).places == ()
    assert claim(store) == []
    assert store.read(lambda tx: tx.flow_runs.earliest_flow()).run_at == clock.now
    (parent,) = store.transact(lambda tx: tx.flow_runs.take_flows(10))
    assert (parent.run_id, parent.flow, parent.digest) == (run.id, "chain", digest)
    assert parent.params == {"DAY": "monday"}


def test_a_run_of_a_flow_keeps_the_revision_that_it_was_made_with(store: Store) -> None:
    first = put_flow(store, CHAIN)
    run_id = start(store)
    second = put_flow(store, CHAIN + "description: another\n")
    (parent,) = store.transact(lambda tx: tx.flow_runs.take_flows(10))
    assert parent.run_id == run_id
    assert parent.digest == first != second
    wanted = [("chain", first), ("chain", "gone"), ("ghost", second)]
    old = store.read(lambda tx: tx.flows.flow_revisions("default", wanted))
    assert old.keys() == {("chain", first)}
    assert "another" not in old["chain", first].source


def test_a_run_by_hand_takes_its_payload_as_params(store: Store) -> None:
    put_flow(store, CHAIN)
    schedule = add_schedule(store, target={"flow": "chain", "params": {"DAY": "monday"}})
    add_run(store, schedule)
    add_run(store, schedule, {"DAY": "friday"})
    parents = store.transact(lambda tx: tx.flow_runs.take_flows(10))
    assert sorted(parent.params["DAY"] for parent in parents) == ["friday", "monday"]


def begin_two(store: Store) -> str:
    """Start a run of a flow with two running steps; return its id."""
    put_flow(store, CHAIN)
    run_id = start(store)

    def work(tx: Tx) -> None:
        (parent,) = tx.flow_runs.take_flows(10)
        assert tx.flow_runs.begin_flows([parent.run_id], {}).ids == {parent.run_id}
        steps = tuple(NewStep(new_id(), step, "default") for step in ("one", "two"))
        tx.flow_runs.commit_flows([FlowMove(parent, steps)])

    store.transact(work)
    return run_id


def is_woken(store: Store) -> bool:
    return store.read(lambda tx: tx.flow_runs.earliest_flow()).run_at is not None


def test_the_end_of_each_step_wakes_its_flow(store: Store) -> None:
    run_id = begin_two(store)
    assert not is_woken(store)
    begin(store)
    claims = claim_steps(store)
    assert set(claims) == {"one", "two"}
    context = claims["one"].step_context
    assert context is not None
    assert (context.run_id, context.flow) == (run_id, "chain")
    for name in ("one", "two"):
        assert settle(store, claims[name].token)
        assert is_woken(store)
        (parent,) = store.transact(lambda tx: tx.flow_runs.take_flows(10))
        assert {row.step: row.status for row in parent.steps}[name] == "succeeded"
        store.transact(lambda tx: tx.flow_runs.commit_flows([FlowMove(parent)]))  # noqa: B023
        assert not is_woken(store)


def test_a_step_that_is_lost_begins_again_and_one_that_is_cancelled_wakes_its_flow(
    store: Store,
) -> None:
    run_id = begin_two(store)
    begin(store)
    claims = claim_steps(store)
    lose(store, "node-1")
    steps = steps_of(store, run_id)
    assert {run.status for run in steps.values()} == {"queued"}
    assert not is_woken(store)  # they are started again
    store.transact(lambda tx: tx.runs.cancel(steps["one"].id, "cancelled"))
    assert is_woken(store)
    assert claims["one"].run.parent_run_id == run_id


def test_a_flow_that_is_asked_to_end_is_advanced_and_its_run_goes_on_meanwhile(
    store: Store,
) -> None:
    run_id = begin_two(store)
    assert store.transact(lambda tx: tx.runs.cancel(run_id, "cancelled")) == "requested"
    (parent,) = store.transact(lambda tx: tx.flow_runs.take_flows(10))
    assert parent.stop_asked
    assert get_run(store, run_id).status == "running"


def test_the_books_balance_with_runs_of_flows(store: Store, backend: Backend) -> None:
    begin_two(store)
    found = store.read(lambda tx: tx.checks.check(deep=True))
    assert [finding for finding in found if finding.problem] == []
    assert backend.rows("SELECT session_id FROM runs WHERE step IS NULL") == [("",)]
