"""Random flows, played in any order and stopped at any moment, end as brute force says."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.flows.advance import advance
from duebook.flows.build import build
from duebook.model.flow_run import FlowEnd, Standing, StepState
from tests.support.examples import some_of
from tests.support.random_flows import (
    CODE,
    FlowPlan,
    StepPlan,
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

    from duebook.model.flow import Flow

NOON = datetime(2026, 2, 7, 12, tzinfo=UTC)


def flow_of(plan: FlowPlan) -> Flow:
    built = build(flow_text(plan), "f.yaml", "f")
    assert built.problems == ()
    return built.flows[0]


@dataclass
class Play:
    """A run of a flow whose steps meet their fates, one after the other in any order."""

    plan: FlowPlan
    choose: Callable[[Any], Any]
    stop_at: int | None = None
    states: dict[str, StepState] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    begun_before_the_stop: int | None = None

    def run(self) -> FlowEnd:
        flow = flow_of(self.plan)
        for turn in range(100):
            stopping = self.stop_at is not None and turn >= self.stop_at
            if stopping and self.begun_before_the_stop is None:
                self.begun_before_the_stop = len(self.begun)
            found = advance(flow, Standing(NOON, dict(self.states), stopping), NOON)
            self.states |= {skip.step: StepState("skipped", skip.reason) for skip in found.skip}
            if found.end is not None:
                return found.end
            self.states |= dict.fromkeys(found.start, StepState("queued"))
            self.begun += found.start
            active = [name for name, state in self.states.items() if state.is_active]
            if self.plan.most_active is not None:
                assert len([name for name in active if name in self.plan.steps]) <= (
                    self.plan.most_active
                )
            name = self.choose(st.sampled_from(active))
            if name in found.cancel and self.choose(st.booleans()):
                self.states[name] = StepState("cancelled", found.cancel_reason)
            else:
                self.states[name] = self.end_of(name)
        raise AssertionError("it does not end")

    def end_of(self, name: str) -> StepState:
        fate = fate_of(self.plan, name)
        if fate == "unmet":
            return StepState("skipped", "precondition")
        return StepState("succeeded") if fate == "succeeds" else StepState("failed", "exit", CODE)

    @property
    def handlers(self) -> list[str]:
        return ending_handlers(self.begun)

    def word(self, step: str) -> str:
        found = self.states[step]
        return state_of(self.plan, step, found.status, found.reason)


@settings(max_examples=some_of(150), deadline=None)
@given(flow_plans(), st.data())
def test_a_flow_ends_as_brute_force_says_in_whichever_order_its_steps_end(
    plan: FlowPlan, data: st.DataObject
) -> None:
    play = Play(plan, data.draw)
    end = play.run()
    status, handlers = expected_end(plan, base_of(plan))
    assert (end.status, play.handlers) == (status, handlers)
    if begins(plan):
        assert {name: play.word(name) for name in plan.steps} == expected_states(plan)
        warned = {n for n, state in expected_states(plan).items() if state == "survived"}
        assert set(end.warnings) == warned
    else:
        assert {play.states[name].status for name in plan.steps} == {"skipped"}
        assert not set(play.begun) & set(plan.steps)


@settings(max_examples=some_of(150), deadline=None)
@given(flow_plans(), st.integers(0, 12), st.data())
def test_a_flow_that_is_stopped_begins_nothing_more_and_ends_as_what_was_done_says(
    plan: FlowPlan, stop_at: int, data: st.DataObject
) -> None:
    play = Play(plan, data.draw, stop_at)
    end = play.run()
    if play.begun_before_the_stop is not None:
        later = set(play.begun[play.begun_before_the_stop :])
        assert not later & {*plan.steps, "preconditions", "handler_on.init"}
    stopped = [n for n in plan.steps if play.states[n].reason == "flow_cancelled"]
    base = "stopped" if stopped else base_of(plan)
    assert (end.status, play.handlers) == expected_end(plan, base)
    if begins(plan):
        for name, wanted in expected_states(plan).items():
            if name not in stopped and not behind(plan, name) & set(stopped):
                assert play.word(name) == wanted


def behind(plan: FlowPlan, name: str) -> set[str]:
    """All that come before a step."""
    direct = set(plan.steps[name].after)
    return direct.union(*(behind(plan, other) for other in direct))


def test_brute_force_knows_what_people_expect() -> None:
    plan = FlowPlan(
        {
            "a": StepPlan(fate="fails"),
            "b": StepPlan(("a",)),
            "c": StepPlan(fate="unmet"),
            "d": StepPlan(("c",)),
            "e": StepPlan(("d",), goes_on_when_skipped=True),
        }
    )
    assert expected_states(plan) == {
        "a": "failed",
        "b": "never",
        "c": "skipped",
        "d": "skipped",
        "e": "skipped",
    }
