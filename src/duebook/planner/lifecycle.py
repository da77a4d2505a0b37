"""Plans for operations on a schedule: pause, resume, edit, delete."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from duebook.model.plan import Delay, DueException, Plan, Reason, Skip, Stretch
from duebook.planner.backlog import pieces_until, remaining
from duebook.planner.controls import (
    decided_controls,
    edit_controls,
    end_controls,
    next_control,
    resume_controls,
)
from duebook.planner.due import DueTimes, instant_before
from duebook.planner.intervals import handover_of
from duebook.planner.open_days import open_days
from duebook.planner.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from duebook.budget import Budget
    from duebook.model.plan import Snapshot, WindowSpan
    from duebook.model.schedule import ScheduleSpec

__all__ = [
    "count_edit",
    "end_of_pause",
    "first_plan",
    "held",
    "plan_edit",
    "plan_end",
    "plan_pause",
    "plan_resume",
    "upcoming",
    "upcoming_after",
]

MOST_COMPARED: Final = 1_000
"""Pending due times that an edit compares one by one."""


def first_plan(
    name: str, spec: ScheduleSpec, now: datetime, windows: tuple[WindowSpan, ...] = ()
) -> tuple[datetime | None, datetime | None]:
    """When a new schedule is first due, and when to look at it."""
    due = DueTimes(spec, (), now, name, windows=windows)
    moments = [due.wake_after(now), next_control(spec, now, name)]
    wake_at = min((moment for moment in moments if moment is not None), default=None)
    return due.next_after(now), wake_at


def plan_pause(snapshot: Snapshot, now: datetime) -> Plan:
    """Due times up to now keep their class and wait; nothing is decided while paused."""
    watermark, due = _due_times(snapshot, now)
    pieces = pieces_until(snapshot, due, watermark, now)
    waiting = [(p.after, p.until) for p in pieces if p.kind != "done"]
    if pieces and not any(due.last(*span) or due.left_out(*span) for span in waiting):
        watermark, pieces = pieces[-1].until, []
    planned = Walk(snapshot, due, pieces, watermark, now).plan()
    decided = decided_controls(snapshot, now) if snapshot.spec.controlled else None
    paused = replace(planned, status="paused", wake_at=None, delay=held(snapshot, now))
    return replace(paused, controlled_until=decided)


def held(snapshot: Snapshot, now: datetime) -> Delay | None:
    """The schedule's own time stands still while nothing is decided."""
    return None if snapshot.delay is None else Delay(held_at=snapshot.delay.own_time(now))


def plan_resume(snapshot: Snapshot, now: datetime) -> Plan:
    """Make a paused schedule active; what fell while it was paused follows `on_resume`.

    What waited before the pause still waits.
    """
    active = replace(snapshot, status="active", paused_until=None)
    watermark, due = _due_times(snapshot, now)
    place = max((s.until for s in snapshot.seen), default=watermark)
    until = max(place, end_of_pause(snapshot, now))
    skips: list[Skip] = []
    used: tuple[DueException, ...] = ()
    if snapshot.spec.on_resume == "skip" and until > place:
        skips = _all(due, place, until, Reason.PAUSED, {"since": place})
        used = tuple(e for e in snapshot.exceptions if place < e.due_at <= until)
        seen = (*snapshot.seen, Stretch(until, "done", now)) if snapshot.seen else ()
        active = replace(active, seen=seen)
        watermark = watermark if seen else until
    pieces = pieces_until(active, due, watermark, watermark)
    planned = Walk(active, due, pieces, watermark, now).plan()
    waits = planned.seen or until < now or snapshot.spec.on_resume == "catchup"
    resumed = replace(
        planned,
        decisions=(*planned.decisions, *skips),
        used=(*planned.used, *(e for e in used if e not in planned.used)),
        wake_at=now if waits and planned.status == "active" else planned.wake_at,
        resumed=True,
    )
    return resume_controls(resumed, snapshot, end_of_pause(snapshot, now))


