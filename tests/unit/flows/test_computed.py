"""Commands in the params and env of a flow are executed once, before all steps, or refused."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from duebook.errors import Invalid
from duebook.flows.advance import advance
from duebook.flows.computed import execute_commands, take_commands
from duebook.flows.dry_run import dry_run
from duebook.flows.flow_values import Values
from duebook.flows.lifecycle import retried
from duebook.flows.references import Scope
from duebook.flows.render import render_step
from duebook.model.flow import COMPUTE
from duebook.model.flow_run import Standing, StepState
from duebook.model.target import CommandTarget
from duebook.targets.templates import TemplateFailed
from tests.unit.flows.dagu_helpers import flow_of, problems_of

if TYPE_CHECKING:
    from duebook.model.flow import Computed, Flow

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = """
params:
  - DAY: "`date +%F`"
  - NAME: "day-`echo $DAY`"
env:
  - HOST: "`uname -n`"
  - BOTH: "${HOST}/`basename $NAME`/end"
steps:
  - name: a
    command: echo "$BOTH"
    preconditions: [{condition: "${DAY}", expected: "2026-01-01"}]
"""


def executed(flow: Flow, **params: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """What the commands print, each in capitals what it is, and what they were given."""
    asked: list[tuple[str, str]] = []

    def ask(place: str, command: str, variables: dict[str, str]) -> str:
        asked.append((place, f"{command} {sorted(variables.items())}"))
        return f"{command.split()[0].upper()}\n"

    values = Values(params, {}, {"run": {"id": "r1"}})
    return execute_commands(flow, values, values, {}, ask), asked


def test_each_command_finds_the_values_before_it() -> None:
    printed, asked = executed(flow_of(TEXT))
    assert printed == {"0": "DATE", "1": "ECHO", "2": "UNAME", "3": "BASENAME"}
    assert asked == [
        ("params.DAY", "date +%F []"),
        ("params.NAME", "echo $DAY [('DAY', 'DATE')]"),
        ("env.HOST", "uname -n [('DAY', 'DATE'), ('NAME', 'day-ECHO')]"),
        (
            "env.BOTH",
            "basename $NAME [('DAY', 'DATE'), ('HOST', 'UNAME'), ('NAME', 'day-ECHO')]",
        ),
    ]


def test_the_command_of_a_param_that_is_given_is_not_executed() -> None:
    printed, asked = executed(flow_of(TEXT), DAY="2026-01-01", NAME="x")
    assert printed == {"2": "UNAME", "3": "BASENAME"}
    assert [place for place, _ in asked] == ["env.HOST", "env.BOTH"]


def test_all_steps_find_what_was_printed() -> None:
    flow = flow_of(TEXT)
    printed, _ = executed(flow)
    values = Values({}, {}, {"run": {"id": "r1"}}, computed=printed)
    step = render_step(flow, flow.steps[0], values, {})
    assert isinstance(step.target, CommandTarget)
    found = dict(step.target.env)
    assert (found["DAY"], found["BOTH"]) == ("DATE", "UNAME/BASENAME/end")
    assert step.conditions[0].text == "DATE"


def test_what_a_command_prints_is_no_template() -> None:
    flow = flow_of('env: {A: "`cat x`"}\nsteps: [echo "$A"]\n')
    values = Values({}, {}, {"run": {"id": "r1"}}, computed={"0": "{{ run.id }} $(id) `id`"})
    target = render_step(flow, flow.steps[0], values, {}).target
    assert isinstance(target, CommandTarget)
    assert dict(target.env)["A"] == "{{ run.id }} $(id) `id`"


def test_a_dry_run_shows_the_command() -> None:
    (step,) = dry_run(flow_of(TEXT), {}, BEGUN, "r1", "ann")
    assert isinstance(step.target, CommandTarget)
    assert dict(step.target.env)["DAY"] == "<output of date +%F>"


def test_a_command_gets_no_secret() -> None:
    flow = flow_of("env: [{S: '{{ secret.TOKEN }}'}, {A: '`echo $S`'}]\nsteps: [ls]\n")
    real, other = (Values(secrets={"TOKEN": text}) for text in ("s3cret", "<TOKEN>"))
    with pytest.raises(TemplateFailed) as caught:
        execute_commands(flow, real, other, {}, lambda *_: "")
    told = "the command of env.A names S, which contains a secret; use it in a step"
    assert str(caught.value) == told


def test_a_variable_with_a_secret_is_not_among_those_of_a_command() -> None:
    flow = flow_of("env: [{S: 'x {{ secret.TOKEN }}'}, {A: '`echo`'}]\nsteps: [ls]\n")
    real, other = (Values(secrets={"TOKEN": text}) for text in ("s3cret", "<TOKEN>"))
    given: list[dict[str, str]] = []

    def ask(_place: str, _command: str, variables: dict[str, str]) -> str:
        given.append(variables)
        return ""

    execute_commands(flow, real, other, {}, ask)
    assert given == [{}]


def test_the_commands_come_before_the_conditions_and_init() -> None:
    flow = flow_of(TEXT + "preconditions: [test -e x]\nhandler_on: {init: ls}\n")
    states: dict[str, StepState] = {}
    begun: list[str] = []
    while start := advance(flow, Standing(BEGUN, states), BEGUN).start:
        begun += start
        states |= {name: StepState("succeeded") for name in start}
    assert begun == [COMPUTE, "preconditions", "handler_on.init", "a"]


def test_no_step_runs_when_a_command_fails_and_a_retry_executes_it_again() -> None:
    flow = flow_of(TEXT + "handler_on: {failure: ls, exit: rm -rf $BOTH}\n")
    states = {COMPUTE: StepState("failed")}
    skipped = advance(flow, Standing(BEGUN, states), BEGUN)
    assert [(skip.step, skip.reason) for skip in skipped.skip] == [("a", "values_failed")]
    assert skipped.start == ()
    ended = {**states, "a": StepState("skipped", "values_failed")}
    end = advance(flow, Standing(BEGUN, ended), BEGUN).end
    assert end is not None
    assert (end.status, end.failed) == ("failed", (COMPUTE,))
    assert {COMPUTE, "a"} <= retried(flow, ended)


MAILS = """
mail_on: {failure: true, success: true}
error_mail: {to: a@example.com}
info_mail: {to: b@example.com}
handler_on: {abort: rm -rf $BOTH, failure: rm -rf $BOTH, exit: rm -rf $BOTH}
"""


@pytest.mark.parametrize(
    ("before", "begun"),
    [
        ({COMPUTE: StepState("failed")}, ["mail_on.failure"]),
        ({COMPUTE: StepState("cancelled", "flow_cancelled")}, []),
        ({}, []),
        (
            {COMPUTE: StepState("succeeded")},
            ["handler_on.abort", "handler_on.exit"],
        ),
    ],
)
def test_no_handler_but_mails_runs_without_values(
    before: dict[str, StepState], begun: list[str]
) -> None:
    flow, asked = flow_of(TEXT + MAILS), before.get(COMPUTE) != StepState("failed")
    states, found = dict(before), list[str]()
    while (step := advance(flow, Standing(BEGUN, states, asked), BEGUN)).end is None:
        found += step.start
        states |= {skip.step: StepState("skipped", skip.reason) for skip in step.skip}
        states |= {name: StepState("succeeded") for name in step.start}
        assert len(found) < 5
    assert found == begun
    assert step.end.status == ("cancelled" if asked else "failed")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'env: {A: "$(date)"}\nsteps: [ls]\n',
            (
                'f.yaml:1:10: "$(date)" contains a command, which is allowed only in commands, in '
                "conditions, and in backquotes in the params and env of a flow; use a step with "
                "`output`"
            ),
        ),
        (
            "secrets: [{name: T, provider: env, key: T}]\nenv: {A: '`echo $T`'}\nsteps: [ls]\n",
            'f.yaml:1:1: a command in params or env names the secret "T"',
        ),
        ('steps: [{run: ls, env: {A: "`date`"}}]\n', 'f.yaml:1:28: "`date`" contains a command'),
        ('env: {A: "` `"}\nsteps: [ls]\n', 'f.yaml:1:10: "` `" has a backquote without'),
        ('env: {A: "`a` `b"}\nsteps: [ls]\n', 'f.yaml:1:10: "`a` `b" has a backquote'),
        ('params: {A: "a`"}\nsteps: [ls]\n', 'f.yaml:1:9: "a`" has a backquote without'),
        ('params: {A: {b: "`date`"}}\nsteps: [ls]\n', 'f.yaml:1:9: "`date`" contains a command'),
        (
            'params: {A: x}\nenv: {PATH: "`echo $A`"}\nsteps: [ls]\n',
            'f.yaml:2:13: env PATH names "`…`"',
        ),
        (
            'params: {X: a}\nenv: {Y: "`printenv X`"}\nsteps: [{run: ls, working_dir: $Y}]\n',
            'f.yaml:3:15: working_dir names "Y"',
        ),
        (
            'params: {X: a}\nenv: {Y: "`printenv X`"}\nsteps: [{command: "$Y a"}]\n',
            'f.yaml:3:20: "$Y" lets "Y" choose what runs',
        ),
        (
            'params: {X: a}\nenv: {Y: "`printenv X`", Z: "`$Y`"}\nsteps: [ls]\n',
            'f.yaml:2:29: "$Y" lets "Y" choose what runs',
        ),
        (
            'params: {X: a}\nenv: {Y: "`printenv X`"}\nshell: $Y\nsteps: [ls]\n',
            "f.yaml:3:8: ",
        ),
        (
            'env: {PATH: "`brew --prefix`/bin:/bin"}\nsteps: [ls]\n',
            'f.yaml:1:13: env PATH names "`…`"',
        ),
        (
            'params: [{D: /a}]\nenv: [{D: /opt/bin}, {PATH: "${D}:/bin"}]\nsteps: [ls]\n',
            'f.yaml:2:29: env PATH names "D"',
        ),
        (
            'params: [{D: /a}]\nenv: [{D: ls}, {E: "`$D`"}]\nsteps: [ls]\n',
            'f.yaml:2:20: "$D" lets "D" choose what runs',
        ),
        (
            'params: {A: x}\nenv: {B: "`$A --version`"}\nsteps: [ls]\n',
            'f.yaml:2:10: "$A" lets "A" choose what runs',
        ),
        ("steps: [{name: computed values, run: ls}]\n", "f.yaml:1:16: "),
    ],
)
def test_other_commands_are_refused_at_their_line(text: str, told: str) -> None:
    found = problems_of(text)
    assert found, text
    assert found[0].startswith(told)


def test_a_variable_of_a_step_hides_a_param_and_may_say_where_programs_are() -> None:
    text = 'steps: [{run: ls, env: [{D: /opt}, {PATH: "${D}:/bin"}]}]\n'
    assert problems_of("params: [{D: /a}]\n" + text) == []


def test_a_long_text_with_one_backquote_is_refused_at_once() -> None:
    before = time.thread_time()
    for text in ("`" + "x" * 100_000, "`" + " " * 100_000, "` " * 50_001):
        found: list[Computed] = []
        with pytest.raises(Invalid, match="backquote"):
            take_commands(text, "A", Scope(), found)
        assert found == []
    assert time.thread_time() - before < 5


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"  - V{n}: '`date`'\n" for n in range(150)),
        "  - V99: x\n  - V100: '" + "`date`" * 150 + "'\n",
    ],
)
def test_more_commands_than_can_be_executed_are_refused_once(text: str) -> None:
    (found,) = problems_of(f"env:\n{text}steps: [ls]\n")
    assert ": a flow can have at most 100 commands in params and env, and V100 has one" in found
    assert found.endswith("let a step print several values, with `outputs`")


def test_as_many_commands_as_are_allowed() -> None:
    assert len(flow_of("env: {A: '" + "`date`" * 100 + "'}\nsteps: [ls]\n").computed) == 100


def test_a_secret_and_a_variable_cannot_have_one_name() -> None:
    text = "env: {T: x}\nsecrets: [{name: T, provider: env, key: T}]\nsteps: [ls]\n"
    (found,) = problems_of(text)
    told = 'f.yaml:2:10: a secret and a variable of env are named "T"; rename one of them'
    assert found == told


TYPED = "params: [{name: A, type: integer, enum: [1, 2], default: '`echo x`'}]\nsteps: [ls]\n"


def test_a_command_prints_a_value_of_the_type_of_its_param() -> None:
    flow, values = flow_of(TYPED), Values()
    assert execute_commands(flow, values, values, {}, lambda *_: "2\n") == {"0": "2"}
    for printed, told in (("x", "is not a valid integer"), ("3", "is not one of 1, 2")):
        with pytest.raises(Invalid, match=f'param "A" {printed} {told}'):
            execute_commands(flow, values, values, {}, lambda *_, text=printed: text)
    given = Values({"A": 1})
    assert execute_commands(flow, given, given, {}, lambda *_: "x") == {}


def test_a_command_that_is_split_at_its_space_has_a_remedy() -> None:
    found = problems_of('params: "DAY=`date +%F` B=2"\nsteps: [ls]\n')
    told = '"`date" has a backquote without its pair; put a value with spaces in double quotes'
    assert found[0] == f"f.yaml:1:9: {told}"
    assert problems_of("params: 'DAY=\"`date +%F`\" B=2'\nsteps: [ls]\n") == []
