"""Summaries for pages: what is going on, the latest runs of many schedules, their load."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from duebook.book.bulk import count_for
from duebook.book.run_marks import read_marks
from duebook.book.schedule_reader import with_problems
from duebook.errors import NotFound, shorten
from duebook.model.calendar import referred
from duebook.model.filters import RunFilter, ScheduleFilter, load_schedule_filter
from duebook.model.insight import (
    CalendarInsight,
    Coming,
    Overview,
    Planned,
    Staff,
    Summary,
    fold_steps,
)
from duebook.model.serving import ALL, Serving, unserved
from duebook.model.window import spans_for
from duebook.planner import DueTimes
from duebook.planner.due import lateness_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duebook.model.acted import Acted, Action
    from duebook.model.insight import HourLoad, RunMark
    from duebook.model.plan import DueException
    from duebook.model.run import LogLine, Run
    from duebook.model.schedule import Schedule
    from duebook.model.serving import StrandedTask
    from duebook.model.step_history import AttemptMark, StepLine, StepMark
    from duebook.model.window import MaintenanceWindow
    from duebook.store.base import Store, Tx
    from duebook.store.values import LogSize, Page

__all__ = ["Insights"]

DAY: Final = timedelta(days=1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
LATE: Final = timedelta(minutes=1)
SHOWN: Final = 8
"""Rows in each list of an overview."""
MOST_RUNNING: Final = 20
MOST_COMING: Final = 200
"""Schedules that are searched for due times in the next hour."""
EACH_COMING: Final = 60
"""Due times read for one schedule."""
MOST_FAILED: Final = 1_000
LOOKED_LATE: Final = 40
"""Runs that started late; the ones to show are picked from these."""
LOOKED_FAILED: Final = 40
"""Failed runs, including steps of flows; the ones to show are picked from these."""


class Insights:
    """What is going on in a namespace; each view is read at once, and nothing is written. `sees`
    are the namespaces whose nodes are shown."""

    def __init__(self, store: Store, namespace: str, sees: Serving = ALL) -> None:
        self._store = store
        self._namespace = namespace
        self._sees = sees

    def overview(self) -> Overview:
        """What is running, due in the next hour, and failed or started late in the last day."""
        return self._store.read(self._overview)

    def _overview(self, tx: Tx) -> Overview:
        namespace, now = self._namespace, tx.now
        failed = RunFilter(status="failed", since=now - DAY)
        problems = tx.lists.list_schedules(
            namespace, ScheduleFilter(problem=True), "name", None, SHOWN
        )
        windows = tx.calendars.list_windows(namespace)
        coming, until = self._coming(tx, windows)
        looked = tx.lists.list_runs(namespace, failed, None, LOOKED_FAILED).rows
        whole, steps = fold_steps(looked)
        shown = [run for run in whole if run.parent_run_id is None][:SHOWN]
        late = _began_late(tx, namespace)
        return Overview(
            now,
            tx.quotas.count_schedules(namespace),
            tx.insights.list_running(namespace, MOST_RUNNING),
            coming,
            until,
            shown,
            steps,
            tx.insights.count_failed(namespace, now - DAY, MOST_FAILED),
            late,
            _zones(tx, [*shown, *late]),
            with_problems(problems.rows, tx.nodes.list_abilities()),
            tx.flows.list_broken_files(namespace, SHOWN),
            self._stranded(tx),
            unserved(namespace, tx.nodes.list_served()),
            Staff.of(tx.nodes.list_nodes(), namespace),
            tx.nodes.list_nodes(self._sees),
            tx.queues.list_queues(Serving((namespace,))),
            tx.held.list_held(namespace, "", None, SHOWN).rows,
            _soon(windows, now)[:SHOWN],
            tx.alerts.count_open(namespace),
        )

    def _stranded(self, tx: Tx) -> list[StrandedTask]:
        """Whether workers of other namespaces know a task is shown only to users who see all."""
        own = [task for task in tx.nodes.list_stranded_tasks() if task.namespace == self._namespace]
        return own if self._sees == ALL else [task._replace(elsewhere=False) for task in own]

    def _coming(
        self, tx: Tx, windows: Sequence[MaintenanceWindow]
    ) -> tuple[list[Coming], datetime]:
        """The due times of the next hour, and the instant up to which the list is complete."""
        now, until = tx.now, tx.now + HOUR
        wanted = ScheduleFilter(due_before=until)
        page = tx.lists.list_schedules(self._namespace, wanted, "next_due_at", None, MOST_COMING)
        if page.last is not None:  # the page ended there: later schedules were not read
            until = min(until, EPOCH + timedelta(microseconds=int(page.last[0])))
        said = tx.schedules.list_exceptions_of([schedule.id for schedule in page.rows])
        found = [
            Coming(at, schedule.name, schedule.spec.tz)
            for schedule in page.rows
            if schedule.spec is not None and schedule.next_due_at is not None
            for at in _from(
                Planned(schedule.id, schedule.name, schedule.spec),
                schedule.next_due_at,
                until,
                said,
                windows,
            )
        ]
        return sorted(found, key=lambda coming: (max(coming.at, now), coming.schedule)), until

    def zones(self, runs: Sequence[Run]) -> dict[str, str]:
        """The time zone of each run's due time, by run id; runs without a schedule are left out."""
        return self._store.read(lambda tx: _zones(tx, runs))

    def labels(self, runs: Sequence[Run]) -> dict[str, dict[str, str]]:
        """The labels of the schedule of each of these runs, by the run's id."""
        ids = list({run.schedule_id: None for run in runs if run.schedule_id})
        known = self._store.read(lambda tx: tx.insights.list_labels(ids)) if ids else {}
        return {run.id: known.get(run.schedule_id or "", {}) for run in runs}

    def active_among(self, schedule_ids: Sequence[str]) -> list[str]:
        """The names of those of these schedules that are active, in the order of these."""
        ids = list(schedule_ids)
        known = self._store.read(lambda tx: tx.schedules.get_schedules(ids)) if ids else []
        active = {schedule.id: schedule.name for schedule in known if schedule.status == "active"}
        return [active[id_] for id_ in ids if id_ in active]

    def failing(self, limit: int) -> list[Schedule]:
        """The schedules whose last run failed, by name; among those that failed of late, as far as
        the newest failed runs tell."""

        def work(tx: Tx) -> list[Schedule]:
            wanted = RunFilter(status="failed")
            runs = tx.lists.list_runs(self._namespace, wanted, None, limit).rows
            ids = list({run.schedule_id: None for run in runs if run.schedule_id})
            latest = tx.schedules.latest_runs(ids) if ids else {}
            failed = [id_ for id_, run in latest.items() if run.status == "failed"]
            known = tx.schedules.get_schedules(failed) if failed else []
            found = [replace(schedule, last_run=latest[schedule.id]) for schedule in known]
            told = with_problems(found, tx.nodes.list_abilities())
            return sorted(told, key=lambda schedule: schedule.name)

        return self._store.read(work)

    def last_errors(self, runs: Sequence[Run]) -> dict[str, str]:
        """The last line that each of these runs printed to stderr, by the run's id."""
        ids = [run.id for run in runs]
        return self._store.read(lambda tx: tx.insights.list_last_errors(ids)) if ids else {}

    def step_marks(self, runs: Sequence[Run]) -> list[StepMark]:
        """The steps of these flow runs that have started, in any order."""
        ids = [run.id for run in runs]
        return self._store.read(lambda tx: tx.insights.list_step_marks(ids)) if ids else []

    def attempts_of(self, runs: Sequence[Run]) -> list[AttemptMark]:
        """The attempts of these runs that were followed by another attempt."""
        ids = [run.id for run in runs]
        return self._store.read(lambda tx: tx.insights.list_attempts_of(ids)) if ids else []

    def last_lines(self, runs: Sequence[Run], each: int) -> list[StepLine]:
        """The last `each` lines that each of these runs printed, by time."""
        ids = [run.id for run in runs]
        return self._store.read(lambda tx: tx.insights.list_last_lines(ids, each)) if ids else []

    def living(self, names: Sequence[str]) -> dict[str, str]:
        """The ids of the schedules with these names; deleted ones are left out."""
        return self._store.read(lambda tx: tx.schedules.list_taken(self._namespace, names))

    def dependents(self, schedule: Schedule, limit: int) -> list[str]:
        """The names of schedules that depend on this one, in order."""
        namespace, name = self._namespace, schedule.name
        return self._store.read(lambda tx: tx.insights.list_dependents(namespace, name, limit))

    def would_act(self, action: Action, filter: Mapping[str, Any]) -> Acted:  # noqa: A002
        """As a dry run of `schedules.act`; raises InvalidFilter."""
        wanted = load_schedule_filter(dict(filter))
        return count_for(self._store, self._namespace, action, wanted)

    def strips(self, schedules: Sequence[Schedule], each: int) -> dict[str, list[RunMark]]:
        """The newest runs of each of these schedules, by schedule id, oldest first."""
        ids = [schedule.id for schedule in schedules]
        return self._store.read(lambda tx: tx.insights.list_marks(ids, each))

    def marks(self, name: str, limit: int) -> list[RunMark]:
        """The newest runs of a schedule, oldest first, with the start times that their jitter
        allowed; raises NotFound."""

        def work(tx: Tx) -> list[RunMark]:
            schedule_id = tx.schedules.find_schedule(self._namespace, name, deleted=True)
            return read_marks(tx, schedule_id, limit)

        return self._store.read(work)

    def count_schedules(self) -> int:
        """How many schedules the namespace has."""
        return self._store.read(lambda tx: tx.quotas.count_schedules(self._namespace))

    def log_end(self, run_id: str, limit: int) -> list[tuple[Page, LogLine]]:
        """The last lines of a run's log, oldest first; needs the full id."""
        return self._store.read(lambda tx: tx.runs.list_log_end(run_id, limit))

    def log_sizes(self, run_id: str) -> list[LogSize]:
        """How much of each attempt's output is kept; needs the full id."""
        return self._store.read(lambda tx: tx.runs.measure_log(run_id))

    def hours(self, since: datetime, until: datetime) -> list[HourLoad]:
        """The hours in which runs ended, and how late those had begun."""

        def work(tx: Tx) -> list[HourLoad]:
            late, cut = tx.insights.list_late_hours(self._namespace, since, until, LATE)
            loads = tx.insights.count_hours(self._namespace, since, until)
            none = (0, timedelta())
            by_hour = [(load, *late.get(load.hour, none)) for load in loads]
            return [
                replace(
                    load,
                    late=count,
                    latest=longest,
                    late_complete=cut is None or load.hour > cut,
                )
                for load, count, longest in by_hour
            ]

        return self._store.read(work)

    def durations(self) -> dict[str, timedelta]:
        """The mean duration of runs, by the id of their schedule."""
        return self._store.read(lambda tx: tx.insights.list_durations(self._namespace))

    def planned(self, after: str, limit: int) -> tuple[list[Planned], str | None]:
        """Active schedules by name, with exceptions for single due times, and the name to continue
        after; None if there are no more."""

        def work(tx: Tx) -> tuple[list[Planned], str | None]:
            found, last = tx.insights.list_planned(self._namespace, after, limit)
            said = tx.schedules.list_exceptions_of([planned.id for planned in found])
            windows = tx.calendars.list_windows(self._namespace)
            return [_as_said(planned, said, windows) for planned in found], last

        return self._store.read(work)

    def windows(self, schedule: Schedule) -> list[MaintenanceWindow]:
        """The maintenance windows that pause a schedule now, or within a day."""
        labels = dict(schedule.spec.labels) if schedule.spec is not None else {}

        def work(tx: Tx) -> list[MaintenanceWindow]:
            soon = _soon(tx.calendars.list_windows(self._namespace), tx.now)
            return [window for window in soon if window.selects(labels)]

        return self._store.read(work)

    def calendar_users(self) -> dict[str, int]:
        """How many schedules use each calendar; unused calendars are left out."""
        return self._store.read(lambda tx: tx.calendars.count_users(self._namespace))

    def calendar(self, name: str, most: int) -> CalendarInsight:
        """A calendar with its newest versions and the first schedules that use it, at most `most`
        of each; raises NotFound."""

        def work(tx: Tx) -> CalendarInsight:
            versions = tx.calendars.list_versions(self._namespace, name, most)
            if not versions:
                raise NotFound(f'calendar "{shorten(name)}" does not exist')
            ids = tx.calendars.list_users(self._namespace, [name])
            schedules = tx.schedules.get_schedules(ids[:most]) if ids else []
            others = [
                other.name
                for other in tx.calendars.outline_calendars(self._namespace)
                if name in referred(other.definition)
            ]
            schedules.sort(key=lambda schedule: schedule.name)
            return CalendarInsight(tx.now, versions[0], len(ids), schedules, others, versions)

        return self._store.read(work)

    def at(self, namespace: str) -> Insights:
        """The insights of another namespace, for a user who may see it."""
        return Insights(self._store, namespace, self._sees)

    def summary(self) -> Summary:
        """The figures of a card."""

        def work(tx: Tx) -> Summary:
            running = tx.insights.list_running(self._namespace, MOST_RUNNING)
            return Summary(
                tx.quotas.count_schedules(self._namespace),
                len([run for run in running if run.parent_run_id is None]),
                tx.insights.count_failed(self._namespace, tx.now - DAY, MOST_FAILED),
                tx.alerts.count_open(self._namespace),
            )

        return self._store.read(work)

    def namespaces(self) -> list[str]:
        """The namespaces that have schedules."""
        return self._store.read(lambda tx: tx.insights.list_inhabited())

    def signal(self) -> tuple[object, ...]:
        """A value that is cheap to read and differs when a page's content may have changed."""
        return self._store.read(lambda tx: tx.insights.signal(self._namespace))

    def now(self) -> datetime:
        """The database's time."""
        return self._store.read(lambda tx: tx.now)


