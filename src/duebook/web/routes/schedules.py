"""The list of schedules, and a schedule: its due times, its past runs, and its changes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

from starlette.responses import Response

from duebook.api.operations import Operations
from duebook.api.parameters import Query
from duebook.api.problems import problem_of
from duebook.errors import Invalid, NotFound
from duebook.explain import Explanation
from duebook.model.access import Role
from duebook.model.filters import ScheduleSort, Status
from duebook.model.listing import Listing
from duebook.triggers.typed_time import read_time
from duebook.triggers.zones import local_datetime
from duebook.web.charts import duration_chart, strip
from duebook.web.due_times import due_rows, earlier_due_times
from duebook.web.failing import failing
from duebook.web.folding import fold_explanations
from duebook.web.labels import LONGEST, read_labels
from duebook.web.notices import count_of, notice_of
from duebook.web.page_request import CurrentPage
from duebook.web.times import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.book import Book
    from duebook.model.revision import Revision
    from duebook.model.schedule import Schedule, ScheduleSpec

__all__ = ["operations", "read_filters"]

operations = Operations("", "pages")

PAGE: Final = 50
MOST_LOOKS: Final = 10
"""Queries for one page, each over a bounded number of schedules."""
STRIP: Final = 20
CHARTED: Final = 100
SHOWN: Final = 10
ASKED: Final = 200
DEPENDENTS: Final = 50
FILTERS: Final = ("text", "label", "status", "target", "problem")
Text = Annotated[str | None, Query(max_length=300)]


def read_filters(**given: str | None) -> dict[str, Any]:
    """The filters that are not empty, in the form that the client expects."""
    texts = {name: (value or "").strip() for name, value in given.items()}
    found: dict[str, Any] = {name: text for name, text in texts.items() if text}
    if "problem" in found:
        found["problem"] = {"true": True, "false": False}.get(found["problem"], found["problem"])
    if "label" in found:
        found["label"] = read_labels(found["label"]) or [found["label"]]
    return found


@operations("GET", "/schedules", Role.VIEWER)
def get_schedules(
    page: CurrentPage,
    text: Text = None,
    label: Annotated[str | None, Query(max_length=LONGEST)] = None,
    status: Text = None,
    target: Text = None,
    problem: Text = None,
    last: Text = None,
    sort: Text = None,
    cursor: Annotated[str | None, Query(max_length=1000)] = None,
) -> Response:
    """A page of schedules with a strip of their recent runs."""
    asked = {"text": text, "label": label, "status": status, "target": target, "problem": problem}
    filters, wrong, refused = read_filters(**asked), None, 200

    def load(book: Book) -> tuple[Listing[Schedule], dict[str, Any], int]:
        if last == "failed":
            found = failing(book, cursor or "", filters)
        else:
            found = _look_on(book, sort or "name", cursor, filters)
        return found, dict(book.insights.strips(found, STRIP)), book.insights.count_schedules()

    try:
        found, marks, total = page.shared(load)
    except Invalid as error:
        found, marks, total, wrong = Listing(), {}, 0, str(error)
        refused = problem_of(error).status
    rows = [(schedule, strip(marks.get(schedule.id, ()), STRIP)) for schedule in found]
    return page.render(
        "schedules.html",
        refused,
        rows=rows,
        next_cursor=found.next_cursor,
        asked={name: value or "" for name, value in asked.items()}
        | {"sort": sort or "name", "last": last or ""},
        filtered=bool(filters or last),
        failing=last == "failed",
        total=total,
        sorts=get_args(ScheduleSort),
        statuses=get_args(Status),
        wrong=wrong,
        first=cursor is None,
        query={name: value for name, value in (asked | {"last": last}).items() if value},
        notice=_bulk_notice(page),
    )


def _look_on(
    book: Book, sort: str, cursor: str | None, filters: dict[str, Any]
) -> Listing[Schedule]:
    """A page of matching schedules; queries again if a bounded query found too few."""
    rows: list[Schedule] = []
    for _ in range(MOST_LOOKS):
        wanted = PAGE - len(rows)
        found = book.schedules.list(
            sort=sort,  # type: ignore[arg-type]
            cursor=cursor,
            limit=wanted,
            **filters,
        )
        rows += found
        cursor = found.next_cursor
        if len(found) == wanted or cursor is None:
            break
    return Listing(rows, cursor)


def _bulk_notice(page: CurrentPage) -> dict[str, Any] | None:
    given = page.told
    done, count = given.get("done"), count_of(given.get("count"))
    if done == "deleted":
        again = _made_again(page, given.get("id", "")[:40])
        return {"done": done, "name": given.get("name", "")[:200], "id": again}
    if done not in ("paused", "resumed"):
        return None
    undo = {"paused": "resume", "resumed": "pause"}[done]
    fields = {"since": given.get("since", "")[:40], "upto": given.get("upto", "")[:40]}
    names = given.getlist("name")[:PAGE]
    can = bool(names or all(fields.values()))
    return {
        "done": done,
        "count": count,
        "undo": can and undo,
        "names": names,
        "fields": {} if names else fields,
    }


def _made_again(page: CurrentPage, schedule_id: str) -> str:
    """The id of a deleted schedule if the viewer may create it again, otherwise empty."""
    if not schedule_id or not page.may(Role.OPERATOR):
        return ""
    try:
        latest = page.book.schedules.revisions(schedule_id)[-1]
    except NotFound:
        return ""
    return schedule_id if page.may_define(latest.spec) else ""


@operations("GET", "/schedules/{name}", Role.VIEWER)
def get_schedule(
    page: CurrentPage,
    name: str,
    at: Text = None,
    start: Annotated[str | None, Query(alias="from", max_length=40)] = None,
    end: Annotated[str | None, Query(alias="to", max_length=40)] = None,
    times: Text = None,
) -> Response:
    """A schedule: its due times and what happened to past ones; `times=schedule` reads and shows
    those times in the schedule's zone instead of the viewer's."""

    if page.told:  # here, `at` is the due time that was changed, not a question about it
        at = None

    def load(_: Book) -> dict[str, Any]:
        with page.ask.computing() as book:
            return look(book)

    def look(book: Book) -> dict[str, Any]:
        schedule, now = book.schedules.get(name), book.insights.now()
        spec = schedule.spec
        zone = spec.tz if spec and times == "schedule" else page.zone
        due = [] if spec is None or schedule.status == "completed" else book.schedules.preview(name)
        return {
            "now": now,
            "schedule": schedule,
            "due": due_rows(spec, due, now) if spec else [],
            "said": [e for e in book.schedules.exceptions(name) if e.due_at > now],
            "held": book.catchup.list(schedule.id),
            "windows": book.insights.windows(schedule),
            "runs": book.runs.list(name, SHOWN),
            "marks": book.insights.marks(name, CHARTED),
            "changes": book.audit.list(kind="schedule", subject=schedule.name, limit=SHOWN),
            "revisions": book.schedules.revisions(name)[: -SHOWN - 1 : -1],
            "upstreams": book.insights.living([d.schedule for d in spec.depends_on])
            if spec and spec.depends_on
            else {},
            "dependents": book.insights.dependents(schedule, DEPENDENTS),
            "zone": zone,
            "explained": _explained(book, schedule, now, zone, at, start, end),
        }

    seen = dict(page.shared(load, page.zone))  # others get the same
    spec, clock = seen["schedule"].spec, page.clock(seen["now"])
    told, wrong = seen.pop("explained")
    asking = Clock(seen["now"], seen.pop("zone"))
    return page.render(
        "schedule.html",
        spec=spec,
        form=spec.to_shown() if spec else {},
        warnings=[w for t in spec.triggers for w in t.warnings(seen["now"])] if spec else [],
        chart=duration_chart(seen["marks"], clock, lambda id_: page.url("runs", id_)),
        told=fold_explanations(told),
        wrong=wrong,
        asking=asking,
        spans=_spans(asking, times),
        beside=page.zone if asking.zone != page.zone else spec.tz if spec else None,
        asked={"at": at or "", "from": start or "", "to": end or ""},
        allowed=_allowed(page, seen["revisions"], spec),
        notice=notice_of(seen["schedule"], page.told),
        **seen,
    )


def _allowed(
    page: CurrentPage, revisions: Sequence[Revision], current: ScheduleSpec | None
) -> set[int]:
    """The versions that the viewer may restore."""
    if not page.may(Role.OPERATOR):
        return set()
    return {one.version for one in revisions if page.may_define(one.spec, current)}


def _spans(clock: Clock, chosen: str | None) -> dict[str, dict[str, str | None]]:
    """The most common time ranges as form fields, in the chosen zone."""
    wall = local_datetime(clock.now, clock.zone)
    today, before = wall.date(), wall.date() - timedelta(days=1)
    spans = {
        "Last night": (f"{before}T18:00", f"{today}T{min(f'{wall:%H:%M:%S}', '09:00')}"),
        "Today": (f"{today}T00:00", f"{today}T23:59:59"),
        "Yesterday": (f"{before}T00:00", f"{before}T23:59:59"),
    }
    return {
        words: {"from": start, "to": end, "times": chosen} for words, (start, end) in spans.items()
    }


def _explained(
    book: Book,
    schedule: Schedule,
    now: datetime,
    zone: str,
    at: str | None,
    start: str | None,
    end: str | None,
) -> tuple[list[Explanation], str | None]:
    """What happened to the latest due times, or to the requested ones; all in `zone`."""
    try:
        if at:
            own = schedule.spec is not None and schedule.spec.tz == zone
            asked = at if own else read_time(at, zone).at
            told = book.schedules.explain(schedule.id, asked, tz=zone)
            return ([told] if isinstance(told, Explanation) else told), None
        if start and end:
            since, until = (read_time(text, zone).at for text in (start, end))
        elif schedule.spec is not None:
            since = earlier_due_times(schedule.spec, now, SHOWN) or now - timedelta(days=1)
            since, until = max(since, schedule.created_at), now
        else:
            return [], None
        found = book.schedules.explain(schedule.id, start=since, end=until, tz=zone)
    except Invalid as error:
        return [], str(error)
    assert isinstance(found, list)  # noqa: S101 - a range was requested
    return found[: -ASKED - 1 : -1], None
