"""Random flows with the fate of each step fixed beforehand, and the end that must result, found by
brute force; uses the keys of flow files and no code of Duebook."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

from hypothesis import strategies as st

Fate = Literal["succeeds", "fails", "unmet"]
Survival = Literal["no", "failure", "its code", "another code"]
State = Literal["succeeded", "failed", "survived", "skipped", "never"]
"""survived: it failed, and the steps after it run. never: a step before it failed."""
CODE = 3
"""The exit code of all steps that fail."""


@dataclass(frozen=True)
class StepPlan:
    """A step, and how it will end."""

    after: tuple[str, ...] = ()
    fate: Fate = "succeeds"
    survival: Survival = "no"
    goes_on_when_skipped: bool = False
    failures: int = 0
    """attempts that fail before the final one"""


@dataclass(frozen=True)
class FlowPlan:
    """A flow, and how its steps will end."""

    steps: dict[str, StepPlan]
    check: Literal["none", "met", "unmet"] = "none"
    handlers: dict[str, Fate] = field(default_factory=dict)
    most_active: int | None = None


def flow_text(plan: FlowPlan, name: str = "f") -> str:
    """The file of such a flow."""
    steps = []
    for step, how in plan.steps.items():
        on: dict[str, Any] = {"skipped": how.goes_on_when_skipped}
        if how.survival == "failure":
            on["failure"] = True
        elif how.survival != "no":
            on["exit_code"] = [CODE if how.survival == "its code" else CODE + 1]
        form: dict[str, Any] = {"name": step, "command": "x", "depends": list(how.after)}
        form["continue_on"] = on
        if how.fate == "unmet":
            form["preconditions"] = ["false"]
        if how.failures:
            form["retry_policy"] = {"limit": how.failures, "interval_sec": 0}
        steps.append(form)
    flow: dict[str, Any] = {"name": name, "type": "graph", "steps": steps}
    if plan.check != "none":
        flow["preconditions"] = ["true" if plan.check == "met" else "false"]
    if plan.handlers:
        flow["handler_on"] = dict.fromkeys(plan.handlers, "x")
    if plan.most_active is not None:
        flow["max_active_steps"] = plan.most_active
    return json.dumps(flow)


def fate_of(plan: FlowPlan, step: str) -> Fate:
    """How a step or handler ends if it is performed."""
    if step == "preconditions":
        return "unmet" if plan.check == "unmet" else "succeeds"
    if step.startswith("handler_on."):
        return plan.handlers[step.removeprefix("handler_on.")]
    return plan.steps[step].fate


def begins(plan: FlowPlan) -> bool:
    """Whether any step of the flow starts."""
    return plan.check != "unmet" and plan.handlers.get("init") != "fails"


def expected_states(plan: FlowPlan) -> dict[str, State]:
    """Of all combinations of states, the only one in which each state follows from the steps before
    it."""
    names = list(plan.steps)
    possible: list[set[State]] = [{"skipped", "never", _alone(plan.steps[n])} for n in names]
    found = []
    for states in product(*possible):
        whole = dict(zip(names, states, strict=True))
        if all(whole[name] == _wanted(plan, name, whole) for name in names):
            found.append(whole)
    (only,) = found
    return only


def _alone(step: StepPlan) -> State:
    if step.fate == "unmet":
        return "skipped"
    if step.fate == "succeeds":
        return "succeeded"
    return "survived" if step.survival in ("failure", "its code") else "failed"


def _wanted(plan: FlowPlan, name: str, states: dict[str, State]) -> State:
    before = [(plan.steps[other], states[other]) for other in plan.steps[name].after]
    if any(state in ("failed", "never") for _, state in before):
        return "never"
    if any(state == "skipped" and not step.goes_on_when_skipped for step, state in before):
        return "skipped"
    return _alone(plan.steps[name])


def expected_end(plan: FlowPlan, base: str) -> tuple[str, list[str]]:
    """How a flow ends whose steps ended with `base`, and the handlers that ran at its end."""
    if plan.check == "unmet" and base != "stopped":
        return "cancelled", []
    words = {"succeeded": "success", "partial": "success", "failed": "failure"}
    words["cancelled"] = "abort"
    status = "cancelled" if base == "stopped" else base
    ran = [event for event in (words[status], "exit") if event in plan.handlers]
    if any(plan.handlers[event] == "fails" for event in ran):
        status = "failed"
    return status, ran


def base_of(plan: FlowPlan) -> str:
    """How a flow that is not stopped ends, without its handlers."""
    if not begins(plan):
        return "failed"
    states = set(expected_states(plan).values())
    if "failed" in states:
        return "failed"
    if "survived" in states:
        return "partial" if "succeeded" in states else "failed"
    return "succeeded"


def state_of(plan: FlowPlan, step: str, state: str, reason: str | None) -> str:
    """The state of a step, in the words above."""
    if state == "skipped":
        return "never" if reason == "upstream_failed" else "skipped"
    survives = plan.steps[step].survival in ("failure", "its code")
    return "survived" if state == "failed" and survives else state


def ending_handlers(begun: list[str]) -> list[str]:
    """The handlers at the end, of all steps and handlers that started."""
    names = [name.removeprefix("handler_on.") for name in begun]
    return [name for name in names if name in ("success", "failure", "abort", "exit")]


@st.composite
def flow_plans(draw: Any, most: int = 5) -> FlowPlan:
    names = "abcde"[: draw(st.integers(1, most))]
    steps = {}
    for place, name in enumerate(names):
        earlier = st.lists(st.sampled_from(names[:place]), unique=True) if place else st.just([])
        fate = draw(st.sampled_from(["succeeds", "succeeds", "fails", "unmet"]))
        steps[name] = StepPlan(
            tuple(draw(earlier)),
            fate,
            draw(st.sampled_from(["no", "failure", "its code", "another code"])),
            draw(st.booleans()),
            draw(st.integers(0, 2)) if fate != "unmet" else 0,
        )
    events = draw(st.lists(st.sampled_from(["init", "success", "failure", "abort", "exit"])))
    fates = st.sampled_from(["succeeds", "succeeds", "fails"])
    return FlowPlan(
        steps,
        draw(st.sampled_from(["none", "none", "met", "unmet"])),
        {event: draw(fates) for event in sorted(set(events))},
        draw(st.none() | st.integers(1, 2)),
    )
