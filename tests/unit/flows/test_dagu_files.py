"""Files of Dagu 1 and 2 mean here what they mean there, or are refused at the line in question."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.flows.build import build
from duebook.flows.dry_run import dry_run
from duebook.flows.render import Values, render_step
from duebook.model.flow import FlowTarget, NamedOutput, Script
from duebook.model.target import CommandTarget, HttpTarget
from tests.unit.flows.dagu_helpers import flow_of, problems_of, rendered

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.model.flow import Flow


def printed(flow: Flow, step: int = 0, params: dict[str, Any] | None = None, **ends: Any) -> str:
    """What the command of a step prints, executed for real."""
    made = rendered(flow, step, params, **ends)
    assert isinstance(made.target, CommandTarget)
    env = {"PATH": "/usr/bin:/bin", **dict(made.variables)}
    return subprocess.run(  # noqa: S603
        made.target.argv, env=env, check=True, capture_output=True, text=True
    ).stdout


# --- references -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('echo "${params.stage}"', "a b\n"),
        ("echo '${params.stage}'", "a b\n"),
        ("echo 'it is ${params.stage}!'", "it is a b!\n"),
        ("echo ${env.WHERE}", "in a b\n"),
        ("echo ${context.dag.name} ${context.run.id}", "f r1\n"),
        ("echo ${dag.name} ${run.id} ${step.name}", "f r1 step-1\n"),
        ("printf '%s|' ${params.stage}", "a|b|"),
    ],
)
def test_scoped_references_are_filled_in(text: str, shown: str) -> None:
    flow = flow_of(
        f"params:\n  - stage: dev\nenv:\n  - WHERE: in ${{params.stage}}\nsteps:\n  - run: {text}\n"
    )
    assert printed(flow, params={"stage": "a b"}) == shown


def test_a_param_without_a_name_has_the_number_of_its_place_among_all() -> None:
    flow = flow_of('params: N=3 rest\nsteps:\n  - run: echo "$N $1 $2"\n')
    assert printed(flow) == "3  rest\n"
    assert printed(flow, params={"2": "x"}) == "3  x\n"


def test_a_key_about_traces_changes_nothing_and_is_told() -> None:
    flow = flow_of("otel: {enabled: true, endpoint: 'otel:4317'}\nsteps: [a]")
    assert flow.notes == ("otel has no effect: start the node with --tracing",)


def test_files_for_a_person_are_refused_by_name() -> None:
    form = "{prompt: Ship?, artifacts: [a.html]}"
    (told,) = problems_of(f"steps: [{{id: a, action: human.task, with: {form}}}]")
    assert "key `artifacts` is not supported; name in prompt where the person finds them" in told


def test_a_key_that_is_not_supported_may_say_no() -> None:
    assert problems_of("mail_on: {wait: false}\nsteps: [{run: a, mail_on_error: false}]") == []
    assert "mail_on_error" in problems_of("steps: [{run: a, mail_on_error: true}]")[0]


def test_jq_without_a_command_formats_its_script() -> None:
    payload = rendered(flow_of("steps: [{executor: jq, script: '[1]'}]")).payload
    assert payload == {"filter": ".", "raw": False, "data": "[1]"}
    refused = problems_of("steps: [{action: jq.filter, with: {data: '[1]'}}]")
    assert "jq has no filter" in refused[0]


def test_a_called_flow_gets_values_by_the_same_places() -> None:
    steps = ("{call: child, params: N=3 rest}", "{call: child, params: [a, b]}")
    targets = [step.target for step in flow_of(f"steps: [{', '.join(steps)}]").steps]
    given = [dict(target.params) for target in targets if isinstance(target, FlowTarget)]
    assert given == [{"N": "3", "2": "rest"}, {"1": "a", "2": "b"}]


def test_a_scoped_value_with_quotes_and_commands_stays_data() -> None:
    flow = flow_of("params: [x: y]\nsteps:\n  - run: echo '${params.x}' \"${params.x}\"\n")
    hostile = """'; touch /tmp/never; echo "$(id)" '"""
    assert printed(flow, params={"x": hostile}) == f"{hostile} {hostile}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("params: [stage: a]\nsteps: ['echo ${params.stag}']", "did you mean `stage`?"),
        ("steps: ['echo ${context.paths.log_file}']", "use one of context.dag.name"),
        ("steps: ['echo ${consts.A}']", "is not supported"),
        (
            "params: [x: y]\nsteps:\n  - shell: python3\n    run: print('${params.x}')",
            "is not replaced in a script for python3",
        ),
        (
            "steps:\n  - {id: a, run: ls}\n  - {run: 'echo ${steps.a.outputs.b}', depends: a}",
            '"a" has no named outputs; add `outputs: [{name: b}]` to it',
        ),
        (
            "steps:\n  - {id: a, run: l, outputs: [{name: b}]}\n  - run: echo ${steps.a.outputs.c}",
            "is not an output of that step; it has b",
        ),
    ],
)
def test_a_reference_that_cannot_be_filled_in_is_refused(text: str, told: str) -> None:
    (problem,) = problems_of(text)
    assert told in problem


def test_outputs_of_a_called_flow_are_named_as_dagu_names_them() -> None:
    flow = flow_of(
        "steps:\n  - {id: a, call: child, output: R}\n"
        "  - {run: 'echo ${R.outputs.X} ${R.X} ${a.outputs.X} ${steps.a.outputs.X}', depends: a}\n"
    )
    assert printed(flow, 1, a={"X": "7"}) == "7 7 7 7\n"


def test_a_step_that_names_outputs_of_another_runs_after_it() -> None:
    flow = flow_of(
        "steps:\n  - {id: a, run: ls, outputs: [{name: tag}, {name: j, type: json}]}\n"
        "  - {id: z, run: ls, depends: []}\n"
        "  - {id: b, run: 'echo ${steps.a.outputs.tag}'}\n"
    )
    assert {step.name: step.depends for step in flow.steps} == {"a": (), "z": (), "b": ("a",)}
    assert flow.steps[0].outputs == (NamedOutput("tag"), NamedOutput("j", is_json=True))


@pytest.mark.parametrize(
    ("level", "found"), [({}, "info"), ({"LEVEL": ""}, "info"), ({"LEVEL": "debug"}, "debug")]
)
def test_a_default_after_a_colon_and_a_dash_is_that_of_a_shell(
    level: dict[str, str], found: str
) -> None:
    flow = flow_of("env: ['L=${LEVEL:-info}']\nparams: ['D=${LEVEL:-info}']\nsteps: ['echo $L $D']")
    made = render_step(flow, flow.steps[0], Values(), level)
    assert dict(made.variables)["L"] == dict(made.variables)["D"] == found


# --- commands ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("[pwd, 'echo \"done\"']", "/\ndone\n"),
        ("['echo a', 'echo b']", "a\nb\n"),
        ("[pwd, pwd]", "/\n/\n"),
        ("[echo, hello]", "hello\n"),
        ("[echo, 'hello world', -n]", "hello world -n\n"),
        ("[printf, '%s %s', 'one two', x]", "one two x"),
        ("['echo a: b', 'echo c']", "a: b\nc\n"),
    ],
)
def test_a_list_is_several_commands_when_it_reads_so(command: str, shown: str) -> None:
    flow = flow_of(f"steps:\n  - {{command: {command}, working_dir: /}}\n")
    made = rendered(flow)
    assert isinstance(made.target, CommandTarget)
    assert subprocess.check_output(made.target.argv, cwd="/", text=True) == shown  # noqa: S603


@pytest.mark.parametrize("command", ["[make, 'npm test']", "[make, test]", "[ls, test]"])
def test_a_list_that_may_be_either_is_refused_with_both_spellings(command: str) -> None:
    first = "ls" if "ls" in command else "make"
    (problem,) = problems_of(f"steps:\n  - command: {command}\n")
    assert f"`exec: {{command: {first}, args: [...]}}`, or `run: [...]`" in problem


@pytest.mark.parametrize("key", ["command", "script", "run"])
@pytest.mark.parametrize("as_text", [True, False])
def test_the_first_line_of_a_text_names_its_interpreter(key: str, as_text: bool) -> None:
    body = "#!/usr/bin/env python3\n      print(1 + 1)\n"
    step = f"  - |\n      {body}" if as_text else f"  - {key}: |\n      {body}"
    assert printed(flow_of(f"steps:\n{step}")) == "2\n"


@pytest.mark.parametrize(
    ("shell", "interpreter"),
    [
        ("python3", ("python3", "-c")),
        ("[bash, -x]", ("bash", "-x", "-c")),
        ("uv run --python 3.13 python", ("uv", "run", "--python", "3.13", "python", "-c")),
    ],
)
def test_any_known_interpreter_is_a_shell(shell: str, interpreter: tuple[str, ...]) -> None:
    (step,) = flow_of(f"steps:\n  - {{script: print(1), shell: {shell}}}\n").steps
    assert isinstance(step.target, Script)
    assert step.target.interpreter == interpreter


def test_arguments_of_the_shell_come_before_its_text() -> None:
    (step,) = flow_of("shell: bash\nshell_args: [-e, -u]\nsteps: [{run: ls}]").steps
    assert isinstance(step.target, Script)
    assert step.target.interpreter == ("bash", "-e", "-u", "-c")


# --- what was refused wrongly -----------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "params: [ENV: a, GIT_BRANCH: b, NODE_ENV: c, PYTHON_VERSION: d]\nsteps: [ls]\n",
        "steps: [ls]\n---\n",
        "steps:\n  - call: pipelines/child.yaml\n",
        'steps:\n  - {name: its "x", command: ls}\n',
        "steps:\n  - ls\n  - {command: pwd, depends: cmd_1}\n",
        "steps:\n  - {command: ls, continueOn: FAILED}\n",
        "handlerOn: {Exit: ls}\nsteps: [ls]\n",
        "steps:\n  - {type: http, command: GET https://a.de, config: {skipTLSVerify: false}}\n",
        (
            "steps:\n"
            "  - {id: a, run: ls, output: X, preconditions: ['true']}\n"
            "  - {id: b, run: ls, output: X, preconditions: ['false'], depends: []}\n"
        ),
    ],
)
def test_what_dagu_reads_is_read(text: str) -> None:
    assert problems_of(text) == []


def test_certificates_are_verified_whatever_a_file_says() -> None:
    (told,) = problems_of(
        "steps:\n  - type: http\n    command: GET https://a.de\n"
        "    config:\n      skipTLSVerify: true\n"
    )
    assert told.startswith("f.yaml:5:")
    assert "certificates are always verified" in told
    assert "SSL_CERT_FILE" in told


def test_a_step_may_be_named_by_a_name_with_quotes() -> None:
    flow = flow_of(
        "steps:\n  - {name: 'a \"b\"', id: x, run: ls, output: O}\n"
        "  - {run: 'echo ${x.output}', depends: x}\n"
    )
    assert printed(flow, 1, None, **{'a "b"': "1"}) == "1\n"


def test_a_call_names_the_flow_of_a_file_in_a_folder() -> None:
    (step,) = flow_of("steps:\n  - call: pipelines/child.yaml\n").steps
    assert step.target == FlowTarget("child")


def test_of_two_steps_with_one_output_that_which_ran_counts() -> None:
    flow = flow_of(
        "steps:\n"
        "  - {id: a, run: ls, output: X, preconditions: ['true'], continue_on: skipped}\n"
        "  - {id: b, run: ls, output: X, preconditions: ['true'], continue_on: skipped}\n"
        "  - {id: c, run: 'echo $X ${X.k}', depends: [a, b]}\n"
    )
    assert printed(flow, 2, a='{"k": 1}', b=None) == '{"k": 1} 1\n'


def test_two_steps_that_run_at_once_cannot_have_one_output() -> None:
    (problem,) = problems_of(
        "type: graph\nsteps:\n  - {id: a, run: ls, output: X}\n  - {id: b, run: ls, output: X}\n"
    )
    assert '"a" already has the output X' in problem


def test_a_list_in_which_only_some_steps_have_depends_gets_a_note() -> None:
    flow = flow_of("steps:\n  - {id: a, run: l}\n  - {id: b, run: l}\n  - {run: l, depends: b}\n")
    (note,) = flow.notes
    assert 'steps "a", "b" of flow f have no `depends` and start at once' in note
    assert flow_of("type: graph\nsteps:\n  - {id: a, run: ls}\n  - {run: ls}\n").notes == ()


def test_a_value_given_by_name_reaches_a_flow_that_lists_names() -> None:
    flow = flow_of("params: [ITEM, SIZE]\nsteps: ['echo \"$ITEM\" $1']\n")
    assert printed(flow, params={"ITEM": "x y"}) == "x y ITEM\n"
    assert "SIZE" not in {param.name for param in flow.params}


# --- where a mistake is shown -----------------------------------------------------------------


def test_a_mistake_in_a_script_is_shown_at_its_line() -> None:
    text = (
        "steps:\n  - name: a\n    script: |\n      echo one\n\n        echo ${R.x} two\n"
        "  - run: echo ${Q.y}\n"
    )
    places = [(p.line, p.column) for p in build(text, "f.yaml", "f").problems]
    assert places == [(6, 14), (7, 15)]


def test_dry_fills_in_params_by_their_place() -> None:
    flow = flow_of("params: one two\nsteps: ['echo $1 and \"$2\"']")
    (step,) = dry_run(flow, {"2": "b c"}, datetime(2026, 1, 1, tzinfo=UTC), "r", "ann")
    assert step.filled == 'echo one and "b c"'


# --- keys of the flow -------------------------------------------------------------------------


def test_history_is_kept_for_the_days_that_dagu_says() -> None:
    flow = flow_of("hist_retention_days: 30\nschedule: '0 0 * * *'\nsteps: [ls]")
    assert flow.policies.keep == timedelta(days=30)
    assert "keep and hist_retention_days mean the same" in str(
        problems_of("keep: 1d\nhist_retention_days: 30\nsteps: [ls]")
    )


def test_defaults_hold_for_steps_and_handlers_that_do_not_say_otherwise() -> None:
    flow = flow_of(
        "defaults:\n  retry_policy: {limit: 3, interval_sec: 5}\n  timeout_sec: 60\n"
        "  continue_on: failed\n  env: [A: 1]\n  preconditions: [{condition: $A, expected: '1'}]\n"
        "steps:\n  - run: ls\n  - {run: ls, retries: 1, timeout_sec: 5, env: [B: 2],"
        " continue_on: skipped, preconditions: ['false']}\n  - call: other\n"
        "handler_on: {exit: ls}\n"
    )
    one, two, three = flow.steps
    assert one.retry is not None
    assert one.retry.attempts == 4
    assert two.retry is not None
    assert two.retry.attempts == 2
    assert [one.timeout, two.timeout, three.timeout] == [
        timedelta(seconds=60), timedelta(seconds=5), None,
    ]  # fmt: skip
    assert one.continue_on.failure
    assert two.continue_on.skipped
    assert not two.continue_on.failure
    assert two.env == (("A", "1"), ("B", "2"))
    assert [condition.text for condition in two.preconditions] == ['{{ vars["A"] }}', "false"]
    ((_, handler),) = flow.handlers
    assert handler.timeout == timedelta(seconds=60)


def test_secrets_are_references_that_the_node_resolves() -> None:
    flow = flow_of(
        "env: [OTHER: shown]\nsecrets:\n  - {name: TOKEN, provider: env, key: PROD_TOKEN}\n"
        "steps:\n  - run: ./sync\n    env: [H: 'Bearer ${TOKEN}']\n"
    )
    assert flow.env == (("OTHER", "shown"), ("TOKEN", "{{ secret.TOKEN }}"))
    assert flow.notes == ('the secret TOKEN comes from the node: TOKEN = {env = "PROD_TOKEN"}',)
    made = render_step(flow, flow.steps[0], Values(secrets={"TOKEN": "s3cret"}), {})
    assert dict(made.variables)["H"] == "Bearer s3cret"
    assert 'provider "vault" is not supported' in str(
        problems_of("secrets: [{name: A, provider: vault, key: b}]\nsteps: [ls]")
    )


# --- actions ----------------------------------------------------------------------------------


def test_actions_of_dagu_2_are_read() -> None:
    flow = flow_of(
        "params: [n: '1']\nsteps:\n"
        "  - {action: exec, with: {command: echo, args: ['${params.n}']}}\n"
        "  - {action: noop}\n"
        "  - {action: http.request, with: {method: GET, url: 'https://a.de/x', query: {q: a b}}}\n"
        "  - {action: dag.run, with: {dag: other.yaml, params: {N: '${params.n}'}}}\n"
    )
    assert printed(flow, 0, {"n": "5 6"}) == "5 6\n"
    assert printed(flow, 1) == ""
    assert flow.steps[2].target == HttpTarget("https://a.de/x?q=a+b")
    assert rendered(flow, 3).target == FlowTarget("other", (("N", "1"),))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("{filter: '.a[]', data: {a: [1, x]}}", '1\n"x"\n'),
        ("{filter: '.a[]', data: {a: [1, x]}, raw: true}", "1\nx\n"),
        ('{filter: .a, data: \'{"a": {"b": 1}}\'}', '{\n    "b": 1\n}\n'),
        ("{filter: '$n + .a', data: {a: x}, args: {n: '${params.n}'}, raw: true}", "5x\n"),
    ],
)
def test_jq_filters_what_a_step_gives_it(
    options: str, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from duebook.builtin_steps.jq import filter_json

    flow = flow_of(f"params: [n: '5']\nsteps:\n  - {{action: jq.filter, with: {options}}}\n")
    filter_json(rendered(flow).payload)
    assert capsys.readouterr().out == found


def test_jq_as_an_executor_reads_its_script() -> None:
    flow = flow_of("steps:\n  - {executor: jq, command: .a, script: '{\"a\": 1}'}\n")
    assert rendered(flow).payload == {"filter": ".a", "raw": False, "data": '{"a": 1}'}


def test_a_template_is_filled_with_its_data(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from duebook.builtin_steps.template import fill_template
    from duebook.errors import Invalid

    flow = flow_of(
        "params: [n: ann]\nsteps:\n  - action: template.render\n    with:\n"
        "      data: {who: {name: '${params.n}'}, n: 3}\n"
        "      template: |\n        Hello, {{ .who.name | upper }}! {{- /* no */ -}}\n"
        "        ${HOME} {% {{ .n }}\n"
    )
    payload = rendered(flow).payload
    fill_template(payload)
    assert capsys.readouterr().out == "Hello, ANN!${HOME} {% 3\n"
    file = tmp_path / "a" / "b"
    fill_template({**payload, "output": str(file)})
    assert file.read_text() == "Hello, ANN!${HOME} {% 3\n"
    with pytest.raises(Invalid, match=r"names \.n, which data does not have"):
        fill_template({**payload, "data": {"who": {"name": "x"}}})


def test_a_template_that_does_more_is_refused_at_its_line() -> None:
    text = (
        "steps:\n  - action: template.render\n    with:\n      template: |\n"
        "        a\n        {{ range .x }}b{{ end }}\n"
    )
    (problem,) = build(text, "f.yaml", "f").problems
    assert (problem.line, problem.column) == (6, 9)
    assert '"{{ range .x }}" is not supported in a template' in problem.message


def test_a_part_of_a_value_in_single_quotes_is_the_value_as_in_dagu() -> None:
    flow = flow_of("steps: [{name: a, run: a, output: R}, {run: \"echo '${R.a.b} ${R} $HOME'\"}]")
    step = rendered(flow, 1, a='{"a": {"b": "it is"}}')
    assert isinstance(step.target, CommandTarget)
    text = step.target.argv[-1]
    assert text == """echo ''"${R_a_b}"' ${R} $HOME'""".replace("R_a_b", "R__a__b")
    assert dict(step.target.env)["R__a__b"] == "it is"
