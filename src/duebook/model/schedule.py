"""Schedules as values: the definition that a person gives, and the state that Duebook keeps.

Every field of a definition is declared here, once; `definition.py` reads them.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_type_hints

from duebook.lazy_dataclasses import dataclass
from duebook.model import kinds
from duebook.model.calendar_use import CalendarUse  # noqa: TC001
from duebook.model.codec import Id, Name, Shown, shown
from duebook.model.fields import DateRange, Dependency  # noqa: TC001 - FIELDS reads the types
from duebook.model.history import MOST_KEPT
from duebook.model.invalid import InvalidSchedule
from duebook.model.kinds import Declared, DefinitionField, InFlow
from duebook.model.note import Note
from duebook.model.retry import Retry  # noqa: TC001
from duebook.model.run import LatestRun
from duebook.model.secret import show_payload
from duebook.model.target import EventTarget, Target
from duebook.triggers import Trigger  # noqa: TC001
from duebook.triggers.cron import Cron
from duebook.triggers.daily import Daily
from duebook.triggers.every import Every
from duebook.triggers.weekly import Weekly

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = [
    "FIELDS",
    "POLICIES",
    "DefinitionField",
    "InvalidSchedule",
    "Schedule",
    "ScheduleSpec",
    "Status",
]

Status = Literal["active", "paused", "completed", "deleted"]
Catchup = Literal["one", "skip", "all"]
Overlap = Literal["skip", "queue", "latest", "cancel", "allow"]
OnResume = Literal["skip", "catchup"]


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """A definition: when to run what, and by which policies."""

    triggers: Annotated[
        tuple[Trigger, ...],
        Declared(
            kinds.TRIGGERS,
            "When it is due: one trigger, or up to 20; a string is a cron expression.",
            example={"cron": "30 2 * * 1-5", "tz": "Europe/Brussels"},
            key="trigger",
        ),
    ]
    """empty for an enqueued run"""
    target: Annotated[
        Target,
        Declared(
            kinds.TARGET,
            "What runs: a command, a request, a flow, an event, a task or a Celery task; a string "
            "is a task's name.",
            example={"command": ["pg_dump", "mydb"]},
        ),
    ]
    payload: Annotated[
        dict[str, Any],
        Declared(
            kinds.OBJECT,
            "Values for the arguments, variables and templates of its runs.",
            example={"region": "eu"},
            of_steps='give "params" beside "flow" in the target',
        ),
    ] = field(default_factory=dict)
    title: Annotated[
        str, Declared(kinds.TITLE, "A title for the dashboard.", example="Daily Cleanup")
    ] = ""
    description: Annotated[
        str, Declared(kinds.TEXT, "What it is for.", flow=InFlow("a description for readers"))
    ] = ""
    labels: Annotated[
        tuple[tuple[str, str], ...],
        Declared(
            kinds.LABELS,
            "Labels to filter by, as names and values.",
            example={"team": "data"},
            flow=InFlow("labels for filtering: a mapping, or a list such as team=data"),
        ),
    ] = ()
    start_at: Annotated[
        datetime | None,
        Declared(kinds.INSTANT, "No due times before this time.", example="2026-12-01T00:00:00Z"),
    ] = None
    end_at: Annotated[
        datetime | None,
        Declared(kinds.INSTANT, "No due times after this time.", example="2027-01-01T00:00:00Z"),
    ] = None
    max_runs: Annotated[
        int | None,
        Declared(
            kinds.whole_number(1, 1_000_000_000),
            "The schedule completes after this many due times have run.",
            example=10,
        ),
    ] = None
    jitter: Annotated[
        timedelta,
        Declared(kinds.LENGTH, "Delays each due time by up to this long.", example="30s"),
    ] = timedelta()
    exclude: Annotated[
        tuple[DateRange, ...],
        Declared(
            kinds.DAYS,
            "Days and ranges of days without due times.",
            example=["2026-12-25", "2026-12-31/2027-01-02"],
        ),
    ] = ()
    calendar: Annotated[
        CalendarUse | None,
        Declared(
            kinds.CALENDAR,
            "The days of a calendar on which it is due, or is not; roll moves the due times of "
            "other days.",
            example={"except": "holidays", "roll": "next"},
            flow=InFlow("the days on which it starts: only or except a calendar, and roll"),
        ),
    ] = None
    grace: Annotated[
        timedelta,
        Declared(
            kinds.LENGTH,
            "A due time that is older than this when it is first seen is missed.",
            example="5m",
        ),
    ] = timedelta(minutes=1)
    catchup: Annotated[
        Catchup,
        Declared(
            kinds.choice(Catchup), "Which missed due times run: the newest one, none, or all."
        ),
    ] = "one"
    catchup_window: Annotated[
        timedelta | None,
        Declared(
            kinds.POSITIVE_LENGTH,
            "How far back catchup=all goes.",
            example="6h",
            flow=InFlow("how far back missed due times run; without it, none do"),
        ),
    ] = None
    catchup_limit: Annotated[
        int,
        Declared(
            kinds.whole_number(1, 50_000), "How many due times catchup=all keeps.", example=100
        ),
    ] = 1_000
    catchup_pace: Annotated[
        timedelta,
        Declared(
            kinds.LENGTH,
            "Catchup=all continues when a run finishes, or after this long.",
            example="10s",
        ),
    ] = timedelta(minutes=1)
    catchup_approval: Annotated[
        int | None,
        Declared(
            kinds.whole_number(0, 50_000),
            "More missed due times than this are held until an operator decides.",
            example=10,
        ),
    ] = None
    overlap: Annotated[
        Overlap,
        Declared(
            kinds.choice(Overlap),
            "What a due time does while a run is active.",
            flow=InFlow(
                "while it is running, a due time is: skip, all (queued), latest",
                key="overlap_policy",
                words={"skip": "skip", "all": "queue", "latest": "latest", "queue": "queue"},
            ),
        ),
    ] = "skip"
    skip_if_successful: Annotated[
        bool,
        Declared(
            kinds.FLAG,
            "Skip a due time if a manual run has succeeded since the one before it.",
            flow=InFlow("skip a due time if a manual run has succeeded since the previous one"),
        ),
    ] = False
    on_resume: Annotated[
        OnResume,
        Declared(kinds.choice(OnResume), "What happens to due times that fell during a pause."),
    ] = "skip"
    depends_on: Annotated[
        tuple[Dependency, ...],
        Declared(
            kinds.DEPENDENCIES,
            "Schedules that must have succeeded first.",
            example=[{"schedule": "extract", "within": "1h", "wait": "10m"}],
        ),
    ] = ()
    max_concurrent: Annotated[
        int | None,
        Declared(
            kinds.whole_number(1, 100_000),
            "The most runs at the same time, with overlap=allow.",
            flow=InFlow(
                "the most runs at the same time, manual ones included; -1 is no limit",
                key="max_active_runs",
                scheduled=False,
                unlimited=-1,
            ),
        ),
    ] = None
    queue: Annotated[
        str,
        Declared(
            kinds.NAME,
            "The queue in which its runs wait for a node.",
            example="heavy",
            flow=InFlow("the queue of its steps", scheduled=False),
            enqueue=True,
            of_steps="put queue in its file",
        ),
    ] = "default"
    priority: Annotated[
        int,
        Declared(
            kinds.whole_number(-1_000, 1_000),
            "Runs with a higher priority start first.",
            flow=InFlow("priority within the queue; higher starts first"),
            enqueue=True,
        ),
    ] = 0
    retry: Annotated[
        Retry | None,
        Declared(
            kinds.RETRY,
            "How many attempts a run has, and how long it waits between them.",
            example={"attempts": 3, "delay": "10s"},
            enqueue=True,
            of_steps="put retry_policy on its steps",
        ),
    ] = None
    max_takeovers: Annotated[
        int,
        Declared(
            kinds.whole_number(0, 100),
            "How often a run may lose its node before it fails.",
            enqueue=True,
            of_steps="each of its steps is taken over separately",
        ),
    ] = 3
    timeout: Annotated[
        timedelta | None,
        Declared(
            kinds.POSITIVE_LENGTH,
            "An attempt that takes longer than this is stopped.",
            example="1h",
            flow=InFlow("seconds for the whole run", key="timeout_sec", scheduled=False),
            enqueue=True,
            of_steps="put timeout_sec in its file",
        ),
    ] = None
    expire_after: Annotated[
        timedelta | None,
        Declared(
            kinds.POSITIVE_LENGTH,
            "A run that has not started within this time is cancelled.",
            example="30m",
            enqueue=True,
        ),
    ] = None
    keep: Annotated[
        timedelta | None,
        Declared(
            kinds.KEEP,
            "How long its runs are kept; by default as long as those of its namespace.",
            example="30d",
            flow=InFlow("how long the runs that its schedule starts are kept, such as 30d"),
        ),
    ] = None
    keep_last: Annotated[
        int | None,
        Declared(
            kinds.whole_number(1, MOST_KEPT),
            "How many of its newest ended runs are kept.",
            example=100,
            flow=InFlow("how many of the newest runs that its schedule starts are kept"),
        ),
    ] = None
    stop: Annotated[
        tuple[Trigger, ...],
        Declared(
            kinds.TRIGGERS,
            "When the flow is stopped, if it is running.",
            example={"cron": "0 18 * * *"},
        ),
    ] = ()
    restart: Annotated[
        tuple[Trigger, ...],
        Declared(
            kinds.TRIGGERS,
            "When the flow is stopped and started again.",
            example={"cron": "0 0 * * *"},
        ),
    ] = ()
    plain: bool = field(init=False, repr=False, compare=False)
    """whether a due time that is on time simply fires when nothing is active"""
    heeds_runs: bool = field(init=False, repr=False, compare=False)
    """whether any decision depends on which of its runs are active"""
    instant: bool = field(init=False, repr=False, compare=False)
    """whether its runs end as soon as they start, so that none can block another"""
    _shown: dict[str, Any] | None = field(init=False, repr=False, compare=False)
    """the cached result of `written`, for definitions without a payload"""

    def __post_init__(self) -> None:
        bounded = self.start_at or self.end_at or self.max_runs
        special = bounded or self.jitter or self.exclude or self.calendar
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
        object.__setattr__(self, "_shown", None)

    def anchored(self, instant: datetime) -> ScheduleSpec:
        """With the phase of its triggers fixed at `start_at`, else at `instant`."""
        since = self.start_at or instant
        triggers, stop, restart = (
            tuple(trigger.anchored(since) for trigger in found)
            for found in (self.triggers, self.stop, self.restart)
        )
        return replace(self, triggers=triggers, stop=stop, restart=restart)

    def counting_from(self, instant: datetime | None) -> ScheduleSpec:
        """With a calendar that rolls nothing to before `instant`, as everything until then is
        decided."""
        if self.calendar is None:
            return self
        return replace(self, calendar=self.calendar.counting_from(instant))

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
        """When it starts something; if never, when it stops or restarts a flow."""
        if self.triggers or not self.controlled:
            return ", ".join(trigger.text for trigger in self.triggers)
        ways = [("stop", self.stop), ("restart", self.restart)]
        return ", ".join(f"{verb} {trigger.text}" for verb, found in ways for trigger in found)

    def to_json(self, always: Collection[str] = ()) -> dict[str, Any]:
        """The form that load_spec reads back; defaults are left out, except for those in
        `always`."""
        triggers = [trigger.to_json() for trigger in self.triggers]
        form: dict[str, Any] = {
            "trigger": triggers[0] if len(triggers) == 1 else triggers,
            "target": self.target.to_json(),
        }
        for name, known in POLICIES.items():
            value = getattr(self, name)
            if name in always or value != known.default:
                form[name] = known.to_json(value)
        return form

    def to_shown(self, always: Collection[str] = ()) -> dict[str, Any]:
        """Like to_json, without secrets."""
        form = self.to_json(always) | {"target": self.target.masked().to_json()}
        if "payload" in form:
            form["payload"] = show_payload(form["payload"])
        if self.calendar is not None:
            form["calendar"] = self.calendar.to_shown()
        return form

    def written(self) -> dict[str, Any]:
        """Like to_shown, for read-only use: computed once, unless it has a payload."""
        if self.payload:
            return self.to_shown()
        if self._shown is None:
            object.__setattr__(self, "_shown", self.to_shown())
        return self._shown or {}

    def written_as(self, equal: ScheduleSpec) -> ScheduleSpec:
        """This definition, sharing the written form of an equal one."""
        object.__setattr__(self, "_shown", equal.written())
        return self


def _declared_fields() -> Iterator[DefinitionField]:
    hints = get_type_hints(ScheduleSpec, include_extras=True)
    for found in fields(ScheduleSpec):
        if not found.init:
            continue
        (said,) = hints[found.name].__metadata__
        default = {} if found.default_factory is not MISSING else found.default
        yield DefinitionField(
            key=said.key or found.name,
            name=found.name,
            kind=said.kind,
            help=said.help,
            example=said.example,
            since=said.since,
            default=None if default is MISSING else default,
            flow=said.flow,
            enqueue=said.enqueue,
            of_steps=said.of_steps,
        )


FIELDS: Final = {found.key: found for found in _declared_fields()}
"""Every field of a definition by its JSON key. All lists of fields are derived from these: the
readers here, the options of `add`, the dashboard's form, OpenAPI, the table in the docs."""
POLICIES: Final = {key: FIELDS[key] for key in FIELDS if key not in ("trigger", "target")}


