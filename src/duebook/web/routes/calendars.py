"""Calendars: the list, the days of one, and editing it after a preview of what moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.errors import Conflict, NotFound, shorten
from duebook.model.access import Role
from duebook.model.calendar import definition_text, load_rule, referred
from duebook.model.calendar_days import FIRST_DAY, LAST_DAY
from duebook.triggers.zones import local_datetime
from duebook.web.calendar_forms import BLANK, FIELDS, WITHOUT, definition_of, texts_of
from duebook.web.changes import form_changes
from duebook.web.months import (
    SHOWN,
    first_month,
    month_after,
    months_from,
    next_inside,
    next_outside,
    span,
)
from duebook.web.notices import count_of
from duebook.web.page_request import CurrentPage, Form, Submitted

if TYPE_CHECKING:
    from datetime import date

    from duebook.book import Book
    from duebook.model.calendar import Calendar, CalendarEdit

__all__ = ["operations"]

operations = Operations("", "pages")

MOST: Final = 50
"""Versions, schedules that use it, and moved schedules that are shown."""
Text = Annotated[str, Query(max_length=20)]


def _today(page: CurrentPage) -> date:
    clock = page.clock()
    return local_datetime(clock.now, clock.zone).date()


@operations("GET", "/calendars", Role.VIEWER)
def get_calendars(page: CurrentPage) -> Response:
    """The calendars, with their definitions and how many schedules use them."""
    found, users = page.shared(lambda book: (book.calendars.list(), book.insights.calendar_users()))
    today = _today(page)
    rows = [
        {
            "calendar": calendar,
            "about": definition_text(calendar.definition),
            "inside": _words(next_inside(calendar.days, today), today),
            "outside": _words(next_outside(calendar.days, today), today),
            "users": users.get(calendar.name, 0),
            "others": [o.name for o in found if calendar.name in referred(o.definition)],
        }
        for calendar in found
    ]
    deleted = page.told.get("deleted", "")[:200]
    return page.render("calendars.html", rows=rows, deleted=deleted)


def _words(days: Any, today: date) -> str:
    return "none within 400 days" if days is None else span(days, today)


@operations("GET", "/calendars/{name}", Role.VIEWER)
def get_calendar_page(
    page: CurrentPage, name: str, month: Annotated[str, Query(alias="from", max_length=7)] = ""
) -> Response:
    """A calendar: its definition, its days, its versions and the schedules that use it."""
    seen = page.shared(lambda book: book.insights.calendar(name, MOST))
    today = _today(page)
    first = first_month(month, today)
    earlier, later = month_after(first, -SHOWN), month_after(first, SHOWN)
    found = seen.calendar
    given = page.told
    saved = count_of(given.get("version")) if given.get("done") == "saved" else 0
    return page.render(
        "calendar_page.html",
        now=seen.now,
        seen=seen,
        calendar=found,
        about={version.version: definition_text(version.definition) for version in seen.versions},
        today=today,
        months=months_from(found.days, first),
        earlier=f"{earlier:%Y-%m}" if first > FIRST_DAY else "",
        later=f"{later:%Y-%m}" if later <= LAST_DAY else "",
        inside=_words(next_inside(found.days, today), today),
        outside=_words(next_outside(found.days, today), today),
        saved=saved if saved == found.version else 0,
    )


# -- create and edit: first a preview, then the new days


@operations("GET", "/new-calendar", Role.OPERATOR)
def ask_create_calendar(page: CurrentPage) -> Response:
    """The form for a new calendar."""
    return _form_page(page, "", BLANK)


@operations("POST", "/new-calendar", Role.OPERATOR)
def do_create_calendar(page: CurrentPage, form: Submitted) -> Response:
    """Preview its days, or create it."""
    return _change(page, form, form["name"], None)


@operations("GET", "/calendars/{name}/edit", Role.OPERATOR)
def ask_edit_calendar(page: CurrentPage, name: str, version: Text = "") -> Response:
    """The form with its definition, or with that of an earlier `version`."""
    seen = page.book.insights.calendar(name, MOST)
    wanted = [c for c in seen.versions if str(c.version) == version] if version else seen.versions
    if not wanted:
        raise NotFound(f'calendar "{name}" has no version "{shorten(version)}"')
    earlier = version if wanted[0].version != seen.calendar.version else ""
    texts = texts_of(wanted[0].definition)
    return _form_page(page, name, texts, current=seen.calendar, earlier=earlier)


@operations("POST", "/calendars/{name}/edit", Role.OPERATOR)
def do_edit_calendar(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Show what moves, or save the definition."""
    return _change(page, form, name, page.book.calendars.get(name))


def _change(page: CurrentPage, form: Form, name: str, current: Calendar | None) -> Response:
    given = {field.name: form[field.name] for field in (*FIELDS, *WITHOUT)}
    definition = definition_of(given)

    def again(problem: str, status: int) -> Response:
        return _form_page(page, name, given, problem, status, current)

    def save(book: Book) -> Answer:
        saved = book.calendars.save(name, version=count_of(form["version"]), **definition)
        return page.go("calendars", saved.name, done="saved", version=saved.version)

    def preview() -> Response:
        with page.ask.computing() as book:
            edit = book.calendars.preview(name, **definition)
        if current is None and edit.version:
            raise Conflict(f'calendar "{name}" already exists; edit it, or choose another name')
        return _preview_page(page, given, definition, edit, current)

    if form["step"] == "edit":
        return again("", 200)
    if form["step"] == "save":
        return page.write(form, save, again)
    return page.attempt(preview, again)


def _form_page(
    page: CurrentPage,
    name: str,
    given: dict[str, str],
    problem: str = "",
    status: int = 200,
    current: Calendar | None = None,
    earlier: str = "",
) -> Response:
    return page.render(
        "calendar_edit.html",
        status,
        name=name,
        current=current,
        earlier=earlier,
        fields=FIELDS,
        without=WITHOUT,
        excepts=any(given[field.name] for field in WITHOUT),
        given=given,
        problem=problem,
    )


def _preview_page(
    page: CurrentPage,
    given: dict[str, str],
    definition: dict[str, Any],
    edit: CalendarEdit,
    current: Calendar | None,
) -> Response:
    today = _today(page)
    before = current.definition if current else {}
    changes = form_changes(before, load_rule(definition).to_json())
    return page.render(
        "calendar_preview.html",
        edit=edit,
        current=current,
        given=given,
        changes=changes,
        differs=bool(changes or edit.added or edit.removed),
        added=[span(days, today) for days in edit.added],
        removed=[span(days, today) for days in edit.removed],
        most=MOST,
    )


@operations("GET", "/calendars/{name}/delete", Role.OPERATOR)
def ask_delete_calendar(page: CurrentPage, name: str) -> Response:
    """Confirm deleting it, or show what prevents that."""
    return _ask_delete(page, name)


@operations("POST", "/calendars/{name}/delete", Role.OPERATOR)
def do_delete_calendar(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Delete a calendar that nothing uses."""

    def work(book: Book) -> Answer:
        book.calendars.remove(name)
        return page.go("calendars", deleted=name)

    return page.write(form, work, lambda problem, status: _ask_delete(page, name, problem, status))


def _ask_delete(page: CurrentPage, name: str, problem: str = "", status: int = 200) -> Response:
    seen = page.book.insights.calendar(name, MOST)
    return page.render("calendar_delete.html", status, seen=seen, problem=problem)
