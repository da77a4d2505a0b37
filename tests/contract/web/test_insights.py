"""The calendar, nodes, analytics, changes and tokens."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from duebook.budget import Budget
from duebook.clock import utc_now
from duebook.errors import OverBudget
from duebook.model.insight import HourLoad, Planned, RunMark
from duebook.model.statistics import by_day
from duebook.web import forecast
from duebook.web.charts import duration_chart, success_chart
from duebook.web.forecast import Calendar, coming_hours
from duebook.web.heat_map import heat_map
from duebook.web.routes import due
from duebook.web.times import Clock
from duebook.web.week import Cell, fullest, week_table
from tests.support.builders import BEGIN, MINUTE, SECOND, begin, claim, make_spec, settle
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import pytest

    from duebook.book import Book
    from tests.support.pages import Browser

HOUR = timedelta(hours=1)
TRUE = {"command": ["true"]}


def test_a_herd_at_midnight_is_seen(viewer: Browser, book: Book) -> None:
    for number in range(5):
        book.schedules.create(f"job-{number}", trigger={"cron": "0 0 * * *"}, target=TRUE)
    begin(book.store)
    book.schedules.trigger("job-0")
    (claimed,) = claim(book.store)
    settle(book.store, claimed.token)
    page = viewer.ok("/calendar")
    assert page.source.count('title="5 runs, 0.0 workers busy"') == 6
    assert len(re.findall(r"0.0 workers busy\">5</a></td>", page.source)) == 6
    assert len(re.findall(r"1 run, 0.0 workers busy\">1</a></td>", page.source)) == 1
    past, *_ = [link for link in page.links if link.startswith("/runs?from=")]
    assert "job-0" in viewer.ok(past).text
    coming, *_ = [link for link in page.links if link.startswith("/due?from=")]
    listed = viewer.ok(coming)
    assert [f"/schedules/job-{number}" in listed.links for number in range(5)] == [True] * 5
    assert page.text.count("00:00") >= 5
    assert page.text.count("Busiest hours") == 2
    assert viewer.ok("/calendar").status == 200


def test_what_is_due_in_a_stretch_is_listed_page_by_page(
    viewer: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        book.schedules.create(f"job-{number}", trigger={"every": "20m"}, target=TRUE)
    book.schedules.create("seldom", trigger={"cron": "0 0 1 1 *"}, target=TRUE)
    monkeypatch.setattr("duebook.web.routes.due.LISTED", 2)
    seen, path = [], "/due"
    for _ in range(3):
        page = viewer.ok(path)
        seen += re.findall(r'row-link" href="/schedules/([a-z0-9-]+)"', page.source)
        path = next((link for link in page.links if link.startswith("/due?after=")), "")
    assert seen == [f"job-{number}" for number in range(5)]
    assert "Nothing is due" in viewer.ok("/due?from=2031-05-05T01:00&to=2031-05-05T01:01").text
    assert viewer.get("/due?from=2031-05-05T01:00&to=2031-05-04T01:00").status == 422
    assert viewer.get("/due?from=2031-05-05T01:00&to=2032-05-04T01:00").status == 422


def test_a_look_for_due_times_is_bounded_and_goes_on(
    viewer: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        expression = "* * * * *" if name == "c" else "0 0 1 1 *"
        book.schedules.create(name, trigger={"cron": expression}, target={"command": ["true"]})
    for name in ("PORTION", "MOST_LOOKED"):
        monkeypatch.setattr(f"duebook.web.routes.due.{name}", 2)
    page = viewer.ok("/due?from=2031-05-05T01:00&to=2031-05-05T01:01")
    assert "Nothing found so far" in page.text
    (more,) = [link for link in page.links if link.startswith("/due?after=b")]
    assert "/schedules/c" in viewer.ok(more).links
    over = viewer.ok("/due?from=2021-05-05T01:00&to=2021-05-05T01:01")
    assert "This period is over" in over.text
    assert "/runs?from=2021-05-05T01%3A00&to=2021-05-05T01%3A01" in over.links


def test_who_looks_for_due_times_too_long_goes_on_from_there(
    viewer: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        book.schedules.create(name, trigger={"every": "20m"}, target=TRUE)
    find, calls = due._row, []

    def tired(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:
            raise OverBudget("too long")
        return find(*given)

    monkeypatch.setattr("duebook.web.routes.due._row", tired)
    page = viewer.ok("/due")
    (more,) = [link for link in page.links if link.startswith("/due?after=")]
    assert more == "/due?after=a"
    assert "/schedules/c" in viewer.ok(more).links


def test_due_times_and_their_durations_are_counted_by_the_hour() -> None:
    spec = make_spec(trigger={"every": "20m", "anchor": "2026-01-05T12:00:00Z"})
    busy = make_spec(trigger={"every": "1s", "anchor": "2026-01-05T12:00:00Z"})
    planned = [Planned("a", "a", spec)]
    found = coming_hours(planned, {"a": MINUTE}, BEGIN)
    assert found[BEGIN + HOUR] == (3, 3 * MINUTE)
    assert len(found) == 7 * 24
    counted: dict[Any, Any] = {}
    alike = [Planned(name, name, spec) for name in "abc"]
    assert coming_hours(alike, {"b": HOUR}, BEGIN, counted)[BEGIN + HOUR] == (9, 3 * HOUR)
    assert len(counted) == 1
    often = coming_hours([Planned("b", "b", busy)], {}, BEGIN)
    assert often[BEGIN + 100 * HOUR] == (3600, timedelta())


def test_an_hour_that_comes_twice_counts_both_times() -> None:
    hours = [datetime(2026, 10, 25, hour, tzinfo=UTC) for hour in (0, 1, 2)]
    loads = [HourLoad(hour, number, 1, HOUR) for number, hour in enumerate(hours, 1)]
    week = week_table(loads, date(2026, 10, 25), "Europe/Brussels")
    assert [row[0].runs for row in week.rows[:5]] == [0, 0, 3, 3, 0]
    assert week.rows[2][0].words == "3 runs, 2 failed, 2.0 workers busy"
    assert week.totals[:2] == [6, 0]
    assert Cell(123_456).short == "123k"
    assert [load.runs for load in fullest(loads)] == [3, 2, 1]


def test_charts_have_scales() -> None:
    marks = [mark(n, "failed" if n == 9 else "succeeded", n) for n in range(40)]
    drawn = duration_chart(marks, Clock(BEGIN))
    assert all(f"<span>{text}</span>" in drawn for text in ("40 s", "20 s", "0", "mean 20 s"))
    days = by_day(marks, "UTC")
    told = success_chart(days)
    assert "lowest on 2026-01-05: 92%" in told
    assert "<span>100%</span>" in told
    assert not success_chart(days[:1])


def test_many_schedules_are_counted_behind_the_page(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast, "AT_ONCE", 2)
    book.schedules.create_many(
        {"name": f"job-{number}", "cron": "@daily", "target": TRUE} for number in range(5)
    )
    calendar = Calendar()
    first = calendar.week("default", book.insights)
    assert not first.complete
    eventually(lambda: calendar.week("default", book.insights).complete)
    week = calendar.week("default", book.insights)
    assert week.schedules == 5
    assert max(load.runs for load in week.coming) == 5


def test_a_week_that_takes_too_long_to_count_is_counted_behind_the_page(book: Book) -> None:
    book.schedules.create("job", trigger={"cron": "* * * * *"}, target=TRUE)
    calendar = Calendar()
    first = calendar.week("default", book.insights, Budget(-1.0))
    assert (first.complete, first.coming) == (False, [])
    eventually(lambda: calendar.week("default", book.insights).complete)
    assert calendar.week("default", book.insights).schedules == 1


def test_namespaces_that_nobody_looks_at_any_more_are_forgotten(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast, "KEPT", 2)
    calendar = Calendar()
    for number in range(5):
        calendar.week(f"house-{number}", book.insights)
    assert list(calendar._past) == ["house-3", "house-4"]


def mark(number: int, status: str = "succeeded", late: int = 0) -> RunMark:
    due = BEGIN + number * HOUR
    began = due + late * SECOND
    ended = began + (number + 1) * SECOND
    return RunMark(str(number), status, "schedule", 1, 1, due, due, began, ended)  # type: ignore[arg-type]


def test_analytics_of_a_schedule(viewer: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"cron": "@daily"}, target=TRUE)
    assert "No runs yet" in viewer.ok("/schedules/job/analytics").text
    begin(book.store)
    for _ in range(2):
        book.schedules.trigger("job")
        (claimed,) = claim(book.store)
        settle(book.store, claimed.token)
    page = viewer.ok("/schedules/job/analytics")
    assert "100% success rate" in page.text
    assert viewer.get("/schedules/nobody/analytics").status == 404


def test_nodes_with_their_roles_and_queues_with_their_limits(viewer: Browser, book: Book) -> None:
    assert "duebook up" in viewer.ok("/nodes").text
    begin(book.store)
    book.queues.limit("mail", 4, "10/s")
    page = viewer.ok("/nodes")
    for words in ("host-of-node-1", "worker", "serves all namespaces", "mail", "10/s"):
        assert words in page.text, words


def test_a_node_is_drained_and_let_go(admin: Browser, viewer: Browser, book: Book) -> None:
    begin(book.store)
    assert "/nodes/node-1/drain" not in viewer.ok("/nodes").links
    assert "/nodes/node-1/drain" in admin.ok("/nodes").links
    asked = admin.ok("/nodes/node-1/drain")
    assert "duebook drain host-of-node-1:1" in asked.text
    assert "draining since" in admin.send(asked, "/nodes/node-1/drain", stop="1").text
    (node,) = book.nodes.list()
    assert node.stops_when_idle
    again = admin.ok("/nodes/node-1/drain")
    assert "stops when they have finished" in again.text
    assert "draining" not in admin.send(again, "/nodes/node-1/undrain").text
    assert book.nodes.list()[0].draining_at is None
    assert admin.get("/nodes/ghost/drain").status == 404


def test_changes_say_who_and_what(admin: Browser, viewer: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"cron": "@daily"}, target=TRUE)
    book.queues.limit("mail", 4)
    page = admin.ok("/audit")
    assert "a test" in page.text
    assert "mail" in page.text
    assert "mail" not in viewer.ok("/audit").text
    assert "/audit" in page.links
    assert "/audit" not in viewer.ok("/").links, "what admins look at"
    assert f"/schedules/{book.schedules.get('job').id}" in page.links
    (about,) = [link for link in viewer.ok("/schedules/job").links if "/audit" in link]
    assert "schedule job" in viewer.ok(about).text
    assert viewer.get("/audit", cursor="x").status == 400
    book.schedules.delete("job")
    deleted = admin.ok("/audit")
    assert "schedule job" in deleted.text
    assert not [link for link in deleted.links if link.startswith("/schedules/")]


def test_changes_say_which_fields_from_what_to_what(admin: Browser, book: Book) -> None:
    secret = {"shell": "true", "env": {"KEY": "s3cret"}}
    create: Any = {"trigger": {"cron": "0 1 * * *"}, "target": secret, "payload": {"<b>": 1}}
    book.schedules.create("job", **create)
    book.schedules.update("job", trigger={"cron": "0 2 * * *"}, payload={"<b>": "<i>"})
    book.schedules.update("job", target=secret | {"env": {"KEY": "s4cret"}})
    book.schedules.pause("job", "a <u>holiday</u>")
    for path in ("/audit", "/schedules/job"):
        page = admin.ok(path)
        source, said = page.source.replace("\n", ""), page.text
        assert "trigger › cron 0 1 * * * → 0 2 * * *" in said, path
        assert "<dt>payload › &lt;b&gt;</dt>" in source
        assert "<code>&lt;i&gt;</code>" in source
        assert "target contains a secret that changed" in said
        assert "status active → paused" in said
        assert "reason a <u>holiday</u>" in said
        assert not re.search("s[34]cret|<u>", source)
        assert "&#34;cron&#34;:" not in source.partition("Who changed")[2], "no JSON"


def test_tokens_are_made_shown_once_and_revoked(admin: Browser, book: Book) -> None:
    page = admin.ok("/tokens/new")
    wrong = admin.send(page, "/tokens", name="CI")
    assert wrong.status == 422
    assert page.form("/tokens")["fields"]["namespaces"] == "default", "not all of them"
    assert admin.send(page, "/tokens", name="ci", namespaces="").status == 422
    made = admin.send(page, "/tokens", name="ci", role="operator", namespaces="shop", lasts="30d")
    assert "dbk_" in made.text
    (token,) = book.tokens.list()
    assert (token.name, token.namespaces) == ("ci", ("shop",))
    assert token.expires_at is not None
    assert token.expires_at > utc_now()
    assert "dbk_" not in admin.ok("/tokens").text
    asked = admin.ok("/tokens/ci/revoke")
    other = admin.ok("/tokens/ci/revoke")
    assert "revoked" in admin.send(asked, "/tokens/ci/revoke").text
    assert admin.send(other, "/tokens/ci/revoke").status in (404, 409)


def test_doctor_shows_what_is_wrong_and_admins_fix_it(
    admin: Browser, viewer: Browser, book: Book
) -> None:
    book.schedules.create("job", trigger={"cron": "@daily"}, target=TRUE)
    sleep = "UPDATE schedule_state SET wake_at = NULL"
    book.store.transact(lambda tx: tx.db.connection.execute(sleep))  # type: ignore[attr-defined]
    assert "/doctor" in viewer.ok("/nodes").links
    page = viewer.ok("/doctor")
    assert "no node would ever plan job: wake_at is missing" in page.text
    assert "duebook doctor --fix" in page.text
    assert "/doctor/repair" not in page.links
    assert "/doctor/repair" in admin.ok("/doctor").links
    before = admin.ok("/doctor/repair")
    assert "wake_at is missing" in before.text
    fixed = admin.send(before, "/doctor/repair")
    assert "Fixed: 1 schedule planned again: job." in fixed.text
    assert "wake_at is missing" not in fixed.text
    assert "Nothing to fix." in admin.send(before, "/doctor/repair").text


def test_the_hours_of_a_schedule_are_a_map_that_leads_to_its_runs(
    viewer: Browser, book: Book
) -> None:
    book.schedules.create("job", trigger={"every": "10m"}, target=TRUE)
    begin(book.store)
    for outcome in ("succeeded", "failed"):
        book.schedules.trigger("job")
        (claimed,) = claim(book.store)
        settle(book.store, claimed.token, outcome)
    page = viewer.ok("/schedules/job/analytics")
    assert "2 runs, 1 failed" in page.source or page.source.count("1 run") >= 2
    links = [link for link in page.links if link.startswith("/runs?schedule=job&from=")]
    assert f"/runs/{claimed.run.id}" in viewer.ok(links[0]).links


def test_the_map_shows_two_weeks_by_the_clock_of_the_viewer() -> None:
    clock = Clock(BEGIN, "Asia/Kathmandu")
    ages = [timedelta(), timedelta(minutes=1), timedelta(days=3), timedelta(days=20)]
    marks = [
        RunMark(str(n), "failed" if n else "succeeded", "schedule", 1, 1, BEGIN - age, *[None] * 3)
        for n, age in enumerate(ages)
    ]
    rows = heat_map(marks, clock)
    assert len(rows) == 2
    newest, cells = rows[0]
    assert newest == clock_day(BEGIN, "Asia/Kathmandu")
    assert [(cell.runs, cell.failed) for cell in cells if cell.runs] == [(2, 1)]


def clock_day(moment: datetime, zone: str) -> date:
    return moment.astimezone(ZoneInfo(zone)).date()
