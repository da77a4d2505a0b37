"""Alerts as values: rules that send problems to channels, and the problems themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

from duebook.errors import Invalid, quoted, shorten
from duebook.ids import check_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import NEVER_SHOWN, Id, Name, Shown, shown
from duebook.model.fields import read_flag, read_labels, read_length, whole
from duebook.timetext import format_duration

__all__ = [
    "ALERTS",
    "FOLLOWED",
    "MOST_CHANNELS",
    "MOST_RULES",
    "SLOWER",
    "Alert",
    "AlertDelivery",
    "AlertKind",
    "AlertRule",
    "AlertState",
    "AlertTest",
    "ChannelState",
    "Condition",
    "delivered_state",
    "load_conditions",
    "load_rule",
    "read_condition",
]

ALERTS: Final = "duebook.alerts"
"""The topic of alerts; also the name of the consumer that finds them, and the prefix of the
consumers that bring them to a channel."""
FOLLOWED: Final = ("duebook.runs", "duebook.schedules")
"""The topics from which rules are evaluated."""
MOST_RULES: Final = 100
"""Maximum rules of a namespace, not counting those that belong to one schedule."""
MOST_CHANNELS: Final = 10
"""Maximum channels of a rule."""
SLOWER: Final = 3
"""A run that takes this many times its p95 duration is slow."""
LEAST_REPEAT: Final = timedelta(minutes=5)
LONGEST_GROUP: Final = timedelta(days=1)
SHORTEST: Final = timedelta(seconds=1)

AlertKind = Literal[
    "failure", "failures", "missed", "late", "running", "slow", "no_success", "unattended"
]
AlertState = Literal["silenced", "waiting", "sending", "delivered", "refused", "unknown"]
DeliveryState = Literal["sending", "delivered", "refused"]
_PLAIN: Final = ("failure", "recovered", "missed", "slow")
_TIMED: Final = {"late": None, "running": None, "no_success": None, "unattended": "2m"}
"""Conditions with a duration, and their default."""
_EXAMPLES: Final = (
    "failure, failures:3, recovered, missed, late:10m, running:1h, slow, no_success:26h, unattended"
)


class Condition(NamedTuple):
    """What a rule looks for."""

    kind: str
    """an AlertKind, or `recovered`"""
    limit: timedelta = timedelta()
    """how long is too long"""
    number: int = 0
    """consecutive failures"""

    def __str__(self) -> str:
        if self.number:
            return f"{self.kind}:{self.number}"
        return f"{self.kind}:{format_duration(self.limit)}" if self.limit else self.kind


@lru_cache(maxsize=1_000)
def read_condition(value: object) -> Condition:
    """Parse its text, such as `failure` or `late:10m`; raises Invalid."""
    text = value if isinstance(value, str) else ""
    kind, colon, given = text.partition(":")
    kind = kind.replace("-", "_", 1)
    if kind == "failures":
        return _failures(value, given)
    if kind in _TIMED:
        length = given if colon else _TIMED[kind]
        if length is None:
            raise Invalid(f"on {quoted(value)} needs a duration, such as {kind}:10m")
        limit = read_length(f"on {kind}", length)
        if limit < SHORTEST:
            raise Invalid(f"on {quoted(value)} is too short; use 1s or more")
        return Condition(kind, limit)
    if kind in _PLAIN and not colon:
        return Condition(kind)
    raise Invalid(f"on {quoted(value)} is not a condition; use some of {_EXAMPLES}")


def _failures(value: object, given: str) -> Condition:
    written = given.isascii() and given.isdecimal() and len(given) <= len("1000")
    if written and 2 <= int(given) <= 1_000:
        return Condition("failures", number=int(given))
    raise Invalid(f"on {quoted(value)} is not failures:2 to failures:1000, a number in a row")


def load_conditions(value: object) -> tuple[str, ...]:
    """Conditions from their texts, each kind once; raises Invalid."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, Sequence) or not items:
        raise Invalid(f"on {quoted(value)} is not a list of conditions such as {_EXAMPLES}")
    if unread := [item for item in items if not isinstance(item, str)]:
        raise Invalid(f"on {quoted(unread[0])} is not a condition; use some of {_EXAMPLES}")
    found = [read_condition(item) for item in items]
    kinds = [condition.kind for condition in found]
    if twice := sorted({kind for kind in kinds if kinds.count(kind) > 1}):
        raise Invalid(f"on has {twice[0]} more than once; give it once")
    if kinds == ["recovered"]:
        raise Invalid("on has only recovered; add a problem to recover from, such as failure")
    return tuple(str(condition) for condition in found)


@shown()
class ChannelState(NamedTuple):
    """Where a rule sends its alerts, and whether they arrive."""

    name: Annotated[str, Shown("The sink that delivers to it; `events dlq NAME` has more.")]
    address: Annotated[str, Shown("Without secrets.")]
    dead: Annotated[int, Shown("Alerts that it refused.")] = 0
    failing: Annotated[bool, Shown("Whether the last attempt failed; it is retried.")] = False
    error: Annotated[str | None, Shown("What the last attempt returned.")] = None
    unserved: Annotated[
        str | None, Shown("Why no live node can send to it; null if one can, or none is live.")
    ] = None


