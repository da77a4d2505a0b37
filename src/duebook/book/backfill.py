"""Which past due times a backfill runs (those without a run, and existing runs to retry), how
they are queued, and which of them can still be withdrawn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from duebook.book.held import held_of
from duebook.errors import Invalid
from duebook.model.fields import whole
from duebook.planner import DueTimes, ended_fire, instant_before, new_fire
from duebook.store.values import Filling
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.plan import Snapshot
    from duebook.model.run import Origin, Run
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Tx

__all__ = ["MOST_BACKFILLED", "fill", "find_missing", "find_queued", "read_filling"]

MOST_BACKFILLED: Final = 10_000


def find_missing(
    tx: Tx, snapshot: Snapshot, since: datetime, until: datetime, reprocess: str | None
) -> tuple[list[datetime], list[Run]]:
    """The due times of a range without a run, and the existing runs to start again."""
    if until > tx.now:
        raise Invalid(f"end {format_instant(until)} is in the future")
    _refuse_forgotten(tx, snapshot.schedule_id, since)
    spec = snapshot.spec.counting_from(None)  # as if it had always been in force
    due = DueTimes.of(replace(snapshot, spec=spec, windows=()), tx.now)
    decided = min(until, snapshot.decided_until(tx.now))
    most = MOST_BACKFILLED + 1
    if due.count_up_to(most, instant_before(since), decided) == most:
        raise Invalid(
            f"there are more than {MOST_BACKFILLED:,} due times from {format_instant(since)} "
            f"to {format_instant(until)}; backfill a shorter range"
        )
    runs = tx.runs.list_runs_due(snapshot.schedule_id, since, until, 2 * MOST_BACKFILLED)
    have = {run.due_at for run in runs} | set(due.put_in_until(decided))
    held = [one for one in held_of(tx, snapshot.schedule_id) if one.range.due_to >= since]
    missing = [
        at
        for at in due.among(instant_before(since), decided)
        if at not in have and not any(one.covers(at) for one in held)
    ]
    # check again after reading the runs: retention records a deletion before it deletes runs
    _refuse_forgotten(tx, snapshot.schedule_id, since)
    return missing, [run for run in runs if _shall_run_again(run, reprocess)]


def _refuse_forgotten(tx: Tx, schedule_id: str, since: datetime) -> None:
    """Raises Invalid: a due time whose run may have been deleted must not run again."""
    history = tx.history.of(schedule_id)
    horizon = history.since(tx.now)
    if since < horizon or since == history.forgotten_until:
        raise Invalid(
            f"start {format_instant(since)} is before {format_instant(horizon)}, where history "
            f"starts ({history}); choose a later start"
        )


def read_filling(
    spec: ScheduleSpec, concurrency: int | None, beside: bool, requested_by: str
) -> Filling:
    """How the runs of a backfill start; raises Invalid for what the schedule does not allow."""
    if concurrency is not None:
        whole(1, MOST_BACKFILLED)("concurrency", concurrency)
    allowed = beside or spec.overlap == "allow" or spec.instant
    if concurrency is not None and concurrency > 1 and not allowed:
        raise Invalid(
            f"concurrency {concurrency}: runs of the schedule must not overlap (overlap is "
            f"{spec.overlap}), so its backfill runs one at a time; set overlap to allow, or let "
            "this backfill run beside everything else (beside)"
        )
    limit = concurrency if allowed else None
    return Filling(requested_by or None, beside or limit is not None, limit)


def fill(
    tx: Tx,
    snapshot: Snapshot,
    missing: Sequence[datetime],
    again: Sequence[Run],
    how: Filling,
    origin: Origin = "backfill",
) -> list[str]:
    """Queue the backfill; returns the ids of the runs that are created and started again."""
    fires = [new_fire(snapshot, at, origin) for at in missing]
    if snapshot.spec.instant:
        ended = [ended_fire(fire, snapshot, tx.now) for fire in fires]
        ids = tx.runs.create_ended(snapshot, ended, requested_by=how.requested_by)
    else:
        ids = tx.runs.create_backfill(snapshot, fires, how)
    reopened = [run.id for run in again]
    tx.runs.reopen_backfill(snapshot, reopened, how)
    return [*ids, *reopened]


def find_queued(
    tx: Tx, schedule_id: str, since: datetime, until: datetime, queued_at: datetime
) -> tuple[list[str], int]:
    """The queued runs of the backfill at `queued_at` that have not started, and how many others
    have started and were not cancelled since."""
    runs = tx.runs.list_runs_due(schedule_id, since, until, 2 * MOST_BACKFILLED)
    its = [run for run in runs if _is_of(run, queued_at)]
    idle = [run.id for run in its if _is_idle(run, queued_at)]
    begun = [run for run in its if run.status not in ("queued", "cancelled")]
    return idle, len(begun)


def _is_idle(run: Run, queued_at: datetime) -> bool:
    """A lost run has started, though it kept its place in the queue."""
    return run.status == "queued" and run.ready_at == queued_at and not run.losses


def _is_of(run: Run, queued_at: datetime) -> bool:
    """Whether it was created, or started again, by the backfill or approval at that instant."""
    if run.origin in ("backfill", "catchup") and run.created_at == queued_at:
        return True
    return run.created_at < queued_at == run.ready_at


def _shall_run_again(run: Run, reprocess: str | None) -> bool:
    if run.is_active:
        return False
    return reprocess == "all" or (reprocess == "failed" and run.status != "succeeded")
