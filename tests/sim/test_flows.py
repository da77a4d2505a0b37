"""That the simulation finds rules of flows that are broken on purpose."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from duebook.engine import advancer
from duebook.flows import advance
from duebook.model.flow_run import StepState
from duebook.store.sql.flow_runs import FlowRuns
from duebook.testing import step_preparer
from tests.sim.play import play
from tests.sim.script import Action, Script

if TYPE_CHECKING:
    from datetime import datetime

    import pytest

    from duebook.model.flow import Flow, Step
    from duebook.model.flow_run import Advance, Standing


def _of_flows(seed: int, *names: str, seconds: float = 40.0, nodes: int = 1) -> Script:
    actions = tuple(Action(2.0 + n * 3, "start", names[n % len(names)]) for n in range(8))
    script = Script(seed, nodes, seconds, schedules=names, actions=actions)
    assert play(script).problems == []
    return script


def test_a_join_that_fires_at_the_first_parent_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    script = _of_flows(21, "diamond", "fan")
    original = advance._verdict
    done = StepState("succeeded")

    def verdict(step: Step, state: StepState | None) -> str:
        hurried = state is not None and state.is_active and step.name == "right"
        return original(step, done if hurried else state)

    monkeypatch.setattr(advance, "_verdict", verdict)
    assert "F2" in play(script).violated


def test_a_step_that_is_retried_after_its_flow_ended_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts = tuple(Action(2.0 + n * 0.3, "start", "diamond") for n in range(8))
    script = Script(22, 1, 20.0, 1, schedules=("diamond",), actions=starts)
    assert play(script).problems == []

    waits_no_longer = property(lambda self: self.status == "running")
    monkeypatch.setattr(StepState, "is_active", waits_no_longer)
    assert {"F1", "F8"} <= play(script).violated


def test_the_handler_of_another_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    script = _of_flows(23, "doomed")
    monkeypatch.setitem(advance._HANDLER, "failed", "abort")
    assert "F5" in play(script).violated


def test_more_steps_at_once_than_a_flow_allows_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    script = _of_flows(24, "fan")

    def decide(flow: Flow, standing: Standing, now: datetime) -> Advance:
        return advance.advance(replace(flow, max_active_steps=None), standing, now)

    monkeypatch.setattr(advancer, "advance", decide)
    assert "F7" in play(script).violated


def test_runs_of_a_flow_that_are_not_counted_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    triggers = tuple(Action(2.0 + n * 3, "trigger", "diamond") for n in range(8))
    script = Script(25, 1, 40.0, schedules=("diamond",), actions=triggers)
    assert play(script).problems == []
    monkeypatch.setattr(FlowRuns, "_count_under_way", lambda *_: Counter())
    assert "I3" in play(script).violated


def test_a_step_whose_condition_is_not_heeded_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    script = _of_flows(26, "caller")
    monkeypatch.setattr(step_preparer, "unmet", lambda *_: None)
    assert "F3" in play(script).violated
