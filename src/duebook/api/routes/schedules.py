"""Schedules: handlers that read or return more than the use case itself."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Any

from starlette.responses import Response

from duebook.api.answers import Answer, about_schedule, listed, paged
from duebook.api.asking import Cursor, Here, Limit
from duebook.api.operations import Handlers
from duebook.api.parameters import Query
from duebook.api.problems import VersionNeeded
from duebook.book import Book
from duebook.client.arguments import DUE_FROM, DUE_UNTIL
from duebook.explain import Explanation
from duebook.model.codec import encode
from duebook.model.run import Origin, Run, RunStatus
from duebook.model.schedule import Schedule
from duebook.timetext import format_instant

__all__ = ["handlers"]

handlers = Handlers()


@handlers
def replace_schedule(book: Book, /, name: str, version: int | None, **definition: Any) -> Answer:
    if version is None:
        raise VersionNeeded('give the version that you replace: If-Match: "3", or "version": 3')
    return about_schedule(book.schedules.replace(name, version=version, **definition))


@handlers
def backfill_schedule(book: Book, name: str, dry_run: bool = False, **given: Any) -> Answer:
    found = book.schedules.backfill(name, dry_run=dry_run, **given)
    runs = [item for item in found if isinstance(item, Run)]
    due = [item if isinstance(item, datetime) else item.due_at for item in found]
    form = {
        "dry_run": dry_run,
        "count": len(found),
        "due_times": [format_instant(at) for at in due if at is not None],
        "runs": [encode(run) for run in runs],
    }
    return Answer(form)


@handlers
def preview_schedule(book: Book, name: str, count: int) -> Answer:
    found = book.schedules.preview(name, count)
    kinds = [at.kind for at in found]
    items = [format_instant(at) for at in found]
    return Answer({"items": items, "kinds": kinds, "next_cursor": None})


@handlers
def explain_schedule(book: Book, **asked: Any) -> Answer:
    told = book.schedules.explain(**asked)
    explanations = [told] if isinstance(told, Explanation) else told
    return listed([encode(explanation) for explanation in explanations])


@handlers
def list_schedule_runs(
    ask: Here,
    name: str,
    status: Annotated[RunStatus | None, Query()] = None,
    origin: Annotated[Origin | None, Query()] = None,
    since: Annotated[str | None, Query(DUE_FROM.description)] = None,
    until: Annotated[str | None, Query(DUE_UNTIL.description)] = None,
    cursor: Cursor = None,
    limit: Limit = 20,
) -> Response:
    read = partial(ask.book.runs.list, name, status=status, origin=origin, since=since, until=until)
    found = paged(lambda at, most: read(limit=most, cursor=at), encode, cursor, limit)
    return found.response(ask.request)


@handlers
def create_schedules(book: Book, definitions: list[Any]) -> Answer:
    made = book.schedules.create_many(definitions)
    return Answer({"count": len(made), "items": [_brief(one) for one in made]}, 201)


def _brief(schedule: Schedule) -> dict[str, Any]:
    due = schedule.next_due_at
    return {
        "id": schedule.id,
        "name": schedule.name,
        "status": schedule.status,
        "next_due_at": None if due is None else format_instant(due),
    }
