"""The shapes of schedules and of what is asked about them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from duebook.api.schemas.definitions import Target
from duebook.api.shapes import items_of
from duebook.model.codec import Shown
from duebook.model.plan import DueKind
from duebook.model.run import Run
from duebook.model.schedule import Schedule
from duebook.store.values import LedgerEntry

__all__ = [
    "BackfillAnswer",
    "BackfillRequest",
    "DueTimes",
    "LedgerList",
    "PauseRequest",
    "RenderRequest",
    "Rendered",
    "RescheduleRequest",
    "RestoreRequest",
    "SkipRequest",
    "Skipped",
    "TriggerRequest",
    "UndoBackfillRequest",
]

LedgerList: Final = items_of("LedgerList", LedgerEntry, str | None)


class PauseRequest(TypedDict, total=False):
    reason: str | None
    until: datetime | None


class TriggerRequest(TypedDict, total=False):
    payload: Annotated[dict[str, Any] | None, Shown("Instead of the schedule's own.")]


class RenderRequest(TriggerRequest):
    pass


class Rendered(TypedDict):
    """What a run would execute now; values that may be secret are hidden."""

    target: Target
    payload: dict[str, Any]


class SkipRequest(TypedDict, total=False):
    due_at: datetime | None
    """the one that is meant: refused when another is the next"""


class RescheduleRequest(SkipRequest):
    at: datetime


class RestoreRequest(TypedDict):
    at: datetime


class Skipped(TypedDict):
    skipped_due_at: datetime
    schedule: Schedule


class BackfillRequest(TypedDict):
    start: datetime
    end: datetime
    reprocess: NotRequired[Literal["failed", "all"] | None]
    dry_run: NotRequired[bool | None]


class BackfillAnswer(TypedDict):
    """The runs that were queued; or, of a dry run, the due times that would run."""

    dry_run: bool
    count: int
    due_times: list[datetime]
    runs: list[Run]


class UndoBackfillRequest(TypedDict):
    start: datetime
    end: datetime
    queued_at: Annotated[datetime, Shown("The `ready_at` of the runs it queued.")]


class DueTimes(TypedDict):
    items: list[datetime]
    kinds: Annotated[list[DueKind], Shown("Of each of the items, in their order.")]
    next_cursor: None
