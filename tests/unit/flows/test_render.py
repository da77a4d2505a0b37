"""Values in steps: they arrive, and they stay data whatever they are."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.errors import Invalid
from duebook.flows.build import build
from duebook.flows.conditions import unmet
from duebook.flows.param_values import check_params
from duebook.flows.patterns import check_pattern, is_as_expected, is_in_output
from duebook.flows.render import Rendered, Values, render_step, wanted_files
from duebook.model.flow import Condition, FlowTarget
from duebook.model.flow_run import StepEnd
from duebook.model.target import CommandTarget, HttpTarget
from duebook.targets.templates import TemplateFailed
from tests.support.examples import some_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from duebook.model.flow import Flow

NODE = {"PATH": os.environ["PATH"], "HOME": "/root", "SECRET": "s3cret"}
FACTS = {
    "run": {"id": "r1", "origin": "manual", "trigger": "manual"},
    "due_at": "2026-02-07T12:00:00Z",
}
NASTY = [
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '" ; touch pwned ; "',
    "a\nb",
    "-o",
]
NASTY += ["${HOME}", "{{ env.SECRET }}", "*", "\\", "%s", "é ✓"]


def flow_of(text: str) -> Flow:
    built = build(text, "f.yaml", "f")
    assert built.problems == ()
    return built.flows[0]


def rendered(text: str, step: int = -1, /, **values: Any) -> Rendered:
    flow = flow_of(text)
    return render_step(flow, list(flow.all_steps())[step], Values(facts=FACTS, **values), NODE)


def printed(found: Rendered, where: Path | None = None) -> str:
    target = found.target
    assert isinstance(target, CommandTarget)
    done = subprocess.run(  # noqa: S603 - our own words
        target.argv, env={**NODE, **dict(target.env)}, cwd=where, capture_output=True, check=True
    )
    return done.stdout.decode()


def ends(**outputs: Any) -> Mapping[str, StepEnd]:
    return {name: StepEnd("succeeded", 0, output) for name, output in outputs.items()}


@pytest.mark.parametrize("value", NASTY)
@pytest.mark.parametrize(
    "command",
    [
        '"printf %s \\"$A\\""',
        "'printf %s \"${A}\"'",
        "[printf, '%s', '$A']",
        "[printf, '%s', '{{ params.A }}']",
        "'printf %s \"$B\"'",
        "'printf %s \"${DEEP.x}\"'",
        "'printf %s \"{{ params.A }}\"'",
    ],
)
def test_a_value_stays_data_whatever_it_is(command: str, value: str, tmp_path: Path) -> None:
    text = f"params: {{A: x, DEEP: {{}}}}\nenv: {{B: '${{A}}'}}\nsteps:\n- command: {command}"
    found = rendered(text, params={"A": value, "DEEP": {"x": value}})
    assert printed(found, tmp_path) == value
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=some_of(50), deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50))
def test_any_text_arrives_as_it_is(value: str) -> None:
    text = "steps: [{name: a, command: a, output: A}, {command: 'printf %s \"$A\"'}]"
    assert printed(rendered(text, ends=ends(a=value))) == value


def test_params_by_place_are_arguments_of_the_shell_and_of_other_interpreters() -> None:
    text = "params: 'one \"two words\"'\nsteps: [%s]"
    shell = text % 'command: \'printf "%s|" "$1" "$2"\''
    assert printed(rendered(shell)) == "one|two words|"
    assert printed(rendered(shell, params={"2": "$(id)"})) == "one|$(id)|"
    python = text % "{command: python3, script: 'import sys; print(sys.argv[1:])'}"
    assert printed(rendered(python)) == "['one', 'two words']\n"
    assert printed(rendered(text % "command: [printf, '%s', '$2 $3']")) == "two words $3"


def test_a_script_ends_at_its_first_failure() -> None:
    target = rendered("steps:\n- |\n  false\n  echo on").target
    assert isinstance(target, CommandTarget)
    done = subprocess.run(target.argv, env=NODE, capture_output=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout) == (1, b"")


def test_a_script_runs_with_the_interpreter_of_its_first_line() -> None:
    text = "steps:\n- script: |\n    #!/usr/bin/env python3\n    print(6 * 7)\n"
    assert printed(rendered(text)) == "42\n"


def test_variables_are_made_in_their_order_and_the_nearest_wins() -> None:
    text = """