@shown()
@dataclass(frozen=True, slots=True)
class AlertRule:
    """Which problems of which schedules are sent to which channels."""

    namespace: Name
    name: Name
    on: Annotated[tuple[str, ...], Shown("The conditions, such as `failure` or `late:10m`.")]
    to: Annotated[tuple[Any, ...], Shown("The channels, without secrets.", json=tuple[Any, ...])]
    schedule: Annotated[Name | None, Shown("Only this schedule.")] = None
    labels: Annotated[dict[str, str], Shown("Only schedules with all of these labels.")] = field(
        default_factory=dict
    )
    group: Annotated[str, Shown("Problems within this time become one message.")] = "1m"
    repeat: Annotated[
        str | None, Shown("A problem that persists is sent again after this time.")
    ] = "1d"
    limit: Annotated[int, Shown("The most messages about problems in an hour.")] = 20
    enabled: bool = True
    silenced_until: Annotated[datetime | None, Shown("No problems are sent until then.")] = None
    schedule_id: Annotated[str | None, NEVER_SHOWN] = None
    """the schedule that it belongs to, and with which it is deleted"""
    created_at: datetime | None = None
    created_by: str = ""
    channels: Annotated[tuple[ChannelState, ...], Shown("Whether alerts arrive.")] = ()
    sent: Annotated[tuple[datetime, ...], NEVER_SHOWN] = ()
    """when its messages of the last hour were written"""

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return tuple(read_condition(text) for text in self.on)

    @property
    def recovers(self) -> bool:
        """Whether it also reports that a problem is over."""
        return "recovered" in self.on

    def covers(self, schedule: str | None, labels: Mapping[str, str]) -> bool:
        """Whether it covers problems of that schedule, or without a schedule."""
        if self.schedule is not None:
            return schedule == self.schedule
        return not self.labels or (
            schedule is not None and self.labels.items() <= dict(labels).items()
        )


@shown()
class AlertDelivery(NamedTuple):
    """The state of the last message about a problem with one channel."""

    channel: Annotated[str, Shown("The sink that delivers to it; `events dlq NAME` has more.")]
    state: Annotated[
        str,
        Shown("Sending until it is accepted; refused ones are dead letters.", json=DeliveryState),
    ]
    error: Annotated[str | None, Shown("Why it has not been accepted.")] = None
    address: Annotated[str, Shown("Without secrets.")] = ""


@shown()
@dataclass(frozen=True, slots=True)
class Alert:
    """A problem, from when it was found until it is over."""

    id: Id
    namespace: Name
    rule: Name
    kind: Annotated[str, Shown("The condition that found it.", json=AlertKind)]
    subject: Annotated[str, Shown("What has the problem: a schedule, task, flow or run.")]
    title: str
    text: str
    schedule: str | None
    run_id: Id | None
    due_at: datetime | None
    opened_at: datetime
    seen_at: Annotated[datetime, Shown("When it was last found.")]
    count: Annotated[int, Shown("How often it was found.")] = 1
    state: Annotated[
        str,
        Shown(
            "Silenced; waiting for the group or limit of its rule; or what happened to its last "
            "message: sending until all channels have accepted it, delivered, refused by one, or "
            "unknown because its channels were deleted.",
            json=AlertState,
        ),
    ] = "waiting"
    """as stored: silenced, waiting, or sent once a message is written"""
    message: Annotated[str | None, NEVER_SHOWN] = None
    """the alert whose message reported it, alone or with others"""
    told_at: Annotated[
        datetime | None,
        Shown("When the last message about it was written; null while the next one waits."),
    ] = None
    resolved_at: datetime | None = None
    event_id: Annotated[Id | None, Shown("The event of the last message about it.")] = None
    deliveries: Annotated[
        tuple[AlertDelivery, ...], Shown("How that message stands with each channel.")
    ] = ()


def delivered_state(deliveries: Sequence[AlertDelivery] | None) -> AlertState:
    """The outcome of a message; None stands for one that left the log after all had received it."""
    if deliveries is None:
        return "delivered"
    states = {one.state for one in deliveries}
    if not states:
        return "unknown"
    for state in ("refused", "sending"):
        if state in states:
            return cast("AlertState", state)
    return "delivered"


@shown()
class AlertTest(NamedTuple):
    """A test message, and which channels accepted it."""

    event_id: Id
    position: Annotated[int | None, Shown("Its position in the log, once it has one.")]
    waiting: Annotated[tuple[str, ...], Shown("Channels that have not accepted it yet.")]
    delivered: Annotated[tuple[str, ...], Shown("Channels that have accepted it.")]
    errors: Annotated[dict[str, str], Shown("What channels returned that did not accept it.")]


def load_rule(namespace: str, name: object, form: Mapping[str, Any]) -> AlertRule:
    """A rule from its JSON object, without its channels; raises Invalid that names the field."""
    known = ("on", "schedule", "labels", "group", "repeat", "limit", "enabled")
    if unknown := sorted(str(key) for key in form if key not in known):
        fields = ", ".join((*known, "to"))
        raise Invalid(f'"{shorten(unknown[0])}" is not a field of a rule; use one of {fields}')
    labels = dict(read_labels("labels", dict(form.get("labels") or {})))
    schedule = form.get("schedule")
    if schedule is not None and labels:
        raise Invalid("give schedule or labels, not both")
    group, repeat = read_length("group", form.get("group", "1m")), form.get("repeat", "1d")
    if group > LONGEST_GROUP:
        raise Invalid(f"group {format_duration(group)} is longer than 1d")
    if repeat is not None and read_length("repeat", repeat) < LEAST_REPEAT:
        raise Invalid(f"repeat {shorten(repeat)} is shorter than 5m")
    return AlertRule(
        namespace,
        check_name(name, "rule"),
        load_conditions(form.get("on", ("failure", "recovered"))),
        (),
        None if schedule is None else check_name(schedule, "schedule"),
        labels,
        format_duration(group),
        None if repeat is None else format_duration(read_length("repeat", repeat)),
        whole(1, 1_000)("limit", form.get("limit", 20)),
        read_flag("enabled", form.get("enabled", True)),
    )
