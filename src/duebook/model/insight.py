"""What people see at a glance, as values: marks of runs, the load of hours, what is going on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

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


@dataclass(frozen=True, slots=True)
class RunMark:
    """All of a run that a chart shows."""

    id: str
    status: RunStatus
    origin: Origin
    attempt: int
    version: int | None
    """of the definition that made it"""
    at: datetime
    """when it was due; without a due time, when it was made"""
    due_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    planned_at: datetime | None = None
    """when its jitter let it begin, where that was asked for"""

    @property
    def took(self) -> timedelta | None:
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at


@dataclass(frozen=True, slots=True)
class HourLoad:
    """The runs that ended in an hour, or those that will be due in it."""

    hour: datetime
    runs: int
    failed: int
    busy: timedelta
    """the time that they took together, or may take"""


@dataclass(frozen=True, slots=True)
class Planned:
    """An active schedule, as far as its due times to come matter."""

    id: str
    name: str
    spec: ScheduleSpec
    exceptions: tuple[DueException, ...] = ()
    """due times to come that were skipped or moved"""
    windows: tuple[WindowSpan, ...] = ()
    """maintenance windows that pause it"""


@dataclass(frozen=True, slots=True)
class Coming:
    """A due time to come."""

    at: datetime
    schedule: str
    tz: str


@dataclass(frozen=True, slots=True)
class Staff:
    """What the live nodes do for a namespace, without telling who they are; any of them plans."""

    lives: bool
    plans: bool
    queues: frozenset[str]
    """that they serve for the namespace"""

    @staticmethod
    def of(nodes: Sequence[LiveNode], namespace: str) -> Staff:
        return Staff(
            bool(nodes),
            any("scheduler" in node.roles for node in nodes),
            frozenset(queue for node in nodes if node.serves(namespace) for queue in node.queues),
        )


@dataclass(frozen=True, slots=True)
class Overview:
    """What goes on in a namespace."""

    now: datetime
    schedules: int
    running: Sequence[Run]
    coming: Sequence[Coming]
    coming_until: datetime
    """up to when `coming` is all there is"""
    failed: Sequence[Run]
    failed_steps: Mapping[str, Run]
    """of those that are runs of flows, the step at which they failed, by their id"""
    failed_count: int
    late: Sequence[Run]
    zones: Mapping[str, str]
    """the zones in which runs that failed or were late were due, by their id"""
    problems: Sequence[Schedule]
    broken: Sequence[str]
    """files of flows with which something is wrong"""
    stranded: Sequence[StrandedTask]
    unserved: str | None
    """that no live worker serves the namespace"""
    staff: Staff
    nodes: Sequence[LiveNode]
    """those that the viewer sees"""
    queues: Sequence[QueueLoad]
    held: Sequence[HeldRange] = ()
    """missed due times that wait for an operator"""
    windows: Sequence[MaintenanceWindow] = ()
    """maintenance windows that are open, or start soon"""
    alerts: int = 0
    """problems that alert rules have found, and that are not over"""


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
    """A calendar with those who use it."""

    now: datetime
    calendar: Calendar
    users: int
    """schedules that use it"""
    schedules: Sequence[Schedule]
    """the first of them"""
    calendars: Sequence[str]
    """others that refer to it"""
    versions: Sequence[Calendar]
    """the newest first"""


TELLING: Final = ("failed", "running")
"""States of a flow's run that one of its steps explains."""


def fold_steps(runs: Sequence[Run]) -> tuple[list[Run], dict[str, Run]]:
    """Runs without the steps of flows that are among them; of each flow the first step that
    stands as it does, such as the one at which it failed, and none that began again since."""
    flows = {run.id: run.status for run in runs if run.flow and run.parent_run_id is None}
    kept = [run for run in runs if run.parent_run_id not in flows]
    steps: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: run.finished_at or run.created_at):
        if run.step and run.parent_run_id and flows.get(run.parent_run_id) == run.status:
            steps.setdefault(run.parent_run_id, run)
    return kept, {id_: run for id_, run in steps.items() if run.status in TELLING}