@shown()
@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule: its definition and its state. Policies at their defaults are left out."""

    id: Id
    namespace: Name
    name: Name
    version: Annotated[int, Shown(least=1)]
    spec: Annotated[ScheduleSpec | None, Shown(spread=True, write=ScheduleSpec.written)]
    """None if this node cannot read it, as a newer one wrote it; `problem` explains"""
    status: Status
    created_at: datetime
    created_by: str = ""
    owner: Annotated[
        str,
        Shown(
            "Who declares it: a name, `code:PROGRAM`, `flows:DIRECTORY` or `celery-beat:APP`; "
            "empty: not declared."
        ),
    ] = ""
    updated_at: Annotated[
        datetime | None, Shown("When its definition was last changed.", json=datetime)
    ] = None
    """None: an older server did not send it"""
    watermark: Annotated[datetime | None, Shown("Every due time up to it is decided.")] = None
    next_due_at: datetime | None = None
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    pause_reason: str | None = None
    problem: Annotated[str | None, Shown("What prevents it from being planned or run.")] = None
    last_run: Annotated[LatestRun | None, Shown(spread=True)] = None
    notes: Annotated[tuple[Note, ...], Shown("Notes about the change.", sparse=True)] = ()

    @property
    def enabled(self) -> Annotated[bool, Shown()]:
        return self.status == "active"

    @property
    def last_enqueued_at(self) -> datetime | None:
        """When its latest run was created, for a due time or manually."""
        return self.last_run.enqueued_at if self.last_run else None
