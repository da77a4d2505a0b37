"""The list of schedules, a schedule, and all actions on them, without any script."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

import pytest

from duebook.book import Book as AnyBook
from duebook.explain import Explanation
from duebook.store.sqlite import SqliteStore
from duebook.store.values import SessionInfo
from duebook.timetext import format_instant
from duebook.version import __version__
from duebook.web.routes.schedules import _spans
from duebook.web.times import Clock
from tests.support.builders import SECOND, VirtualClock, begin, claim, settle, tick
from tests.support.pages import INLINE, Browser, Page, site_on

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.api.app import App
    from duebook.book import Book

TRUE = {"command": ["true"]}
DAILY = {"cron": "30 2 * * *", "tz": "America/New_York"}


def make(book: Book, name: str = "job", **definition: Any) -> None:
    whole: Any = {"trigger": DAILY, "target": TRUE} | definition
    book.schedules.create(name, **whole)


def test_only_what_the_site_told_itself_is_believed(
    operator: Browser, viewer: Browser, book: Book
) -> None:
    make(book)
    assert "9,999 schedules" not in viewer.ok("/schedules", done="paused", count="9999").source
    assert "Resumed" not in viewer.ok("/schedules/job", done="resume").text
    told = operator.signed("/schedules/job?done=resume")
    assert "Resumed" in operator.ok(told).text
    assert "Resumed" not in viewer.ok(told).text, "it was said to somebody else"
    assert "Resumed" not in operator.ok(f"{told}&count=9").text


def test_a_notice_about_a_due_time_does_not_ask_about_it(operator: Browser, book: Book) -> None:
    make(book, trigger={"every": "1h"})
    done = operator.send(operator.ok("/schedules/job/skip-next"), "/schedules/job/skip-next")
    assert "will be skipped" in done.text
    form = next(form for form in done.forms if form.get("action", "").endswith("#why"))
    assert form["fields"]["at"] == ""


def test_a_search_goes_on_by_itself_and_tells_how_many_it_found(
    viewer: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.store.sql.looking.MOST_LOOKED", 4)
    monkeypatch.setattr("duebook.web.routes.schedules.PAGE", 3)
    for number in range(12):
        make(book, f"job-{number:02}")
    make(book, "needle", target={"event": "needle.due"})
    for query in ({"text": "need"}, {"target": "event"}, {"text": "need", "sort": "created_at"}):
        page = viewer.ok("/schedules", **query)
        assert "/schedules/needle" in page.links, query
        assert "1 of 13 schedules" in page.text, query
    assert "More than 3 of 13 schedules" in viewer.ok("/schedules", text="job").text
    assert "None of 13 schedules matches" in viewer.ok("/schedules", text="nowhere").text
    assert "13 schedules" in viewer.ok("/schedules").text


def test_the_list_is_searched_filtered_and_sorted(viewer: Browser, book: Book) -> None:
    for number in range(3):
        make(book, f"etl-{number}", labels={"team": f"t{number % 2}"})
    book.schedules.pause("etl-1", reason="moving")
    page = viewer.ok("/schedules")
    assert "At 02:30 every day (America/New_York)" in page.text
    assert "moving" in page.text
    assert [link for link in page.links if link.startswith("/schedules/etl-")] == [
        f"/schedules/etl-{number}" for number in range(3)
    ]
    for query, found in (
        ({"text": "etl-0"}, {"etl-0"}),
        ({"label": "team:t0"}, {"etl-0", "etl-2"}),
        ({"status": "paused"}, {"etl-1"}),
        ({"problem": "true"}, set()),
        ({"target": "command", "sort": "-name"}, {"etl-0", "etl-1", "etl-2"}),
    ):
        links = viewer.ok("/schedules", **query).links
        assert {x.removeprefix("/schedules/") for x in links if "/etl-" in x} == found, query
    wrong = viewer.get("/schedules", sort="x'; DROP TABLE", text="<b>")
    assert wrong.status == 400
    assert "<b>" not in wrong.source


def test_more_than_a_page_goes_on(viewer: Browser, book: Book) -> None:
    book.schedules.create_many(
        {"name": f"job-{number:03}", "cron": "@daily", "target": TRUE} for number in range(60)
    )
    page = viewer.ok("/schedules")
    (more,) = [link for link in page.links if "cursor=" in link]
    rest = viewer.ok(more)
    assert "/schedules/job-059" in rest.links
    assert "/schedules/job-000" not in rest.links


def test_an_empty_list_teaches(viewer: Browser) -> None:
    assert "duebook add backup" in viewer.ok("/schedules").text


def test_each_row_has_a_strip_of_its_runs(viewer: Browser, book: Book) -> None:
    make(book)
    begin(book.store)
    statuses: list[Any] = ["succeeded", "failed"]
    for status in statuses:
        book.schedules.trigger("job")
        (claimed,) = claim(book.store)
        settle(book.store, claimed.token, status)
    source = viewer.ok("/schedules").source
    assert "the last 2 runs: 1 succeeded, 1 failed" in source
    assert 'class="run-failed"' in source


def test_a_label_is_paused_as_a_whole_after_it_was_asked(operator: Browser, book: Book) -> None:
    for number in range(3):
        make(book, f"etl-{number}", labels={"team": "x"})
    make(book, "other")
    page = operator.ok("/schedules", label="team:x")
    (link,) = [x for x in page.links if x.startswith("/bulk?action=pause")]
    asked = operator.ok(link)
    assert "Pause 3 schedules?" in asked.text
    assert "etl-2" in asked.text
    done = operator.send(asked, "/bulk", reason="holiday")
    assert "3 schedules paused" in done.text
    assert [s.status for s in book.schedules.list()] == ["paused"] * 3 + ["active"]
    assert book.schedules.get("etl-0").pause_reason == "holiday"
    operator.send(done, "/bulk", name=["etl-0", "etl-1", "etl-2"])
    assert {s.status for s in book.schedules.list()} == {"active"}


def test_many_are_paused_until_a_time(operator: Browser, book: Book) -> None:
    for number in range(3):
        make(book, f"etl-{number}")
    asked = operator.ok("/bulk", action="pause", all="1")
    wrong = operator.send(asked, "/bulk", until="2001-01-01T00:00", reason="holiday")
    assert "is in the past" in wrong.text
    assert "Pause 3 schedules?" in wrong.text
    operator.send(wrong, "/bulk", until="2999-01-01T09:00")
    assert {s.pause_reason for s in book.schedules.list()} == {"holiday"}
    assert {f"{s.paused_until:%Y %H}" for s in book.schedules.list()} == {"2999 09"}
    operator.send(operator.ok("/bulk", action="resume", all="1"), "/bulk")
    some = operator.ok("/bulk", action="pause", name=["etl-0", "etl-2"])
    operator.send(some, "/bulk", name=["etl-0", "etl-2"], until="2999-01-01T09:00")
    assert [bool(s.paused_until) for s in book.schedules.list()] == [True, False, True]


@pytest.mark.parametrize("value", ["New York, NY", 'the "big" one', "C:\\x y", "", "x" * 256])
def test_a_label_leads_to_those_that_have_it(operator: Browser, book: Book, value: str) -> None:
    make(book, "one", labels={"city": value})
    make(book, "two", labels={"city": "New"})
    for page in (operator.ok("/schedules"), operator.ok("/schedules/one")):
        link = next(x for x in page.links if "label=" in x and not x.endswith("%3ANew"))
        found = operator.ok(link)
        assert "/schedules/one" in found.links
        assert "/schedules/two" not in found.links
    (all_of_them,) = [x for x in found.links if x.startswith("/bulk?action=pause")]
    operator.send(operator.ok(all_of_them), "/bulk")
    assert [s.status for s in book.schedules.list()] == ["paused", "active"]


def test_the_same_on_the_command_line_says_all_that_was_asked(
    operator: Browser, book: Book
) -> None:
    asked = {"label": "team:$(reboot),tier:1", "text": "etl-*", "status": "active"}
    page = operator.ok("/bulk", action="pause", all="1", problem="false", **asked)
    told = "duebook pause --no-problem --label 'team:$(reboot)' --label tier:1"
    assert f"{told} --text 'etl-*' --status active" in page.text
    assert "duebook resume --text '*'" in operator.ok("/bulk", action="resume", all="1").text
    AnyBook(book.store, "shop").schedules.create("till", trigger=DAILY, target=TRUE)
    till = operator.ok("/schedules/till", namespace="shop")
    assert "duebook --namespace shop show till" in till.text


@pytest.mark.parametrize("query", [{}, {"label": "team:x"}])
def test_none_chosen_is_not_all(operator: Browser, book: Book, query: dict[str, str]) -> None:
    make(book, "job", labels={"team": "x"})
    asked = operator.get("/bulk", action="pause", **query)
    assert asked.status == 422
    assert "No schedule is selected" in asked.text
    assert not asked.sends("/bulk")


@pytest.mark.parametrize("query", [{"label": ",,"}, {"problem": "perhaps"}])
def test_a_filter_that_says_nothing_is_not_all(
    operator: Browser, book: Book, query: dict[str, str]
) -> None:
    make(book)
    assert operator.get("/schedules", **query).status == 400
    assert not operator.get("/bulk", action="pause", all="1", **query).sends("/bulk")


@pytest.mark.parametrize("missing", ["all", "action"])
def test_a_form_that_says_less_than_its_page_pauses_nothing(
    operator: Browser, book: Book, missing: str
) -> None:
    make(book)
    fields = operator.ok("/bulk?action=pause&all=1").form("/bulk")["fields"]
    del fields[missing]
    assert operator.post("/bulk", **fields).status == 422
    assert book.schedules.get("job").status == "active"


def test_many_are_counted_exactly_their_number_is_typed_and_that_is_undone(
    operator: Browser, admin: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.web.undoing.TYPED", 3)
    monkeypatch.setattr("duebook.web.routes.bulk.MOST", 2)
    monkeypatch.setattr("duebook.web.routes.bulk.PAGE", 3)
    monkeypatch.setattr("duebook.book.bulk.COUNTED", 2)
    for number in range(5):
        book.schedules.create(f"etl-{number}", trigger={"cron": "@daily"}, target=TRUE)
    book.schedules.pause("etl-4")
    asked = operator.ok("/bulk?action=pause&all=1")
    assert "Pause 4 schedules?" in asked.text
    assert "Type 4 to confirm" in asked.text
    for wrong in ("", "5"):
        refused = operator.send(asked, "/bulk", typed=wrong)
        assert refused.status == 422
        assert "Pause 4 schedules?" in refused.text
        assert "4 are affected; type 4 to confirm" in refused.text
    done = operator.send(refused, "/bulk", typed="4")
    assert "4 schedules paused" in done.text
    admin.send(admin.ok("/schedules/etl-0/resume"), "/schedules/etl-0/resume")
    admin.send(admin.ok("/schedules/etl-0/pause"), "/schedules/etl-0/pause")
    undone = operator.send(done, "/bulk")
    assert "3 schedules resumed" in undone.text
    assert "Undo" not in undone.text
    paused = [s.name for s in book.schedules.list(status="paused")]
    assert paused == ["etl-0", "etl-4"], "what others did since, and before, stays"
    assert "0 schedules resumed" in operator.send(done, "/bulk").text


def test_the_number_of_a_large_backfill_is_typed(
    operator: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.web.undoing.TYPED", 3)
    make(book)
    created = book.schedules.get("job").created_at
    path, span = "/schedules/job/backfill", (created - timedelta(days=5), created)
    asked = operator.ok(path, **dict(zip(("from", "to"), map(format_instant, span), strict=True)))
    count = asked.text.partition(" to confirm")[0].rpartition("Type ")[2]
    assert int(count) >= 4
    refused = operator.send(asked, path)
    assert refused.status == 422
    assert f"type {count} to confirm" in refused.text
    assert not book.runs.list("job")
    assert f"{count} runs queued" in operator.send(asked, path, typed=count).text


def test_chosen_ones_are_paused_and_that_is_undone(operator: Browser, book: Book) -> None:
    for number in range(3):
        make(book, f"etl-{number}")
    asked = operator.ok("/bulk?action=pause&name=etl-0&name=etl-2")
    form = asked.form("/bulk")
    sent = form["fields"] | {"name": ["etl-0", "etl-2"]}
    done = operator.send(asked, "/bulk", **sent)
    assert "2 schedules paused" in done.text
    assert [s.status for s in book.schedules.list()] == ["paused", "active", "paused"]
    operator.send(done, "/bulk", name=["etl-0", "etl-2"])
    assert {s.status for s in book.schedules.list()} == {"active"}


def test_viewers_see_no_button_that_they_may_not_press(
    viewer: Browser, operator: Browser, book: Book
) -> None:
    make(book)
    run = book.schedules.trigger("job")
    for path in ("/schedules", "/schedules/job", "/runs", f"/runs/{run.id}"):
        page = viewer.ok(path)
        posts = {form.get("action") for form in page.forms if form["method"] == "post"}
        assert posts - {"/views"} == {"/logout", "/zone", "/theme"}, path
        hidden = ("/pause", "/run", "/edit", "/cancel", "/retry", "/delete", "/bulk")
        assert not [x for x in page.links if x.partition("?")[0].endswith(hidden)], path
        for link in page.links:
            if link.startswith("/") and not link.startswith("/api"):
                assert viewer.get(link).status == 200, link
    assert operator.ok("/schedules/job").text.count("…") > 5


def test_a_schedule_tells_when_it_is_due_with_what_clocks_do(viewer: Browser, book: Book) -> None:
    make(book, trigger={"cron": "30 2 * * SUN", "tz": "America/New_York"})
    page = viewer.ok("/schedules/job")
    assert "America/New_York" in page.text
    assert page.text.count("02:30") + page.text.count("03:00") >= 10
    assert "does not exist" in page.text or "comes twice" in page.text or "warning" in page.source


def test_a_pause_is_asked_for_done_and_undone(operator: Browser, book: Book) -> None:
    make(book)
    asked = operator.ok("/schedules/job/pause")
    wrong = operator.send(asked, "/schedules/job/pause", until="2020-01-01T00:00")
    assert wrong.status == 422
    assert "in the past" in wrong.text
    done = operator.send(
        asked, "/schedules/job/pause", reason="<i>moving</i>", until="2099-01-01T00:00"
    )
    assert "Paused." in done.text
    assert "<i>moving</i>" in done.text
    assert "<i>moving</i>" not in done.source
    assert book.schedules.get("job").status == "paused"
    again = operator.send(asked, "/schedules/job/pause")
    assert again.status == 409
    undone = operator.send(done, "/schedules/job/resume")
    assert "Resumed" in undone.text
    assert book.schedules.get("job").status == "active"


def test_the_next_due_time_is_moved_skipped_and_restored(operator: Browser, book: Book) -> None:
    make(book, trigger={"cron": "30 2 29 2 *"})  # which does not arrive while the test runs
    first = book.schedules.get("job").next_due_at
    skipped = operator.send(operator.ok("/schedules/job/skip-next"), "/schedules/job/skip-next")
    assert "skipped" in skipped.text
    assert book.schedules.get("job").next_due_at != first
    assert "due time was restored" in operator.send(skipped, "/schedules/job/restore").text
    assert book.schedules.get("job").next_due_at == first
    asked = operator.ok("/schedules/job/move")
    moved = operator.send(asked, "/schedules/job/move", at="2099-01-01T10:00")
    assert "was moved" in moved.text
    operator.send(moved, "/schedules/job/restore")
    assert book.schedules.get("job").next_due_at == first
    assert operator.send(asked, "/schedules/job/move", at="soon").status == 422
    late = operator.post(
        "/schedules/job/restore", **moved.form("/zone")["fields"], at="2020-01-01T00:00Z"
    )
    assert late.status == 409


def test_a_page_that_asks_says_so_when_somebody_was_faster(operator: Browser, book: Book) -> None:
    make(book)
    asked = operator.ok("/schedules/job/resume")
    assert "Current state: active." in asked.text
    assert 'class="primary"' not in asked.source
    book.schedules.pause("job")
    assert 'class="primary"' not in operator.ok("/schedules/job/pause").source
    late = operator.get("/schedules/job/restore", at="2030-01-01T00:00:00Z")
    assert late.status == 409
    assert "is no longer skipped or moved" in late.text


@pytest.mark.parametrize(
    ("text", "told"), [("team", "does not have the form NAME:VALUE"), ("a:1\na:2", "twice")]
)
def test_labels_that_would_be_lost_are_refused(
    admin: Browser, book: Book, text: str, told: str
) -> None:
    make(book)
    page = admin.send(admin.ok("/schedules/job/edit"), "/schedules/job/edit", labels=text)
    assert page.status == 422
    assert told in page.text


@pytest.mark.parametrize("action", ["move", "skip-next"])
def test_what_is_paused_has_no_next_due_time_to_change(
    operator: Browser, book: Book, action: str
) -> None:
    make(book)
    book.schedules.pause("job")
    page = operator.ok(f"/schedules/job/{action}")
    assert "There is no next due time. Current state: paused" in page.text
    assert 'class="primary"' not in page.source


def test_due_times_of_other_years_name_them_in_both_zones(viewer: Browser, book: Book) -> None:
    make(book, trigger={"cron": "0 3 29 2 *", "tz": "Asia/Tokyo"})
    years = [at.year for at in book.schedules.preview("job")]
    text = viewer.ok("/schedules/job").text
    assert all(f"28 Feb {year} 18:00" in text and f"29 Feb {year} 03:00" in text for year in years)


def test_a_run_now_is_queued_with_its_payload_and_taken_back(operator: Browser, book: Book) -> None:
    make(book)
    asked = operator.ok("/schedules/job/run")
    assert operator.send(asked, "/schedules/job/run", payload="[1]").status == 422
    done = operator.send(asked, "/schedules/job/run", payload='{"region": "north"}')
    (run,) = book.runs.list()
    assert run.payload == {"region": "north"}
    gone = operator.send(done, f"/runs/{run.id}/cancel")
    assert "Cancelled." in gone.text
    assert book.runs.get(run.id).status == "cancelled"


def test_a_backfill_may_run_beside_other_runs(operator: Browser, book: Book) -> None:
    book.schedules.create("job", trigger={"cron": "0 5 * * *"}, target={"command": ["true"]})
    action, today = "/schedules/job/backfill", book.insights.now().date()
    span = {"from": f"{today - timedelta(days=4)}T00:00", "to": f"{today}T00:00"}
    refused = operator.get(action, concurrency="2", **span)
    assert refused.status == 422
    assert "so its backfill runs one at a time" in refused.text
    wrong = operator.get(action, concurrency="many", **span)
    assert 'Concurrency "many" is not a whole number' in wrong.text
    asked = operator.ok(action, concurrency="2", beside="yes", **span)
    assert "Queue 4 runs" in asked.text
    done = operator.send(asked, action)
    assert "4 runs queued" in done.text
    (entry, *_) = book.audit.list(kind="schedule", subject="job")
    assert entry.after is not None
    assert (entry.after["concurrency"], entry.after["beside"]) == (2, True)


def test_a_backfill_is_counted_before_it_is_done(operator: Browser, book: Book) -> None:
    make(book, trigger={"every": "1h", "anchor": "2020-01-01T00:00:00Z"})
    now = datetime.now(UTC)
    span = {
        "from": f"{now - timedelta(hours=5):%Y-%m-%dT%H:%M}",
        "to": f"{now - timedelta(minutes=1):%Y-%m-%dT%H:%M}",
    }
    asked = operator.ok("/schedules/job/backfill", **span)
    assert "5 due times" in asked.text
    assert book.runs.list() == []
    posts = [
        form for form in asked.forms if form["method"] == "post" and "backfill" in form["action"]
    ]
    done = operator.client.post(
        posts[0]["action"], data=posts[0]["fields"], headers={"Origin": "http://127.0.0.1:7420"}
    )
    assert "5 runs queued" in done.text
    assert len(book.runs.list()) == 5
    begin(book.store)
    (claimed,) = claim(book.store)
    other = operator.ok(str(done.url))
    undone = operator.send(Page(done), "/schedules/job/undo-backfill")
    assert "4 runs cancelled; 1 run had already started." in undone.text
    late = operator.send(other, "/schedules/job/undo-backfill")
    assert "0 runs cancelled; 1 run had already started" in late.text
    assert [run.id for run in book.runs.list(status="running")] == [claimed.run.id]
    wrong = operator.get("/schedules/job/backfill", **(span | {"to": "2099-01-01T00:00"}))
    assert wrong.status == 422


def test_an_edit_shows_what_would_change_before_it_is_saved(admin: Browser, book: Book) -> None:
    make(book)
    page = admin.ok("/schedules/job/edit")
    wrong = admin.send(
        page, "/schedules/job/edit", trigger="99 * * * *", grace="soon", step="preview"
    )
    assert wrong.status == 422
    assert "soon" in wrong.text
    preview = admin.send(
        page, "/schedules/job/edit", trigger="0 9 * * *", labels="team:x", step="preview"
    )
    assert "removed" in preview.text
    assert "new" in preview.text
    assert book.schedules.get("job").version == 1
    saved = admin.send(preview, "/schedules/job/edit", step="save")
    assert "in use" in saved.text
    edited = book.schedules.get("job")
    assert edited.spec is not None
    assert (edited.version, edited.spec.trigger_text) == (2, "0 9 * * *")
    assert edited.spec.labels == (("team", "x"),)
    stale = admin.send(preview, "/schedules/job/edit", step="save", version="1", grace="2m")
    assert stale.status == 409
    assert saved.form("/schedules/job/version")["fields"]["version"] == "1"
    back = admin.send(saved, "/schedules/job/version")
    assert "earlier version" in back.text
    assert back.form("/schedules/job/version")["fields"]["version"] == "2"
    assert "Undo" not in admin.told("/schedules/job", done="edit", version="1").text
    assert book.schedules.get("job").spec.trigger_text == "30 2 * * *"  # type: ignore[union-attr]


def test_a_preview_tells_each_due_time_in_the_zone_of_its_definition(
    admin: Browser, book: Book
) -> None:
    make(book)
    trigger = '{"cron": "30 2 * * *", "tz": "Asia/Tokyo"}'
    page = admin.ok("/schedules/job/edit")
    shown = admin.send(page, "/schedules/job/edit", trigger=trigger, step="preview").text
    was, _, will = shown.partition("After")
    assert "02:30 New York" in was
    assert "02:30 Tokyo" in will
    assert "New York" not in will
    assert f"Duebook {__version__}" in will


def test_who_may_not_define_commands_cannot_edit_them(operator: Browser, book: Book) -> None:
    make(book, target={"shell": "true", "env": {"KEY": "s3cret"}})
    page = operator.ok("/schedules/job/edit")
    assert "target" not in page.form("/schedules/job/edit")["fields"]
    assert "s3cret" not in page.source
    refused = operator.send(
        page, "/schedules/job/edit", target='{"command": ["id"]}', step="save", version="1"
    )
    assert refused.status == 403
    kept = operator.send(page, "/schedules/job/edit", grace="2m", step="save")
    assert kept.status == 200
    target = book.schedules.get("job").spec.target  # type: ignore[union-attr]
    assert target.to_json()["env"] == {"KEY": "s3cret"}


def test_a_version_with_another_command_is_for_admins(
    admin: Browser, operator: Browser, book: Book
) -> None:
    make(book)
    book.schedules.update("job", target={"command": ["false"]})
    book.schedules.update("job", description="newest")
    link = "/schedules/job/version?version={}"
    assert link.format(1) not in operator.ok("/schedules/job").links
    assert link.format(2) in operator.ok("/schedules/job").links
    assert operator.get("/schedules/job/version", version=1).status == 403
    assert link.format(1) in admin.ok("/schedules/job").links
    asked = admin.ok("/schedules/job/version", version=1)
    assert "earlier version was restored" in admin.send(asked, "/schedules/job/version").text


def test_a_delete_is_asked_for(operator: Browser, book: Book) -> None:
    make(book)
    asked = operator.ok("/schedules/job/delete")
    assert "created again from its definition" in asked.text
    operator.send(asked, "/schedules/job/delete")
    assert book.schedules.list() == []


def test_why_it_did_not_run_is_told_in_a_sentence(viewer: Browser, book: Book) -> None:
    make(book)
    told = viewer.ok("/schedules/job", at="2020-01-01T12:00:00")
    assert "not due" in told.text or "begins" in told.text or "unknown" in told.text
    assert "is not a time" in viewer.ok("/schedules/job", at="<b>").text


def test_last_night_ends_now_at_the_latest() -> None:
    early, noon = (datetime(2026, 11, 16, hour, 30, tzinfo=UTC) for hour in (4, 12))
    night = _spans(Clock(early, "Europe/Brussels"), None)["Last night"]
    assert (night["from"], night["to"]) == ("2026-11-15T18:00", "2026-11-16T05:30:00")
    assert _spans(Clock(noon, "UTC"), None)["Last night"]["to"] == "2026-11-16T09:00"


def test_a_definition_is_told_field_by_field(viewer: Browser, book: Book) -> None:
    retry = {"attempts": 3, "delay": "10s"}
    make(book, target={"command": ["echo", "a b"]}, retry=retry, payload={"a": 1})
    source = viewer.ok("/schedules/job").source
    assert "<dt>Command</dt><dd><code>echo &#39;a b&#39;</code></dd>" in source
    assert "<dt>Retry › attempts</dt><dd><code>3</code></dd>" in source
    assert source.count("<dt>Payload</dt>") == 1


def test_what_was_done_is_not_said_when_somebody_took_it_back(viewer: Browser, book: Book) -> None:
    make(book)
    assert "Paused." not in viewer.told("/schedules/job", done="pause").text
    assert "Resumed" in viewer.told("/schedules/job", done="resume").text
    book.schedules.pause("job")
    assert "Paused." in viewer.told("/schedules/job", done="pause").text
    assert "Resumed" not in viewer.told("/schedules/job", done="resume").text


def test_the_run_that_stood_in_the_way_is_a_link(viewer: Browser, book: Book) -> None:
    make(book, trigger={"every": "1m"})
    run = book.schedules.trigger("job")
    due = book.schedules.get("job").next_due_at
    assert due is not None
    told = Explanation(due, "skipped", f"skipped: run {run.id[:13]} was <b>", other_run_id=run.id)
    link = f'<a class="id" href="/runs/{run.id}">{run.id[:13]}</a>'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duebook.book.schedules.Schedules.explain", lambda *_, **__: told)
        page = viewer.ok("/schedules/job", at="2026-01-01T00:00")
    assert f"skipped: run {link} was &lt;b&gt;" in page.source


def test_the_ledger_tells_both_zones_and_never_shows_a_failure_as_well(
    viewer: Browser, book: Book
) -> None:
    make(book)
    due = (datetime.now(UTC) - timedelta(days=3)).date()
    book.schedules.backfill("job", f"{due}T05:00:00Z", f"{due}T09:00:00Z")
    begin(book.store)
    (claimed,) = claim(book.store)
    settle(book.store, claimed.token, "failed", error="boom")
    at = claimed.run.due_at
    assert at is not None
    viewer.client.cookies.set("duebook_zone", "Asia/Tokyo")
    there = at.astimezone(ZoneInfo("Asia/Tokyo"))
    here = f"{at.astimezone(ZoneInfo(DAILY['tz'])):%H:%M}"  # 02:30, unless the clock left it out
    for query in (
        {"at": f"{there:%Y-%m-%dT%H:%M}"},
        {"from": f"{there:%Y-%m-%dT00:00}", "to": f"{there:%Y-%m-%dT23:59}"},
        {"at": f"{due}T{here}", "times": "schedule"},
    ):
        page = viewer.ok("/schedules/job", **query)
        ledger = page.source.partition('class="plain-list ledger"')[2].partition("</ol>")[0]
        assert "is-failed" in ledger, query
        assert "is-ran" not in ledger
        assert f"{there:%H:%M}" in ledger
        assert here in ledger
        assert "3 d" in ledger or "2 d" in ledger
        zone = "America/New_York" if "times" in query else "Asia/Tokyo"
        assert f"all times in {zone}" in page.text


def test_secrets_are_shown_nowhere_and_survive_an_edit(admin: Browser, book: Book) -> None:
    target = {"shell": "true", "env": {"KEY": "s3cret"}}
    make(book, target=target, payload={"token": "s3cret", "region": "north"})
    run = book.schedules.trigger("job")
    again = book.schedules.trigger("job", {"password": "s3cret"})
    for path in ("/schedules/job", f"/runs/{run.id}", f"/runs/{again.id}", "/audit"):
        assert "s3cret" not in admin.ok(path).source, path
    page = admin.ok("/schedules/job/edit")
    payload = '{"token": "***", "region": "south"}'
    preview = admin.send(page, "/schedules/job/edit", payload=payload, step="preview")
    assert "s3cret" not in page.source + preview.source
    admin.send(preview, "/schedules/job/edit", step="save")
    spec = book.schedules.get("job").spec
    assert spec is not None
    assert spec.payload == {"token": "s3cret", "region": "south"}
    assert spec.target.to_json()["env"] == {"KEY": "s3cret"}


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg/onload=alert(1)>',
    "javascript:alert(1)",
    "\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07",
    "\u202eevil",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_stay_words_on_every_page(admin: Browser, book: Book, text: str) -> None:
    make(book, description=text, labels={"x": text}, payload={"words": text})
    book.schedules.pause("job", reason=text.replace("\x1b", "").replace("\x07", ""))
    begin(book.store)
    run = book.schedules.trigger("job")
    (claimed,) = claim(book.store)
    settle(book.store, claimed.token, "failed", error=text, output='"<b>out</b>"')
    for path in (
        "/",
        "/schedules",
        "/schedules/job",
        "/schedules/job/edit",
        "/runs",
        f"/runs/{run.id}",
    ):
        page = admin.ok(path)
        for tag in ("<script>", "<img src=x", "<svg/onload", "<b>out"):
            assert tag not in page.source, path
        assert 'href="javascript' not in page.source
        assert "\x1b" not in page.source or path.endswith("edit")
        allowed = INLINE.sub("", page.source) if "javascript:" in text or "on" in text else None
        assert allowed is not None or not INLINE.search(page.source), path


def test_another_namespace_is_nowhere(app: App, book: Book) -> None:
    from tests.support.pages import Browser as AnyBrowser

    make(book)
    stranger = AnyBrowser(app, "admin@shop")
    assert stranger.get("/schedules/job").status == 404
    assert "job" not in stranger.ok("/schedules").links
    due = book.schedules.get("job").next_due_at
    assert due is not None
    assert format_instant(due)


def test_a_new_schedule_is_shown_before_it_is_made(admin: Browser, book: Book) -> None:
    page = admin.ok("/new")
    wrong = admin.send(page, "/new", name="Night!", trigger="99 * * * *", target="", grace="soon")
    assert wrong.status == 422
    for field in ("name", "trigger", "target", "grace"):
        assert f'id="field-{field}-problem"' in wrong.source, field
    filled = {"name": "night", "trigger": "30 2 * * *", "tz": "America/New_York"}
    command = {"target": '{"command": ["true"]}', "labels": "team:x"}
    shown = admin.send(wrong, "/new", **filled, **command, grace="", step="preview")
    assert "At 02:30 every day (America/New_York)" in shown.text
    assert shown.source.count("<li><time") == 10
    assert book.schedules.list() == []
    made = admin.send(shown, "/new", step="save")
    assert "Created." in made.text
    schedule = book.schedules.get("night")
    assert schedule.spec is not None
    assert (schedule.spec.tz, schedule.spec.labels) == ("America/New_York", (("team", "x"),))
    assert schedule.created_by == "token:admin"
    again = admin.send(shown, "/new", step="preview")
    assert (again.status, "already exists" in again.text) == (409, True)
    admin.send(made, "/schedules/night/delete")
    assert book.schedules.list() == []


def test_operators_make_schedules_for_known_tasks_only(operator: Browser, book: Book) -> None:
    info = SessionInfo("node-1", "host", 1, "worker", "0", "2026a", tasks=("copy",))
    book.store.transact(lambda tx: tx.nodes.begin_session(info, 60 * SECOND))
    page = operator.ok("/new")
    given = {"name": "job", "trigger": "@every 15m"}
    refused = operator.send(page, "/new", **given, target='{"command": ["id"]}', step="save")
    assert refused.status == 422
    assert "only an admin may define commands" in refused.text
    assert "Created." in operator.send(page, "/new", **given, target="copy", step="save").text


def test_a_deleted_schedule_is_made_again(admin: Browser, operator: Browser, book: Book) -> None:
    make(book, labels={"team": "x"})
    deleted = admin.send(admin.ok("/schedules/job/delete"), "/schedules/job/delete")
    assert "job was deleted." in deleted.text
    (form,) = [form for form in deleted.forms if form.get("action", "").endswith("/again")]
    back = admin.send(deleted, form["action"])
    assert "Created again" in back.text
    schedule = book.schedules.get("job")
    assert schedule.spec is not None
    assert (schedule.version, schedule.spec.labels) == (1, (("team", "x"),))
    gone = operator.send(operator.ok("/schedules/job/delete"), "/schedules/job/delete")
    assert "job was deleted." in gone.text
    assert not [form for form in gone.forms if form.get("action", "").endswith("/again")]
    csrf = gone.forms[0]["fields"]["csrf"]
    path = form["action"]
    assert operator.post(path, csrf=csrf, **{"as": "job"}).status == 403


def test_a_title_stands_where_people_look_and_is_edited(admin: Browser, book: Book) -> None:
    make(book, title="Daily <b>Cleanup</b>")
    make(book, "other")
    found = admin.ok("/schedules", text="cleanup</B>")
    assert "Daily <b>Cleanup</b>" in found.text
    assert "<b>Cleanup" not in found.source
    assert "/schedules/other" not in found.links
    page = admin.ok("/schedules/job")
    assert "<h1>Daily &lt;b&gt;Cleanup&lt;/b&gt;</h1>" in page.source
    assert "<h1>other</h1>" in admin.ok("/schedules/other").source
    edit = admin.ok("/schedules/job/edit")
    assert edit.form("/schedules/job/edit")["fields"]["title"] == "Daily <b>Cleanup</b>"
    preview = admin.send(edit, "/schedules/job/edit", title="Nightly Cleanup", step="preview")
    admin.send(preview, "/schedules/job/edit", step="save")
    assert "<h1>Nightly Cleanup</h1>" in admin.ok("/schedules/job").source
    fields = {"name": "third", "trigger": "0 9 * * *", "target": '{"command": ["true"]}'}
    new = admin.send(admin.ok("/new"), "/new", title="Third Job", step="save", **fields)
    assert "Third Job" in new.text


def test_an_edit_that_widens_catchup_leads_to_the_backfill(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = SqliteStore(tmp_path / "virtual.db", clock)
    admin = Browser(site_on(store), "admin")
    make(AnyBook(store), trigger={"every": "1h"}, catchup="skip")
    clock.advance(timedelta(hours=5))
    tick(store)
    edit = admin.ok("/schedules/job/edit")
    changes = {"catchup": "all", "catchup_window": "6h"}
    preview = admin.send(edit, "/schedules/job/edit", step="preview", **changes)
    assert "duebook backfill job --from " in preview.text
    saved = admin.send(preview, "/schedules/job/edit", step="save")
    (link,) = [x for x in saved.links if x.startswith("/schedules/job/backfill?")]
    assert "4 due times" in admin.ok(link).text
    assert "Backfill them" not in admin.told("/schedules/job", done="edit", since="<b>").text
    store.close()


def test_dependencies_are_links_in_both_directions(viewer: Browser, book: Book) -> None:
    job: dict[str, Any] = {"trigger": {"cron": "@daily"}, "target": {"command": ["true"]}}
    book.schedules.create("extract", **job)
    waits = [{"schedule": "extract", "within": "1h", "wait": "10m"}]
    book.schedules.create("load", **job, depends_on=waits)
    book.schedules.create("report", **job, depends_on=waits)
    page = viewer.ok("/schedules/load")
    assert "/schedules/extract" in page.links
    assert "Depends on extract success within 1 h, waits up to 10 min" in page.text
    page = viewer.ok("/schedules/extract")
    assert "Needed by load , report" in page.text
    assert {"/schedules/load", "/schedules/report"} <= set(page.links)
    book.schedules.delete("load")
    assert "Needed by report" in viewer.ok("/schedules/extract").text
    book.schedules.delete("extract")
    page = viewer.ok("/schedules/report")
    assert "extract does not exist" in page.text
    assert "/schedules/extract" not in page.links


def test_schedules_whose_last_run_failed_are_listed(
    operator: Browser, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(book.store)
    ended: tuple[tuple[str, list[Literal["failed", "succeeded"]]], ...] = (
        ("a", ["failed"]),
        ("b", ["failed", "succeeded"]),
        ("c", ["failed"]),
    )
    for name, outcomes in ended:
        book.schedules.create(name, trigger={"every": "10m"}, target=TRUE, labels={"team": name})
        for outcome in outcomes:
            book.schedules.trigger(name)
            (claimed,) = claim(book.store)
            settle(book.store, claimed.token, outcome)
    page = operator.ok("/schedules", last="failed")
    listed = [f"/schedules/{name}" in page.links for name in "abc"]
    assert listed == [True, False, True]
    assert not any("all=1" in link for link in page.links), "these are no filter of the database"
    assert "/schedules/c" not in operator.ok("/schedules", last="failed", label="team:a").links
    assert "No matching schedules" in operator.ok("/schedules", last="failed", target="flow").text
    assert "/schedules/a" in operator.ok("/schedules", last="failed", target="command").links
    monkeypatch.setattr("duebook.web.failing.PAGE", 1)
    first = operator.ok("/schedules", last="failed")
    (more,) = [link for link in first.links if "cursor=" in link]
    assert "/schedules/c" in operator.ok(more).links


def test_a_team_is_paused_for_two_hours(operator: Browser, book: Book) -> None:
    for name in ("a", "b"):
        book.schedules.create(name, trigger={"every": "10m"}, target=TRUE, labels={"team": "mail"})
    asked = operator.ok("/bulk", action="pause", all="1", label="team:mail")
    both = {"for": "2h", "until": "2031-01-01T00:00"}
    refused = operator.send(asked, "/bulk", **both)
    assert refused.status == 422
    assert "until cannot be combined" in refused.text
    before = book.insights.now()
    operator.send(asked, "/bulk", **{"for": "2h"})
    for schedule in book.schedules.list():
        assert schedule.paused_until is not None
        assert abs(schedule.paused_until - before - timedelta(hours=2)) < timedelta(minutes=5)


def test_one_schedule_is_paused_for_a_while(operator: Browser, book: Book) -> None:
    book.schedules.create("a", trigger={"every": "10m"}, target=TRUE)
    page = operator.ok("/schedules/a/pause")
    assert operator.send(page, "/schedules/a/pause", **{"for": "soon"}).status == 422
    operator.send(page, "/schedules/a/pause", **{"for": "30m"})
    assert book.schedules.get("a").paused_until is not None
