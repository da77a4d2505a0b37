"""Rows of the SQLite store as values, and values as parameters."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.errors import Invalid
from duebook.model.run import Run
from duebook.model.schedule import Schedule, load_spec
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duebook.model.schedule import ScheduleSpec

__all__ = [
    "MovedState",
    "NewRun",
    "clean",
    "facts_text",
    "from_micros",
    "moment",
    "read_run",
    "read_schedule",
    "read_spec",
    "to_micros",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)


class MovedState(NamedTuple):
    """The values of `move_state`, in its order."""

    watermark: int | None
    next_due_at: int | None
    wake_at: int | None
    problem: str | None
    schedule_id: str
    version: int


class NewRun(NamedTuple):
    """The values of `insert_run`, in its order."""

    id: str
    namespace: str
    schedule_id: str
    version: int
    due_at: int | None
    origin: str
    trigger: str
    queue: str
    priority: int
    exclusive: bool
    wakes: bool
    max_takeovers: int
    payload: str | None
    created_at: int | None
    ready_at: int | None


def to_micros(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MICRO


def from_micros(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + _MICRO * micros


def moment(micros: int) -> datetime:
    return _EPOCH + _MICRO * micros


def facts_text(facts: Mapping[str, Any]) -> str:
    """Facts as JSON; instants as text."""
    return json.dumps(
        {key: format_instant(v) if isinstance(v, datetime) else v for key, v in facts.items()}
    )


def read_spec(text: str, name: str) -> ScheduleSpec:
    return load_spec(json.loads(text), name)


def read_schedule(row: Sequence[Any]) -> Schedule:
    id_, namespace, name, version, spec, status, created, watermark, next_due, paused, why, bad = (
        row
    )
    definition: ScheduleSpec | None = None
    try:
        definition = read_spec(spec, name)
    except Invalid as error:  # one that a newer node wrote must not hide all others
        bad = bad or f"this node cannot read the definition: {error}"
    return Schedule(
        id_,
        namespace,
        name,
        version,
        definition,
        status,
        moment(created),
        from_micros(watermark),
        from_micros(next_due),
        from_micros(paused),
        why,
        bad,
    )


def read_run(row: Sequence[Any]) -> Run:
    return Run(
        id=row[0],
        namespace=row[1],
        schedule_id=row[2],
        schedule=row[3],
        version=row[4],
        due_at=from_micros(row[5]),
        origin=row[6],
        trigger=row[7],
        queue=row[8],
        priority=row[9],
        status=row[10],
        attempt=row[11],
        losses=row[12],
        payload=json.loads(row[13]) if row[13] else None,
        created_at=moment(row[14]),
        ready_at=moment(row[15]),
        claimed_at=from_micros(row[16]),
        started_at=from_micros(row[17]),
        finished_at=from_micros(row[18]),
        node=row[19],
        cancel_requested_at=from_micros(row[20]),
        reason=row[21],
        error=row[22],
        exit_code=row[23],
    )


def clean(text: str | None) -> str | None:
    """Text that any database takes: no NUL, no halves of characters."""
    if text is None:
        return None
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
