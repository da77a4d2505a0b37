"""Values for an overview: marks of runs, the load of hours, current activity."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duebook.model.calendar import Calendar
    from duebook.model.held import HeldRange
    from duebook.model.node import LiveNode
    from duebook.model.plan import DueException, WindowSpan
    from duebook.model.queue import QueueLoad
    from duebook.model.run import Origin, Run, RunStatus
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.model.serving import StrandedTask
    from duebook.model.window import MaintenanceWindow

__all__ = [
    "CalendarInsight",
    "Coming",
    "HourLoad",
    "Overview",
    "Planned",
    "RunMark",
    "Staff",
    "Summary",
    "fold_steps",
]


NONE: Final = timedelta()


@dataclass(frozen=True, slots=True)
class RunMark:
    """Everything of a run that a chart shows."""

    id: str
    status: RunStatus
    origin: Origin
    attempt: int
    version: int | None
    """the version of the definition that created it"""
    at: datetime
    """when it was due; without a due time, when it was created"""
    due_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    planned_at: datetime | None = None
    """when its jitter let it start, if requested"""

    @property
    def took(self) -> timedelta | None:
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at


@dataclass(frozen=True, slots=True)
class HourLoad:
    """The runs that ended in an hour, or that will be due in it."""

    hour: datetime
    runs: int
    failed: int
    busy: timedelta
    """the time that they took together, or may take"""
    late: int = 0
    """how many of them began late"""
    latest: timedelta = NONE
    """the greatest lateness of those"""
    late_complete: bool = True
    """whether all late runs were counted"""


@dataclass(frozen=True, slots=True)
class Planned:
    """An active schedule, as far as its upcoming due times matter."""

    id: str
    name: str
    spec: ScheduleSpec
    exceptions: tuple[DueException, ...] = ()
    """upcoming due times that were skipped or moved"""
    windows: tuple[WindowSpan, ...] = ()
    """maintenance windows that pause it"""


@dataclass(frozen=True, slots=True)
class Coming:
    """An upcoming due time."""

    at: datetime
    schedule: str
    tz: str


@dataclass(frozen=True, slots=True)
class Staff:
    """What the live nodes do for a namespace, without identifying them; any of them plans."""

    lives: bool
    plans: bool
    queues: frozenset[str]
    """those that they serve for the namespace"""

    @staticmethod
    def of(nodes: Sequence[LiveNode], namespace: str) -> Staff:
        return Staff(
            bool(nodes),
            any("scheduler" in node.roles for node in nodes),
            frozenset(queue for node in nodes if node.serves(namespace) for queue in node.queues),
        )


@dataclass(frozen=True, slots=True)
class Overview:
    """The current activity in a namespace."""

    now: datetime
    schedules: int
    running: Sequence[Run]
    coming: Sequence[Coming]
    coming_until: datetime
    """up to when `coming` is complete"""
    failed: Sequence[Run]
    failed_steps: Mapping[str, Run]
    """for runs of flows, the step at which they failed, by run id"""
    failed_count: int
    late: Sequence[Run]
    zones: Mapping[str, str]
    """the zones in which failed or late runs were due, by run id"""
    problems: Sequence[Schedule]
    broken: Sequence[str]
    """flow files with problems"""
    stranded: Sequence[StrandedTask]
    unserved: str | None
    """why the namespace has no live worker, if so"""
    staff: Staff
    nodes: Sequence[LiveNode]
    """those that the viewer can see"""
    queues: Sequence[QueueLoad]
    held: Sequence[HeldRange] = ()
    """missed due times that wait for an operator"""
    windows: Sequence[MaintenanceWindow] = ()
    """maintenance windows that are open or start soon"""
    alerts: int = 0
    """unresolved problems found by alert rules"""


@dataclass(frozen=True, slots=True)
class Summary:
    """A namespace in figures."""

    schedules: int
    running: int
    failed: int
    """in the last day"""
    alerts: int


@dataclass(frozen=True, slots=True)
class CalendarInsight:
    """A calendar with its users."""

    now: datetime
    calendar: Calendar
    users: int
    """number of schedules that use it"""
    schedules: Sequence[Schedule]
    """the first of them"""
    calendars: Sequence[str]
    """other calendars that refer to it"""
    versions: Sequence[Calendar]
    """the newest first"""


TELLING: Final = ("failed", "running")
"""States of a flow's run that one of its steps explains."""


def fold_steps(runs: Sequence[Run]) -> tuple[list[Run], dict[str, Run]]:
    """Runs without those steps whose flow is among them; and for each such flow its first step with
    the same status, such as the one at which it failed, unless that has started again since."""
    flows = {run.id: run.status for run in runs if run.flow and run.parent_run_id is None}
    kept = [run for run in runs if run.parent_run_id not in flows]
    steps: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: run.finished_at or run.created_at):
        if run.step and run.parent_run_id and flows.get(run.parent_run_id) == run.status:
            steps.setdefault(run.parent_run_id, run)
    return kept, {id_: run for id_, run in steps.items() if run.status in TELLING}
