"""Creating a schedule after a preview of its due times, and creating a deleted one again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.api.problems import problem_of
from duebook.errors import DuebookError, Forbidden, Invalid
from duebook.model.access import Role
from duebook.model.schedule import InvalidSchedule
from duebook.web.definitions import (
    ABOUT,
    BLANK,
    FIELDS,
    TZ,
    EditField,
    Unreadable,
    definition_of,
    texts_of_template,
)
from duebook.web.due_times import due_rows
from duebook.web.kinds import read_kinds
from duebook.web.known_names import known_names
from duebook.web.page_request import CurrentPage, Submitted

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.edited import Drafted

__all__ = ["operations"]

operations = Operations("", "pages")

NAME: Final = EditField(
    "name",
    hint="Lower-case letters, digits, dots, underscores and dashes",
    example="nightly-backup",
)
ASKED: Final = (NAME, TZ, *FIELDS)


@operations("GET", "/new", Role.OPERATOR)
def ask_new(page: CurrentPage, template: Annotated[str, Query(max_length=128)] = "") -> Response:
    """The form for a definition, empty or filled from a template."""
    fields = texts_of_template(page.book.templates.get(template).defaults) if template else BLANK
    return _page(page, fields | {"name": "", "tz": page.zone})


@operations("POST", "/new", Role.OPERATOR)
def do_new(page: CurrentPage, form: Submitted) -> Response:
    """Preview when it would be due, or create it."""
    given = {field.name: form[field.name] for field in ASKED} | read_kinds(form.texts)
    name = given["name"]
    try:
        definition = definition_of(given)
        if form["step"] != "save":
            with page.ask.computing() as book:
                return _page(page, given, book.schedules.preview_create(name, **definition))
        return page.write(form, lambda book: _made(page, book, "create", name, definition))
    except Unreadable as error:
        with page.ask.computing() as book:
            told = error.with_others(lambda rest: book.schedules.preview_create(name, **rest))
        return _page(page, given, problems=told, status=422)
    except InvalidSchedule as error:
        return _page(page, given, problems=error.problems, status=422)
    except Forbidden as error:
        return _page(page, given, problems={"target": str(error)}, status=422)
    except DuebookError as error:
        problem = problem_of(error)
        return _page(page, given, problems={"": problem.detail}, status=problem.status)


@operations("POST", "/schedules/{name}/again", Role.OPERATOR)
def do_again(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Create a deleted schedule again, with its latest definition; `name` is its id."""
    spec = page.book.schedules.revisions(name)[-1].spec
    if spec is None:
        raise Invalid(
            "its definition was written by a newer version of Duebook; create it again with "
            "that version"
        )
    definition = spec.to_json()
    return page.write(form, lambda book: _made(page, book, "again", form["as"], definition))


def _made(
    page: CurrentPage, book: Book, done: str, name: str, definition: dict[str, Any]
) -> Answer:
    made = book.schedules.create(name, **definition)
    return page.go("schedules", made.name, done=done)


def _page(
    page: CurrentPage,
    given: dict[str, str],
    draft: Drafted | None = None,
    problems: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    now = page.clock().now
    return page.render(
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
        known=known_names(page),
        templates=[one.name for one in page.book.templates.list()],
    )
