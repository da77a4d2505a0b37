"""The value that an explanation is, with its sentence."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Id, Shown, shown
from duebook.model.plan import DueKind
from duebook.model.run import RunStatus

__all__ = ["Explanation"]

Verdict = Literal[
    "ran",
    "running",
    "queued",
    "cancelled",
    "skipped",
    "waiting",
    "to_come",
    "not_due",
    "unknown",
    "done",
]


@shown()
@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened or will happen to a due time; or why nothing was due at that time.

    The verdict of a stop or restart is `done`; `reason` is a stable code, if there is one.
    """

    at: datetime
    verdict: Annotated[str, Shown(json=Verdict)]
    text: Annotated[str, Shown("What happened to it, in a sentence.")]
    reason: str | None = None
    run_id: Id | None = None
    tz: Annotated[str, Shown("The time zone of the times in the text.")] = "UTC"
    run_status: Annotated[str | None, Shown(json=RunStatus | None)] = None
    """how its run ended, or its current status, if it has one"""
    other_run_id: Annotated[Id | None, Shown("The run that the text names as the cause.")] = None
    kind: DueKind = "start"

    def __str__(self) -> str:
        return self.text
