"""Schedules as values: the definition a person gives, and the state Duebook keeps.

Definitions are validated once, here, for library, command line, files and REST alike; every
wrong field is named at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from duebook.errors import Invalid, refuse_keys, shorten
from duebook.model.aliases import canonical
from duebook.model.fields import (
    DateRange,
    Dependency,
    check_payload,
    one_of,
    read_date_ranges,
    read_dependencies,
    read_flag,
    read_instant,
    read_labels,
    read_length,
    read_name,
    read_positive_length,
    read_text,
    read_title,
    whole,
)
from duebook.model.flow_target import FlowTarget
from duebook.model.invalid import InvalidSchedule
from duebook.model.retry import Retry, load_retry
from duebook.model.target import (
    CommandTarget,
    EventTarget,
    Target,
    load_target,
    payload_variables,
)
from duebook.settings import RETENTION
from duebook.timetext import format_duration, format_instant
from duebook.triggers import Trigger, load_trigger
from duebook.triggers.cron import Cron
from duebook.triggers.daily import Daily
from duebook.triggers.every import Every
from duebook.triggers.weekly import Weekly

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from duebook.model.edited import Note
    from duebook.model.run import LatestRun

__all__ = [
    "InvalidSchedule",
    "Revision",
    "Schedule",
    "ScheduleSpec",
    "Status",
    "load_changes",
    "load_spec",
    "read_fields",
]

Status = Literal["active", "paused", "completed", "deleted"]
Catchup = Literal["one", "skip", "all"]
Overlap = Literal["skip", "queue", "latest", "cancel", "allow"]
OnResume = Literal["skip", "catchup"]

LONGEST_JITTER: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """What a person defines: when, what, and by which policies."""

    triggers: tuple[Trigger, ...]
    """none for a run that was enqueued"""
    target: Target
    payload: dict[str, Any] = field(default_factory=dict)
    title: str = ""
    """a free name to show to people; the schedule's own name is what everything refers to"""
    description: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None
    jitter: timedelta = timedelta()
    exclude: tuple[DateRange, ...] = ()
    grace: timedelta = timedelta(minutes=1)
    catchup: Catchup = "one"
    catchup_window: timedelta | None = None
    catchup_limit: int = 1_000
    catchup_pace: timedelta = timedelta(minutes=1)
    overlap: Overlap = "skip"
    skip_if_successful: bool = False
    on_resume: OnResume = "skip"
    depends_on: tuple[Dependency, ...] = ()
    max_concurrent: int | None = None
    queue: str = "default"
    priority: int = 0
    retry: Retry | None = None
    max_takeovers: int = 3
    timeout: timedelta | None = None
    expire_after: timedelta | None = None
    stop: tuple[Trigger, ...] = ()
    """when the flow that it starts is stopped, if it is running"""
    restart: tuple[Trigger, ...] = ()
    """when that is stopped and started again"""
    plain: bool = field(init=False, repr=False, compare=False)
    """whether a due time in time, with nothing active, just fires"""
    heeds_runs: bool = field(init=False, repr=False, compare=False)
    """whether it matters to any decision which of its runs are active"""
    instant: bool = field(init=False, repr=False, compare=False)
    """whether its runs end the moment they begin, so that none is ever in the way of another"""

    def __post_init__(self) -> None:
        special = self.start_at or self.end_at or self.max_runs or self.jitter or self.exclude
        guarded = self.depends_on or self.skip_if_successful or self.catchup == "all"
        simple = len(self.triggers) == 1 and self.overlap in ("skip", "allow")
        plain = simple and not special and not guarded and not self.controlled
        object.__setattr__(self, "plain", plain)
        endless = bool(self.triggers) and isinstance(
            self.triggers[0], Cron | Every | Daily | Weekly
        )
        instant = isinstance(self.target, EventTarget)
        free = instant or self.overlap == "allow"
        object.__setattr__(self, "heeds_runs", not (plain and free and endless))
        object.__setattr__(self, "instant", instant)

    def anchored(self, instant: datetime) -> ScheduleSpec:
        """With the phase of its triggers fixed at `start_at`, else at `instant`."""
        since = self.start_at or instant
        triggers, stop, restart = (
            tuple(trigger.anchored(since) for trigger in found)
            for found in (self.triggers, self.stop, self.restart)
        )
        return replace(self, triggers=triggers, stop=stop, restart=restart)

    @property
    def controlled(self) -> bool:
        """Whether it also stops or restarts the flow that it starts."""
        return bool(self.stop or self.restart)

    @property
    def tz(self) -> str:
        """The zone of a schedule: that of its first trigger."""
        first = next(iter((*self.triggers, *self.stop, *self.restart)), None)
        return getattr(first, "tz", "UTC")

    @property
    def trigger_text(self) -> str:
        """When it starts something; or else when it stops or restarts a flow."""
        if self.triggers or not self.controlled:
            return ", ".join(trigger.text for trigger in self.triggers)
        ways = [("stop", self.stop), ("restart", self.restart)]
        return ", ".join(f"{verb} {trigger.text}" for verb, found in ways for trigger in found)

    def to_json(self, always: Collection[str] = ()) -> dict[str, Any]:
        """The form that load_spec reads back; at their defaults only `always` these are in it."""
        triggers = [trigger.to_json() for trigger in self.triggers]
        form: dict[str, Any] = {
            "trigger": triggers[0] if len(triggers) == 1 else triggers,
            "target": self.target.to_json(),
        }
        for spec_field in fields(self)[2:]:
            if not spec_field.init:
                continue
            name, value = spec_field.name, getattr(self, spec_field.name)
            if name in always or value != _default(name):
                form[name] = dict(value) if name == "labels" else _plain(value)
        return form


