"""Lists the schedules that are due in a future time range, such as an hour of the load."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

from starlette.responses import Response

from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.api.problems import problem_of
from duebook.errors import Invalid, OverBudget
from duebook.lazy_dataclasses import dataclass
from duebook.model.access import Role
from duebook.planner import DueTimes, instant_before
from duebook.web.page_request import CurrentPage

if TYPE_CHECKING:
    from collections.abc import Hashable
    from datetime import datetime

    from duebook.book import Book
    from duebook.model.insight import Planned

__all__ = ["operations"]

operations = Operations("", "pages")

PORTION: Final = 500
MOST_LOOKED: Final = 1_000
"""Schedules that are looked at for one page."""
LISTED: Final = 100
"""Schedules on a page."""
COUNTED: Final = 1_000
"""Due times of one schedule that are counted."""
LONGEST: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Row:
    """A schedule with its due times in the range."""

    name: str
    tz: str
    first: datetime
    count: int

    @property
    def whole(self) -> bool:
        return self.count < COUNTED


@operations("GET", "/due", Role.VIEWER)
def get_due(
    page: CurrentPage,
    since: Annotated[str | None, Query(alias="from", max_length=40)] = None,
    to: Annotated[str | None, Query(max_length=40)] = None,
    after: Annotated[str, Query(max_length=128)] = "",
) -> Response:
    """The schedules that are due between two times, by name; by default in the next hour."""
    wrong, status = "", 200
    rows: list[Row] = []
    left: str | None = None
    start = end = page.clock().now
    try:
        start, end = _stretch(page, since, to)
        with page.ask.computing() as book:
            rows, left = _find(book, start, end, after)
    except Invalid as error:
        wrong, status = str(error), problem_of(error).status
    return page.render(
        "due.html",
        status,
        rows=rows,
        left=left,
        first=not after,
        over=end <= start and not wrong,
        start=start,
        end=end,
        wrong=wrong,
        asked={"from": since or "", "to": to or ""},
    )


def _stretch(page: CurrentPage, since: str | None, to: str | None) -> tuple[datetime, datetime]:
    """Start and end of the range. Raises Invalid."""
    now = page.book.insights.now()
    start = page.read_time("from", since) if since else now
    end = page.read_time("to", to) if to else start + timedelta(hours=1)
    if end <= start:
        raise Invalid("to is not after from; choose a later end")
    if end - start > LONGEST:
        raise Invalid("the period must be at most one day")
    return max(start, now), max(end, now)


def _find(book: Book, start: datetime, end: datetime, after: str) -> tuple[list[Row], str | None]:
    """A page of schedules, and the name after which the next page starts; None on the last."""
    rows: list[Row] = []
    place: str | None = after if end > start else None
    left = MOST_LOOKED
    until = instant_before(end)
    known: dict[Hashable, tuple[datetime, ...]] = {}
    while place is not None:
        planned, following = book.insights.planned(place, PORTION)
        for schedule in planned:
            try:
                row = _row(book, schedule, start, until, known)
            except OverBudget:
                return rows, place or None
            rows += [] if row is None else [row]
            place = schedule.name
            if len(rows) == LISTED:
                return rows, place
        place, left = following, left - PORTION
        if left <= 0:
            return rows, place
    return rows, None


def _row(
    book: Book,
    planned: Planned,
    start: datetime,
    until: datetime,
    known: dict[Hashable, tuple[datetime, ...]],
) -> Row | None:
    """None if it is not due then; schedules that are due at the same times are computed once."""
    spec = planned.spec
    days = (spec.triggers, spec.exclude, spec.calendar, spec.start_at, spec.end_at, spec.jitter)
    own = (planned.exceptions, planned.windows, planned.name if spec.jitter else "")
    found = known.get((days, own))
    if found is None:
        due_times = DueTimes(
            spec, planned.exceptions, start, planned.name, book.budget, planned.windows
        ).among(instant_before(start), until)
        found = known[days, own] = tuple(islice(due_times, COUNTED))
    return Row(planned.name, spec.tz, found[0], len(found)) if found else None
