"""Flows from text: what is built, and that everything wrong is told at once, with its place."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.flows.build import build, calls_in_circle
from duebook.flows.variables import part_variable
from duebook.flows.words import TABLES, camel
from duebook.model.flow import Condition, ContinueOn, Flow, FlowTarget, Param, Script
from duebook.model.retry import Retry
from duebook.model.target import CommandTarget, HttpTarget, TaskTarget
from tests.support.examples import some_of
from tests.support.waiting import takes_less_than


def flow_of(text: str) -> Flow:
    built = build(text, "f.yaml", "f")
    assert built.problems == ()
    return built.flows[0]


def problems_of(text: str) -> list[str]:
    return [str(problem) for problem in build(text, "f.yaml", "f").problems]


def depends_of(text: str) -> dict[str, tuple[str, ...]]:
    return {step.name: step.depends for step in flow_of(text).steps}


def test_every_problem_is_told_at_once_with_its_place_and_a_hint() -> None:
    assert problems_of(
        """
scedule: "0 2 * * *"
max_active_steps: none
timeoutSec: -1
steps:
  - name: load
    command: ./load.sh
    retires: 3
    retryPolicy: {limit: many, intervalSec: 5}
  - name: tell
    command: ./tell.sh
    depends: [laod]
handlerOn:
  sucess: ./done.sh
"""
    ) == [
        "f.yaml:2:1: unknown key `scedule`; did you mean `schedule`?",
        'f.yaml:3:19: max_active_steps "none" is not a whole number from 1 to 10,000',
        "f.yaml:4:13: timeoutSec -1 is not a whole number from 0 to 3,153,600,000",
        "f.yaml:8:5: unknown key `retires`; did you mean `retries`?",
        'f.yaml:9:26: limit "many" is not a whole number from 0 to 999',
        'f.yaml:12:15: "tell" depends on "laod", which is not a step; did you mean `load`?',
        "f.yaml:14:3: unknown key `sucess`; did you mean `success`?",
    ]


def test_a_hint_is_spelled_as_its_file_is() -> None:
    assert (
        "did you mean `retryPolicy`?" in problems_of("steps:\n  - {command: a, retryPolcy: 1}")[0]
    )
    assert (
        "did you mean `retry_policy`?" in problems_of("steps:\n  - {command: a, retry_polcy: 1}")[0]
    )


def test_a_key_in_both_spellings_is_refused() -> None:
    [told] = problems_of("maxActiveSteps: 1\nmax_active_steps: 2\nsteps: [a]")
    assert "means the same as `maxActiveSteps`" in told


def test_a_list_without_depends_runs_in_order() -> None:
    assert depends_of("steps: [a, b, c]") == {
        "step-1": (),
        "step-2": ("step-1",),
        "step-3": ("step-2",),
    }


def test_with_any_depends_only_these_count() -> None:
    steps = ("{name: a, command: a}", "{name: b, command: b}", "{name: c, command: c, needs: a}")
    text = f"steps: [{', '.join(steps)}]"
    assert depends_of(text) == {"a": (), "b": (), "c": ("a",)}
    assert depends_of(f"type: chain\n{text}") == {"a": (), "b": ("a",), "c": ("a",)}


def test_a_mapping_has_no_order_but_that_of_depends() -> None:
    assert depends_of("steps:\n  b: {command: b, depends: a}\n  a: {command: a}") == {
        "a": (),
        "b": ("a",),
    }


def test_a_list_within_the_list_runs_at_once() -> None:
    assert depends_of("steps: [a, [b, c], d]") == {
        "step-1": (),
        "step-2": ("step-1",),
        "step-3": ("step-1",),
        "step-4": ("step-2", "step-3"),
    }


def test_a_circle_is_named() -> None:
    [told] = problems_of(
        "steps:\n  a: {command: a, depends: c}\n  b: {command: b, depends: a}\n"
        "  c: {command: c, depends: b}\n  d: {command: d, depends: c}"
    )
    where = "f.yaml:2:6: steps depend on each other in a circle: a → c → b → a"
    assert told == f"{where}; remove one of these `depends`"


def test_names_and_ids_stand_for_one_step_each() -> None:
    text = "steps:\n- {name: a, command: a}\n- {name: b, id: a, command: b}"
    [told] = problems_of(text)
    assert 'two steps are named "a"' in told


def test_a_step_has_every_policy() -> None:
    [step] = flow_of(
        """