def _default(name: str) -> Any:
    spec_field = ScheduleSpec.__dataclass_fields__[name]
    return {} if name == "payload" else spec_field.default


def _plain(value: Any) -> Any:
    match value:
        case timedelta():
            return format_duration(value)
        case datetime():
            return format_instant(value)
        case DateRange():
            return str(value)
        case Retry() | Dependency() | Trigger():
            return value.to_json()
        case tuple():
            return [_plain(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class Schedule:
    """A stored schedule: definition and state."""

    id: str
    namespace: str
    name: str
    version: int
    spec: ScheduleSpec | None
    """None when this node cannot read it, for a newer one wrote it; `problem` says why"""
    status: Status
    created_at: datetime
    created_by: str = ""
    updated_at: datetime | None = None
    """when its definition was last changed; None: an older server did not tell"""
    watermark: datetime | None = None
    next_due_at: datetime | None = None
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    pause_reason: str | None = None
    problem: str | None = None
    last_run: LatestRun | None = None
    notes: tuple[Note, ...] = ()
    """about the change whose answer it is"""

    @property
    def last_enqueued_at(self) -> datetime | None:
        """When the latest of its runs was created, for a due time or by hand."""
        return self.last_run.enqueued_at if self.last_run else None


@dataclass(frozen=True, slots=True)
class Revision:
    """A definition that is or was in force, from `valid_from` until the next one."""

    version: int
    spec: ScheduleSpec | None
    valid_from: datetime
    by: str


def load_spec(form: dict[str, Any], name: str) -> ScheduleSpec:
    """A definition from its JSON form; raises InvalidSchedule with every wrong field.

    `name` is what H in a cron expression hashes, and what `depends_on` must not name.
    """
    values, problems = read_fields(form, name)
    if problems:
        raise InvalidSchedule(problems)
    return ScheduleSpec(**values)


def read_fields(form: dict[str, Any], name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields of a ScheduleSpec that can be read, and what is wrong with the others, by their
    names in the form. Raises InvalidSchedule for fields that contradict each other."""
    form = canonical(form)
    values: dict[str, Any] = {}
    alone = len(form.keys() - _READERS.keys()) == 1
    problems = refuse_keys(form, _READERS, lambda key: _unknown(key, alone))
    for key, read in _READERS.items():
        if form.get(key) is not None:
            try:
                values[key] = read(key, form[key])
            except Invalid as error:
                problems[key] = str(error)
        elif key in ("trigger", "target"):
            problems[key] = f"{key} is missing"
    for key in ("stop", "restart", "trigger"):
        if key in values:
            least = 0 if key != "trigger" or values.get("stop") or values.get("restart") else 1
            field_ = "triggers" if key == "trigger" else key
            try:
                values[field_] = _triggers(key, values.pop(key), name, least)
            except Invalid as error:
                problems[key] = str(error)
    problems |= _contradictions(values, name)
    return values, problems


def _unknown(key: str, alone: bool) -> str:
    """Of several, none names all that are known: it would be said again and again."""
    if key == "status":
        return "status is not a field of a definition; enabled (or active) pauses and resumes"
    meant = get_close_matches(key, _READERS, n=1)
    known = f"; known are {', '.join(_READERS)}" if alone else ""
    hint = f"; did you mean {meant[0]}?" if meant else known
    return f"{shorten(key)} is not a field of a definition{hint}"


def load_changes(form: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The form of a definition, or of a part of one, after changes to some of its fields.

    Raises InvalidSchedule for changes that contradict each other.
    """
    return {**form, **canonical(changes, form.get("target"))}


_OF_STEPS: Final = {
    "retry": "put retry_policy on its steps",
    "timeout": "put timeout_sec into its file",
    "payload": 'give "params" beside "flow" in the target',
    "queue": "put queue into its file",
    "max_takeovers": "its steps are taken over, each by itself",
}


def _contradictions(values: dict[str, Any], name: str) -> dict[str, str]:
    """What is wrong with fields that are right by themselves."""
    problems: dict[str, str] = {}
    start_at, end_at = values.get("start_at"), values.get("end_at")
    if start_at and end_at and start_at > end_at:
        problems["end_at"] = f"end_at {format_instant(end_at)} is before start_at"
    if values.get("jitter", timedelta()) > LONGEST_JITTER:
        problems["jitter"] = f"jitter {format_duration(values['jitter'])} is longer than a day"
    zones = {getattr(trigger, "tz", "UTC") for trigger in values.get("triggers", ())}
    if values.get("exclude") and len(zones) > 1:
        told = " and ".join(sorted(zones))
        problems["exclude"] = f"exclude: whose days? The triggers are in {told}; use one zone"
    if any(dependency.within > RETENTION for dependency in values.get("depends_on", ())):
        problems["depends_on"] = f"depends_on: within is at most the {RETENTION.days} days kept"
    if any(dependency.schedule == name for dependency in values.get("depends_on", ())):
        problems["depends_on"] = f'depends_on: "{name}" cannot wait for itself'
    if isinstance(values.get("target"), FlowTarget):
        problems |= {
            key: f"{key} means nothing for a flow: {instead}"
            for key, instead in _OF_STEPS.items()
            if values.get(key, _default(key)) != _default(key)
        }
    elif "target" in values:
        problems |= {
            key: f"{key} needs a flow as target: only flows are stopped and restarted"
            for key in ("stop", "restart")
            if values.get(key)
        }
    if isinstance(values.get("target"), CommandTarget):
        try:
            payload_variables(values.get("payload", {}))
        except Invalid as error:
            problems["payload"] = str(error)
    return problems


def _triggers(key: str, value: Any, name: str, least: int = 1) -> tuple[Trigger, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    if not least <= len(items) <= 20:
        raise Invalid(f"{key} takes {least} to 20 triggers, not {len(items)}")
    return tuple(load_trigger(item, key=name) for item in items)


def _as_it_is(_: str, value: Any) -> Any:
    return value


_READERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "trigger": _as_it_is,
    "target": lambda _, value: load_target(value),
    "payload": check_payload,
    "title": read_title,
    "description": read_text,
    "labels": read_labels,
    "start_at": read_instant,
    "end_at": read_instant,
    "max_runs": whole(1, 1_000_000_000),
    "jitter": read_length,
    "exclude": read_date_ranges,
    "grace": read_length,
    "catchup": one_of(get_args(Catchup)),
    "catchup_window": read_positive_length,
    "catchup_limit": whole(1, 50_000),
    "catchup_pace": read_length,
    "overlap": one_of(get_args(Overlap)),
    "skip_if_successful": read_flag,
    "on_resume": one_of(get_args(OnResume)),
    "depends_on": read_dependencies,
    "max_concurrent": whole(1, 100_000),
    "queue": read_name,
    "priority": whole(-1_000, 1_000),
    "retry": lambda _, value: load_retry(value),
    "max_takeovers": whole(0, 100),
    "timeout": read_positive_length,
    "expire_after": read_positive_length,
    "stop": _as_it_is,
    "restart": _as_it_is,
}
"""JSON key -> reader that raises Invalid."""
