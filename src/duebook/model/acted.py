"""Actions on many schedules or runs at once, and how many they affected, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Name, Shown, shown

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["ACTIONS", "Acted", "Action", "BackfillProgress", "Pause", "Withdrawn"]

Action = Literal["pause", "resume", "delete", "trigger", "skip_next"]
ACTIONS: Final = get_args(Action)


@dataclass(frozen=True, slots=True)
class Pause:
    """Why schedules are paused, and when they resume by themselves."""

    reason: str | None = None
    until: datetime | None = None


@shown()
@dataclass(frozen=True, slots=True)
class Acted:
    """How many schedules were or would be affected, and the names of the first ones."""

    action: Action
    count: int
    names: tuple[Name, ...]
    dry_run: bool


@shown()
@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What happened to the runs of a backfill that was undone."""

    cancelled: int
    begun: Annotated[int, Shown("Runs that had already started.")]
    """these continue, or have ended"""


@shown()
@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """How many runs of a backfill are in each state."""

    queued: int = 0
    running: int = 0
    succeeded: int = 0
    partial: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def total(self) -> Annotated[int, Shown("All of its runs.")]:
        return self.left + self.ended

    @property
    def left(self) -> Annotated[int, Shown("Those that have not ended.")]:
        return self.queued + self.running

    @property
    def ended(self) -> int:
        return self.succeeded + self.partial + self.failed + self.cancelled