params: {SIZE: 3, STAGE: dev}
env: [A: "${HOME}/a", B: "${A}/${SIZE}", STAGE: hidden, GONE: "<${NOWHERE}>"]
steps:
- {command: x, env: [A: "own-${A}", C: "${A}"]}
"""
    assert dict(rendered(text).variables) == {
        "A": "own-/root/a",
        "B": "/root/a/3",
        "STAGE": "dev",
        "GONE": "<>",
        "SIZE": "3",
        "C": "own-/root/a",
        "DAG_NAME": "f",
        "DAG_RUN_STEP_NAME": "step-1",
        "DAG_RUN_ID": "r1",
    }


def test_outputs_and_ends_of_steps_can_be_named() -> None:
    text = """
steps:
- {name: get-it, id: get, command: a, output: OUT, continue_on: failed}
- command:
    - x
    - "${OUT.list[1]}"
    - "{{ steps.get_it.output.list | length }}"
    - "{{ steps[\\"get-it\\"].exit_code }}"
    - "${get.exitCode} ${GET_IT_EXIT_CODE}"
    - "{{ steps.get.status }}"
    - "$OUT"
"""
    raw = '{"list": [1,  2]}'
    target = rendered(text, ends={"get-it": StepEnd("failed", 3, raw)}).target
    assert isinstance(target, CommandTarget)
    assert target.argv == ("x", "2", "2", "3", "3 3", "failed", raw)


def test_the_output_of_a_step_that_was_skipped_is_undefined() -> None:
    text = "steps: [{name: a, task: a, continue_on: skipped}, {command: [x, '%s']}]"
    with pytest.raises(TemplateFailed, match="undefined"):
        rendered(text % "{{ steps.a.output }}", ends={"a": StepEnd("skipped")})
    found = rendered(
        text % '{{ steps.a.output | default("none") }}', ends={"a": StepEnd("skipped")}
    ).target
    assert isinstance(found, CommandTarget)
    assert found.argv == ("x", "none")


def test_requests_tasks_and_flows_get_their_values() -> None:
    text = """
params: {A: 1}
env: {HOST: example.com}
steps:
- {http: {url: "https://${HOST}/{{ params.A }}", json: {n: "{{ params.A }}", t: "$A"}}}
- {task: t, payload: {n: "{{ params.A }}", all: "{{ params }}"}}
- {call: other, params: {N: "{{ params.A }}", T: "x${A}"}}
"""
    http = rendered(text, 0).target
    assert isinstance(http, HttpTarget)
    assert (http.url, http.json) == ("https://example.com/1", {"n": 1, "t": "1"})
    assert rendered(text, 1).payload == {"n": 1, "all": {"A": 1}}
    assert rendered(text, 2).target == FlowTarget("other", (("N", 1), ("T", "x1")))


def test_a_handler_knows_how_the_flow_ended() -> None:
    text = "handler_on: {exit: 'printf \"$DAG_RUN_STATUS\"'}\nsteps: [a]"
    assert printed(rendered(text, status="failed")) == "failed"


def test_a_default_may_be_a_template_but_what_is_given_is_data() -> None:
    text = "params: {DAY: '{{ due_at | time }}', KEY: '${SECRET}'}\nsteps: [a]"
    assert dict(rendered(text).variables)["DAY"] == "2026-02-07"
    assert dict(rendered(text).variables)["KEY"] == "s3cret"
    given = {"DAY": "{{ due_at }}", "KEY": "${SECRET}"}
    assert dict(rendered(text, params=given).variables) | given == dict(
        rendered(text, params=given).variables
    )


def test_a_value_too_long_for_a_variable_fails_the_step_that_needs_it() -> None:
    text = "steps: [{name: a, command: a, output: LONG}, {command: '%s'}]"
    with pytest.raises(TemplateFailed, match="LONG has 200,000 bytes"):
        rendered(text % "echo $LONG", ends=ends(a="x" * 200_000))
    assert printed(rendered(text % "echo short", ends=ends(a="x" * 200_000))) == "short\n"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"N": "3"}, {"N": 3}),
        ({"N": 3, "T": "1"}, {"N": 3, "T": "1"}),
        ({"N": 1, "B": "true", "C": "b"}, {"N": 1, "B": True, "C": "b"}),
    ],
)
def test_params_are_given_by_their_types(given: dict[str, Any], found: dict[str, Any]) -> None:
    assert check_params(TYPED, given) == found


TYPED = flow_of(
    """
