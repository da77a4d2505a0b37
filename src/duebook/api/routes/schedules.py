"""Schedules: list, create, read, replace, change, delete."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from starlette.responses import Response

from duebook.api.answers import Answer, about_schedule, paged
from duebook.api.asking import Cursor, Here, Limit, Version, Writing
from duebook.api.bodies import read_definition
from duebook.api.operations import V1, Operations
from duebook.api.parameters import Query
from duebook.api.problems import VersionNeeded
from duebook.api.schemas.definitions import ScheduleChange, ScheduleCreation, ScheduleReplacement
from duebook.api.schemas.schedules import ScheduleList, ScheduleShape
from duebook.model.access import Role
from duebook.model.codec import encode
from duebook.model.filters import ScheduleSort, Status

__all__ = ["operations"]

operations = Operations(f"{V1}/schedules", "schedules")


@operations("GET", "", Role.VIEWER, ScheduleList)
def list_schedules(
    ask: Here,
    status: Annotated[Status | None, Query()] = None,
    label: Annotated[
        list[str] | None, Query(description="`team:sales`; several must all be there.")
    ] = None,
    text: Annotated[
        str | None,
        Query(description="A part of the name or title, or the beginning of the name: `etl-*`."),
    ] = None,
    due_before: Annotated[str | None, Query(description="Active, and due before this.")] = None,
    target: Annotated[
        str | None,
        Query(
            description="What they run: `task`, `task:digest`, `flow`, `flow:etl`, `command`, "
            "`http`, `event`."
        ),
    ] = None,
    problem: Annotated[bool | None, Query(description="Whether something is wrong.")] = None,
    sort: Annotated[ScheduleSort, Query()] = "name",
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """The schedules of a namespace, each with its latest run."""
    read = partial(
        ask.book.schedules.list,
        sort=sort,
        status=status,
        label=label,
        text=text,
        due_before=due_before,
        target=target,
        problem=problem,
    )
    return paged(lambda at, most: read(cursor=at, limit=most), encode, cursor, limit).response()


@operations(
    "POST", "", Role.OPERATOR, ScheduleShape, body=ScheduleCreation, status=201, errors=(404, 409)
)
def create_schedule(ask: Writing) -> Response:
    """A new schedule, from a trigger, a target and policies.

    `cron` may stand for the trigger, with `tz` beside it, and so may `frequency_unit`,
    `frequency_time` and `start_ts`; `event_topic`, `event_type` and `event_data` may stand for the
    target. Commands, requests and events need an admin; operators name tasks that workers know.
    `enabled: false`, or `active: false`, creates it paused.
    """
    given = dict(ask.body)
    name = given.pop("name", None)
    definition = read_definition(given)
    return ask.write(lambda book: about_schedule(book.schedules.create(name, **definition), 201))


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
    definition = read_definition(ask.body)
    changed = ask.book.schedules.replace(name, version=version, **definition)
    return about_schedule(changed).response()


@operations(
    "PATCH", "/{name}", Role.OPERATOR, ScheduleShape, body=ScheduleChange, errors=(404, 409)
)
def change_schedule(ask: Here, name: str, version: Version) -> Response:
    """Change some fields of a definition; null puts a policy back to its default.

    `If-Match` or `version` is optional; with it, 409 when it is not the latest.
    """
    changes = read_definition(ask.body)
    return about_schedule(ask.book.schedules.update(name, version=version, **changes)).response()


@operations("DELETE", "/{name}", Role.OPERATOR, None, status=204, errors=(404, 409))
def delete_schedule(ask: Here, name: str, version: Version) -> Response:
    """Delete a schedule: queued runs are cancelled, running ones finish, the name is free.

    Its runs and its ledger can still be read.
    """
    ask.book.schedules.delete(name, version)
    return Answer().response()
