"""A POST with an Idempotency-Key is done once, whatever happens to its response."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.support.api import HELLO, Api

if TYPE_CHECKING:
    from duebook.api.app import App

pytestmark = pytest.mark.both_databases

KEY = {"Idempotency-Key": "4711"}


def test_the_same_request_is_done_once_and_answered_alike(api: Api) -> None:
    first = api("POST", "schedules", HELLO, headers=KEY)
    second = api("POST", "schedules", HELLO, headers=KEY)
    assert first.status_code == second.status_code == 201
    assert first.content == second.content
    assert second.headers["location"] == first.headers["location"]
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"


def test_the_same_key_with_another_body_is_refused(api: Api) -> None:
    api.ok("POST", "schedules", HELLO, headers=KEY)
    other = HELLO | {"name": "other"}
    assert api.refused(422, "POST", "schedules", other, headers=KEY)["code"] == "key_reused"


def test_the_same_key_on_another_schedule_or_namespace_is_another_key(api: Api) -> None:
    for place in ({}, {"namespace": "shop"}):
        for name in ("hello", "other"):
            api.ok("POST", "schedules", HELLO | {"name": name}, params=place)
            run = api("POST", f"schedules/{name}/trigger", headers=KEY, params=place)
            assert run.status_code < 300
            assert "idempotency-replayed" not in run.headers
            again = api("POST", f"schedules/{name}/trigger", headers=KEY, params=place)
            assert (again.content, again.headers["idempotency-replayed"]) == (run.content, "true")
        assert len(api.ok("GET", "runs", params=place)["items"]) == 2


def test_what_was_refused_may_be_repeated_when_it_is_right(api: Api) -> None:
    api.refused(404, "POST", "schedules/hello/trigger", headers=KEY)
    api.ok("POST", "schedules", HELLO)
    api.ok("POST", "schedules/hello/trigger", headers=KEY)
    assert len(api.ok("GET", "runs")["items"]) == 1


def test_keys_of_another_token_are_other_keys(api: Api, app: App) -> None:
    api.ok("POST", "schedules", HELLO)
    api.ok("POST", "schedules/hello/trigger", headers=KEY)
    Api(app, "operator").ok("POST", "schedules/hello/trigger", headers=KEY)
    assert len(api.ok("GET", "runs")["items"]) == 2


def test_a_key_that_is_none_is_refused(api: Api) -> None:
    for key in ("", "x" * 256, "two words", "\x01"):
        assert api("POST", "schedules", HELLO, headers={"Idempotency-Key": key}).status_code == 400


def test_where_a_key_would_not_help_it_is_refused(api: Api) -> None:
    api.ok("POST", "schedules", HELLO)
    everything = {"action": "trigger", "filter": {"text": "*"}}
    token = {"name": "ci", "role": "viewer", "namespaces": ["*"]}
    for path, body in (("bulk/actions", everything), ("tokens", token)):
        assert api.refused(400, "POST", path, body, headers=KEY)["code"] == "malformed"
    assert api.ok("GET", "runs")["items"] == api.ok("GET", "tokens")["items"] == []


def test_fifty_at_once_make_one_run(app: App, api: Api) -> None:
    api.ok("POST", "schedules", HELLO)
    found: list[tuple[int, str]] = []

    def ask() -> None:
        answer = Api(app, "admin")("POST", "schedules/hello/trigger", headers=KEY)
        found.append((answer.status_code, answer.json().get("id", "")))

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (run,) = api.ok("GET", "runs")["items"]
    assert set(found) == {(201, run["id"])}
    assert len(found) == 50
