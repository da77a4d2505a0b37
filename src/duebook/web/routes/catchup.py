"""Missed due times that wait for an operator: a page that counts what a choice affects, and a
form that submits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.errors import Conflict, Invalid
from duebook.model.access import Role
from duebook.timetext import format_instant
from duebook.web.page_request import CurrentPage, Submitted
from duebook.web.undoing import mistyped, must_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.book import Book
    from duebook.model.held import CatchupDecision

__all__ = ["operations"]

operations = Operations("/schedules/{name}", "pages")

Text = Annotated[str, Query(max_length=40)]


@operations("GET", "/catchup", Role.OPERATOR)
def ask_catchup(
    page: CurrentPage,
    name: str,
    decide: Text = "",
    newest: Text = "",
    start: Annotated[str, Query(alias="from", max_length=40)] = "",
    end: Annotated[str, Query(alias="to", max_length=40)] = "",
    rest: Text = "",
) -> Response:
    """The held due times, and how many a choice would affect."""
    given = {"decide": decide, "newest": newest, "from": start, "to": end, "rest": rest}
    tried, problem, status = None, "", 200
    if decide:
        try:
            tried = _decide(page, page.book, name, given, dry_run=True)
        except (Conflict, Invalid) as error:
            problem, status = str(error), 422 if isinstance(error, Invalid) else 409
    return _show(page, name, given, problem, status, tried)


@operations("POST", "/catchup", Role.OPERATOR)
def do_catchup(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Approve or reject held due times."""
    given = {field: form[field] for field in ("decide", "newest", "from", "to", "rest")}

    def work(book: Book) -> Answer:
        done = _decide(page, book, name, given)
        if not done.approved:
            return page.go("schedules", name, done="reject", count=done.rejected)
        since, until = format_instant(done.due_from), format_instant(done.due_to)
        span = {"since": since, "until": until}
        at = done.queued_at and format_instant(done.queued_at)
        told = {"count": done.approved, "rejected": done.rejected or None}
        return page.go("schedules", name, done="approve", at=at, **span, **told)

    def again(problem: str, status: int) -> Response:
        return _show(page, name, given, problem, status)

    try:
        tried = _decide(page, page.book, name, given, dry_run=True)
    except (Conflict, Invalid):  # the write reports why, or that the form was sent before
        return page.write(form, work, again)
    if problem := mistyped(form, _chosen(tried)):
        return _show(page, name, given, problem, 422, tried)
    return page.write(form, work, again)


def _chosen(tried: CatchupDecision | None) -> int:
    return 0 if tried is None else tried.approved or tried.rejected


def _decide(
    page: CurrentPage, book: Book, name: str, given: Mapping[str, str], dry_run: bool = False
) -> CatchupDecision:
    """Approve or reject as the form says. Raises Invalid for a choice that cannot be read."""
    span: dict[str, Any] = {}
    for key, field in (("start", "from"), ("end", "to")):
        span[key] = page.read_time(field, given[field]) if given[field] else None
    if given["decide"] == "approve":
        newest = _number(given["newest"]) if given["newest"] else None
        rest = given["rest"] == "reject"
        return book.catchup.approve(name, **span, newest=newest, reject_rest=rest, dry_run=dry_run)
    if given["decide"] != "reject":
        raise Invalid("choose approve or reject")
    if given["newest"]:
        raise Invalid("only an approval can choose the newest; give a period to reject")
    return book.catchup.reject(name, **span, dry_run=dry_run)


def _number(text: str) -> int:
    if text.isascii() and text.isdecimal():
        return int(text)
    raise Invalid("newest is not a whole number")


def _show(
    page: CurrentPage,
    name: str,
    given: Mapping[str, str],
    problem: str,
    status: int,
    tried: CatchupDecision | None = None,
) -> Response:
    schedule = page.book.schedules.get(name)
    held = page.book.catchup.list(schedule.id)
    values: dict[str, Any] = {"given": given, "problem": problem, "tried": tried}
    values["typed"] = must_type(_chosen(tried))
    return page.render("catchup.html", status, schedule=schedule, held=held, **values)
