"""Runs and a run: its attempts, payload, output, error and log; cancel it, run it again."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.log_stream import place_text, read_place
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.api.problems import problem_of
from duebook.errors import Invalid, NotFound
from duebook.model.access import Role
from duebook.model.insight import fold_steps
from duebook.model.listing import Listing
from duebook.model.run import Origin, RunStatus, overlapped
from duebook.model.secret import show_payload
from duebook.web.ansi import stripped
from duebook.web.flow_graph import HANDLER, draw_flow
from duebook.web.page_request import CurrentPage, Submitted
from duebook.web.routes.flows import flow_of_run

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.run import LogLine, Run
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.values import Page

__all__ = ["operations"]

operations = Operations("/runs", "pages")

PAGE: Final = 50
NAMED: Final = 8
"""Schedules that are named to somebody who typed a part of a name."""
LINES: Final = 1_000
SEARCHED: Final = 20_000
"""Lines of a log that a search looks at."""
Text = Annotated[str | None, Query(max_length=300)]


@operations("GET", "", Role.VIEWER)
def get_runs(
    page: CurrentPage,
    schedule: Text = None,
    status: Text = None,
    origin: Text = None,
    queue: Text = None,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Response:
    """A page of runs, the newest first."""
    asked = {"status": status, "origin": origin, "queue": queue}
    filters: Any = {name: value for name, value in asked.items() if value}
    wrong, refused = None, 200

    def load(book: Book) -> tuple[Listing[Run], dict[str, str]]:
        if filters == {"status": "running"} and not schedule:
            found = Listing(book.insights.running(PAGE))
        else:
            found = book.runs.list(_meant(book, schedule), PAGE, cursor=cursor, **filters)
        return found, book.insights.zones(found)

    found: Listing[Run] = Listing()
    zones: dict[str, str] = {}
    perhaps: list[str] = []
    try:
        found, zones = page.shared(load)
    except (Invalid, NotFound) as error:
        wrong, refused = str(error), problem_of(error).status
        perhaps = _named(page.book, schedule or "")
    rows, steps = fold_steps(found)
    query = {name: value for name, value in (asked | {"schedule": schedule}).items() if value}
    return page.render(
        "runs.html",
        refused,
        runs=rows,
        folded=len(rows) < len(found),
        steps=steps,
        zones=zones,
        perhaps=perhaps,
        next_cursor=found.next_cursor,
        asked={name: value or "" for name, value in (asked | {"schedule": schedule}).items()},
        statuses=get_args(RunStatus),
        origins=get_args(Origin),
        query=query,
        first=cursor is None,
        wrong=wrong,
    )


def _meant(book: Book, text: str | None) -> str | None:
    """The schedule that a text names: by its name or id, or because no other has that in it."""
    if not text:
        return None
    try:
        return book.schedules.get(text).id
    except NotFound:
        names = _named(book, text)
        return names[0] if len(names) == 1 else text


def _named(book: Book, text: str) -> list[str]:
    """Some schedules with a text in their name."""
    try:
        return [found.name for found in book.schedules.list(text=text, limit=NAMED)] if text else []
    except Invalid:
        return []


@operations("GET", "/{run_id}", Role.VIEWER)
def get_run(
    page: CurrentPage,
    run_id: str,
    find: Annotated[str, Query(max_length=200)] = "",
    after: Annotated[str | None, Query(max_length=30)] = None,
    last: bool = False,
) -> Response:
    """A run, with what it printed; of a long log the beginning, the `last` lines, or a part."""
    place = read_place(after or None)

    def load(book: Book) -> dict[str, Any]:
        run = book.runs.get(run_id)
        if last and not find:
            lines = _last_lines(book, run.id)
        else:
            lines = book.runs.log(run.id, place, SEARCHED if find else LINES)
        attempts, spec = book.runs.attempts(run.id), _definition(book, run)
        payload = run.payload if run.payload is not None or spec is None else spec.payload
        flow, whole = None, _whole(book, run)
        if run.flow and not run.parent_run_id:
            flow, payload = flow_of_run(book, run), book.flows.params(run.id)
        found = {"run": run, "attempts": attempts, "lines": lines, "flow": flow, "whole": whole}
        return found | {"payload": show_payload(payload), "tz": spec.tz if spec else None}

    seen = page.shared(load)
    lines: list[tuple[Page, LogLine]] = seen["lines"]
    more = place_text(lines[-1][0]) if len(lines) == LINES and not (find or last) else None
    shown = [(place.attempt, line) for place, line in lines if _has(line, find)]
    run: Run = seen["run"]
    steps = seen["flow"]["steps"] if seen["flow"] else []
    stream = page.url("api", "v1", "runs", run.id, "log") if not find and more is None else ""
    return page.render(
        "run.html",
        run=run,
        attempts=seen["attempts"],
        overlapped=overlapped,
        payload=seen["payload"],
        output=run.show_output(run.output),
        tz=seen["tz"],
        flow=seen["flow"],
        again=_again(run, seen["whole"]),
        graph=draw_flow(steps, lambda step: page.url("runs", step.id)),
        shown=shown[:LINES],
        looked=len(lines),
        last=place_text(lines[-1][0]) if lines else "",
        more=more,
        begun=after is None and not (last and len(lines) == LINES),
        find=find,
        stream=stream if run.is_active else "",
        done=page.request.query_params.get("done"),
    )


def _whole(book: Book, run: Run) -> Run | None:
    """The run of the flow that a step is of."""
    if run.parent_run_id is None:
        return None
    with suppress(NotFound):
        return book.runs.get(run.parent_run_id)
    return None


def _again(run: Run, whole: Run | None) -> str | None:
    """The run of the flow that can go on from this step; its own id for what is no step."""
    if run.is_active:
        return None
    if run.parent_run_id is None:
        return run.id
    if whole is None:
        return None
    ended = not whole.is_active and whole.parent_run_id is None
    return whole.id if ended and run.step and not run.step.startswith(HANDLER) else None


def _last_lines(book: Book, run_id: str) -> list[tuple[Page, LogLine]]:
    """The end of its log, which nodes keep bounded."""
    lines = found = book.runs.log(run_id, limit=SEARCHED)
    while len(found) == SEARCHED:
        found = book.runs.log(run_id, found[-1][0], SEARCHED)
        lines = lines[-LINES:] + found
    return lines[-LINES:]


def _has(line: LogLine, find: str) -> bool:
    return not find or find.lower() in stripped(line.text).lower()


def _definition(book: Book, run: Run) -> ScheduleSpec | None:
    """What its schedule said in the version that the run was made of."""
    if run.schedule_id is None:
        return None
    try:
        versions = book.schedules.revisions(run.schedule_id)
    except NotFound:
        return None
    specs = [version.spec for version in versions if version.version == run.version]
    return specs[0] if specs else None


@operations("GET", "/{run_id}/output", Role.VIEWER)
def get_output(page: CurrentPage, run_id: str) -> Response:
    """What a run returned, as a file."""
    run = page.book.runs.get(run_id)
    output = run.show_output(page.book.runs.output(run.id))
    is_text = isinstance(output, str)
    name = f"{run.id}.{'txt' if is_text else 'json'}"
    return Response(
        output if is_text else json.dumps(output, ensure_ascii=False),
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
        media_type="text/plain; charset=utf-8" if is_text else "application/json",
    )


@operations("GET", "/{run_id}/cancel", Role.OPERATOR)
def ask_cancel(page: CurrentPage, run_id: str) -> Response:
    """Whether to cancel it."""
    return _ask(page, run_id, "cancel")


@operations("POST", "/{run_id}/cancel", Role.OPERATOR)
def do_cancel(page: CurrentPage, run_id: str, form: Submitted) -> Response:
    """Cancel it: at once, or by asking its node."""

    def work(book: Book) -> Answer:
        book.runs.cancel(run_id)
        return page.go("runs", run_id, done="cancel")

    return page.write(form, work, lambda *told: _ask(page, run_id, "cancel", *told))


@operations("GET", "/{run_id}/retry", Role.OPERATOR)
def ask_retry(page: CurrentPage, run_id: str, step: Text = None) -> Response:
    """Whether to run it again; the run of a flow perhaps from a step on."""
    return _ask(page, run_id, "retry", step=step or "")


@operations("POST", "/{run_id}/retry", Role.OPERATOR)
def do_retry(page: CurrentPage, run_id: str, form: Submitted) -> Response:
    """Open it again, as another attempt."""
    step = form["step"]

    def work(book: Book) -> Answer:
        run = book.flows.retry(run_id, step) if step else book.runs.retry(run_id)
        return page.go("runs", run.id, done="retry")

    def again(problem: str, status: int) -> Response:
        return _ask(page, run_id, "retry", problem, status, step)

    return page.write(form, work, again)


def _ask(
    page: CurrentPage,
    run_id: str,
    action: str,
    problem: str = "",
    status: int = 200,
    step: str = "",
) -> Response:
    values = {"run": page.book.runs.get(run_id), "action": action, "step": step}
    return page.render("run_action.html", status, problem=problem, **values)
