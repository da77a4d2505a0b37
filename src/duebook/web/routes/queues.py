"""Sets the limits of a queue, and holds and releases the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.errors import Invalid, shorten
from duebook.ids import check_name
from duebook.model.access import Role
from duebook.model.queue import Queue, QueueLoad
from duebook.web.page_request import CurrentPage, Form, Submitted

if TYPE_CHECKING:
    from duebook.book import Book

__all__ = ["operations", "queue_notice"]

operations = Operations("/queues", "pages")

ACTIONS: Final = {"save": "saved", "hold": "held", "release": "released", "free": "freed"}
LOOKED: Final = 20
"""Audit entries that are searched for the limit before a hold."""


@operations("GET", "/{name}", Role.ADMIN, everywhere=True)
def ask_limits(page: CurrentPage, name: str) -> Response:
    """The form for the limits of a queue."""
    check_name(name, "queue")
    return _page(page, name)


@operations("POST", "/{name}", Role.ADMIN, everywhere=True)
def do_limit(page: CurrentPage, name: str, form: Submitted) -> Response:
    """Set the limits, hold the queue, release it, or remove the limits."""
    check_name(name, "queue")
    if form["action"] not in ACTIONS:
        raise Invalid(f'action "{shorten(form["action"])}" is not one of {", ".join(ACTIONS)}')

    def again(problem: str, status: int) -> Response:
        return _page(page, name, form, problem, status)

    return page.write(form, lambda book: _change(page, book, name, form), again)


def _change(page: CurrentPage, book: Book, name: str, form: Form) -> Answer:
    """Do it, and go to the list, which offers undo."""
    was, action = _load(book, name).queue, form["action"]
    concurrency, rate = _wanted(form, was)
    if concurrency is None and rate is None:
        if was.concurrency is not None or was.rate is not None:
            book.queues.free(name)
    else:
        book.queues.limit(name, concurrency, rate)
    limits = {"concurrency": was.concurrency, "rate": was.rate and str(was.rate)}
    known = {key: str(value) for key, value in limits.items() if value is not None}
    return page.go("nodes", done=ACTIONS[action], queue=name, **known)


def _wanted(form: Form, was: Queue) -> tuple[int | None, str | None]:
    """The limits that a form asks for. Raises Invalid."""
    rate = None if was.rate is None else str(was.rate)
    match form["action"]:
        case "hold":
            return 0, rate
        case "free":
            return None, None
        case _:
            return _number(form["concurrency"]), form.get("rate")


def _number(text: str) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise Invalid(f'concurrency "{shorten(text)}" is not a whole number') from None


def _load(book: Book, name: str) -> QueueLoad:
    found = (load for load in book.queues.list() if load.queue.name == name)
    return next(found, QueueLoad(Queue(name), 0, 0))


def _page(
    page: CurrentPage, name: str, form: Form | None = None, problem: str = "", status: int = 200
) -> Response:
    load = _load(page.book, name)
    held = load.queue.concurrency == 0
    concurrency = _before_hold(page.book, name) if held else load.queue.concurrency
    given = {"concurrency": "" if concurrency is None else str(concurrency)}
    given["rate"] = "" if load.queue.rate is None else str(load.queue.rate)
    if form is not None:
        given = {field: form[field] for field in given}
    return page.render(
        "queue.html", status, load=load, held=held, given=given, problem=problem, name=name
    )


def _before_hold(book: Book, name: str) -> int | None:
    """The concurrency before the hold; None if it was unlimited, or not in the latest entries."""
    for change in book.audit.list("queue", name, limit=LOOKED, everywhere=True):
        former = (change.before or {}).get("concurrency")
        if (change.after or {}).get("concurrency") == 0 and former != 0:
            return int(former) if former is not None else None
    return None


def queue_notice(page: CurrentPage) -> dict[str, str]:
    """What was done to a queue, with the fields of the undo form; empty if nothing was done."""
    given = page.told
    done, name = given.get("done", ""), given.get("queue", "")[:128]
    if done not in ACTIONS.values() or not name:
        return {}
    fields = {field: given.get(field, "")[:40] for field in ("concurrency", "rate")}
    return {"done": done, "queue": name, "action": "save"} | fields
