"""Converts the end of a Python function to an Outcome: what it returned or raised."""

from __future__ import annotations

import inspect
import json
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import DuebookError, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.run import Outcome

if TYPE_CHECKING:
    from duebook.model.event import Draft
    from duebook.targets.context import Reports, TaskStop

__all__ = [
    "MOST_OUTPUT",
    "Cancelled",
    "Output",
    "Unfit",
    "failed",
    "raised",
    "returned",
    "stopped",
    "with_published",
]

MOST_OUTPUT: Final = 65_536
LONGEST_ERROR: Final = 2_000
LONGEST_REF: Final = 10_000
MOST_CODE: Final = 2**31 - 1
"""The database stores exit codes as integers of 32 bits."""
_SUCCEEDED: Final = Outcome("succeeded")
_TIMEOUT: Final = "it took longer than its timeout"


class Cancelled(DuebookError):
    """The run was asked to stop: it was cancelled, it timed out, or its node is stopping."""

    code = "cancelled"


class Unfit(Exception):
    """The function cannot be called with the payload, and a retry would not change that."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.outcome = Outcome("failed", reason, why)


@dataclass(frozen=True, slots=True)
class Output:
    """The return value of a task whose result is stored elsewhere.

    >>> Output(ref="s3://reports/2026-03.csv", value={"rows": 120})
    Output(value={'rows': 120}, ref='s3://reports/2026-03.csv')
    """

    value: Any = None
    ref: str | None = None


def returned(value: Any) -> Outcome:
    """A result is stored if it is JSON of bounded size; otherwise the run fails with the reason."""
    if value is None:
        return _SUCCEEDED
    ref = None
    if isinstance(value, Output):
        value, ref = value.value, value.ref
        if ref is not None and (not isinstance(ref, str) or len(ref) > LONGEST_REF):
            return Outcome("failed", "output", f"output ref {shorten(ref)} is not a short string")
    if inspect.isawaitable(value):
        return Outcome("failed", "output", _awaitable(value))
    try:
        text = None if value is None else json.dumps(value, allow_nan=False, ensure_ascii=False)
        size = 0 if text is None else len(text if text.isascii() else text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        return Outcome("failed", "output", f"the output is not valid JSON: {shorten(str(error))}")
    if size > MOST_OUTPUT:
        told = f"the output has {size:,} bytes as JSON; at most {MOST_OUTPUT:,} are allowed"
        return Outcome("failed", "output", f"{told}: store it, and return Output(ref=…)")
    return Outcome("succeeded", output=text, output_ref=ref)


def _awaitable(value: Any) -> str:
    kind = type(value).__name__
    if inspect.iscoroutine(value):
        value.close()  # or Python warns that it was never awaited
    return f"it returned a {kind} that was never awaited; declare the task with async def"


def with_published(outcome: Outcome, published: list[Draft]) -> Outcome:
    """A success with the events that its task published."""
    if not published or outcome.status != "succeeded":
        return outcome
    return replace(outcome, events=tuple(published))


def raised(error: BaseException) -> Outcome:
    """The outcome of an exception that ended a task; call `stopped` first."""
    if isinstance(error, SystemExit):
        code = error.code
        if code is None or code == 0:
            return _SUCCEEDED
        number = max(-MOST_CODE, min(int(code), MOST_CODE)) if isinstance(code, int) else 1
        why = "" if isinstance(code, int) else f": {_message(code)}"
        return Outcome("failed", "exit_code", f"exit code {number}{why}"[:LONGEST_ERROR], number)
    kind, message = type(error), _message(error)
    text = f"{kind.__name__}: {message}" if message else kind.__name__
    return Outcome("failed", "error", text[:LONGEST_ERROR], kinds=_kinds(error))


def _message(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return "the message cannot be shown"


def _kinds(error: BaseException) -> tuple[str, ...]:
    """The class of an exception and its bases; for a group also those common to all in it."""
    own = tuple(base.__name__ for base in type(error).__mro__ if issubclass(base, BaseException))
    if not isinstance(error, BaseExceptionGroup):
        return own
    first, *others = (_kinds(inner) for inner in error.exceptions)
    common = (name for name in first if all(name in kinds for kinds in others))
    return (*own, *(name for name in common if name not in own))


def stopped(stop: TaskStop, error: BaseException | None) -> Outcome | None:
    """The outcome of an attempt that was asked to stop; None if it did not end because of that.

    If it never noticed, and came to its own end, that end counts.
    """
    if stop.reason is None or not (stop.seen or isinstance(error, Cancelled)):
        return None
    if stop.reason == "timeout":
        return Outcome("failed", "timeout", _TIMEOUT)
    return Outcome("cancelled", stop.reason)


def failed(stop: TaskStop, error: BaseException, reports: Reports) -> Outcome:
    """The outcome of an attempt whose function raised; writes the traceback to the log."""
    if isinstance(error, Unfit):
        return error.outcome
    outcome = stopped(stop, error) or raised(error)
    if outcome.reason == "error":
        reports.line("stderr", _traceback(error))
    return outcome


def _traceback(error: BaseException) -> str:
    """For the log of the run, without Duebook's own frames."""
    trace = error.__traceback__
    while trace is not None and "duebook" in trace.tb_frame.f_globals.get("__name__", "").split(
        "."
    ):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace)).rstrip("\n")
