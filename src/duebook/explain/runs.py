"""Explains what happened to a due time that has a run; pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.errors import counted, shorten
from duebook.explain.explanation import Explanation
from duebook.explain.words import Clock, length_text
from duebook.model.celery_target import CELERY
from duebook.model.repeat import REPEAT
from duebook.model.run import lateness, overlapped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.model.run import Attempt, Run

__all__ = ["explain_overlaps", "explain_run", "ran_briefly"]

_SECOND: Final = timedelta(seconds=1)
_LONG: Final = timedelta(minutes=1)
_WHY_ENDED: Final = {
    "deleted": "the schedule was deleted",
    "superseded": "a newer due time replaced it",
    "expired": "it was not started in time",
    "cancelled": "a user requested it",
}

_KINDS: Final = {
    "manual": " as a manual run",
    "catchup": " as a catch-up run",
    "backfill": " as a backfill",
}
"""For runs that no due time started; other origins are not mentioned."""


def explain_run(
    run: Run,
    clock: Clock,
    now: datetime,
    ripe_at: datetime | None = None,
    waits_for: str | None = None,
) -> Explanation:
    """A sentence with when it ran, how late, for how long, and how it ended.

    `ripe_at`: when its jitter let it be planned. `waits_for`: what a queued run waits for.
    """
    due_at = run.due_at or run.created_at
    late = _late(run, clock, ripe_at or due_at)
    if run.status == "queued":
        verdict, text = "queued", _queued(run, clock, now, waits_for)
    elif run.started_at is None:
        verdict, text = _never_begun(run, clock)
    elif run.status == "running":
        length = length_text(now - run.started_at)
        parts = [f"running since {_began(run, clock)}", *late, f"for {length}"]
        parts += [f"on {run.node}"] if run.node else []  # a flow run belongs to no node
        verdict, text = "running", f"{', '.join(parts)}{_attempt(run)}"
    else:
        verdict, text = "ran", _ran(run, clock, late)
    if run.task == CELERY and run.progress_text:
        text += f"; {run.progress_text}"
    return Explanation(due_at, verdict, text, run.reason, run.id, run_status=run.status)


def explain_overlaps(
    run: Run, attempts: Sequence[Attempt], time: Callable[[datetime], str]
) -> list[str]:
    """About attempts whose tasks continued after their run was taken over."""
    told = []
    for attempt in attempts:
        if (until := attempt.went_on_until) is not None:
            words = _overlap_words(time(until), overlapped(attempt, attempts, run))
            lost = "its node was paused or disconnected for longer than its lease"
            why = lost if attempt.outcome == "lost" else "its thread did not stop when asked to"
            where = f" on {attempt.node}" if attempt.node else ""
            told.append(f"attempt {attempt.number}{where} {words}, because {why}")
    return told


def ran_briefly(run: Run, clock: Clock) -> str | None:
    """`ran at 03:00`, with its result unless it succeeded; None: it has not ended."""
    if run.started_at is None or run.finished_at is None:
        return None
    end = "" if run.status == "succeeded" else f", {_end(run)}"
    return f"ran at {clock.minute(run.started_at)}{end}"


def _ran(run: Run, clock: Clock, late: list[str]) -> str:
    parts = [f"ran at {_began(run, clock)}", *late]
    if run.started_at and run.finished_at:
        parts.append(f"for {length_text(run.finished_at - run.started_at)}")
    return ", ".join([*parts, _end(run)])


def _began(run: Run, clock: Clock) -> str:
    return f"{clock.time(run.started_at or run.created_at)}{_KINDS.get(run.origin, '')}"


def _late(run: Run, clock: Clock, ripe_at: datetime) -> list[str]:
    """Why the attempt started late; backfills and retries are never late.

    A due time that was planned in time became a run later only because it had to wait.
    """
    late = lateness(run, ripe_at)
    if late is None or run.due_at is None:
        return []
    told = (
        [f"planned at {clock.time(ripe_at)} because of its jitter"] if ripe_at > run.due_at else []
    )
    waited = run.created_at - ripe_at
    if run.origin == "schedule" and waited >= _LONG:
        return [*told, f"after waiting for {length_text(waited)}"]
    return [*told, f"{length_text(late)} late"] if late >= _SECOND else told


def _end(run: Run) -> str:
    where = f" on {run.node}" if run.node else ""
    why = "" if run.status == "succeeded" else _why(run)
    return f"{run.state}{where}{_attempt(run)}{why}"


def _why(run: Run) -> str:
    known = _WHY_ENDED.get(run.reason or "")
    why = known if run.status == "cancelled" and known else run.error or known or run.why
    return f": {shorten(why, 200)}" if why else ""


def _attempt(run: Run) -> str:
    return f" (attempt {run.attempt})" if run.attempt > 1 else ""


def _queued(run: Run, clock: Clock, now: datetime, waits_for: str | None) -> str:
    if run.ready_at > now and run.reason == REPEAT:
        times = counted(run.attempt, "execution")
        return f"repeats at {clock.time(run.ready_at)}, after {times}"
    if run.ready_at > now:
        return (
            f"waiting for attempt {run.attempt + 1} at {clock.time(run.ready_at)}, "
            f"after {counted(run.failures or run.attempt, 'failed attempt')}"
        )
    again = f" again, for attempt {run.attempt + 1}," if run.attempt else ""
    kind = _KINDS.get(run.origin, "")
    since = f"since {clock.time(run.ready_at)}, for {length_text(now - run.ready_at)}"
    if run.attempt > run.failures:  # a lost or handed-back run kept its place
        since = f"ahead of runs that became ready after {clock.time(run.ready_at)}"
    return f"queued{kind}{again} {since}: {waits_for or 'no worker has started it yet'}"


def _never_begun(run: Run, clock: Clock) -> tuple[str, str]:
    at = f" at {clock.time(run.finished_at)}" if run.finished_at else ""
    if run.status == "running":
        return "running", f"claimed by {run.node or 'a node'}, about to start{_attempt(run)}"
    if run.status == "cancelled":
        waits = run.attempt and run.claimed_at is None
        waited = f"while waiting for attempt {run.attempt + 1}" if waits else ""
        return "cancelled", f"cancelled{at} {waited or 'before it started'}{_why(run)}"
    return "ran", f"{run.status}{at}{_attempt(run)}{_why(run)}"


def _overlap_words(until: str, beside: Sequence[int]) -> str:
    """`went on until 12:03 beside attempt 2`"""
    what = "attempts" if len(beside) > 1 else "attempt"
    others = f" beside {what} {', '.join(map(str, beside))}" if beside else ""
    return f"continued until {until}{others}"
