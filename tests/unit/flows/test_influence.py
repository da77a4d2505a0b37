"""Params never choose which program runs: every key of a flow file is judged, and judged so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from duebook.flows.build import build
from duebook.flows.influence import INFLUENCE
from duebook.flows.render import Values, render_step
from duebook.flows.words import FLOW, STEP, TABLES
from duebook.model.target import CommandTarget
from tests.attack.walls import FLOWS, HARMLESS_FLOWS

SECURITY = Path(__file__).parents[3] / "docs" / "security.md"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_every_key_says_what_values_may_do_in_it(table: Any) -> None:
    words = {word.name for word in table.words.values() if word.supported and not word.same_as}
    assert set(INFLUENCE[table.title]) == words


@pytest.mark.parametrize("name", FLOWS)
def test_a_value_that_would_choose_what_runs_is_refused_where_it_stands(name: str) -> None:
    built = build(FLOWS[name], "f.yaml", "f")
    assert built.flows == ()
    lines = FLOWS[name].splitlines()
    for problem in built.problems:
        assert 1 <= problem.line <= len(lines), problem
        assert "\n" not in problem.message


@pytest.mark.parametrize("text", HARMLESS_FLOWS)
def test_values_that_are_data_are_taken(text: str) -> None:
    assert build(text, "f.yaml", "f").problems == ()


def test_every_key_that_takes_no_value_has_a_hostile_file() -> None:
    tried = " ".join(FLOWS)
    for table in (FLOW, STEP):
        for key, rule in INFLUENCE[table.title].items():
            assert rule in ("data", "none") or key in tried or key in ("steps", "type", "config"), (
                key
            )


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_a_key_without_values_keeps_its_text(table: Any) -> None:
    """What says `none` is never rendered: the flow is refused, or has the text as it stands."""
    if table is not FLOW and table is not STEP:
        return
    for key, rule in INFLUENCE[table.title].items():
        if rule != "none":
            continue
        root = f"{key}: '${{X}}'\n" if table is FLOW else ""
        own = f", {key}: '${{X}}'" if table is STEP else ""
        text = f"params: {{X: hostile}}\n{root}steps: [{{command: ls{own}}}]"
        for flow in build(text, "f.yaml", "f").flows:
            rendered = render_step(flow, flow.steps[0], Values({"X": "hostile"}), {})
            assert isinstance(rendered.target, CommandTarget)
            assert "hostile" not in (*rendered.target.argv, rendered.target.cwd), key


def test_the_page_on_security_has_every_key_in_which_values_count() -> None:
    section = SECURITY.read_text().partition("## Params and programs")[2].partition("\n## ")[0]
    shown = set(re.findall(r"`([a-z_]+)`", section))
    for title, keys in INFLUENCE.items():
        for key, rule in keys.items():
            assert rule == "none" or key in shown, f"{key} of {title}"


@pytest.mark.parametrize(
    ("interpreter", "arguments"),
    [
        ("perl", ["--", "-esystem(1)"]),
        ("node", ["--", "-esystem(1)"]),
        ("ruby", ["--", "-esystem(1)"]),
        ("php", ["--", "-esystem(1)"]),
        ("python3", ["-esystem(1)"]),
        ("bash", ["duebook", "-esystem(1)"]),
    ],
)
def test_a_param_by_its_place_is_no_option_of_an_interpreter(
    interpreter: str, arguments: list[str]
) -> None:
    text = f"params: a\nsteps: [{{command: {interpreter}, script: 'x'}}]"
    (flow,) = build(text, "f.yaml", "f").flows
    rendered = render_step(flow, flow.steps[0], Values({"1": "-esystem(1)"}), {})
    assert isinstance(rendered.target, CommandTarget)
    assert list(rendered.target.argv[3:]) == arguments
