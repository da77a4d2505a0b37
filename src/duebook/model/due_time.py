"""A due time with its purpose; usable like any other instant."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duebook.model.plan import Kind

__all__ = ["DueTime"]


class DueTime(datetime):
    """An instant at which a schedule starts something; for a flow, perhaps stops or restarts it."""

    kind: Kind = "start"

    @classmethod
    def of(cls, at: datetime, kind: Kind = "start") -> DueTime:
        made = cls(
            at.year,
            at.month,
            at.day,
            at.hour,
            at.minute,
            at.second,
            at.microsecond,
            at.tzinfo,
            fold=at.fold,
        )
        made.kind = kind
        return made
