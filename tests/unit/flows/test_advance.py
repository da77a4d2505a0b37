"""The pure decision: what begins when, what never does, and how a flow ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.errors import Conflict, NotFound
from duebook.flows.advance import advance, is_continued
from duebook.flows.lifecycle import again, restart_step, retried
from duebook.model.flow import (
    BY_HAND,
    CHECK,
    HANDLED,
    Condition,
    ContinueOn,
    Flow,
    Step,
    handler_name,
)
from duebook.model.flow_run import Advance, FlowEnd, Skip, Standing, StepState
from duebook.model.target import TaskTarget
from tests.support.examples import some_of

if TYPE_CHECKING:
    from collections.abc import Callable

NOON = datetime(2026, 2, 7, 12, tzinfo=UTC)
DONE, FAILED = StepState("succeeded"), StepState("failed", "exit_code", 1)
RUNNING, QUEUED = StepState("running"), StepState("queued")
UNMET = StepState("skipped", "precondition")
PARTIAL = StepState("partial", "step")
WORK = TaskTarget("work")


def step(name: str, *depends: str, **more: Any) -> Step:
    return Step(name, WORK, depends, **more)


def flow(
    *steps: Step, on: tuple[str, ...] = (), timeout: timedelta | None = None, **more: Any
) -> Flow:
    handlers = tuple((event, Step(handler_name(event), WORK)) for event in HANDLED if event in on)
    return Flow("f", steps, handlers, policies=replace(BY_HAND, timeout=timeout), **more)


def asked(of: Flow, at: datetime = NOON, /, **states: StepState) -> Advance:
    named = {name.replace("__", "."): state for name, state in states.items()}
    return advance(of, Standing(NOON, named), at)


def stopped(of: Flow, **states: StepState) -> Advance:
    return advance(of, Standing(NOON, states, stop_asked=True), NOON)


DIAMOND = flow(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"))


def test_a_step_begins_when_all_before_it_have_ended_well() -> None:
    assert asked(DIAMOND).start == ("a",)
    assert asked(DIAMOND, a=RUNNING) == Advance()
    assert asked(DIAMOND, a=DONE).start == ("b", "c")
    assert asked(DIAMOND, a=DONE, b=DONE, c=QUEUED) == Advance()
    assert asked(DIAMOND, a=DONE, b=DONE, c=DONE).start == ("d",)
    assert asked(DIAMOND, a=DONE, b=DONE, c=DONE, d=DONE).end == FlowEnd("succeeded")


def test_after_a_failure_other_branches_go_on_and_those_behind_it_never_run() -> None:
    found = asked(DIAMOND, a=DONE, b=FAILED, c=RUNNING)
    assert (found.skip, found.end) == ((Skip("d", "upstream_failed"),), None)
    skipped = StepState("skipped", "upstream_failed")
    assert asked(DIAMOND, a=DONE, b=FAILED, c=DONE, d=skipped).end == FlowEnd(
        "failed", "step", ("b",)
    )


@pytest.mark.parametrize(
    ("on", "state", "goes_on"),
    [
        (ContinueOn(failure=True), FAILED, True),
        (ContinueOn(exit_codes=(1,)), FAILED, True),
        (ContinueOn(exit_codes=(2,)), FAILED, False),
        (ContinueOn(output=("x",)), FAILED, False),
        (ContinueOn(output=("x",)), replace(FAILED, matched=True), True),
        (ContinueOn(skipped=True), FAILED, False),
        (ContinueOn(skipped=True), UNMET, True),
        (ContinueOn(failure=True), UNMET, False),
        (ContinueOn(failure=True), StepState("cancelled", "by_user"), True),
    ],
)
def test_continue_on_says_which_ends_do_not_stop_those_after(
    on: ContinueOn, state: StepState, goes_on: bool
) -> None:
    found = asked(flow(step("a", continue_on=on), step("b", "a")), a=state)
    assert (found.start == ("b",), bool(found.skip)) == (goes_on, not goes_on)


def test_a_flow_that_went_on_after_a_failure_ends_partial() -> None:
    of = flow(step("a", continue_on=ContinueOn(failure=True)), step("b", "a"))
    assert asked(of, a=FAILED, b=DONE).end == FlowEnd("partial", "step", warnings=("a",))


def test_a_flow_failed_if_all_its_failures_were_continued_over_and_nothing_succeeded() -> None:
    of = flow(step("a", continue_on=ContinueOn(failure=True)))
    assert asked(of, a=FAILED).end == FlowEnd("failed", "step", ("a",), ("a",))
    of = flow(step("a", continue_on=ContinueOn(failure=True)), step("b", "a"))
    assert asked(of, a=FAILED, b=UNMET).end == FlowEnd("failed", "step", ("a",), ("a",))


def test_a_flow_that_called_a_partial_one_goes_on_and_ends_partial() -> None:
    of = flow(step("a"), step("b", "a"))
    assert asked(of, a=PARTIAL).start == ("b",)
    assert asked(of, a=PARTIAL, b=DONE).end == FlowEnd("partial", "step", warnings=("a",))
    assert asked(of, a=PARTIAL, b=FAILED).end == FlowEnd("failed", "step", ("b",), ("a",))


def test_a_partial_flow_runs_the_handler_of_success() -> None:
    own = flow(step("a", continue_on=ContinueOn(failure=True)), step("b", "a"))
    of = replace(own, handlers=(("success", step("handler_on.success")),))
    assert asked(of, a=FAILED, b=DONE).start == ("handler_on.success",)


def test_a_failure_that_is_marked_a_success_is_one() -> None:
    on = ContinueOn(failure=True, mark_success=True)
    of = flow(step("a", continue_on=on), step("b", "a"))
    assert asked(of, a=FAILED, b=DONE).end == FlowEnd("succeeded")


def test_a_step_whose_condition_is_not_met_takes_those_behind_it_along() -> None:
    of = flow(step("a"), step("b", "a"), step("c", "b"), step("d"))
    assert asked(of, a=UNMET, d=DONE).skip == (
        Skip("b", "upstream_skipped"),
        Skip("c", "upstream_skipped"),
    )
    skipped = StepState("skipped", "upstream_skipped")
    assert asked(of, a=UNMET, b=skipped, c=skipped, d=DONE).end == FlowEnd("succeeded")


def test_why_a_step_never_runs_does_not_depend_on_which_of_those_before_it_ended_first() -> None:
    on = ContinueOn(skipped=True)
    both = flow(step("a"), step("b"), step("c", "a", "b", continue_on=on), step("d", "c"))
    assert asked(both, a=UNMET, b=RUNNING) == Advance()  # it may still fail
    for skipped in (asked(both, a=UNMET, b=FAILED), asked(both, a=RUNNING, b=FAILED)):
        assert {skip.reason for skip in skipped.skip} == {"upstream_failed"}
    late = asked(both, a=UNMET, b=DONE)
    assert (late.skip, late.start) == ((Skip("c", "upstream_skipped"),), ("d",))


def test_no_more_steps_are_active_than_allowed() -> None:
    of = flow(*map(step, "abcd"), max_active_steps=2)
    assert asked(of).start == ("a", "b")
    assert asked(of, a=RUNNING, b=QUEUED).start == ()
    assert asked(of, a=RUNNING, b=DONE).start == ("c",)


def test_a_delay_comes_first_and_the_time_counts_from_then() -> None:
    of = flow(step("a"), delay=timedelta(minutes=5), timeout=timedelta(minutes=10))
    assert asked(of) == Advance(wake_at=NOON + timedelta(minutes=5))
    later = NOON + timedelta(minutes=5)
    assert asked(of, later) == Advance(("a",), wake_at=NOON + timedelta(minutes=15))
    late = asked(of, NOON + timedelta(minutes=15), a=RUNNING)
    assert (late.cancel, late.cancel_reason) == (("a",), "flow_timeout")
    ended = asked(of, NOON + timedelta(minutes=16), a=StepState("cancelled", "flow_timeout"))
    assert ended.end == FlowEnd("failed", "timeout", ("a",))


def test_a_flow_whose_preconditions_are_not_met_runs_nothing() -> None:
    of = flow(step("a"), on=("init", "abort", "exit"), preconditions=(Condition("x", True),))
    assert asked(of).start == (CHECK,)
    assert asked(of, **{CHECK: RUNNING}) == Advance()
    assert asked(of, **{CHECK: DONE}).start == ("handler_on.init",)
    assert asked(of, **{CHECK: UNMET}) == Advance(
        skip=(Skip("a", "precondition"),), end=FlowEnd("cancelled", "precondition")
    )


def test_no_step_runs_after_an_init_that_failed() -> None:
    of = flow(step("a"), on=("init", "success", "failure", "exit"))
    assert asked(of).start == ("handler_on.init",)
    assert asked(of, handler_on__init=DONE).start == ("a",)
    assert asked(of, handler_on__init=FAILED) == Advance(
        ("handler_on.failure",), (Skip("a", "init_failed"),)
    )


@pytest.mark.parametrize(
    ("state", "event", "status"),
    [
        (DONE, "success", "succeeded"),
        (FAILED, "failure", "failed"),
        (StepState("cancelled", "flow_cancelled"), "abort", "cancelled"),
        (StepState("cancelled", "flow_timeout"), "failure", "failed"),
        (StepState("cancelled", "by_user"), "failure", "failed"),
        (UNMET, "success", "succeeded"),
    ],
)
def test_the_handler_of_the_end_runs_and_then_exit(
    state: StepState, event: str, status: str
) -> None:
    of = flow(step("a"), on=("success", "failure", "abort", "exit"))
    name = f"handler_on.{event}"
    assert asked(of, a=state).start == (name,)
    assert asked(of, a=state, **{name: RUNNING}) == Advance()
    assert asked(of, a=state, **{name: FAILED}).start == ("handler_on.exit",)
    ended = asked(of, a=state, **{name: DONE}, handler_on__exit=DONE).end
    assert ended is not None
    assert ended.status == status


def test_a_handler_that_fails_fails_the_flow() -> None:
    of = flow(step("a"), on=("exit",))
    assert asked(of, a=DONE, handler_on__exit=FAILED).end == FlowEnd(
        "failed", "handler", ("handler_on.exit",)
    )


def test_a_stop_ends_what_is_active_and_begins_no_step() -> None:
    found = stopped(DIAMOND, a=DONE, b=RUNNING)
    assert (found.cancel, found.cancel_reason) == (("b",), "flow_cancelled")
    assert found.skip == (Skip("c", "flow_cancelled"), Skip("d", "flow_cancelled"))
    assert found.start == ()


def test_a_stop_that_came_too_late_changes_nothing() -> None:
    of = flow(step("a"), on=("success", "abort"))
    assert stopped(of, a=DONE).start == ("handler_on.success",)


# Whole histories


@dataclass
class History:
    """A run of a flow, played by an engine that does what it is told, in any order."""

    flow: Flow
    states: dict[str, StepState] = field(default_factory=dict)
    now: datetime = NOON
    stop: bool = False
    begun: list[str] = field(default_factory=list)

    @property
    def standing(self) -> Standing:
        return Standing(NOON, dict(self.states), self.stop)

    def play(self, choose: Callable[[Any], Any]) -> FlowEnd:
        for _ in range(200):
            found = advance(self.flow, self.standing, self.now)
            self.check(found)
            self.states |= {skip.step: StepState("skipped", skip.reason) for skip in found.skip}
            if found.end is not None:
                return found.end
            self.states |= dict.fromkeys(found.start, QUEUED)
            self.begun += found.start
            assert advance(self.flow, self.standing, self.now).start == (), "nothing new"
            self.happen(found, choose)
        raise AssertionError("it does not end")

    def check(self, found: Advance) -> None:
        ordinary = {step.name: step for step in self.flow.steps}
        for name in found.start:
            assert name not in self.states
            if name not in ordinary:
                continue
            assert not self.stop
            for other in ordinary[name].depends:
                assert self.lets_on(ordinary[other], {skip.step for skip in found.skip})
        active = [name for name in ordinary if name in self.states and self.states[name].is_active]
        if self.flow.max_active_steps and found.start and found.start[0] in ordinary:
            assert len(active) + len(found.start) <= self.flow.max_active_steps
        if found.end is not None:
            assert set(ordinary) <= {*self.states, *(skip.step for skip in found.skip)}
            assert not any(state.is_active for state in self.states.values())
        elif not (found.start or found.skip or found.wake_at):
            assert any(state.is_active for state in self.states.values()), "it would wait for ever"

    def lets_on(self, before: Step, skipped: set[str]) -> bool:
        if before.name in skipped:
            return before.continue_on.skipped
        state = self.states[before.name]
        if state.status == "skipped":
            return before.continue_on.skipped
        return state.status == "succeeded" or is_continued(before, state)

    def happen(self, found: Advance, choose: Callable[[Any], Any]) -> None:
        active = [name for name, state in self.states.items() if state.is_active]
        if not active:
            self.now = max(self.now, found.wake_at or self.now)
            return
        name = choose(st.sampled_from(active))
        if name in found.cancel and choose(st.booleans()):
            self.states[name] = StepState("cancelled", found.cancel_reason)
            return
        ends = [RUNNING, QUEUED, DONE, FAILED, UNMET, StepState("cancelled", "by_user")]
        end = choose(st.sampled_from(ends))
        self.states[name] = (
            end if end.is_active and choose(st.booleans()) else (DONE if end.is_active else end)
        )
        self.now += choose(st.sampled_from([timedelta(), timedelta(minutes=1)]))
        self.stop = self.stop or choose(st.integers(0, 15)) == 0


@st.composite
def flows(draw: Any) -> Flow:
    names = "abcdefg"[: draw(st.integers(1, 7))]
    steps = [
        step(
            name,
            *draw(st.lists(st.sampled_from(names[:place]), unique=True) if place else st.just([])),
            continue_on=ContinueOn(
                failure=draw(st.booleans()),
                skipped=draw(st.booleans()),
                mark_success=draw(st.booleans()),
            ),
        )
        for place, name in enumerate(names)
    ]
    return flow(
        *steps,
        on=tuple(draw(st.lists(st.sampled_from(HANDLED), unique=True))),
        max_active_steps=draw(st.none() | st.integers(1, 3)),
        preconditions=draw(st.sampled_from([(), (Condition("x", True),)])),
        delay=draw(st.sampled_from([timedelta(), timedelta(minutes=1)])),
        timeout=draw(st.sampled_from([None, timedelta(minutes=3)])),
    )


LAST = {"exit": 1, "success_mail": 2, "failure_mail": 2}
"""What comes after the other handlers, and in which order."""


@settings(max_examples=some_of(150))
@given(flows(), st.data())
def test_every_flow_ends_and_begins_no_step_too_early(of: Flow, data: st.DataObject) -> None:
    history = History(of)
    end = history.play(data.draw)
    assert len(history.begun) == len(set(history.begun))
    assert advance(of, history.standing, history.now + timedelta(days=1)).end == end
    order = {handler_name(event): (event in LAST, LAST.get(event, 0)) for event in HANDLED}
    handlers = [name for name in history.begun if name in order]
    assert handlers == sorted(handlers, key=lambda name: (name != "handler_on.init", order[name]))
    if end.status == "succeeded":
        assert not end.failed


@settings(max_examples=some_of(100))
@given(flows(), st.data())
def test_a_retry_keeps_what_succeeded_and_ends_too(of: Flow, data: st.DataObject) -> None:
    history = History(of)
    history.play(data.draw)
    kept = {n for n, state in history.states.items() if state.status == "succeeded"}
    try:
        dropped = retried(of, history.states)
    except Conflict:
        return
    assert not dropped & {n for n in kept if not n.startswith(("handler_on.", "mail_on."))}
    states = {name: state for name, state in history.states.items() if name not in dropped}
    second = History(replace(of, policies=BY_HAND), states, history.now)
    second.play(data.draw)
    assert {each.name for each in of.steps} & set(second.begun) <= dropped


def test_a_retry_begins_where_it_failed() -> None:
    states = {"a": DONE, "b": FAILED, "c": DONE, "d": StepState("skipped", "upstream_failed")}
    assert retried(DIAMOND, states) == {"b", "d"}
    with pytest.raises(Conflict, match="no failed step"):
        retried(DIAMOND, dict.fromkeys("abcd", DONE))
    with pytest.raises(Conflict, match='step "b" is running; cancel the run first'):
        retried(DIAMOND, {"a": DONE, "b": RUNNING})


def test_a_retry_of_a_partial_run_repeats_what_was_continued_over() -> None:
    over = step("a", continue_on=ContinueOn(failure=True))
    of = flow(over, step("b", "a"), step("c"))
    assert retried(of, {"a": FAILED, "b": DONE, "c": DONE}) == {"a"}
    assert retried(of, {"a": PARTIAL, "b": DONE, "c": DONE}) == {"a"}
    assert retried(of, {"a": FAILED, "b": DONE, "c": FAILED}) == {"c"}


def test_running_again_from_a_step_takes_all_after_it_along() -> None:
    of = flow(*DIAMOND.steps, on=("init", "success"))
    states = dict.fromkeys(("a", "b", "c", "d", "handler_on.init", "handler_on.success"), DONE)
    assert again(of, states, "b") == {"b", "d", "handler_on.success"}
    with pytest.raises(NotFound, match='has no step "x"; it has a, b, c, d'):
        again(of, states, "x")


def test_from_a_step_on_after_a_failed_beginning_that_begins_again_too() -> None:
    of = flow(step("a"), step("b"), step("c", "b"), on=("init", "failure"))
    states = dict.fromkeys("abc", StepState("skipped", "init_failed"))
    states |= {"handler_on.init": FAILED, "handler_on.failure": DONE}
    assert again(of, states, "c") == {"a", "b", "c", "handler_on.init", "handler_on.failure"}


def test_from_a_step_on_what_a_stop_cut_off_goes_on_too() -> None:
    cut_off = StepState("cancelled", "flow_cancelled")
    states = {"a": DONE, "b": DONE, "c": cut_off, "d": replace(cut_off, status="skipped")}
    assert again(DIAMOND, states, "b") == {"b", "c", "d"}


def test_a_step_that_would_be_skipped_is_not_begun_again() -> None:
    never = StepState("skipped", "upstream_failed")
    of = flow(step("a"), step("b", "a"), step("c", "b"))
    with pytest.raises(Conflict, match='step "c" cannot run: "a" before it failed; retry from'):
        again(of, {"a": FAILED, "b": never, "c": never}, "c")
    unmet = StepState("skipped", "upstream_skipped")
    with pytest.raises(Conflict, match='step "c" cannot run: "a" before it was skipped'):
        again(of, {"a": UNMET, "b": unmet, "c": unmet}, "c")
    cut_off = StepState("skipped", "flow_cancelled")
    with pytest.raises(Conflict, match='step "c" cannot run: "a" before it failed; retry from'):
        again(of, {"a": FAILED, "b": cut_off, "c": cut_off}, "c")
    conditional = flow(*of.steps, preconditions=(Condition("x", True),))
    with pytest.raises(Conflict, match='conditions of flow "f" were not met; start it again'):
        again(conditional, {CHECK: UNMET, **dict.fromkeys("abc", UNMET)}, "a")


def test_conditions_that_could_not_be_judged_are_judged_again_before_all_steps() -> None:
    of = flow(step("a"), step("b"), preconditions=(Condition("x", True),))
    states = {CHECK: FAILED, "a": UNMET, "b": UNMET}
    assert retried(of, states) == again(of, states, "a") == {CHECK, "a", "b"}


@settings(max_examples=some_of(150))
@given(flows(), st.data())
def test_a_step_that_is_begun_again_runs_or_that_is_refused(of: Flow, data: st.DataObject) -> None:
    history = History(of)
    history.play(data.draw)
    wanted = data.draw(st.sampled_from(of.steps)).name
    try:
        dropped = again(of, history.states, wanted)
    except Conflict:
        return
    states = {name: state for name, state in history.states.items() if name not in dropped}
    begun: list[str] = []
    while (found := advance(of, Standing(NOON, states), NOON + of.delay)).end is None:
        begun += found.start
        states |= {skip.step: StepState("skipped", skip.reason) for skip in found.skip}
        states |= dict.fromkeys(found.start, DONE)
    assert wanted in begun
    assert found.end.status != "cancelled"


def test_a_restart_stops_waits_and_starts() -> None:
    of = flow(step("a"), restart_wait=timedelta(seconds=30))
    assert restart_step(of, True, None, NOON) == ("stop", None)
    assert restart_step(of, False, NOON, NOON) == ("wait", NOON + timedelta(seconds=30))
    assert restart_step(of, False, NOON, NOON + timedelta(seconds=30)) == ("start", None)
    assert restart_step(of, False, None, NOON) == ("start", None)
