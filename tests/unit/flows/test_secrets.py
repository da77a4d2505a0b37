"""Secrets in flow files: what may name them, and what a step must not do with them."""

from __future__ import annotations

import pytest

from duebook.flows.build import build
from duebook.flows.dry_run import dry_run
from duebook.flows.render import Rendered, Values, flow_secrets, render_step, step_secrets
from duebook.model.target import CommandTarget, HttpTarget
from duebook.targets.templates import TemplateFailed
from tests.support.builders import BEGIN

KEY = "{{ secret.KEY }}"
VALUE = "s3cret-value"
FACTS = {"run": {"id": "r1"}, "due_at": "2026-02-07T12:00:00Z"}
HEAD = f"""
params: [DAY: today, LOGIN: "{KEY}"]
env: [{{API_KEY: "{KEY}"}}]
"""


def rendered(steps: str, **values: str) -> Rendered:
    built = build(HEAD + steps, "f.yaml", "f")
    assert built.problems == ()
    (flow,) = built.flows
    step = flow.steps[-1]
    secrets = dict.fromkeys(step_secrets(flow, step, values), VALUE)
    return render_step(flow, step, Values(values, facts=FACTS, secrets=secrets), {"PATH": "/bin"})


def test_steps_get_secrets_in_variables_payloads_and_requests() -> None:
    made = rendered("steps: [{run: 'curl -H \"$API_KEY\" x', env: [{OWN: 'a ${API_KEY}'}]}]")
    assert isinstance(made.target, CommandTarget)
    expected = {"API_KEY": VALUE, "LOGIN": VALUE, "OWN": f"a {VALUE}", "DAY": "today"}
    assert expected.items() <= dict(made.variables).items()
    assert VALUE not in str(made.target.argv)
    asked = rendered(
        f"steps: [{{http: {{url: 'https://a.example/{KEY}', headers: {{X: '${{LOGIN}}'}}}}}}]"
    )
    assert isinstance(asked.target, HttpTarget)
    assert (asked.target.url, asked.target.headers) == (
        f"https://a.example/{VALUE}",
        (("X", VALUE),),
    )
    assert rendered(f"steps: [{{task: t, payload: {{key: '{KEY}'}}}}]").payload == {"key": VALUE}


def test_a_param_that_is_given_needs_no_secret_and_stays_data() -> None:
    made = rendered("steps: [{run: 'echo $LOGIN'}]", LOGIN="{{ secret.OTHER }}")
    assert dict(made.variables)["LOGIN"] == "{{ secret.OTHER }}"


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (f"{{run: 'echo {KEY}'}}", "cannot stand here"),
        (f"{{command: [echo, '{KEY}']}}", "cannot stand here"),
        (f"{{script: 'print({KEY})', command: python3}}", "put it in env under a name"),
        (f"{{run: x, working_dir: '{KEY}'}}", "cannot stand here"),
        (f"{{run: x, preconditions: [{{condition: '{KEY}', expected: a}}]}}", "cannot stand here"),
        (f"{{run: x, preconditions: [{{condition: $DAY, expected: '{KEY}'}}]}}", "cannot stand"),
        (f"{{run: x, env: [{{PATH: '{KEY}'}}]}}", "cannot stand here"),
        (f"{{event: {{topic: a, data: '{KEY}'}}}}", "cannot stand here"),
        (f"{{call: other, params: {{A: '{KEY}'}}}}", "cannot stand here"),
        (f"{{http: {{url: 'https://{KEY}/'}}}}", "names a secret; write the host literally"),
        ("{task: t, payload: {a: '{{ secret.KEY | upper }}'}}", "write {{ secret.NAME }} alone"),
    ],
)
def test_a_file_that_names_a_secret_elsewhere_is_refused(step: str, told: str) -> None:
    (problem,) = build(f"{HEAD}steps: [{step}]", "f.yaml", "f").problems
    assert told in f"{problem.message}; {problem.hint}"
    assert problem.line > 3


def test_a_param_by_its_place_is_an_argument_and_no_secret() -> None:
    text = f"""params: ["'{KEY}'"]\nsteps: [x]"""
    (problem,) = build(text, "f.yaml", "f").problems
    assert "cannot stand here" in problem.message


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("{command: [echo, '${API_KEY}']}", r"command\[1\] would contain a secret"),
        ("{command: [echo, '{{ params.LOGIN | upper }}']}", "would contain a secret"),
        ("{run: x, preconditions: [{condition: '$API_KEY', expected: a}]}", "a condition would"),
        ("{event: {topic: a, data: '{{ params.LOGIN | lower }}'}}", "event would contain a secret"),
        ("{call: other, params: {A: '${API_KEY}'}}", "params of a called flow would contain"),
        ("{run: x, env: [{LD_PRELOAD: '${API_KEY}'}]}", "decides which programs run would contain"),
    ],
)
def test_no_variable_brings_a_secret_where_others_see_it(step: str, told: str) -> None:
    with pytest.raises(TemplateFailed, match=told) as caught:
        rendered(f"steps: [{step}]")
    assert VALUE not in str(caught.value)


def test_a_dry_run_shows_references() -> None:
    steps = "steps: [{run: 'echo $API_KEY', env: [{OWN: 'a ${API_KEY}'}]}, {call: other}]"
    (flow,) = build(HEAD + steps, "f.yaml", "f").flows
    assert flow_secrets(flow) == {"KEY"}
    first, _ = dry_run(flow, {}, BEGIN, "r1", "ann")
    assert dict(first.variables)["OWN"] in (f"a {KEY}", "a ***")
    assert dict(first.variables)["LOGIN"] == KEY