params:
- {name: N, type: integer, required: true}
- {name: T, type: string}
- {name: B, type: boolean, default: false}
- {name: C, enum: [a, b], default: a}
- {name: F, type: number, default: 1.5}
steps: [x]
"""
)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, 'param "N" is required'),
        ({"N": "many"}, 'param "N" many is not a valid integer'),
        ({"N": True}, 'param "N" True is not a valid integer'),
        ({"N": 1, "B": "True"}, 'param "B" True is not a valid boolean: true or false'),
        ({"N": 1, "F": "NaN"}, 'param "F" NaN is not a valid number'),
        ({"N": 1, "F": "-Infinity"}, 'param "F" -Infinity is not a valid number'),
        ({"N": 1, "F": "1e999"}, 'param "F" 1e999 is not a valid number'),
        ({"N": 1, "C": "z"}, 'param "C" z is not one of a, b'),
        ({"N": 1, "X": 1}, 'flow "f" has no param "X"; it has N, T, B, C, F'),
        ({"N": 1, "T": "\0"}, 'param "T" contains NUL'),
    ],
)
def test_what_a_flow_does_not_take_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        check_params(TYPED, given)


def run_with(code: int, text: str) -> Any:
    return lambda _: (code, text)


def test_conditions_are_rendered_but_their_commands_are_not() -> None:
    text = """
params: {STAGE: "x; id"}
steps:
- command: a
  preconditions:
  - {condition: "${STAGE}", expected: "x; id"}
  - {condition: "`echo $STAGE`", expected: "{{ params.STAGE }}"}
"""
    assert rendered(text).conditions == (
        Condition("x; id", False, "x; id", is_data=True),
        Condition("echo $STAGE", True, "x; id", is_data=True),
    )


@pytest.mark.parametrize("value", ["re:.*", "re:(a+)+$", "re:["])
def test_a_value_that_looks_like_a_pattern_is_text(value: str) -> None:
    text = """
params: {WANTED: "", GOT: ""}
steps:
- command: a
  preconditions: {condition: "${GOT}", expected: "${WANTED}"}
