"""Use cases that read schedules: definitions, due times to come, the ledger, statistics."""

from __future__ import annotations

import heapq
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from duebook.book.calendar_use import look_up
from duebook.book.checks import refuse_payload, refuse_templates
from duebook.book.editing import find_unreadable, form_after, target_in_force
from duebook.book.rendering import render_form
from duebook.book.rights import UNLIMITED, Rights
from duebook.book.run_marks import read_marks
from duebook.book.widening import find_missed
from duebook.errors import Invalid, shorten
from duebook.explain import Explanation, explain_at, explain_between
from duebook.model.aliases import read_enabled
from duebook.model.celery_target import unknown_task
from duebook.model.definition import load_changes, load_spec
from duebook.model.due_time import DueTime
from duebook.model.edited import Edited
from duebook.model.event_target import EventTarget
from duebook.model.fields import check_payload
from duebook.model.filters import (
    check_page,
    load_ledger_filter,
    load_schedule_filter,
    load_sort,
)
from duebook.model.hidden import keep_hidden
from duebook.model.listing import Listing, read_cursor, write_cursor
from duebook.model.plan import CONTROLS
from duebook.model.schedule import InvalidSchedule
from duebook.model.secret import keep_secrets
from duebook.model.serving import unserved
from duebook.model.statistics import MEASURED, Statistics, measure
from duebook.model.target import worker_task
from duebook.model.window import spans_for
from duebook.planner import (
    DueTimes,
    control_due_times,
    count_edit,
    decided_controls,
    upcoming,
    upcoming_after,
)
from duebook.targets.task import Tasks
from duebook.timetext import format_instant, parse_instant
from duebook.triggers.zones import zone_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Unpack

    from duebook.budget import Budget
    from duebook.model.filters import EntriesWanted, ScheduleSort, SchedulesWanted
    from duebook.model.plan import Control, DueException, Snapshot
    from duebook.model.revision import Revision
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.model.serving import Serving
    from duebook.store.base import Store, Tx
    from duebook.store.values import Abilities, LedgerEntry

    # inside the class below `list` is a method
    Entries = Listing[LedgerEntry]
    Explanations = list[Explanation]
    Listed = Listing[Schedule]
    DueTimeList = list[DueTime]
    Moments = list[datetime]
    Revisions = list[Revision]
    Said = list[DueException]

__all__ = ["ScheduleReader", "read_edit", "read_range", "with_problems"]

MOST_EXPLAINED: Final = 1_000
MOST_PREVIEWED: Final = 10_000
LAST: Final = datetime(9999, 1, 1, tzinfo=UTC)
_SHAPES: Final = {
    "name": ("s",),
    "-name": ("s",),
    "created_at": ("is",),
    "-created_at": ("is",),
    "next_due_at": ("is", "s"),
}
"""The parts of a cursor's position in each order."""


