"""A new schedule: when it would be due, and making it; one that was deleted is made again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.problems import problem_of
from duebook.errors import DuebookError, Forbidden, Invalid
from duebook.model.access import Role
from duebook.model.schedule import InvalidSchedule
from duebook.web.definitions import ABOUT, BLANK, FIELDS, TZ, EditField, definition_of
from duebook.web.due_times import due_rows
from duebook.web.visits import Submitted, Visiting

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.edited import Drafted

__all__ = ["operations"]

operations = Operations("", "pages")

NAME: Final = EditField(
    "name", hint="Small letters, digits, dots and dashes", example="nightly-backup"
)
ASKED: Final = (NAME, TZ, *FIELDS)


@operations("GET", "/new", Role.OPERATOR, None)
def ask_new(visit: Visiting) -> Response:
    """The fields of a definition."""
    return _page(visit, BLANK | {"name": "", "tz": visit.zone})


@operations("POST", "/new", Role.OPERATOR, None)
def do_new(visit: Visiting, form: Submitted) -> Response:
    """Show when it would be due, or make it."""
    given = {field.name: form[field.name] for field in ASKED}
    name = given["name"]
    try:
        definition = definition_of(given)
        if form["step"] != "save":
            with visit.ask.computing() as book:
                return _page(visit, given, book.schedules.preview_create(name, **definition))
        return visit.write(form, lambda book: _made(visit, book, "create", name, definition))
    except InvalidSchedule as error:
        return _page(visit, given, problems=error.problems, status=422)
    except Forbidden as error:
        return _page(visit, given, problems={"target": str(error)}, status=422)
    except DuebookError as error:
        problem = problem_of(error)
        return _page(visit, given, problems={"": problem.detail}, status=problem.status)


@operations("POST", "/schedules/{name}/again", Role.OPERATOR, None)
def do_again(visit: Visiting, name: str, form: Submitted) -> Response:
    """Make one that was deleted again, with its latest definition; `name` is its id."""
    spec = visit.book.schedules.revisions(name)[-1].spec
    if spec is None:
        raise Invalid("its definition was written by a newer Duebook, which can make it again")
    definition = spec.to_json()
    return visit.write(form, lambda book: _made(visit, book, "again", form["as"], definition))


def _made(visit: Visiting, book: Book, done: str, name: str, definition: dict[str, Any]) -> Answer:
    made = book.schedules.create(name, **definition)
    return visit.go("schedules", made.name, done=done)


def _page(
    visit: Visiting,
    given: dict[str, str],
    draft: Drafted | None = None,
    problems: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    now = visit.clock().now
    return visit.render(
        "new.html",
        status,
        now=now,
        name_field=NAME,
        tz_field=TZ,
        fields=FIELDS,
        about=ABOUT,
        policies=[field.name for field in FIELDS[ABOUT:]],
        given=given,
        draft=draft,
        due=due_rows(draft.spec, draft.will_be_due, now) if draft else [],
        warnings=[w for t in draft.spec.triggers for w in t.warnings(now)] if draft else [],
        problems=problems or {},
    )
