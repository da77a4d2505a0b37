"""The policies of a schedule as keyword arguments, for type checkers only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime, timedelta

    from duebook.model.calendar_use import CalendarUse
    from duebook.model.fields import DateRange, Dependency
    from duebook.model.retry import Retry
    from duebook.model.target import Target
    from duebook.triggers import Trigger

__all__ = ["Definition", "EnqueuePolicies", "Policies"]

# Not used at run time, so the names above need not be imported.
if TYPE_CHECKING:
    Length = str | timedelta
    Instant = str | datetime
    AnyTrigger = Trigger | Mapping[str, Any] | Sequence[Trigger | Mapping[str, Any]]


class Policies(TypedDict, total=False):
    """What may be given besides a trigger and a target; `ScheduleSpec` documents each."""

    # derived: begin (make derive)
    payload: Mapping[str, Any]
    title: str
    description: str
    labels: Mapping[str, str]
    start_at: Instant
    end_at: Instant
    max_runs: int
    jitter: Length
    exclude: Sequence[str | date | DateRange] | str
    calendar: Mapping[str, str] | CalendarUse
    grace: Length
    catchup: Literal["one", "skip", "all"]
    catchup_window: Length
    catchup_limit: int
    catchup_pace: Length
    catchup_approval: int
    overlap: Literal["skip", "queue", "latest", "cancel", "allow"]
    skip_if_successful: bool
    on_resume: Literal["skip", "catchup"]
    depends_on: Sequence[Mapping[str, Any] | Dependency]
    max_concurrent: int
    queue: str
    priority: int
    retry: Retry | int | Mapping[str, Any]
    max_takeovers: int
    timeout: Length
    expire_after: Length
    keep: Length
    keep_last: int
    stop: AnyTrigger
    restart: AnyTrigger
    # derived: end


class Definition(Policies, total=False):
    """A whole schedule, except for its name."""

    # derived: begin (make derive)
    trigger: AnyTrigger
    target: str | Mapping[str, Any] | Target
    cron: str
    tz: str
    frequency_unit: str
    frequency_time: int
    start_ts: Instant
    event_topic: str
    event_type: str
    event_data: Any
    enabled: bool
    active: bool
    # derived: end


class EnqueuePolicies(TypedDict, total=False):
    """What may be given besides a task and its payload when a run of it is enqueued."""

    delay: Length
    unique: Literal["pending", "active", "forever"] | Length
    debounce: Length
    max_wait: Length
    throttle: Length
    # derived: begin (make derive)
    queue: str
    priority: int
    retry: Retry | int | Mapping[str, Any]
    max_takeovers: int
    timeout: Length
    expire_after: Length
    # derived: end
