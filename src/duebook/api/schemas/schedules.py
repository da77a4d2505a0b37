"""The shapes of schedules and of what is asked about them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from duebook.api.schemas.base import Id, Instant, Name, RunStatus, Shape
from duebook.api.schemas.definitions import Policies, Target, Trigger
from duebook.api.schemas.runs import RunList, RunShape

__all__ = [
    "BackfillAnswer",
    "BackfillRequest",
    "DueTimes",
    "EditShape",
    "ExceptionList",
    "ExplanationList",
    "LedgerList",
    "PauseRequest",
    "RenderRequest",
    "Rendered",
    "RescheduleRequest",
    "RestoreRequest",
    "RevisionList",
    "RunList",
    "ScheduleList",
    "ScheduleShape",
    "Skipped",
    "TriggerRequest",
]


class NoteShape(Shape):
    """What somebody should know about a change that was made all the same."""

    model_config = ConfigDict(extra="forbid", title="Note")

    code: Annotated[str, Field(examples=["missed"])]
    message: str


class ScheduleShape(Policies):
    """A schedule: its definition and its state. Policies at their defaults are left out."""

    model_config = ConfigDict(extra="forbid", title="Schedule")

    id: Id
    namespace: Name
    name: Name
    version: Annotated[int, Field(ge=1)]
    status: Literal["active", "paused", "completed", "deleted"]
    next_due_at: Instant | None
    watermark: Annotated[Instant | None, Field(description="Every due time up to it is decided.")]
    created_at: Instant
    created_by: str
    updated_at: Annotated[Instant, Field(description="When its definition was last changed.")]
    last_enqueued_at: Annotated[
        Instant | None,
        Field(description="When its latest run was created, for a due time or by hand."),
    ]
    paused_at: Instant | None
    paused_until: Instant | None
    pause_reason: str | None
    problem: Annotated[str | None, Field(description="What keeps it from being planned or run.")]
    enabled: bool
    last_run_id: Id | None
    last_run_at: Instant | None
    last_run_status: RunStatus | None
    last_run_reason: str | None
    trigger: Trigger | list[Trigger] | None = None
    target: Target | None = None
    notes: Annotated[
        list[NoteShape] | None, Field(description="About the change that this answers.")
    ] = None


class ScheduleList(Shape):
    items: list[ScheduleShape]
    next_cursor: str | None


class PauseRequest(Shape):
    reason: str | None = None
    until: Instant | None = None


class TriggerRequest(Shape):
    payload: Annotated[
        dict[str, Any] | None, Field(description="Instead of the schedule's own.")
    ] = None


class RenderRequest(TriggerRequest):
    pass


class Rendered(Shape):
    """What a run would execute now; values that may be secret are hidden."""

    target: Target
    payload: dict[str, Any]


class SkipRequest(Shape):
    due_at: Instant | None = None
    """the one that is meant: refused when another is the next"""


class RescheduleRequest(SkipRequest):
    at: Instant


class RestoreRequest(Shape):
    at: Instant


class EditShape(Shape):
    """An edit that nobody has made yet."""

    model_config = ConfigDict(extra="forbid", title="Edit")

    before: dict[str, Any]
    after: dict[str, Any]
    was_due: list[Instant]
    will_be_due: list[Instant]
    notes: list[NoteShape]


class Skipped(Shape):
    skipped_due_at: Instant
    schedule: ScheduleShape


class BackfillRequest(Shape):
    start: Instant
    end: Instant
    reprocess: Literal["failed", "all"] | None = None
    dry_run: bool | None = None


class BackfillAnswer(Shape):
    """The runs that were queued; or, of a dry run, the due times that would run."""

    dry_run: bool
    count: int
    due_times: list[Instant]
    runs: list[RunShape]


class UndoBackfillRequest(Shape):
    start: Instant
    end: Instant
    queued_at: Annotated[Instant, Field(description="The `ready_at` of the runs it queued.")]


class WithdrawnShape(Shape):
    model_config = ConfigDict(extra="forbid", title="Withdrawn")

    cancelled: int
    begun: Annotated[int, Field(description="Those for which it was too late.")]


DueKind = Annotated[
    Literal["start", "stop", "restart"],
    Field(description="What the due time is for; stop and restart are those of flows."),
]


class DueTimes(Shape):
    items: list[Instant]
    kinds: Annotated[list[DueKind], Field(description="Of each of the items, in their order.")]
    next_cursor: None


class ExplanationShape(Shape):
    model_config = ConfigDict(extra="forbid", title="Explanation")

    at: Instant
    verdict: Literal[
        "ran",
        "running",
        "queued",
        "cancelled",
        "skipped",
        "waiting",
        "to_come",
        "not_due",
        "unknown",
        "done",
    ]
    reason: str | None
    run_id: Id | None
    run_status: RunStatus | None
    other_run_id: Annotated[
        Id | None, Field(description="The run that the text names because it stood in the way.")
    ]
    text: Annotated[str, Field(description="What became of it, in a sentence.")]
    tz: Annotated[str, Field(description="The zone of the times in the text.")]
    kind: DueKind


class ExplanationList(Shape):
    items: list[ExplanationShape]
    next_cursor: None


class LedgerEntryShape(Shape):
    """Due times that did not become runs, and why."""

    model_config = ConfigDict(extra="forbid", title="LedgerEntry")

    due_from: Instant
    due_to: Instant
    count: Annotated[int, Field(ge=1)]
    exact: Annotated[bool, Field(description="false: there were at least so many.")]
    verdict: str
    reason: str
    facts: dict[str, Any]
    at: Instant
    version: int
    session_id: str | None
    kind: DueKind


class LedgerList(Shape):
    items: list[LedgerEntryShape]
    next_cursor: str | None


class RevisionShape(Shape):
    model_config = ConfigDict(extra="forbid", title="Revision")

    version: int
    valid_from: Instant
    by: str
    definition: Annotated[dict[str, Any] | None, Field(description="null: a newer node wrote it.")]


class RevisionList(Shape):
    items: list[RevisionShape]
    next_cursor: None


class ExceptionShape(Shape):
    """What a person said about a due time to come."""

    model_config = ConfigDict(extra="forbid", title="Exception")

    due_at: Instant
    kind: Literal["skip", "moved_away", "moved_here"]
    moved_to: Instant | None


class ExceptionList(Shape):
    items: list[ExceptionShape]
    next_cursor: None
