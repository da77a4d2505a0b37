"""Explains what will happen to a due time that is not decided yet; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.explain.explanation import Explanation
from duebook.explain.words import Clock, as_moment, length_text, short_id
from duebook.model.plan import Defer, Reason
from duebook.timetext import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from duebook.model.plan import DueException, Unattended, WindowSpan
    from duebook.model.schedule import Schedule

__all__ = [
    "explain_coming",
    "explain_deferred",
    "explain_paused",
    "explain_said",
    "explain_window",
    "pause_text",
    "unread_text",
    "window_text",
]


def explain_coming(
    schedule: Schedule,
    due_at: datetime,
    ripe_at: datetime,
    moved_from: str,
    clock: Clock,
    unattended: Unattended | None = None,
    window: WindowSpan | None = None,
    shadow: bool = False,
) -> Explanation:
    """A future due time, which waits for the end of `window`; `clock.asked` is now."""
    text = f"due in {length_text(due_at - clock.asked)}, at {clock.time(due_at)}"
    if ripe_at != due_at:
        text += f", planned at {clock.time(ripe_at)} by its jitter"
    if moved_from:
        text += f"; a user moved it there{moved_from}"
    reason = None
    if schedule.status == "paused":
        reason = str(Reason.PAUSED)
        text += f", but {pause_text(schedule, clock)}"
    elif shadow:
        reason = str(Reason.SHADOW)
        text += ", but shadow mode will record it instead of running it"
    elif window is not None:
        reason = str(Reason.PAUSED)
        text += f", but waits until the end of {window_text(window, clock)}"
    elif unattended is not None:
        reason = str(Reason.UNATTENDED)
        text += f", but {unread_text(unattended.directory, unattended.since, clock)}"
    return Explanation(due_at, "to_come", text, reason)


def explain_window(window: WindowSpan, due_at: datetime, clock: Clock) -> Explanation:
    """A future due time in a maintenance window."""
    text = f"will be skipped at {clock.time(due_at)}: it falls into {window_text(window, clock)}"
    return Explanation(due_at, "to_come", text, Reason.PAUSED)


def window_text(window: WindowSpan, clock: Clock) -> str:
    """`maintenance window "db upgrade", from 08:00 to 12:00`"""
    span = f"from {clock.minute(window.start)} to {clock.minute(window.end)}"
    return f'maintenance window "{window.name}", {span}'


def explain_said(exception: DueException, clock: Clock) -> Explanation | None:
    """A due time that was skipped or moved away by a person; None: it was not."""
    due_at, when = exception.due_at, clock.time(exception.due_at)
    if exception.kind == "skip":
        text = f"will be skipped at {when}, as a user requested"
        return Explanation(due_at, "to_come", text, Reason.SKIPPED_BY_USER)
    if exception.kind == "moved_away" and exception.moved_to:
        text = f"will not run at {when}: a user moved it to {clock.time(exception.moved_to)}"
        return Explanation(due_at, "to_come", text, Reason.SUPERSEDED)
    return None


def explain_paused(schedule: Schedule, due_at: datetime, clock: Clock) -> Explanation:
    """A due time that fell, or was still waiting, while nothing is decided."""
    policy = schedule.spec.on_resume if schedule.spec else "skip"
    text = f"waiting: {pause_text(schedule, clock)}"
    if schedule.paused_at is not None and due_at > schedule.paused_at:
        verb = "record it as skipped" if policy == "skip" else "catch up"
        text += f"; on_resume={policy} will {verb}"
    return Explanation(due_at, "waiting", text, Reason.PAUSED)


def pause_text(schedule: Schedule, clock: Clock) -> str:
    text = "the schedule is paused"
    if schedule.paused_at:
        text = f"the schedule has been paused since {clock.minute(schedule.paused_at)}"
    if schedule.paused_until:
        text += f", until {clock.minute(schedule.paused_until)}"
    return f"{text} ({schedule.pause_reason})" if schedule.pause_reason else text


def explain_deferred(defer: Defer, due_at: datetime, clock: Clock) -> Explanation:
    """A due time that waits, by itself or behind the one that does."""
    text = _why_deferred(defer, clock)
    if due_at > defer.due_at:
        text = f"waiting behind {clock.time(defer.due_at)}, which is {text}"
    other = defer.facts.get("run")
    return Explanation(due_at, "waiting", text, defer.reason, other_run_id=other)


def unread_text(directory: object, since: datetime | None, clock: Clock) -> str:
    """Why it is unknown whether the flow in the database is still current."""
    told = f'no node has read directory "{directory}"'
    told += " yet" if since is None else f" since {clock.full(since)}"
    return (
        f"{told}; start a node with --flows, or delete its flows: duebook flow forget {directory}"
    )


def _why_deferred(defer: Defer, clock: Clock) -> str:
    facts = defer.facts
    if defer.reason == Reason.PACE:
        return f"waiting its turn: the backlog continues at {clock.time(defer.until)}"
    if defer.reason == Reason.PAUSED:
        window = facts.get("window")
        return f'waiting until {clock.time(defer.until)}, the end of maintenance window "{window}"'
    if defer.reason == Reason.UNATTENDED:
        since = as_moment(facts.get("since"))
        return f"waiting: {unread_text(facts.get('directory'), since, clock)}"
    if defer.reason == Reason.DEPENDENCY:
        missing = "" if facts.get("exists", True) else ", which does not exist"
        return (
            f"waiting for {facts.get('schedule')} to succeed within {facts.get('within')}"
            f"{missing}, until {clock.time(defer.until)}"
        )
    since = as_moment(facts.get("since"))
    active = f"active since {clock.minute(since)}" if since else "active"
    if "origin" in facts:
        return f"waiting for {_extra(facts)} to finish, {active}"
    if "late" in facts:
        return f"waiting for {_own(facts, clock)} to finish, {_late(defer, clock)}"
    if "run" in facts:
        return f"waiting: run {short_id(facts['run'])} is {active}"
    first = as_moment(facts.get("due_at"))
    return f"waiting: the run of {clock.time(first)} goes first" if first else "waiting"


def _extra(facts: Mapping[str, Any]) -> str:
    """Work other than the schedule's own due times."""
    run = short_id(facts["run"])
    if facts["origin"] in ("manual", "backfill"):
        return f"{facts['origin']} run {run}"
    return f"run {run}, which a user started again,"


def _own(facts: Mapping[str, Any], clock: Clock) -> str:
    if "run" in facts:
        return f"run {short_id(facts['run'])}"
    due_at = as_moment(facts.get("due_at"))
    return f"the run of {clock.time(due_at)}" if due_at else "a run"


def _late(defer: Defer, clock: Clock) -> str:
    """Why an overlapping run delays a due time, which is not decided yet."""
    lag = length_text(parse_duration(defer.facts["late"]))
    return (
        f"until {clock.time(defer.until)} at the latest: "
        f"it started {lag} late because of manual or backfill runs"
    )
