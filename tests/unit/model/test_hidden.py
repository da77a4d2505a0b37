"""What a target hides stays hidden, stays in force when it is sent back, and goes nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from duebook.errors import Invalid
from duebook.model.hidden import keep_hidden, load_shown
from duebook.model.target import load_target

HOOK: dict[str, Any] = {
    "http": {
        "method": "POST",
        "url": "https://example.com/hook",
        "headers": {"Accept": "text/csv", "X-Key": "s3cret"},
    }
}
POST: dict[str, Any] = {
    "http": {
        "method": "POST",
        "url": "https://example.com/hook",
        "json": {"user": "ann", "login": [{"password": "s3cret"}]},
    }
}
TELL: dict[str, Any] = {"event": {"topic": "logins", "data": {"user": "ann", "token": "s3cret"}}}
QUERY: dict[str, Any] = {
    "http": {
        "method": "POST",
        "url": "https://example.com/?day=1&token=s3cret",
        "body": "pwd=s3cret",
    }
}
FLOW: dict[str, Any] = {"flow": "etl", "params": {"DB_PASSWORD": "s3cret", "DAY": "monday"}}
DUMP: dict[str, Any] = {"command": ["pg_dump"], "env": {"PGPASSWORD": "s3cret"}}


@pytest.mark.parametrize(
    "form", [HOOK, POST, TELL, DUMP, QUERY, FLOW, {"task": "digest"}, {"shell": "make"}]
)
def test_what_is_shown_is_read_back_as_it_is_shown(form: dict[str, Any]) -> None:
    shown = load_target(form).masked()
    assert load_shown(shown.to_json()) == shown
    assert "s3cret" not in str(shown.to_json())


@pytest.mark.parametrize("form", [HOOK, POST, TELL, DUMP, QUERY, FLOW])
def test_what_is_hidden_stays_as_it_is_when_a_target_is_sent_back(form: dict[str, Any]) -> None:
    current = load_target(form)
    assert load_target(keep_hidden(current.masked().to_json(), current)) == current


def test_a_header_stays_also_under_another_path_and_spelling() -> None:
    sent = {"http": {"url": "https://example.com/other", "headers": {"x-key": "***"}}}
    assert keep_hidden(sent, load_target(HOOK)) == {
        "http": {"url": "https://example.com/other", "headers": {"x-key": "s3cret"}}
    }


@pytest.mark.parametrize(
    "url", ["https://evil.example/hook", "http://example.com/hook", "https://example.com:8443/"]
)
def test_a_header_is_not_sent_elsewhere(url: str) -> None:
    sent = {"http": {"url": url, "headers": {"X-Key": "***"}}}
    assert keep_hidden(sent, load_target(HOOK)) == sent
    with pytest.raises(Invalid, match="a placeholder for a hidden value; give the real value"):
        load_target(sent)


def test_a_secret_of_the_json_is_not_sent_elsewhere() -> None:
    sent = load_target(POST).masked().to_json()
    sent["http"]["url"] = "https://evil.example/hook"
    assert keep_hidden(sent, load_target(POST)) == sent
    with pytest.raises(Invalid, match='json "password" is'):
        load_target(sent)


def test_a_secret_of_the_query_or_of_a_flow_is_not_sent_elsewhere() -> None:
    sent = load_target(QUERY).masked().to_json()
    sent["http"]["url"] = "https://evil.example/?token=***"
    with pytest.raises(Invalid, match="a placeholder for a hidden value; give the real value"):
        load_target(keep_hidden(sent, load_target(QUERY)))
    sent = load_target(FLOW).masked().to_json() | {"flow": "other"}
    with pytest.raises(Invalid, match='params "DB_PASSWORD" is'):
        load_target(keep_hidden(sent, load_target(FLOW)))


def test_a_value_that_is_hidden_and_not_there_is_refused() -> None:
    sent = {"command": ["pg_dump"], "env": {"PGPASSWORD": "***", "OTHER": "***"}}
    kept = keep_hidden(sent, load_target(DUMP))
    with pytest.raises(
        Invalid,
        match='env "OTHER" is \\*\\*\\*, a placeholder for a hidden value; give the real value',
    ):
        load_target(kept)
    with pytest.raises(Invalid, match="a placeholder for a hidden value"):
        load_target(keep_hidden(sent, None))


@pytest.mark.parametrize("form", ["digest", None, 7, {"http": 7}, {"http": {"headers": 7}}])
def test_what_is_no_target_stays_what_it_is(form: object) -> None:
    assert keep_hidden(form, load_target(HOOK)) == form
