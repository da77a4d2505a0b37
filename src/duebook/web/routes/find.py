"""Finds schedules, flows, runs, views and pages by a part of their names, for the palette."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from starlette.responses import Response

from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.errors import Invalid, NotFound
from duebook.model.access import Role
from duebook.web.page_request import CurrentPage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.book import Book

__all__ = ["operations"]

operations = Operations("", "pages")

EACH: Final = 8
"""Results of each kind."""
MOST_FLOWS: Final = 1_000
RUN_ID: Final = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.IGNORECASE)
PAGES: Final = (
    ("Overview", (), Role.VIEWER),
    ("Schedules", ("schedules",), Role.VIEWER),
    ("New schedule", ("new",), Role.OPERATOR),
    ("When would a trigger be due?", ("next",), Role.VIEWER),
    ("Runs", ("runs",), Role.VIEWER),
    ("Failures by cause", ("failures",), Role.VIEWER),
    ("Compare two runs", ("compare",), Role.VIEWER),
    ("Flows", ("flows",), Role.VIEWER),
    ("Load", ("calendar",), Role.VIEWER),
    ("Due in the next hour", ("due",), Role.VIEWER),
    ("Simulate", ("simulate",), Role.OPERATOR),
    ("Spread", ("spread",), Role.OPERATOR),
    ("Calendars", ("calendars",), Role.VIEWER),
    ("Maintenance windows", ("windows",), Role.VIEWER),
    ("Plan a maintenance window", ("windows", "new"), Role.OPERATOR),
    ("Alerts", ("alerts",), Role.VIEWER),
    ("Events", ("events",), Role.VIEWER),
    ("Nodes and queues", ("nodes",), Role.VIEWER),
    ("Namespaces", ("namespaces",), Role.VIEWER),
    ("Saved views", ("views",), Role.VIEWER),
    ("Changes", ("audit",), Role.ADMIN),
)
ACTIONS: Final = (
    ("Run now", "run"),
    ("Pause", "pause"),
    ("Edit", "edit"),
    ("Backfill", "backfill"),
)
"""Actions for operators that are offered if exactly one schedule is found."""


class Found(NamedTuple):
    """A result that links to a page."""

    kind: str
    words: str
    place: str


@operations("GET", "/find", Role.VIEWER)
def get_find(page: CurrentPage, text: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Everything with the text in its name; without a text, the views and pages."""
    wanted = " ".join(text.lower().split())
    found = list(_find(page, wanted))
    return page.render("find.html", text=text, found=found)


def _find(page: CurrentPage, wanted: str) -> Iterator[Found]:
    book = page.book
    if wanted:
        yield from _schedules(page, book, wanted)
        yield from _runs(page, book, wanted)
        names = [flow.name for flow in book.flows.list(MOST_FLOWS) if wanted in flow.name.lower()]
        for name in names[:EACH]:
            yield Found("flow", name, page.url("flows", name))
    for view in page.views:
        if wanted in view.name.lower():
            yield Found("view", view.name, view.place)
    for words, parts, role in PAGES:
        if wanted in words.lower() and page.may(role):
            yield Found("page", words, page.url(*parts))


def _schedules(page: CurrentPage, book: Book, wanted: str) -> Iterator[Found]:
    """Schedules with the text in name or title; an exact or single match also offers actions."""
    try:
        names = [found.name for found in book.schedules.list(text=wanted, limit=EACH)]
    except Invalid:
        return
    for name in names:
        yield Found("schedule", name, page.url("schedules", name))
    exact = wanted if wanted in names else names[0] if len(names) == 1 else ""
    if exact and page.may(Role.OPERATOR):
        for words, action in ACTIONS:
            yield Found("action", f"{words}: {exact}", page.url("schedules", exact, action))


def _runs(page: CurrentPage, book: Book, wanted: str) -> Iterator[Found]:
    """The run whose id starts with the text."""
    if not RUN_ID.fullmatch(wanted):
        return
    try:
        run = book.runs.get(wanted)
    except (Invalid, NotFound):
        return
    name = run.schedule or run.flow or run.task or run.id
    yield Found("run", f"{name} {run.state}", page.url("runs", run.id))
