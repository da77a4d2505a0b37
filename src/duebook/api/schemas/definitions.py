"""The shapes of definitions: triggers, targets and policies, as they are given and stand."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from duebook.api.schemas.base import Duration, Instant, Name, Shape

__all__ = [
    "Policies",
    "ScheduleChange",
    "ScheduleCreation",
    "ScheduleReplacement",
    "Target",
    "TemplateDefaults",
    "Trigger",
]

Zone = Annotated[str, Field(description="An IANA zone.", examples=["Europe/Brussels"])]
Gap = Literal["run_after", "skip"]
Fold = Literal["first", "both"]


class CronTrigger(Shape):
    cron: Annotated[str, Field(max_length=1000, examples=["30 2 * * 1-5"])]
    tz: Zone | None = None
    gap: Gap | None = None
    fold: Fold | None = None
    key: Annotated[str | None, Field(description="What H hashes; the schedule's name.")] = None


class EveryTrigger(Shape):
    every: Annotated[Duration, Field(examples=["15m"])]
    anchor: Instant | None = None
    tz: Zone | None = None
    gap: Gap | None = None
    fold: Fold | None = None


class DailyTrigger(Shape):
    daily: Annotated[list[str], Field(examples=[["07:00", "17:30"]])]
    tz: Zone | None = None
    gap: Gap | None = None
    fold: Fold | None = None


class WeeklyTrigger(Shape):
    weekly: Annotated[str, Field(examples=["MON,WED,FRI 09:00"])]
    tz: Zone | None = None
    gap: Gap | None = None
    fold: Fold | None = None


class AtTrigger(Shape):
    at: Instant


class RruleTrigger(Shape):
    rrule: Annotated[str, Field(examples=["FREQ=MONTHLY;BYDAY=-1FR"])]
    dtstart: Annotated[str | None, Field(description="A date or an instant.")] = None
    tz: Zone | None = None
    gap: Gap | None = None
    fold: Fold | None = None


Trigger = CronTrigger | EveryTrigger | DailyTrigger | WeeklyTrigger | AtTrigger | RruleTrigger


class TaskTarget(Shape):
    task: Annotated[str, Field(examples=["email_digest"])]


class CommandTarget(Shape):
    command: Annotated[list[str], Field(min_length=1, examples=[["pg_dump", "mydb"]])]
    env: dict[str, str] | None = None
    cwd: str | None = None


class ShellTarget(Shape):
    shell: str
    env: dict[str, str] | None = None
    cwd: str | None = None


class HttpRequest(Shape):
    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    url: Annotated[str, Field(examples=["https://example.com/hook"])]
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] | None = None
    headers: Annotated[
        dict[str, str] | None, Field(description="Values that may be secret are shown as ***.")
    ] = None
    content: Annotated[Any, Field(alias="json", description="JSON that it sends.")] = None
    body: str | None = None
    expect: list[int | str] | None = None


class HttpTarget(Shape):
    http: HttpRequest


class FlowTarget(Shape):
    flow: Annotated[str, Field(examples=["etl"])]
    params: Annotated[dict[str, Any] | None, Field(description="Data, and no templates.")] = None


class EventFact(Shape):
    topic: Annotated[str, Field(examples=["orders"])]
    type: Annotated[str | None, Field(description="The topic, when left out.")] = None
    key: Annotated[str | None, Field(description="The schedule's name, when left out.")] = None
    data: Annotated[Any, Field(description="The payload, when left out.")] = None


class EventTarget(Shape):
    event: EventFact | str


Target = TaskTarget | CommandTarget | ShellTarget | HttpTarget | FlowTarget | EventTarget


class RetryPolicy(Shape):
    attempts: Annotated[int, Field(ge=1, le=1000, description="Counts the first try.")] = 3
    delay: Duration | None = None
    backoff: Annotated[float | None, Field(ge=1, le=100)] = None
    max_delay: Duration | None = None
    jitter: bool | None = None
    on: Annotated[
        list[int | str] | None, Field(description="Exit codes and names of failures.")
    ] = None


class DependencyShape(Shape):
    model_config = ConfigDict(extra="forbid", title="Dependency")

    schedule: Name
    within: Duration
    wait: Duration | None = None


AnyTrigger = Annotated[
    Trigger | str | list[Trigger | str],
    Field(description="One trigger or up to 20; a text is a cron expression."),
]


class Policies(Shape):
    """What may stand beside a trigger and a target; what is at its default may be left out."""

    payload: Annotated[
        dict[str, Any] | None, Field(description="What its runs are given; may have templates.")
    ] = None
    title: Annotated[
        str | None,
        Field(max_length=200, description="A name to show to people.", examples=["Daily Cleanup"]),
    ] = None
    description: Annotated[str | None, Field(max_length=10_000)] = None
    labels: dict[str, str] | None = None
    start_at: Annotated[Instant | None, Field(description="Times before are no due times.")] = None
    end_at: Annotated[Instant | None, Field(description="Times after are no due times.")] = None
    max_runs: Annotated[
        int | None,
        Field(ge=1, le=1_000_000_000, description="It completes after so many due times ran."),
    ] = None
    jitter: Annotated[
        Duration | None, Field(description="Shifts each due time by up to so much.")
    ] = None
    exclude: Annotated[
        list[str] | None,
        Field(
            description="Days and ranges of days without due times.",
            max_length=1000,
            examples=[["2026-12-25", "2026-12-31/2027-01-02"]],
        ),
    ] = None
    grace: Annotated[
        Duration | None, Field(description="Older than this, a due time is missed. 1m.")
    ] = None
    catchup: Annotated[
        Literal["one", "skip", "all"] | None,
        Field(description="What becomes of missed due times: the newest runs, none, all. one."),
    ] = None
    catchup_window: Annotated[Duration | None, Field(description="How far back `all` reaches.")] = (
        None
    )
    catchup_limit: Annotated[
        int | None, Field(ge=1, le=50_000, description="How many `all` keeps. 1000.")
    ] = None
    catchup_pace: Annotated[
        Duration | None, Field(description="How fast a backlog is considered. 1m.")
    ] = None
    overlap: Annotated[
        Literal["skip", "queue", "latest", "cancel", "allow"] | None,
        Field(description="What a due time does while a run is active. skip."),
    ] = None
    skip_if_successful: Annotated[
        bool | None, Field(description="Skip a due time that somebody already did by hand.")
    ] = None
    on_resume: Annotated[
        Literal["skip", "catchup"] | None,
        Field(description="What becomes of due times that fell while paused. skip."),
    ] = None
    depends_on: Annotated[
        list[DependencyShape] | None,
        Field(max_length=100, description="Schedules that must have succeeded before."),
    ] = None
    max_concurrent: Annotated[
        int | None, Field(ge=1, le=100_000, description="Most runs of it at once.")
    ] = None
    queue: Annotated[Name | None, Field(description="Where its runs wait. default.")] = None
    priority: Annotated[
        int | None, Field(ge=-1000, le=1000, description="Higher ones begin first. 0.")
    ] = None
    retry: Annotated[
        RetryPolicy | int | None, Field(description="A number is one of attempts.")
    ] = None
    max_takeovers: Annotated[
        int | None,
        Field(ge=0, le=100, description="How often its node may be lost before it fails. 3."),
    ] = None
    timeout: Annotated[Duration | None, Field(description="An attempt is stopped then.")] = None
    expire_after: Annotated[
        Duration | None, Field(description="A run that has not begun by then is cancelled.")
    ] = None
    stop: Annotated[
        AnyTrigger | None, Field(description="When the flow is stopped, if it is running.")
    ] = None
    restart: Annotated[
        AnyTrigger | None, Field(description="When the flow is stopped and started again.")
    ] = None


AnyTarget = Annotated[Target | str, Field(description="A text is the name of a task.")]
Cron = Annotated[str, Field(description="Short for a trigger.", examples=["0 9 * * 1-5"])]
Enabled = Annotated[bool, Field(description="false pauses the schedule, true resumes it.")]


class _Parts(Policies):
    """What a trigger and a target may be given as."""

    trigger: AnyTrigger | None = None
    cron: Cron | None = None
    tz: Zone | None = None
    frequency_unit: Annotated[
        str | None,
        Field(
            description="With `frequency_time`, short for a trigger: SECONDS, MINUTES, HOURS, "
            "DAYS, WEEKS, MONTHS or YEARS.",
            examples=["MINUTES"],
        ),
    ] = None
    frequency_time: Annotated[
        int | None, Field(ge=1, le=1_000_000, description="How many units apart due times are.")
    ] = None
    start_ts: Annotated[Instant | None, Field(description="The first due time of a frequency.")] = (
        None
    )
    target: AnyTarget | None = None
    event_topic: Annotated[
        str | None, Field(description="Short for a target that writes an event.")
    ] = None
    event_type: Annotated[str | None, Field(description="The type of that event.")] = None
    event_data: Annotated[
        Any, Field(description="The data of that event; text that is JSON is read as JSON.")
    ] = None


class _Given(_Parts):
    enabled: Enabled | None = None
    active: Annotated[bool | None, Field(description="Another word for `enabled`.")] = None


class ScheduleCreation(_Given):
    """A trigger (or `cron`) and a target are needed, unless a template gives them."""

    name: Name
    template: Annotated[Name | None, Field(description="Whose defaults it starts from.")] = None


class ScheduleReplacement(_Given):
    """A whole definition: what is left out is at its default from now on."""

    version: Annotated[int | None, Field(ge=1, description="Or the header If-Match.")] = None


class ScheduleChange(_Given):
    """Some fields of a definition; null puts one back to its default."""

    version: Annotated[int | None, Field(ge=1, description="Or the header If-Match.")] = None


class TemplateDefaults(_Parts):
    """Any fields of a definition."""
