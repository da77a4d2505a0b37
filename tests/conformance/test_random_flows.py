"""Random flows on every store: in any order, with retries, lost nodes and stops, they end as brute
force predicts, each end is reported once, and the database passes its check."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duebook.book import Book
from duebook.engine.advancer import Advancer
from duebook.ids import new_id
from duebook.model.consumer import new_consumer
from duebook.model.flow import Revision
from duebook.model.flow_target import FlowTarget
from duebook.model.run import Outcome
from tests.support.builders import begin, claim, get_run, lose
from tests.support.event_builders import stamp
from tests.support.examples import some_of
from tests.support.flow_builders import steps_of
from tests.support.random_flows import (
    CODE,
    FlowPlan,
    base_of,
    begins,
    ending_handlers,
    expected_end,
    expected_states,
    fate_of,
    flow_plans,
    flow_text,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.run import Claim, Run
    from duebook.store.base import Store, Tx

LONG = timedelta(days=1)
NUMBERS = count(1)
SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@dataclass
class Play:
    """A run of a flow, executed by workers that choose what they do."""

    store: Store
    plan: FlowPlan
    choose: Callable[[Any], Any]
    stop_at: int | None = None
    performed: list[str] = field(default_factory=list)
    """steps in the order in which they started"""
    ended: set[str] = field(default_factory=set)
    losses: int = 0

    def run(self) -> Run:
        self.place = f"n{next(NUMBERS)}"  # what an earlier example left behind is elsewhere
        run_id, self.session = self.start(), self.new_session()
        advancer = Advancer(self.store)
        for turn in range(100):
            if turn == self.stop_at and get_run(self.store, run_id).finished_at is None:
                self.store.transact(lambda tx: tx.runs.cancel(run_id, "stopped"))
            if self.choose(st.booleans()):
                advancer.step()
            most = self.choose(st.integers(1, 3))
            for claimed in claim(self.store, self.session, most, namespace=self.place):
                self.perform(claimed)
            advancer.step()
            if get_run(self.store, run_id).finished_at is not None:
                return get_run(self.store, run_id)
        raise AssertionError("it does not end")

    def start(self) -> str:
        """A flow, a run of it, and a listener."""
        text, run_id = flow_text(self.plan), new_id()
        revision = Revision("f", "flows/f.yaml", sha256(text.encode()).hexdigest(), text)
        listener = new_consumer(self.place, "watcher", "group", ["duebook.runs"], 1, 1)

        def work(tx: Tx) -> None:
            tx.flows.save_flows(self.place, [revision])
            tx.consumers.save_consumer(listener, 0)
            tx.flow_runs.start_flow(run_id, self.place, FlowTarget("f"), 0, "manual")

        self.store.transact(work)
        return run_id

    def told(self) -> list[str]:
        """The end of the run, as events."""
        stamp(self.store)
        events = Book(self.store, self.place).events.list("duebook.runs")
        return [event.type for event in events if event.data["step"] is None]

    def new_session(self) -> str:
        return begin(self.store, f"node-{next(NUMBERS)}", LONG)

    def perform(self, claimed: Claim) -> None:
        step, token = claimed.run.step or "", claimed.token
        if claimed.run.attempt == 1:
            self.performed.append(step)
            if step in self.plan.steps:
                assert set(self.plan.steps[step].after) <= self.ended | self.left_out(claimed)
        if self.losses < 3 and self.choose(st.integers(0, 9)) == 0:
            self.losses += 1
            lose(self.store, self.session)  # with all that it was doing
            self.session = self.new_session()
            return
        asked = self.store.read(lambda tx: tx.claims.own_runs(self.session))
        reasons = {own.token: own.cancel_reason for own in asked}
        if reasons.get(token) is not None and self.choose(st.booleans()):
            outcome, delay = Outcome("cancelled", reasons[token]), None
        else:
            outcome, delay = self.outcome(claimed)
        if token in reasons:
            assert self.store.transact(lambda tx: tx.attempts.settle(token, outcome, delay))
            if delay is None:
                self.ended.add(step)

    def left_out(self, claimed: Claim) -> set[str]:
        steps = steps_of(self.store, claimed.run.parent_run_id or "")
        return {name for name, run in steps.items() if run.state == "skipped"}

    def outcome(self, claimed: Claim) -> tuple[Outcome, timedelta | None]:
        fate = fate_of(self.plan, step := claimed.run.step or "")
        failures = self.plan.steps[step].failures if step in self.plan.steps else 0
        if claimed.run.failures < failures:
            return Outcome("failed", "exit_code", exit_code=CODE), timedelta()
        if fate == "unmet":
            return Outcome("cancelled", "precondition", "its condition `false` was not met"), None
        if fate == "fails":
            return Outcome("failed", "exit_code", exit_code=CODE), None
        return Outcome("succeeded"), None

    def word(self, run: Run) -> str:
        return state_of(self.plan, run.step or "", run.state, run.reason)

    @property
    def handlers(self) -> list[str]:
        return ending_handlers(self.performed)


@settings(max_examples=some_of(25), deadline=None, suppress_health_check=SLOW)
@given(plan=flow_plans(4), data=st.data())
def test_a_flow_on_the_books_ends_as_brute_force_says(
    store: Store, plan: FlowPlan, data: st.DataObject
) -> None:
    play = Play(store, plan, data.draw)
    run = play.run()
    assert (run.status, play.handlers) == expected_end(plan, base_of(plan))
    steps = steps_of(store, run.id)
    if begins(plan):
        assert {name: play.word(steps[name]) for name in plan.steps} == expected_states(plan)
    else:
        assert {steps[name].state for name in plan.steps} == {"skipped"}
    assert len(play.performed) == len(set(play.performed))
    assert play.told() == [f"run.{run.status}", "flow.finished"]


@settings(max_examples=some_of(25), deadline=None, suppress_health_check=SLOW)
@given(plan=flow_plans(4), stop_at=st.integers(0, 8), data=st.data())
def test_a_flow_on_the_books_that_is_stopped_ends_once_and_by_what_was_done(
    store: Store, plan: FlowPlan, stop_at: int, data: st.DataObject
) -> None:
    play = Play(store, plan, data.draw, stop_at)
    run = play.run()
    steps = steps_of(store, run.id)
    if run.attempt:
        stopped = any(steps[name].reason == "flow_cancelled" for name in plan.steps)
        base = "stopped" if stopped else base_of(plan)
        assert (run.status, play.handlers) == expected_end(plan, base)
        assert {step.finished_at is None for step in steps.values()} == {False}
    else:
        assert (run.status, steps) == ("cancelled", {})
    assert play.told() == [f"run.{run.status}", "flow.finished"]
    assert store.read(lambda tx: [f for f in tx.checks.check(deep=True) if f.problem]) == []
