"""Failures by cause, and two runs side by side."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

from starlette.responses import Response

from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.api.problems import problem_of
from duebook.errors import Invalid, NotFound
from duebook.lazy_dataclasses import dataclass
from duebook.model.access import Role
from duebook.model.failures import group_causes, group_failures
from duebook.model.insight import fold_steps
from duebook.model.secret import show_payload
from duebook.web.ansi import stripped
from duebook.web.page_request import CurrentPage
from duebook.web.routes.runs import definition_of
from duebook.web.time_ranges import time_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duebook.book import Book
    from duebook.model.failures import FailureGroup
    from duebook.model.run import Run
    from duebook.model.schedule import ScheduleSpec

__all__ = ["MOST_ACTED", "operations", "read_failures", "runs_of_cause"]

operations = Operations("", "pages")

MOST: Final = 1_000
"""The newest failures that the page groups."""
MOST_ACTED: Final = 5_000
"""Failures that are searched for all with a cause."""
SHOWN: Final = 50
NAMED: Final = 4
"""Schedules that are listed beside a cause."""
DAY: Final = timedelta(days=1)
TIMES: Final = ("from", "to")
Text = Annotated[str | None, Query(max_length=300)]
Since = Annotated[str | None, Query(alias="from", max_length=40)]


@dataclass(frozen=True, slots=True)
class FailureSearch:
    """Failures in a time range, by default the last day."""

    schedule: str | None
    since: datetime | None
    until: datetime | None

    def load(self, book: Book, most: int = MOST) -> tuple[list[FailureGroup], bool]:
        """The groups of the `most` newest failures, and whether these are all."""
        since = self.since or book.insights.now() - DAY
        until: Any = {} if self.until is None else {"until": self.until}
        found = book.runs.list(self.schedule, most, status="failed", since=since, **until)
        whole, steps = fold_steps(found)
        top = [run for run in whole if run.parent_run_id is None]
        exits = [told for run in top if (told := steps.get(run.id, run)).exit_code]
        printed = {id_: stripped(text) for id_, text in book.insights.last_errors(exits).items()}
        return group_failures(top, steps, printed), found.next_cursor is None


def read_failures(page: CurrentPage, given: Mapping[str, str]) -> FailureSearch:
    """A search from the fields of a form. Raises Invalid."""
    times = [page.read_time(name, given[name]) if given.get(name) else None for name in TIMES]
    return FailureSearch(given.get("schedule") or None, times[0], times[1])


@operations("GET", "/failures", Role.VIEWER)
def get_failures(
    page: CurrentPage, schedule: Text = None, since: Since = None, to: Text = None
) -> Response:
    """Failed runs, grouped by schedule and cause."""
    wrong, status = None, 200
    groups: list[FailureGroup] = []
    whole = True
    query = {"schedule": schedule or "", "from": since or "", "to": to or ""}
    try:
        groups, whole = page.shared(read_failures(page, query).load, page.zone)
    except (Invalid, NotFound) as error:
        wrong, status = str(error), problem_of(error).status
    return page.render(
        "failures.html",
        status,
        groups=groups[:SHOWN],
        causes=group_causes(groups)[:SHOWN],
        left=len(groups) - SHOWN,
        total=sum(len(group.runs) for group in groups),
        whole=whole,
        asked=query,
        query={name: value for name, value in query.items() if value},
        ranges=time_ranges(page.clock()),
        named=NAMED,
        wrong=wrong,
    )


def runs_of_cause(groups: Sequence[FailureGroup], cause: str | None) -> list[Run]:
    """The runs of the group or shared cause with this key; all runs without a key."""
    if not cause:
        return [run for group in groups for run in group.runs]
    shared = [one.groups for one in group_causes(groups) if one.key == cause]
    meant = shared[0] if shared else [group for group in groups if group.key == cause]
    return [run for group in meant for run in group.runs]


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
    """The differing fields of two definitions."""
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