def upcoming_after(snapshot: Snapshot, now: datetime) -> datetime:
    """Where upcoming due times start; one that waits for its jitter is still upcoming."""
    watermark, due = _due_times(snapshot, now)
    pieces = pieces_until(snapshot, due, watermark, now)
    return pieces[-1].until if pieces else watermark


def upcoming(snapshot: Snapshot, now: datetime, budget: Budget | None = None) -> Iterator[datetime]:
    """The upcoming due times in order; after the clock stepped back, also those that were moved to
    before the watermark. Raises OverBudget when `budget` is used up."""
    due, place = DueTimes.of(snapshot, now, budget), upcoming_after(snapshot, now)
    yield from (at for at in due.put_in_until(place) if at > now)
    yield from due.among(place, datetime.max.replace(tzinfo=now.tzinfo))


def end_of_pause(snapshot: Snapshot, now: datetime) -> datetime:
    """When the pause ended: at its own time, even if no node noticed it then."""
    until = snapshot.paused_until
    return now if until is None or until > now else instant_before(until)


def plan_end(snapshot: Snapshot, now: datetime) -> tuple[Skip, ...]:
    """What to record when a schedule is deleted: the due times that were still pending."""
    watermark, due = _due_times(snapshot, now)
    spans = _undecided(snapshot, watermark, now)
    past = _put_in(due, watermark, Reason.DELETED)
    ended = (skip for span in spans for skip in _all(due, *span, Reason.DELETED))
    return (*past, *ended, *end_controls(snapshot, now))


def plan_edit(snapshot: Snapshot, spec: ScheduleSpec, now: datetime) -> Plan:
    """The state of a schedule whose definition becomes `spec` now.

    If nothing is pending, the new definition counts from now on. Otherwise it applies to what is
    pending as well, and due times that only the old one had are recorded as edited.
    """
    watermark, due = _due_times(snapshot, now)
    spans = _undecided(snapshot, watermark, now)
    ended, used = _beyond_the_last(snapshot, due, watermark, now)
    pending = _is_pending(snapshot, due, watermark, now)
    edited = replace(
        snapshot,
        spec=spec,
        version=snapshot.version + 1,
        status="active" if snapshot.status == "completed" else snapshot.status,
    )
    if not pending:
        edited = replace(edited, watermark=max(watermark, now), seen=())
    else:
        # what falls while it is paused is first seen when it resumes
        until = watermark if snapshot.status == "paused" else now
        pieces = pieces_until(snapshot, due, watermark, until)
        edited = replace(edited, seen=remaining(pieces, watermark))
    edited = replace(edited, exceptions=tuple(e for e in edited.exceptions if e not in used))
    decided, renewed = _due_times(edited, now)
    carried = [DueException(at, "moved_here") for at in due.carried(renewed, decided)]
    if carried:
        edited = replace(edited, exceptions=(*edited.exceptions, *carried))
        decided, renewed = _due_times(edited, now)
    skips = ended
    for span in spans:
        skips += _only_old(due, renewed, *span) if pending else due.left_out(*span)
    said = tuple(
        DueException(at, "done")
        for skip in skips
        if pending and skip.exact
        for at in due.yielded(instant_before(skip.due_from), skip.due_to)
        if not renewed.yields(at)
    )
    walk = Walk(edited, renewed, pieces_until(edited, renewed, decided, decided), decided, now)
    planned = walk.plan()
    planned = replace(
        planned,
        decisions=(*planned.decisions, *(replace(s, version=snapshot.version) for s in skips)),
        used=(*used, *planned.used, *_vanished(edited, renewed, now)),
        said=(*carried, *said),
        wake_at=now if pending and planned.status == "active" else planned.wake_at,
        handover=handover_of(snapshot, planned.watermark),
    )
    return edit_controls(planned, snapshot, spec, now)


def count_edit(snapshot: Snapshot, spec: ScheduleSpec, now: datetime) -> ScheduleSpec:
    """The definition as `plan_edit` would apply it now: its calendar rolls nothing into time that
    is decided, unless nothing about its days has changed."""
    if spec.calendar is None:
        return spec
    former = None if snapshot.spec.calendar is None else snapshot.spec.calendar.since
    if open_days(same := spec.counting_from(former)) is open_days(snapshot.spec):
        return same
    watermark, due = _due_times(snapshot, now)
    pending = _is_pending(snapshot, due, watermark, now)
    return spec.counting_from(watermark if pending else max(watermark, now))


