"""Failures by cause, many runs that are retried or cancelled at once, and two runs side by side."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.api.problems import problem_of
from duebook.errors import Conflict, Invalid, NotFound
from duebook.lazy_dataclasses import dataclass
from duebook.model.access import Role
from duebook.model.failures import group_causes, group_failures
from duebook.model.insight import fold_steps
from duebook.model.secret import show_payload
from duebook.web.ansi import stripped
from duebook.web.page_request import CurrentPage, Submitted
from duebook.web.routes.runs import definition_of
from duebook.web.time_ranges import time_ranges
from duebook.web.undoing import is_undo, mistyped, must_type, span, to_undo

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.book import Book
    from duebook.model.failures import FailureGroup
    from duebook.model.run import Run
    from duebook.model.schedule import ScheduleSpec

__all__ = ["operations"]

operations = Operations("", "pages")

MOST: Final = 1_000
"""Failures that are looked at, the newest."""
MOST_AT_ONCE: Final = 200
"""Runs that one form retries or cancels."""
SHOWN: Final = 50
NAMED: Final = 4
"""Schedules that are named beside a cause."""
DAY: Final = timedelta(days=1)
Text = Annotated[str | None, Query(max_length=300)]
Since = Annotated[str | None, Query(alias="from", max_length=40)]
Action = Literal["retry", "cancel"]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Failures of a time range; without one, of the last day."""

    schedule: str | None
    since: datetime | None
    until: datetime | None

    def load(self, book: Book) -> tuple[list[FailureGroup], bool]:
        """The groups, and whether these are all."""
        since = self.since or book.insights.now() - DAY
        until: Any = {} if self.until is None else {"until": self.until}
        found = book.runs.list(self.schedule, MOST, status="failed", since=since, **until)
        whole, steps = fold_steps(found)
        top = [run for run in whole if run.parent_run_id is None]
        exits = [told for run in top if (told := steps.get(run.id, run)).exit_code]
        printed = {id_: stripped(text) for id_, text in book.insights.last_errors(exits).items()}
        return group_failures(top, steps, printed), found.next_cursor is None


def _read(page: CurrentPage, schedule: str | None, since: str | None, to: str | None) -> _Asked:
    return _Asked(
        schedule or None,
        page.read_time("from", since) if since else None,
        page.read_time("to", to) if to else None,
    )


@operations("GET", "/failures", Role.VIEWER)
def get_failures(
    page: CurrentPage, schedule: Text = None, since: Since = None, to: Text = None
) -> Response:
    """Failed runs, grouped by schedule and cause."""
    wrong, status = None, 200
    groups: list[FailureGroup] = []
    whole = True
    try:
        groups, whole = page.shared(_read(page, schedule, since, to).load)
    except (Invalid, NotFound) as error:
        wrong, status = str(error), problem_of(error).status
    query = {"schedule": schedule, "from": since, "to": to}
    return page.render(
        "failures.html",
        status,
        groups=groups[:SHOWN],
        causes=group_causes(groups)[:SHOWN],
        left=len(groups) - SHOWN,
        total=sum(len(group.runs) for group in groups),
        whole=whole,
        asked={name: value or "" for name, value in query.items()},
        query={name: value for name, value in query.items() if value},
        ranges=time_ranges(page.clock()),
        most=MOST_AT_ONCE,
        named=NAMED,
        wrong=wrong,
    )


@operations("GET", "/bulk-runs", Role.OPERATOR)
def ask_bulk_runs(
    page: CurrentPage,
    action: Annotated[Action, Query()] = "retry",
    status: Text = None,
    schedule: Text = None,
    queue: Text = None,
    cause: Text = None,
    since: Since = None,
    to: Text = None,
) -> Response:
    """Whether to retry or cancel them, and which they are."""
    asked = _read(page, schedule, since, to)
    if action == "retry" and (cause or not status):
        groups, _ = asked.load(page.book)
        runs = [run for group in _of_cause(groups, cause) for run in group.runs]
    else:
        filters = {"since": asked.since, "until": asked.until, "status": status, "queue": queue}
        given: Any = {name: value for name, value in filters.items() if value}
        found = page.book.runs.list(asked.schedule, MOST_AT_ONCE + 1, **given)
        runs = [run for run in found if run.parent_run_id is None]
    fit = [run for run in runs if run.is_active == (action == "cancel")]
    return _bulk_page(page, action, fit[:MOST_AT_ONCE], more=len(fit) > MOST_AT_ONCE)


def _of_cause(groups: Sequence[FailureGroup], cause: str | None) -> Sequence[FailureGroup]:
    """Those with the key of a group, or of a cause that several have; all without one."""
    if not cause:
        return groups
    shared = [one.groups for one in group_causes(groups) if one.key == cause]
    return shared[0] if shared else [group for group in groups if group.key == cause]


