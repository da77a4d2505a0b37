"""Calendars, maintenance windows and iCal feeds on the dashboard."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.model.calendar_days import DaySet
from duebook.web.months import first_month, months_from, next_inside, next_outside, span

if TYPE_CHECKING:
    from duebook.book import Book
    from tests.support.pages import Browser

DAILY: dict[str, Any] = {"trigger": {"daily": "09:00"}, "target": {"command": ["true"]}}
EDIT = "/calendars/closing/edit"


def day_after(days: int) -> date:
    return datetime.now(UTC).date() + timedelta(days=days)


def minute_after(**length: int) -> str:
    return f"{datetime.now(UTC) + timedelta(**length):%Y-%m-%dT%H:%M}"


@pytest.fixture
def closing(book: Book) -> None:
    """A calendar that a schedule and another calendar use."""
    book.calendars.save("closing", dates=[str(day_after(3))])
    book.calendars.save("open", weekdays="MON-SUN", without={"calendars": "closing"})
    rule = {"except": "closing", "roll": "next"}
    book.schedules.create("report", calendar=rule, labels={"team": "x"}, **DAILY)


# -- calendars


@pytest.mark.usefixtures("closing")
def test_the_list_and_the_page_of_a_calendar(viewer: Browser) -> None:
    listed = viewer.ok("/calendars")
    assert "1 schedule, 1 calendar" in listed.text
    assert "weekdays MON, TUE, WED, THU, FRI and 2 more, without calendars closing" in listed.text
    assert "(in 3 d)" in listed.text
    assert "/new-calendar" not in listed.links
    page = viewer.ok("/calendars/closing")
    assert {"/schedules/report", "/calendars/open"} <= set(page.links)
    assert "on all days except its days; other due times move to the next open day" in page.text
    assert page.source.count('class="inside"') == 1
    assert "1: saved" in page.text
    assert EDIT not in page.links
    assert "/calendars/closing" in viewer.ok("/schedules/report").links
    assert viewer.get("/calendars/nothing").status == 404


def test_the_list_has_calendars_of_ical_files(viewer: Browser, book: Book) -> None:
    book.calendars.save("file", ical="BEGIN:VEVENT\nDTSTART:20300404\nEND:VEVENT")
    assert "an iCal file" in viewer.ok("/calendars").text


@pytest.mark.usefixtures("closing")
def test_an_edit_shows_what_moves_before_it_is_saved(operator: Browser, book: Book) -> None:
    asked = operator.ok(EDIT)
    days = f"{day_after(3)}\r\n{day_after(5)}"
    shown = operator.send(asked, EDIT, dates=days, step="preview")
    assert "Saving moves due times of 1 schedule." in shown.text
    assert "(in 5 d)" in shown.text
    gone = f"{day_after(5)}T09:00:00Z"
    assert gone in shown.source.partition("Due times that move")[2]
    assert book.calendars.get("closing").version == 1, "nothing is saved yet"
    assert operator.send(shown, EDIT, step="edit").form(EDIT)["fields"]["dates"].split() == (
        days.split()
    )
    done = operator.send(shown, EDIT, step="save")
    assert "Saved as version 2." in done.text
    assert f"{EDIT}?version=1" in done.links
    assert book.calendars.days("closing") == [str(day_after(3)), str(day_after(5))]
    again = operator.send(operator.ok(EDIT, version="1"), EDIT, step="preview")
    assert "Days it loses" in again.text
    assert "Saved as version 3." in operator.send(again, EDIT, step="save").text
    assert operator.get(EDIT, version="9").status == 404


@pytest.mark.usefixtures("closing")
def test_a_preview_of_another_version_saves_nothing(operator: Browser, book: Book) -> None:
    shown = operator.send(operator.ok(EDIT), EDIT, weekdays="SUN", step="preview")
    book.calendars.save("closing", dates=[str(day_after(9))])
    late = operator.send(shown, EDIT, step="save")
    assert late.status == 409
    assert "has version 2, not 1" in late.text
    assert late.form(EDIT)["fields"]["weekdays"] == "SUN"


@pytest.mark.usefixtures("closing")
def test_a_preview_says_that_nothing_changes(operator: Browser) -> None:
    shown = operator.send(operator.ok(EDIT), EDIT, step="preview")
    assert "No changes" in shown.text
    assert 'value="save"' not in shown.source


def test_a_calendar_is_created_from_every_source(operator: Browser, book: Book) -> None:
    book.calendars.save("others", dates="2030-05-01")
    given = {
        "name": "all",
        "dates": "2030-01-01, 2030-02-01/2030-02-03",
        "weekdays": "SAT,SUN",
        "rrule": "FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=3",
        "calendars": "others",
        "ical": "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20300404\r\n"
        "END:VEVENT\r\nEND:VCALENDAR",
        "without_dates": "2030-01-05",
    }
    shown = operator.send(operator.ok("/new-calendar"), "/new-calendar", step="preview", **given)
    assert "Create all?" in shown.text, shown.text
    done = operator.send(shown, "/new-calendar", step="save")
    assert "Created." in done.text
    days = book.calendars.days("all", "2030-01-01", "2030-05-01")
    assert {"2030-01-01", "2030-02-02", "2030-03-03", "2030-04-04", "2030-05-01"} <= set(days)
    assert "2030-01-05" not in days
    assert operator.send(operator.ok("/calendars/all/edit"), "/calendars/all/edit").text.count(
        "No changes"
    ), "the form shows the definition as it is"


@pytest.mark.parametrize(
    ("given", "status", "told"),
    [
        ({"name": "Bad Name", "weekdays": "SUN"}, 422, "Bad Name"),
        ({"name": "days"}, 422, "A calendar needs at least one of"),
        ({"name": "days", "weekdays": "SOMEDAY"}, 422, "is not a weekday MON to SUN"),
        ({"name": "closing", "weekdays": "SUN"}, 409, "already exists; edit it"),
    ],
)
@pytest.mark.usefixtures("closing")
def test_a_wrong_calendar_is_refused_beside_the_form(
    operator: Browser, given: dict[str, str], status: int, told: str
) -> None:
    page = operator.send(operator.ok("/new-calendar"), "/new-calendar", step="preview", **given)
    assert page.status == status
    assert told in page.text
    assert page.form("/new-calendar")["fields"]["name"] == given["name"]


@pytest.mark.usefixtures("closing")
def test_a_calendar_in_use_is_not_deleted(operator: Browser, book: Book) -> None:
    action = "/calendars/closing/delete"
    asked = operator.ok(action)
    assert {"/schedules/report/edit", "/calendars/open/edit"} <= set(asked.links)
    assert not asked.sends(action)
    free = operator.ok("/calendars/open/delete")
    book.schedules.create("late", calendar={"only": "open"}, **DAILY)
    refused = operator.send(free, "/calendars/open/delete")
    assert refused.status == 409
    assert 'is used by schedule "late"' in refused.text
    book.schedules.delete("late")
    gone = operator.send(operator.ok("/calendars/open/delete"), "/calendars/open/delete")
    assert "Calendar open deleted." in gone.text
    assert [calendar.name for calendar in book.calendars.list()] == ["closing"]


def test_days_are_told_in_words() -> None:
    tuesday = date(2026, 11, 17)
    weekend = DaySet.of(date(2026, 11, 21) + timedelta(days=n) for n in (0, 1, 7, 8))
    inside, outside = next_inside(weekend, tuesday), next_outside(weekend, tuesday)
    assert inside is not None
    assert outside is not None
    assert span(inside, tuesday) == "Sat 21 Nov to Sun 22 Nov (in 4 d)"
    assert span(outside, tuesday) == "Tue 17 Nov to Fri 20 Nov (today)"
    assert span("2027-01-01", tuesday) == "Fri 1 Jan 2027 (in 45 d)"
    assert span("2026-11-10/2026-11-15", tuesday) == "Tue 10 Nov to Sun 15 Nov (2 d ago)"
    assert next_inside(DaySet.of(()), tuesday) is None


def test_months_stay_within_what_calendars_know() -> None:
    today = date(2026, 11, 17)
    assert first_month("", today) == first_month("nonsense", today) == date(2026, 11, 1)
    assert first_month("1800-01", today) == date(2000, 1, 1)
    none = DaySet.of(())
    assert len(months_from(none, date(2026, 11, 1))) == 6
    assert len(months_from(none, date(2099, 11, 1))) == 2


# -- maintenance windows


@pytest.mark.usefixtures("closing")
def test_a_window_is_planned_after_a_look_at_what_it_pauses(operator: Browser, book: Book) -> None:
    given = {"name": "db upgrade", "labels": "team:x", "tz": "Europe/Brussels"}
    span = {"from": f"{day_after(10)}T08:00", "to": f"{day_after(11)}T08:00"}
    asked = operator.ok("/windows/new")
    shown = operator.send(asked, "/windows", step="preview", **given, **span)
    assert "Pauses 1 schedule" in shown.text
    assert "report 1 due time in the window" in shown.text
    assert book.windows.list() == []
    done = operator.send(shown, "/windows", step="save")
    assert "Window “db upgrade” planned." in done.text
    (window,) = book.windows.list()
    assert (window.labels, window.created_by) == ({"team": "x"}, "token:operator")
    assert window.start_at.hour in (6, 7), "by the clocks of Brussels"
    undone = operator.send(done, "/windows/db%20upgrade/end")
    assert "Window “db upgrade” ended." in undone.text
    assert book.windows.list() == []


@pytest.mark.usefixtures("closing")
def test_windows_are_listed_by_their_state(viewer: Browser, operator: Browser, book: Book) -> None:
    now = book.insights.now()
    book.windows.add("soon", now + timedelta(hours=3), now + timedelta(hours=4), {"team": "x"})
    book.windows.add("now", now - timedelta(hours=1), now + timedelta(hours=1))
    book.windows.add("later", now + timedelta(days=3), now + timedelta(days=4), {"team": "y"})
    page = viewer.ok("/windows")
    opened, _, planned = page.text.partition("Open now")[2].partition("Planned No")
    assert not planned
    assert opened.index("now") < opened.index("soon") < opened.index("later")
    assert "no schedule has these labels yet" in page.text
    assert not any(link.endswith("/end") for link in page.links)
    for path, told in (("/", "all schedules"), ("/schedules/report", "this schedule")):
        text = viewer.ok(path).text
        assert f"Maintenance window “now” pauses {told} until" in text
        assert "Maintenance window “soon” will pause" in text
        assert "later" not in text
    ended = operator.send(operator.ok("/windows/now/end"), "/windows/now/end")
    assert "Past" in ended.text
    assert "window “now”" not in viewer.ok("/schedules/report").text
    over = operator.ok("/windows/now/end")
    assert "The window is over." in over.text
    assert not over.sends("/windows/now/end")
    assert operator.get("/windows/nothing/end").status == 404


def test_a_window_that_started_meanwhile_is_not_deleted_unseen(
    operator: Browser, book: Book
) -> None:
    now = book.insights.now()
    book.windows.add("w", now + timedelta(hours=3), now + timedelta(hours=4))
    asked = operator.ok("/windows/w/end")
    book.windows.remove("w")
    book.windows.add("w", now - timedelta(hours=1), now + timedelta(hours=4))
    late = operator.send(asked, "/windows/w/end")
    assert late.status == 409
    assert "is open now" in late.text


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"to": ""}, "To is missing; choose a time"),
        ({"from": "soon"}, "From: "),
        ({"to": "2020-01-01T00:00"}, "To is not after from"),
        ({"tz": "Mars/Olympus"}, "Time zone: "),
        ({"labels": "team"}, "is not NAME:VALUE, such as team:data"),
        ({"labels": "team:x team:y"}, "appears twice"),
        ({"name": "a/b", "step": "save"}, "without a slash"),
    ],
)
def test_a_wrong_window_is_refused_beside_the_form(
    operator: Browser, book: Book, changes: dict[str, str], told: str
) -> None:
    given = {"name": "w", "from": minute_after(days=1), "to": minute_after(days=2), "tz": "UTC"}
    fields = {"step": "preview"} | given | changes
    page = operator.send(operator.ok("/windows/new"), "/windows", **fields)
    assert page.status == 422
    assert told in page.text
    assert page.form("/windows")["fields"]["name"] == fields["name"]
    assert book.windows.list() == []


@pytest.mark.usefixtures("closing")
def test_the_next_hour_is_shown_without_what_a_window_pauses(viewer: Browser, book: Book) -> None:
    now = book.insights.now()
    book.schedules.create("busy", trigger={"every": "5m"}, target=DAILY["target"])
    assert "and 11 more times" in viewer.ok("/").text
    book.windows.add("w", now + timedelta(minutes=7), now + timedelta(hours=2))
    text = viewer.ok("/").text
    assert "busy" in text
    assert "more times" not in text


# -- feeds


def test_a_feed_is_shown_once_and_revoked(admin: Browser, book: Book) -> None:
    asked = admin.ok("/feeds/new")
    made = admin.send(asked, "/feeds", name="team", labels="team:x")
    assert "Feed team created. Copy its address now" in made.text
    path = made.source.partition("/api/v1/schedules.ics?token=")[2].partition("<")[0]
    answer = admin.client.get(f"/api/v1/schedules.ics?token={path}")
    assert answer.text.startswith("BEGIN:VCALENDAR")
    listed = admin.ok("/feeds")
    assert path not in listed.source
    assert "team:x" in listed.text
    taken = admin.send(asked, "/feeds", name="team", labels="")
    assert taken.status == 409
    assert "already exists; revoke it" in taken.text
    admin.send(admin.ok("/feeds/team/revoke"), "/feeds/team/revoke")
    assert book.feeds.list() == []
    assert admin.client.get(f"/api/v1/schedules.ics?token={path}").status_code == 401
    assert admin.get("/feeds/team/revoke").status == 404


def test_only_admins_find_the_feeds(admin: Browser, operator: Browser) -> None:
    assert "/feeds" in admin.ok("/calendars").links
    assert "/feeds" not in operator.ok("/calendars").links
