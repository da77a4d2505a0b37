"""Live pages never block other requests: their limit is lower than that of connections."""

from __future__ import annotations

from contextlib import ExitStack, closing
from datetime import timedelta
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING, Any

import pytest

from duebook.api.gate import LIVE
from duebook.api.limits import Limits
from duebook.api.server import Server, bind
from duebook.web.site import create_site
from tests.support.api import FixedTokens
from tests.support.builders import begin, claim, settle
from tests.support.flow_builders import CHAIN, put_flow
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.book import Book
    from duebook.store.base import Store
    from tests.support.pages import Browser


def test_live_pages_leave_connections_to_all_others(store: Store) -> None:
    place = bind("127.0.0.1", 0)
    with ExitStack() as opened:
        server = Server(create_site(store, FixedTokens()), place, Limits(8))
        opened.enter_context(closing(server))
        server.start()

        def ask(path: str, token: str) -> HTTPResponse:
            connection = HTTPConnection("127.0.0.1", place.port, timeout=PATIENCE)
            opened.enter_context(closing(connection))
            headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
            connection.request("GET", path, headers=headers)
            return connection.getresponse()

        def live(token: str) -> tuple[int, str | None]:
            answer = ask("/live", token)
            if answer.status == 200:
                assert answer.readline() == b"event: changed\n"  # it is counted from now on
            return answer.status, answer.getheader("Retry-After")

        assert live("viewer") == (200, None)
        assert live("viewer") == (429, "1")
        for token in ("operator", "admin", "admin@default"):
            assert live(token) == (200, None)
        assert live("viewer@default") == (503, "5")
        assert ask("/healthz", "nobody").status == 200


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "/schedules",
            "/schedules?last=failed",
            "/schedules/job",
            "/schedules/job/analytics",
        ),
        *(
            "/runs",
            "/runs?label=a:b",
            "/runs/RUN",
            "/failures",
            "/flows",
            "/flows/chain",
            "/calendar",
        ),
        *("/alerts", "/events", "/calendars", "/windows", "/nodes"),
    ],
)
def test_a_change_is_read_once_however_many_look(
    app: App, viewer: Browser, store: Store, book: Book, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    book.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
    put_flow(store, CHAIN)
    path = path.replace("RUN", book.schedules.trigger("job").id)
    watch = app.state.watches.of("default")
    reads: list[Any] = []
    for name in ("read", "transact"):
        real = getattr(store, name)

        def counted(*given: Any, real: Any = real, **more: Any) -> Any:
            reads.append(given)
            return real(*given, **more)

        monkeypatch.setattr(store, name, counted)
    watch.number = 1
    viewer.client.get(path, headers={LIVE: "1"})
    first = len(reads)
    for _ in range(20):
        assert viewer.client.get(path, headers={LIVE: "1"}).status_code == 200
    assert len(reads) == first > 0


@pytest.mark.parametrize("path", ["/runs", "/failures"])
def test_times_that_somebody_asks_for_are_in_the_zone_of_each(
    app: App, viewer: Browser, book: Book, path: str
) -> None:
    book.schedules.create("job", trigger={"cron": "@daily"}, target={"command": ["true"]})
    begin(book.store)
    run = book.schedules.trigger("job").id
    for claimed in claim(book.store):
        settle(book.store, claimed.token, "failed", error="boom")
    app.state.watches.of("default").number = 1
    now = book.insights.now()
    asked = {"from": f"{now + timedelta(hours=3):%Y-%m-%dT%H:%M}"}
    found = []
    for zone in ("UTC", "Asia/Kathmandu"):  # 5:45 later
        viewer.send(viewer.ok("/"), "/zone", zone=zone)
        page = viewer.client.get(path, params=asked, headers={LIVE: "1"}).text
        found.append(run in page)
    assert found == [False, True]
