"""The examples of flows: in order, drawn, and with values for every template."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from duebook.clock import utc_now
from duebook.flows.check import check_files, unknown_calls
from duebook.flows.drawing import draw_lines
from duebook.flows.dry_run import dry_run

if TYPE_CHECKING:
    from duebook.model.flow import Flow

ROOT = Path(__file__).parents[2] / "examples" / "flows"
CHECKED = check_files([ROOT])
GIVEN = {"nested.greet": {"who": "world"}}


def test_the_examples_have_no_problems() -> None:
    assert [str(problem) for each in CHECKED for problem in each.problems] == []
    assert unknown_calls(CHECKED) == []
    assert len(CHECKED) == 4


@pytest.mark.parametrize("flow", [f for each in CHECKED for f in each.flows], ids=lambda f: f.name)
def test_an_example_can_be_drawn_and_tried(flow: Flow) -> None:
    assert draw_lines(flow)
    steps = dry_run(flow, GIVEN.get(flow.name, {}), utc_now(), "r1", "ann")
    assert [step.name for step in steps] == [step.name for step in flow.all_steps()]
