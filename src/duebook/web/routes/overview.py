"""The overview, which shows at a glance what needs attention; and the list of namespaces."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from duebook.api.operations import Operations
from duebook.book.insights import EACH_COMING
from duebook.book.readiness import GRACE
from duebook.model.access import Role
from duebook.model.insight import fold_steps
from duebook.triggers.zones import local_datetime
from duebook.web.charts import time_line
from duebook.web.day_chart import day_chart, lateness_chart
from duebook.web.page_request import CurrentPage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from duebook.book import Book
    from duebook.model.insight import Coming, HourLoad, Overview

__all__ = ["operations"]

operations = Operations("", "pages")

MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)
NEARLY_AN_HOUR: Final = timedelta(minutes=59)
"""If less of the next hour is known, the page says so."""
MOST_FOLLOWED: Final = 5_000
"""Extrapolated due times that are drawn in addition to the computed ones."""
CARDS: Final = 24
"""Namespaces that are shown with a summary."""
LISTED: Final = 24
"""Schedules of the next hour that are listed."""


@operations("GET", "/", Role.VIEWER)
def get_overview(page: CurrentPage) -> Response:
    """What is running, what is due, and what went wrong."""
    calendar = page.request.app.state.calendar

    def load(book: Book) -> tuple[Overview, list[HourLoad]]:
        seen = book.insights.overview()
        return seen, calendar.last_day(page.ask.namespace, book.insights, seen.now)

    seen, day = page.shared(load)
    clock = page.clock(seen.now)
    until = min(seen.coming_until, seen.now + HOUR)
    coming = _by_schedule(seen.coming)
    whole = sum(_untold(until, times) for times in coming) <= MOST_FOLLOWED
    if whole:
        coming = [_up_to(until, times) for times in coming]
    every = [due for times in coming for due in times]
    line = time_line(every, seen.now, until, clock, lambda found: _address(page, found))
    missing = list(_missing(seen))
    troubles = (seen.failed, seen.late, seen.problems, seen.broken, seen.stranded, seen.held)
    amiss = (*troubles, seen.alerts, missing)
    cut = seen.coming_until < seen.now + NEARLY_AN_HOUR
    values: dict[str, Any] = {
        "seen": seen,
        "line": line,
        "day": day_chart(day, clock, page.url),
        "lateness": lateness_chart(day, clock, page.url),
        "late_complete": all(load.late_complete for load in day),
        "workers": [node for node in seen.nodes if node.serves(page.ask.namespace)],
        "well": not any(amiss),
        "cut": cut,
        "whole": whole,
        "missing": missing,
    }
    running, steps = fold_steps(seen.running)
    values |= {"running": running, "running_steps": steps}
    return page.render("overview.html", now=seen.now, coming=coming, listed=LISTED, **values)


def _address(page: CurrentPage, minute: Sequence[Coming]) -> str:
    """The URL of the list of what is due in a minute."""
    start = local_datetime(minute[0].at, page.zone).replace(second=0)
    span = {"from": start, "to": start + MINUTE}
    return page.url("due", **{name: f"{at:%Y-%m-%dT%H:%M}" for name, at in span.items()})


def _by_schedule(coming: Sequence[Coming]) -> list[list[Coming]]:
    """The due times of each schedule, ordered by the schedules' first due times."""
    found: dict[str, list[Coming]] = {}
    for due in coming:
        found.setdefault(due.schedule, []).append(due)
    return list(found.values())


def _up_to(until: datetime, times: list[Coming]) -> list[Coming]:
    """The due times of a schedule up to `until`; for one that is due so often that only the first
    ones are computed, the rest are extrapolated evenly."""
    last, step, rest = times[-1], _step(times), _untold(until, times)
    return times + [replace(last, at=last.at + (number + 1) * step) for number in range(rest)]


def _untold(until: datetime, times: list[Coming]) -> int:
    """How many due times follow the computed ones."""
    step = _step(times)
    return (until - times[-1].at) // step if len(times) >= EACH_COMING and step else 0


def _step(times: list[Coming]) -> timedelta:
    return (times[-1].at - times[0].at) / max(len(times) - 1, 1)


def _missing(seen: Overview) -> Iterator[str]:
    """Sentences about missing schedulers and workers, and what is delayed as a result."""
    if not seen.staff.lives:
        yield "No node is running, so nothing is planned or executed. Start one: duebook up."
        return
    if not seen.staff.plans:
        yield "No live node is a scheduler, so no due times are planned. Start one: duebook up."
    for load in seen.queues:
        if load.queued and load.queue.name not in seen.staff.queues:
            yield f"Runs are waiting in queue {load.queue.name}, which no live worker serves."
    if seen.unserved is not None and (seen.schedules or seen.queues):
        yield f"{seen.unserved[:1].upper()}{seen.unserved[1:]}."
    if any(due.at < seen.now - GRACE for due in seen.coming):
        yield "Some schedules are overdue."


@operations("GET", "/namespaces", Role.VIEWER)
def get_namespaces(page: CurrentPage) -> Response:
    """The namespaces that the viewer may see, the first ones with a summary."""
    caller = page.caller
    names = [name for name in page.book.insights.namespaces() if caller.sees(name)]
    own = () if caller.everywhere else caller.namespaces
    shown = sorted({*names, *own, page.ask.namespace})
    cards = [(name, page.book.insights.at(name).summary()) for name in shown[:CARDS]]
    return page.render("namespaces.html", cards=cards, others=shown[CARDS:])
