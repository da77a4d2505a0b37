"""Schedules, their templates and runs, as people ask for them and change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from duebook.model.plan import Lane
from duebook.model.serving import ALL

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime, timedelta

    from duebook.model.clock_step import ClockStep
    from duebook.model.enqueued import Enqueued
    from duebook.model.filters import LedgerFilter, RunFilter, ScheduleFilter, ScheduleSort
    from duebook.model.finding import Finding
    from duebook.model.listing import Found, PagePosition
    from duebook.model.node import LiveNode
    from duebook.model.plan import DueException, Fire, Plan, Skip, Snapshot
    from duebook.model.run import Attempt, LatestRun, LogLine, Run
    from duebook.model.schedule import Revision, Schedule, ScheduleSpec
    from duebook.model.serving import Serving
    from duebook.model.template import ScheduleTemplate
    from duebook.model.unreadable import Salvaged
    from duebook.store.values import (
        Account,
        Health,
        Inventory,
        LedgerEntry,
        Load,
        NewSchedule,
        Page,
        Records,
        SessionSpan,
    )

__all__ = ["People"]


class People(Protocol):
    """A part of a Tx."""

    # -- schedule templates
    def save_template(self, namespace: str, name: str, defaults: dict[str, Any], by: str) -> None:
        """Keep defaults under a name; they replace the ones that it had."""

    def get_template(self, namespace: str, name: str) -> ScheduleTemplate | None: ...

    def list_templates(self, namespace: str) -> list[ScheduleTemplate]:
        """By name."""

    def remove_template(self, namespace: str, name: str) -> bool:
        """Whether there was one."""

    # -- schedules and runs, for people
    def create_schedule(
        self,
        schedule_id: str,
        namespace: str,
        name: str,
        spec: ScheduleSpec,
        next_due_at: datetime | None,
        wake_at: datetime | None,
        by: str,
    ) -> None:
        """Store a new schedule; raises Conflict when the name is taken."""

    def create_schedules(self, made: Sequence[NewSchedule], by: str, now: datetime) -> None:
        """Store new schedules as of `now`; raises Conflict when a name is taken."""

    def list_taken(self, namespace: str, names: Sequence[str]) -> dict[str, str]:
        """Which of these names are taken, and by which ids."""

    def update_schedule(self, schedule: Schedule, spec: ScheduleSpec, plan: Plan, by: str) -> None:
        """Put another definition in force, with the state that `plan` says."""

    def list_revisions(self, schedule_id: str) -> list[Revision]:
        """Every definition of the schedule, the first one first."""

    def find_schedule(self, namespace: str, name: str, deleted: bool = False) -> str:
        """The id of a schedule by its name, or its id; raises NotFound.

        With `deleted`, a name that is free means the schedule that had it last.
        """

    def get_schedule(self, schedule_id: str) -> Schedule: ...

    def get_schedules(self, schedule_ids: Sequence[str]) -> list[Schedule]:
        """Those that are not deleted, by id."""

    def list_schedules(
        self,
        namespace: str,
        wanted: ScheduleFilter,
        sort: ScheduleSort,
        after: PagePosition | None,
        limit: int,
    ) -> Found[Schedule]:
        """Schedules in an order, from the one after a place on, each with its latest run."""

    def find_schedules(
        self,
        namespace: str,
        wanted: ScheduleFilter,
        sort: ScheduleSort,
        after: PagePosition | None,
        limit: int,
    ) -> Found[tuple[str, str]]:
        """As list_schedules, but only their ids and names."""

    def latest_runs(self, schedule_ids: Sequence[str]) -> dict[str, LatestRun]:
        """The newest run of each schedule that has one."""

    def list_made_by(self, namespace: str, by: str) -> list[str]:
        """The names of the schedules that somebody made, in order."""

    def list_exceptions(self, schedule_id: str) -> list[DueException]:
        """What people said about due times that are not decided yet, by due time."""

    def snapshot(self, schedule_id: str) -> Snapshot:
        """One schedule, locked, as the planner sees it."""

    def snapshots(self, schedule_ids: Sequence[str]) -> list[Snapshot]:
        """As `snapshot`, of those that are not deleted and can be read, by id."""

    def salvage(self, schedule_ids: Sequence[str]) -> list[Salvaged]:
        """Those whose definitions this node cannot read, locked, by id, with what it can."""

    def pause(
        self, plans: Sequence[Plan], reason: str | None, until: datetime | None = None
    ) -> None:
        """Commit the state of schedules that pause now, `until` they resume by themselves."""

    def delete_schedules(self, ended: Sequence[tuple[Schedule, Sequence[Skip]]]) -> None:
        """Cancel queued runs, record pending due times, free the name; history stays."""

    def add_exception(self, schedule_id: str, exception: DueException) -> None: ...

    def remove_exception(self, schedule_id: str, exception: DueException) -> None: ...

    def create_run(self, snapshot: Snapshot, run_id: str, payload: dict[str, Any] | None) -> None:
        """A manual run of a schedule, ready now."""

    def create_ended(
        self, snapshot: Snapshot, fires: Sequence[Fire], payload: dict[str, Any] | None = None
    ) -> list[str]:
        """Runs that have ended, with their events; returns the ids of those whose due time had
        none."""

    def enqueue(self, run_id: str, namespace: str, wanted: Enqueued) -> str:
        """A run without a schedule; returns its id, or that of the run that has its key.

        Raises Conflict when that one was made by a transaction which this one cannot see.
        """

    def create_backfill(self, snapshot: Snapshot, due_times: Sequence[datetime]) -> list[str]:
        """Runs for due times that have none; returns their ids."""

    def reopen(self, run_id: str, lane: Lane = Lane.EXTRA) -> None:
        """Queue a run again that has ended, as another attempt; raises NotFound and Conflict.

        In the lane of backfills it gives way to due times that wait.
        """

    def cancel(self, run_id: str, reason: str) -> str:
        """Cancel a run; returns `cancelled`, or `requested` when it runs.

        Raises NotFound, and Conflict when it has ended.
        """

    def withdraw(self, run_ids: Sequence[str], reason: str) -> list[str]:
        """Cancel those of these runs that nobody has begun; returns their ids."""

    def get_run(self, run_id: str) -> Run:
        """Raises NotFound."""

    def find_run(self, namespace: str, text: str) -> str:
        """The id of a run by its id or the beginning of it.

        Raises NotFound, and Invalid when several begin so.
        """

    def short_id(self, run_id: str) -> str:
        """The beginning of an id that stands for this run alone."""

    def list_attempts(self, run_id: str) -> list[Attempt]:
        """The attempts that are over while the run goes on, or went on; the oldest first."""

    def list_runs(
        self, namespace: str, wanted: RunFilter, after: PagePosition | None, limit: int
    ) -> Found[Run]:
        """The newest first: of a schedule by when they were due or made, of all by creation."""

    def list_runs_due(
        self, schedule_id: str, since: datetime, until: datetime, limit: int
    ) -> list[Run]:
        """The runs of due times from `since` to `until`, the first one first."""

    def list_ledger(
        self, schedule_id: str, wanted: LedgerFilter, after: PagePosition | None, limit: int
    ) -> Found[LedgerEntry]:
        """The newest first."""

    def list_ledger_between(
        self, schedule_id: str, since: datetime, until: datetime, limit: int
    ) -> list[LedgerEntry]:
        """The entries about due times from `since` to `until`, the first one first."""

    def list_sessions(self, since: datetime, until: datetime) -> list[SessionSpan]:
        """The nodes that lived at some time from `since` to `until`."""

    def purge(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` things from before: runs, ledger entries, changes, nodes, tokens.

        Answers to repeated requests go after a day. Returns how many there were.
        """

    def wake_asleep(self, limit: int) -> list[str]:
        """Wake up to `limit` schedules that are active, or paused for a while, and that no node
        would ever look at again; returns their ids."""

    def note_clock_step(
        self, before: datetime, earliest: datetime, noticed: datetime, lease: timedelta
    ) -> bool:
        """The database's clock stepped back: it would have shown `before` when it showed `noticed`,
        and it showed at least `earliest` right after the step.

        After a step of more than a `lease`, leases from before it end in time, and runs wait no
        longer than they would have. Returns False when somebody has noted it already: then the
        times from `earliest` to `noticed` of both overlap.
        """

    def last_seen(self) -> datetime | None:
        """The latest time that a node has seen on the database's clock."""

    def list_clock_steps(self) -> list[ClockStep]:
        """When the database's clock stepped back, the first time first."""

    def list_nodes(self, of: Serving = ALL) -> list[LiveNode]:
        """The nodes whose lease has not run out, by name, the oldest first.

        Of some namespaces: those that serve one of them, with what they run of them.
        """

    def load(self, most: int) -> Load:
        """What waits and runs in each queue, counting up to `most` queued runs."""

    def health(self, grace: timedelta, namespaces: Collection[str] | None = None) -> Health:
        """Who works, on what, and which schedule is overdue by more than `grace`.

        With `namespaces`, only their runs and schedules count.
        """

    def unfit(self) -> str | None:
        """Why this Duebook should not use the schema; None: it may."""

    def count_statuses(self, after: str, limit: int) -> tuple[dict[str, int], str | None]:
        """The states of up to `limit` schedules by id, and after which one to go on, if any."""

    def inventory(self) -> Inventory:
        """What is in the books, who works on them, and what waits."""

    def check(self, deep: bool = False) -> list[Finding]:
        """Which invariants do not hold, as far as the books tell without the triggers.

        Of what is over only the last day, unless `deep`.
        """

    def list_accounts(self, after: str, limit: int) -> list[Account]:
        """All schedules by id, the deleted ones too, from the one after `after` on."""

    def list_records(
        self, wanted: Sequence[tuple[str, datetime]], until: datetime
    ) -> dict[str, Records]:
        """What became of the due times of schedules, each after the instant beside it."""

    def list_log(self, run_id: str, after: Page, limit: int) -> list[tuple[Page, LogLine]]: ...
