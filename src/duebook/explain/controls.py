"""Explains stops and restarts of a flow, past or future: the other due times of its schedule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from duebook.explain.ahead import explain_window, pause_text, unread_text
from duebook.explain.explanation import Explanation
from duebook.explain.skips import skip_text, why_missed
from duebook.explain.words import as_moment, length_text, short_id
from duebook.model.plan import CONTROLS, Reason
from duebook.planner import instant_before

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from duebook.explain.facts import Facts
    from duebook.explain.skips import Skipped
    from duebook.explain.words import Clock
    from duebook.model.plan import Control
    from duebook.store.values import LedgerEntry

__all__ = ["explain_controls_at", "explain_controls_between"]

LONG_RANGE: Final = 20
"""Due times of one ledger entry that are explained one by one; more are explained together."""
_ENDED: Final = {"stop": "stopped", "restart": "restarted"}


def explain_controls_at(facts: Facts, at: datetime) -> list[Explanation]:
    """The stop and the restart at an instant, if there are any."""
    told = (_explain(facts, kind, at) for kind in CONTROLS)
    return [explanation for explanation in told if explanation is not None]


def explain_controls_between(
    facts: Facts, start: datetime, end: datetime, limit: int
) -> list[Explanation]:
    """One for each from `start` to `end`; a long range of the ledger is one."""
    found: list[Explanation] = []
    for kind in CONTROLS:
        for entry in facts.entries_between(start, end, limit, kind):
            found += _explain_entry(facts, kind, entry, start, end)
        found += _coming(facts, kind, start, end, limit)
    return found


def _explain(facts: Facts, kind: Control, at: datetime) -> Explanation | None:
    entry = facts.entry_at(at, kind)
    if entry is not None:
        return _recorded(facts, kind, entry, at)
    spec = facts.spec_at(at)
    if spec is None or not facts.due_times(spec, kind).knows(at) or facts.deleted:
        return None
    if at < facts.schedule.created_at:
        return None
    return _undecided(facts, kind, at)


def _undecided(facts: Facts, kind: Control, at: datetime) -> Explanation:
    """In a maintenance window a stop still stops the flow, and a restart is skipped."""
    window = facts.window_at(at) if kind == "restart" and at > facts.now else None
    if window is None:
        return _pending(facts, kind, at)
    told = explain_window(window, at, facts.clock_at(at))
    return replace(told, text=f"restart {told.text}", kind=kind)


def _pending(facts: Facts, kind: Control, at: datetime) -> Explanation:
    clock, schedule = facts.clock_at(at), facts.schedule
    if at > facts.now:
        text = f"the flow will be {_ENDED[kind]} in {length_text(at - facts.now)}"
        text += f", at {clock.time(at)}" + (", if it is running" if kind == "stop" else "")
        verdict = "to_come"
    elif facts.controls_decided(at):
        return Explanation(at, "unknown", f"{kind}: the ledger has no entry for it", kind=kind)
    else:
        text, verdict = f"{kind} was due at {clock.time(at)}", "waiting"
    reason = None
    if schedule.status == "paused":
        reason, text = str(Reason.PAUSED), f"{text}, but {pause_text(schedule, clock)}"
    elif (unread := facts.unattended) is not None:
        told = unread_text(unread.directory, unread.since, clock)
        reason, text = str(Reason.UNATTENDED), f"{text}, but {told}"
    elif facts.snapshot is not None and facts.snapshot.in_shadow(at):
        reason, text = str(Reason.SHADOW), f"{text}, but shadow mode only records it"
    elif verdict == "waiting":
        runs = facts.fleet.scheduler_runs()
        text += f"; {'a scheduler is about to plan it' if runs else 'no scheduler is running'}"
    return Explanation(at, verdict, text, reason, kind=kind)


def _recorded(facts: Facts, kind: Control, entry: LedgerEntry, at: datetime) -> Explanation:
    clock, skipped = facts.clock_at(at), facts.skipped(entry, at)
    if entry.verdict == "done":
        return Explanation(at, "done", _done_text(entry, clock), entry.reason, kind=kind)
    text = f"{kind} {_skip_text(skipped, kind, clock)}"
    return Explanation(at, "skipped", text, entry.reason, kind=kind)


def _done_text(entry: LedgerEntry, clock: Clock) -> str:
    facts, when = entry.facts, clock.time(entry.due_from)
    verb = _ENDED[entry.kind]
    if "active" not in facts:
        return f"{verb} at {when}: a scheduler is about to do it"
    if facts.get("starts_anyway"):
        return f"{verb} at {when}: it was not running, and its schedule started it at that time"
    if not facts["active"]:
        rest = "" if entry.kind == "stop" else "; it was started"
        return f"{verb} at {when}: it was not running{rest}"
    runs = ", ".join(short_id(run) for run in facts.get("runs", ()))
    more = facts["active"] - len(facts.get("runs", ()))
    return f"{verb} at {when}: run {runs}{f' and {more} more' if more else ''} was asked to stop"


def _skip_text(skipped: Skipped, kind: Control, clock: Clock) -> str:
    reason, facts = skipped.entry.reason, skipped.entry.facts
    if reason == Reason.MISSED:
        return f"{why_missed(skipped, clock)}; a {kind} is never caught up"
    if reason == Reason.PAUSED and "window" not in facts:
        until = clock.minute(skipped.entry.at)
        return f"skipped: the schedule was paused, until {until}; a {kind} is never caught up"
    if reason == Reason.SUPERSEDED:
        into = as_moment(facts.get("into"))
        newest = f", the {facts.get('kind', kind)} of {clock.time(into)}" if into else ""
        return f"skipped: only the newest is applied{newest}"
    return skip_text(skipped, clock)


def _explain_entry(
    facts: Facts, kind: Control, entry: LedgerEntry, start: datetime, end: datetime
) -> Iterator[Explanation]:
    first, last = max(entry.due_from, start), min(entry.due_to, end)
    due = facts.due_times_of(entry)
    if entry.count == 1:
        yield _recorded(facts, kind, entry, entry.due_from)
    elif due is not None and due.count(instant_before(first), last) <= LONG_RANGE:
        for at in due.among(instant_before(first), last):
            yield _recorded(facts, kind, entry, at)
    else:
        clock, told = facts.clock_at(first), _recorded(facts, kind, entry, first)
        span = f"{entry.count:,} due times from {clock.time(first)} to {clock.time(last)}"
        yield replace(told, text=f"{span}: {told.text}")


def _coming(
    facts: Facts, kind: Control, start: datetime, end: datetime, limit: int
) -> Iterator[Explanation]:
    """Those that have not been decided yet."""
    spec, decided = facts.schedule.spec, facts.controlled_until
    if spec is None or decided is None:
        return
    due = facts.due_times(spec, kind).among(max(instant_before(start), decided), end)
    for at, _ in zip(due, range(limit), strict=False):
        yield _undecided(facts, kind, at)
