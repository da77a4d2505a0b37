"""Known HTTP attacks on schedulers and dashboards, with a test for each.

Routes without credentials, foreign namespaces and viewers who write are in test_matrix.py, binding
beyond loopback is in tests/integration/test_web.py.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api.app import create_app
from duebook.api.authenticator import BookAuthenticator
from duebook.book import Book
from duebook.book.tokens import Tokens
from duebook.store.sqlite import SqliteStore
from tests.support.api import BASE, HELLO, Api, shared_app
from tests.support.builders import begin

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.api.app import App
    from duebook.store.base import Store

COMMAND = {"command": ["id"]}
FORBIDDEN_TARGETS = [
    COMMAND,
    {"shell": "id"},
    {"http": {"url": "http://169.254.169.254/latest"}},
    {"event": {"topic": "orders.paid"}},
    {"task": "known_to_nobody"},
]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:7420"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
    ],
)
def test_a_foreign_host_or_origin_is_refused_by_all_but_probes(
    api: Api, headers: dict[str, str]
) -> None:
    api.ok("POST", "schedules", HELLO)
    for method, path in (
        ("GET", "/login"),
        ("GET", "schedules"),
        ("DELETE", "schedules/hello"),
        ("POST", "schedules/hello/trigger"),
    ):
        assert api(method, path, headers=headers).status_code == 403, (method, path)
    assert api.ok("GET", "runs")["items"] == []
    api.ok("GET", "schedules/hello")


def test_a_form_of_another_site_does_nothing(app: App) -> None:
    browser = Api(app, None).client
    browser.cookies.set("duebook_session", "admin")
    text = '{"name": "x", "cron": "@daily", "target": "x", "a": "='
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        for origin in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
            sent = browser.post(
                "/api/v1/schedules", content=text, headers={"Content-Type": kind} | origin
            )
            assert sent.status_code == 403
        own = {"Content-Type": kind, "Origin": BASE}
        assert browser.post("/api/v1/schedules", content=text, headers=own).status_code == 415
    assert browser.delete("/api/v1/schedules/x").status_code == 403


def test_other_sites_are_told_nothing_by_cors(api: Api) -> None:
    preflight = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "DELETE",
    }
    answer = api("OPTIONS", "schedules/hello", headers=preflight)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_site_that_is_allowed_uses_tokens_and_others_still_do_not(store: Store) -> None:
    from duebook.api.origins import Hosts
    from tests.support.api import FixedTokens

    hosts = Hosts(origins=frozenset({"https://board.example"}))
    api = Api(create_app(store, FixedTokens(), hosts=hosts), "viewer")
    answer = api("GET", "me", headers={"Origin": "https://board.example"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://board.example"
    assert "access-control-allow-credentials" not in answer.headers
    assert api("GET", "me", headers={"Origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fetc%2fpasswd",
        "%2fetc%2fpasswd",
        "hello%00",
        "hello%0a",
        "..",
        "%2e%2e",
        "hello%2f..%2fhello",
        "hello;x",
        "x" * 5000,
        "%ff%fe",
        "' OR 1=1 --",
        "hello%27;DROP TABLE runs",
        "HELLO",
    ],
)
def test_names_and_ids_that_are_none_lead_nowhere(api: Api, name: str) -> None:
    api.ok("POST", "schedules", HELLO)
    for place in ("schedules/{}", "runs/{}", "runs/{}/log", "schedules/{}/ledger", "templates/{}"):
        assert api("GET", place.format(name)).status_code in (404, 405), place
    assert api("DELETE", f"schedules/{name}").status_code in (404, 405)
    assert api("DELETE", f"tokens/{name}").status_code in (404, 405, 422)
    api.ok("GET", "schedules/hello")


@pytest.mark.both_databases
@pytest.mark.parametrize("text", ["' OR '1'='1", "x'; DROP TABLE runs; --", "%", "_", "\\", "\x00"])
def test_sql_in_filters_and_cursors_has_no_effect(api: Api, text: str) -> None:
    api.ok("POST", "schedules", HELLO)
    for place, name in (
        ("schedules", "cursor"),
        ("schedules", "sort"),
        ("schedules", "text"),
        ("schedules", "label"),
        ("schedules", "limit"),
        ("schedules", "namespace"),
        ("runs", "schedule"),
        ("runs", "cursor"),
        ("runs", "status"),
        ("audit", "by"),
        ("audit", "subject"),
        ("audit", "cursor"),
    ):
        answer = api("GET", place, params={name: text})
        assert answer.status_code in (200, 400, 404, 422), answer.text
        if answer.status_code == 200:
            assert answer.json()["items"] == [], (place, name)
    assert len(api.ok("GET", "schedules")["items"]) == 1


@pytest.mark.parametrize("target", FORBIDDEN_TARGETS)
def test_who_may_write_schedules_may_not_define_what_runs(
    api: Api, app: App, store: Store, target: dict[str, Any]
) -> None:
    begin(store)
    store.transact(lambda tx: tx.nodes.tell_tasks("node-1", ["digest"]))
    operator = Api(app, "operator")
    operator.ok("POST", "schedules", HELLO | {"target": "digest"})
    whole = {"cron": "@daily", "target": target, "version": 1}
    for method, path, body in (
        ("POST", "schedules", HELLO | {"name": "other", "target": target}),
        ("POST", "bulk/schedules", {"schedules": [HELLO | {"name": "x", "target": target}]}),
        ("PATCH", "schedules/hello", {"target": target}),
        ("PUT", "schedules/hello", whole),
        ("PUT", "templates/nightly", {"target": target}),
    ):
        assert operator.refused(403, method, path, body)["code"] == "forbidden"
    assert operator.ok("GET", "schedules/hello")["target"] == {"task": "digest"}
    api.ok("PATCH", "schedules/hello", {"target": COMMAND})
    kept = operator.ok("PATCH", "schedules/hello", {"target": COMMAND, "timeout": "1h"})
    assert kept["target"] == COMMAND


SECRETS = {
    "shell": {"shell": "true", "env": {"API_KEY": "s3cret"}},
    "http": {"http": {"url": "https://example.com", "headers": {"Authorization": "s3cret"}}},
}


@pytest.mark.parametrize("target", SECRETS.values(), ids=SECRETS)
def test_secrets_of_targets_are_shown_nowhere(api: Api, target: dict[str, Any]) -> None:
    made = api("POST", "schedules", HELLO | {"target": target})
    assert made.status_code == 201
    assert "s3cret" not in made.text
    api.ok("PUT", "templates/nightly", {"target": target})
    api.ok("PATCH", "schedules/hello", {"timeout": "1h"})
    run = api.ok("POST", "schedules/hello/trigger")
    for path in (
        "schedules",
        "schedules/hello",
        "schedules/hello/revisions",
        "schedules/hello/runs",
        f"runs/{run['id']}",
        "templates",
        "templates/nightly",
        "audit",
        "audit?everywhere=true",
    ):
        assert "s3cret" not in str(api.ok("GET", path)), path
    assert "s3cret" not in str(api.ok("POST", "schedules/hello/render"))


def test_secrets_of_payloads_are_shown_nowhere_and_stay(api: Api, store: Store) -> None:
    secret = {"db": [{"password": "s3cretword"}], "api_key": "s3cretword"}
    target = {"command": ["login", "{{ payload.api_key }}"]}
    made = api("POST", "schedules", HELLO | {"target": target, "payload": secret})
    assert made.status_code == 201
    shown = made.json()["payload"]
    assert shown == {"db": [{"password": "***"}], "api_key": "***"}
    api.ok("PUT", "templates/nightly", {"payload": secret})
    api.ok("PATCH", "schedules/hello", {"payload": secret | {"day": "mon"}})
    api.ok("PATCH", "schedules/hello", {"payload": shown | {"day": "tue"}})
    kept = Book(store).schedules.get("hello").spec
    assert kept is not None
    assert kept.payload == secret | {"day": "tue"}
    run = api("POST", "schedules/hello/trigger", {"payload": secret})
    assert "s3cret" not in run.text
    for path in (
        "schedules",
        "schedules/hello/revisions",
        "schedules/hello/runs",
        f"runs/{run.json()['id']}",
        "templates/nightly",
        "audit",
    ):
        assert "s3cret" not in str(api.ok("GET", path)), path
    assert api.ok("POST", "schedules/hello/render")["target"] == {"command": ["login", "***"]}
    for body in ({"payload": shown}, {"payload": {"token": "***"}}):
        api.refused(422, "POST", "schedules/hello/trigger", body)
    api.refused(422, "POST", "schedules", HELLO | {"name": "copy", "payload": shown})


def test_markup_and_escapes_stay_text(api: Api) -> None:
    nasty = "<img src=x onerror=alert(1)>\x1b[31m javascript:alert(1)"
    api.ok("POST", "schedules", HELLO | {"description": nasty, "labels": {"x": nasty}})
    answer = api("GET", "schedules/hello")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.json()["description"] == nasty
    problem = api("GET", "schedules/%3Cimg%20onerror=x%3E")
    assert problem.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "change",
    [
        {"cron": "*" * 1_000_000},
        {"cron": "*/0 * * * *"},
        {"cron": "0 0 30 2 *"},
        {"cron": "0-59/1," * 200_000 + "0 * * * *"},
        {"trigger": {"rrule": "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"}, "cron": None},
        {"payload": {"x": "y" * 2_000_000}},
        {"labels": {str(number): "x" for number in range(100_000)}},
        {"exclude": ["2026-01-01"] * 100_000},
    ],
    ids=lambda change: str(change)[:40],
)
def test_what_would_take_long_is_refused_quickly(api: Api, change: dict[str, Any]) -> None:
    began = time.process_time()
    api.refused(422, "POST", "schedules", HELLO | change)
    assert time.process_time() - began < 2


def test_a_catch_up_since_1970_is_capped(api: Api) -> None:
    body = {"start_at": "1970-01-01T00:00:00Z", "catchup": "all", "catchup_limit": 50_000}
    began = time.process_time()
    api.ok("POST", "schedules", HELLO | body | {"cron": "* * * * * *"})
    span = {"start": "1970-01-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"}
    api.refused(422, "POST", "schedules/hello/backfill", span)
    assert time.process_time() - began < 5


def test_ten_thousand_schedules_of_every_second_meet_a_quota(api: Api) -> None:
    api.ok("PUT", "namespaces/default", {"fires_per_minute": 130})
    every_second = HELLO | {"cron": "* * * * * *"}
    for number in range(2):
        api.ok("POST", "schedules", every_second | {"name": f"job-{number}"})
    problem = api.refused(409, "POST", "schedules", every_second | {"name": "one-more"})
    assert problem["code"] == "quota"


def test_a_body_without_end_is_not_read(store: Store) -> None:
    from tests.support.api import FixedTokens

    api = Api(create_app(store, FixedTokens(), max_body=1000), "admin")

    def pieces() -> Any:
        for _ in range(100):
            yield b" " * 100

    headers = {"Content-Type": "application/json"}
    answer = api.client.post("/api/v1/schedules", content=pieces(), headers=headers)
    assert answer.status_code == 413
    assert answer.json()["code"] == "too_large"


def test_a_token_is_nowhere_on_disk(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "books.db")
    api = Api(
        shared_app.on(store, BookAuthenticator(store)), Tokens(store).create("a", "admin", "*")[1]
    )
    body = {"name": "ci", "role": "viewer", "namespaces": ["*"]}
    made = api.ok("POST", "tokens", body)
    secret = made["token"].split("_", 2)[2].encode()
    store.close()
    for file in tmp_path.iterdir():
        assert secret not in file.read_bytes(), file


@pytest.mark.parametrize("token", ["", "dbk_", "admin ", "é", "x" * 5000, "dbk_local_" + "a" * 43])
def test_tokens_that_are_none_open_nothing(store: Store, token: str) -> None:
    api = Api(shared_app.on(store, BookAuthenticator(store)), None)
    headers = {"Authorization": f"Bearer {token}".encode()}
    assert api("GET", "me", headers=headers).status_code == 401
    assert (
        api("GET", "me", headers={"Cookie": b"duebook_session=" + token.encode()}).status_code
        == 401
    )


@pytest.mark.parametrize("signature", ["é", "ÿ" * 64, "😀", ""])
def test_a_session_with_a_signature_that_is_none_is_401(store: Store, signature: str) -> None:
    local = f"dbk_local_{'a' * 43}"
    api = Api(shared_app.on(store, BookAuthenticator(store, lambda: local)), None)
    cookie = f'duebook_session="local.99999999999.x.{signature}"'
    assert api("GET", "me", headers={"Cookie": cookie.encode()}).status_code == 401
    assert api("GET", "/healthz", headers={"Cookie": cookie.encode()}).status_code == 200


@pytest.mark.parametrize("form", ["&".join("abcdefghijkl"), "a=1;" * 10_000, "%ff=%00", "token=é"])
def test_forms_that_are_none_of_ours_log_nobody_in(app: App, form: str) -> None:
    browser = Api(app, None).client
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = browser.post("/login", content=form.encode(), headers=headers)
    assert answer.status_code in (400, 401)
    assert "set-cookie" not in answer.headers
