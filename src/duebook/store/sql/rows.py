"""Converts rows of the database to values, and values to rows, for any database.

`time` and `stamp` convert an instant from and to its stored form; inside JSON, instants are
microseconds since 1970.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.model.flow_run import Apart
from duebook.model.flow_target import FLOW_QUEUE, FlowTarget
from duebook.model.plan import Delay, Stretch
from duebook.model.queue import Begun, Queue, QueueLimiter, Rate
from duebook.model.run import Interval, Run
from duebook.model.schedule import InvalidSchedule, Schedule
from duebook.model.stored_spec import read_stored
from duebook.model.target import CeleryTarget, EventTarget, HttpTarget, TaskTarget, worker_task
from duebook.model.template import ScheduleTemplate
from duebook.model.unreadable import describe_unreadable, missing_definition
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duebook.model.run import LatestRun
    from duebook.model.schedule import ScheduleSpec

__all__ = [
    "EARLIEST",
    "LAST_PLACE",
    "LATEST",
    "Copied",
    "MovedState",
    "NewRun",
    "begun_text",
    "claimed_run",
    "clean",
    "copied",
    "delay_text",
    "facts_text",
    "from_micros",
    "inline",
    "is_large",
    "micros",
    "moment",
    "read_delay",
    "read_interval",
    "read_limiter",
    "read_output",
    "read_run",
    "read_schedule",
    "read_stretches",
    "read_template",
    "stretches_text",
    "target_text",
    "to_micros",
    "without_nul",
]

INLINE_OUTPUT: Final = 262_144
"""Characters of JSON. Text of the length of an environment variable fits, even if escaped."""
EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC)
LAST_PLACE: Final = 2**62
"""After the place of any run and the id of any entry."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)
_RUN_TIMES: Final = [place for place, name in enumerate(Run._fields) if name.endswith("_at")]
_DUE: Final = Run._fields.index("due_at")
_RUN_JSON: Final = [Run._fields.index(name) for name in ("payload", "output", "output_secrets")]

_NOT_ENDED: Final = (None,) * 4
"""when it was asked to stop, why and how it ended"""
_NOT_REPORTED: Final = (None,) * 5
"""what it returned, and what it reports on the way"""


class MovedState(NamedTuple):
    """The values of `move_state`, in its order."""

    watermark: Any
    next_due_at: Any
    wake_at: Any
    fired: int
    seen: str | None
    considered_at: Any
    delay: str | None
    schedule_id: str
    version: int


class Copied(NamedTuple):
    """What a run copies from its definition, because claims and takeovers need it."""

    namespace: str
    trigger: str
    queue: str
    priority: int
    task: str | None
    exclusive: bool
    max_concurrent: int | None
    max_takeovers: int


class NewRun(NamedTuple):
    """The values of `insert_run`, in its order."""

    id: str
    schedule_id: str
    version: int
    due_at: Any
    origin: str
    lane: int
    wakes: bool
    payload: str | None
    created_at: Any
    ready_at: Any
    expires_at: Any
    namespace: str
    trigger: str
    queue: str
    priority: int
    task: str | None
    exclusive: bool
    max_concurrent: int | None
    max_takeovers: int
    interval_start: Any = None
    interval_end: Any = None
    """None: its due time"""
    requested_by: str | None = None
    planned_by: str | None = None
    backfill_limit: int | None = None


def copied(namespace: str, spec: ScheduleSpec) -> Copied:
    return Copied(
        namespace,
        f"schedule:{spec.trigger_text}",
        FLOW_QUEUE if isinstance(spec.target, FlowTarget) else spec.queue,
        spec.priority,
        worker_task(spec.target),
        spec.overlap != "allow" and not spec.instant,
        spec.max_concurrent,
        spec.max_takeovers,
    )


def target_text(spec: ScheduleSpec) -> str:
    """What a schedule runs, in the form of list filters: task:NAME, flow:NAME, celery:NAME,
    command, http or event."""
    match spec.target:
        case TaskTarget(name):
            return f"task:{name}"
        case CeleryTarget(name):
            return f"celery:{name}"
        case HttpTarget():
            return "http"
        case EventTarget():
            return "event"
        case FlowTarget(name):
            return f"flow:{name}"
    return "command"


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICRO


