"""The facts that alerts are based on: life cycle events, and the current state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from duebook.errors import counted, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.alert import SLOWER
from duebook.timetext import parse_instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duebook.model.event import Event

__all__ = ["Happening", "Look", "Standing", "Subject", "happening_of", "is_slow", "p95"]

FEWEST_RUNS: Final = 5
"""With fewer runs, their usual duration is unknown."""
LONGEST_TEXT: Final = 500
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


class Subject(NamedTuple):
    """The schedule, task or flow that has a problem."""

    key: str
    """the name of a schedule, or `task:NAME`, `flow:NAME`"""
    schedule: str | None = None
    labels: Mapping[str, str] = _NO_LABELS


class Happening(NamedTuple):
    """What an event reports about a subject."""

    kind: Literal["failed", "succeeded", "missed", "deleted"]
    subject: Subject
    at: datetime
    run_id: str | None = None
    due_at: datetime | None = None
    text: str = ""
    late: timedelta = timedelta()
    """by how much its run started after it was due"""
    times: int = 1


class Standing(NamedTuple):
    """A current state, and since when it has lasted."""

    kind: Literal["late", "running", "no_success", "unattended"]
    subject: Subject
    since: datetime
    run_id: str | None = None
    due_at: datetime | None = None
    text: str = ""
    usual: timedelta | None = None
    """the 95th percentile of its runs' durations"""
    rule: str | None = None
    """it was determined for that rule alone"""


@dataclass(frozen=True, slots=True)
class Look:
    """The current states, and the kinds that are complete: anything missing from these is over."""

    standings: Sequence[Standing]
    kinds: frozenset[str]
    again_at: datetime = _NEVER
    """when to check again"""


def happening_of(event: Event, labels: Mapping[str, Mapping[str, str]]) -> Happening | None:
    """What a life cycle event means for alerts, if anything. `labels` are those of schedules."""
    data = event.data if isinstance(event.data, dict) else {}
    if event.topic.endswith(".schedules"):
        return _of_schedule(event, data, labels)
    subject = _subject(data, labels)
    if subject is None:
        return None
    due_at, started_at = (_moment(data.get(key)) for key in ("due_at", "started_at"))
    on_time = event.meta.get("origin") == "schedule" and int(data.get("attempt") or 0) == 1
    late = started_at - due_at if on_time and started_at and due_at else timedelta()
    told = (subject, event.at, data.get("run"), due_at)
    why = shorten(str(data.get("error") or data.get("reason") or ""), LONGEST_TEXT)
    if event.type in ("run.failed", "run.partial"):
        return Happening("failed", *told, why, late)
    if event.type == "run.succeeded":
        return Happening("succeeded", *told, "", late)
    if event.type == "run.late":
        return Happening("missed", *told, "no scheduler planned it in time; it is caught up")
    if event.type == "run.cancelled" and data.get("reason") == "expired":
        return Happening("missed", *told, "it was not started in time")
    return None


def _of_schedule(
    event: Event, data: Mapping[str, Any], labels: Mapping[str, Mapping[str, str]]
) -> Happening | None:
    name = data.get("schedule")
    if not isinstance(name, str):
        return None
    subject = Subject(name, name, labels.get(name, _NO_LABELS))
    if event.type == "schedule.deleted":
        return Happening("deleted", subject, event.at, text=str(data.get("id") or ""))
    if event.type == "schedule.missed":
        count = int(data.get("count") or 1)
        text = f"{counted(count, 'due time')} did not run: no scheduler planned it in time"
        return Happening(
            "missed", subject, event.at, None, _moment(data.get("due_to")), text, times=count
        )
    return None


def _subject(data: Mapping[str, Any], labels: Mapping[str, Mapping[str, str]]) -> Subject | None:
    if data.get("step") is not None:
        return None  # its flow reports it
    name = data.get("schedule")
    if name is not None:
        return Subject(name, name, labels.get(name, _NO_LABELS))
    for kind in ("flow", "task"):
        if data.get(kind):
            return Subject(f"{kind}:{data[kind]}")
    return None


def _moment(text: Any) -> datetime | None:
    return None if text is None else parse_instant(text)


def p95(lengths: Sequence[timedelta]) -> timedelta | None:
    """The 95th percentile of durations; None if there are too few."""
    if len(lengths) < FEWEST_RUNS:
        return None
    return sorted(lengths)[ceil(0.95 * len(lengths)) - 1]


def is_slow(standing: Standing, now: datetime) -> bool:
    """Whether a run takes much longer than it usually does."""
    return standing.usual is not None and now - standing.since > SLOWER * standing.usual
