"""What is done with a schedule, and what is asked about its due times."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

from starlette.responses import Response

from duebook.api.answers import Answer, about_schedule, listed, paged
from duebook.api.asking import Cursor, Here, Limit, Writing
from duebook.api.bodies import read_definition, read_fields
from duebook.api.operations import V1, Operations
from duebook.api.parameters import Query
from duebook.api.schemas.definitions import ScheduleChange
from duebook.api.schemas.runs import RunShape
from duebook.api.schemas.schedules import (
    BackfillAnswer,
    BackfillRequest,
    DueTimes,
    EditShape,
    ExceptionList,
    ExplanationList,
    LedgerList,
    PauseRequest,
    Rendered,
    RenderRequest,
    RescheduleRequest,
    RestoreRequest,
    RevisionList,
    RunList,
    ScheduleShape,
    Skipped,
    SkipRequest,
    TriggerRequest,
    UndoBackfillRequest,
    WithdrawnShape,
)
from duebook.book.schedule_reader import MOST_PREVIEWED
from duebook.explain import Explanation
from duebook.model.codec import encode
from duebook.model.fields import check_payload, one_of, read_flag, read_instant, read_text
from duebook.model.run import Origin, Run, RunStatus
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from duebook.book import Book

from duebook.model.access import Role

__all__ = ["operations"]

operations = Operations(f"{V1}/schedules/{{name}}", "schedules")


@operations("POST", "/pause", Role.OPERATOR, ScheduleShape, body=PauseRequest, errors=(404, 409))
def pause_schedule(ask: Writing, name: str) -> Response:
    """Nothing is decided until it is resumed, or by itself at `until`."""
    given = read_fields(ask.body, {"reason": read_text, "until": read_instant})
    return ask.write(lambda book: about_schedule(book.schedules.pause(name, **given)))


@operations("POST", "/resume", Role.OPERATOR, ScheduleShape, errors=(404, 409))
def resume_schedule(ask: Writing, name: str) -> Response:
    """Go on; due times that fell meanwhile follow `on_resume`."""
    return ask.write(lambda book: about_schedule(book.schedules.resume(name)))


@operations(
    "POST", "/trigger", Role.OPERATOR, RunShape, body=TriggerRequest, status=201, errors=(404, 409)
)
def trigger_schedule(ask: Writing, name: str) -> Response:
    """A run now; it uses up no due time, and is accepted also while the schedule is paused."""
    given = read_fields(ask.body, {"payload": check_payload})

    def work(book: Book) -> Answer:
        run = book.schedules.trigger(name, **given)
        return Answer(encode(run), 201, {"Location": f"{V1}/runs/{run.id}"})

    return ask.write(work)


@operations("POST", "/render", Role.OPERATOR, Rendered, body=RenderRequest, errors=(404,))
def render_schedule(ask: Here, name: str) -> Response:
    """What `trigger` would execute now, its templates rendered; nothing is queued."""
    given = read_fields(ask.body, {"payload": check_payload})
    return Answer(ask.book.schedules.render(name, **given)).response()


@operations(
    "POST", "/reschedule", Role.OPERATOR, ScheduleShape, body=RescheduleRequest, errors=(404, 409)
)
def reschedule(ask: Writing, name: str) -> Response:
    """Move only the next due time; one that is not in the future is due at once."""
    known = {"at": read_instant, "due_at": read_instant}
    given = read_fields(ask.body, known, required=("at",))
    return ask.write(lambda book: about_schedule(book.schedules.reschedule(name, **given)))


@operations("POST", "/skip-next", Role.OPERATOR, Skipped, body=SkipRequest, errors=(404, 409))
def skip_next(ask: Writing, name: str) -> Response:
    """Leave the next due time out; it is recorded as `skipped_by_user`."""
    given = read_fields(ask.body, {"due_at": read_instant})

    def work(book: Book) -> Answer:
        schedule, due_at = book.schedules.skip_next(name, **given)
        form = {"skipped_due_at": format_instant(due_at), "schedule": encode(schedule)}
        return Answer(form)

    return ask.write(work)


@operations(
    "POST", "/restore", Role.OPERATOR, ScheduleShape, body=RestoreRequest, errors=(404, 409)
)
def restore_due_time(ask: Writing, name: str) -> Response:
    """Take back that a due time to come is skipped, or was moved; `at` is when it was due."""
    given = read_fields(ask.body, {"at": read_instant}, required=("at",))
    return ask.write(lambda book: about_schedule(book.schedules.restore(name, **given)))


@operations(
    "POST",
    "/preview-update",
    Role.OPERATOR,
    EditShape,
    body=ScheduleChange,
    errors=(404, 409, 429),
)
def preview_update(ask: Here, name: str) -> Response:
    """What a PATCH would do to the definition and the next ten due times; nothing is changed."""
    changes = read_definition(ask.body)
    with ask.computing() as book:
        return Answer(encode(book.schedules.preview_update(name, **changes))).response()


@operations(
    "POST",
    "/backfill",
    Role.OPERATOR,
    BackfillAnswer,
    body=BackfillRequest,
    errors=(404, 409),
)
def backfill_schedule(ask: Writing, name: str) -> Response:
    """Queue runs for the past due times from `start` to `end` that have none.

    `reprocess` opens runs there again: the failed ones, or all. With `dry_run` nothing happens.
    """
    readers = {
        "start": read_instant,
        "end": read_instant,
        "reprocess": one_of(("failed", "all")),
        "dry_run": read_flag,
    }
    given = read_fields(ask.body, readers, required=("start", "end"))

    def work(book: Book) -> Answer:
        found = book.schedules.backfill(name, **given)
        runs = [item for item in found if isinstance(item, Run)]
        due = [item if isinstance(item, datetime) else item.due_at for item in found]
        form = {
            "dry_run": given.get("dry_run", False),
            "count": len(found),
            "due_times": [format_instant(at) for at in due if at is not None],
            "runs": [encode(run) for run in runs],
        }
        return Answer(form)

    return ask.write(work)


@operations(
    "POST",
    "/undo-backfill",
    Role.OPERATOR,
    WithdrawnShape,
    body=UndoBackfillRequest,
    errors=(404, 409),
)
def undo_backfill(ask: Writing, name: str) -> Response:
    """Cancel those runs of a backfill that nobody has begun."""
    times = ("start", "end", "queued_at")
    given = read_fields(ask.body, dict.fromkeys(times, read_instant), required=times)
    return ask.write(lambda book: Answer(asdict(book.schedules.undo_backfill(name, **given))))


@operations("GET", "/preview", Role.VIEWER, DueTimes, errors=(404, 429))
def preview_schedule(
    ask: Here,
    name: str,
    count: Annotated[int, Query(ge=1, le=MOST_PREVIEWED, description="How many.")] = 10,
) -> Response:
    """The next due times, with what was said about single ones; of a flow, also those at which it
    is stopped or restarted."""
    with ask.computing() as book:
        found = book.schedules.preview(name, count)
        kinds = [at.kind for at in found]
        items = [format_instant(at) for at in found]
        return Answer({"items": items, "kinds": kinds, "next_cursor": None}).response()


@operations("GET", "/explain", Role.VIEWER, ExplanationList, errors=(404, 429))
def explain_schedule(
    ask: Here,
    name: str,
    at: Annotated[
        str | None,
        Query(description="A due time; without an offset it is read in the schedule's zone."),
    ] = None,
    start: Annotated[str | None, Query(description="Every due time from here …")] = None,
    end: Annotated[str | None, Query(description="… up to here.")] = None,
    tz: Annotated[
        str | None, Query(description="The zone of the times in the sentences; the schedule's.")
    ] = None,
) -> Response:
    """What became of a due time and why, in a sentence; or of each from `start` to `end`.

    Deleted schedules answer as well.
    """
    with ask.computing() as book:
        told = book.schedules.explain(name, at, start, end, tz)
        explanations = [told] if isinstance(told, Explanation) else told
        return listed([encode(explanation) for explanation in explanations]).response()


@operations("GET", "/runs", Role.VIEWER, RunList, errors=(404,))
def list_schedule_runs(
    ask: Here,
    name: str,
    status: Annotated[RunStatus | None, Query()] = None,
    origin: Annotated[Origin | None, Query()] = None,
    since: Annotated[str | None, Query(description="Due from then on.")] = None,
    until: Annotated[str | None, Query(description="Due up to then.")] = None,
    cursor: Cursor = None,
    limit: Limit = 20,
) -> Response:
    """The runs of a schedule, the newest first; also after it was deleted."""
    read = partial(ask.book.runs.list, name, status=status, origin=origin, since=since, until=until)
    return paged(lambda at, most: read(limit=most, cursor=at), encode, cursor, limit).response()


@operations("GET", "/ledger", Role.VIEWER, LedgerList, errors=(404,))
def list_ledger(
    ask: Here,
    name: str,
    reason: Annotated[str | None, Query(description="Such as `overlap` or `missed`.")] = None,
    since: Annotated[str | None, Query(description="Due from then on.")] = None,
    until: Annotated[str | None, Query(description="Due up to then.")] = None,
    cursor: Cursor = None,
    limit: Limit = 20,
) -> Response:
    """The due times that did not become runs, and why; the newest first."""
    read = partial(ask.book.schedules.ledger, name, reason=reason, since=since, until=until)
    return paged(lambda at, most: read(limit=most, cursor=at), encode, cursor, limit).response()


@operations("GET", "/revisions", Role.VIEWER, RevisionList, errors=(404,))
def list_revisions(ask: Here, name: str) -> Response:
    """Every definition that was in force, the first one first."""
    return listed([encode(found) for found in ask.book.schedules.revisions(name)]).response()


@operations("GET", "/exceptions", Role.VIEWER, ExceptionList, errors=(404,))
def list_exceptions(ask: Here, name: str) -> Response:
    """What was said about due times to come: skipped ones and moved ones."""
    said = ask.book.schedules.exceptions(name)
    return listed([encode(exception) for exception in said]).response()
