"""The policies of a schedule as Python gives them to a call: for type checkers, not for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime, timedelta

    from duebook.model.fields import DateRange, Dependency
    from duebook.model.retry import Retry
    from duebook.model.schedule import Catchup, OnResume, Overlap
    from duebook.model.target import Target
    from duebook.triggers import Trigger

__all__ = ["Definition", "Policies"]

# At run time nobody asks for these, so the names above need not be imported.
if TYPE_CHECKING:
    Length = str | timedelta
    Instant = str | datetime
    AnyTrigger = Trigger | Mapping[str, Any] | Sequence[Trigger | Mapping[str, Any]]


class Policies(TypedDict, total=False):
    """What may stand beside a trigger and a target; `ScheduleSpec` says what each means."""

    payload: Mapping[str, Any]
    title: str
    description: str
    labels: Mapping[str, str]
    start_at: Instant
    end_at: Instant
    max_runs: int
    jitter: Length
    exclude: Sequence[str | date | DateRange] | str
    grace: Length
    catchup: Catchup
    catchup_window: Length
    catchup_limit: int
    catchup_pace: Length
    overlap: Overlap
    skip_if_successful: bool
    on_resume: OnResume
    depends_on: Sequence[Mapping[str, Any] | Dependency]
    max_concurrent: int
    queue: str
    priority: int
    retry: Retry | int | Mapping[str, Any]
    max_takeovers: int
    timeout: Length
    expire_after: Length
    stop: AnyTrigger
    restart: AnyTrigger


class Definition(Policies, total=False):
    """A whole schedule, but for its name."""

    frequency_unit: str
    frequency_time: int
    start_ts: Instant
    event_topic: str
    """stands for a target, with `event_type` and `event_data` beside it"""
    event_type: str
    event_data: Any
    trigger: AnyTrigger
    cron: str
    """stands for a trigger, with `tz` beside it"""
    tz: str
    enabled: bool
    """false: it begins paused"""
    active: bool
    """another word for `enabled`"""
    target: str | Mapping[str, Any] | Target