def to_micros(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MICRO


def from_micros(stamp: int | None) -> datetime | None:
    return None if stamp is None else _EPOCH + _MICRO * stamp


def moment(micros: int) -> datetime:
    return _EPOCH + _MICRO * micros


def facts_text(facts: Mapping[str, Any]) -> str:
    """Facts as JSON; instants as text."""
    return json.dumps(
        {key: format_instant(v) if isinstance(v, datetime) else v for key, v in facts.items()}
    )


def read_schedule(
    row: Sequence[Any], time: Callable[[Any], Any], last_run: LatestRun | None = None
) -> Schedule:
    (id_, namespace, name, version, text, status, created_at, created_by, watermark) = row[:9]
    next_due_at, paused_at, paused_until, pause_reason, problem, updated_at, owner = row[9:]
    spec: ScheduleSpec | None = None
    try:
        if text is None:
            raise missing_definition()
        spec = read_stored(text, name)
    except InvalidSchedule as error:  # it must not hide all others
        problem = describe_unreadable(error.problems)
    return Schedule(
        id=id_,
        namespace=namespace,
        name=name,
        version=version,
        spec=spec,
        status=status,
        created_at=time(created_at),
        created_by=created_by,
        owner=owner,
        updated_at=time(updated_at or created_at),
        watermark=time(watermark),
        next_due_at=time(next_due_at),
        paused_at=time(paused_at),
        paused_until=time(paused_until),
        pause_reason=pause_reason,
        problem=problem,
        last_run=last_run,
    )


def read_template(row: Sequence[Any], time: Callable[[Any], Any]) -> ScheduleTemplate:
    namespace, name, defaults, created_at, created_by, updated_at, updated_by = row
    made, changed = time(created_at), time(updated_at)
    return ScheduleTemplate(
        namespace, name, json.loads(defaults), made, created_by, changed, updated_by
    )


def read_run(row: Sequence[Any], time: Callable[[Any], Any]) -> Run:
    """A row of run_details, whose columns are those of a Run; its interval, the last, has two."""
    values: list[Any] = list(row[: len(Run._fields)])
    for place in _RUN_TIMES:
        values[place] = time(values[place])
    for place in _RUN_JSON:
        if values[place] is not None:
            values[place] = json.loads(values[place])
    values[-1] = read_interval(values[-1], row[len(values)], values[_DUE], time)
    return Run._make(values)


def claimed_run(row: Sequence[Any], schedule: str | None, node: str, claimed_at: datetime) -> Run:
    """A run as a claim returns it, with its instants; the rest is known without a query.

    Workers create very many, so it is built from a tuple in the order of its fields, in a third of
    the time.
    """
    id_, namespace, schedule_id, version, due_at, origin, trigger, queue, priority = row[:9]
    attempt, failures, losses, payload, created_at, ready_at, expires_at, task = row[9:17]
    parent_run_id, step, flow, started_at, start, end, requested_by, planned_by = row[17:25]
    if payload is not None:
        payload = json.loads(payload)
    interval = None if start is None else read_interval(start, end, due_at, _as_it_is)
    status, unset = "running", None
    own = id_, namespace, schedule_id, schedule, version, due_at, origin, trigger, queue, priority
    attempted = status, attempt, failures, losses, payload, created_at, ready_at, claimed_at
    under_way = started_at, unset, expires_at, node, *_NOT_ENDED, task, *_NOT_REPORTED
    asked = parent_run_id, step, flow, unset, unset, requested_by, planned_by, interval
    return Run._make((*own, *attempted, *under_way, *asked))


def _as_it_is(instant: datetime) -> datetime:
    return instant


def read_interval(
    start: Any, end: Any, due_at: datetime | None, time: Callable[[Any], Any]
) -> Interval | None:
    """The interval of a run: its end is stored only if it is not the due time."""
    if start is None or due_at is None:
        return None
    return Interval(time(start), due_at if end is None else time(end))


def read_stretches(text: str | None) -> tuple[Stretch, ...]:
    if text is None:
        return ()
    return tuple(Stretch(moment(until), kind, moment(at)) for until, kind, at in json.loads(text))


def stretches_text(stretches: Sequence[Stretch]) -> str | None:
    if not stretches:
        return None
    return json.dumps([(to_micros(s.until), s.kind, to_micros(s.seen_at)) for s in stretches])


def read_delay(text: str) -> Delay:
    held_at, lag = json.loads(text)
    return Delay(from_micros(held_at), _MICRO * lag)


def delay_text(delay: Delay) -> str:
    return json.dumps([to_micros(delay.held_at), delay.lag // _MICRO])


def clean(text: str | None) -> str | None:
    """Text that any database accepts: no NUL, no lone surrogates."""
    if text is None:
        return None
    return without_nul(text).encode(errors="replace").decode()


def without_nul(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def read_limiter(row: Sequence[Any]) -> QueueLimiter:
    name, concurrency, count, seconds, begun = row
    rate = None if count is None else Rate(count, timedelta(seconds=seconds))
    passed = tuple(Begun(moment(at), number) for at, number in json.loads(begun))
    return QueueLimiter(Queue(name, concurrency, rate), passed)


def begun_text(limiter: QueueLimiter) -> str:
    return json.dumps([(micros(begun.at), begun.number) for begun in limiter.begun])


def is_large(output: str) -> bool:
    """Whether an output is stored apart from the row of its run."""
    return len(output) > INLINE_OUTPUT


def inline(output: str | None) -> str | None:
    """The part of an output for the row of its run."""
    return None if output is None or is_large(output) else clean(output)


def read_output(run_id: str, output: str | None, size: int | None) -> Any:
    """What a run returned; Apart if large."""
    if size is not None:
        return Apart(run_id, size)
    return None if output is None else json.loads(output)
