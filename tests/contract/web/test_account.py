"""Login, logout, zones, and what a page must not contain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from duebook.api.authenticator import authenticator_of
from duebook.api.local_token import keep_local_token
from duebook.api.login_links import LoginLinks
from duebook.web.csrf import is_right, token_for
from duebook.web.page_request import local_path
from duebook.web.site import create_site
from tests.support.api import BASE
from tests.support.pages import INLINE, Browser, Page

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.api.app import App
    from duebook.store.base import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".duebook" / "token"


@pytest.fixture
def local(path: Path) -> str:
    return keep_local_token(path)


@pytest.fixture
def code(path: Path, local: str) -> str:
    """The code of a link that was just printed."""
    return LoginLinks(path, lambda: local).new_code(local)


@pytest.fixture
def browser(store: Store, path: Path, local: str) -> TestClient:
    assert local
    site = create_site(store, authenticator_of(store, path))
    return TestClient(site, BASE, headers={"Accept": "text/html"})


def test_a_link_logs_a_browser_in(browser: TestClient, code: str, local: str) -> None:
    answer = browser.get("/login", params={"code": code}, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert code not in cookie
    assert local[10:] not in cookie
    assert "Overview" in browser.get("/").text
    assert browser.get("/api/v1/me").json()["name"] == "local"


def test_a_link_that_was_used_says_how_to_get_another(browser: TestClient, code: str) -> None:
    browser.get("/login", params={"code": code})
    browser.cookies.clear()
    for again in (code, code[:-1], "../token", "x" * 32):
        answer = browser.get("/login", params={"code": again})
        assert answer.status_code == 401
        assert "duebook token link" in answer.text
        assert again not in answer.text
        assert "set-cookie" not in answer.headers


def test_a_token_in_an_address_logs_nobody_in(browser: TestClient, local: str) -> None:
    answer = browser.get("/login", params={"token": local})
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers


def test_a_session_writes_only_from_our_own_pages(browser: TestClient, code: str) -> None:
    browser.get("/login", params={"code": code})
    body = {"name": "x", "cron": "@daily", "target": {"command": ["true"]}}
    assert browser.post("/api/v1/schedules", json=body).status_code == 403
    own = {"Origin": BASE}
    assert browser.post("/api/v1/schedules", json=body, headers=own).status_code == 201


def test_a_form_logs_in_and_a_wrong_token_does_not(browser: TestClient, local: str) -> None:
    assert browser.get("/login").status_code == 200
    wrong = browser.post("/login", data={"token": "dbk_local_<img onerror=x>"})
    assert wrong.status_code == 401
    assert "unknown" in wrong.text
    assert "<img onerror" not in wrong.text
    assert browser.get("/api/v1/me").status_code == 401
    browser.post("/login", data={"token": local})
    assert browser.get("/api/v1/me").status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_of_another_site_logs_nobody_in(browser: TestClient, code: str, site: str) -> None:
    answer = browser.get("/login", params={"code": code}, headers={"Sec-Fetch-Site": site})
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    assert code not in answer.text
    assert "Copy the link into the address bar" in Page(answer).text
    own = {"Sec-Fetch-Site": "none"}
    answer = browser.get("/login", params={"code": code}, headers=own, follow_redirects=False)
    assert answer.status_code == 303, "it was not used up"


def test_a_cookie_that_came_through_tls_stays_there(browser: TestClient, local: str) -> None:
    for proto, secure in (("https", True), ("http", False)):
        answer = browser.post(
            "/login",
            data={"token": local},
            headers={"X-Forwarded-Proto": proto},
            follow_redirects=False,
        )
        assert ("Secure" in answer.headers["set-cookie"]) is secure


def test_browsers_tell_the_origin_of_our_own_forms(browser: TestClient) -> None:
    """Under the policy `no-referrer` they would send `Origin: null`, which is refused."""
    assert browser.get("/login").headers["referrer-policy"] == "same-origin"


def test_who_is_not_logged_in_is_asked_to_and_goes_on_where_he_wanted(
    browser: TestClient, local: str
) -> None:
    asked = browser.get("/namespaces?x=1")
    assert asked.status_code == 401
    form = Page(asked).form("/login")
    assert form["fields"]["next"] == "/namespaces?x=1"
    sent = browser.post("/login", data=form["fields"] | {"token": local}, follow_redirects=False)
    assert sent.headers["location"] == "/namespaces?x=1"


@pytest.mark.parametrize(
    "text", ["//evil.example", "/\\evil.example", "https://evil.example", "", None, "/\n", "x"]
)
def test_the_log_in_leads_to_no_other_site(text: str | None) -> None:
    assert local_path(text) == "/"


def test_logging_out_ends_the_session(
    browser: TestClient, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = property(lambda _: pytest.fail("Starlette's parser takes long for a crafted header"))
    monkeypatch.setattr(Request, "cookies", slow)
    browser.get("/login", params={"code": code})
    form = Page(browser.get("/")).form("/logout")
    answer = browser.post("/logout", data=form["fields"], headers={"Origin": BASE})
    assert Page(answer).form("/login")
    assert browser.get("/").status_code == 401


def test_a_form_without_the_token_of_its_session_does_nothing(admin: Browser) -> None:
    refused = admin.post("/logout", csrf=token_for("another"))
    assert refused.status == 403
    assert "belongs to an earlier session" in refused.text
    assert admin.post("/logout", csrf="").status == 403
    assert not is_right("a", token_for("b"))


def test_a_form_of_another_site_does_nothing(admin: Browser) -> None:
    fields = admin.ok("/").form("/zone")["fields"]
    for origin in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        assert admin.client.post("/zone", data=fields, headers=origin).status_code == 403
    plain = admin.client.post("/zone", content="x", headers={"Origin": BASE})
    assert plain.status_code == 400


def test_times_are_in_the_zone_that_somebody_chose(admin: Browser) -> None:
    page = admin.ok("/")
    assert page.form("/zone")["fields"]["zone"] == "UTC"
    again = admin.send(page, "/zone", zone="Asia/Kathmandu")
    assert again.form("/zone")["fields"]["zone"] == "Asia/Kathmandu"
    wrong = admin.send(page, "/zone", zone="Mars/<b>")
    assert (wrong.status, "Mars/<b>" in wrong.text, "<b>" in wrong.source) == (422, True, False)
    assert admin.ok("/").form("/zone")["fields"]["zone"] == "Asia/Kathmandu"
    admin.send(page, "/zone", zone="")
    assert admin.ok("/").form("/zone")["fields"]["zone"] == "UTC"


def test_errors_are_pages_for_people_and_problems_for_programs(viewer: Browser) -> None:
    page = viewer.get("/nothing")
    assert page.status == 404
    assert "Back to overview" in page.text
    program = viewer.client.get("/nothing", headers={"Accept": "*/*"})
    assert program.json()["code"] == "no_route"


def test_pages_hold_no_script_no_style_and_nothing_from_elsewhere(viewer: Browser) -> None:
    for path in ("/", "/login", "/namespaces", "/nothing"):
        answer = viewer.client.get(path)
        assert not INLINE.search(answer.text), path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http:" not in answer.text.replace(BASE, "")
    style = viewer.client.get("/static/duebook.css").text
    assert "url(" not in style
    assert "@import" not in style


def test_a_copy_of_the_cookie_opens_nothing_after_the_logout(
    browser: TestClient, code: str
) -> None:
    browser.get("/login", params={"code": code})
    copy = browser.cookies["duebook_session"]
    page = browser.get("/")
    form = {"csrf": token_for(copy)}
    answer = browser.post("/logout", data=form, headers={"Origin": BASE}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    for path in ("/", "/live", "/schedules", "/api/v1/me", "/api/v1/events"):
        stolen = browser.get(
            path, headers={"Cookie": f"duebook_session={copy}"}, follow_redirects=False
        )
        assert stolen.status_code in (303, 401), path
    assert page.status_code == 200


def test_who_was_logged_in_is_told_why_to_log_in_again(app: App) -> None:
    stranger = Browser(app, "")
    stranger.client.cookies.clear()
    assert "session has ended" not in stranger.get("/schedules").text
    revoked = Browser(app, "revoked")
    assert "session has ended" in revoked.get("/schedules").text
    answer = revoked.client.post(
        "/new", data={"name": "x"}, headers={"Origin": BASE, "Referer": f"{BASE}/new?a=1"}
    )
    assert answer.status_code == 401
    assert "nothing was changed" in answer.text
    assert 'name="next" value="/new?a=1"' in answer.text
