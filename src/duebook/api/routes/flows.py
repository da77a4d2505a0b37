"""Flows: look at them and at their runs, start, stop, restart and retry them, check a text.

What a flow does is defined by files; whoever may operate starts and stops those that there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from starlette.responses import Response

from duebook.api.answers import Answer, listed
from duebook.api.asking import Cursor, Here, Limit, Writing
from duebook.api.bodies import read_as_it_is, read_fields
from duebook.api.operations import V1, Operations
from duebook.api.parameters import Query
from duebook.api.schemas.flows import (
    FlowDirectory,
    FlowExplanationShape,
    FlowList,
    FlowRetry,
    FlowShape,
    FlowSource,
    FlowStart,
    ForgottenShape,
    StepList,
    ValidationShape,
)
from duebook.api.schemas.runs import RunShape
from duebook.errors import Invalid, shorten
from duebook.model.access import Role
from duebook.model.codec import encode
from duebook.model.fields import check_payload, read_name

if TYPE_CHECKING:
    from duebook.book import Book

__all__ = ["operations"]

operations = Operations(f"{V1}/flows", "flows")


@operations("GET", "", Role.VIEWER, FlowList)
def list_flows(ask: Here, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The flows of a namespace, by name, each with its latest run; and what is wrong with files."""
    flows = ask.book.flows
    page = flows.list(limit, cursor=cursor)
    form = {"items": [encode(view) for view in page], "next_cursor": page.next_cursor}
    return Answer(form | {"problems": flows.problems()}).response()


@operations("POST", "/validate", Role.OPERATOR, ValidationShape, body=FlowSource, errors=(429,))
def validate_flow(ask: Here) -> Response:
    """What is wrong with the text of a file, with line, column and a hint; nothing is kept."""
    given = read_fields(ask.body, {"source": read_as_it_is, "name": read_name}, ("source",))
    with ask.computing() as book:
        return Answer({"problems": book.flows.validate(**given)}).response()


@operations("POST", "/forget", Role.ADMIN, ForgottenShape, body=FlowDirectory, errors=(404, 409))
def forget_flows(ask: Writing) -> Response:
    """Delete the flows of a directory that no node is given any more, with their schedules."""
    given = read_fields(ask.body, {"directory": _read_directory}, ("directory",))
    return ask.write(lambda book: Answer({"names": book.flows.forget(**given)}))


def _read_directory(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise Invalid(f"{key} {shorten(value)} is no name of a directory")
    return value


@operations("GET", "/{name}", Role.VIEWER, FlowShape, errors=(404,))
def get_flow(ask: Here, name: str) -> Response:
    """One flow, with its steps, its params and its latest run."""
    return Answer(encode(ask.book.flows.get(name))).response()


@operations("GET", "/{name}/runs", Role.VIEWER, StepList, errors=(404,))
def list_flow_runs(ask: Here, name: str, limit: Limit = 20) -> Response:
    """Its runs, the newest first."""
    return listed([encode(run) for run in ask.book.flows.runs(name, limit)]).response()


@operations(
    "POST", "/{name}/start", Role.OPERATOR, RunShape, body=FlowStart, status=201, errors=(404, 409)
)
def start_flow(ask: Writing, name: str) -> Response:
    """A run of the flow, now."""
    given = read_fields(ask.body, {"params": check_payload})

    def work(book: Book) -> Answer:
        run = book.flows.start(name, **given)
        return Answer(encode(run), 201, {"Location": f"{V1}/runs/{run.id}"})

    return ask.write(work)


@operations("POST", "/{name}/stop", Role.OPERATOR, StepList, errors=(404, 409))
def stop_flow(ask: Writing, name: str) -> Response:
    """Cancel its runs that have not ended."""
    return ask.write(lambda book: listed([encode(run) for run in book.flows.stop(name)]))


@operations("POST", "/{name}/restart", Role.OPERATOR, FlowShape, errors=(404, 409))
def restart_flow(ask: Writing, name: str) -> Response:
    """Stop it if it is running, wait as its file says, and start it."""
    return ask.write(lambda book: Answer(encode(book.flows.restart(name))))


@operations("GET", "/runs/{run_id}", Role.VIEWER, FlowShape, errors=(404, 409))
def get_performed_flow(ask: Here, run_id: str) -> Response:
    """The flow as a run performs it, by the file that it began with; `last_run` is that run."""
    return Answer(encode(ask.book.flows.performed(run_id))).response()


@operations("GET", "/runs/{run_id}/steps", Role.VIEWER, StepList, errors=(404,))
def list_steps(ask: Here, run_id: str) -> Response:
    """The runs of the steps of a run, in the order in which they were made."""
    return listed([encode(run) for run in ask.book.flows.steps(run_id)]).response()


@operations("GET", "/runs/{run_id}/explain", Role.VIEWER, FlowExplanationShape, errors=(404, 409))
def explain_flow_run(
    ask: Here,
    run_id: str,
    tz: Annotated[
        str | None, Query(description="The zone of the times in the sentences; the schedule's.")
    ] = None,
) -> Response:
    """How far a run has come, in a sentence, and what each of its steps waits for."""
    return Answer(encode(ask.book.flows.explain(run_id, tz))).response()


@operations(
    "POST", "/runs/{run_id}/retry", Role.OPERATOR, RunShape, body=FlowRetry, errors=(404, 409)
)
def retry_flow(ask: Writing, run_id: str) -> Response:
    """Go on with a run that has ended, from where it failed or from a step on."""
    given = read_fields(ask.body, {"step": read_as_it_is})
    return ask.write(lambda book: Answer(encode(book.flows.retry(run_id, **given))))
