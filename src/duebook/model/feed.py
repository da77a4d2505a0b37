"""Feeds as values: tokens that read due times as an iCal file, and nothing else."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, NamedTuple

from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Id, Name, Shown, shown

__all__ = ["Feed", "FeedMade"]


@shown("Feed")
@dataclass(frozen=True, slots=True)
class Feed:
    """A token that opens the iCal file of a namespace, or of the schedules with its labels."""

    id: Id
    namespace: Name
    name: Name
    labels: dict[str, str]
    created_at: datetime
    created_by: str


@shown()
class FeedMade(NamedTuple):
    """A feed with its token, which is shown only once."""

    about: Annotated[Feed, Shown(spread=True)]
    token: Annotated[str, Shown("The query of `/api/v1/schedules.ics` has it.")]
