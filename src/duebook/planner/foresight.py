"""Foresees how a change of definitions affects due times: which appear, disappear or move, and what
follows at once. Asks the planner, and decides nothing."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from heapq import merge
from itertools import islice, repeat
from typing import TYPE_CHECKING, Final

from duebook.errors import OverBudget
from duebook.lazy_dataclasses import dataclass
from duebook.model.declaration import MOST_LISTED, ControlMoves, DueMove
from duebook.model.note import Note
from duebook.model.plan import CONTROLS, Fire, Reason, Skip, Snapshot
from duebook.planner.controls import control_due_times
from duebook.planner.due import DueTimes, instant_before
from duebook.planner.lifecycle import count_edit, plan_edit, plan_end, upcoming_after
from duebook.planner.plan import plan
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from duebook.budget import Budget
    from duebook.model.plan import Decision, Plan, WindowSpan
    from duebook.model.schedule import ScheduleSpec

__all__ = [
    "MOST_COMPARED",
    "Foreseen",
    "after_plan",
    "foresee_change",
    "foresee_end",
    "foresee_new",
    "pair_up",
]

MOST_COMPARED: Final = 20_000
"""Due times of a schedule, before and after a change, that are compared one by one."""
MOST_CONTROLS: Final = 400
"""The same for its stops, and for its restarts."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """How the due times of one schedule change."""

    appear: tuple[datetime, ...] = ()
    disappear: tuple[datetime, ...] = ()
    move: tuple[DueMove, ...] = ()
    more: int = 0
    notes: tuple[Note, ...] = ()
    compared_until: datetime | None = None
    """None: all were compared; otherwise `more` is a lower bound"""
    controls: tuple[ControlMoves, ...] = ()
    looked_at: int = 0
    """how many due times were computed for it"""


def foresee_new(
    name: str,
    spec: ScheduleSpec,
    now: datetime,
    until: datetime,
    budget: Budget | None = None,
    windows: tuple[WindowSpan, ...] = (),
) -> Foreseen:
    """For a schedule that is created now."""
    due = DueTimes(spec, (), now, name, budget, windows)
    listed, more, seen = _first(due, now, until, spec.max_runs)
    looked_at = len(listed) + 1
    found = Foreseen(listed, (), (), more, _cautions(spec, now), seen, looked_at=looked_at)
    new = Snapshot("", name, 1, spec, "active", now, windows=windows)
    return _with_controls(found, None, new, now, until, budget)


def foresee_end(
    snapshot: Snapshot, now: datetime, until: datetime, budget: Budget | None = None
) -> Foreseen:
    """For a schedule that is deleted now."""
    due, place = DueTimes.of(snapshot, now, budget), upcoming_after(snapshot, now)
    listed, more, seen = _first(due, place, until, _left(snapshot, snapshot.spec))
    notes = _dropped(plan_end(snapshot, now), Reason.DELETED)
    found = Foreseen((), listed, (), more, notes, seen, looked_at=len(listed) + 1)
    return _with_controls(found, snapshot, None, now, until, budget)


def foresee_change(
    snapshot: Snapshot,
    spec: ScheduleSpec,
    now: datetime,
    until: datetime,
    budget: Budget | None = None,
    windows: tuple[WindowSpan, ...] | None = None,
    most: int = MOST_COMPARED,
) -> Foreseen:
    """For a schedule whose definition becomes `spec` now, with `windows` in place of its former
    ones; compares at most `most` due times."""
    spec = count_edit(snapshot, spec, now)
    planned = plan_edit(snapshot, spec, now)
    notes = (
        *_fired_at_once(snapshot, spec, planned, now),
        *_dropped(planned.decisions, Reason.EDITED),
        *_state(snapshot, planned),
    )
    if spec.triggers != snapshot.spec.triggers:
        notes = (*notes, *_cautions(spec, now))
    windows = snapshot.windows if windows is None else windows
    carried = (e for e in planned.said if e.kind == "moved_here")
    exceptions = (*snapshot.exceptions, *carried)
    edited = replace(snapshot, spec=spec, exceptions=exceptions, windows=windows)
    found = Foreseen(notes=notes)
    if (_times(spec), windows) != (_times(snapshot.spec), snapshot.windows):
        place = upcoming_after(snapshot, now)
        both = [(DueTimes.of(of, now, budget), of) for of in (snapshot, edited)]
        was, becomes, cut_at = _until_cut(
            [islice(due.among(place, until), _left(of, of.spec)) for due, of in both], most
        )
        appear, disappear, move, more = _changes(was, becomes)
        if cut_at is not None and all(of.spec.max_runs is None for _, of in both):
            more += _change_at_least([due for due, _ in both], instant_before(cut_at), until)
        looked_at = len(was) + len(becomes) + 1
        found = Foreseen(appear, disappear, move, more, notes, cut_at, looked_at=looked_at)
    return _with_controls(found, snapshot, edited, now, until, budget)


def _with_controls(
    found: Foreseen,
    was: Snapshot | None,
    becomes: Snapshot | None,
    now: datetime,
    until: datetime,
    budget: Budget | None,
) -> Foreseen:
    """With the changes to the stops and restarts of a flow."""
    every = (was, becomes)
    if not any(of is not None and of.spec.controlled for of in every):
        return found
    controls, looked_at = list[ControlMoves](), found.looked_at
    for kind in CONTROLS:
        both: list[Iterable[datetime]] = [
            ()
            if of is None
            else control_due_times(of.spec, kind, now, of.name, budget, of.windows).among(
                now, until
            )
            for of in every
        ]
        old, new, _ = _until_cut(both, MOST_CONTROLS)
        looked_at += len(old) + len(new)
        if old != new:
            controls.append(ControlMoves(kind, *_changes(old, new)))
    return replace(found, controls=tuple(controls), looked_at=looked_at)


def _changes(
    was: list[datetime], becomes: list[datetime]
) -> tuple[tuple[datetime, ...], tuple[datetime, ...], tuple[DueMove, ...], int]:
    """What appears, disappears and moves, and how many more do."""
    appear, disappear, move = pair_up(was, becomes)
    more = sum(max(len(found) - MOST_LISTED, 0) for found in (appear, disappear, move))
    return (
        tuple(appear[:MOST_LISTED]),
        tuple(disappear[:MOST_LISTED]),
        tuple(move[:MOST_LISTED]),
        more,
    )


def _until_cut(
    both: Sequence[Iterable[datetime]], most: int
) -> tuple[list[datetime], list[datetime], datetime | None]:
    """The due times before and after a change, up to where all of both are known.

    Raises OverBudget when there was no time for any.
    """
    found: tuple[list[datetime], list[datetime]] = [], []
    last = None
    marked = (zip(times, repeat(which)) for which, times in enumerate(both))
    try:
        for number, (last, which) in enumerate(merge(*marked)):
            if number == most:
                break
            found[which].append(last)
        else:
            return *found, None
    except OverBudget:
        if last is None:
            raise
    was, becomes = ([at for at in times if at < last] for times in found)
    return was, becomes, last


def _change_at_least(both: Sequence[DueTimes], after: datetime, until: datetime) -> int:
    """A lower bound for due times that change beyond those compared: the difference in number."""
    try:
        counts = [due.count_in_parts(after, until) for due in both]
    except OverBudget:
        return 0
    if not all(exact for _, exact in counts):
        return 0
    return abs(counts[0][0] - counts[1][0])


def pair_up(
    was: Sequence[datetime], becomes: Sequence[datetime]
) -> tuple[list[datetime], list[datetime], list[DueMove]]:
    """Which due times appear, disappear and move, each in order.

    Between two due times that both have, one that is gone and one that is new belong together when
    each is the nearest to the other.
    """
    appear: list[datetime] = []
    disappear: list[datetime] = []
    move: list[DueMove] = []
    for old, new in _stretches(was, becomes):
        paired = {
            at: there for at in old if (there := _nearest(at, new)) and _nearest(there, old) == at
        }
        move += [DueMove(*pair) for pair in paired.items()]
        disappear += [at for at in old if at not in paired]
        taken = set(paired.values())
        appear += [at for at in new if at not in taken]
    return appear, disappear, move


def _nearest(at: datetime, others: Sequence[datetime]) -> datetime | None:
    """The nearest; of two equally near, the earlier one."""
    place = bisect_left(others, at)
    return min(
        others[max(place - 1, 0) : place + 1], key=lambda other: abs(other - at), default=None
    )


def _stretches(
    was: Sequence[datetime], becomes: Sequence[datetime]
) -> Iterator[tuple[list[datetime], list[datetime]]]:
    """What only one of them has, between two due times that both have."""
    before, after = set(was), set(becomes)
    old: list[datetime] = []
    new: list[datetime] = []
    for at in sorted(before | after):
        if at in before and at in after:
            yield old, new
            old, new = [], []
        else:
            (old if at in before else new).append(at)
    yield old, new


def after_plan(snapshot: Snapshot, spec: ScheduleSpec, planned: Plan) -> Snapshot:
    """A schedule's state once the plan of an edit is committed."""
    gone = set(planned.used)
    exceptions = (*(e for e in snapshot.exceptions if e not in gone), *planned.said)
    return replace(
        snapshot,
        spec=spec,
        version=planned.version,
        status=planned.status,
        watermark=planned.watermark,
        exceptions=exceptions,
        seen=planned.seen,
        considered_at=planned.considered_at,
        fired=planned.fired,
        delay=planned.delay,
        controlled_until=planned.controlled_until or snapshot.controlled_until,
    )


