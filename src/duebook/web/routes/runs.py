"""The list of runs, and a run: its attempts, payload, output, error and log; cancel and retry."""

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
from duebook.errors import Invalid, NotFound, counted
from duebook.model.access import Role
from duebook.model.insight import fold_steps
from duebook.model.listing import Listing
from duebook.model.run import Origin, RunStatus, overlapped
from duebook.model.secret import show_payload
from duebook.store.values import START
from duebook.web.ansi import stripped
from duebook.web.flow_graph import HANDLER, draw_flow
from duebook.web.flow_timeline import draw_timeline
from duebook.web.labels import LONGEST
from duebook.web.log_view import fitting_lines, log_rows, log_summary, matching
from duebook.web.page_request import CurrentPage, Submitted
from duebook.web.routes.flows import flow_of_run
from duebook.web.run_search import ASKED, read_search, similar_names
from duebook.web.time_ranges import time_ranges

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.run import Run
    from duebook.model.schedule import ScheduleSpec

__all__ = ["definition_of", "operations"]

operations = Operations("/runs", "pages")

MOST_NODES: Final = 300
LINES: Final = 1_000
NEIGHBOURS: Final = 200
"""Newest runs of a schedule that are searched for the previous and the next one."""
SEARCHED: Final = 20_000
"""Lines of a log that are searched."""
Text = Annotated[str | None, Query(max_length=300)]


