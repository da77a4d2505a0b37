"""What the state of a Celery task means for its run: continue, end, or send the task again;
pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from duebook.model.run import Outcome
from duebook.targets.outcomes import LONGEST_ERROR, raised, returned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.run import Attempt

__all__ = ["CeleryEnd", "CeleryRecord", "began_with", "end_of", "next_step", "takeover_note"]

UNREADABLE: Final = "UNREADABLE"
"""A state of our own: there is a record, but this node cannot, or may not, read it."""
EXPIRED: Final = "expired"
"""What a worker reports as the end of a task that it did not start in time."""
_CONTINUED: Final = frozenset({"lost", "handed_back"})
"""Ends of attempts whose work the next attempt takes over."""

Phase = Literal["asking", "unmarked", "waiting"]
"""The phase of a task. asking: an attempt that took over asks for its record. unmarked: it was
sent, but its mark is not stored (yet). waiting: the backend has known it."""


class CeleryRecord(NamedTuple):
    """What the result backend stores about a task."""

    state: str | None = None
    """None: nothing is stored, which Celery calls PENDING"""
    result: Any = None
    """its return value, or the exception, as Celery stores it or as an object"""
    traceback: str | None = None
    is_marked: bool = False
    """whether the node that sent it has stored a mark"""


class CeleryEnd(NamedTuple):
    """How a task ended, and what the log of the run says about it."""

    outcome: Outcome
    note: str | None = None
    traceback: str | None = None


Step = CeleryEnd | Literal["wait", "send"]


def began_with(attempts: Sequence[Attempt], current: int) -> int:
    """The attempt that sent the task, or should have: if its node was lost, or it was handed back,
    the next attempt continues it."""
    number = current
    for attempt in reversed(attempts):
        if attempt.outcome not in _CONTINUED:
            break
        number = attempt.number
    return number


def next_step(
    phase: Phase, record: CeleryRecord, task_id: str, may_have_timed_out: bool = False
) -> Step:
    """What to do about a task. With `may_have_timed_out`, the node that had the task before may
    have revoked it because of the timeout, and been lost before it could report that.

    A taken-over task with neither a record nor a mark is sent, because it may never have been sent.
    A task that the backend has known but has no record of any more fails.
    """
    if may_have_timed_out and record.state == "REVOKED" and _text(record.result) != EXPIRED:
        return CeleryEnd(_timed_out(task_id))
    if (end := end_of(record, task_id)) is not None:
        return end
    if record.state is not None or record.is_marked:
        return "wait"
    if phase == "asking":
        return "send"
    return "wait" if phase == "unmarked" else CeleryEnd(_forgotten(task_id))


def end_of(record: CeleryRecord, task_id: str) -> CeleryEnd | None:
    """How the run ends according to the record of its task; None: it has not ended."""
    match record.state:
        case "SUCCESS":
            return _success(record.result, task_id)
        case "FAILURE":
            return CeleryEnd(_failure(record.result), traceback=record.traceback)
        case "REVOKED":
            why = _text(record.result)
            told = f"Celery revoked the task{f': {why}' if why else ''}"[:LONGEST_ERROR]
            return CeleryEnd(Outcome("cancelled", "revoked", told))
        case "UNREADABLE":
            told = f"the result of Celery task {task_id} cannot be read: {record.result}"
            return CeleryEnd(Outcome("failed", "output", told[:LONGEST_ERROR]))
    return None


def takeover_note(step: Step, task_id: str, doubt: str = "taken over", waits: bool = True) -> str:
    """What was found out about a task that may have been sent, for the log and for `explain`;
    `doubt` is the reason for the doubt."""
    if step == "wait":
        return f"{doubt}: waiting for Celery task {task_id}, which was sent before"
    if step != "send":
        return f"{doubt}: Celery task {task_id} had already ended"
    why = "the result backend has no record of it" if waits else "the app has no result backend"
    return (
        f"{doubt}: cannot know whether Celery task {task_id} was sent before, because {why}; "
        "sent, so it may run twice"
    )


def _timed_out(task_id: str) -> Outcome:
    return Outcome(
        "failed",
        "timeout",
        f"Celery task {task_id} was revoked while its node was lost, so it counts as one that took "
        "longer than its timeout",
    )


def _forgotten(task_id: str) -> Outcome:
    return Outcome(
        "failed",
        "result_lost",
        f"the result backend no longer has a record of Celery task {task_id}: it lost its data, or "
        "the record expired (result_expires); the task may still run or have ended",
    )


def _success(result: Any, task_id: str) -> CeleryEnd:
    """A result that is not JSON, or too large for the database, is not copied: the task has
    succeeded."""
    outcome = returned(result)
    if outcome.status == "succeeded":
        return CeleryEnd(outcome)
    why = (outcome.error or "").partition(": store it")[0]
    kept = Outcome("succeeded", output_ref=f"celery:{task_id}")
    return CeleryEnd(kept, f"the result stays in Celery's result backend: {why}")


def _failure(result: Any) -> Outcome:
    if isinstance(result, BaseException):
        return raised(result)
    kind = str(result.get("exc_type") or "Exception") if isinstance(result, dict) else "Exception"
    message = _text(result)
    text = f"{kind}: {message}" if message else kind
    return Outcome("failed", "error", text[:LONGEST_ERROR], kinds=(kind,))


def _text(result: Any) -> str:
    """The message of an exception as Celery stores it: a string, or the list of its arguments."""
    if isinstance(result, dict):
        result = result.get("exc_message")
    if isinstance(result, list | tuple):
        return ", ".join(map(str, result))
    return "" if result is None else str(result)