class ScheduleReader:
    """Read schedules; nothing here changes them. Every method takes a name or an id; raises
    NotFound."""

    def __init__(
        self,
        store: Store,
        namespace: str,
        tasks: Tasks | None = None,
        budget: Budget | None = None,
        rights: Rights = UNLIMITED,
    ) -> None:
        self._budget = budget
        self._rights = rights
        self._store = store
        self._namespace = namespace
        self._tasks = tasks or Tasks()

    def get(self, name: str) -> Schedule:
        """Return one schedule, with its latest run."""
        namespace, wanted = self._namespace, _text(name)
        found = self._store.read(lambda tx: tx.lists.show_schedule(namespace, wanted))
        if found is None:
            return self._store.read(self._get_by_id(name))
        (schedule,) = with_problems([found[0]], found[1])
        return schedule

    def _get_by_id(self, name: str) -> Callable[[Tx], Schedule]:
        def work(tx: Tx) -> Schedule:
            found = tx.schedules.get_schedule(self._find(tx, name))
            (schedule,) = with_problems([found], tx.nodes.list_abilities())
            return with_latest(tx, schedule)

        return work

    def list(
        self,
        *,
        sort: ScheduleSort = "name",
        cursor: str | None = None,
        limit: int = 100,
        **wanted: Unpack[SchedulesWanted],
    ) -> Listed:
        """Return a page of schedules, each with its latest run.

        Filters: `status`, `label` ("team:sales", or an object, or several), `text` (part of the
        name or title, or the start of the name: "etl-*"), `due_before`, `target` (task, task:NAME,
        flow, flow:NAME, celery, celery:NAME, command, http or event) and `problem`. Sort by `name`,
        `-name`, `created_at`, `-created_at` or `next_due_at`, which puts schedules without a next
        due time last. Pass `next_cursor` for the next page; a page may be short and still have a
        next one. Raises InvalidFilter with every wrong filter, and BadCursor.
        """
        check_page(limit)
        found, order = load_schedule_filter(dict(wanted)), load_sort(sort)
        asked = ["schedules", self._namespace, found.asked, order]
        key = self._store.cursor_key()
        after = read_cursor(key, asked, cursor, *_SHAPES[order])

        def work(tx: Tx) -> Listed:
            page, workers = tx.lists.show_schedules(self._namespace, found, order, after, limit)
            return Listing(with_problems(page.rows, workers), write_cursor(key, asked, page.last))

        return self._store.read(work)

    def revisions(self, name: str) -> Revisions:
        """Return every version of the definition, oldest first; also of deleted schedules."""
        return self._store.read(
            lambda tx: tx.schedules.list_revisions(self._find(tx, name, deleted=True))
        )

    def render(self, name: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what `trigger` would run now: `target` and `payload`, with templates rendered.

        Nothing is queued, and secrets are hidden. Raises TemplateFailed, which is an Invalid.
        """
        if payload is not None:
            check_payload("payload", payload)
        return self._store.read(
            lambda tx: render_form(tx, tx.plans.snapshot(self._find(tx, name)), payload)
        )

    def preview(self, name: str, count: int = 10) -> DueTimeList:
        """Return the next due times, including skipped and moved ones.

        Each has a `kind`: `start`, or for the schedule of a flow also `stop` and `restart`.
        """
        if not isinstance(count, int) or not 0 < count <= MOST_PREVIEWED:
            raise Invalid(f"count {shorten(count)} is not a number from 1 to {MOST_PREVIEWED:,}")

        def work(tx: Tx) -> DueTimeList:
            snapshot = tx.plans.snapshot(self._find(tx, name))
            most = snapshot.spec.max_runs
            left = count if most is None else min(count, max(most - snapshot.fired, 0))
            budget = self._budget
            starts = (DueTime.of(at) for at in islice(upcoming(snapshot, tx.now, budget), left))
            controls = _controls(snapshot, tx.now, budget)
            return list(islice(heapq.merge(starts, *controls), count))

        return self._store.read(work)

    def preview_update(self, name: str, count: int = 10, **changes: Any) -> Edited:
        """Show what `update` would do to the definition and the next due times, without doing it.

        Raises InvalidSchedule and Forbidden as `update` does.
        """

        def work(tx: Tx) -> Edited:
            schedule = tx.schedules.get_schedule(self._find(tx, name))
            salvaged = find_unreadable(tx, schedule)
            snapshot = tx.plans.snapshot(schedule.id) if salvaged is None else salvaged.snapshot
            current, form = form_after(tx, schedule, changes)
            spec, _ = read_edit(form, current, schedule.name)
            self._rights.refuse_secrets(spec, snapshot.spec if salvaged is None else None)
            self._rights.refuse(tx, spec.target, target_in_force(snapshot, salvaged))
            spec = look_up(tx, self._namespace, spec.anchored(schedule.created_at))
            spec = count_edit(snapshot, spec, tx.now)
            refuse_templates(spec)
            refuse_payload(self._tasks, spec, self._namespace)
            place = upcoming_after(snapshot, tx.now)
            labels, known = dict(spec.labels), tx.calendars.list_windows(self._namespace)
            edited = replace(snapshot, spec=spec, windows=spans_for(known, labels))
            was, will = (
                list(islice(DueTimes.of(of, tx.now, self._budget).among(place, LAST), count))
                for of in (snapshot, edited)
            )
            missed = find_missed(tx, schedule, snapshot, spec)
            notes = (missed.note,) if missed else ()
            return Edited(snapshot.spec, spec, was, will, notes, missed)

        return self._store.read(work)

    def explain(
        self,
        name: str,
        at: str | datetime | None = None,
        start: str | datetime | None = None,
        end: str | datetime | None = None,
        tz: str | None = None,
    ) -> Explanation | Explanations:
        """Explain what happened to a due time and why; or to each one from `start` to `end`.

        `at` may be a wall-clock time without an offset, in the schedule's time zone. Times in the
        sentences are in `tz`; the default is the schedule's time zone. Deleted schedules can be
        explained too.
        """
        told_in = None if tz is None else zone_name(tz)

        def work(tx: Tx) -> Explanation | Explanations:
            schedule_id = self._find(tx, name, deleted=True)
            if at is not None:
                return explain_at(tx, schedule_id, at, told_in, self._budget)
            if start is None or end is None:
                raise Invalid("explain needs `at`, or `start` and `end`")
            span = read_range(start, end)
            return explain_between(tx, schedule_id, *span, MOST_EXPLAINED, told_in, self._budget)

        return self._store.read(work)

    def ledger(
        self,
        name: str,
        limit: int = 20,
        *,
        cursor: str | None = None,
        **wanted: Unpack[EntriesWanted],
    ) -> Entries:
        """Return the newest due times that did not become runs, and why; also of deleted schedules.

        Filters: `reason`, and `since` and `until` for the due times. Raises InvalidFilter and
        BadCursor.
        """
        check_page(limit)
        found, key = load_ledger_filter(dict(wanted)), self._store.cursor_key()

        def work(tx: Tx) -> Entries:
            schedule_id = self._find(tx, name, deleted=True)
            asked = ["ledger", schedule_id, found.asked]
            page = tx.ledger.list_ledger(
                schedule_id, found, read_cursor(key, asked, cursor, "ii"), limit
            )
            return Listing(page.rows, write_cursor(key, asked, page.last))

        return self._store.read(work)

    def statistics(self, name: str, tz: str | None = None) -> Statistics:
        """Return success rate, durations and lateness of the newest 1,000 runs, in total and by
        day; also of deleted schedules.

        Days are those of `tz`; the default is the schedule's time zone.
        """
        told_in = None if tz is None else zone_name(tz)

        def work(tx: Tx) -> Statistics:
            schedule_id = self._find(tx, name, deleted=True)
            marks = read_marks(tx, schedule_id, MEASURED)
            title, zone = tx.insights.get_name_and_zone(schedule_id)
            return measure(title, marks, told_in or zone)

        return self._store.read(work)

    def exceptions(self, name: str) -> Said:
        """Return the future due times that were skipped or moved."""
        return self._store.read(lambda tx: tx.schedules.list_exceptions(self._find(tx, name)))

    def _find(self, tx: Tx, name: str, deleted: bool = False) -> str:
        return tx.schedules.find_schedule(self._namespace, _text(name), deleted)


def _text(name: str) -> str:
    if not isinstance(name, str):
        raise Invalid(f"name {shorten(name)} is not a string")
    return name


def _controls(snapshot: Snapshot, now: datetime, budget: Budget | None) -> list[Iterator[DueTime]]:
    """Future stops and restarts."""
    kinds = CONTROLS if snapshot.spec.controlled else ()
    return [_coming(snapshot, kind, now, budget) for kind in kinds]


def _coming(
    snapshot: Snapshot, kind: Control, now: datetime, budget: Budget | None
) -> Iterator[DueTime]:
    due = control_due_times(snapshot.spec, kind, now, snapshot.name, budget, snapshot.windows)
    for at in due.among(max(decided_controls(snapshot, now), now), LAST):
        yield DueTime.of(at, kind)


def read_edit(
    form: dict[str, Any], current: ScheduleSpec, name: str
) -> tuple[ScheduleSpec, bool | None]:
    """Read a form that replaces a definition, keeping hidden values, and its `enabled`.

    None: the form does not have it.
    """
    definition, enabled, wrong = read_enabled(form)
    if wrong:
        raise InvalidSchedule(wrong)
    definition = load_changes({}, definition)
    definition["target"] = keep_hidden(definition.get("target"), current.target)
    if "payload" in definition:
        definition["payload"] = keep_secrets(definition["payload"], current.payload)
    return load_spec(definition, name), enabled


def with_latest(tx: Tx, schedule: Schedule) -> Schedule:
    """Add its latest run."""
    return replace(schedule, last_run=tx.schedules.latest_runs([schedule.id]).get(schedule.id))


def with_problems(schedules: Sequence[Schedule], workers: Abilities) -> Sequence[Schedule]:
    """Report as a problem that no live worker serves the namespace, or none knows the task, if the
    schedule has no other problem."""
    well = [s for s in schedules if s.status == "active" and s.problem is None and s.spec]
    if not well:
        return schedules
    known = {namespace: workers.tasks_of(namespace) for namespace in {s.namespace for s in well}}
    wrong = {s.id: _problem(s, workers.served, known[s.namespace]) for s in well}
    return [
        replace(schedule, problem=problem) if (problem := wrong.get(schedule.id)) else schedule
        for schedule in schedules
    ]


def _problem(schedule: Schedule, served: Sequence[Serving], known: set[str]) -> str | None:
    target = schedule.spec.target if schedule.spec else None
    if isinstance(target, EventTarget):  # needs no worker
        return None
    if (told := unserved(schedule.namespace, served)) is not None:
        return told
    needed = None if target is None else worker_task(target)
    if needed is not None and needed not in known:
        return f"no live worker {unknown_task(needed)}"
    return None


def read_range(start: str | datetime, end: str | datetime) -> tuple[datetime, datetime]:
    since, until = parse_instant(start), parse_instant(end)
    if until < since:
        raise Invalid(f"end {format_instant(until)} is before start {format_instant(since)}")
    return since, until
