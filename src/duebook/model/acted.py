"""What is done to many schedules or runs at once, and to how many it was done, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["ACTIONS", "Acted", "Action", "Pause", "Withdrawn"]

Action = Literal["pause", "resume", "delete", "trigger", "skip_next"]
ACTIONS: Final = get_args(Action)


@dataclass(frozen=True, slots=True)
class Pause:
    """Why schedules are paused, and when they resume by themselves."""

    reason: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Acted:
    """What was done, or would be: to how many schedules, and the names of the first ones."""

    action: Action
    count: int
    names: tuple[str, ...]
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What became of runs that somebody did not want after all."""

    cancelled: int
    begun: int
    """those that go on, or have ended: it was too late for them"""
