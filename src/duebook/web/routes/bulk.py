"""Pauses or resumes many schedules, selected ones or all that match a filter; asks first."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast, get_args

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.errors import Invalid, shorten
from duebook.model.access import Role
from duebook.web.page_request import CurrentPage, Submitted
from duebook.web.routes.schedules import FILTERS, PAGE, read_filters
from duebook.web.undoing import is_undo, mistyped, must_type, span, to_undo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duebook.book import Book

__all__ = ["ask_names", "operations"]

operations = Operations("/bulk", "pages")

MOST: Final = 200
Action = Literal["pause", "resume"]
LEFT: Final = "There may be more: these are the {} schedules of the newest runs."
NONE_CHOSEN: Final = "no schedule is selected; go back and select some, or use all"


@operations("GET", "", Role.OPERATOR)
def ask_bulk(
    page: CurrentPage,
    action: Annotated[Action, Query()] = "pause",
    names: Annotated[list[str] | None, Query(alias="name", max_length=MOST)] = None,
) -> Response:
    """Confirm it, showing how many schedules and which."""
    query = page.request.query_params
    filters = {name: query[name] for name in FILTERS if query.get(name)}
    if query.get("all") != "1":
        if names:
            return _page(page, action, len(names), names, names=names, filters=filters)
        return _page(page, action, 0, (), filters=filters, problem=NONE_CHOSEN, status=422)
    try:
        acted = page.book.insights.would_act(action, _filter(filters))
    except Invalid as error:
        return _page(page, action, 0, (), filters=filters, problem=str(error), status=422)
    return _page(page, action, acted.count, acted.names, filters=filters)


def ask_names(page: CurrentPage, names: Sequence[str], whole: bool = True) -> Response:
    """Confirm pausing the schedules of some runs, in the order of these; `whole` is False if there
    may be more."""
    few = sorted(names[:MOST])
    left = "" if whole and len(few) == len(names) else LEFT.format(len(few))
    return _page(page, "pause", len(few), few, names=few, hint=left)


@operations("POST", "", Role.OPERATOR)
def do_bulk(page: CurrentPage, form: Submitted) -> Response:
    """Do it. Raises Invalid for a form without an action or without schedules."""
    action = _action(form["action"])
    if is_undo(form):
        return _undo(page, form, action)
    names, reason = form.all("name")[:MOST], form.get("reason")
    filters = {name: form[name] for name in FILTERS if form[name]}
    if not names and form["all"] != "1":
        raise Invalid(NONE_CHOSEN)

    def chosen(book: Book) -> Answer:
        since = book.insights.now()
        done = book.schedules.act_on(action, names, reason, page.read_end(form, book))
        return _told(page, book, action, len(done), done, since)

    def found(book: Book) -> Answer:
        since = book.insights.now()
        acted = book.schedules.act(
            action, _filter(filters), reason=reason, until=page.read_end(form, book)
        )
        known = acted.names if len(acted.names) == acted.count else ()
        return _told(page, book, action, acted.count, known, since, filters)

    def again(problem: str, status: int) -> Response:
        count, shown = len(names), names
        if not names:
            acted = page.book.insights.would_act(action, _filter(filters))
            count, shown = acted.count, list(acted.names)
        given = {"reason": reason or "", "until": form["until"], "for": form["for"]}
        return _page(page, action, count, shown, names, filters, problem, status, given=given)

    count = len(names) or page.book.insights.would_act(action, _filter(filters)).count
    if problem := mistyped(form, count):
        return again(problem, 422)
    if names or count < MOST:
        return page.write(form, chosen if names else found, again)
    # in many transactions: submitting the form again does the rest
    return page.attempt(lambda: found(page.book).response(), again)


def _told(
    page: CurrentPage,
    book: Book,
    action: Action,
    count: int,
    names: Sequence[str],
    since: datetime,
    filters: Mapping[str, str] | None = None,
) -> Answer:
    """Go to the list, which reports what was done and offers undo, by name or by time range."""
    undone_by: dict[str, Any] = {"name": names} if len(names) <= PAGE else {}
    if count and not undone_by.get("name"):
        undone_by = span(book.insights.now, since)
    return page.go("schedules", done=f"{action}d", count=count, **undone_by, **(filters or {}))


def _undo(page: CurrentPage, form: Submitted, action: Action) -> Response:
    """Undo a bulk action in batches; submitting the form again does the rest."""
    book, count = page.book, 0
    wanted = list(to_undo(book, "schedule", action, form).items())
    for start in range(0, len(wanted), MOST):
        batch = wanted[start : start + MOST]
        living = book.insights.living([name for _, name in batch])
        same = [name for id_, name in batch if living.get(name) == id_]
        count += len(book.schedules.act_on(action, same))
    return page.go("schedules", done=f"{action}d", count=count).response()


def _action(text: str) -> Action:
    if text not in get_args(Action):
        raise Invalid(f'action "{shorten(text)}" is not one of {", ".join(get_args(Action))}')
    return cast("Action", text)


def _filter(filters: dict[str, str]) -> dict[str, Any]:
    return read_filters(**filters) or {"text": "*"}


def _command(action: Action, filters: dict[str, str]) -> str:
    """The equivalent shell command, in which typed values are quoted."""
    found = _filter(filters)
    words = ["duebook", action]
    if "problem" in found:
        words.append("--problem" if found["problem"] else "--no-problem")
    for name in ("label", "text", "status", "target"):
        values = found.get(name, [])
        for value in [values] if isinstance(values, str) else values:
            words += [f"--{name}", value]
    return shlex.join(words)


def _page(
    page: CurrentPage,
    action: Action,
    count: int,
    shown: Any,
    names: Any = (),
    filters: Any = None,
    problem: str = "",
    status: int = 200,
    given: Mapping[str, str] | None = None,
    hint: str = "",
) -> Response:
    return page.render(
        "bulk.html",
        status,
        action=action,
        count=count,
        shown=list(shown),
        names=list(names),
        filters=filters or {},
        cli=_command(action, filters or {}),
        problem=problem,
        given=given or {},
        hint=hint,
        typed=must_type(count),
    )
