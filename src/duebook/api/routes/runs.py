"""Runs: enqueue and wait; runs with their attempts; logs as JSON, text and a stream."""

from __future__ import annotations

from typing import Annotated, Any

from starlette.responses import PlainTextResponse, Response, StreamingResponse

from duebook.api.answers import PAGE_BYTES, Answer, fitting, listed, write_json
from duebook.api.asking import Ask
from duebook.api.gate import STILL
from duebook.api.log_stream import LogStream, place_text, read_place
from duebook.api.operations import Handlers
from duebook.api.parameters import Header
from duebook.api.problems import InvalidFields
from duebook.api.run_wait import RunWait, read_patience
from duebook.api.schemas.runs import PlacedLine
from duebook.book import Book
from duebook.client.use_cases import V1
from duebook.errors import shorten
from duebook.model.codec import encode
from duebook.model.run import RunDetails

__all__ = ["handlers"]

handlers = Handlers()


@handlers
def get_run(book: Book, run_id: str) -> Answer:
    run = book.runs.get(run_id)
    return Answer(encode(RunDetails(run, book.runs.attempts(run.id))))


@handlers
def enqueue_run(book: Book, task: Any, **given: Any) -> Answer:
    if not isinstance(task, str):
        raise InvalidFields({"task": f"task {shorten(task)} is not the name of a task"})
    run = book.enqueue(task, **given)
    place = {"Location": f"{V1}/runs/{run.id}"}
    return Answer(encode(run), 201 if run.is_new else 200, place)


@handlers
def wait_run(book: Book, ask: Ask, run_id: str, timeout: str | None) -> Answer | Response:
    seconds, run = read_patience(timeout), book.runs.get(run_id)
    if not run.is_active or not seconds:
        return Answer(encode(run))
    streams, still = ask.request.app.state.streams, ask.request.scope[STILL]
    return RunWait(book, run.id, seconds, streams, still, ask.caller.id)


@handlers
def cancel_run(book: Book, run_id: str) -> Answer:
    book.runs.cancel(run_id)
    return Answer(encode(book.runs.get(run_id)))


@handlers
def get_output(book: Book, run_id: str) -> Answer:
    run = book.runs.get(run_id)
    return Answer({"output": run.show_output(book.runs.output(run.id))})


@handlers
def get_log(
    book: Book,
    ask: Ask,
    run_id: str,
    after: str | None,
    limit: int,
    last_event_id: Annotated[
        str | None, Header("Where to continue a stream.", alias="Last-Event-ID")
    ] = None,
) -> Answer | Response:
    place, accept = read_place(last_event_id or after), ask.request.headers.get("accept", "")
    run = book.runs.get(run_id)
    if "text/event-stream" in accept:
        streams, still = ask.request.app.state.streams, ask.request.scope[STILL]
        stream = LogStream(book, run.id, place, streams, still, ask.caller.id)
        return StreamingResponse(stream.events(), media_type="text/event-stream")
    lines = book.runs.log(run.id, place, limit)
    if "text/plain" in accept:
        return PlainTextResponse("".join(f"{line.text}\n" for _, line in lines))
    forms = [encode(PlacedLine(place_text(at), line)) for at, line in lines]
    fit, _ = fitting([write_json(form) for form in forms], PAGE_BYTES)
    shown = forms[: max(fit, 1)]
    end = shown[-1]["place"] if shown else place_text(place)
    ended = not run.is_active and len(lines) < limit and len(shown) == len(forms)
    return listed(shown, None if ended else end)
