"""The state of a flow directory in the database: which node reads it, and when it last did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["FlowDirectory"]


@dataclass(frozen=True, slots=True)
class FlowDirectory:
    """Due times of its flows are decided only while a node reads it."""

    namespace: str
    name: str
    scanned_at: datetime | None
    """when a node last read its files"""
    node: str | None
    """the node in charge of it"""
    is_attended: bool
    """whether a node is in charge of it, and has read its files since it took over"""
    returned: tuple[str, ...] = ()
    """flows whose earlier revision was restored by the last takeover"""
    waiting: int = 0
    """schedules with due times that wait until a node reads it"""

    @property
    def title(self) -> str:
        place = "" if self.namespace == "default" else f" of namespace {self.namespace}"
        return f'directory "{self.name}"{place}'

    @property
    def unread(self) -> str | None:
        """What to tell people while no node reads it, with the remedy; None if one does."""
        if self.is_attended:
            return None
        since = " yet" if self.scanned_at is None else f" since {format_instant(self.scanned_at)}"
        waiting = ""
        if self.waiting:
            verb = "schedule is" if self.waiting == 1 else "schedules are"
            waiting = f", and {self.waiting:,} {verb} waiting for it"
        return (
            f"no node has read {self.title}{since}{waiting}; start a node with --flows, "
            f"or delete its flows: duebook flow forget {self.name}"
        )
