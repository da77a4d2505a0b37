"""Versions of the definition of a schedule, as values."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Shown, shown
from duebook.model.schedule import ScheduleSpec

__all__ = ["Revision"]


@shown()
@dataclass(frozen=True, slots=True)
class Revision:
    """A version of a definition, valid from `valid_from` until the next one."""

    version: int
    spec: Annotated[
        ScheduleSpec | None,
        Shown(
            "null: a newer version of Duebook wrote it.",
            key="definition",
            write=ScheduleSpec.to_shown,
            json=dict[str, Any] | None,
        ),
    ]
    valid_from: datetime
    by: str
