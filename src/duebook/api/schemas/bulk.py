"""The shapes of what is done with many schedules at once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from duebook.api.schemas.base import Id, Instant, Name, Shape
from duebook.api.schemas.definitions import ScheduleCreation

__all__ = ["Acted", "BulkAction", "BulkCreation", "Created"]

Action = Literal["pause", "resume", "delete", "trigger", "skip_next"]


class BulkCreation(Shape):
    schedules: Annotated[list[ScheduleCreation], Field(min_length=1, max_length=10_000)]


class BriefSchedule(Shape):
    id: Id
    name: Name
    status: Literal["active", "paused"]
    next_due_at: Instant | None


class Created(Shape):
    count: int
    items: list[BriefSchedule]


class ScheduleFilter(Shape):
    """Which schedules; all that is given must be true. `{"text": "*"}` finds all."""

    model_config = ConfigDict(extra="forbid", title="ScheduleFilter")

    status: Literal["active", "paused", "completed"] | None = None
    label: Annotated[
        str | list[str] | dict[str, str] | None, Field(examples=["team:sales", {"team": "sales"}])
    ] = None
    text: Annotated[
        str | None,
        Field(description="A part of the name or title, or the beginning of the name: `etl-*`."),
    ] = None
    due_before: Instant | None = None
    target: Annotated[str | None, Field(examples=["task", "task:digest", "command", "http"])] = None
    problem: bool | None = None


class BulkAction(Shape):
    action: Action
    filter: ScheduleFilter
    dry_run: bool | None = None
    reason: Annotated[str | None, Field(description="Why they are paused.")] = None
    until: Annotated[
        Instant | None, Field(description="Of a pause: when they resume by themselves.")
    ] = None


class Acted(Shape):
    """To how many schedules it was done, or would be, and the names of the first ones."""

    action: Action
    dry_run: bool
    count: int
    names: list[Name]
