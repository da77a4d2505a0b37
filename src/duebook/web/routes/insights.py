"""The load calendar, nodes and queues, the doctor, and statistics of a schedule's runs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.model.access import Role
from duebook.model.statistics import MEASURED, by_day, figures
from duebook.triggers.zones import local_datetime, tzdata_version
from duebook.web.charts import duration_chart, success_chart
from duebook.web.forecast import HOUR
from duebook.web.heat_map import heat_map
from duebook.web.page_request import CurrentPage, Form, Submitted
from duebook.web.routes.queues import queue_notice
from duebook.web.week import DAYS, fullest, week_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.book import Book
    from duebook.web.forecast import Week

__all__ = ["operations"]

operations = Operations("", "pages")

AMISS: Final = timedelta(seconds=2)
"""A clock that is off by more is marked."""


@operations("GET", "/calendar", Role.VIEWER)
def get_calendar(page: CurrentPage) -> Response:
    """The load of each hour, in the past and in the coming week."""
    calendar = page.request.app.state.calendar

    def load(_: Book) -> Week:
        with page.ask.computing() as book:
            found: Week = calendar.week(page.ask.namespace, book.insights, book.budget)
            return found

    week = page.shared(load)
    clock = page.clock()
    today = local_datetime(clock.now, clock.zone).date()
    return page.render(
        "calendar.html",
        now=clock.now,
        week=week,
        today=today,
        coming=week_table(week.coming, today, clock.zone),
        past=week_table(week.past, today - timedelta(days=DAYS - 1), clock.zone),
        fullest_coming=fullest(week.coming),
        fullest_past=fullest(week.past),
        workers=max((load.busy / HOUR for load in week.coming), default=0.0),
    )


@operations("GET", "/nodes", Role.VIEWER)
def get_nodes(page: CurrentPage) -> Response:
    """The nodes that use this database, and the queues with their waiting runs."""
    nodes, queues = page.shared(lambda book: (book.nodes.list(), book.queues.list()))
    return page.render(
        "nodes.html",
        nodes=nodes,
        queues=queues,
        versions={node.version for node in nodes},
        tzdata={node.tzdata for node in nodes},
        here=tzdata_version(),
        amiss=AMISS,
        told=queue_notice(page) if page.may(Role.ADMIN) else {},
    )


@operations("GET", "/nodes/{node}/drain", Role.ADMIN, everywhere=True)
def ask_drain(page: CurrentPage, node: str) -> Response:
    """Confirm draining a node, or undoing that."""
    found = next((one for one in page.book.nodes.list() if one.id == node), None)
    return page.render("node_drain.html", 200 if found else 404, node=found)


@operations("POST", "/nodes/{node}/drain", Role.ADMIN, everywhere=True)
def do_drain(page: CurrentPage, node: str, form: Submitted) -> Response:
    """Drain a node: it starts no more runs."""
    return _drained(page, form, lambda book: book.nodes.drain(node, form["stop"] == "1"))


@operations("POST", "/nodes/{node}/undrain", Role.ADMIN, everywhere=True)
def do_undrain(page: CurrentPage, node: str, form: Submitted) -> Response:
    """Let a drained node start runs again."""
    return _drained(page, form, lambda book: book.nodes.undrain(node))


def _drained(page: CurrentPage, form: Form, work: Callable[[Book], object]) -> Response:
    def once(book: Book) -> Answer:
        work(book)
        return page.go("nodes")

    def again(problem: str, status: int) -> Response:
        return page.render("refused.html", status, problem=problem, back=("nodes",))

    return page.write(form, once, again)


@operations("GET", "/doctor", Role.VIEWER, everywhere=True)
def get_doctor(page: CurrentPage) -> Response:
    """Problems of nodes, schedules and the database, with remedies."""
    with page.ask.computing() as book:
        found = book.doctor.examine()
    return page.render("doctor.html", now=found.checked_at, found=found, fixed=False)


@operations("GET", "/doctor/repair", Role.ADMIN, everywhere=True)
def ask_repair(page: CurrentPage) -> Response:
    """Confirm repairing what is safe to repair."""
    with page.ask.computing() as book:
        found = book.doctor.examine()
    return page.render("doctor_repair.html", now=found.checked_at, found=found)


@operations("POST", "/doctor/repair", Role.ADMIN, everywhere=True)
def do_repair(page: CurrentPage, form: Submitted) -> Response:
    """Repair what is safe to repair, and show what is left."""
    del form  # its CSRF token was checked
    with page.ask.computing() as book:
        found = book.doctor.repair()
    return page.render("doctor.html", now=found.checked_at, found=found, fixed=True)


@operations("GET", "/schedules/{name}/analytics", Role.VIEWER)
def get_analytics(page: CurrentPage, name: str) -> Response:
    """Lateness, percentiles of duration, success over time."""
    schedule, marks = page.shared(
        lambda book: (book.schedules.get(name), book.insights.marks(name, MEASURED))
    )
    clock = page.clock()
    days = by_day(marks, clock.zone)
    return page.render(
        "analytics.html",
        now=clock.now,
        schedule=schedule,
        whole=figures(marks),
        days=days,
        heat=heat_map(marks, clock),
        chart=duration_chart(marks[-200:], clock, lambda id_: page.url("runs", id_)),
        success=success_chart(days),
        since=marks[0].at if marks else None,
        most=MEASURED,
    )