def _fired_at_once(
    snapshot: Snapshot, spec: ScheduleSpec, planned: Plan, now: datetime
) -> Iterable[Note]:
    """What the planner would start now only because of the change."""
    if planned.status != "active":
        return
    before = set(_fires(plan(snapshot, now).decisions))
    fires = [
        at
        for at in _fires(plan(after_plan(snapshot, spec, planned), now).decisions)
        if at not in before
    ]
    if fires:
        number = "due time" if len(fires) == 1 else f"{len(fires):,} due times up to"
        yield Note("fires_now", f"this would fire at once: {number} {format_instant(fires[-1])}")


def _fires(decisions: Iterable[Decision]) -> list[datetime]:
    return [decision.due_at for decision in decisions if isinstance(decision, Fire)]


def _dropped(decisions: Iterable[Decision], reason: Reason) -> tuple[Note, ...]:
    skips = [d for d in decisions if isinstance(d, Skip) and d.reason == reason]
    count = sum(skip.count for skip in skips)
    if not count:
        return ()
    least = "" if all(skip.exact for skip in skips) else "at least "
    times = "due time" if count == 1 else "due times"
    return (Note("drops", f"this drops {least}{count:,} waiting {times}"),)


def _state(snapshot: Snapshot, planned: Plan) -> Iterable[Note]:
    if snapshot.status == "completed" and planned.status != "completed":
        yield Note("active_again", "it is completed, and becomes active again")
    elif snapshot.status == "paused":
        yield Note("paused", "it is paused, and stays paused")


