"""Which run a log line is about: fields for structured logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from logging import LogRecord

    from duebook.model.run import Claim

__all__ = ["about", "fields_of"]

_NAME: Final = "duebook_run"


def about(claim: Claim) -> dict[str, Claim]:
    """The `extra` of a logger call."""
    return {_NAME: claim}


def fields_of(record: LogRecord, at_work: Claim | None) -> dict[str, Any]:
    """The run that a line is about, or else the one whose task wrote it."""
    claim: Claim | None = getattr(record, _NAME, at_work)
    if claim is None:
        return {}
    run = claim.run
    found = {
        "run": run.id,
        "schedule": run.schedule,
        "task": run.task,
        "flow": run.flow,
        "step": run.step,
        "attempt": run.attempt,
    }
    if claim.traceparent is not None:
        _, found["trace_id"], found["span_id"], _ = claim.traceparent.split("-")
    return {name: value for name, value in found.items() if value is not None}
