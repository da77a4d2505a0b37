"""Schedules: list, create, read, replace, change, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from starlette.responses import Response

from duebook.api.answers import Answer, about_schedule, listed
from duebook.api.asking import Here, Version, Writing
from duebook.api.bodies import read_definition
from duebook.api.operations import V1, Operations
from duebook.api.problems import VersionNeeded
from duebook.api.schemas.definitions import ScheduleChange, ScheduleCreation, ScheduleReplacement
from duebook.api.schemas.schedules import ScheduleList, ScheduleShape
from duebook.model.forms import schedule_form

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.schedule import Schedule

from duebook.model.access import Role

__all__ = ["operations"]

operations = Operations(f"{V1}/schedules", "schedules")


@operations("GET", "", Role.VIEWER, ScheduleList)
def list_schedules(
    ask: Here, limit: Annotated[int, Query(ge=1, le=1000, description="At most.")] = 100
) -> Response:
    """The schedules of a namespace, by name."""
    return listed(
        [schedule_form(found) for found in ask.book.schedules.list(limit=limit)]
    ).response()


@operations(
    "POST", "", Role.OPERATOR, ScheduleShape, body=ScheduleCreation, status=201, errors=(404, 409)
)
def create_schedule(ask: Writing) -> Response:
    """A new schedule, from a trigger, a target and policies.

    `cron` may stand for the trigger, with `tz` beside it. Commands and requests need an admin;
    operators name tasks that workers know. `enabled: false` creates it paused.
    """
    given = dict(ask.body)
    name = given.pop("name", None)
    definition, enabled = read_definition(given)
    if "target" in definition:
        ask.refuse_target(definition["target"])

    def work(book: Book) -> Answer:
        made = book.schedules.create(name, **definition)
        return about_schedule(_switched(book, made, enabled), 201)

    return ask.write(work)


@operations("GET", "/{name}", Role.VIEWER, ScheduleShape, errors=(404,))
def get_schedule(ask: Here, name: str) -> Response:
    """One schedule by its name or id, with its latest run."""
    return about_schedule(ask.book.schedules.get(name)).response()


@operations(
    "PUT",
    "/{name}",
    Role.OPERATOR,
    ScheduleShape,
    body=ScheduleReplacement,
    errors=(404, 409, 428),
)
def replace_schedule(ask: Here, name: str, version: Version) -> Response:
    """Replace the whole definition of a schedule.

    Needs the version that it replaces, in `If-Match` or `version`; answers 409 when that is not
    the latest.
    """
    if version is None:
        raise VersionNeeded('say which version you replace: If-Match: "3", or "version": 3')
    definition, enabled = read_definition(ask.body)
    _refuse_target(ask, name, definition)

    def work(book: Book) -> Answer:
        changed = book.schedules.replace(name, version=version, **definition)
        return about_schedule(_switched(book, changed, enabled))

    return ask.write(work)


@operations(
    "PATCH", "/{name}", Role.OPERATOR, ScheduleShape, body=ScheduleChange, errors=(404, 409)
)
def change_schedule(ask: Here, name: str, version: Version) -> Response:
    """Change some fields of a definition; null puts a policy back to its default.

    `If-Match` or `version` is optional; with it, 409 when it is not the latest.
    """
    changes, enabled = read_definition(ask.body)
    _refuse_target(ask, name, changes)

    def work(book: Book) -> Answer:
        changed = book.schedules.update(name, version=version, **changes)
        return about_schedule(_switched(book, changed, enabled))

    return ask.write(work)


@operations("DELETE", "/{name}", Role.OPERATOR, None, status=204, errors=(404, 409))
def delete_schedule(ask: Here, name: str, version: Version) -> Response:
    """Delete a schedule: queued runs are cancelled, running ones finish, the name is free.

    Its runs and its ledger can still be read.
    """
    ask.book.schedules.delete(name, version)
    return Answer().response()


def _switched(book: Book, schedule: Schedule, enabled: bool | None) -> Schedule:
    """The schedule paused or resumed, unless it is so already."""
    if enabled is False and schedule.status == "active":
        return book.schedules.pause(schedule.id)
    if enabled is True and schedule.status == "paused":
        return book.schedules.resume(schedule.id)
    return schedule


def _refuse_target(ask: Here, name: str, given: dict[str, Any]) -> None:
    if given.get("target") is not None and ask.caller.role < Role.ADMIN:
        spec = ask.book.schedules.get(name).spec
        ask.refuse_target(given["target"], spec and spec.target)
