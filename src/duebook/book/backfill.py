"""Which past due times a backfill runs: those without a run, and the runs to open again; how they
are queued, and which of them can still be taken back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid
from duebook.model.plan import Fire, Lane
from duebook.planner import DueTimes, ended_fire, instant_before
from duebook.settings import RETENTION
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.plan import Snapshot
    from duebook.model.run import Run
    from duebook.store.base import Tx

__all__ = ["fill", "find_missing", "find_queued"]

MOST_BACKFILLED: Final = 10_000


def find_missing(
    tx: Tx, snapshot: Snapshot, since: datetime, until: datetime, reprocess: str | None
) -> tuple[list[datetime], list[Run]]:
    """The due times of a range without a run, and the runs that shall be opened again."""
    if until > tx.now:
        raise Invalid(f"end {format_instant(until)} is in the future")
    if since < (horizon := tx.now - RETENTION):
        raise Invalid(
            f"start {format_instant(since)} is before {format_instant(horizon)}, where history "
            "starts; choose a later start"
        )
    spec = snapshot.spec.counting_from(None)  # as if it had always been in force
    due = DueTimes.of(replace(snapshot, spec=spec, windows=()), tx.now)
    decided = min(until, snapshot.decided_until(tx.now))
    if due.count(instant_before(since), decided) > MOST_BACKFILLED:
        raise Invalid(
            f"there are more than {MOST_BACKFILLED:,} due times from {format_instant(since)} "
            f"to {format_instant(until)}; backfill a shorter range"
        )
    runs = tx.runs.list_runs_due(snapshot.schedule_id, since, until, 2 * MOST_BACKFILLED)
    have = {run.due_at for run in runs} | set(due.put_in_until(decided))
    missing = [at for at in due.among(instant_before(since), decided) if at not in have]
    return missing, [run for run in runs if _shall_run_again(run, reprocess)]


def fill(
    tx: Tx, snapshot: Snapshot, missing: Sequence[datetime], again: Sequence[Run]
) -> list[str]:
    """The ids of the runs that are made and opened again for them."""
    if snapshot.spec.instant:
        fires = (Fire(at, "backfill") for at in missing)
        ids = tx.runs.create_ended(snapshot, [ended_fire(f, snapshot, tx.now) for f in fires])
    else:
        ids = tx.runs.create_backfill(snapshot, missing)
    for run in again:
        tx.runs.reopen(run.id, Lane.BACKFILL)
    return [*ids, *(run.id for run in again)]


def find_queued(
    tx: Tx, schedule_id: str, since: datetime, until: datetime, queued_at: datetime
) -> tuple[list[str], int]:
    """The runs that the backfill of that instant queued and nobody has begun; how many of the
    others were begun, and not cancelled since."""
    runs = tx.runs.list_runs_due(schedule_id, since, until, 2 * MOST_BACKFILLED)
    its = [run for run in runs if _is_of(run, queued_at)]
    idle = [run.id for run in its if _is_idle(run, queued_at)]
    begun = [run for run in its if run.status not in ("queued", "cancelled")]
    return idle, len(begun)


def _is_idle(run: Run, queued_at: datetime) -> bool:
    """One that was lost has begun, though it kept its place in the queue."""
    return run.status == "queued" and run.ready_at == queued_at and not run.losses


def _is_of(run: Run, queued_at: datetime) -> bool:
    """Whether it was made by the backfill of that instant, or opened again."""
    if run.origin == "backfill" and run.created_at == queued_at:
        return True
    return run.created_at < queued_at == run.ready_at


def _shall_run_again(run: Run, reprocess: str | None) -> bool:
    if run.is_active:
        return False
    return reprocess == "all" or (reprocess == "failed" and run.status != "succeeded")