@operations("GET", "", Role.VIEWER)
def get_runs(
    page: CurrentPage,
    schedule: Text = None,
    status: Text = None,
    origin: Text = None,
    queue: Text = None,
    flow: Text = None,
    label: Annotated[str | None, Query(max_length=LONGEST)] = None,
    node: Text = None,
    since: Annotated[str | None, Query(alias="from", max_length=40)] = None,
    to: Text = None,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Response:
    """A page of runs, the newest first."""
    values = (schedule, status, origin, queue, flow, label, node, since, to)
    given = {name: value or "" for name, value in zip(ASKED, values, strict=True)}
    query = {name: value for name, value in given.items() if value}
    wrong, refused = None, 200

    def load(book: Book) -> tuple[Listing[Run], dict[str, str], list[str]]:
        found = read_search(given, page.read_time).page(book, cursor)
        nodes = sorted({one.node for one in book.nodes.list()})
        return found, book.insights.zones(found), nodes[:MOST_NODES]

    found: Listing[Run] = Listing()
    zones: dict[str, str] = {}
    nodes: list[str] = []
    perhaps: list[str] = []
    try:
        found, zones, nodes = page.shared(load, page.zone)
    except (Invalid, NotFound) as error:
        wrong, refused = str(error), problem_of(error).status
        perhaps = similar_names(page.book, schedule or "")
    rows, steps = fold_steps(found)
    return page.render(
        "runs.html",
        refused,
        runs=rows,
        folded=len(rows) < len(found),
        steps=steps,
        zones=zones,
        perhaps=perhaps,
        next_cursor=found.next_cursor,
        asked=given,
        ranges=time_ranges(page.clock()),
        did=_did(page),
        undo=_undo(page),
        statuses=get_args(RunStatus),
        origins=get_args(Origin),
        query=query,
        first=cursor is None,
        wrong=wrong,
        nodes=nodes,
    )


def _undo(page: CurrentPage) -> dict[str, str]:
    """The fields of the form that undoes a bulk action; empty if it cannot be undone."""
    given = page.told
    action = {"retry": "cancel", "cancel": "retry"}.get(given.get("did", ""))
    times = {name: given.get(name, "")[:40] for name in ("since", "upto")}
    return {"action": action, **times} if action and all(times.values()) else {}


def _did(page: CurrentPage) -> str:
    """What a bulk action did, in words."""
    query = page.told
    words = {"retry": "queued again", "cancel": "cancelled, or asked to stop"}
    if query.get("did") not in words:
        return ""
    counts = [query.get(name, "") for name in ("count", "of")]
    if not all(count.isdecimal() and len(count) < 5 for count in counts):
        return ""
    done, of = map(int, counts)
    left = f"; {of - done} had changed meanwhile" if of > done else ""
    return f"{counted(done, 'run')} {words[query['did']]}{left}."


@operations("GET", "/{run_id}", Role.VIEWER)
def get_run(
    page: CurrentPage,
    run_id: str,
    find: Annotated[str, Query(max_length=200)] = "",
    after: Annotated[str | None, Query(max_length=30)] = None,
    last: bool = False,
) -> Response:
    """A run and its log: the beginning of a long one, the `last` lines, or another part."""
    read_place(after or None)  # raises before the database is read

    def load(book: Book) -> dict[str, Any]:
        run = book.runs.get(run_id)
        log = _log(book, run, after, find, last)
        attempts, spec = book.runs.attempts(run.id), definition_of(book, run)
        payload = run.payload if run.payload is not None or spec is None else spec.payload
        flow, whole = None, _whole(book, run)
        if run.flow and not run.parent_run_id:
            flow, payload = flow_of_run(book, run), book.flows.params(run.id)
        found: dict[str, Any] = {
            "run": run,
            "attempts": attempts,
            "log": log,
            "flow": flow,
            "whole": whole,
        }
        found |= {"around": _neighbours(book, run), "told": _told(book, run)}
        return found | {"payload": show_payload(payload), "tz": spec.tz if spec else None}

    seen = page.shared(load)
    run: Run = seen["run"]
    steps = seen["flow"]["steps"] if seen["flow"] else []
    return page.render(
        "run.html",
        run=run,
        attempts=seen["attempts"],
        around=seen["around"],
        told=seen["told"],
        overlapped=overlapped,
        payload=seen["payload"],
        output=run.show_output(run.output),
        tz=seen["tz"],
        flow=seen["flow"],
        again=_again(run, seen["whole"]),
        timeline=draw_timeline(seen["flow"]["bars"], lambda id_: page.url("runs", id_))
        if seen["flow"]
        else "",
        graph=draw_flow(steps, lambda step: page.url("runs", step.id)),
        log=seen["log"],
        find=find,
        stream=page.url("api", "v1", "runs", run.id, "log") if run.is_active else "",
        done=page.told.get("done"),
    )


def _whole(book: Book, run: Run) -> Run | None:
    """The run of the flow that this step belongs to."""
    if run.parent_run_id is None:
        return None
    with suppress(NotFound):
        return book.runs.get(run.parent_run_id)
    return None


def _neighbours(book: Book, run: Run) -> tuple[str | None, str | None]:
    """The previous and the next run of its schedule, among the newest."""
    if run.schedule_id is None or run.parent_run_id is not None:
        return None, None
    ids = [mark.id for mark in book.insights.marks(run.schedule_id, NEIGHBOURS)]
    if run.id not in ids:
        return None, ids[0] if ids else None
    place = ids.index(run.id)
    after = ids[place + 1] if place + 1 < len(ids) else None
    return ids[place - 1] if place else None, after


def _told(book: Book, run: Run) -> str:
    """The last line that a failed command printed to stderr, as its error is only an exit code."""
    if run.status != "failed" or not run.exit_code:
        return ""
    return stripped(book.insights.last_errors([run]).get(run.id, ""))[:300]


def _again(run: Run, whole: Run | None) -> str | None:
    """The id of the run to retry: a flow's run for one of its steps, otherwise the run itself."""
    if run.is_active:
        return None
    if run.parent_run_id is None:
        return run.id
    if whole is None:
        return None
    ended = not whole.is_active and whole.parent_run_id is None
    return whole.id if ended and run.step and not run.step.startswith(HANDLER) else None


def _log(book: Book, run: Run, after: str | None, find: str, last: bool) -> dict[str, Any]:
    """The part of a log that a page shows: the lines that match `find`, the requested part, the
    end if the run is active or failed, otherwise the beginning."""
    sizes = book.insights.log_sizes(run.id)
    place = read_place(after or None)
    usual = "end" if run.is_active or run.status == "failed" else "beginning"
    at_end = not find and (last or (after is None and usual == "end"))
    if find:
        read = book.runs.log(run.id, START, SEARCHED)
        lines = fitting_lines(matching(read, find)[:LINES], newest=False)
    elif at_end:
        read = book.insights.log_end(run.id, LINES)
        lines = fitting_lines(read, newest=True)
    else:
        read = book.runs.log(run.id, place, LINES)
        lines = fitting_lines(read, newest=False)
    kept = sum(one.kept for one in sizes)
    whole = not find and len(lines) == kept
    following = len(lines) < len(read) or len(read) == LINES
    return {
        "rows": list(log_rows(lines, gaps=not find)),
        "summary": log_summary(sizes),
        "looked": len(read),
        "at_end": at_end,
        "begins": whole or (place == START and not at_end),
        "ends": whole or at_end or not following,
        "more": place_text(lines[-1][0]) if lines and not find and not at_end else "",
        "last": place_text(lines[-1][0]) if lines else "",
    }


def definition_of(book: Book, run: Run) -> ScheduleSpec | None:
    """The version of its schedule's definition that the run was created from."""
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
    """The output of a run as a file."""
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
    """Confirm cancelling it."""
    return _ask(page, run_id, "cancel")


@operations("POST", "/{run_id}/cancel", Role.OPERATOR)
def do_cancel(page: CurrentPage, run_id: str, form: Submitted) -> Response:
    """Cancel it: immediately, or through its node."""

    def work(book: Book) -> Answer:
        book.runs.cancel(run_id)
        return page.go("runs", run_id, done="cancel")

    return page.write(form, work, lambda *told: _ask(page, run_id, "cancel", *told))


@operations("GET", "/{run_id}/retry", Role.OPERATOR)
def ask_retry(page: CurrentPage, run_id: str, step: Text = None) -> Response:
    """Confirm retrying it; a flow's run may continue from a step."""
    return _ask(page, run_id, "retry", step=step or "")


@operations("POST", "/{run_id}/retry", Role.OPERATOR)
def do_retry(page: CurrentPage, run_id: str, form: Submitted) -> Response:
    """Queue it again as another attempt."""
    step = form["step"]

    def work(book: Book) -> Answer:
        run = book.flows.retry(run_id, step) if step else book.runs.retry(run_id)
        return page.go("runs", run.id, done="retry")

    def again(problem: str, status: int) -> Response:
        return _ask(page, run_id, "retry", problem, status, step)

    return page.write(form, work, again)


@operations("GET", "/{run_id}/answer", Role.OPERATOR)
def ask_answer(page: CurrentPage, run_id: str) -> Response:
    """The form to approve or reject a step that waits for a decision."""
    run = page.book.runs.get(run_id)
    return page.render("human_task.html", run=run, problem="", comment="")


@operations("POST", "/{run_id}/answer", Role.OPERATOR)
def do_answer(page: CurrentPage, run_id: str, form: Submitted) -> Response:
    """Approve or reject it in the name of the user."""
    comment = form["comment"].strip()

    def work(book: Book) -> Answer:
        run = book.runs.get(run_id)
        answer = book.flows.reject if form["decision"] == "reject" else book.flows.approve
        answer(run.parent_run_id or "", run.step or "", comment or None)
        return page.go("runs", run.id)

    def again(problem: str, status: int) -> Response:
        run = page.book.runs.get(run_id)
        return page.render("human_task.html", status, run=run, problem=problem, comment=comment)

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
