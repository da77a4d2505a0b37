"""Looks ahead: reads schedules and their past runs, continues from there in a simulation, and
writes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.book.bulk import read_all
from duebook.book.calendar_changes import change_calendars, read_known, renewed
from duebook.book.calendar_use import resolved
from duebook.book.declared_calendars import read_calendars
from duebook.book.templates import find_template
from duebook.errors import Invalid, shorten
from duebook.foresight.entry import Entry
from duebook.foresight.report import report_of
from duebook.foresight.simulate import simulate
from duebook.foresight.spread import spread
from duebook.ids import check_name
from duebook.model.aliases import SHORT_FORMS, SWITCHES
from duebook.model.plan import Snapshot
from duebook.model.run import DONE
from duebook.model.schedule import FIELDS, InvalidSchedule
from duebook.model.simulation import Move, SpreadProposal
from duebook.model.window import spans_for
from duebook.planner import after_plan, count_edit, plan_edit
from duebook.timetext import format_instant, parse_duration, parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duebook.book.calendar_changes import CalendarChange
    from duebook.budget import Budget
    from duebook.model.calendar import Calendar, CalendarRule
    from duebook.model.queue import QueueLimiter
    from duebook.model.schedule import ScheduleSpec, Status
    from duebook.model.simulation import SimulationReport, Source
    from duebook.model.window import MaintenanceWindow
    from duebook.store.base import Store, Tx
    from duebook.targets.task import Tasks

__all__ = ["ASSUMED", "Foresight", "Outlay", "read_label"]

PORTION: Final = 200
"""Schedules that are read at once."""
REMEMBERED: Final = 50
"""How many of a schedule's newest runs are used to estimate durations."""
MOST_SCHEDULES: Final = 10_000
MOST_DAYS: Final = 1_830
MOST_WORKERS: Final = 1_000_000
FIRST_YEAR, LAST_YEAR = 1970, 9_900
ASSUMED: Final = timedelta(minutes=1)
"""How long runs of schedules without past runs take."""
OTHERS: Final = "*"
"""The key in `takes` for schedules without past runs."""
TIED: Final = 'it is declared by "{}", which would move it back; change it there'
_KEPT: Final = {*FIELDS, *SHORT_FORMS, *SWITCHES, "name", "template"}


class Outlay(NamedTuple):
    """The settings of a simulation."""

    days: int = 30
    start: str | datetime | None = None
    workers: int | None = None
    takes: Mapping[str, str | timedelta] | None = None
    percentile: int = 50
    schedules: Sequence[Mapping[str, Any]] = ()
    only: bool = False
    calendars: Sequence[Mapping[str, Any]] = ()


class _Known(NamedTuple):
    """Stored schedules, how long their runs took, and limits of queues."""

    now: datetime
    snapshots: dict[str, Snapshot]
    took: dict[str, list[timedelta]]
    succeeded: dict[str, datetime]
    limiters: list[QueueLimiter]
    calendars: dict[str, Calendar]
    windows: list[MaintenanceWindow]


class _Cast(NamedTuple):
    """Everything a simulation needs."""

    start: datetime
    until: datetime
    snapshots: list[Snapshot]
    takes: dict[str, timedelta]
    sources: dict[str, Source]
    assumed: timedelta
    succeeded: dict[str, datetime]
    limiters: list[QueueLimiter]

    def entries(self, specs: Mapping[str, ScheduleSpec] | None = None) -> list[Entry]:
        """Fresh entries, as of the start; `specs` replace definitions."""
        made = []
        for known in self.snapshots:
            snapshot = copy(known)
            if specs and snapshot.name in specs:
                snapshot.spec = specs[snapshot.name]
            entry = Entry(snapshot, self.takes[snapshot.name], self.start)
            if snapshot.status == "paused":
                until = snapshot.paused_until
                entry.wake_at = None if until is None else max(until, self.start)
            elif snapshot.status != "active":
                entry.wake_at = None
            entry.succeeded_at = self.succeeded.get(snapshot.name)
            made.append(entry)
        return made


