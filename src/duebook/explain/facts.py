"""Gathers what explanations need from one transaction, each fact once; decides nothing."""

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
    """What the books know about one schedule."""

    def __init__(
        self, tx: Tx, schedule_id: str, tz: str | None = None, budget: Budget | None = None
    ) -> None:
        """`tz`: the zone that sentences tell times in, where that is not the schedule's."""
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
        """What is left of its past."""
        return self._tx.history.of(self.schedule.id)

    # -- definitions

    def decided(self, at: datetime) -> bool:
        """Whether whatever is due at an instant has been decided."""
        watermark = self.schedule.watermark
        return watermark is None or at <= watermark

    def spec_at(self, at: datetime) -> ScheduleSpec | None:
        """The definition in force for an instant; None when this node cannot read it."""
        if not self.decided(at):
            return self.schedule.spec
        valid = [revision for revision in self.revisions if revision.valid_from <= at]
        return (valid or self.revisions)[-1 if valid else 0].spec

    def spec_of(self, entry: LedgerEntry) -> ScheduleSpec | None:
        """The definition that has the due times of an entry."""
        return next((r.spec for r in self.revisions if r.version == entry.version), None)

    def zone_at(self, at: datetime) -> str:
        """The zone that the sentence about an instant tells times in."""
        return self._tz or zone_of(self.spec_at(at))

    def clock_at(self, at: datetime) -> Clock:
        return Clock(self.zone_at(at), at)

    # -- what was decided

    def run_at(self, at: datetime) -> Run | None:
        """The run of a due time; of the one within the second, when a whole second is asked."""
        runs = self._tx.runs.list_runs_due(self.schedule.id, at, _until(at), 1)
        return runs[0] if runs else None

    def entry_at(self, at: datetime, kind: Kind = "start") -> LedgerEntry | None:
        """The entry that covers a due time, the narrowest of several."""
        return self.entry_among(self.entries_between(at, _until(at), MOST_ENTRIES, kind), at)

    def entry_among(self, entries: list[LedgerEntry], at: datetime) -> LedgerEntry | None:
        """The one of several that covers a due time best: what is said about it alone."""
        until = _until(at)
        near = [entry for entry in entries if entry.due_from <= until and entry.due_to >= at]
        covering = [entry for entry in near if self.covers(entry, at)]
        return min(covering, key=lambda e: (e.due_to - e.due_from, -e.at.timestamp()), default=None)

    def covers(self, entry: LedgerEntry, at: datetime) -> bool:
        """Whether an entry is about a due time: of a range, about those its definition yields."""
        if at <= entry.due_from <= _until(at) or at <= entry.due_to <= _until(at):
            return True
        if entry.count == 1 or not entry.due_from < at < entry.due_to:
            return False
        due = self.due_times_of(entry)
        return due is None or due.knows(at)

    def due_times_of(self, entry: LedgerEntry) -> DueTimes | None:
        """The due times among which an entry's are; None when the definition is not readable."""
        spec = self.spec_of(entry)
        if spec is None:
            return None
        if entry.kind != "start":
            return self.due_times(spec, entry.kind)
        if entry.reason in (Reason.EXCLUDED, Reason.CALENDAR):
            return self.raw_due_times(spec)
        return self.due_times(spec)

    def due_times(self, spec: ScheduleSpec, kind: Kind = "start") -> DueTimes:
        """What a definition yields, but for what people said."""
        if kind != "start":
            return control_due_times(spec, kind, self.now, self.schedule.name, self._budget)
        key = (id(spec), False)
        if key not in self._due_times:  # a thousand excluded days are read once
            made = DueTimes(spec, (), self.now, self.schedule.name, self._budget)
            self._due_times[key] = made
        return self._due_times[key]

    def open_due_times(self, spec: ScheduleSpec) -> DueTimes:
        """As `due_times`, without those that maintenance windows take."""
        if not self._windows:
            return self.due_times(spec)
        how = self.now, self.schedule.name, self._budget, self._windows
        return DueTimes(spec, (), *how)

    def window_at(self, at: datetime) -> WindowSpan | None:
        """The maintenance window that an instant to come falls into."""
        return next((window for window in self._windows if window.start <= at < window.end), None)

    @property
    def _windows(self) -> tuple[WindowSpan, ...]:
        return () if self.snapshot is None else self.snapshot.windows

    def raw_due_times(self, spec: ScheduleSpec) -> DueTimes:
        """What its triggers yield within the bounds, whatever days are excluded."""
        key = (id(spec), True)
        if key not in self._due_times:
            self._due_times[key] = raw_due_times(spec, self._budget)
        return self._due_times[key]

    def spend(self) -> None:
        """One more due time to explain; raises OverBudget."""
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
        """Those of the ledger, and what waits for an operator."""
        found = self._tx.ledger.list_ledger_between(self.schedule.id, start, end, limit)
        near = [held for held in self._held if held.due_from <= end and held.due_to >= start]
        return [entry for entry in (*found, *near[:limit]) if entry.kind == kind]

    @cached_property
    def _held(self) -> list[LedgerEntry]:
        """What waits for an operator, as the entries that these due times do not have yet."""
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

    # -- what is not decided yet

    @cached_property
    def exceptions(self) -> list[DueException]:
        return [] if self.deleted else self._tx.schedules.list_exceptions(self.schedule.id)

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The schedule as the planner sees it; None when it was deleted or cannot be read."""
        try:
            return self._tx.plans.snapshot(self.schedule.id)
        except DuebookError:
            return None

    @property
    def controlled_until(self) -> datetime | None:
        """Up to where stops and restarts are decided; None of a deleted schedule."""
        return None if self.snapshot is None else decided_controls(self.snapshot, self.now)

    def controls_decided(self, at: datetime) -> bool:
        until = self.controlled_until
        return until is None or at <= until

    @property
    def unattended(self) -> Unattended | None:
        """The directory of its flow, while no node reads that."""
        return None if self.snapshot is None else self.snapshot.unattended

    @cached_property
    def plan(self) -> Plan | None:
        """What the planner would decide now; None when it cannot."""
        if self.snapshot is None or self.schedule.problem:
            return None
        try:
            return plan(self.snapshot, self.now)
        except Exception:  # the tick records it as the schedule's problem
            return None


def _until(at: datetime) -> datetime:
    """People ask about whole seconds; a moved due time may have a fraction."""
    return at if at.microsecond else at + _SECOND - _MICRO