"""
    same = rendered(text, params={"WANTED": value, "GOT": value})
    other = rendered(text, params={"WANTED": value, "GOT": "a" * 100})
    assert unmet(same.conditions, same.conditions, run_with(1, "")) is None
    assert unmet(other.conditions, other.conditions, run_with(1, "")) is not None


def test_patterns_look_at_lines() -> None:
    assert is_in_output("one\nWARN: two\n", ("re:^WARN",))
    assert not is_in_output("one WARN", ("re:^WARN",))
    assert is_in_output("one WARN", ("WARN",))
    assert not is_as_expected("one WARN", "WARN")


@pytest.mark.parametrize(
    "pattern",
    [
        *("re:(a+)+$", "re:(a|a)*b", "re:(.*)*", r"re:(\w+\s?)+$", "re:((a)|b)+c", r"re:(a)\1"),
        *("re:(a+){30}b", "re:(a?a?)*b", "re:(a|a){30}b", "re:(?:){2000000000}", "re:(?x)( a+ ) +"),
        *(f"re:{'a?' * 30}{'a' * 30}", f"re:{'(a|a)' * 30}b", "re:a*a*a*a*a*a*b", "re:["),
    ],
)
def test_a_pattern_that_may_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid, match="pattern"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "re:0[1-9]",
            "re:^v[0-9]+\\.[0-9]+\\.[0-9]+$",
            "re:build|deploy",
            "re:(foo)+",
            "re:[*+(|]",
        ),
        *("re:^(yes|no) *$", r"re:^[0-9]+(\.[0-9]+)?$", "re:(?:[0-9]{2}:){2}[0-9]{2}", "re:a{3}"),
        "re:(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)-(?:[0-9]{1,2}?)",
    ],
)
def test_ordinary_patterns_are_allowed(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize("count", range(6))
def test_a_pattern_looks_at_all_of_a_value_or_says_that_it_is_too_long(count: int) -> None:
    pattern = check_pattern(f"re:^{'[a-z]+' * count}[0-9]?$")
    assert is_as_expected("a" * count, pattern)
    with pytest.raises(Invalid, match="a value has 100,000 characters"):
        is_as_expected("a" * 99_999 + ";", pattern)
    assert not is_in_output("a" * 99_999 + ";", (pattern,))


def test_json_that_a_command_printed_is_printed_again_as_it_was() -> None:
    raw = json.dumps({"a": [1, 2]}, indent=4)
    text = "steps: [{name: a, command: a, output: A}, {command: 'printf %s \"$A\"'}]"
    assert printed(rendered(text, ends=ends(a=raw))) == raw


WIDE = "steps: [%s, {command: '%s'}]"


def keeping(number: int) -> str:
    return ", ".join(f"{{name: s{n}, command: a, output: V{n}}}" for n in range(number))


def outputs(number: int, text: str) -> Mapping[str, StepEnd]:
    return ends(**{f"s{n}": text for n in range(number)})


def test_a_program_is_given_as_many_variables_as_it_can_take() -> None:
    found = rendered(WIDE % (keeping(30), "printf %s ${#V29}"), ends=outputs(30, "x" * 99_000))
    assert printed(found) == "99000"
    assert len([name for name, _ in found.variables if name.startswith("V")]) < 30


def test_a_variable_is_measured_in_bytes() -> None:
    given = outputs(1, "€" * 60_000)
    assert printed(rendered(WIDE % (keeping(1), "printf fine"), ends=given)) == "fine"
    with pytest.raises(TemplateFailed, match="V0 has 180,000 bytes, too many for a variable"):
        rendered(WIDE % (keeping(1), 'echo "$V0"'), ends=given)
    assert rendered(WIDE % (keeping(1), "echo $V0_0 $V01"), ends=given)


def test_variables_that_a_text_needs_and_that_are_too_many_together_fail_the_step() -> None:
    names = " ".join(f"$V{n}" for n in range(12))
    with pytest.raises(TemplateFailed, match="too many for a variable"):
        rendered(WIDE % (keeping(12), f"echo {names}"), ends=outputs(12, "x" * 99_000))


def test_an_argument_that_is_too_long_fails_the_step() -> None:
    text = "steps: [{name: s0, command: a, output: V0}, {command: [echo, '${V0}']}]"
    with pytest.raises(TemplateFailed, match="has 200,000 bytes, too many for an argument"):
        rendered(text, ends=outputs(1, "x" * 200_000))


PIPED = """
steps:
  - {name: make, command: seq 1 9, output: J}
  - {name: use, command: COMMAND}
"""


@pytest.mark.parametrize(
    "command", ['"cat ${J.file}"', "[cat, '${J.file}']", "'cat \"${J.file}\"'"]
)
def test_an_output_can_be_had_as_a_file(command: str, tmp_path: Path) -> None:
    file = tmp_path / "J"
    file.write_text("1 2 3")
    text = PIPED.replace("COMMAND", command)
    assert wanted_files(flow_of(text).steps[1]) == {"J"}
    assert wanted_files(flow_of(text).steps[0]) == set()
    found = rendered(text, 1, ends=ends(make="1 2 3"), files={"J": str(file)})
    assert printed(found) == "1 2 3"


def test_a_part_of_an_output_that_is_called_file_stays_that_part() -> None:
    text = PIPED.replace("COMMAND", "'printf %s \"${J.file}\"'")
    found = rendered(text, 1, ends=ends(make='{"file": "a.csv"}'), files={"J": "/there"})
    assert printed(found) == "a.csv"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("'printf %s \"$J\" | tail -1'", "J has 168,888 bytes, too many for a variable"),
        ("'printf %s \"${J:-none}\"'", "J has 168,888 bytes, too many for a variable"),
        ("[printf, '$J']", "168,888 bytes, too many for an argument"),
    ],
)
def test_a_step_that_names_what_no_variable_can_hold_fails_with_the_remedy(
    command: str, told: str
) -> None:
    large = "x" * 168_888
    with pytest.raises(TemplateFailed) as failed:
        rendered(PIPED.replace("COMMAND", command), 1, ends=ends(make=large))
    assert told in str(failed.value)
    assert "use ${J.file}, the name of a file that contains" in str(failed.value)


def test_a_variable_of_the_step_itself_is_never_left_out_silently() -> None:
    text = PIPED.replace("COMMAND}", "[env], env: {K: '${J}'}}")
    with pytest.raises(TemplateFailed, match=r"K has 168,888 bytes.*use \$\{J.file\}"):
        rendered(text, 1, ends=ends(make="x" * 168_888))
