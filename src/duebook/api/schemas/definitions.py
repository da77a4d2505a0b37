"""The shapes of definitions: triggers, targets and policies, in requests and responses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from duebook.api.schemas.base import Duration
from duebook.api.shapes import Object
from duebook.model.aliases import SHORT_FORMS, SWITCHES
from duebook.model.codec import Name, Shown, shown
from duebook.model.enqueued import ENQUEUE_POLICIES
from duebook.model.kinds import Declared
from duebook.model.kinds import Shape as KindShape
from duebook.model.schedule import FIELDS, POLICIES, DefinitionField, ScheduleSpec

__all__ = [
    "SPREAD",
    "EnqueueRequest",
    "ListedCalendar",
    "ListedDefinition",
    "ScheduleChange",
    "ScheduleCreation",
    "ScheduleReplacement",
    "Target",
    "TemplateDefaults",
    "Trigger",
]

Zone = Annotated[str, Shown("An IANA zone.", example="Europe/Brussels")]
Gap = Literal["run_after", "skip"]
Fold = Literal["first", "both"]


class CronTrigger(TypedDict):
    cron: Annotated[str, Shown(most=1000, example="30 2 * * 1-5")]
    tz: NotRequired[Zone | None]
    gap: NotRequired[Gap | None]
    fold: NotRequired[Fold | None]
    key: NotRequired[
        Annotated[str | None, Shown("The text that H hashes; the default is the schedule's name.")]
    ]


class EveryTrigger(TypedDict):
    every: Annotated[Duration, Shown(example="15m")]
    anchor: NotRequired[datetime | None]
    tz: NotRequired[Zone | None]
    gap: NotRequired[Gap | None]
    fold: NotRequired[Fold | None]


class DailyTrigger(TypedDict):
    daily: Annotated[list[str], Shown(example=["07:00", "17:30"])]
    tz: NotRequired[Zone | None]
    gap: NotRequired[Gap | None]
    fold: NotRequired[Fold | None]


class WeeklyTrigger(TypedDict):
    weekly: Annotated[str, Shown(example="MON,WED,FRI 09:00")]
    tz: NotRequired[Zone | None]
    gap: NotRequired[Gap | None]
    fold: NotRequired[Fold | None]


class AtTrigger(TypedDict):
    at: datetime


class RruleTrigger(TypedDict):
    rrule: Annotated[str, Shown(example="FREQ=MONTHLY;BYDAY=-1FR")]
    dtstart: NotRequired[Annotated[str | None, Shown("A date or an instant.")]]
    tz: NotRequired[Zone | None]
    gap: NotRequired[Gap | None]
    fold: NotRequired[Fold | None]


Trigger = CronTrigger | EveryTrigger | DailyTrigger | WeeklyTrigger | AtTrigger | RruleTrigger


class TaskTarget(TypedDict):
    task: Annotated[str, Shown(example="email_digest")]


StopSignal = Annotated[
    str, Shown("What it gets first when it is stopped. The default is SIGTERM.", example="SIGINT")
]
StopGrace = Annotated[
    Duration, Shown("How long after that it is killed. The default is 5s.", example="30s")
]


class CommandTarget(TypedDict):
    command: Annotated[list[str], Shown(least=1, example=["pg_dump", "mydb"])]
    env: NotRequired[dict[str, str] | None]
    cwd: NotRequired[str | None]
    stop_signal: NotRequired[StopSignal | None]
    stop_grace: NotRequired[StopGrace | None]


class ShellTarget(TypedDict):
    shell: str
    env: NotRequired[dict[str, str] | None]
    cwd: NotRequired[str | None]
    stop_signal: NotRequired[StopSignal | None]
    stop_grace: NotRequired[StopGrace | None]


class HttpRequest(TypedDict):
    url: Annotated[str, Shown(example="https://example.com/hook")]
    method: NotRequired[Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] | None]
    headers: NotRequired[
        Annotated[dict[str, str] | None, Shown("Values that may be secret are shown as ***.")]
    ]
    json: NotRequired[Annotated[Any, Shown("JSON to send.")]]
    body: NotRequired[str | None]
    expect: NotRequired[list[int | str] | None]


class HttpTarget(TypedDict):
    http: HttpRequest


class FlowTarget(TypedDict):
    flow: Annotated[str, Shown(example="etl")]
    params: NotRequired[Annotated[dict[str, Any] | None, Shown("Data without templates.")]]


class EventFact(TypedDict):
    topic: Annotated[str, Shown(example="orders")]
    type: NotRequired[Annotated[str | None, Shown("The default is the topic.")]]
    key: NotRequired[Annotated[str | None, Shown("The default is the schedule's name.")]]
    data: NotRequired[Annotated[Any, Shown("The default is the payload.")]]


class EventTarget(TypedDict):
    event: EventFact | str


class CeleryTarget(TypedDict):
    celery: Annotated[str, Shown("The name of a Celery task.", example="proj.tasks.add")]
    args: NotRequired[list[Any] | None]
    kwargs: NotRequired[Annotated[dict[str, Any] | None, Shown("The default is the payload.")]]
    queue: NotRequired[Annotated[str | None, Shown("A queue of Celery.")]]
    exchange: NotRequired[str | None]
    routing_key: NotRequired[str | None]
    priority: NotRequired[Annotated[int | None, Shown(least=0, most=255)]]
    expires: NotRequired[Duration | None]
    time_limit: NotRequired[Duration | None]
    soft_time_limit: NotRequired[Duration | None]
    headers: NotRequired[Annotated[dict[str, str] | None, Shown("Values are shown as ***.")]]
    terminate: NotRequired[Annotated[bool | None, Shown("Whether a cancel kills the task.")]]
    wait: NotRequired[
        Annotated[bool | None, Shown("false: the run ends as soon as the task is sent.")]
    ]


Target = (
    TaskTarget | CommandTarget | ShellTarget | HttpTarget | FlowTarget | EventTarget | CeleryTarget
)


class RetryPolicy(TypedDict, total=False):
    attempts: Annotated[int, Shown("The first attempt included.", default=3, least=1, most=1000)]
    delay: Duration | None
    backoff: Annotated[float | None, Shown(least=1, most=100)]
    max_delay: Duration | None
    jitter: bool | None
    on: Annotated[list[int | str] | None, Shown("Exit codes and error names.")]


@shown("Dependency")
class DependencyShape(TypedDict):
    schedule: Name
    within: Duration
    wait: NotRequired[Duration | None]


AnyTrigger = Annotated[
    Trigger | str | list[Trigger | str],
    Shown("One trigger or up to 20; a string is a cron expression."),
]


AnyTarget = Annotated[Target | str, Shown("A string is the name of a task.")]

CalendarShape = TypedDict(
    "CalendarShape",
    {
        "only": NotRequired[Annotated[Name | None, Shown("Due only on its days.")]],
        "except": NotRequired[Annotated[Name | None, Shown("Not due on its days.")]],
        "roll": NotRequired[
            Annotated[
                Literal["skip", "next", "previous"] | None,
                Shown("Where the due times of other days go: nowhere, or to an open day."),
            ]
        ],
    },
)

_SHAPES: Final[dict[KindShape, Any]] = {
    "any": Any,
    "calendar": CalendarShape,
    "days": list[str],
    "dependencies": list[DependencyShape],
    "flag": bool,
    "instant": datetime,
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
    """The keys that may be left out, with their declarations."""
    return {key: NotRequired[_shape(said)] for key, said in declared.items()}


def _shape(said: Declared | DefinitionField) -> Any:
    """The type of a field, whose description includes its default."""
    kind, description = said.kind, said.help
    if isinstance(said, DefinitionField) and (default := said.to_json(said.default)):
        description += f" Default: {default}."
    shape: Any = Literal.__getitem__(kind.choices) if kind.choices else _SHAPES[kind.shape]
    note = Shown(description, example=said.example, least=kind.least, most=kind.most)
    return Annotated[shape | None, note]


_PARTS: Final = _optional(FIELDS) | _optional(SHORT_FORMS)
_GIVEN: Final = _PARTS | _optional(SWITCHES)
_VERSION: Final = {
    "version": NotRequired[
        Annotated[int | None, Shown("Alternatively, use the header If-Match.", least=1)]
    ]
}
_NAMED: Final = {
    "name": Name,
    "template": NotRequired[Annotated[Name | None, Shown("The template whose defaults it uses.")]],
}
_REQUIRED: Final = "A trigger (or `cron`) and a target are required, unless the template has them."
ScheduleCreation: Final = Object(
    "ScheduleCreation",
    _GIVEN
    | _NAMED
    | {
        "replace": NotRequired[
            Annotated[
                bool, Shown("Replace the definition of a schedule of that name, if there is one.")
            ]
        ]
    },
    _REQUIRED,
)
ListedDefinition: Final = Object("ListedDefinition", _GIVEN | _NAMED, _REQUIRED)
ScheduleReplacement: Final = Object(
    "ScheduleReplacement",
    _GIVEN | _VERSION,
    "A whole definition: fields that are left out get their defaults.",
)
ScheduleChange: Final = Object(
    "ScheduleChange",
    _GIVEN | _VERSION,
    "Some fields of a definition; null resets a field to its default.",
)
_DAY_SOURCE: Final = {
    "dates": NotRequired[
        Annotated[list[str] | None, Shown("Days, and ranges such as 2026-12-24/2027-01-02.")]
    ],
    "weekdays": NotRequired[
        Annotated[list[str] | str | None, Shown("MON to SUN, or ranges such as MON-FRI.")]
    ],
    "rrule": NotRequired[
        Annotated[list[str] | str | None, Shown("Recurrence rules (RFC 5545) of whole days.")]
    ],
    "holidays": NotRequired[
        Annotated[
            list[str] | str | None,
            Shown("Countries such as BE, or parts of one such as DE-BY; needs `holidays`."),
        ]
    ],
    "ical": NotRequired[Annotated[str | None, Shown("The text of an iCal file.", most=1_000_000)]],
    "calendars": NotRequired[Annotated[list[Name] | None, Shown("The names of other calendars.")]],
}
_CALENDAR: Final = _DAY_SOURCE | {
    "without": NotRequired[
        Annotated[dict[str, Any] | None, Shown("Days that it does not have: the same fields.")]
    ]
}
_KEEPS_KEY: Final = Annotated[
    str | None,
    Shown(
        "Until when a run keeps its key: `pending` (a worker claims it), `active` (it ends), "
        "`forever` (the default) or a duration.",
        example="pending",
    ),
]


def _length(help_: str) -> Any:
    return NotRequired[Annotated[Duration | None, Shown(help_, example="5s")]]


EnqueueRequest: Final = Object(
    "EnqueueRequest",
    {
        "task": Annotated[str, Shown("The name of a task.", example="send_invoice")],
        "payload": NotRequired[Annotated[dict[str, Any] | None, Shown("Its arguments.")]],
        "key": NotRequired[
            Annotated[
                str | None,
                Shown("While a run of the task has this key, it is returned.", least=1, most=200),
            ]
        ],
        "unique": NotRequired[_KEEPS_KEY],
        "debounce": _length("Start when no other call with the key has come for this long."),
        "max_wait": _length("The longest that `debounce` delays a run; ten times it by default."),
        "throttle": _length("Start runs with this key at most once in this time."),
        "delay": _length("Start this long after the request."),
    }
    | _optional(ENQUEUE_POLICIES),
    "Policies that are left out are those that the task was declared with, if the server knows it.",
)
CalendarDefinition: Final = Object(
    "CalendarDefinition", _CALENDAR | _VERSION, "The union of all that is given."
)
ListedCalendar: Final = Object(
    "ListedCalendar", _CALENDAR | {"name": Name}, "The union of all that is given."
)
CalendarDraft: Final = Object("CalendarDraft", _CALENDAR, "The union of all that is given.")
TemplateDefaults: Final = Object("TemplateDefaults", _PARTS, "Any fields of a definition.")
SPREAD: Final = {
    ScheduleSpec: Object(
        "Definition",
        _optional(POLICIES)
        | {
            "trigger": NotRequired[Trigger | list[Trigger] | None],
            "target": NotRequired[Target | None],
        },
    )
}
"""The fields that responses show beside their other fields."""
