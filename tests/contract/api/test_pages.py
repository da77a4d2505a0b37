"""The pages: the log-in, the documentation, and what they must not hold."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from duebook.api.authenticator import BookAuthenticator
from tests.contract.api.conftest import BASE, Api, shared_app

if TYPE_CHECKING:
    from fastapi import FastAPI

    from duebook.store.base import Store

LOCAL = f"dbk_local_{'a' * 43}"


@pytest.fixture
def browser(store: Store) -> TestClient:
    return TestClient(shared_app.on(store, BookAuthenticator(store, LOCAL)), BASE)


def test_the_address_with_the_token_logs_a_browser_in(browser: TestClient) -> None:
    answer = browser.get("/login", params={"token": LOCAL}, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "a" * 43 not in cookie
    assert "the API" in browser.get("/").text
    assert browser.get("/api/v1/me").json()["name"] == "local"


def test_a_session_writes_only_from_our_own_pages(browser: TestClient) -> None:
    browser.get("/login", params={"token": LOCAL})
    body = {"name": "x", "cron": "@daily", "target": {"command": ["true"]}}
    assert browser.post("/api/v1/schedules", json=body).status_code == 403
    own = {"Origin": BASE}
    assert browser.post("/api/v1/schedules", json=body, headers=own).status_code == 201
    browser.post("/logout", headers=own)
    assert browser.get("/api/v1/me").status_code == 401


def test_a_form_logs_in_and_a_wrong_token_does_not(browser: TestClient) -> None:
    assert browser.get("/login").status_code == 200
    wrong = browser.post("/login", data={"token": "dbk_local_<img onerror=x>"})
    assert wrong.status_code == 401
    assert "not known" in wrong.text
    assert "<img" not in wrong.text
    assert browser.get("/api/v1/me").status_code == 401
    browser.post("/login", data={"token": LOCAL})
    assert browser.get("/api/v1/me").status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_of_another_site_logs_nobody_in(browser: TestClient, site: str) -> None:
    answer = browser.get("/login", params={"token": LOCAL}, headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    assert LOCAL not in answer.text
    for own in ("none", "same-origin"):
        headers = {"Sec-Fetch-Site": own}
        answer = browser.get(
            "/login", params={"token": LOCAL}, headers=headers, follow_redirects=False
        )
        assert answer.status_code == 303


def test_a_cookie_that_came_through_tls_stays_there(browser: TestClient) -> None:
    for proto, secure in (("https", True), ("http", False)):
        answer = browser.get(
            "/login",
            params={"token": LOCAL},
            headers={"X-Forwarded-Proto": proto},
            follow_redirects=False,
        )
        assert ("Secure" in answer.headers["set-cookie"]) is secure


def test_browsers_tell_the_origin_of_our_own_forms(browser: TestClient) -> None:
    """Under the policy `no-referrer` they would send `Origin: null`, which is refused."""
    assert browser.get("/login").headers["referrer-policy"] == "same-origin"


def test_the_pages_use_no_script_and_no_outside_resource(api: Api) -> None:
    for path in ("/login", "/api/docs"):
        text = api("GET", path).text
        assert not re.search(r"<script|<style|style=|\son\w+=|javascript:", text), path
        assert set(re.findall(r'(?:src|href|action)="([^#"]*)"', text)) <= {
            "",
            "/login",
            "/static/api.css",
            "/api/openapi.json",
        }
    assert "url(" not in api("GET", "/static/api.css").text


def test_the_documentation_tells_of_every_operation_and_shape(api: Api, app: FastAPI) -> None:
    text = api("GET", "/api/docs").text
    document = api.ok("GET", "/api/openapi.json")
    for path, methods in document["paths"].items():
        assert path in text
        for operation in methods.values():
            assert f'id="{operation["operationId"]}"' in text
    for name in document["components"]["schemas"]:
        assert f'id="{name}"' in text
    assert document == json.loads(json.dumps(app.openapi()))


def test_every_operation_of_the_document_is_complete(app: FastAPI) -> None:
    document = app.openapi()
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert "x-role" in operation or operation["security"] == []
    known = set(document["components"]["schemas"])
    used = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
    assert used <= known
