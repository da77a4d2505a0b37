"""The backfill of a schedule: a count first, then the runs; undoing it cancels waiting runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.errors import Invalid, shorten
from duebook.model.access import Role
from duebook.model.run import Run
from duebook.timetext import format_instant
from duebook.web.due_times import due_rows
from duebook.web.page_request import CurrentPage, Submitted
from duebook.web.undoing import mistyped, must_type

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duebook.book import Book

__all__ = ["operations"]

operations = Operations("/schedules/{name}", "pages")

FIELDS: Final = ("from", "to", "reprocess", "concurrency", "beside")
SAID: Final = 20
"""Due times of a backfill that are listed."""


@operations("GET", "/backfill", Role.OPERATOR)
def ask_backfill(
    page: CurrentPage,
    name: str,
    start: Annotated[str, Query(alias="from", max_length=40)] = "",
    end: Annotated[str, Query(alias="to", max_length=40)] = "",
    reprocess: Annotated[str, Query(max_length=10)] = "",
    concurrency: Annotated[str, Query(max_length=10)] = "",
    beside: Annotated[str, Query(max_length=10)] = "",
) -> Response:
    """Choose past due times, and count them."""
    schedule, problem, status = page.book.schedules.get(name), "", 200
    given = {"from": start, "to": end, "reprocess": reprocess}
    given |= {"concurrency": concurrency, "beside": beside}
    found: list[datetime] | None = None
    if start and end:
        try:
            span = (page.read_time("from", start), page.read_time("to", end))
            listed = page.book.schedules.backfill(name, *span, dry_run=True, **_filling(given))
            found = [at for at in listed if not hasattr(at, "id")]
        except Invalid as error:
            problem, status = str(error), 422
    return page.render(
        "backfill.html",
        status,
        schedule=schedule,
        found=found,
        shown=due_rows(schedule.spec, found[:SAID], found[0]) if found and schedule.spec else [],
        given=given,
        problem=problem,
        typed=must_type(len(found or ())),
    )


@operations("POST", "/backfill", Role.OPERATOR)
def do_backfill(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Queue runs for past due times."""
    given = {field: form[field] for field in FIELDS}

    def work(book: Book) -> Answer:
        span = (page.read_time("from", given["from"]), page.read_time("to", given["to"]))
        runs = book.schedules.backfill(name, *span, **_filling(given))
        queued_at = [run.ready_at for run in runs if isinstance(run, Run)]
        done = {"done": "backfill", "count": str(len(runs))}
        if queued_at:
            since, until = (format_instant(moment) for moment in span)
            done |= {"since": since, "until": until, "at": format_instant(queued_at[0])}
        return page.go("schedules", name, **done)

    def again(problem: str, status: int) -> Response:
        return page.render(
            "backfill.html",
            status,
            schedule=page.book.schedules.get(name),
            found=None,
            shown=[],
            given=given,
            problem=problem,
            typed=False,
        )

    def confirmed() -> Response:
        span = (page.read_time("from", given["from"]), page.read_time("to", given["to"]))
        counted = page.book.schedules.backfill(name, *span, dry_run=True, **_filling(given))
        if problem := mistyped(form, len(counted)):
            raise Invalid(problem)
        return page.write(form, work, again)

    return page.attempt(confirmed, again)


def _filling(given: Mapping[str, str]) -> dict[str, Any]:
    """The options of a backfill. Raises Invalid."""
    text = given["concurrency"]
    if text and not (text.isascii() and text.isdecimal()):
        raise Invalid(f'concurrency "{shorten(text)}" is not a whole number')
    return {
        "reprocess": given["reprocess"] or None,
        "concurrency": int(text) if text else None,
        "beside": bool(given["beside"]),
    }


@operations("POST", "/undo-backfill", Role.OPERATOR)
def do_undo_backfill(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Cancel its runs that have not started."""

    def work(book: Book) -> Answer:
        schedule, span = book.schedules.get(name), (form["since"], form["until"])
        undone = book.schedules.undo_backfill(schedule.id, *span, form["at"])
        told = {"cancelled": undone.cancelled, "begun": undone.begun}
        return page.go("schedules", schedule.name, done="undo-backfill", **told)

    return page.write(form, work)
