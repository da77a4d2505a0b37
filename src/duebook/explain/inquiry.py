"""Looks up a due time: first its run, then its ledger entry, and otherwise its definition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from duebook.errors import counted
from duebook.explain.ahead import (
    explain_coming,
    explain_deferred,
    explain_paused,
    explain_said,
    explain_window,
)
from duebook.explain.controls import explain_controls_at, explain_controls_between
from duebook.explain.explanation import Explanation
from duebook.explain.facts import Facts
from duebook.explain.runs import explain_overlaps, explain_run, ran_briefly
from duebook.explain.skips import Skipped, skip_text
from duebook.explain.undue import (
    check_years,
    gap_text,
    in_fold,
    omitted_at,
    undue_text,
    zone_of,
)
from duebook.explain.words import Clock, day_text, length_text
from duebook.model.plan import Defer, Fire, Hold, Lane, Reason, Skip
from duebook.planner import DueTimes, instant_before
from duebook.store.values import LedgerEntry
from duebook.triggers.typed_time import read_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from duebook.budget import Budget
    from duebook.model.plan import DueException
    from duebook.model.run import Run
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Tx
    from duebook.triggers.typed_time import TypedTime

__all__ = ["explain_at", "explain_between"]

LONG_RANGE: Final = 20
"""Due times of one ledger entry that are explained one by one; more are explained together."""


def explain_at(
    tx: Tx,
    schedule_id: str,
    at: str | datetime,
    tz: str | None = None,
    budget: Budget | None = None,
) -> Explanation:
    """What happened to the due time `at`, or why nothing was due at that time.

    A wall time without an offset is read in the schedule's zone; times in the sentence are in
    `tz`, by default in that zone too. Raises InvalidTime, and OverBudget if it takes longer than
    `budget`.
    """
    facts = Facts(tx, schedule_id, tz, budget)
    asked = read_time(at, zone_of(facts.schedule.spec))
    check_years(asked.at)
    asked = read_time(at, zone_of(facts.spec_at(asked.at)))
    told = _explain_gap(facts, asked) if asked.wall else _explain(facts, asked.at)
    told = _with_controls(told, explain_controls_at(facts, asked.at))
    return replace(told, tz=facts.zone_at(asked.at))


def _with_controls(told: Explanation, controls: list[Explanation]) -> Explanation:
    """Add the stop and the restart at the same instant, which may be all there is."""
    if not controls:
        return told
    if told.verdict == "not_due":
        told, *controls = controls
    return replace(told, text="; ".join([told.text, *(each.text for each in controls)]))


def explain_between(
    tx: Tx,
    schedule_id: str,
    start: datetime,
    end: datetime,
    limit: int,
    tz: str | None = None,
    budget: Budget | None = None,
) -> list[Explanation]:
    """One explanation for each due time from `start` to `end`, in order; the first `limit`.

    A long range of the ledger is one explanation, with the number of due times it covers.
    """
    check_years(start)
    check_years(end)
    facts = Facts(tx, schedule_id, tz, budget)
    runs = facts.runs_between(start, end, limit)
    have = {run.due_at for run in runs}
    found = [_explain_run(facts, run) for run in runs]
    entries = facts.entries_between(start, end, limit)
    most = len(found) + limit
    for entry in entries:
        facts.spend()
        if len(found) >= most:
            break
        for told in _explain_entry(facts, entry, entries, start, end):
            if told.at not in have:
                have.add(told.at)
                found.append(told)
    for at in _undecided(facts, start, end, limit):
        facts.spend()
        if at not in have and facts.entry_among(entries, at) is None:
            found.append(_unrecorded(facts, at))
    found += explain_controls_between(facts, start, end, limit)
    found.sort(key=lambda explanation: explanation.at)
    return [replace(told, tz=facts.zone_at(told.at)) for told in found[:limit]]


def _explain(facts: Facts, at: datetime) -> Explanation:
    run, entry = facts.run_at(at), facts.entry_at(at)
    if run is not None and run.due_at is not None:
        told = _explain_run(facts, run)
        if entry is not None and run.origin == "backfill":
            told = replace(told, text=f"{told.text}; before that, it was skipped ({entry.reason})")
        return told
    if entry is not None:
        return _explain_skip(facts.skipped(entry, at), facts.clock_at(at))
    return _unrecorded(facts, at)


def _explain_run(facts: Facts, run: Run) -> Explanation:
    due_at = run.due_at or run.created_at
    clock, ripe_at = facts.clock_at(due_at), facts.ripe_at(due_at)
    waits_for = facts.fleet.lacks(run) or _gives_way(facts, run, clock)
    told = explain_run(run, clock, facts.now, ripe_at, waits_for)
    overlaps = explain_overlaps(run, facts.attempts(run), clock.time)
    return replace(told, text="; ".join([told.text, *overlaps])) if overlaps else told


def _gives_way(facts: Facts, run: Run, clock: Clock) -> str | None:
    """What a queued backfill or catch-up run of the schedule waits for: due times go first."""
    snapshot, planned = facts.snapshot, facts.plan
    fills = run.status == "queued" and run.origin in ("backfill", "catchup")
    if not fills or snapshot is None or planned is None:
        return None
    if snapshot.spec.overlap == "allow":
        return None
    others = (a for a in snapshot.active if a.id != run.id)
    own = (a for a in others if a.lane is Lane.OWN and a.due_at is not None)
    if (active := next(own, None)) is not None and active.due_at is not None:
        return f"it gives way to the run of {clock.time(active.due_at)}, which is {active.status}"
    waiting = next((d for d in planned.decisions if isinstance(d, Defer)), None)
    if waiting is None:
        return None
    return f"it gives way to the due time of {clock.time(waiting.due_at)}, which waits"


def _explain_skip(skipped: Skipped, clock: Clock) -> Explanation:
    entry, text = skipped.entry, skip_text(skipped, clock)
    other = entry.facts.get("run")
    verdict = "waiting" if entry.reason == Reason.HELD else "skipped"
    return Explanation(skipped.due_at, verdict, text, entry.reason, other_run_id=other)


def _explain_gap(facts: Facts, asked: TypedTime) -> Explanation:
    """About a wall time that never occurred."""
    spec, gap = facts.spec_at(asked.at), gap_text(asked, facts.now)
    known, left_out = omitted_at(spec, asked) if spec else (False, None)
    if left_out is not None:
        return Explanation(asked.at, "skipped", f"{gap}; {left_out}", Reason.DST_GAP)
    if spec is not None and asked.wall is not None and not known:
        due = facts.open_due_times(spec)
        why = undue_text(spec, due, asked.at, asked.wall, zone_of(spec))
        return Explanation(asked.at, "not_due", f"{gap}; {why}")
    told = _explain(facts, asked.at)
    run, clock = facts.run_at(asked.at), facts.clock_at(asked.at)
    brief = ran_briefly(run, clock) if run else None
    if brief is None and told.verdict == "skipped":
        brief = f"due at {clock.time(asked.at)} instead, {told.text}"
    return replace(told, text=f"{gap}; {brief or told.text}")


# -- ranges


def _explain_entry(
    facts: Facts, entry: LedgerEntry, entries: list[LedgerEntry], start: datetime, end: datetime
) -> Iterator[Explanation]:
    """The due times of an entry within a range: one by one if they are few, or all together."""
    first, last = max(entry.due_from, start), min(entry.due_to, end)
    due = facts.due_times_of(entry)
    if entry.count == 1:
        told = facts.entry_among(entries, entry.due_from) or entry
        yield _explain_skip(facts.skipped(told, entry.due_from), facts.clock_at(entry.due_from))
    elif due is not None and due.count(instant_before(first), last) <= LONG_RANGE:
        for at in due.among(instant_before(first), last):
            if facts.entry_among(entries, at) == entry:
                yield _explain_skip(facts.skipped(entry, at), facts.clock_at(at))
    else:
        yield _explain_range(facts, entry, due, first, last)


def _explain_range(
    facts: Facts, entry: LedgerEntry, due: DueTimes | None, first: datetime, last: datetime
) -> Explanation:
    number, at_least = entry.count, "" if entry.exact else "at least "
    if due is not None:
        first = due.next_after(instant_before(first)) or first
        last = due.last(instant_before(first), last) or last
        if (first, last) != (entry.due_from, entry.due_to):
            number = due.count(instant_before(first), last)
    clock = facts.clock_at(first)
    told = _explain_skip(facts.skipped(entry, first), clock)
    count = counted(number, "due time")
    span = f"{at_least}{count} from {clock.time(first)} to {clock.time(last)}"
    return replace(told, text=f"{span}, {told.text}")


def _undecided(facts: Facts, start: datetime, end: datetime, limit: int) -> list[datetime]:
    """The due times of a range that are not decided yet, with skips and moves applied."""
    spec, watermark = facts.schedule.spec, facts.schedule.watermark
    if spec is None or watermark is None or facts.schedule.status == "completed":
        return []
    found = {e.due_at for e in facts.exceptions if start <= e.due_at <= end}
    regular = facts.raw_due_times(spec).among(max(instant_before(start), watermark), end)
    for at, _ in zip(regular, range(limit), strict=False):
        found.add(at)
    return sorted(found)[:limit]


# -- due times with neither run nor entry


def _unrecorded(facts: Facts, at: datetime) -> Explanation:
    schedule, spec = facts.schedule, facts.spec_at(at)
    clock = facts.clock_at(at)
    said = [e for e in facts.exceptions if 0 <= (e.due_at - at).total_seconds() < 1]
    if said:
        return _said(facts, said, clock)
    if at < schedule.created_at:
        text = f"not due: the schedule was created on {clock.full(schedule.created_at)}"
        return Explanation(at, "not_due", text)
    if spec is None:
        problem = schedule.problem or "this node cannot read the definition that was in use then"
        return Explanation(at, "unknown", f"unknown: {problem}")
    return _not_due(facts, spec, at) or _without_trace(facts, at, clock)


def _said(facts: Facts, said: list[DueException], clock: Clock) -> Explanation:
    """About a due time that was skipped or moved by a person."""
    here = next((e for e in said if e.kind == "moved_here"), None)
    if here is None:
        told = explain_said(said[0], clock)
        return told or _pending(facts, said[0].due_at, clock)
    if here.due_at <= facts.now:
        return _pending(facts, here.due_at, clock)
    origin = next((e.due_at for e in facts.exceptions if e.moved_to == here.due_at), None)
    since = f" from {clock.time(origin)}" if origin else " "
    return _coming(facts, here.due_at, here.due_at, since, clock)


def _not_due(facts: Facts, spec: ScheduleSpec, at: datetime) -> Explanation | None:
    """Why the definition does not yield it, by the clocks of its own zone; None if it does."""
    due, clock = facts.due_times(spec), Clock(zone_of(spec), at)
    if due.knows(at):
        return None
    raw = facts.raw_due_times(spec)
    if raw.knows(at):
        return _of_closed_day(facts, spec, at, clock)
    open_times = facts.open_due_times(spec)
    text = in_fold(raw, at, clock, facts.now)
    text = text or undue_text(spec, open_times, at, clock.wall(at), clock.tz)
    return Explanation(at, "not_due", text)


def _of_closed_day(facts: Facts, spec: ScheduleSpec, at: datetime, clock: Clock) -> Explanation:
    """About a due time on a day that the definition or its calendar excludes."""
    day, use = clock.wall(at), spec.calendar
    if use is None or any(span.first <= day.date() <= span.last for span in spec.exclude):
        text = f"excluded: {day_text(day)} is one of its excluded days"
        return Explanation(at, "skipped", text, Reason.EXCLUDED)
    text = f"skipped: calendar {use.name} closes {day_text(day)}"
    if (landed := facts.due_times(spec).landing(at)) is not None:
        verb = "rolls" if at > facts.now else "rolled"
        text += f"; it {verb} to {clock.full(landed)}"
    return Explanation(at, "skipped", text, Reason.CALENDAR)


def _without_trace(facts: Facts, at: datetime, clock: Clock) -> Explanation:
    """A due time of the definition that has no record, or none yet."""
    schedule, spec = facts.schedule, facts.schedule.spec
    if facts.deleted:
        return Explanation(at, "not_due", "not due: the schedule was deleted", Reason.DELETED)
    if facts.decided(at):
        history = facts.history
        old = at < history.since(facts.now) or at == history.forgotten_until
        why = f"it is past its keep: {history}" if old else "it was never planned"
        return Explanation(at, "unknown", f"unknown: the ledger has no entry for it; {why}")
    if schedule.status == "completed":
        most = f" after its max_runs of {spec.max_runs}" if spec and spec.max_runs else ""
        return Explanation(at, "not_due", f"not due: the schedule has completed{most}")
    if at <= facts.now:
        return _pending(facts, at, clock)
    if (window := facts.window_at(at)) is not None:
        return explain_window(window, at, clock)
    ripe_at = at if facts.snapshot is None else DueTimes.of(facts.snapshot, at).ripe_at(at)
    return _coming(facts, at, ripe_at, "", clock)


def _coming(
    facts: Facts, at: datetime, ripe_at: datetime, moved_from: str, clock: Clock
) -> Explanation:
    asked = replace(clock, asked=facts.now)
    shadow = facts.snapshot is not None and facts.snapshot.in_shadow(at)
    rests = facts.unattended, facts.window_at(ripe_at), shadow
    told = explain_coming(facts.schedule, at, ripe_at, moved_from, asked, *rests)
    return (
        replace(told, text=f"{told.text}; {facts.fleet.unserved(facts.schedule.namespace)}")
        if facts.fleet.unserved(facts.schedule.namespace)
        else told
    )


def _pending(facts: Facts, at: datetime, clock: Clock) -> Explanation:
    """A due time that has come and is not decided."""
    if facts.schedule.status == "paused":
        return explain_paused(facts.schedule, at, clock)
    if facts.plan is None:
        problem = facts.schedule.problem or "its definition cannot be read"
        return Explanation(at, "waiting", f"waiting: the schedule cannot be planned: {problem}")
    for decision in facts.plan.decisions:
        if isinstance(decision, Defer) and decision.due_at <= at:
            return explain_deferred(decision, at, clock)
        if isinstance(decision, Skip) and decision.due_from <= at <= decision.due_to:
            return _about_to_be_skipped(facts, decision, at, clock)
        if isinstance(decision, Hold) and decision.due_from <= at <= decision.due_to:
            text = "not decided yet; at present, more was missed than catchup_approval allows"
            return Explanation(at, "waiting", f"{text}: it will be held for an operator")
        if isinstance(decision, Fire) and decision.due_at == at:
            break
    since = f"due {length_text(facts.now - at)} ago, at {clock.time(at)}"
    looked = (
        "a scheduler is about to plan it"
        if facts.fleet.scheduler_runs()
        else "no scheduler is running"
    )
    return Explanation(at, "waiting", f"{since}; {looked}")


def _about_to_be_skipped(facts: Facts, skip: Skip, at: datetime, clock: Clock) -> Explanation:
    entry = LedgerEntry(
        skip.due_from,
        skip.due_to,
        skip.count,
        skip.exact,
        "skipped",
        skip.reason,
        dict(skip.facts),
        facts.now,
        facts.schedule.version,
    )
    told = _explain_skip(facts.skipped(entry, at), clock)
    return replace(told, verdict="waiting", text=f"not decided yet; at present, {told.text}")
