"""The overview shows at a glance whether something needs attention."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.model.insight import HourLoad
from duebook.model.serving import ALL, Serving
from duebook.store.values import SessionInfo
from duebook.targets.task import Tasks
from duebook.web.day_chart import lateness_chart
from duebook.web.times import Clock
from tests.support.builders import LEASE, begin, claim, settle
from tests.support.pages import Browser

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.store.base import Store

TRUE = {"command": ["true"]}


def begin_scheduler(store: Store, serves: Serving = ALL) -> None:
    about = ("planner-1", "host-of-planner-1", 2, "scheduler", "0", "2026a")
    info = SessionInfo(*about, namespaces=serves)
    store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))


def test_an_empty_house_teaches(viewer: Browser) -> None:
    page = viewer.ok("/")
    assert "No schedules yet" in page.text
    assert "duebook add hello" in page.text
    assert "No node is running" in page.text


def test_all_is_well_until_something_fails(viewer: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"every": "10m"}, target=TRUE)
    begin(book.store)
    assert "No live node is a scheduler" in viewer.ok("/").text
    begin_scheduler(book.store)
    assert "All good" in viewer.ok("/").text
    book.schedules.trigger("job")
    (claimed,) = claim(book.store)
    running = viewer.ok("/")
    assert f"/runs/{claimed.run.id}" in running.links
    settle(book.store, claimed.token, "failed", error="<b>no</b> \x1b[31mred")
    page = viewer.ok("/")
    assert "Needs attention" in page.text
    assert "1 run failed" in page.text
    assert "<b>no</b>" not in page.source
    assert "<b>no</b> red" in page.text


def test_busy_workers_are_counted_and_lateness_is_drawn(
    viewer: Browser, book: Book, store: Store
) -> None:
    begin_scheduler(store)
    begin(store)
    begin(store, "node-2")
    book.schedules.create("job", trigger={"every": "10m"}, target=TRUE)
    assert "0 of 2 workers busy" in viewer.ok("/").text
    run = book.schedules.trigger("job")
    claim(store)
    page = viewer.ok("/")
    assert "1 of 2 workers busy" in page.text
    assert "Lateness" not in page.text, "while no run has ended"
    assert run.id in page.source


def test_the_lateness_of_the_last_day_is_a_chart() -> None:
    now = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    hour = now.replace(minute=0) - timedelta(hours=2)
    late = HourLoad(hour, 9, 0, timedelta(), 3, timedelta(minutes=14))
    clock = Clock(now, "UTC")
    drawn = str(lateness_chart([late], clock, lambda *_, **query: str(query["from"])))
    assert "3 runs started late in the last day, at most 14 min" in drawn
    assert 'href="2026-03-01T10:00"' in drawn
    assert "<span>20 min</span>" in drawn, "where its scale ends"
    assert lateness_chart([HourLoad(hour, 9, 0, timedelta())], clock, str) == ""


def test_the_page_tells_that_not_all_late_runs_were_counted(
    viewer: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    whole = HourLoad(hour, 9, 0, timedelta())
    for load, told in ((replace(whole, late_complete=False), True), (whole, False)):
        monkeypatch.setattr("duebook.book.insights.Insights.hours", lambda *_, load=load: [load])
        text = viewer.ok("/").text
        assert ("only the newest few thousand late runs were counted" in text) == told
        assert ("No run started more than a minute late." in text) != told


def test_work_that_nobody_is_there_for_is_not_well(
    viewer: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_scheduler(book.store)
    assert "All good" in viewer.ok("/").text
    book.schedules.create("job", trigger={"every": "10m"}, target=TRUE, queue="mail")
    book.schedules.trigger("job")
    assert "Runs are waiting in queue mail, which no live worker serves" in viewer.ok("/").text
    assert "overdue" not in viewer.ok("/").text
    monkeypatch.setattr("duebook.web.routes.overview.GRACE", -timedelta(hours=1))
    assert "Some schedules are overdue" in viewer.ok("/").text


def test_a_namespace_that_nobody_serves_is_not_well(viewer: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"every": "10m"}, target=TRUE)
    about = ("n", "host", 1, "scheduler,worker", "0", "2026a", (), ("default",))
    info = SessionInfo(*about, namespaces=Serving(("shop",)))
    book.store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))
    told = 'No live node serves namespace "default"; start one with --serve default.'
    page = viewer.ok("/")
    assert told in page.text
    assert "serves other namespaces" in page.text
    assert told.removesuffix(".") in viewer.ok("/schedules/job").text
    assert "serves namespace shop" in viewer.ok("/nodes").text


def test_nodes_of_other_namespaces_are_not_shown(app: App, store: Store) -> None:
    viewer = Browser(app, "viewer@shop")
    begin_scheduler(store, Serving(("billing",)))
    page = viewer.ok("/", namespace="shop")
    assert "host-of-planner-1" not in page.source
    assert "0 nodes" in page.text
    assert "No live node serves a namespace that you can see" in page.text
    assert "No node is running" not in page.text
    assert "No live node is a scheduler" not in page.text
    begin(store, "ours", namespaces=Serving(("shop", "billing")))
    page = viewer.ok("/", namespace="shop")
    assert "host-of-ours" in page.text
    assert "host-of-planner-1" not in page.source


def test_a_viewer_of_one_namespace_learns_nothing_about_others(app: App, store: Store) -> None:
    of_shop = Book(store, "shop", tasks=Tasks())
    of_shop.schedules.create("job", trigger={"every": "10m"}, target={"task": "pack"}, queue="mail")
    of_shop.schedules.trigger("job")
    begin(store, "theirs", namespaces=Serving(("billing",)), tasks=("pack",), queues=("mail",))
    begin(store, "both", namespaces=Serving(("billing", "shop")), tasks=("invoice",))
    begin(store, "any", namespaces=ALL, tasks=("invoice",), queues=("ledger",))
    everyone, viewer = Browser(app, "viewer"), Browser(app, "viewer@shop")
    assert "invoice" in everyone.ok("/nodes").text
    assert "only workers of other namespaces know" in everyone.ok("/", namespace="shop").text
    for path in ("/", "/nodes", "/schedules/job", "/namespaces", "/api/v1/nodes"):
        page = viewer.ok(path)
        for hidden in ("billing", "invoice", "ledger", "workers of other"):
            assert hidden not in page.source, path
    page = viewer.ok("/")
    assert "Runs are waiting in queue mail, which no live worker serves" in page.text
    assert "“pack”, which no live worker of this namespace knows" in page.text


def test_what_is_due_in_the_next_hour_is_on_a_line(viewer: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"every": "10m"}, target=TRUE)
    page = viewer.ok("/")
    assert "6 due times in the next hour" in page.source
    assert "/schedules/job" in page.links


@pytest.mark.parametrize(
    ("path", "part"),
    [("/", "o"), ("/new", "s"), ("/schedules/job", "s"), ("/check-flow", "f"), ("/nodes", "n")],
)
def test_the_menu_says_where_somebody_is(
    operator: Browser, book: Book, path: str, part: str
) -> None:
    book.schedules.create("job", trigger={"every": "1h"}, target=TRUE)
    current = re.findall(r'aria-current="page" data-key="(.)"', operator.ok(path).source)
    assert current == [part]


def test_one_is_not_many(viewer: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"every": "5s"}, target=TRUE)
    begin(book.store)
    page = viewer.ok("/")
    assert "1 schedule " in page.text
    assert "1 node " in page.text
    assert "job and " not in page.source


def test_what_is_due_very_often_is_so_for_the_whole_hour(
    viewer: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    book.schedules.create("job", trigger={"every": "10s"}, target=TRUE)
    page = viewer.ok("/")
    (told,) = re.findall(r"and (\d+) more times", page.text)
    assert 357 <= int(told) <= 359
    assert page.source.count("<rect") == 60
    monkeypatch.setattr("duebook.web.routes.overview.MOST_FOLLOWED", 200)
    assert "and at least 59 more times" in viewer.ok("/").text


def test_what_is_due_often_does_not_hide_the_rest_of_the_hour(viewer: Browser, book: Book) -> None:
    book.schedules.create("often", trigger={"every": "1m"}, target=TRUE)
    book.schedules.create("seldom", trigger={"every": "50m"}, target=TRUE)
    page = viewer.ok("/")
    assert page.links.count("/schedules/often") == 1
    assert "and 59 more times" in page.text
    assert "/schedules/seldom" in page.links


def test_namespaces_are_chosen_and_kept_in_links(app: App, viewer: Browser, book: Book) -> None:
    from duebook.book import Book as AnyBook
    from tests.support.pages import Browser as AnyBrowser

    AnyBook(book.store, "shop").schedules.create("till", trigger={"every": "10m"}, target=TRUE)
    chooser = viewer.ok("/namespaces")
    assert "/?namespace=shop" in chooser.links
    page = viewer.ok("/?namespace=shop")
    assert "/schedules/till?namespace=shop" in page.links
    local = AnyBrowser(app, "viewer@mail")
    assert "shop" not in local.ok("/namespaces").text
    assert local.get("/?namespace=shop").status == 404


def test_a_part_of_the_hour_is_said_to_be_one(
    viewer: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        trigger = {"every": "30m", "anchor": f"2026-01-05T12:0{number}:00Z"}
        book.schedules.create(f"job-{number}", trigger=trigger, target=TRUE)
    assert "these are the ones due by" not in viewer.ok("/").text
    monkeypatch.setattr("duebook.book.insights.MOST_COMING", 2)
    assert "these are the ones due by" in viewer.ok("/").text


def test_the_last_day_is_a_chart_whose_bars_lead_to_runs(viewer: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"every": "10m"}, target=TRUE)
    begin(book.store)
    assert "The last 24 hours" not in viewer.ok("/").text
    book.schedules.trigger("job")
    (claimed,) = claim(book.store)
    settle(book.store, claimed.token)
    page = viewer.ok("/")
    assert "The last 24 hours" in page.text
    (bar,) = [link for link in page.links if link.startswith("/runs?from=")]
    assert claimed.run.id in " ".join(viewer.ok(bar).links)
    book.schedules.trigger("job")
    (claimed,) = claim(book.store)
    settle(book.store, claimed.token, "failed", error="no")
    page = viewer.ok("/")
    assert "2 runs by hour in the last day, 1 failed" in page.source
    bars = [link for link in page.links if link.startswith("/runs?from=")]
    assert any("status=failed" in link for link in bars)


def test_the_minutes_of_the_next_hour_lead_to_what_is_due(viewer: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"every": "50m"}, target=TRUE)
    page = viewer.ok("/")
    (minute,) = [link for link in page.links if link.startswith("/due?from=")]
    assert "/schedules/job" in viewer.ok(minute).links


def test_namespaces_are_cards_with_figures(app: App, book: Book) -> None:
    of_shop = Book(book.store, "shop")
    of_shop.schedules.create("till", trigger={"every": "10m"}, target=TRUE)
    begin(book.store, namespaces=ALL)
    of_shop.schedules.trigger("till")
    (claimed,) = claim(book.store, namespace="shop")
    settle(book.store, claimed.token, "failed", error="no")
    page = Browser(app, "viewer").ok("/namespaces")
    assert "shop Schedules 1 Running 0 Failed in 24 h 1" in page.text
    assert "default Schedules 0 Running 0 Failed in 24 h 0" in page.text
    assert "shop" not in Browser(app, "viewer@mail").ok("/namespaces").text
