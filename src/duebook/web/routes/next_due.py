"""Previews when a trigger would be due: a page that forms also show while a user types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from duebook.api.operations import Operations
from duebook.book.previewing import preview_times
from duebook.errors import DuebookError
from duebook.model.access import Role
from duebook.model.schedule import InvalidSchedule
from duebook.web.definitions import BLANK, FIELDS, TZ, definition_of
from duebook.web.due_times import due_rows
from duebook.web.kinds import read_kinds
from duebook.web.page_request import CurrentPage

if TYPE_CHECKING:
    from duebook.model.edited import Drafted

__all__ = ["operations"]

operations = Operations("", "pages")

COUNT: Final = 5
ABOUT_TIMES: Final = ("start_at", "end_at", "max_runs", "jitter", "exclude", "calendar")
LONGEST: Final = 4_000
ANYTHING: Final = {"event": {"topic": "any", "data": {}}}
"""A target that every user may choose; it never runs."""
NAMED: Final = "when-it-is-due"
"""Used if the form has no name; the values of `H` depend on the name."""


@operations("GET", "/next", Role.VIEWER)
def get_next(page: CurrentPage) -> Response:
    """The next due times of the trigger in the URL; nothing is created."""
    query = page.request.query_params
    sent = {name: query[name][:LONGEST] for name in query}
    given = {name: sent.get(name, "") for name in ("trigger", "trigger_kind", *ABOUT_TIMES)}
    given["tz"] = sent.get("tz", page.zone)
    given |= read_kinds({name: given[name] for name in ("trigger", "trigger_kind", "tz")})
    problems: dict[str, str] = {}
    draft: Drafted | None = None
    if given["trigger"]:
        try:
            draft = _look(page, given)
        except InvalidSchedule as error:
            problems = error.problems
        except DuebookError as error:
            problems = {"": str(error)}
    now = page.clock().now
    return page.render(
        "next.html",
        now=now,
        trigger=FIELDS[0],
        tz_field=TZ,
        given=BLANK | given,
        problems=problems,
        spec=draft.spec if draft else None,
        due=due_rows(draft.spec, draft.will_be_due, now) if draft else [],
        warnings=[w for t in draft.spec.triggers for w in t.warnings(now)] if draft else [],
    )


def _look(page: CurrentPage, given: dict[str, str]) -> Drafted:
    """A draft of a schedule with this trigger. Raises InvalidSchedule."""
    asked: dict[str, Any] = definition_of(
        {name: given[name] for name in ("trigger", "tz", *ABOUT_TIMES)}
    )
    with page.ask.computing() as book:
        asked["target"] = ANYTHING
        return preview_times(book.store, page.ask.namespace, NAMED, COUNT, book.budget, asked)