steps:
  - name: load
    description: all of it
    command: [./load, --fast]
    working_dir: /srv
    timeout_sec: 90
    env: {A: 1, B: "${A}/b"}
    output: LOADED
    worker_selector: {gpu: "true"}
    retry_policy: {limit: 2, interval_sec: 5, backoff: 1.5, max_interval_sec: 60, exit_code: 75}
    continue_on: {failure: true, exit_code: [3], output: "re:^warn", mark_success: true}
    preconditions:
      - {condition: "{{ now }}", expected: "re:^2026", negate: true}
      - test -f /srv/in
"""
    ).steps
    assert step.target == CommandTarget(("./load", "--fast"), cwd="/srv")
    assert step.retry == Retry(3, "5s", 1.5, "60s", False, (75,))
    assert step.timeout == timedelta(seconds=90)
    assert step.env == (("A", "1"), ("B", '{{ vars["A"] }}/b'))
    assert step.continue_on == ContinueOn(True, False, (3,), ("re:^warn",), True)
    assert step.preconditions == (
        Condition("{{ now }}", False, "re:^2026", True),
        Condition("test -f /srv/in", True),
    )
    assert (step.output, step.workers) == ("LOADED", (("gpu", "true"),))


def test_retries_are_a_short_form() -> None:
    assert flow_of("steps: [{command: a, retries: 2}]").steps[0].retry == Retry(attempts=3)
    [told] = problems_of("steps: [{command: a, retries: 2, retry_policy: {limit: 2}}]")
    assert "retries and retry_policy mean the same" in told


def test_a_step_runs_one_of_six_things() -> None:
    flow = flow_of(
        """
steps:
  shell: {command: "ls | wc -l"}
  task: {task: reports.send, payload: {day: "{{ due_at | time }}"}}
  http: {http: {url: "https://example.com/{{ run.id }}", json: {a: 1}}}
  flow: {call: other, params: {A: 1}}
  exec: {exec: {command: ls, args: [-l]}}
  python: {command: python3, script: "print(1)"}