def _is_pending(snapshot: Snapshot, due: DueTimes, watermark: datetime, now: datetime) -> bool:
    """Whether due times have come and are not decided."""
    spans = _undecided(snapshot, watermark, now)
    if any(due.last(*span) is not None for span in spans):
        return True
    over = snapshot.status == "completed" and snapshot.spec.max_runs is not None
    return not over and bool(due.put_in_until(watermark))


def _beyond_the_last(
    snapshot: Snapshot, due: DueTimes, watermark: datetime, now: datetime
) -> tuple[list[Skip], list[DueException]]:
    """Due times left undecided because a schedule had used up its runs, and the exceptions for
    them."""
    if snapshot.status != "completed" or snapshot.spec.max_runs is None:
        return [], []
    until = max(watermark, now)
    facts = {"max_runs": snapshot.spec.max_runs}
    past = _put_in(due, watermark, Reason.MAX_RUNS, facts)
    skips = [*past, *_all(due, watermark, until, Reason.MAX_RUNS, facts)]
    return skips, [e for e in snapshot.exceptions if e.due_at <= until]


def _vanished(edited: Snapshot, renewed: DueTimes, now: datetime) -> list[DueException]:
    """Exceptions for upcoming due times that the new definition does not have."""
    return [
        e
        for e in edited.exceptions
        if e.kind in ("skip", "moved_away") and e.due_at > now and not renewed.yields(e.due_at)
    ]


def _due_times(snapshot: Snapshot, now: datetime) -> tuple[datetime, DueTimes]:
    return snapshot.decided_until(now), DueTimes.of(snapshot, now)


def _undecided(
    snapshot: Snapshot, watermark: datetime, now: datetime
) -> list[tuple[datetime, datetime]]:
    """Where due times wait for a decision, seen or not; nowhere in a completed schedule."""
    if snapshot.status == "completed":
        return []
    spans: list[tuple[datetime, datetime]] = []
    place = watermark
    for stretch in (*snapshot.seen, Stretch(now, "live", now)):
        if stretch.until <= place:
            continue
        if spans and spans[-1][1] == place and stretch.kind != "done":
            spans[-1] = (spans[-1][0], stretch.until)
        elif stretch.kind != "done":
            spans.append((place, stretch.until))
        place = stretch.until
    return spans


def _all(
    due: DueTimes,
    after: datetime,
    until: datetime,
    reason: Reason,
    facts: Mapping[str, Any] | None = None,
) -> list[Skip]:
    return [*due.skip_all(after, until, reason, facts or {}), *due.left_out(after, until)]


def _put_in(
    due: DueTimes, until: datetime, reason: Reason, facts: Mapping[str, Any] | None = None
) -> list[Skip]:
    """Undecided due times that were moved to before the watermark manually."""
    return [Skip(at, at, 1, True, reason, facts or {}) for at in due.put_in_until(until)]


def _only_old(old: DueTimes, new: DueTimes, after: datetime, until: datetime) -> list[Skip]:
    """The pending due times that the new definition does not have.

    Those that it has but excludes are recorded when the schedule comes to them.
    """
    if old.same_times(new):
        return []
    if old.count_yielded(after, until) > MOST_COMPARED:
        fewer = old.count_yielded(after, until) - new.count_yielded(after, until)
        return [
            replace(skip, count=max(fewer, 1), exact=False)
            for skip in old.skip_all(after, until, Reason.EDITED, {})
        ]
    entries: list[Skip] = []
    for at in old.yielded(after, until):
        before = old.before(at)
        if new.yields(at):
            continue
        if entries and entries[-1].due_to == before:
            entries[-1] = replace(entries[-1], due_to=at, count=entries[-1].count + 1)
        else:
            entries.append(Skip(at, at, 1, True, Reason.EDITED, {}, before))
    return entries
