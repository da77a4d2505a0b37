"""Maintenance windows: the open, planned and past ones; planning and ending one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.errors import Conflict, Invalid, InvalidTrigger, NotFound, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.access import Role
from duebook.planner import DueTimes, instant_before
from duebook.triggers.typed_time import read_time
from duebook.triggers.zones import zone_name
from duebook.web.labels import read_pairs
from duebook.web.page_request import CurrentPage, Submitted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duebook.book import Book
    from duebook.budget import Budget
    from duebook.model.schedule import Schedule
    from duebook.model.window import MaintenanceWindow

__all__ = ["operations"]

operations = Operations("", "pages")

NAMED: Final = 5
"""Schedules that are listed beside each window."""
LISTED: Final = 20
"""Schedules that are listed in the preview."""
LOOKED: Final = 50
"""Windows whose schedules are looked up."""
GIVEN: Final = ("name", "labels", "from", "to", "tz")


@dataclass(frozen=True, slots=True)
class Row:
    """A window with some of the schedules that it pauses."""

    window: MaintenanceWindow
    schedules: list[str]
    more: bool


@operations("GET", "/windows", Role.VIEWER)
def get_windows(page: CurrentPage) -> Response:
    """The open, planned and past windows."""

    def load(book: Book) -> tuple[datetime, dict[str, list[Row]]]:
        now = book.insights.now()
        found: dict[str, list[Row]] = {"open": [], "planned": [], "over": []}
        looked = 0
        for window in book.windows.list():
            state = window.state(now)
            looks = state != "over" and looked < LOOKED
            looked += looks
            found[state].append(_row(book, window) if looks else Row(window, [], False))
        found["over"].reverse()
        return now, found

    now, found = page.shared(load)
    given = page.told
    done, name = given.get("done", ""), given.get("name", "")[:200]
    there = {row.window.name for state in ("open", "planned") for row in found[state]}
    planned = name if done == "planned" and name in there else ""
    ended = name if done == "ended" else ""
    return page.render("windows.html", now=now, found=found, planned=planned, ended=ended)


def _row(book: Book, window: MaintenanceWindow) -> Row:
    some = book.schedules.list(label=window.labels or None, limit=NAMED)
    return Row(window, [schedule.name for schedule in some], some.next_cursor is not None)


@operations("GET", "/windows/new", Role.OPERATOR)
def ask_add_window(page: CurrentPage) -> Response:
    """The form for a new window."""
    return _form_page(page, dict.fromkeys(GIVEN, "") | {"tz": page.zone})


@operations("POST", "/windows", Role.OPERATOR)
def do_add_window(page: CurrentPage, form: Submitted) -> Response:
    """Preview which schedules it would pause, or plan it."""
    given = {name: form[name] for name in GIVEN}

    def again(problem: str, status: int) -> Response:
        return _form_page(page, given, problem, status)

    def save(book: Book) -> Answer:
        start, end, labels = _read(given)
        made = book.windows.add(form["name"], start, end, labels)
        return page.go("windows", done="planned", name=made.name)

    def preview() -> Response:
        start, end, labels = _read(given)
        if start >= end:
            raise Invalid("to is not after from; choose a later end")
        return _form_page(page, given, selected=_selected(page, start, end, labels))

    if form["step"] == "save":
        return page.write(form, save, again)
    return page.attempt(preview, again)


def _read(given: Mapping[str, str]) -> tuple[datetime, datetime, dict[str, str]]:
    """The start, the end and the labels. Raises Invalid."""
    zone = _zone(given["tz"])
    ends = []
    for field in ("from", "to"):
        if not given[field]:
            raise Invalid(f"{field} is missing; choose a time")
        try:
            ends.append(read_time(given[field], zone).at)
        except Invalid as error:
            raise Invalid(f"{field}: {error}") from None
    return ends[0], ends[1], read_pairs(given["labels"])


def _zone(text: str) -> str:
    try:
        return zone_name(text or "UTC")
    except InvalidTrigger as error:
        raise Invalid(f"time zone: {error}") from None


def _selected(
    page: CurrentPage, start: datetime, end: datetime, labels: dict[str, str]
) -> dict[str, Any]:
    """Some schedules that a window would pause, each with its number of due times in the window."""
    with page.ask.computing() as book:
        found = book.schedules.list(label=labels or None, limit=LISTED)
        rows = [(one.name, _count(one, start, end, book.budget)) for one in found]
    return {"rows": rows, "more": found.next_cursor is not None, "start": start, "end": end}


def _count(schedule: Schedule, start: datetime, end: datetime, budget: Budget | None) -> int | None:
    """How many due times of a schedule fall into a window; None if its definition is unreadable."""
    if schedule.spec is None:
        return None
    due = DueTimes(schedule.spec, (), start, schedule.name, budget)
    return due.count(instant_before(start), instant_before(end))


def _form_page(
    page: CurrentPage,
    given: dict[str, str],
    problem: str = "",
    status: int = 200,
    selected: dict[str, Any] | None = None,
) -> Response:
    values = {"given": given, "problem": problem, "selected": selected}
    return page.render("window_new.html", status, **values)


@operations("GET", "/windows/{name}/end", Role.OPERATOR)
def ask_end_window(page: CurrentPage, name: str) -> Response:
    """Confirm ending it now, or deleting one that has not started."""
    return _ask_end(page, name)


@operations("POST", "/windows/{name}/end", Role.OPERATOR)
def do_end_window(page: CurrentPage, name: str, form: Submitted) -> Response:
    """End it now, or delete one that has not started."""

    def work(book: Book) -> Answer:
        window, state = _find(book, name)
        if form["state"] and form["state"] != state:
            raise Conflict(f'window "{window.name}" is {state} now')
        book.windows.remove(window.name)
        return page.go("windows", done="ended", name=window.name)

    return page.write(form, work, lambda problem, status: _ask_end(page, name, problem, status))


def _find(book: Book, name: str) -> tuple[MaintenanceWindow, str]:
    found = [window for window in book.windows.list() if window.name == name]
    if not found:
        raise NotFound(f'window "{shorten(name)}" does not exist')
    return found[0], found[0].state(book.insights.now())


def _ask_end(page: CurrentPage, name: str, problem: str = "", status: int = 200) -> Response:
    window, state = _find(page.book, name)
    values = {"window": window, "state": state, "problem": problem}
    return page.render("window_end.html", status, **values)
