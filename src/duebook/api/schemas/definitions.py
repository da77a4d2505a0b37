"""The shapes of definitions: triggers, targets and policies, as they are given and stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, create_model

from duebook.api.schemas.base import Duration, Instant, Name, Shape
from duebook.model.aliases import SHORT_FORMS, SWITCHES
from duebook.model.kinds import Declared
from duebook.model.kinds import Shape as KindShape
from duebook.model.schedule import FIELDS, POLICIES, DefinitionField

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


AnyTarget = Annotated[Target | str, Field(description="A text is the name of a task.")]

_SHAPES: Final[dict[KindShape, Any]] = {
    "any": Any,
    "days": list[str],
    "dependencies": list[DependencyShape],
    "flag": bool,
    "instant": Instant,
    "labels": dict[str, str],
    "length": Duration,
    "name": Name,
    "object": dict[str, Any],
    "retry": RetryPolicy | int,
    "target": AnyTarget,
    "text": str,
    "triggers": AnyTrigger,
    "whole": int,
}


def _optional(declared: Mapping[str, Declared | DefinitionField]) -> dict[str, Any]:
    """What pydantic makes fields of that may be left out."""
    return {name: (_shape(said), None) for name, said in declared.items()}


def _shape(said: Declared | DefinitionField) -> Any:
    """The type of a field, whose description says its default."""
    kind, description = said.kind, said.help
    if isinstance(said, DefinitionField) and (default := said.to_json(said.default)):
        description += f" Default: {default}."
    shape: Any = Literal.__getitem__(kind.choices) if kind.choices else _SHAPES[kind.shape]
    bounds: dict[str, Any] = {"ge": kind.least, "le": kind.most}
    if kind.shape != "whole":
        bounds = {"max_length": kind.most}
    examples = None if said.example is None else [said.example]
    return Annotated[shape | None, Field(description=description, examples=examples, **bounds)]


# Their fields are declared in `model`; type checkers need classes all the same.
if TYPE_CHECKING:

    class Policies(Shape): ...

    class _Parts(Policies): ...

    class _Given(_Parts): ...

else:
    Policies = create_model("Policies", __base__=Shape, **_optional(POLICIES))
    _Parts = create_model("_Parts", __base__=Policies, **_optional(FIELDS | SHORT_FORMS))
    _Given = create_model("_Given", __base__=_Parts, **_optional(SWITCHES))


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
