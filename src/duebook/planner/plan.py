"""Decides about the pending due times of one schedule; knows the policies, touches nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.model.plan import Decision, Fire, Plan, Reason, Skip
from duebook.planner.due import DueTimes, instant_before

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import ActiveRun, Snapshot
    from duebook.model.run import Origin

__all__ = ["MOST_AT_ONCE", "RECHECK", "plan", "settled_state"]

MOST_AT_ONCE: Final = 1_000
"""Live due times decided by one plan; with more, the rest follows in the next plan at once."""
RECHECK: Final = timedelta(minutes=1)
"""When to look again at a schedule that waits for a run to end; its settle wakes it earlier."""

Candidate = tuple["datetime", "Origin"]


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """Decide about every due time after the watermark, up to and including `now`.

    Each gets exactly one decision, in order. A clock that stepped back behind the watermark
    finds nothing pending. The plan of a schedule that is not active changes nothing.
    """
    return _on_time(snapshot, now) or _by_all_rules(snapshot, now)


def _on_time(snapshot: Snapshot, now: datetime) -> Plan | None:
    """The plan of nearly every tick, at a third of the cost: one due time, and no rule applies."""
    spec, watermark = snapshot.spec, snapshot.watermark
    if watermark is None or snapshot.status != "active" or snapshot.exceptions:
        return None
    if len(spec.triggers) > 1 or (snapshot.active and spec.overlap != "allow"):
        return None
    due_at = spec.triggers[0].next_after(watermark)
    if due_at is None or not now - spec.grace <= due_at <= now:
        return None
    following = spec.triggers[0].next_after(due_at)
    if following is None or following <= now:
        return None
    fires = (Fire(due_at, "schedule"),)
    return Plan(snapshot.schedule_id, snapshot.version, fires, "active", now, following, following)


def _by_all_rules(snapshot: Snapshot, now: datetime) -> Plan:
    watermark = now if snapshot.watermark is None else snapshot.watermark
    due = DueTimes(snapshot.spec.triggers, snapshot.exceptions, watermark)
    if snapshot.status != "active":
        return settled_state(snapshot, due, (), watermark, now)
    until = max(watermark, now)
    missed_until = min(instant_before(now - snapshot.spec.grace), until)
    skips, candidates = _missed(snapshot, due, watermark, missed_until)
    live = due.regular(max(watermark, missed_until), until, MOST_AT_ONCE)
    if len(live) == MOST_AT_ONCE:
        until = live[-1]
    # what was moved to the past when it was said is due at once; the rest is missed like any other
    moved = [at for at in due.moved_here(until) if at <= watermark or at > missed_until]
    candidates += [(at, "schedule") for at in sorted({*live, *moved})]
    skips += due.taken_out(watermark, until)
    decisions = (*skips, *_overlap(snapshot, candidates))
    return settled_state(snapshot, due, decisions, until, now)


def _missed(
    snapshot: Snapshot, due: DueTimes, after: datetime, until: datetime
) -> tuple[list[Skip], list[Candidate]]:
    """Catch-up: which of the due times that nobody saw in time are kept."""
    if after >= until:
        return [], []
    moved = [at for at in due.moved_here(until) if at > after]
    regular = due.last_regular(after, until)
    newest = max((at for at in (regular, *moved) if at is not None), default=None)
    if newest is None:
        return [], []
    if snapshot.spec.catchup == "skip":
        return due.skip_all(after, until, moved, Reason.MISSED, {"catchup": "skip"}), []
    older = [at for at in moved if at < newest]
    facts = {"into": newest}
    return (
        due.skip_all(after, instant_before(newest), older, Reason.COALESCED, facts),
        [(newest, "catchup")],
    )


def _overlap(snapshot: Snapshot, candidates: list[Candidate]) -> list[Decision]:
    """What a due time does while a run of the schedule is active."""
    decisions: list[Decision] = []
    blocker: ActiveRun | Fire | None = next(iter(snapshot.active), None)
    for due_at, origin in candidates:
        if blocker is not None and snapshot.spec.overlap == "skip":
            decisions.append(Skip(due_at, due_at, 1, True, Reason.OVERLAP, _facts_of(blocker)))
        else:
            fire = Fire(due_at, origin)
            decisions.append(fire)
            blocker = blocker or fire
    return decisions


def _facts_of(blocker: ActiveRun | Fire) -> dict[str, object]:
    """What was active: a run, or the due time that this very plan fires."""
    if isinstance(blocker, Fire):
        return {"due_at": blocker.due_at}
    return {"run": blocker.id, "since": blocker.since}


def settled_state(
    snapshot: Snapshot,
    due: DueTimes,
    decisions: tuple[Decision, ...],
    watermark: datetime,
    now: datetime,
) -> Plan:
    """The plan with the state that follows from its decisions: what is next, or completion."""
    next_due_at = due.next_after(watermark)
    wake_at = due.wake_after(watermark)
    status = snapshot.status
    if status == "active" and next_due_at is None:
        decisions = tuple(_waking(decision) for decision in decisions)
        busy = bool(snapshot.active) or any(isinstance(d, Fire) for d in decisions)
        status = "active" if busy or wake_at else "completed"
        wake_at = wake_at or (now + RECHECK if busy else None)
    return Plan(
        snapshot.schedule_id,
        snapshot.version,
        decisions,
        status,
        watermark,
        next_due_at,
        wake_at if status == "active" else None,
        used=tuple(e for e in snapshot.exceptions if e.due_at <= watermark),
    )


def _waking(decision: Decision) -> Decision:
    """The last run of a schedule wakes it, so that it completes at once."""
    return (
        Fire(decision.due_at, decision.origin, wakes=True)
        if isinstance(decision, Fire)
        else decision
    )
