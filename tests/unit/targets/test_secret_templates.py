"""Secrets in templates: where they may stand, and that they get nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from duebook.model.run import Outcome
from duebook.model.secret_values import SecretValues
from duebook.targets.hiding import hidden_outcome, hiding_run
from duebook.targets.templates import (
    TemplateFailed,
    check_templates,
    rendered,
    secret_names,
    with_references,
)
from tests.support.targets import claim_of, spec_of

KEY = "{{ secret.KEY }}"
VALUE = "s3cret-value"


def http(**more: Any) -> dict[str, Any]:
    return {"http": {"url": "https://example.com/", **more}}


def resolved(target: Any, payload: Any = None, **more: Any) -> Any:
    claim = claim_of(target, payload or {}, **more)
    values = SecretValues(dict.fromkeys(secret_names(claim), VALUE))
    return rendered(claim._replace(secret_values=values))


@pytest.mark.parametrize(
    ("target", "payload"),
    [
        ("task", {"deep": [{"key": f"Bearer {KEY}"}]}),
        ({"shell": "true", "env": {"KEY": KEY}}, {"key": KEY}),
        ({"command": ["true", "{{ now }}"], "env": {"KEY": f"a{KEY}b"}}, {}),
        (http(headers={"Authorization": f"Bearer {KEY}"}), {"key": KEY}),
        (http(url=f"https://example.com/{KEY}?a={KEY}", json={"a": [KEY]}), {}),
        (http(body=f"key={KEY}"), {}),
    ],
)
def test_secrets_may_stand_in_payloads_variables_and_requests(target: Any, payload: Any) -> None:
    assert check_templates(spec_of(target, payload)) == {}
    done = resolved(target, payload)
    said = f"{done.spec.target.to_json()} {done.payload}"
    assert VALUE in said
    assert "{{" not in said


@pytest.mark.parametrize(
    ("target", "payload", "field", "told"),
    [
        ({"command": ["echo", KEY]}, {}, "target", r"command\[1\].*cannot stand here"),
        ({"command": [KEY]}, {}, "target", "cannot stand here"),
        ({"shell": f"echo {KEY}"}, {}, "target", "shell cannot name a secret; put it in env"),
        ({"shell": "true", "cwd": KEY}, {}, "target", "cwd cannot name a secret"),
        ({"shell": "true", "env": {"PATH": KEY}}, {}, "target", "decides which programs run"),
        ({"shell": "true", "env": {"A": "{{ secret.A | upper }}"}}, {}, "target", "more than name"),
        ({"shell": "true", "env": {"A": KEY + "{{ user }}"}}, {}, "target", '"user" is unknown'),
        (http(url=f"https://{KEY}/"), {}, "target", "before its path: .* cannot stand here"),
        ({"event": {"topic": "t", "data": KEY}}, {}, "target", "event data: .* cannot stand here"),
        ({"event": {"topic": "t", "key": KEY}}, {}, "target", "event key: .* cannot stand here"),
        ({"event": {"topic": "t"}}, {"key": KEY}, "payload", "which is stored"),
        ({"flow": "f", "params": {"key": KEY}}, {}, "target", "name it in the flow file"),
        ("task", {"a": "{{ secret.KEY | upper }}"}, "payload", "write {{ secret.NAME }} alone"),
        ("task", {"a": "{{ secret['KEY'] }}"}, "payload", "does more than name a secret"),
        ("task", {"a": "{{ secret }}"}, "payload", "does more than name a secret"),
        ("task", {"a": "{{\nsecret.KEY }}"}, "payload", "does more than name a secret"),
        ("task", {"a": "{% for x in secret %}{% endfor %}"}, "payload", "more than name a secret"),
        ("task", {"a": "{{ secret.KEY == 'a' }}"}, "payload", "does more than name a secret"),
    ],
)
def test_secrets_stand_nowhere_else(target: Any, payload: Any, field: str, told: str) -> None:
    problems = check_templates(spec_of(target, payload))
    assert list(problems) == [field]
    with pytest.raises(AssertionError, match=told):
        raise AssertionError(problems[field])


def test_other_variables_are_no_templates() -> None:
    env = {"FORMAT": "{{.Names}}", "KEY": KEY}
    assert check_templates(spec_of({"shell": "true", "env": env}, {})) == {}
    assert dict(resolved({"shell": "true", "env": env}).spec.target.env) == env | {"KEY": VALUE}


def test_the_payload_of_one_run_is_data() -> None:
    claim = claim_of("task", {"key": KEY}, given={"key": "{{ secret.OTHER }}"})
    assert secret_names(claim) == set()
    assert rendered(claim).payload == {"key": "{{ secret.OTHER }}"}


@pytest.mark.parametrize("tag", ["{{ payload.key }}", "{{ payload.key | upper }}", "{{ payload }}"])
def test_a_payload_brings_no_secret_into_arguments(tag: str) -> None:
    with pytest.raises(TemplateFailed, match=r"command\[2\] would contain a secret") as caught:
        resolved({"command": ["echo", "{{ payload.day }}", tag]}, {"key": KEY, "day": "1"})
    assert VALUE not in str(caught.value)
    done = resolved({"command": ["echo", "{{ payload.day }}"]}, {"key": KEY, "day": "1"})
    assert done.spec.target.argv == ("echo", "1")


def test_people_see_references() -> None:
    claim = with_references(claim_of(http(headers={"X-Key": KEY}), {"api_key": KEY, "b": "x"}))
    done = rendered(claim)
    assert done.spec.target.masked().to_json()["http"]["headers"] == {"X-Key": KEY}
    assert done.payload == {"api_key": KEY, "b": "x"}
    shown = spec_of({"shell": "true", "env": {"A": KEY, "B": "x"}}, {}).target.masked()
    assert shown.to_json()["env"] == {"A": KEY, "B": "***"}


def test_nothing_that_an_attempt_leaves_behind_has_the_value() -> None:
    claim = claim_of("task", {})._replace(secret_values=SecretValues({"KEY": VALUE}))
    outcome = Outcome(
        "failed", "error", f"no {VALUE[:8]}", output=f'["{VALUE}"]', output_ref=f"s3://{VALUE}"
    )
    done = hidden_outcome(claim, outcome)
    assert (done.error, done.output, done.output_ref) == ("no ***", '["***"]', "s3://***")
    assert done.output_secrets == ()
    assert hiding_run(claim)(f"with {VALUE}") == "with ***"