def _cautions(spec: ScheduleSpec, now: datetime) -> tuple[Note, ...]:
    triggers = (*spec.triggers, *spec.stop, *spec.restart)
    return tuple(Note(w.code, w.text) for trigger in triggers for w in trigger.warnings(now))


def _first(
    due: DueTimes, after: datetime, until: datetime, most: int | None
) -> tuple[tuple[datetime, ...], int, datetime | None]:
    """The first due times, how many more there are, and the last one if that is a lower bound."""
    room = MOST_LISTED if most is None else min(most, MOST_LISTED)
    listed = tuple(islice(due.among(after, until), room))
    if len(listed) < MOST_LISTED:
        return listed, 0, None
    more, exact = due.count_in_parts(listed[-1], until)
    if most is not None and more >= most - room:
        return listed, most - room, None
    return listed, more, None if exact else listed[-1]


def _left(snapshot: Snapshot, spec: ScheduleSpec) -> int | None:
    return None if spec.max_runs is None else max(spec.max_runs - snapshot.fired, 0)


def _times(spec: ScheduleSpec) -> tuple[object, ...]:
    """Everything that due times depend on."""
    use = spec.calendar
    calendar = None if use is None else (use.mode, use.roll, use.days)
    return spec.triggers, spec.start_at, spec.end_at, spec.exclude, spec.max_runs, calendar
