"""The list of flows, and a flow: the graph with the states of its steps, its text, its actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.errors import Conflict, NotFound, shorten
from duebook.flows.redacted_source import show_source
from duebook.model.access import Role
from duebook.web.flow_graph import MOST_DRAWN, draw_flow, drawn_steps
from duebook.web.flow_timeline import step_bars
from duebook.web.page_request import CurrentPage, Submitted
from duebook.web.step_grid import step_grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.book import Book
    from duebook.model.flow_view import FlowView
    from duebook.model.listing import Listing
    from duebook.model.run import Run

    Problems = list[dict[str, Any]]

__all__ = ["flow_of_run", "operations"]

operations = Operations("/flows", "pages")

PAGE: Final = 100
SEARCHED: Final = 300
"""Flows in one page of a search."""
SHOWN: Final = 20
MERGED: Final = 400
"""Lines in the merged log of all steps of a run."""
ACTIONS: Final = ("start", "stop", "restart")
LONGEST_TEXT: Final = 200_000


@operations("GET", "", Role.VIEWER)
def get_flows(
    page: CurrentPage,
    text: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Response:
    """A page of flows, or those with a text in their name or labels; and the problems of files."""
    limit = SEARCHED if text else PAGE

    def load(book: Book) -> tuple[Listing[FlowView], Problems]:
        return book.flows.list(limit, cursor=cursor), book.flows.problems()

    flows, problems = page.shared(load)
    known, wanted = {flow.place for flow in flows}, text.strip().lower()
    return page.render(
        "flows.html",
        flows=[flow for flow in flows if wanted in _words(flow)],
        text=text,
        next_cursor=flows.next_cursor,
        first=cursor is None,
        strange=[problem for problem in problems if problem["file"] not in known],
    )


def _words(flow: FlowView) -> str:
    labels = (f"{name}:{value}" for name, value in (flow.labels or {}).items())
    return " ".join([flow.name, *labels]).lower()


@operations("GET", "/{name}", Role.VIEWER)
def get_flow(page: CurrentPage, name: str) -> Response:
    """A flow with its latest run: the graph, its steps, its runs and its text."""

    def load(book: Book) -> dict[str, Any]:
        flow = book.flows.get(name)
        run = flow.last_run
        view = _performed(book, run, flow) if run else flow
        steps = drawn_steps(view, book.flows.steps(run.id) if run else ())
        runs = book.flows.runs(name, SHOWN) if run else []
        names = [step.name for step in steps]
        return {
            "flow": flow,
            "run": run,
            "steps": steps,
            "runs": runs,
            "grid": step_grid(names, runs, book.insights.step_marks(runs)) if len(runs) > 1 else [],
            "problems": [p for p in book.flows.problems() if p["file"] == flow.place],
            "source": book.flows.source(name),
            "broken": book.flows.broken_source(name),
            "schedule": _schedule(book, flow),
        }

    seen = page.shared(load)
    done = page.told.get("done")
    return page.render(
        "flow.html",
        graph=draw_flow(seen["steps"], lambda run: page.url("runs", run.id)),
        most=MOST_DRAWN,
        lines=marked(seen["source"], [] if seen["broken"] else seen["problems"]),
        current=marked(seen["broken"] or "", seen["problems"]),
        active=any(run.is_active for run in seen["runs"]),
        done=DONE.get(done or ""),
        **seen,
    )


DONE: Final = {
    "stop": "Its runs are being stopped.",
    "restart": "It is being stopped and will start again.",
}


def _performed(book: Book, run: Run, flow: FlowView) -> FlowView:
    """The revision that its latest run uses; the current one if that is gone."""
    try:
        return book.flows.performed(run.id)
    except Conflict:
        return flow


def _schedule(book: Book, flow: FlowView) -> str | None:
    """The name of its schedule, if it has one."""
    if flow.starts is None:
        return None
    try:
        return book.schedules.get(flow.name).name
    except NotFound:
        return None


def flow_of_run(book: Book, run: Run) -> dict[str, Any]:
    """What the page of a run shows in addition for the run of a flow."""
    runs = book.flows.steps(run.id)
    now, attempts = book.insights.now(), book.insights.attempts_of(runs)
    found = {
        "earlier": [step for step in runs if step.step is None],
        "bars": step_bars(runs, attempts, now),
        "named": {step.id: step.step or step.trigger.rpartition(":")[2] for step in runs},
        "lines": book.insights.last_lines(runs, max(MERGED // max(len(runs), 1), 10))[-MERGED:],
    }
    try:
        return found | {"steps": drawn_steps(book.flows.performed(run.id), runs)}
    except Conflict as error:
        return found | {"steps": [], "gone": str(error)}


def marked(source: str, problems: Problems) -> list[tuple[int, str, Problems]]:
    """The numbered lines of a text, each with its problems; secrets are hidden."""
    found: dict[int, Problems] = {}
    for problem in problems:
        found.setdefault(problem["line"], []).append(problem)
    lines = show_source(source[:LONGEST_TEXT].rstrip())
    return [(number, text, found.get(number, [])) for number, text in enumerate(lines, 1)]


@operations("GET", "/{name}/{action}", Role.OPERATOR)
def ask_flow(page: CurrentPage, name: str, action: str) -> Response:
    """Confirm starting it, with params, stopping it, or restarting it."""
    return _ask(page, name, action)


@operations("POST", "/{name}/{action}", Role.OPERATOR)
def do_flow(page: CurrentPage, name: str, action: str, form: Submitted) -> Response:
    """Do it."""
    given = {key[6:]: form[key] for key in form.fields if key.startswith("param-")}

    def work(book: Book) -> Answer:
        flows = book.flows
        if action == "start":
            params = {key: value for key, value in given.items() if value}
            return page.go("runs", flows.start(name, params).id, done="start")
        if action == "stop":
            flows.stop(name)
        elif action == "restart":
            flows.restart(name)
        else:
            raise NotFound(f'"{shorten(action)}" is not an action for flows')
        return page.go("flows", name, done=action)

    def again(problem: str, status: int) -> Response:
        return _ask(page, name, action, given, problem, status)

    return page.write(form, work, again)


def _ask(
    page: CurrentPage,
    name: str,
    action: str,
    given: dict[str, str] | None = None,
    problem: str = "",
    status: int = 200,
) -> Response:
    if action not in ACTIONS:
        raise NotFound(f'"{shorten(action)}" is not an action for flows')
    flow = page.book.flows.get(name)
    values = {"flow": flow, "action": action, "given": given or {}, "problem": problem}
    return page.render("flow_action.html", status, **values)


files = Operations("/flow-file", "pages")


@files("GET", "", Role.VIEWER)
def get_file(page: CurrentPage, file: Annotated[str, Query(max_length=1000)] = "") -> Response:
    """A file with problems, even if it never was a flow."""

    def load(book: Book) -> tuple[Problems, str | None]:
        return [p for p in book.flows.problems() if p["file"] == file], book.flows.broken_file(file)

    problems, source = page.shared(load)
    if not problems:
        raise NotFound(f'file "{shorten(file)}" has no problems')
    lines = marked(source or "", problems)
    return page.render("flow_file.html", file=file, problems=problems, lines=lines)


checking = Operations("/check-flow", "pages")


@checking("GET", "", Role.OPERATOR)
def ask_check(page: CurrentPage) -> Response:
    """The form for a text to validate."""
    return _checked(page, "", None)


@checking("POST", "", Role.OPERATOR)
def do_check(page: CurrentPage, form: Submitted) -> Response:
    """The problems of a text, line by line; nothing is stored."""
    source = form.fields.get("source", [""])[0].replace("\r\n", "\n")[:LONGEST_TEXT]
    return _checked(page, source, page.book.flows.validate(source))


def _checked(page: CurrentPage, source: str, problems: Problems | None) -> Response:
    lines: Sequence[Any] = [] if problems is None else marked(source, problems)
    whole = [problem for problem in problems or [] if not problem["line"]]
    values = {"source": source, "problems": problems, "lines": lines, "whole": whole}
    return page.render("flow_check.html", **values)
