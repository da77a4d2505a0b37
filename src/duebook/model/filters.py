"""Filters and orders of lists: which schedules, runs and ledger entries to return.

Filters are validated here once, for library, command line and REST alike; all invalid ones are
reported together.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, get_args

from duebook.errors import Invalid, quoted, refuse_keys, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import (
    one_of,
    read_flag,
    read_instant,
    read_labels,
    read_name,
    read_title,
)
from duebook.model.plan import Reason
from duebook.model.run import Origin, RunStatus
from duebook.model.target import load_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

__all__ = [
    "EntriesWanted",
    "InvalidFilter",
    "LedgerFilter",
    "RunFilter",
    "RunsWanted",
    "ScheduleFilter",
    "ScheduleSort",
    "SchedulesWanted",
    "Status",
    "check_page",
    "load_ledger_filter",
    "load_run_filter",
    "load_schedule_filter",
    "load_sort",
]

Status = Literal["active", "paused", "completed"]
ScheduleSort = Literal["name", "-name", "created_at", "-created_at", "next_due_at"]

_BEGINNING: Final = re.compile(r"[a-z0-9._-]{0,128}\*")
MOST_ASKED: Final = 10
MOST_LISTED: Final = 1_000_000


class InvalidFilter(Invalid):
    """A filter with invalid fields; `problems` maps each field to its problem."""

    code = "invalid_filter"

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = problems

    def __reduce__(self) -> tuple[type[InvalidFilter], tuple[dict[str, str]]]:
        return type(self), (self.problems,)


class SchedulesWanted(TypedDict, total=False):
    """The filters of schedules as keyword arguments."""

    status: Status | None
    label: str | Sequence[str] | Mapping[str, str] | None
    text: str | None
    due_before: str | datetime | None
    target: str | None
    problem: bool | None


class RunsWanted(TypedDict, total=False):
    """The filters of runs as keyword arguments."""

    status: RunStatus | None
    origin: Origin | None
    queue: str | None
    flow: str | None
    task: str | None
    since: str | datetime | None
    until: str | datetime | None


class EntriesWanted(TypedDict, total=False):
    """The filters of a ledger as keyword arguments."""

    reason: str | None
    since: str | datetime | None
    until: str | datetime | None


@dataclass(frozen=True, slots=True)
class ScheduleFilter:
    """Which schedules; fields that are None match all."""

    status: Status | None = None
    labels: tuple[tuple[str, str], ...] = ()
    """all of them must match"""
    text: str = ""
    """a part of the name or title, in lower case"""
    prefix: str = ""
    """the beginning of the name"""
    due_before: datetime | None = None
    """active, and next due before that"""
    target: str | None = None
    """what they run: task:NAME, flow:NAME, celery:NAME, or one of task, flow, celery, command,
    http, event"""
    problem: bool | None = None

    @property
    def asked(self) -> dict[str, Any]:
        """What distinguishes this filter from others."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs; fields that are None match all."""

    schedule_id: str | None = None
    status: RunStatus | None = None
    origin: Origin | None = None
    queue: str | None = None
    flow: str | None = None
    """runs of the flow itself, not of its steps"""
    task: str | None = None
    """runs enqueued for the task"""
    since: datetime | None = None
    """for one schedule: due since then; for all runs: created since then"""
    until: datetime | None = None
    """both ends are included"""

    @property
    def asked(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LedgerFilter:
    """Which entries about a schedule's due times."""

    reason: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def asked(self) -> dict[str, Any]:
        return asdict(self)


def load_schedule_filter(form: dict[str, Any]) -> ScheduleFilter:
    """`status`, `label`, `text`, `due_before`, `target` and `problem`; raises InvalidFilter."""
    values = _read(form, _OF_SCHEDULES)
    text = values.pop("text", "")
    if "label" in values:
        values["labels"] = values.pop("label")
    if text.endswith("*"):
        return ScheduleFilter(prefix=text[:-1], **values)
    return ScheduleFilter(text=text, **values)


def load_run_filter(form: dict[str, Any], schedule_id: str | None = None) -> RunFilter:
    """`status`, `origin`, `queue`, `flow`, `task`, `since` and `until`; raises InvalidFilter."""
    found = RunFilter(schedule_id, **_read(form, _OF_RUNS))
    if schedule_id is not None and found.flow is not None:
        raise InvalidFilter({"flow": "flow cannot be combined with schedule"})
    if found.task is not None and (schedule_id is not None or found.flow is not None):
        told = "task cannot be combined with schedule or flow; it finds enqueued runs"
        raise InvalidFilter({"task": told})
    return found


def load_ledger_filter(form: dict[str, Any]) -> LedgerFilter:
    """`reason`, `since` and `until`; raises InvalidFilter."""
    return LedgerFilter(**_read(form, _OF_LEDGER))


def load_sort(sort: Any) -> ScheduleSort:
    if sort in get_args(ScheduleSort):
        return sort  # type: ignore[no-any-return]
    known = ", ".join(get_args(ScheduleSort))
    raise InvalidFilter({"sort": f'sort "{shorten(sort)}" is not one of {known}'})


def check_page(limit: Any) -> None:
    """Raises unless it is a valid number of rows for a page."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_LISTED:
        told = f"limit {quoted(limit)} is not a whole number from 1 to {MOST_LISTED:,}"
        raise InvalidFilter({"limit": told})


def _read(form: dict[str, Any], readers: dict[str, Callable[[str, Any], Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    problems = refuse_keys(
        form, readers, lambda key: f"{key} is not a filter; use one of {', '.join(readers)}"
    )
    for key, read in readers.items():
        if form.get(key) is not None:
            try:
                values[key] = read(key, form[key])
            except Invalid as error:
                problems[key] = str(error)
    if problems:
        raise InvalidFilter(problems)
    return values


def _label(key: str, value: Any) -> tuple[tuple[str, str], ...]:
    """An object, or texts such as team:x or team=x."""
    if isinstance(value, dict):
        pairs = list(value.items())
    else:
        items = value if isinstance(value, list | tuple) else [value]
        pairs = [_pair(key, item) for item in items[: MOST_ASKED + 1]]
    if len(pairs) > MOST_ASKED:
        raise Invalid(f"{key}: at most {MOST_ASKED} labels are allowed, not {len(pairs)}")
    if len(dict(pairs)) < len(pairs):
        raise Invalid(
            f"{key}: a label has only one value, so nothing can match two values in "
            f"{shorten(value)}"
        )
    return read_labels(key, dict(pairs))


def _pair(key: str, item: Any) -> tuple[str, str]:
    if isinstance(item, str):
        for sign in sorted(":=", key=lambda s: item.find(s) % (len(item) + 1)):
            name, found, value = item.partition(sign)
            if found and name:
                return name, value
    raise Invalid(f'{key} {quoted(item)} does not have the form NAME:VALUE, such as "team:sales"')


def _text(key: str, value: Any) -> str:
    text = read_title(key, value).lower()
    if text.endswith("*") and not _BEGINNING.fullmatch(text):
        raise Invalid(
            f'{key} {quoted(value)} is not the start of a name: before "*", use up to 128 '
            'characters of a-z, 0-9, ".", "_" and "-"'
        )
    return text


def _task(key: str, value: Any) -> str:
    try:
        load_target({"task": value})
    except Invalid as error:
        raise Invalid(f"{key}: {error}") from None
    return str(value)


def _target(key: str, value: Any) -> str:
    if value in ("task", "command", "http", "event", "flow", "celery"):
        return str(value)
    kind, _, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind not in ("task", "flow", "celery"):
        known = "task, task:NAME, flow, flow:NAME, celery, celery:NAME, command, http, event"
        raise Invalid(f"{key} {quoted(value)} is not one of {known}")
    load_target({kind: name})
    return f"{kind}:{name}"


_OF_SCHEDULES: Final[dict[str, Callable[[str, Any], Any]]] = {
    "status": one_of(get_args(Status)),
    "label": _label,
    "text": _text,
    "due_before": read_instant,
    "target": _target,
    "problem": read_flag,
}
_OF_RUNS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "status": one_of(get_args(RunStatus)),
    "origin": one_of(get_args(Origin)),
    "queue": read_name,
    "flow": read_name,
    "task": _task,
    "since": read_instant,
    "until": read_instant,
}
_OF_LEDGER: Final[dict[str, Callable[[str, Any], Any]]] = {
    "reason": one_of(tuple(reason.value for reason in Reason)),
    "since": read_instant,
    "until": read_instant,
}
