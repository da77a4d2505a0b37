"""Reads what explanations need in one transaction, each fact once; decides nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final

from duebook.errors import DuebookError
from duebook.explain.fleet import Fleet
from duebook.explain.skips import Skipped
from duebook.explain.undue import raw_due_times, zone_of
from duebook.explain.words import Clock, as_moment
from duebook.model.plan import Reason
from duebook.planner import DueTimes, control_due_times, decided_controls, plan
from duebook.store.values import LedgerEntry

if TYPE_CHECKING:
    from duebook.budget import Budget
    from duebook.model.history import History
    from duebook.model.plan import DueException, Kind, Plan, Snapshot, Unattended, WindowSpan
    from duebook.model.run import Attempt, Run
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Tx

__all__ = ["Facts"]

MOST_ENTRIES: Final = 1_000
_MICRO: Final = timedelta(microseconds=1)
_SECOND: Final = timedelta(seconds=1)
_MISSED: Final = (Reason.MISSED, Reason.COALESCED, Reason.EXPIRED, Reason.HELD)


class Facts:
    """What the database knows about one schedule."""

    def __init__(
        self, tx: Tx, schedule_id: str, tz: str | None = None, budget: Budget | None = None
    ) -> None:
        """`tz`: the zone of the times in sentences, if it is not the schedule's."""
        self._budget = budget
        self._due_times: dict[tuple[int, bool], DueTimes] = {}
        self._tx = tx
        self._tz = tz
        self.now = tx.now
        self.schedule = tx.schedules.get_schedule(schedule_id)
        self.revisions = tx.schedules.list_revisions(schedule_id)
        self.fleet = Fleet(tx)

    @property
    def deleted(self) -> bool:
        return self.schedule.status == "deleted"

    @cached_property
    def history(self) -> History:
        """How much of its past is still stored."""
        return self._tx.history.of(self.schedule.id)

    # -- definitions

    def decided(self, at: datetime) -> bool:
        """Whether all due times up to an instant have been decided."""
        watermark = self.schedule.watermark
        return watermark is None or at <= watermark

    def spec_at(self, at: datetime) -> ScheduleSpec | None:
        """The definition in force at an instant; None if this node cannot read it."""
        if not self.decided(at):
            return self.schedule.spec
        valid = [revision for revision in self.revisions if revision.valid_from <= at]
        return (valid or self.revisions)[-1 if valid else 0].spec

    def spec_of(self, entry: LedgerEntry) -> ScheduleSpec | None:
        """The definition that has the due times of an entry."""
        return next((r.spec for r in self.revisions if r.version == entry.version), None)

    def zone_at(self, at: datetime) -> str:
        """The zone of the times in the sentence about an instant."""
        return self._tz or zone_of(self.spec_at(at))

    def clock_at(self, at: datetime) -> Clock:
        return Clock(self.zone_at(at), at)

    # -- decided due times

    def run_at(self, at: datetime) -> Run | None:
        """The run of a due time; for a whole second, the run of a due time within that second."""
        runs = self._tx.runs.list_runs_due(self.schedule.id, at, _until(at), 1)
        return runs[0] if runs else None

    def entry_at(self, at: datetime, kind: Kind = "start") -> LedgerEntry | None:
        """The entry that covers a due time; if there are several, the narrowest."""
        return self.entry_among(self.entries_between(at, _until(at), MOST_ENTRIES, kind), at)

    def entry_among(self, entries: list[LedgerEntry], at: datetime) -> LedgerEntry | None:
        """The best of several entries for a due time: one that is about it alone."""
        until = _until(at)
        near = [entry for entry in entries if entry.due_from <= until and entry.due_to >= at]
        covering = [entry for entry in near if self.covers(entry, at)]
        return min(covering, key=lambda e: (e.due_to - e.due_from, -e.at.timestamp()), default=None)

    def covers(self, entry: LedgerEntry, at: datetime) -> bool:
        """Whether an entry covers a due time: a range covers those that its definition yields."""
        if at <= entry.due_from <= _until(at) or at <= entry.due_to <= _until(at):
            return True
        if entry.count == 1 or not entry.due_from < at < entry.due_to:
            return False
        due = self.due_times_of(entry)
        return due is None or due.knows(at)

    def due_times_of(self, entry: LedgerEntry) -> DueTimes | None:
        """The due times that an entry's belong to; None if the definition cannot be read."""
        spec = self.spec_of(entry)
        if spec is None:
            return None
        if entry.kind != "start":
            return self.due_times(spec, entry.kind)
        if entry.reason in (Reason.EXCLUDED, Reason.CALENDAR):
            return self.raw_due_times(spec)
        return self.due_times(spec)

    def due_times(self, spec: ScheduleSpec, kind: Kind = "start") -> DueTimes:
        """What a definition yields, without skips and moves."""
        if kind != "start":
            return control_due_times(spec, kind, self.now, self.schedule.name, self._budget)
        key = (id(spec), False)
        if key not in self._due_times:  # so that a thousand excluded days are read once
            made = DueTimes(spec, (), self.now, self.schedule.name, self._budget)
            self._due_times[key] = made
        return self._due_times[key]

    def open_due_times(self, spec: ScheduleSpec) -> DueTimes:
        """As `due_times`, without those in maintenance windows."""
        if not self._windows:
            return self.due_times(spec)
        how = self.now, self.schedule.name, self._budget, self._windows
        return DueTimes(spec, (), *how)

    def window_at(self, at: datetime) -> WindowSpan | None:
        """The maintenance window that a future instant falls into."""
        return next((window for window in self._windows if window.start <= at < window.end), None)

    @property
    def _windows(self) -> tuple[WindowSpan, ...]:
        return () if self.snapshot is None else self.snapshot.windows

    def raw_due_times(self, spec: ScheduleSpec) -> DueTimes:
        """What its triggers yield within its bounds, ignoring excluded days."""
        key = (id(spec), True)
        if key not in self._due_times:
            self._due_times[key] = raw_due_times(spec, self._budget)
        return self._due_times[key]

    def spend(self) -> None:
        """Count one more due time to explain; raises OverBudget."""
        if self._budget is not None:
            self._budget.spend()

    def ripe_at(self, due_at: datetime) -> datetime:
        """When the due time was to be planned."""
        spec = self.spec_at(due_at)
        return due_at if spec is None else self.due_times(spec).ripe_at(due_at)

    def runs_between(self, start: datetime, end: datetime, limit: int) -> list[Run]:
        return self._tx.runs.list_runs_due(self.schedule.id, start, end, limit)

    def attempts(self, run: Run) -> list[Attempt]:
        """Those before the current one; most runs have none."""
        return self._tx.runs.list_attempts(run.id) if run.attempt > 1 or run.losses else []

    def entries_between(
        self, start: datetime, end: datetime, limit: int, kind: Kind = "start"
    ) -> list[LedgerEntry]:
        """Entries of the ledger, and held due times."""
        found = self._tx.ledger.list_ledger_between(self.schedule.id, start, end, limit)
        near = [held for held in self._held if held.due_from <= end and held.due_to >= start]
        return [entry for entry in (*found, *near[:limit]) if entry.kind == kind]

    @cached_property
    def _held(self) -> list[LedgerEntry]:
        """Held due times, as the ledger entries that they do not have yet."""
        return [
            LedgerEntry(
                held.due_from,
                held.due_to,
                held.count,
                held.exact,
                "waiting",
                Reason.HELD.value,
                {},
                held.held_at,
                held.version,
            )
            for held in self._tx.held.of([self.schedule.id])
        ]

    def skipped(self, entry: LedgerEntry, due_at: datetime) -> Skipped:
        """A due time of an entry, with what its sentence needs."""
        spec, outage, fired = self.spec_of(entry), None, False
        if entry.reason in _MISSED:
            grace = spec.grace if spec else timedelta()
            outage = self.fleet.outage(due_at, grace, entry.at)
        if entry.reason == Reason.COALESCED and (into := as_moment(entry.facts.get("into"))):
            fired = self.run_at(into) is not None
        return Skipped(entry, due_at, spec, outage, fired)

    # -- undecided due times

    @cached_property
    def exceptions(self) -> list[DueException]:
        return [] if self.deleted else self._tx.schedules.list_exceptions(self.schedule.id)

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The schedule as the planner sees it; None if it was deleted or cannot be read."""
        try:
            return self._tx.plans.snapshot(self.schedule.id)
        except DuebookError:
            return None

    @property
    def controlled_until(self) -> datetime | None:
        """The instant up to which stops and restarts are decided; None for a deleted schedule."""
        return None if self.snapshot is None else decided_controls(self.snapshot, self.now)

    def controls_decided(self, at: datetime) -> bool:
        until = self.controlled_until
        return until is None or at <= until

    @property
    def unattended(self) -> Unattended | None:
        """The directory of its flow, while no node reads it."""
        return None if self.snapshot is None else self.snapshot.unattended

    @cached_property
    def plan(self) -> Plan | None:
        """What the planner would decide now; None if it cannot."""
        if self.snapshot is None or self.schedule.problem:
            return None
        try:
            return plan(self.snapshot, self.now)
        except Exception:  # the tick records it as the schedule's problem
            return None


def _until(at: datetime) -> datetime:
    """Users ask for whole seconds; a moved due time may have a fraction."""
    return at if at.microsecond else at + _SECOND - _MICRO
