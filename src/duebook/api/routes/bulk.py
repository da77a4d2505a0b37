"""Many schedules at once: made together, or acted on by a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.asking import Here, Writing
from duebook.api.bodies import read_fields
from duebook.api.operations import V1, Operations
from duebook.api.schemas.bulk import Acted, BulkAction, BulkCreation, Created
from duebook.errors import Invalid, shorten
from duebook.model.access import Role
from duebook.model.acted import ACTIONS
from duebook.model.codec import encode
from duebook.model.fields import one_of, read_flag, read_instant, read_text
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.schedule import Schedule

__all__ = ["operations"]

operations = Operations(f"{V1}/bulk", "bulk")


@operations(
    "POST",
    "/schedules",
    Role.OPERATOR,
    Created,
    body=BulkCreation,
    status=201,
    errors=(409,),
    bulk=True,
)
def create_schedules(ask: Writing) -> Response:
    """Up to 10,000 new schedules, all or none.

    What is wrong with any of them is named as `schedules[17].trigger`.
    """
    given = read_fields(ask.body, {"schedules": _read_list}, required=("schedules",))

    def work(book: Book) -> Answer:
        made = book.schedules.create_many(given["schedules"])
        return Answer({"count": len(made), "items": [_brief(one) for one in made]}, 201)

    return ask.write(work)


@operations("POST", "/actions", Role.OPERATOR, Acted, body=BulkAction)
def act_on_schedules(ask: Here) -> Response:
    """Pause, resume, delete, trigger or skip the next due time of all that a filter finds.

    With `dry_run` nothing happens but the count. It is done in batches: after a failure, the same
    request does the rest.
    """
    ask.refuse_key()
    readers = {
        "action": one_of(ACTIONS),
        "filter": _read_object,
        "dry_run": read_flag,
        "reason": read_text,
        "until": read_instant,
    }
    given = read_fields(ask.body, readers, required=("action", "filter"))
    return Answer(encode(ask.book.schedules.act(**given))).response()


def _read_list(key: str, value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    raise Invalid(f"{key} {shorten(value)} is no list")


def _read_object(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise Invalid(f'{key} {shorten(value)} is no object such as {{"label": "team:sales"}}')


def _brief(schedule: Schedule) -> dict[str, Any]:
    due = schedule.next_due_at
    return {
        "id": schedule.id,
        "name": schedule.name,
        "status": schedule.status,
        "next_due_at": None if due is None else format_instant(due),
    }