"""
    )
    targets = [flow.step(n).target for n in ("shell", "task", "http", "flow", "exec", "python")]
    shell, task, http, other, program, python = targets
    assert shell == Script("ls | wc -l", ("/bin/sh", "-e", "-c"))
    assert task == TaskTarget("reports.send")
    assert flow.step("task").payload == {"day": "{{ due_at | time }}"}
    assert isinstance(http, HttpTarget)
    assert other == FlowTarget("other", (("A", 1),))
    assert program == CommandTarget(("ls", "-l"))
    assert python == Script("print(1)", ("python3", "-c"))


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("{name: x}", "it does not run anything; a step needs exactly one of run, command"),
        ("{command: a, task: b}", "it has command and task"),
        ("{command: ''}", "its command is empty"),
        ("{command: []}", "command is empty"),
        ("{command: [echo, {a: b}]}", "is not a string"),
        ("{command: ['{{ params.HOST_PARAM }}', b]}", "the program must be fixed"),
        ("{command: ['$HOME/run']}", "the program must be fixed"),
        ("{command: Rscript, script: x}", "is not a supported interpreter"),
        ("{script: '#!/bin/awk\\nx'}", "is not a supported interpreter"),
        ("{command: a, shell: pwsh}", "is not a supported interpreter"),
        ("{command: a, payload: {}}", "payload has no effect without task"),
        ("{task: a, working_dir: /}", "working_dir has no effect without action or command"),
        ("{http: 'https://${HOST_PARAM}/'}", 'names "HOST_PARAM"'),
        ("{http: 'https://{{ params.HOST_PARAM }}/'}", 'names "params.HOST_PARAM"'),
        ("{http: 'ftp://example.com'}", "does not start like https://"),
        ("{call: a, preconditions: [test -f x]}", "cannot have a command as its condition"),
        ("{event: {topic: '{{ params.HOST_PARAM }}'}}", 'names "params.HOST_PARAM"'),
        ("{event: duebook.runs}", "topics belong to Duebook"),
        ("{event: {subject: a}}", 'key "subject" is unknown'),
        ("{call: a, timeout_sec: 3}", "has no effect for a step that runs a flow"),
        ("{command: a, preconditions: [{condition: '$A', expected: 're:('}]}", "cannot be read"),
        ("{command: a, preconditions: [{condition: '$A', expected: 're:(a+)+$'}]}", "simplify it"),
        ("{command: a, preconditions: [{expected: b}]}", "a condition is missing"),
        ("{command: a, continue_on: maybe}", "is not one of failed, skipped"),
        ("{command: a, output: PATH}", "would change how programs work"),
        ("{command: a, output: LD_PRELOAD}", "would change how programs work"),
        ("{command: a, output: a-b}", "is not a variable name"),
        ("{command: a, env: {DUEBOOK_RUN_ID: x}}", "starts with DUEBOOK_"),
        ("{command: a, env: [A]}", "does not have the form NAME: value or NAME=value"),
        ("{command: a, name: 'a`b'}", "without backslashes"),
        ("{command: a, name: handler_on.exit}", "is a reserved step name"),
        ("{command: [ls, '{{ steps.gone.output }}']}", '"steps.gone.output" is unknown'),
        ("{command: [ls, '{{ nothing }}']}", '"nothing" is unknown'),
        ("{command: [ls, '{{ params.other }}']}", '"params.other" is unknown'),
        ("{command: [ls, '${a:=b}']}", "only a shell can expand it"),
        ("{command: [ls, '$(id)']}", "contains a command"),
        ("{command: 'echo ${A.b}'}", "is not a param, output or step"),
        ("{command: \"echo '{{ params.HOST_PARAM }}'\"}", "is in single quotes"),
        ("{command: python, script: 'print(\"${HOST_PARAM}\")'}", "is not replaced in a script"),
        ("{command: a, timeout_sec: soon}", 'timeout_sec "soon" is not a whole number'),
        ("{command: a, retry_policy: {interval_sec: 1}}", "retry_policy has no limit"),
        ("[a, [b]]", "is not a mapping, but a list"),
        ("7", "is not a mapping, but 7"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused(step: str, told: str) -> None:
    found = problems_of(f"params: [HOST_PARAM: x]\nsteps:\n  - {step}\n")
    assert any(told in problem for problem in found), found


def test_an_output_is_known_only_to_those_after_it() -> None:
    text = "steps:\n  a: {command: a, output: A}\n  b: {command: 'echo $A'%s}"
    [told] = problems_of(text % "")
    assert (
        '"${A}" is the output of "a", which does not run before this step; add it to depends'
        in told
    )
    assert problems_of(text % ", depends: a") == []
    [told] = problems_of(text.replace("'echo $A'", "[echo, '{{ steps.a.output }}']") % "")
    assert '"a" does not run before this step; add it to depends' in told


def test_the_output_of_a_step_that_keeps_none_is_refused() -> None:
    [told] = problems_of("steps: [{name: a, command: a}, {command: [b, '{{ steps.a.output }}']}]")
    assert '"a" does not keep its output; add `output: NAME` to it' in told


def test_names_with_dashes_can_be_written_in_templates() -> None:
    text = "steps: [{name: a-b c, task: a}, {command: [b, '{{ steps.a_b_c.output }}']}]"
    assert flow_of(text).steps[1].target == CommandTarget(("b", "{{ steps.a_b_c.output }}"))


def test_a_variable_made_of_params_does_not_choose_where_a_request_goes() -> None:
    text = "params: [A: x]\nenv: [B: '%s', C: '${B}.example.com']\nsteps: [http: 'https://${C}/']"
    [told] = problems_of(text % "${A}")
    assert 'names "C", which anyone who starts the flow can change' in told
    assert problems_of(text % "a") == []
    assert problems_of(text % "${HOME}") == []


def test_a_request_that_is_refused_is_shown_as_its_file_has_it() -> None:
    [told] = problems_of("env: {BASE: 'https://a.example'}\nsteps: [http: '${BASE}/x']")
    assert 'http url "${BASE}/x" does not start like https://example.com' in told


def test_parts_of_values_reach_a_shell_as_variables() -> None:
    text = "steps: [{name: a, command: a, output: A}, {command: 'echo \"${A.b[0].c_d}\" ${A}'}]"
    target = flow_of(text).steps[1].target
    assert isinstance(target, Script)
    assert target.text == 'echo "${A__b__0__c_d}" ${A}'
    assert target.values == (("A__b__0__c_d", '{{ data["A"]["b"][0]["c_d"] }}'),)


@pytest.mark.parametrize(
    "references",
    [
        ("${A.b-c}", "${A.b.c}", "${A.b__c}", "${A.b_-c}"),
        ('{{ steps["é"].output }}', '{{ steps["ü"].output }}', '{{ steps["a b"].output }}'),
        ("${1.b}", "${A.b}", "${_A.b}"),
    ],
)
def test_no_two_parts_of_values_share_a_variable(references: tuple[str, ...]) -> None:
    steps = [
        {"name": name, "command": "a", "output": f"O{place}"}
        for place, name in enumerate(["é", "ü", "a b"])
    ]
    text = {
        "params": ["one", {"A": ""}, {"_A": ""}],
        "steps": [*steps, "echo " + " ".join(references)],
    }
    target = flow_of(json.dumps(text)).steps[-1].target
    assert isinstance(target, Script)
    assert len(target.values) == len(references)
    assert all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) for name, _ in target.values)


def test_templates_reach_a_shell_as_variables() -> None:
    text = (
        "params: {A: x}\nsteps:\n- {name: a, command: a, output: B}\n"
        '- |\n  echo "{{ params.A }} {{params.A}}" {{ steps.a.output.b }} {{ due_at | time }}\n'
        "  docker ps --format '{{.Names}} {{ json . }}' {{ .A }} {% if x %}\n"
    )
    target = flow_of(text).steps[1].target
    assert isinstance(target, Script)
    time = part_variable("due_at | time")
    assert target.text == (
        f'echo "${{params__A}} ${{params__A}}" ${{steps__a__output__b}} ${{{time}}}\n'
        "docker ps --format '{{.Names}} {{ json . }}' {{ .A }} {% if x %}\n"
    )
    assert dict(target.values) == {
        "params__A": "{{ params.A }}",
        "steps__a__output__b": "{{ steps.a.output.b }}",
        time: "{{ due_at | time }}",
    }


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("echo '{{ params.A }}'", "is in single quotes, where a shell does not expand values"),
        ("echo {{ params.OTHER }}", '"params.OTHER" is unknown'),
        ("echo {{ steps.a.output }}", '"a" does not keep its output'),
        ("{script: '{{ params.A }}', command: python3}", "put it in env under a name"),
        ("{command: a, preconditions: ['test \"{{ params.A }}\"']}", "contains a template"),
    ],
)
def test_a_template_that_cannot_reach_a_command_is_refused(step: str, told: str) -> None:
    step = step if step.startswith("{") else json.dumps(step)
    found = problems_of(f"params: {{A: x}}\nsteps:\n- {{name: a, command: a}}\n- {step}")
    assert any(told in problem for problem in found), found


def test_quotes_in_comments_mean_nothing() -> None:
    text = "# don't\necho \"${A.b}\" a#'${A}'"
    step = flow_of(f"params: {{A: {{}}}}\nsteps: [{json.dumps(text)}]").steps[0]
    assert "${A__b}" in str(step.target)


def test_what_a_shell_knows_is_left_to_it() -> None:
    text = "echo $(date) `id` ${A:-b} ${#A} $$ $? '{{ x }}' '$A' \\${B.c} ${C[0]} ${C[@]}"
    target = flow_of(f"steps: [{json.dumps(text)}]").steps[0].target
    assert target == Script(text, ("bash", "-e", "-c"))  # ${C[@]} is an array of bash
    text = text.removesuffix(" ${C[@]}")
    target = flow_of(f"steps: [{json.dumps(text)}]").steps[0].target
    assert target == Script(text, ("/bin/sh", "-e", "-c"))


def test_params_have_every_form() -> None:
    assert flow_of("params: 'one A=b \"two three\"'\nsteps: [a]").params == (
        Param("1", "one"),
        Param("A", "b"),
        Param("3", "two three"),
    )
    assert flow_of("params: {A: 1, B: null}\nsteps: [a]").params == (Param("A", 1), Param("B", ""))
    assert flow_of("params: [A=1, B: [2]]\nsteps: [a]").params == (
        Param("A", "1"),
        Param("B", [2]),
    )
    assert flow_of(
        "params: [{name: A, required: true, type: integer, enum: [1, 2]}]\nsteps: [a]"
    ).params == (Param("A", None, "integer", (1, 2)),)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ("[A: 1, A: 2]", 'param "A" appears twice'),
        ("[PATH: x]", "would change how programs work"),
        ("[a-b: x]", "is not a variable name"),
        ("[{name: A, pattern: x}]", "key `pattern` is not supported"),
        ("[{name: A, type: date}]", "is not one of string, integer"),
        ("[{name: A, required: true, default: 1}]", "cannot have a default"),
        ("[{name: A, enum: [1], default: 2}]", "is not one of its enum"),
        ("'a \"b'", "has an unclosed quote"),
        ("{schema: x.json}", "key `schema` is not supported"),
    ],
)
def test_params_that_make_no_sense_are_refused(params: str, told: str) -> None:
    found = problems_of(f"params: {params}\nsteps: [a]")
    assert any(told in problem for problem in found), found


@pytest.mark.parametrize("times", ["'0 2 * * *'", "{restart: '0 2 * * *'}"])
def test_a_flow_that_begins_by_itself_has_no_required_params(times: str) -> None:
    text = "params: [{name: A, required: true}]\nsteps: [a]\nschedule: %s"
    [told] = problems_of(text % times)
    assert told.endswith('it has a schedule, but param "A" has no default; give it a default')
    assert problems_of(text % "{stop: '0 2 * * *'}") == []


def test_a_description_may_be_a_number_and_a_name_is_put_in_quotes() -> None:
    assert flow_of("description: 2026\nsteps: [a]").policies.description == "2026"
    [told] = problems_of("name: 2026\nsteps: [a]")
    assert told.endswith('; write it as "2026"')


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("workdays", "calendar workdays is not an object such as"),
        ("{on: workdays}", "needs either only or except"),
        ("{only: a, except: b}", "needs either only or except"),
        ("{only: workdays, roll: later}", "calendar roll later is not one of skip, next, previous"),
        ("{only: Work Days}", 'invalid calendar only "Work Days"'),
    ],
)
def test_a_wrong_calendar_is_told_with_its_place(written: str, told: str) -> None:
    (problem,) = problems_of(f"steps: [a]\nschedule: '@daily'\ncalendar: {written}")
    assert problem.startswith("f.yaml:3:11: ")
    assert told in problem


def test_a_flow_has_its_schedule_and_policies() -> None:
    flow = flow_of(
        """
