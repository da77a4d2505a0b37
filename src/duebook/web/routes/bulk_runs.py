"""Retries or cancels many runs, or pauses their schedules; asks first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Final, Literal

from starlette.responses import Response

from duebook.api.answers import Answer
from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.errors import Conflict, Invalid, NotFound
from duebook.lazy_dataclasses import dataclass
from duebook.model.access import Role
from duebook.timetext import format_instant, parse_instant
from duebook.web.page_request import CurrentPage, Submitted
from duebook.web.routes.bulk import ask_names
from duebook.web.routes.triage import MOST_ACTED, read_failures, runs_of_cause
from duebook.web.run_search import ASKED, MOST_AT_ONCE, read_search
from duebook.web.undoing import is_undo, mistyped, must_type, span, to_undo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duebook.book import Book
    from duebook.model.run import Run
    from duebook.web.run_search import RunSearch

__all__ = ["operations"]

operations = Operations("/bulk-runs", "pages")

MOST_SENT: Final = 200
"""Runs that a form lists by id; for more, it contains their filters."""
BATCH: Final = 100
"""Runs in one transaction."""
MOST_DIGITS: Final = 6
STATES: Final = {
    "retry": ("failed",),
    "cancel": ("queued", "running"),
    "pause": ("",),
}
"""The states of the runs that an action applies to, unless a filter chooses one."""
Action = Literal["retry", "cancel", "pause"]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The runs that a form refers to, as they were when its page was rendered."""

    action: str
    given: Mapping[str, str]
    """the filters, and the cause of failures if there is one"""
    seen: datetime

    def load(self, page: CurrentPage) -> tuple[list[Run], bool]:
        """The runs that the action can apply to, newest first, and whether these are all. Raises
        Invalid and NotFound."""
        now = page.book.insights.now()

        def fits(run: Run) -> bool:
            return self._fits(run, now)

        if self.given.get("cause"):
            groups, whole = read_failures(page, self.given).load(page.book, MOST_ACTED)
            found = list(filter(fits, runs_of_cause(groups, self.given["cause"])))
        else:
            states = [self._search(page, status).all_of(page.book, fits) for status in self._states]
            whole = all(all_of_them for _, all_of_them in states)
            found = _merged([some for some, _ in states])
        return found[:MOST_AT_ONCE], whole and len(found) <= MOST_AT_ONCE

    def _search(self, page: CurrentPage, status: str) -> RunSearch:
        return read_search({**self.given, "status": status}, page.read_time)

    @property
    def _states(self) -> tuple[str, ...]:
        asked = self.given.get("status")
        return (asked,) if asked else STATES[self.action]

    def _fits(self, run: Run, now: datetime) -> bool:
        """Whether the action applies to it, and did when the page was rendered; never to a step.

        Of a run that was queued again since then, or whose delay ended, it may not have been true.
        """
        if run.parent_run_id is not None or run.created_at > self.seen:
            return False
        if self.action == "pause":
            return run.schedule_id is not None
        if self.action == "cancel":
            return run.is_active and not self.seen < run.ready_at <= now
        ended = run.finished_at is not None and run.finished_at <= self.seen
        return not run.is_active and ended


def _merged(lists: Sequence[Sequence[Run]]) -> list[Run]:
    """The runs of several lists, each once, the newest first; the order of a single list stays."""
    found = list({run.id: run for runs in lists for run in runs}.values())
    if len(lists) > 1:
        found.sort(key=lambda run: run.created_at, reverse=True)
    return found


@operations("GET", "", Role.OPERATOR)
def ask_bulk_runs(page: CurrentPage, action: Annotated[Action, Query()] = "retry") -> Response:
    """Confirm retrying or cancelling the runs, or pausing their schedules, with a list of them."""
    query = page.request.query_params
    given = {name: query[name] for name in (*ASKED, "cause") if query.get(name)}
    wanted = _Wanted(action, given, page.book.insights.now())
    try:
        runs, whole = wanted.load(page)
    except (Invalid, NotFound) as error:
        return _page(page, wanted, (), problem=str(error), status=422)
    if action == "pause":
        ids = list({run.schedule_id: None for run in runs if run.schedule_id})
        return ask_names(page, page.book.insights.active_among(ids), whole)
    return _page(page, wanted, runs, whole)


