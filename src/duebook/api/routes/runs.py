"""Runs: list, read, cancel, open again; their logs as JSON, as text and as a stream that grows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from duebook.api.answers import PAGE_BYTES, Answer, fitting, listed, paged
from duebook.api.asking import Cursor, Here, Limit, Writing
from duebook.api.gate import STILL
from duebook.api.log_stream import LogStream, place_text, read_place
from duebook.api.operations import V1, Operations
from duebook.api.parameters import Header, Query
from duebook.api.schemas.runs import LogList, OutputShape, PlacedLine, RunDetails, RunList, RunShape
from duebook.model.codec import encode
from duebook.model.run import Origin, RunStatus

if TYPE_CHECKING:
    from duebook.book import Book

from duebook.model.access import Role

__all__ = ["operations"]

operations = Operations(f"{V1}/runs", "runs")


@operations("GET", "", Role.VIEWER, RunList, errors=(404,))
def list_runs(
    ask: Here,
    schedule: Annotated[str | None, Query(description="Of this one only: a name or an id.")] = None,
    status: Annotated[RunStatus | None, Query()] = None,
    origin: Annotated[Origin | None, Query()] = None,
    queue: Annotated[str | None, Query()] = None,
    flow: Annotated[
        str | None, Query(description="Of this flow only, and not of its steps.")
    ] = None,
    task: Annotated[str | None, Query(description="Enqueued for this task.")] = None,
    since: Annotated[
        str | None, Query(description="Made from then on; of a schedule: due from then on.")
    ] = None,
    until: Annotated[str | None, Query(description="Made, or due, up to then.")] = None,
    cursor: Cursor = None,
    limit: Limit = 20,
) -> Response:
    """The runs of a namespace, the newest first; those of a schedule by their due times."""
    read = partial(
        ask.book.runs.list,
        schedule,
        status=status,
        origin=origin,
        queue=queue,
        flow=flow,
        task=task,
        since=since,
        until=until,
    )
    return paged(lambda at, most: read(limit=most, cursor=at), encode, cursor, limit).response()


@operations("GET", "/{run_id}", Role.VIEWER, RunDetails, errors=(404, 409))
def get_run(ask: Here, run_id: str) -> Response:
    """One run, with the attempts before its latest; the beginning of an id stands for the whole."""
    return Answer(_details(ask.book, run_id)).response()


@operations("POST", "/{run_id}/cancel", Role.OPERATOR, RunShape, errors=(404, 409))
def cancel_run(ask: Writing, run_id: str) -> Response:
    """Cancel a run: at once when it is queued, by asking its node when it is under way."""

    def work(book: Book) -> Answer:
        book.runs.cancel(run_id)
        return Answer(encode(book.runs.get(run_id)))

    return ask.write(work)


@operations("POST", "/{run_id}/retry", Role.OPERATOR, RunShape, errors=(404, 409))
def retry_run(ask: Writing, run_id: str) -> Response:
    """Open a run again that has ended, as another attempt."""
    return ask.write(lambda book: Answer(encode(book.runs.retry(run_id))))


@operations("GET", "/{run_id}/output", Role.VIEWER, OutputShape, errors=(404, 409))
def get_output(ask: Here, run_id: str) -> Response:
    """What a run returned, however large."""
    run = ask.book.runs.get(run_id)
    return Answer({"output": run.show_output(ask.book.runs.output(run.id))}).response()


@operations(
    "GET",
    "/{run_id}/log",
    Role.VIEWER,
    LogList,
    media=("text/plain", "text/event-stream"),
    errors=(404, 409),
)
def get_log(
    ask: Here,
    run_id: str,
    cursor: Annotated[str | None, Query(description="Go on after this place.")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="At most so many lines.")] = 1000,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="Where a stream goes on.")
    ] = None,
) -> Response:
    """What a run printed: stdout and stderr as they came.

    `Accept` chooses between JSON, `text/plain` and `text/event-stream`. A stream grows with the
    run: an event `line` for each line, whose id is the place to go on from, and an event `end`
    with the run when that has ended.
    """
    place, accept = read_place(last_event_id or cursor), ask.request.headers.get("accept", "")
    run = ask.book.runs.get(run_id)
    if "text/event-stream" in accept:
        streams, still = ask.request.app.state.streams, ask.request.scope[STILL]
        stream = LogStream(ask.book, run.id, place, streams, still, ask.caller.id)
        return StreamingResponse(stream.events(), media_type="text/event-stream")
    lines = ask.book.runs.log(run.id, place, limit)
    if "text/plain" in accept:
        return PlainTextResponse("".join(f"{line.text}\n" for _, line in lines))
    forms = [encode(PlacedLine(place_text(at), line)) for at, line in lines]
    shown = forms[: max(fitting(forms, PAGE_BYTES), 1)]
    after = shown[-1]["place"] if shown else place_text(place)
    ended = not run.is_active and len(lines) < limit and len(shown) == len(forms)
    return listed(shown, None if ended else after).response()


def _details(book: Book, run_id: str) -> dict[str, Any]:
    run = book.runs.get(run_id)
    attempts = book.runs.attempts(run.id)
    return encode(RunDetails(run, attempts))
