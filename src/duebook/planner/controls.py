"""Decides when flows are stopped and restarted: the other due times of a schedule that starts one.

They are never caught up and wait for nothing but the directory of the flow; of several that are
due, only the newest acts. In a maintenance window a stop still stops the flow, and a restart, which
would start it, is skipped. In shadow mode neither does anything. The outcome of each is recorded,
under its kind.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.model.plan import CONTROLS, Command, Defer, Reason, Skip
from duebook.planner.due import DueTimes, instant_before
from duebook.planner.unattended import deferral

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import Any

    from duebook.budget import Budget
    from duebook.model.plan import Control, Plan, Snapshot, WindowSpan
    from duebook.model.schedule import ScheduleSpec

__all__ = [
    "control_due_times",
    "control_spec",
    "decide_controls",
    "decided_controls",
    "edit_controls",
    "end_controls",
    "next_control",
    "resume_controls",
]

MOST_COMPARED: Final = 1_000
"""Pending ones that an edit compares one by one."""
_DONE: Final[Mapping[Control, Reason]] = {"stop": Reason.STOPPED, "restart": Reason.RESTARTED}


def control_spec(spec: ScheduleSpec, kind: Control) -> ScheduleSpec:
    """The definition as if it had only its stops or restarts; no policy but grace applies."""
    return replace(
        spec,
        triggers=spec.stop if kind == "stop" else spec.restart,
        stop=(),
        restart=(),
        jitter=timedelta(),
        exclude=(),
        calendar=None,
        max_runs=None,
    )


def control_due_times(
    spec: ScheduleSpec,
    kind: Control,
    now: datetime,
    name: str,
    budget: Budget | None = None,
    windows: tuple[WindowSpan, ...] = (),
) -> DueTimes:
    """The stops or restarts, without restarts that fall into `windows`."""
    closed = windows if kind == "restart" else ()
    return DueTimes(control_spec(spec, kind), (), now, name, budget, closed)


def decided_controls(snapshot: Snapshot, now: datetime) -> datetime:
    """Up to where they are decided; before the first plan, where the schedule started."""
    return snapshot.controlled_until or snapshot.decided_until(now)


def next_control(spec: ScheduleSpec, after: datetime, name: str) -> datetime | None:
    """The first stop or restart after an instant."""
    found = [due.next_after(after) for _, due in _lines(spec, after, name)]
    return min((at for at in found if at is not None), default=None)


def decide_controls(planned: Plan, snapshot: Snapshot, now: datetime) -> Plan:
    """The plan with decisions about the stops and restarts that are due."""
    if not snapshot.spec.controlled or snapshot.status == "paused":
        return planned
    decided = decided_controls(snapshot, now)
    if snapshot.unattended is not None:
        return _wait(planned, snapshot, decided, now)
    until = max(decided, now)
    skips, command = _decide(snapshot, decided, now)
    return _going_on(
        replace(
            planned,
            decisions=(*planned.decisions, *skips),
            controlled_until=until,
            command=command,
        ),
        snapshot,
        until,
    )


def _decide(
    snapshot: Snapshot, decided: datetime, now: datetime
) -> tuple[list[Skip], Command | None]:
    """Those older than the grace are missed. Of the others the newest acts, and a restart rather
    than a stop of the same instant. Those in a pause that ended while the definition was unreadable
    did nothing."""
    lines = _lines(snapshot.spec, now, snapshot.name, snapshot.windows)
    paused = max((s.until for s in snapshot.seen if s.kind == "paused"), default=decided)
    begin = max(decided, min(paused, now))
    seen = max(begin, min(instant_before(now - snapshot.spec.grace), now))
    skips: list[Skip] = []
    live: list[Command] = []
    for kind, due in lines:
        skips += _skipped(kind, due, decided, begin, Reason.PAUSED, {"since": decided})
        skips += _skipped(kind, due, begin, seen, Reason.MISSED, {})
        skips += [replace(skip, kind=kind) for skip in due.left_out(decided, now)]
        if (newest := due.last(seen, now)) is not None:
            live.append(Command(newest, kind))
    acts = max(live, key=lambda each: (each.due_at, each.kind == "restart"), default=None)
    if acts is None:
        return skips, None
    facts = {"into": acts.due_at, "kind": acts.kind}
    for kind, due in lines:
        until = instant_before(acts.due_at) if kind == acts.kind else now
        skips += _skipped(kind, due, seen, until, Reason.SUPERSEDED, facts)
    shadow = snapshot.in_shadow(acts.due_at)
    reason = Reason.SHADOW if shadow else _DONE[acts.kind]
    done = Skip(acts.due_at, acts.due_at, 1, True, reason, kind=acts.kind)
    return [*skips, done], None if shadow else acts


def _wait(planned: Plan, snapshot: Snapshot, decided: datetime, now: datetime) -> Plan:
    """Wait for the directory to be read, as the file may have changed."""
    pending = next_control(snapshot.spec, decided, snapshot.name)
    if pending is None or snapshot.unattended is None:
        return planned
    if pending > now:
        return _waking(planned, pending)
    defer = deferral(snapshot.unattended, pending, now)
    if any(isinstance(decision, Defer) for decision in planned.decisions):
        return replace(planned, wake_at=defer.until)
    decisions = (*planned.decisions, defer)
    return replace(planned, decisions=decisions, status="active", wake_at=defer.until)


def resume_controls(planned: Plan, snapshot: Snapshot, until: datetime) -> Plan:
    """Stops and restarts that fell while the schedule was paused are recorded, not caught up."""
    if not snapshot.spec.controlled:
        return planned
    decided = min(decided_controls(snapshot, until), until)
    skips = [
        skip
        for kind, due in _lines(snapshot.spec, until, snapshot.name)
        for skip in _skipped(kind, due, decided, until, Reason.PAUSED, {"since": decided})
    ]
    resumed = replace(planned, decisions=(*planned.decisions, *skips), controlled_until=until)
    following = next_control(snapshot.spec, until, snapshot.name)
    return resumed if following is None else _waking(replace(resumed, status="active"), following)


def edit_controls(planned: Plan, snapshot: Snapshot, spec: ScheduleSpec, now: datetime) -> Plan:
    """If none is pending, the new definition counts from now on. Otherwise it applies to the
    pending ones as well, and those that only the old one had are recorded as edited."""
    skips: list[Skip] = []
    decided = now
    if snapshot.spec.controlled:
        decided = min(decided_controls(snapshot, now), now)
        skips, pending = _only_old(snapshot, spec, decided, now)
        decided = decided if pending else now
    if not spec.controlled:
        return replace(planned, decisions=(*planned.decisions, *skips))
    edited = replace(planned, decisions=(*planned.decisions, *skips), controlled_until=decided)
    if planned.status == "paused":
        return edited
    following = next_control(spec, decided, snapshot.name)
    return edited if following is None else _waking(replace(edited, status="active"), following)


def _only_old(
    snapshot: Snapshot, spec: ScheduleSpec, after: datetime, until: datetime
) -> tuple[list[Skip], bool]:
    """Those of the old definition that the new one does not have; and whether any is pending."""
    skips: list[Skip] = []
    pending = False
    for kind, old in _lines(snapshot.spec, until, snapshot.name):
        new = control_due_times(spec, kind, until, snapshot.name)
        for number, at in enumerate(old.among(after, until)):
            if number >= MOST_COMPARED:
                skips += _skipped(kind, old, instant_before(at), until, Reason.EDITED, {})
                break
            pending = True
            if not new.yields(at):
                skips.append(Skip(at, at, 1, True, Reason.EDITED, kind=kind))
    return [replace(skip, version=snapshot.version) for skip in skips], pending


def end_controls(snapshot: Snapshot, now: datetime) -> tuple[Skip, ...]:
    """What to record when the schedule is deleted: those that were still pending."""
    decided = decided_controls(snapshot, now)
    return tuple(
        skip
        for kind, due in _lines(snapshot.spec, now, snapshot.name)
        for skip in _skipped(kind, due, decided, now, Reason.DELETED, {})
    )


def _lines(
    spec: ScheduleSpec, now: datetime, name: str, windows: tuple[WindowSpan, ...] = ()
) -> list[tuple[Control, DueTimes]]:
    if not spec.controlled:
        return []
    return [(kind, control_due_times(spec, kind, now, name, windows=windows)) for kind in CONTROLS]


def _skipped(
    kind: Control,
    due: DueTimes,
    after: datetime,
    until: datetime,
    reason: Reason,
    facts: Mapping[str, Any],
) -> Iterable[Skip]:
    if until <= after:
        return []
    return [replace(skip, kind=kind) for skip in due.skip_all(after, until, reason, facts)]


def _going_on(planned: Plan, snapshot: Snapshot, after: datetime) -> Plan:
    """Keep a schedule with stops or restarts to come from being completed."""
    following = next_control(snapshot.spec, after, snapshot.name)
    if following is None:
        return planned
    return _waking(replace(planned, status="active"), following)


def _waking(planned: Plan, moment: datetime | None) -> Plan:
    if moment is None or (planned.wake_at is not None and planned.wake_at <= moment):
        return planned
    return replace(planned, wake_at=moment)
