"""Every page: who may see it, and that only forms rendered for the session are accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from duebook.model.access import Role
from duebook.web.csrf import token_for
from duebook.web.routes import PAGES
from tests.support.builders import begin
from tests.support.event_builders import join, stamp
from tests.support.flow_builders import CHAIN, put_flow
from tests.support.pages import Browser

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.api.operations import Operation
    from duebook.book import Book

CLOSED: Final = [page for part in PAGES for page in part.all if page.role is not None]
WRITES: Final = [page for page in CLOSED if page.writes]
ABOVE_VIEWER: Final = [page for page in CLOSED if page.role and page.role > Role.VIEWER]
PARTS: Final = {"run_id": "x", "event_id": "x", "name": "x", "node": "x", "action": "stop"}


def title(page: Operation) -> str:
    return f"{page.method} {page.path}"


def path(page: Operation) -> str:
    return page.path.format(**PARTS)


@pytest.mark.parametrize("page", WRITES, ids=title)
def test_no_form_is_taken_without_the_token_of_its_session(admin: Browser, page: Operation) -> None:
    refused = admin.post(path(page), csrf=token_for("another"))
    assert refused.status == 403
    assert "belongs to an earlier session" in refused.text


@pytest.mark.parametrize("page", ABOVE_VIEWER, ids=title)
def test_what_needs_more_is_refused_to_viewers(viewer: Browser, page: Operation) -> None:
    if page.writes:
        assert viewer.post(path(page), csrf=token_for("viewer")).status == 403
    else:
        assert viewer.get(path(page)).status == 403


@pytest.mark.parametrize("page", CLOSED, ids=title)
def test_who_is_not_logged_in_is_asked_to(app: App, page: Operation) -> None:
    stranger = Browser(app, "nobody")
    answer = stranger.post(path(page)) if page.writes else stranger.get(path(page))
    assert answer.status == 401
    assert answer.sends("/login")


def test_what_is_in_another_namespace_does_not_exist(app: App, book: Book) -> None:
    put_flow(book.store, CHAIN)
    begin(book.store)
    run = book.flows.start("chain")
    event = book.events.publish("orders", {"id": 1})
    stamp(book.store)
    join(book.store, "tellers")
    book.calendars.save("weekends", weekdays="SAT,SUN")
    book.windows.add("upgrade", "2098-01-01T00:00:00Z", "2098-01-02T00:00:00Z")
    book.feeds.create("team-feed")
    stranger = Browser(app, "admin@shop")
    pages = ("/flows", "/events", "/runs", "/calendar", "/audit", "/schedules", "/")
    hidden = ("chain", "tellers", event, run.id, "“upgrade”", "team-feed", "/calendars/weekends")
    for page in (*pages, "/calendars", "/windows", "/feeds"):
        seen = stranger.ok(page)
        assert not any(name in seen.source for name in hidden), page
    for page in (
        *(f"/flows/chain{part}" for part in ("", "/start", "/stop", "/restart")),
        *(f"/runs/{run.id}{part}" for part in ("", "/cancel", "/retry")),
        f"/events/{event}",
        *(f"/calendars/weekends{part}" for part in ("", "/edit", "/delete")),
        "/windows/upgrade/end",
        "/feeds/team-feed/revoke",
        *(f"/readers/tellers{part}" for part in ("", "/replay", "/drop-dead")),
    ):
        assert stranger.get(page).status == 404, page
        assert stranger.get(page, namespace="default").status == 404, page
