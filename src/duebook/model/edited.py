"""Previews as values: an edit of a schedule, and a new schedule, before they are saved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import NEVER_SHOWN, Shown, shown
from duebook.model.note import Note
from duebook.model.schedule import ScheduleSpec
from duebook.timetext import format_instant

__all__ = ["Drafted", "Edited", "Missed", "Note"]


class Drafted(NamedTuple):
    """A definition, and when it would be due next."""

    spec: ScheduleSpec
    will_be_due: Sequence[datetime]


@dataclass(frozen=True, slots=True)
class Missed:
    """Due times that an edit's catch-up would cover, but that were already recorded as missed."""

    namespace: str
    schedule: str
    start: datetime
    end: datetime
    count: int | None = None
    """None: more than one backfill allows"""

    @property
    def command(self) -> str:
        where = "" if self.namespace == "default" else f"--namespace {self.namespace} "
        span = f"--from {format_instant(self.start)} --to {format_instant(self.end)}"
        return f"duebook {where}backfill {self.schedule} {span}"

    @property
    def note(self) -> Note:
        number = "many" if self.count is None else f"{self.count:,}"
        times = "due time was" if self.count == 1 else "due times were"
        run = "it" if self.count == 1 else "them"
        told = f"{number} {times} recorded as missed before this change. To run {run}: "
        return Note("missed", told + self.command)


Definition = Annotated[ScheduleSpec, Shown(write=ScheduleSpec.to_shown, json=dict[str, Any])]


@shown("Edit")
class Edited(NamedTuple):
    """A preview of an edit."""

    before: Definition
    after: Definition
    was_due: Sequence[datetime]
    will_be_due: Sequence[datetime]
    notes: tuple[Note, ...] = ()
    missed: Annotated[Missed | None, NEVER_SHOWN] = None
    """details for one of the notes; not sent by a server"""
