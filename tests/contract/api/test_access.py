"""Tokens, namespaces, quotas and the audit over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.api.authenticator import BookAuthenticator
from tests.support.api import HELLO, Api, shared_app
from tests.support.builders import begin

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.store.base import Store

LOCAL = f"dbk_local_{'a' * 43}"


@pytest.fixture
def app(store: Store) -> App:
    """An app that checks the tokens in the database."""
    return shared_app.on(store, BookAuthenticator(store, lambda: LOCAL))


@pytest.fixture
def api(app: App) -> Api:
    return Api(app, LOCAL)


def test_a_token_is_shown_once_and_opens_its_namespaces_until_it_is_revoked(
    api: Api, app: App
) -> None:
    made = api.ok("POST", "tokens", {"name": "ci", "role": "operator", "namespaces": ["shop"]})
    secret = made.pop("token")
    (known,) = api.ok("GET", "tokens")["items"]
    assert known == made
    assert secret.split("_", 2)[2] not in str(known)
    ci = Api(app, secret)
    assert ci.ok("GET", "me") == {"name": "ci", "role": "operator", "namespaces": ["shop"]}
    ci.refused(404, "GET", "schedules", params={"namespace": "default"})
    ci.refused(403, "GET", "tokens")
    assert api.ok("DELETE", "tokens/ci")["revoked_at"]
    ci.refused(401, "GET", "me")
    api.refused(409, "DELETE", f"tokens/{made['id']}")
    api.refused(404, "DELETE", "tokens/nobody")


def test_every_wrong_field_of_a_token_is_named(api: Api) -> None:
    body = {"name": "CI", "role": "root", "expires_at": "soon", "secret": "mine"}
    problem = api.refused(422, "POST", "tokens", body)
    named = {error["field"] for error in problem["errors"]}
    assert named == {"name", "role", "namespaces", "expires_at", "secret"}


def test_the_audit_says_who_changed_what(api: Api) -> None:
    api.ok("POST", "schedules", HELLO | {"target": {"shell": "x", "env": {"KEY": "s3cret"}}})
    api.ok("PATCH", "schedules/hello", {"timeout": "1h"})
    api.ok("PUT", "schedules/hello", {"cron": "@daily", "target": "job", "version": 2})
    api.ok("POST", "schedules/hello/pause", {"reason": "moving"})
    page = api.ok("GET", "audit", params={"limit": 3})
    assert [change["action"] for change in page["items"]] == ["pause", "update", "update"]
    assert page["items"][2]["after"] == {"timeout": "1h"}
    assert {change["by"] for change in page["items"]} == {"token:local"}
    rest = api.ok("GET", "audit", params={"cursor": page["next_cursor"], "limit": 3})
    assert [change["action"] for change in rest["items"]] == ["create"]
    assert "s3cret" not in str(rest)
    bad = api.refused(400, "GET", "audit", params={"cursor": page["next_cursor"], "by": "x"})
    assert bad["code"] == "bad_cursor"
    assert api.refused(400, "GET", "audit", params={"cursor": "'; DROP TABLE runs"})
    api.refused(422, "GET", "audit", params={"since": "yesterday"})


def test_what_all_share_is_audited_for_those_who_see_all(api: Api, app: App) -> None:
    made = api.ok("POST", "tokens", {"name": "ci", "role": "admin", "namespaces": ["shop"]})
    api.ok("PUT", "queues/mail", {"rate": "10/s"})
    found = api.ok("GET", "audit", params={"everywhere": True})["items"]
    assert {(change["kind"], change["action"]) for change in found} == {
        ("token", "create"),
        ("queue", "limit"),
    }
    ci = Api(app, made["token"])
    ci.refused(403, "GET", "audit", params={"everywhere": True})
    assert ci.ok("GET", "audit")["items"] == []


def test_a_quota_is_kept(api: Api, app: App) -> None:
    quota = {"schedules": 1, "payload_bytes": 20}
    limited = api.ok("PUT", "namespaces/default", quota)
    assert {k: v for k, v in limited["quota"].items() if v is not None} == quota
    api.ok("POST", "schedules", HELLO)
    problem = api.refused(409, "POST", "schedules", HELLO | {"name": "second"})
    assert problem["code"] == "quota"
    (use,) = api.ok("GET", "namespaces")["items"]
    assert use["used"]["schedules"] == 1
    made = api.ok("POST", "tokens", {"name": "ci", "role": "admin", "namespaces": "shop"})
    ci = Api(app, made["token"])
    assert ci.ok("GET", "namespaces")["items"] == []
    ci.refused(403, "PUT", "namespaces/shop", {"schedules": 10})
    api.ok("DELETE", "namespaces/default")
    api.refused(404, "DELETE", "namespaces/default")
    api.ok("POST", "schedules", HELLO | {"name": "second"})
    api.refused(422, "PUT", "namespaces/default", {})


def test_the_default_of_all_namespaces_is_set_and_lifted(api: Api) -> None:
    given = {"definition_bytes": 50, "payload_bytes": 20}
    assert api.ok("PUT", "namespaces/*", given)["name"] == "*"
    problem = api.refused(409, "POST", "schedules", HELLO)
    assert "are limited to 50 bytes" in problem["detail"]
    api.ok("DELETE", "namespaces/*")
    api.ok("POST", "schedules", HELLO)
    api.ok("PUT", "namespaces/default", {"max_priority": 5})
    problem = api.refused(409, "PATCH", "schedules/hello", {"priority": 6, "version": 1})
    assert "priority 6 is above the limit of" in problem["detail"]
    (use,) = api.ok("GET", "namespaces")["items"]
    assert use["quota"]["max_priority"] == 5
    assert use["used"]["definition_bytes"] > 50


def test_queues_are_limited_and_freed(api: Api) -> None:
    api.ok("POST", "schedules", HELLO | {"queue": "mail"})
    api.ok("POST", "schedules/hello/trigger")
    limited = api.ok("PUT", "queues/mail", {"concurrency": 0, "rate": "10/s"})
    assert limited == {"name": "mail", "concurrency": 0, "rate": "10/s", "queued": 1, "running": 0}
    assert api.ok("GET", "queues")["items"] == [limited]
    api.ok("DELETE", "queues/mail")
    api.refused(404, "DELETE", "queues/mail")
    problem = api.refused(422, "PUT", "queues/mail", {"concurrency": -1, "rate": "fast"})
    assert {error["field"] for error in problem["errors"]} == {"concurrency", "rate"}
    api.refused(422, "PUT", "queues/mail", {})
    api.refused(422, "PUT", "queues/Mail", {"concurrency": 1})


def test_nodes_that_live_are_listed(api: Api, store: Store) -> None:
    begin(store, "node-1")
    store.transact(lambda tx: tx.nodes.tell_tasks("node-1", ["digest"]))
    (node,) = api.ok("GET", "nodes")["items"]
    assert (node["node"], node["roles"], node["tasks"]) == (
        "host-of-node-1",
        ["worker"],
        ["digest"],
    )
    assert node["seen_at"] < node["expires_at"]
    assert node["namespaces"] == ["*"]
    store.transact(lambda tx: tx.nodes.end_session("node-1"))
    assert api.ok("GET", "nodes")["items"] == []