def _as_said(
    planned: Planned,
    said: Mapping[str, Sequence[DueException]],
    windows: Sequence[MaintenanceWindow],
) -> Planned:
    spans = spans_for(windows, dict(planned.spec.labels)) if windows else ()
    return replace(planned, exceptions=tuple(said.get(planned.id, ())), windows=spans)


def _from(
    planned: Planned,
    first: datetime,
    until: datetime,
    said: Mapping[str, Sequence[DueException]],
    windows: Sequence[MaintenanceWindow],
) -> list[datetime]:
    """The next due time of a schedule, and the following ones that are not in a maintenance
    window, skipped or moved."""
    known = _as_said(planned, said, windows)
    due_times = DueTimes(known.spec, known.exceptions, first, known.name, windows=known.windows)
    following = due_times.among(first, until)
    return [at for at in (first, *islice(following, EACH_COMING - 1)) if at <= until]


def _soon(windows: Sequence[MaintenanceWindow], now: datetime) -> list[MaintenanceWindow]:
    """The windows that are open, or start within a day."""
    return [window for window in windows if window.end_at > now > window.start_at - DAY]


def _zones(tx: Tx, runs: Sequence[Run]) -> dict[str, str]:
    return {id_: spec.tz for id_, spec in tx.insights.list_specs(runs).items()}


def _began_late(tx: Tx, namespace: str) -> list[Run]:
    """Runs of the last day that started late, whatever their jitter."""
    found = tx.insights.list_late(namespace, tx.now - DAY, LATE, LOOKED_LATE)
    specs = tx.insights.list_specs(found)
    by_run = [(run, lateness_by(run, specs.get(run.id))) for run in found]
    return [run for run, late in by_run if late is not None and late > LATE][:SHOWN]
