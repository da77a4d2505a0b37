"""Conditions hold or not, and one that does not says what it found."""

from __future__ import annotations

from typing import Any

import pytest

from duebook.flows.build import build
from duebook.flows.conditions import unmet
from duebook.flows.render import Values, render_step
from duebook.model.flow import Condition


def run_with(code: int, text: str) -> Any:
    return lambda _: (code, text)


@pytest.mark.parametrize(
    ("condition", "code", "text", "holds"),
    [
        (Condition("test", True), 0, "", True),
        (Condition("test", True), 1, "", False),
        (Condition("test", True, negate=True), 1, "", True),
        (Condition("date", True, "7"), 0, "7\n", True),
        (Condition("date", True, "re:^[1-5]$"), 0, "7\n", False),
        (Condition("date", True, "re:^[1-5]$", True), 0, "7\n", True),
        (Condition("prod", False, "prod"), 9, "", True),
        (Condition("dev", False, "prod"), 9, "", False),
    ],
)
def test_a_condition_holds_or_not(condition: Condition, code: int, text: str, holds: bool) -> None:
    assert (unmet([condition], [condition], run_with(code, text)) is None) == holds


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("test -f in.csv", "its condition `test -f in.csv` was not met: exit code 1"),
        (
            "{condition: '${STAGE}', expected: prod}",
            "its condition `${STAGE}` was `dev`, not `prod`",
        ),
        (
            "{condition: '${STAGE}', expected: dev, negate: true}",
            "its condition `${STAGE}` was `dev`, but must not be",
        ),
        (
            "{condition: '`date +%u`', expected: 're:[1-5]'}",
            "its condition `date +%u` was `7`, not like `[1-5]`",
        ),
        (
            "{condition: '{{ params.STAGE }}', expected: '${GOAL}'}",
            "its condition `{{ params.STAGE }}` was `dev`, not `${GOAL}`",
        ),
        (
            "{condition: '${API_TOKEN}', expected: ''}",
            "its condition `${API_TOKEN}` was `***`, not ``",
        ),
    ],
)
def test_a_condition_that_is_not_met_says_what_it_found(condition: str, told: str) -> None:
    text = f"""
params: [STAGE: dev, GOAL: prod, API_TOKEN: hush]
steps:
  - command: "true"
    preconditions: [{condition if condition.startswith("{") else repr(condition)}]
"""
    built = build(text, "f.yaml", "f")
    assert built.problems == ()
    (flow,) = built.flows
    (step,) = flow.steps
    rendered = render_step(flow, step, Values(), {})
    assert unmet(step.preconditions, rendered.conditions, run_with(1, "7\n")) == told


def test_a_condition_that_must_not_hold_says_that_it_did() -> None:
    condition = Condition("test -f lock", True, negate=True)
    found = unmet([condition], [condition], run_with(0, ""))
    assert found == "its condition `test -f lock` was met, but must not be"
