"""Events as values: the parts of a fact in the log, and the names it may have."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple
from zlib import crc32

from duebook.errors import Invalid, quoted, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import NEVER_SHOWN, Id, Name, Shown, encode, shown
from duebook.model.fields import bounded_json
from duebook.model.listing import Listing
from duebook.model.secret import show_payload
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "LIFECYCLE",
    "LIFECYCLE_TYPES",
    "LONGEST_KEY",
    "MOST_DATA",
    "Draft",
    "Ended",
    "Event",
    "EventPage",
    "TopicUse",
    "cause",
    "check_key",
    "check_position",
    "check_topic",
    "check_type",
    "data_text",
    "event_kept",
    "json_text",
    "new_draft",
    "slot_of",
]

LIFECYCLE: Final = "duebook."
"""Topics with this prefix report on runs and schedules; only Duebook writes to them."""
LIFECYCLE_TYPES: Final = {
    **dict.fromkeys(
        ("run.succeeded", "run.failed", "run.cancelled", "run.partial", "run.late"),
        f"{LIFECYCLE}runs",
    ),
    "flow.finished": f"{LIFECYCLE}runs",
    **{
        f"schedule.{what}": f"{LIFECYCLE}schedules"
        for what in (
            *("created", "updated", "paused", "resumed", "completed", "deleted", "catchup_held"),
            "missed",
        )
    },
    **dict.fromkeys(("alert.problem", "alert.resolved", "alert.test"), f"{LIFECYCLE}alerts"),
}
"""The types that Duebook writes itself, and their topics."""
LONGEST_KEY: Final = 500
MOST_DATA: Final = 1_000_000
"""Maximum bytes of data, as JSON."""
LAST_POSITION: Final = 2**62
_TOPIC: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,248}")
_TYPE: Final = re.compile(r"[!-~]{1,200}")
json_text: Final = json.JSONEncoder(ensure_ascii=False).encode
"""Like json.dumps, which would create such an encoder on each call."""
Topic = Annotated[str, Shown(pattern=f"^{_TOPIC.pattern}$", example="shop.stock")]


@shown()
@dataclass(frozen=True, slots=True)
class Event:
    """An event in the log; values with secret names are hidden in its data."""

    id: Id
    """recognises an event that is received twice"""
    namespace: Name
    topic: Topic
    type: str
    key: Annotated[str, Shown("Events with the same key are delivered in order.")]
    data: Annotated[Any, Shown(of=lambda event: show_payload(event.data))]
    meta: Annotated[dict[str, Any], Shown("The source of the event.")]
    """schedule, due time, run, user"""
    at: datetime
    position: Annotated[int | None, Shown("Its position in the log.")] = None
    """None until it has one"""
    aggregate: Annotated[str | None, Shown("The object whose history it belongs to.")] = None
    """a schedule or a run"""
    version: Annotated[int | None, Shown("Its version in that history, without gaps.")] = None
    replay: Annotated[bool, NEVER_SHOWN] = False
    """whether it was delivered before, and a replay was requested"""


class EventPage(Listing[Event]):
    """A page of events of the log; it was searched up to `position`."""

    def __init__(
        self, events: Iterable[Event] = (), next_cursor: str | None = None, position: int = 0
    ) -> None:
        super().__init__(events, next_cursor)
        self.position = position


@shown("Topic")
class TopicUse(NamedTuple):
    """A topic in the last 50,000 positions."""

    topic: Topic
    events: int
    """how many of the events found there"""
    position: Annotated[int, Shown("The latest event.")]
    at: datetime


class Draft(NamedTuple):
    """An event that is not written yet; data and meta are JSON."""

    id: str
    namespace: str
    topic: str
    type: str
    key: str
    data: str
    meta: str


class Ended(NamedTuple):
    """How a run ends as soon as it starts: with an event, or with the error that prevented it."""

    run_id: str
    draft: Draft | None
    error: str | None = None


def slot_of(key: str) -> int:
    """Which of 2**31 slots a key belongs to, the same on every node: partitions share them."""
    return crc32(key.encode()) & 0x7FFF_FFFF


def new_draft(
    id_: str,
    namespace: str,
    topic: object,
    type_: object,
    key: object,
    data: object,
    meta: dict[str, Any] | None = None,
) -> Draft:
    """A custom event; raises Invalid that names the part."""
    if isinstance(topic, str) and topic.startswith(LIFECYCLE):
        raise Invalid(
            f'topic "{shorten(topic)}" is reserved: {LIFECYCLE}… topics belong to Duebook'
        )
    name = check_topic(topic)
    kind = name if type_ is None else check_type(type_)
    text = json_text(meta or {})
    return Draft(id_, namespace, name, kind, check_key(key), data_text(data), text)


def cause(
    schedule: str | None,
    schedule_id: str | None,
    due_at: datetime | None,
    run_id: str,
    user: str,
    origin: str,
) -> dict[str, Any]:
    """The `meta` of an event that comes from a run."""
    return {
        "schedule": schedule,
        "schedule_id": schedule_id,
        "due_at": None if due_at is None else format_instant(due_at),
        "run_id": run_id,
        "user": user,
        "origin": origin,
    }


def check_topic(value: object, part: str = "topic") -> str:
    if isinstance(value, str) and _TOPIC.fullmatch(value):
        return value
    raise Invalid(
        f'{part} {quoted(value)} is not 1 to 249 letters, digits, ".", "_" or "-", '
        "starting with a letter or digit"
    )


def check_type(value: object, part: str = "type") -> str:
    if isinstance(value, str) and _TYPE.fullmatch(value):
        return value
    raise Invalid(f"{part} {quoted(value)} is not 1 to 200 ASCII characters without spaces")


def check_key(value: object, part: str = "key") -> str:
    if (
        isinstance(value, str)
        and len(value) <= LONGEST_KEY
        and not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value)
    ):
        return value
    raise Invalid(f"{part} {quoted(value)} is not a string of up to {LONGEST_KEY} characters")


def data_text(value: object, part: str = "data") -> str:
    """A JSON value as text of bounded size; raises Invalid."""
    return bounded_json(part, value, MOST_DATA)


def check_position(value: object, part: str = "position") -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LAST_POSITION:
        return value
    raise Invalid(f"{part} {quoted(value)} is not a whole number, 0 or greater")


def event_kept(event: Event) -> dict[str, Any]:
    """An event as a JSON object with its secrets, for those who receive it."""
    return encode(replace(event, data=None)) | {"data": event.data}  # nothing is hidden in vain