class Foresight:
    """Predictions for a namespace."""

    def __init__(
        self, store: Callable[[], Store], namespace: str, tasks: Tasks, budget: Budget | None
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._tasks = tasks
        self._budget = budget

    def simulate(
        self, asked: Outlay, progress: Callable[[float, int], None] = lambda *_: None
    ) -> SimulationReport:
        cast = self._cast(asked)
        return self._run(asked, cast, cast.entries(), progress)

    def _run(
        self,
        asked: Outlay,
        cast: _Cast,
        entries: list[Entry],
        progress: Callable[[float, int], None] = lambda *_: None,
    ) -> SimulationReport:
        found = simulate(
            entries,
            cast.start,
            cast.until,
            asked.workers,
            cast.limiters,
            self._budget,
            progress,
        )
        return report_of(found, cast.sources, asked.percentile, cast.assumed)

    def spread(
        self, asked: Outlay, label: tuple[str, str] | None, names: Sequence[str]
    ) -> SpreadProposal:
        """Other minutes for the schedules that may move, and both reports."""
        if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
            raise Invalid(f"names {shorten(names)} is not a list of names of schedules")
        cast = self._cast(asked)
        known = {snapshot.name: snapshot.spec for snapshot in cast.snapshots}
        if unknown := [name for name in names if name not in known]:
            raise Invalid(f'schedule "{shorten(unknown[0])}" does not exist; it cannot be moved')
        owners = self._store().read(lambda tx: _owners(tx, cast.snapshots))
        tied = {name: TIED.format(owner) for name, owner in owners.items() if ":" in owner}
        how = label, names, self._budget, tied
        found = spread(known, cast.takes, cast.start, cast.until, *how)
        before = self._run(asked, cast, cast.entries())
        moved = found.specs
        after = self._run(asked, cast, cast.entries(moved)) if moved else before
        if (after.peak, after.late_most) >= (before.peak, before.late_most):
            moved, after = {}, before
        return SpreadProposal(
            before,
            after,
            found.movable,
            tuple(
                Move(name, *_trigger_texts(known[name], spec), owners.get(name, ""))
                for name, spec in moved.items()
            ),
            found.fixed,
            tuple({"name": name} | spec.to_shown() for name, spec in moved.items()),
        )

    # -- reading

    def _cast(self, asked: Outlay) -> _Cast:
        _check(asked)
        wanted = [_definition(form) for form in asked.schedules]
        rules = read_calendars(asked.calendars)
        known = self._read(asked, wanted, rules)
        start = known.now if asked.start is None else parse_instant(asked.start)
        start = start.replace(second=0, microsecond=0) if asked.start is None else start
        if not FIRST_YEAR <= start.year <= LAST_YEAR:
            raise Invalid(
                f"start {format_instant(start)} is not in the years {FIRST_YEAR} to {LAST_YEAR}"
            )
        given = {name: _length(name, length) for name, length in (asked.takes or {}).items()}
        assumed = given.pop(OTHERS, ASSUMED)
        place = self._namespace, known.calendars, rules, start, ""
        changes = change_calendars(*place, self._budget)
        snapshots = {
            name: _following(_from_start(snapshot, start), changes, start)
            for name, snapshot in known.snapshots.items()
        }
        calendars = known.calendars | {name: one.calendar for name, one in changes.items()}
        for one in self._wanted(wanted, asked.only):
            spec = _with_days(one.name, one.spec, calendars, asked.only)
            windows = spans_for(known.windows, dict(spec.labels))
            former = snapshots.get(one.name)
            declared = _declared(one.name, spec, former, start, one.enabled)
            snapshots[one.name] = replace(declared, windows=windows)
        _refuse_many(snapshots)
        if unknown := [name for name in given if name not in snapshots]:
            told = "use the name of a schedule that is stored or given"
            raise Invalid(f'takes: schedule "{shorten(unknown[0])}" does not exist; {told}')
        takes: dict[str, timedelta] = {}
        sources: dict[str, Source] = {}
        for name in snapshots:
            past = sorted(known.took.get(name, ()))
            if name in given:
                takes[name], sources[name] = given[name], "given"
            elif past:
                takes[name], sources[name] = _at(past, asked.percentile), "past"
            else:
                takes[name], sources[name] = assumed, "assumed"
        ordered = [snapshots[name] for name in sorted(snapshots)]
        until = start + timedelta(days=asked.days)
        rest = (assumed, known.succeeded, known.limiters)
        return _Cast(start, until, ordered, takes, sources, *rest)

    def _wanted(self, forms: Sequence[dict[str, Any]], only: bool) -> Iterable[Any]:
        def template(name: str) -> Any:
            if only:
                told = f'template "{shorten(name)}" is in the database'
                raise Invalid(f"{told}; simulate with the schedules of the database")
            return self._store().read(lambda tx: find_template(tx, self._namespace, name))

        return read_all(forms, template, self._tasks, self._namespace) if forms else ()

    def _read(
        self,
        asked: Outlay,
        wanted: Sequence[dict[str, Any]],
        rules: Mapping[str, CalendarRule],
    ) -> _Known:
        """Stored schedules with their past; with `only`, nothing but the past of given ones."""
        if asked.only and asked.start is not None:
            return _Known(parse_instant(asked.start), {}, {}, {}, [], {}, [])
        names = {str(form.get("name")) for form in wanted}

        def work(tx: Tx) -> _Known:
            limiters, windows = tx.queues.limiters(), tx.calendars.list_windows(self._namespace)
            calendars = read_known(tx, self._namespace, rules) if wanted or rules else {}
            found = _Known(tx.now, {}, {}, {}, limiters, calendars, windows)
            after: str | None = ""
            while after is not None:
                snapshots, after = tx.plans.list_snapshots(self._namespace, after, PORTION)
                self._add_past(tx, found, snapshots)
                for snapshot in snapshots:
                    if not asked.only or snapshot.name in names:
                        found.snapshots[snapshot.name] = snapshot
                _refuse_many(found.snapshots)
            return found

        known = self._store().read(work)
        if asked.only:
            return known._replace(snapshots={}, calendars={}, windows=[])
        return known

    def _add_past(self, tx: Tx, found: _Known, snapshots: Sequence[Snapshot]) -> None:
        names = {snapshot.schedule_id: snapshot.name for snapshot in snapshots}
        for id_, marks in tx.insights.list_marks(list(names), REMEMBERED).items():
            ended = [mark for mark in marks if mark.status in DONE]
            took = [mark.took for mark in ended if mark.took is not None]
            if took:
                found.took[names[id_]] = took
            if ended:
                last = max(mark.finished_at for mark in ended if mark.finished_at is not None)
                found.succeeded[names[id_]] = last


def _trigger_texts(before: ScheduleSpec, after: ScheduleSpec) -> tuple[str, str]:
    """Both triggers; for an interval that moves, also its anchor."""
    if before.trigger_text != after.trigger_text:
        return before.trigger_text, after.trigger_text
    anchors = (_anchor_of(before), _anchor_of(after))
    first, last = (f"{before.trigger_text} from {at and format_instant(at)}" for at in anchors)
    return first, last


def _owners(tx: Tx, snapshots: Sequence[Snapshot]) -> dict[str, str]:
    """Who declares stored schedules, by name."""
    names = {snapshot.schedule_id: snapshot.name for snapshot in snapshots}
    return {names[id_]: owner for id_, (_, owner) in tx.schedules.list_bases(list(names)).items()}


def read_label(text: str | None) -> tuple[str, str] | None:
    """A label such as may-move:true; raises Invalid."""
    if text is None:
        return None
    name, separator, value = str(text).partition(":")
    if not (name and separator):
        raise Invalid(f"label {shorten(text)} is not in the form NAME:VALUE, such as may-move:true")
    return name, value


def _check(asked: Outlay) -> None:
    """Raises Invalid that names the argument."""
    for name, value, least, most in (
        ("days", asked.days, 1, MOST_DAYS),
        ("percentile", asked.percentile, 1, 100),
        ("workers", 1 if asked.workers is None else asked.workers, 1, MOST_WORKERS),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Invalid(f"{name} {shorten(value)} is not a whole number from {least} to {most:,}")
    if not isinstance(asked.only, bool):
        raise Invalid(f"only {shorten(asked.only)} is not true or false")
    if not isinstance(asked.takes or {}, Mapping):
        raise Invalid(f'takes {shorten(asked.takes)} is not an object such as {{"etl": "90m"}}')
    if not isinstance(asked.schedules, list | tuple) or len(asked.schedules) > MOST_SCHEDULES:
        raise Invalid(f"schedules is not a list of at most {MOST_SCHEDULES:,} definitions")


def _refuse_many(snapshots: Mapping[str, Snapshot]) -> None:
    if len(snapshots) > MOST_SCHEDULES:
        raise Invalid(
            f"there are more than {MOST_SCHEDULES:,} schedules, the most that can be simulated; "
            "simulate those of a file alone"
        )


def _definition(form: Any) -> dict[str, Any]:
    """In the form of `POST schedules`; the state that `ls --json` adds is left out."""
    if not isinstance(form, dict):
        raise Invalid(f"schedules: {shorten(form)} is not an object")
    is_shown = "id" in form and "version" in form
    return {key: value for key, value in form.items() if key in _KEPT} if is_shown else form


def _length(name: str, length: Any) -> timedelta:
    if name != OTHERS:
        check_name(name, "takes")
    try:
        return parse_duration(length)
    except Invalid as error:
        whose = "" if name == OTHERS else f"{name}: "
        raise Invalid(f"takes: {whose}{error}") from None


def _from_start(snapshot: Snapshot, start: datetime) -> Snapshot:
    """The schedule with nothing active or waiting; exceptions for later due times are kept."""
    return replace(
        snapshot,
        watermark=start,
        active=(),
        seen=(),
        considered_at=None,
        delay=None,
        settled_at=None,
        controlled_until=start,
        unattended=None,
        exceptions=tuple(said for said in snapshot.exceptions if said.due_at > start),
    )


def _following(
    snapshot: Snapshot, changes: Mapping[str, CalendarChange], start: datetime
) -> Snapshot:
    """A stored schedule, whose calendar may change at the start."""
    spec = renewed(snapshot.spec, changes)
    if spec is snapshot.spec:
        return snapshot
    spec = count_edit(snapshot, spec, start)
    return after_plan(snapshot, spec, plan_edit(snapshot, spec, start))


def _with_days(
    name: str, spec: ScheduleSpec, calendars: dict[str, Calendar], only: bool
) -> ScheduleSpec:
    """A given definition, with the days of its calendar."""
    use = spec.calendar
    if only and use is not None and use.name not in calendars:
        told = f'calendar "{use.name}" is not defined here; add it to `calendars`'
        raise InvalidSchedule({"calendar": f'schedule "{name}": {told}'})
    try:
        return resolved(spec, calendars)
    except InvalidSchedule as error:
        raise InvalidSchedule({"calendar": f'schedule "{name}": {error}'}) from None


def _declared(
    name: str, spec: ScheduleSpec, former: Snapshot | None, start: datetime, enabled: bool
) -> Snapshot:
    """A given definition, which comes into force at the start."""
    if former is not None:
        spec = spec.anchored(_anchor_of(former.spec) or start)
        if spec == former.spec:
            return former
        spec = count_edit(former, spec, start)
        return after_plan(former, spec, plan_edit(former, spec, start))
    status: Status = "active" if enabled else "paused"
    spec = spec.anchored(start).counting_from(start)
    return Snapshot(name, name, 1, spec, status, start, controlled_until=start)


def _anchor_of(spec: ScheduleSpec) -> datetime | None:
    """The anchor of its intervals, which stays the same when the definition is given again."""
    found = (getattr(trigger, "anchor", None) for trigger in spec.triggers)
    return next((anchor for anchor in found if anchor is not None), None)


def _at(ordered: Sequence[timedelta], percentile: int) -> timedelta:
    """The smallest value that is not exceeded by this percentage of the values."""
    return ordered[max(math.ceil(percentile / 100 * len(ordered)) - 1, 0)]