def _page(
    page: CurrentPage,
    wanted: _Wanted,
    runs: Sequence[Run],
    whole: bool = True,
    problem: str = "",
    status: int = 200,
) -> Response:
    named = len(runs) <= MOST_SENT
    return page.render(
        "bulk_runs.html",
        status,
        action=wanted.action,
        runs=runs,
        subjects=Counter(run.schedule or run.flow or run.task or "" for run in runs).most_common(),
        whole=whole,
        back=page.url("failures" if "cause" in wanted.given else "runs", **_filters(wanted)),
        sent={"run": [run.id for run in runs]} if named else _common(wanted, len(runs)),
        typed=must_type(len(runs)),
        problem=problem,
    )


def _filters(wanted: _Wanted) -> dict[str, str]:
    return {name: text for name, text in wanted.given.items() if name != "cause"}


def _common(wanted: _Wanted, count: int) -> dict[str, list[str]]:
    """The fields of a form for more runs than it can list."""
    fields = {**wanted.given, "seen": format_instant(wanted.seen), "count": str(count)}
    return {name: [text] for name, text in fields.items()}


@operations("POST", "", Role.OPERATOR)
def do_bulk_runs(page: CurrentPage, form: Submitted) -> Response:
    """Do it to the runs that have not changed since; count the others."""
    action = form["action"]
    if is_undo(form):
        ids = list(to_undo(page.book, "run", action, form))
        return _in_batches(page, action, ids, undo=True)
    if action not in ("retry", "cancel"):
        raise Invalid("choose whether to retry or to cancel")
    if form["count"]:
        return _do_common(page, form, action)
    ids = form.all("run")[:MOST_SENT]
    if not ids:
        raise Invalid("no runs are selected; go back and select some")

    def again(problem: str, status: int) -> Response:
        runs = [run for run_id in ids if (run := _existing(page.book, run_id))]
        wanted = _Wanted(action, {}, page.book.insights.now())
        return _page(page, wanted, runs, problem=problem, status=status)

    if problem := mistyped(form, len(ids)):
        return again(problem, 422)
    return page.write(form, lambda book: _do(page, book, action, ids), again)


def _do_common(page: CurrentPage, form: Submitted, action: str) -> Response:
    """Act on all runs that match the form's filters, unless more match now than its page showed."""
    given = {name: form[name] for name in (*ASKED, "cause") if form[name]}
    wanted = _Wanted(action, given, parse_instant(form["seen"]))
    if not (form["count"].isdecimal() and len(form["count"]) < MOST_DIGITS):
        raise Invalid("count is not a number")
    runs, whole = wanted.load(page)
    count = int(form["count"])
    problem = mistyped(form, count)
    if len(runs) > count:
        problem = f"{len(runs):,} runs match now, not {count:,}; check them and confirm again"
    if problem:
        return _page(page, wanted, runs, whole, problem, 422)
    return _in_batches(page, action, [run.id for run in runs], of=count)


def _in_batches(
    page: CurrentPage, action: str, ids: Sequence[str], of: int = 0, undo: bool = False
) -> Response:
    """A transaction for each batch: submitting the form again does the rest, if any is left."""
    book = page.book
    since, done = book.insights.now(), 0
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        done += page.at_once(lambda book, batch=batch: _count(book, action, batch, undo))  # type: ignore[misc]
    undone_by = span(book.insights.now, since) if done and not undo else {}
    return _told(page, action, done, of or len(ids), undone_by).response()


def _do(page: CurrentPage, book: Book, action: str, ids: Sequence[str]) -> Answer:
    """Do it, and go to the list, which reports the count."""
    since = book.insights.now()
    done = _count(book, action, ids)
    return _told(page, action, done, len(ids), span(book.insights.now, since) if done else {})


def _told(
    page: CurrentPage, action: str, done: int, of: int, undone_by: Mapping[str, str]
) -> Answer:
    return page.go("runs", did=action, count=done, of=of, **undone_by)


def _count(book: Book, action: str, ids: Sequence[str], undo: bool = False) -> int:
    """Apply it to each run; return how many succeeded."""
    return sum(_done(book, action, run_id, undo) for run_id in ids)


def _existing(book: Book, run_id: str) -> Run | None:
    try:
        return book.runs.get(run_id)
    except NotFound:
        return None


def _done(book: Book, action: str, run_id: str, undo: bool) -> bool:
    """Apply it to one run; False if the run has changed since the request."""
    run = _existing(book, run_id)
    if run is None or run.is_active == (action == "retry") or (undo and not _unused(run)):
        return False
    try:
        if action == "retry":
            book.runs.retry(run_id)
        else:
            book.runs.cancel(run_id)
    except (Conflict, NotFound):
        return False
    return True


def _unused(run: Run) -> bool:
    """Whether none of it was executed: an undo neither stops work nor repeats it."""
    return run.status == "queued" or (run.status == "cancelled" and not run.started_at)