def _bulk_page(
    page: CurrentPage,
    action: str,
    runs: Sequence[Run],
    more: bool = False,
    problem: str = "",
    status: int = 200,
) -> Response:
    return page.render(
        "bulk_runs.html",
        status,
        action=action,
        runs=runs,
        more=more,
        typed=must_type(len(runs)),
        problem=problem,
    )


@operations("POST", "/bulk-runs", Role.OPERATOR)
def do_bulk_runs(page: CurrentPage, form: Submitted) -> Response:
    """Do it to those that are still as they were; the others are counted."""
    action, ids = form["action"], form.all("run")[:MOST_AT_ONCE]
    if is_undo(form):
        ids = _untouched(page.book, action, list(to_undo(page.book, "run", action, form)))
        return page.write(form, lambda book: _told(page, book, action, ids))
    if action not in ("retry", "cancel") or not ids:
        raise Invalid("no runs are selected; go back and select some")

    def again(problem: str, status: int) -> Response:
        runs = [run for run_id in ids if (run := _existing(page.book, run_id))]
        return _bulk_page(page, action, runs, problem=problem, status=status)

    if problem := mistyped(form, len(ids)):
        return again(problem, 422)
    return page.write(form, lambda book: _told(page, book, action, ids, undo=True), again)


def _told(
    page: CurrentPage, book: Book, action: str, ids: Sequence[str], undo: bool = False
) -> Answer:
    """Do it, and go to the list, which tells how many there were; an undo is not undone."""
    since = book.insights.now()
    done = sum(_done(book, action, run_id) for run_id in ids)
    undone_by = span(book.insights.now, since) if undo and done else {}
    return page.go("runs", did=action, count=done, of=len(ids), **undone_by)


def _untouched(book: Book, action: str, ids: Sequence[str]) -> list[str]:
    """Those of which nothing was executed: an undo stops no work, and repeats none."""
    runs = [run for run_id in ids if (run := _existing(book, run_id))]
    if action == "cancel":
        return [run.id for run in runs if run.status == "queued"]
    return [run.id for run in runs if run.status == "cancelled" and not run.started_at]


def _existing(book: Book, run_id: str) -> Run | None:
    try:
        return book.runs.get(run_id)
    except NotFound:
        return None


def _done(book: Book, action: str, run_id: str) -> bool:
    """Whether it could be done; not to a run that changed since it was asked for."""
    run = _existing(book, run_id)
    if run is None or run.is_active == (action == "retry"):
        return False
    try:
        if action == "retry":
            book.runs.retry(run_id)
        else:
            book.runs.cancel(run_id)
    except (Conflict, NotFound):
        return False
    return True


@operations("GET", "/compare", Role.VIEWER)
def compare_runs(
    page: CurrentPage,
    a: Annotated[str, Query(max_length=64)] = "",
    b: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Two runs side by side: definition, payload, times and output."""
    if not a or not b:
        return page.render("compare.html", rows=(), runs=(), a=a, b=b)

    def load(book: Book) -> list[tuple[Run, ScheduleSpec | None]]:
        runs = [book.runs.get(a), book.runs.get(b)]
        return [(run, definition_of(book, run)) for run in runs]

    found = page.shared(load)
    runs = [run for run, _ in found]
    one, other = (_facts(*each) for each in found)
    rows = [(name, one[name], other[name]) for name in one] + _defined(*(spec for _, spec in found))
    return page.render("compare.html", rows=rows, runs=runs, a=a, b=b)


def _defined(one: ScheduleSpec | None, other: ScheduleSpec | None) -> list[tuple[str, Any, Any]]:
    """The fields of the definitions that differ."""
    if one is None or other is None or one == other:
        return []
    before, after = one.to_shown(), other.to_shown()
    names = [name for name in before | after if before.get(name) != after.get(name)]
    return [
        (name.replace("_", " ").capitalize(), before.get(name), after.get(name))
        for name in names
        if name != "payload"
    ]


def _facts(run: Run, spec: ScheduleSpec | None) -> dict[str, Any]:
    payload = run.payload or (spec.payload if spec else None)
    took = run.finished_at - run.started_at if run.finished_at and run.started_at else None
    return {
        "State": run.state,
        "Error": run.error or "",
        "Exit code": "" if run.exit_code is None else str(run.exit_code),
        "Due": run.due_at,
        "Started": run.started_at,
        "Duration": took,
        "Attempt": str(run.attempt),
        "Triggered by": run.trigger,
        "Version of the schedule": "" if run.version is None else str(run.version),
        "Node": run.node or "",
        "Queue": run.queue,
        "Payload": show_payload(payload) if payload else "",
        "Output": run.show_output(run.output) if run.output is not None else "",
    }
