"""Builds a flow from a text, and fills in a step of it, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.flows.build import build
from duebook.flows.render import Values, render_step
from duebook.model.flow_run import StepEnd

if TYPE_CHECKING:
    from duebook.flows.render import Rendered
    from duebook.model.flow import Flow

__all__ = ["flow_of", "problems_of", "rendered"]


def flow_of(text: str) -> Flow:
    built = build(text, "f.yaml", "f")
    assert built.problems == (), [str(problem) for problem in built.problems]
    return built.flows[0]


def problems_of(text: str) -> list[str]:
    return [str(problem) for problem in build(text, "f.yaml", "f").problems]


def rendered(
    flow: Flow, step: int = 0, params: dict[str, Any] | None = None, **ends: Any
) -> Rendered:
    found = {name: StepEnd("succeeded", 0, output) for name, output in ends.items()}
    values = Values(params or {}, found, {"run": {"id": "r1"}})
    return render_step(flow, flow.steps[step], values, {"HOME": "/home/ann"})
