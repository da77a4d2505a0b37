"""Requests as values: their JSON form, what is refused, and what may be shown."""

from __future__ import annotations

from typing import Any

import pytest

from duebook.errors import Invalid
from duebook.model.http_target import HttpTarget
from duebook.model.target import load_target


def load(**http: Any) -> HttpTarget:
    target = load_target({"http": http})
    assert isinstance(target, HttpTarget)
    return target


@pytest.mark.parametrize(
    "http",
    [
        {"url": "https://example.com/a?b=c#d"},
        {"url": "http://[2001:db8::1]:8080", "method": "DELETE"},
        {"url": "https://{{ namespace }}.example.com/{{ payload.a }}", "json": {"a": [1, None]}},
        {"url": "https://example.com", "body": "", "headers": {"X-A": "b", "accept": ""}},
        {"url": "https://example.com", "expect": [204, "3xx"], "json": "{{ payload }}"},
    ],
)
def test_the_json_form_is_read_back(http: dict[str, Any]) -> None:
    target = load(**http)
    assert load_target(target.to_json()) == target
    assert http.items() <= target.to_json()["http"].items()


def test_a_url_alone_is_a_request_and_a_body_makes_it_a_post() -> None:
    assert load_target({"http": "https://example.com"}) == HttpTarget("https://example.com")
    assert load(url="https://example.com").method == "GET"
    assert load(url="https://example.com", body="").method == "POST"
    assert load(url="https://example.com", json=[], method="put").method == "PUT"


@pytest.mark.parametrize(
    ("http", "complaint"),
    [
        ({}, "url None is not a string"),
        ({"url": "ftp://example.com"}, "does not start like https://example.com"),
        ({"url": "https:///path"}, "does not start like https://example.com"),
        ({"url": "{{ payload.url }}"}, "does not start like https://example.com"),
        ({"url": "https://me:secret@example.com"}, "use an Authorization header"),
        ({"url": "https://example.com:99999"}, "does not have a valid host and port"),
        ({"url": "https://exa mple.com"}, "does not have a valid host and port"),
        ({"url": "https://example.com/\n"}, "is not a string"),
        ({"url": "https://example.com/" + "x" * 8_000}, "is not a string of up to 8,000"),
        ({"method": "TRACE"}, 'method "TRACE" is not one of GET, HEAD'),
        ({"methd": "GET"}, 'key "methd" is unknown; use one of url, method'),
        ({"headers": ["a"]}, "is not an object of up to 100 strings"),
        ({"headers": {"a b": "c"}}, '"a b" is not a valid header name'),
        ({"headers": {"a": "b\r\nc: d"}}, '"a" is not one line'),
        ({"headers": {"a": 5}}, '"a" is not one line'),
        ({"headers": {"A": "1", "a": "2"}}, '"a" is given twice'),
        ({"headers": {"idempotency-key": "1"}}, "is set by Duebook"),
        ({"headers": {"Duebook-Attempt": "1"}}, "is set by Duebook"),
        ({"headers": {"Host": "localhost"}}, "is set by Duebook"),
        (
            {"headers": {"Authorization": "***"}},
            "a placeholder for a hidden value; give the real value",
        ),
        ({"json": {}, "body": ""}, 'both "json" and "body"'),
        ({"json": {"a": float("nan")}}, "json is not valid JSON"),
        ({"json": {"a": "\0"}}, "json contains a NUL"),
        ({"body": 5}, "body 5 is not a string"),
        ({"expect": 99}, "expect 99 is not a status such as 204 or 2xx"),
        ({"expect": "20x"}, 'expect "20x" is not a status'),
        ({"expect": []}, "expect is empty"),
    ],
)
def test_a_mistake_is_named(http: dict[str, Any], complaint: str) -> None:
    form = {"url": "https://example.com", **http} if http else http
    with pytest.raises(Invalid) as caught:
        load(**form)
    assert complaint in str(caught.value)
    assert "secret" not in str(caught.value)


def test_only_one_thing_is_executed() -> None:
    for form in ({"http": "https://example.com", "env": {}}, {"http": "https://a.b", "task": "c"}):
        with pytest.raises(Invalid, match="target"):
            load_target(form)


def test_values_of_headers_are_hidden_unless_they_are_known_to_be_harmless() -> None:
    headers = {"Authorization": "Bearer x", "X-Env": "prod", "Content-Type": "text/csv"}
    target = load(url="https://example.com/a?token=x", headers=headers)
    assert dict(target.masked().headers) == {
        "Authorization": "***",
        "X-Env": "***",
        "Content-Type": "text/csv",
    }
    assert str(target) == "GET https://example.com/a?…"


@pytest.mark.parametrize(
    ("expect", "status", "right"),
    [(None, 299, True), (None, 300, False), ([404], 404, True), (["4xx"], 200, False)],
)
def test_expect_names_statuses_and_classes(expect: Any, status: int, right: bool) -> None:
    assert load(url="https://example.com", expect=expect).accepts(status) == right
