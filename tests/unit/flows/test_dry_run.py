"""What a dry run shows: the text of the file, and what a shell will make of it."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from duebook.flows.build import build
from duebook.flows.drawing import draw_lines
from duebook.flows.dry_run import DryStep, dry_run

AT = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
TEXT = """
params: {DAY: monday}
env: {DATA: "${HOME}/data"}
steps:
  - {name: get, command: ./get, output: GOT}
  - {name: put, command: 'put "${GOT.file}" "$DAY" ''$DAY'' $DATA ${get.exit_code}', depends: get}
  - name: loop
    script: |
      #!/bin/bash
      for day in $DAY; do echo "${GOT.file}"; done
      echo
    depends: get
  - {name: list, command: [put, $DAY, "${GOT.file}"], depends: get}
handler_on: {exit: 'echo $DAG_RUN_STATUS'}
"""


def dry(text: str, **params: Any) -> dict[str, DryStep]:
    built = build(text, "a.yaml", "a")
    assert not built.problems
    return {step.name: step for step in dry_run(built.flows[0], params, AT, "run", "me")}


def test_a_command_is_shown_as_written_and_as_a_shell_will_have_it() -> None:
    put = dry(TEXT)["put"]
    assert put.script == """put "${GOT.file}" "$DAY" '$DAY' $DATA ${get.exit_code}"""
    assert put.filled == ("""put "<file of GOT>" "monday" '$DAY' ${HOME}/data <exit code of get>""")
    assert dict(put.variables)["GOT.file"] == "<file of GOT>"


def test_what_only_a_run_knows_is_never_made_up() -> None:
    steps = dry(TEXT)
    assert steps["handler_on.exit"].filled == "echo <status of the flow>"
    assert steps["loop"].filled is None  # a shell does more there than to put in values
    assert steps["get"].filled is None


def test_a_graph_shows_what_was_written() -> None:
    lines = "\n".join(draw_lines(build(TEXT, "a.yaml", "a").flows[0]))
    assert 'put "${GOT.file}"' in lines
    assert 'loop  for day in $DAY; do echo "${GOT.file}"; done …' in lines
    assert "list  put '$DAY' '${GOT.file}'" in lines


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1))
def test_the_shown_command_does_the_same_as_the_one_that_runs(day: str) -> None:
    command = """printf '<%s>' "$DAY" "a${DAY}b" '$DAY'"""
    shown = dry(f"params: {{DAY: x}}\nsteps: [{{command: {json.dumps(command)}}}]", DAY=day)[
        "step-1"
    ]
    assert shown.filled is not None
    ran = [
        subprocess.run(  # noqa: S603 - the commands are ours
            ["/bin/sh", "-c", text], env={"DAY": day}, capture_output=True, check=True
        )
        for text in (command, shown.filled)
    ]
    assert ran[0].stdout == ran[1].stdout


def test_calls_for_each_item_and_questions_to_people_are_shown() -> None:
    steps = dry(
        "steps:\n"
        "  - {name: list, command: ls, output: FILES}\n"
        '  - {name: some, call: load, parallel: "${FILES}", params: {FILE: "${ITEM}"}}\n'
        '  - {name: two, call: load, parallel: [x, y], params: {FILE: "${ITEM}"}}\n'
        '  - {name: ok, action: human.task, with: {prompt: "Use ${FILES}?"}}\n'
    )
    some, two = steps["some"].target, steps["two"].target
    assert some.to_json() == {
        "flow": "load",
        "params": {"ITEM_1": {"FILE": "<each of ${FILES}>"}},
    }
    assert two.to_json()["params"] == {"ITEM_1": {"FILE": "x"}, "ITEM_2": {"FILE": "y"}}
    assert str(steps["ok"].target) == "asks a person: Use <output of list>?"
