"""Templates in definitions: checked in every field, rendered with the values of a run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from duebook.errors import Invalid
from duebook.model.fields import MOST_NESTED
from duebook.model.run import Interval
from duebook.targets.templates import TemplateFailed, check_templates, rendered
from tests.support.targets import AT, NOW, claim_of, spec_of


def argv(*words: str, **more: Any) -> list[str]:
    target = rendered(claim_of({"command": ["echo", *words]}, **more)).spec.target
    return target.to_json()["command"][1:]  # type: ignore[no-any-return]


def test_templates_name_the_schedule_the_run_and_the_times() -> None:
    said = argv(
        "{{ schedule.id }} {{ schedule.name }} {{ schedule.tz }} {{ schedule.due_at }}",
        "{{ due_at }} {{ now }}",
        "{{ namespace }} {{ user }}",
        "{{ run.id }} {{ run.origin }} {{ run.trigger }}",
    )
    assert said == [
        "schedule-1 digest Europe/Brussels 2026-03-29T00:30:00Z",
        "2026-03-29T00:30:00Z 2026-03-29T00:35:00Z",
        "team ann",
        "run-1 schedule schedule:0 9 * * *",
    ]


def test_a_template_names_the_interval_of_its_run_and_who_asked_for_it() -> None:
    command = ["echo", "{{ interval.start | time }}/{{ interval.end }}", "{{ requested_by }}"]
    claim = claim_of({"command": command})
    with pytest.raises(TemplateFailed, match="null; use default"):
        rendered(claim)
    run = claim.run._replace(interval=Interval(AT - timedelta(days=1), AT), requested_by="token:ci")
    target = rendered(claim._replace(run=run)).spec.target
    assert target.to_json() == {"command": ["echo", "2026-03-28/2026-03-29T00:30:00Z", "token:ci"]}


@pytest.mark.parametrize("text", ["$(id)", "a b; c", "'\"", "a\nb", "-o", "", "{{ user }}", "{%"])
def test_one_template_stays_one_argument_whatever_its_value(text: str) -> None:
    assert argv("--", "{{ payload.a }}", "z", given={"a": text}) == ["--", text, "z"]


def test_a_program_cannot_be_given_a_nul() -> None:
    with pytest.raises(TemplateFailed, match=r"command\[1\]: the result contains NUL"):
        argv("{{ payload.a }}", given={"a": "x\0"})


def test_shell_text_and_variables_are_no_templates() -> None:
    target = {"shell": "echo {{ payload.a }} {%", "env": {"A": "{{ user }}"}}
    claim = claim_of(target)
    assert check_templates(claim.spec) == {}
    assert rendered(claim) is claim


def test_the_payload_of_a_schedule_has_templates_and_feeds_others() -> None:
    payload = {"day": "{{ due_at | time('%d') }}", "deep": [{"n": "{{ schedule }}"}], "k{{": 1}
    claim = rendered(claim_of({"command": ["echo", "{{ payload.day }}"]}, payload))
    assert claim.spec.target.to_json() == {"command": ["echo", "29"]}
    assert claim.spec.payload["day"] == "29"
    assert claim.spec.payload["deep"][0]["n"]["name"] == "digest"
    assert claim.spec.payload["k{{"] == 1


def test_templates_are_filled_in_as_deep_as_values_may_be_nested() -> None:
    body: Any = "{{ user }}"
    for _ in range(MOST_NESTED):
        body = {"a": body}
    target = {"http": {"url": "https://example.com", "json": body}}
    assert check_templates(spec_of(target)) == {}
    with pytest.raises(Invalid, match="nested more than 100 levels deep"):
        spec_of({"http": {"url": "https://example.com", "json": {"a": body}}})


def test_the_payload_of_a_run_is_data() -> None:
    claim = claim_of({"command": ["echo", "{{ payload.a }}"]}, given={"a": "{{ user }} {{"})
    assert rendered(claim).spec.target.to_json() == {"command": ["echo", "{{ user }} {{"]}
    assert rendered(claim).run.payload == {"a": "{{ user }} {{"}


def test_every_part_of_a_request_is_rendered() -> None:
    http = {
        "url": "https://{{ namespace }}.test/{{ payload.id | urlencode }}?u={{ user }}",
        "headers": {"X-Day": "{{ due_at | time }}"},
        "json": {"all": "{{ payload }}", "text": "n={{ payload.id }}", "plain": [1, None]},
    }
    claim = claim_of({"http": http}, {"id": "a/b"})
    assert check_templates(claim.spec) == {}
    assert rendered(claim).spec.target.to_json()["http"] == {
        "method": "POST",
        "url": "https://team.test/a%2Fb?u=ann",
        "headers": {"X-Day": "2026-03-29"},
        "json": {"all": {"id": "a/b"}, "text": "n=a/b", "plain": [1, None]},
    }
    body = {"http": {"url": "https://a.test", "body": "{{ run.id }}"}}
    assert rendered(claim_of(body)).spec.target.to_json()["http"]["body"] == "run-1"


def test_attempts_of_a_run_get_the_same_but_for_now() -> None:
    target = {"command": ["echo", "{{ schedule }}{{ run }}{{ due_at }}{{ payload }}{{ user }}"]}
    first = claim_of(target, {"a": 1})
    later = NOW + timedelta(hours=1)
    second = first._replace(run=first.run._replace(attempt=2, failures=1, started_at=later))
    assert rendered(first).spec == rendered(second).spec


@pytest.mark.parametrize(
    ("target", "payload", "field", "complaint"),
    [
        ({"command": ["a", "{{ x }}"]}, {}, "target", 'command[1]: "x" is unknown; use one of'),
        ({"command": ["{{ user }}"]}, {}, "target", "the program must be fixed"),
        ({"command": ["a"]}, {"b": ["{{"]}, "payload", "payload.b[0]: "),
        ({"command": ["a"]}, {"b": "{{ payload.c }}"}, "payload", '"payload" is unknown'),
        ({"http": "https://a.test/{{ x }}"}, {}, "target", 'http url: "x" is unknown'),
        (
            {"http": "https://{{ payload.host }}/"},
            {},
            "target",
            'http url, before its path: "payload" is unknown',
        ),
        ({"http": "https://a.test{{ payload.path }}"}, {}, "target", "before its path"),
        ({"http": "https://a.test:{{ payload.port }}"}, {}, "target", "before its path"),
        (
            {"http": 'https://a.test{{ "}}/" if 0 else payload.x }}'},
            {},
            "target",
            "before its path",
        ),
        (
            {"http": {"url": "https://a.test", "headers": {"X-A": "{{ x }}"}}},
            {},
            "target",
            'http header "X-A": ',
        ),
        (
            {"http": {"url": "https://a.test", "json": {"a": [{"b": "{{ x }}"}]}}},
            {},
            "target",
            "http json.a[0].b: ",
        ),
        ({"http": {"url": "https://a.test", "body": "{{"}}, {}, "target", "http body: "),
    ],
)
def test_a_definition_is_checked_in_every_field(
    target: Any, payload: dict[str, Any], field: str, complaint: str
) -> None:
    problems = check_templates(spec_of(target, payload))
    assert list(problems) == [field]
    assert complaint in problems[field]


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "é", "\x7f"])
def test_a_value_cannot_add_a_header(value: str) -> None:
    http = {"url": "https://a.test", "headers": {"X-A": "{{ payload.a }}"}}
    with pytest.raises(TemplateFailed, match='http header "X-A": the result is not one line'):
        rendered(claim_of({"http": http}, given={"a": value}))


def test_a_failure_names_its_field() -> None:
    with pytest.raises(TemplateFailed, match=r'^command\[2\]: "payload.b" is undefined'):
        argv("{{ payload.a }}", "{{ payload.b }}", given={"a": 1})