name: nightly
description: every night
schedule: {start: "H 2 * * *", stop: ["0 6 * * *"], restart: "0 4 * * *"}
tz: Europe/Brussels
restart_wait_sec: 30
catchup_window: 6h
overlap_policy: all
skip_if_successful: true
max_active_runs: 2
max_active_steps: 3
queue: batch
priority: 5
timeout_sec: 60
delay_sec: 10
tags: [a, b=c]
group: data
calendar: {only: workdays, roll: previous}
steps: [a]
"""
    )
    assert flow.schedule_form() == {
        "trigger": [flow.start[0].to_json()],
        "target": {"flow": "nightly"},
        "catchup": "all",
        "catchup_window": "6h",
        "overlap": "queue",
        "skip_if_successful": True,
        "priority": 5,
        "description": "every night",
        "labels": {"a": "true", "b": "c", "group": "data"},
        "calendar": {"only": "workdays", "roll": "previous"},
        "stop": [flow.stop[0].to_json()],
        "restart": [flow.restart[0].to_json()],
    }
    assert flow.start[0].to_json() == {
        "cron": "H 2 * * *",
        "tz": "Europe/Brussels",
        "key": "nightly",
    }
    assert (len(flow.stop), len(flow.restart)) == (1, 1)
    assert (flow.restart_wait, flow.policies.timeout, flow.delay, flow.max_active_steps) == (
        *(timedelta(seconds=n) for n in (30, 60, 10)),
        3,
    )


def test_without_a_window_missed_due_times_are_skipped() -> None:
    form = flow_of("schedule: '@daily'\nsteps: [a]").schedule_form()
    assert form is not None
    assert (form["catchup"], form["overlap"]) == ("skip", "skip")
    assert flow_of("steps: [a]").schedule_form() is None


def test_a_schedule_may_be_any_trigger() -> None:
    flow = flow_of("tz: Asia/Tokyo\nschedule: [{every: 15m}, {daily: '07:00'}]\nsteps: [a]")
    assert [getattr(trigger, "tz", None) for trigger in flow.start] == ["Asia/Tokyo"] * 2
    assert "is not a cron" not in str(problems_of("schedule: '61 * * * *'\nsteps: [a]"))
    assert problems_of("schedule: {weekly: never}\nsteps: [a]")
    assert problems_of("tz: Mars/Base\nsteps: [a]")


def test_a_name_that_is_left_empty_is_that_of_the_file() -> None:
    assert flow_of("name:\nsteps: [a]").name == flow_of("steps: [a]").name


def test_later_documents_are_flows_of_the_first() -> None:
    built = build(
        "name: main\nsteps: [{call: part}, {call: other}]\n---\nname: part\nsteps: [a]", "f", "f"
    )
    assert [flow.name for flow in built.flows] == ["main", "main.part"]
    assert [str(step.target) for step in built.flows[0].steps] == ["flow main.part", "flow other"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it is empty"),
        ("steps: []", "it has no steps"),
        ("name: a", "it has no steps"),
        ("[a]", "a flow is not a mapping, but a list"),
        ("steps: [a]\n---\nsteps: [b]", "every flow after the first needs a name"),
        ("steps: [a]\n---\nname: b\nsteps: [b]\n---\nname: b\nsteps: [b]", "two flows in the file"),
        ("name: ../x\nsteps: [a]", "starting with a letter or digit"),
        ("name: Über Nacht\nsteps: [a]", "write it as"),
        ("steps: [call: b]\n---\nname: b\nsteps: [call: b]", "in a circle: f.b → f.b"),
        ("max_active_runs: 0\nsteps: [a]", "nothing could run"),
        ("overlap_policy: cancel\nsteps: [a]", "is not one of skip, all, latest"),
        ("catchup_window: 0s\nsteps: [a]", "0s is too short"),
        (
            "handler_on: {exit: {command: a, depends: [b]}}\nsteps: [a]",
            "cannot depend on other steps",
        ),
        ("type: tree\nsteps: [a]", 'type "tree" is not supported'),
        (
            "steps: {a: {command: a, output: A}, b: {command: b, output: A}}",
            "already has the output A",
        ),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(text: str, told: str) -> None:
    found = problems_of(text)
    assert any(told in problem for problem in found), found


def test_a_handler_may_name_every_step_and_init_none() -> None:
    text = "handler_on: {%s: {command: 'echo $A'}}\nsteps: [{name: a, command: a, output: A}]"
    assert problems_of(text % "exit") == []
    assert "does not run before" in problems_of(text % "init")[0]


def test_the_name_of_a_handler_is_for_people() -> None:
    flow = flow_of("handler_on: {exit: {name: tidy up, command: a}}\nsteps: [a]")
    assert [(step.name, step.description) for _, step in flow.handlers] == [
        ("handler_on.exit", "tidy up")
    ]


def test_a_broken_file_still_says_what_it_is_called() -> None:
    built = build("name: nightly\nstep: [a]", "f.yaml", "f")
    assert (built.flows, built.names) == ((), ("nightly",))


def test_flows_of_several_files_that_run_each_other_are_found() -> None:
    flows = [
        build(f"name: {name}\nsteps: [call: {other}]", "f", "f").flows[0]
        for name, other in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"))
    ]
    assert calls_in_circle(flows) == ["a", "b", "c", "a"]
    assert calls_in_circle(flows[:2]) == []


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"k{n}: 1" for n in range(40_000)),
        "steps: [{command: [x, '%s']}]" % ("{{" * 400_000),
        "steps: [{command: [x, '%s']}]" % ("${" * 400_000),
        "steps: [{command: [x, '%s']}]" % ("{{ a }}" * 120_000),
        "steps: [{command: '%s'}]" % ("${A." * 20_000),
        "params: '%s'\nsteps: [a]" % ("a " * 400_000),
        "steps:\n" + "\n".join(f"- {{name: s{n}, command: a}}" for n in range(9_000)),
        "steps:\n" + "\n".join(f"- {{name: s{n}, command: a, depends: x{n}}}" for n in range(999)),
    ],
    ids=["keys", "braces", "dollars", "tags", "parts", "words", "steps", "depends"],
)
def test_a_file_made_to_take_long_does_not(text: str) -> None:
    assert takes_less_than(3, lambda: build(text, "f.yaml", "f"))


KEYS = [spelled for table in TABLES for name in table.words for spelled in (name, camel(name))]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 10)
    | st.sampled_from(["a", "${A}", "$1", "{{ params.A }}", "re:(", "`x`", "http", "A=1 b", "0s"])
    | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text("ab", max_size=2), inner, max_size=5)
    ),
    max_leaves=12,
)


@settings(max_examples=some_of(150))
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6), VALUES)
def test_any_document_is_built_or_has_problems(form: dict[str, Any], steps: Any) -> None:
    built = build(json.dumps({**form, "steps": steps}), "f.yaml", "f")
    assert bool(built.flows) != bool(built.problems)
