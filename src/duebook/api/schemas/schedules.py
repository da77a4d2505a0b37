"""The shapes of schedules, and of responses about them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, TypedDict

from duebook.api.schemas.definitions import Target
from duebook.api.shapes import items_of
from duebook.model.codec import Shown
from duebook.model.plan import DueKind
from duebook.model.run import Run
from duebook.model.schedule import Schedule
from duebook.store.values import LedgerEntry

__all__ = [
    "BackfillAnswer",
    "DueTimes",
    "LedgerList",
    "Rendered",
    "Skipped",
]

LedgerList: Final = items_of("LedgerList", LedgerEntry, str | None)


class Rendered(TypedDict):
    """What a run would execute now; values that may be secret are hidden."""

    target: Target
    payload: dict[str, Any]


class Skipped(TypedDict):
    skipped_due_at: datetime
    schedule: Schedule


class BackfillAnswer(TypedDict):
    """The runs that were queued; or, for a dry run, the due times that would run."""

    dry_run: bool
    count: int
    due_times: list[datetime]
    runs: list[Run]


class DueTimes(TypedDict):
    items: list[datetime]
    kinds: Annotated[list[DueKind], Shown("For each item, in the same order.")]
    next_cursor: None
