"""Reads the SQLAlchemy stores of APScheduler 3 and 4; needs neither of them installed."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, counted, json_problem, shorten
from duebook.imports.aps_triggers import read_aps_trigger
from duebook.imports.beat import escaped
from duebook.imports.found import BROKEN, Found, Import, NotCarried, name_of
from duebook.imports.pickles import unpickle
from duebook.imports.signatures import parameters_of
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from duebook.imports.databases import ForeignDatabase

__all__ = ["has_pickles", "read_jobs"]

LEAST_GRACE: Final = timedelta(minutes=1)
"""A shorter grace would miss due times whenever a node is busy; APScheduler 3 uses one second."""
_JSON_MARK: Final = "_apscheduler_json"
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Job:
    """What both versions store of a job."""

    id: str
    function: str
    trigger: Any
    args: Sequence[Any]
    kwargs: dict[str, Any]
    grace: timedelta | None
    """None: no limit"""
    coalesce: bool
    most: int | None
    """how many at the same time; None: any number"""
    waits: bool
    """whether a due time waits while that many are running"""
    paused: bool
    jitter: timedelta | None = None


def has_pickles(database: ForeignDatabase, table: str) -> bool:
    """Whether the store can only be read by unpickling; raises Invalid if it is not a store."""
    if database.rows(table) is not None:
        return True
    rows = database.rows("schedules")
    if rows is None or database.rows("tasks") is None:
        told = f"it has neither the table {table} of APScheduler 3 nor those of APScheduler 4"
        raise Invalid(f"{told}; --table names another table")
    return any(_content(row.get("trigger"))[:1] == b"\x80" for row in rows)


def read_jobs(database: ForeignDatabase, table: str, now: datetime, folder: Path) -> Import:
    """The jobs of a store, by id. Names of positional arguments are looked up in the source files
    below `folder`."""
    done, rows = Import(), database.rows(table)
    read: Callable[[dict[str, Any]], _Job] = _job_of_3
    if rows is None:
        rows = database.rows("schedules") or []
        tasks = {row["id"]: row for row in database.rows("tasks") or ()}
        read = partial(_job_of_4, tasks)
    functions: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: str(row.get("id"))):
        place = f"job {row.get('id')}"
        try:
            done.found.append(_found(read(row), now, folder, functions))
        except (NotCarried, Invalid) as error:
            done.leave(place, "", error)
        except BROKEN as error:
            done.leave(place, "", f"it cannot be read: {shorten(str(error), 100)}")
    told = "a worker must know it: @book.task"
    done.notes += [f"task {name} is {function}; {told}" for name, function in functions.items()]
    return done


# -- what the stores have


def _job_of_3(row: dict[str, Any]) -> _Job:
    state = unpickle(_content(row["job_state"]))
    grace = state["misfire_grace_time"]
    return _Job(
        id=str(state["id"]),
        function=state["func"],
        trigger=state["trigger"],
        args=state["args"],
        kwargs=state["kwargs"],
        grace=None if grace is None else timedelta(seconds=grace),
        coalesce=bool(state["coalesce"]),
        most=state["max_instances"],
        waits=False,
        paused=row.get("next_run_time") is None,
    )


def _job_of_4(tasks: dict[str, dict[str, Any]], row: dict[str, Any]) -> _Job:
    task = tasks.get(row["task_id"])
    if task is None or not task.get("func"):
        raise NotCarried(f'its task "{shorten(row["task_id"])}" has no function')
    return _Job(
        id=str(row["id"]),
        function=task["func"],
        trigger=_value(row["trigger"]),
        args=_value(row["args"]),
        kwargs=_value(row["kwargs"]),
        grace=_length(row.get("misfire_grace_time")),
        coalesce=row.get("coalesce") != "all",
        most=task.get("max_running_jobs"),
        waits=True,
        paused=bool(row.get("paused")),
        jitter=_length(row.get("max_jitter")),
    )


def _value(stored: Any) -> Any:
    """A value of APScheduler 4, decoded by one of its serializers."""
    content = _content(stored)
    if content[:1] == b"\x80":
        return unpickle(content)
    try:
        found = json.loads(content)
    except ValueError as error:
        raise NotCarried(f"neither a pickle nor JSON: {json_problem(error)}") from None
    return found[_JSON_MARK] if isinstance(found, dict) and _JSON_MARK in found else found


def _content(stored: Any) -> bytes:
    return bytes(stored) if isinstance(stored, bytes | memoryview | bytearray) else b""


def _length(stored: Any) -> timedelta | None:
    """SQLite stores microseconds, PostgreSQL an interval."""
    return stored if stored is None or isinstance(stored, timedelta) else stored * _MICROSECOND


# -- as a schedule


def _found(job: _Job, now: datetime, folder: Path, functions: dict[str, str]) -> Found:
    """`functions`: the functions found so far, by the names of their tasks."""
    read = read_aps_trigger(job.trigger, now)
    module, _, function = str(job.function).partition(":")
    if not function or "." in function:
        raise NotCarried(f"{shorten(job.function)} is not a function of a module")
    payload = _payload(job, module, function, folder)
    task = function if functions.get(function, job.function) == job.function else None
    task = task or f"{module}.{function}"
    functions[task] = job.function
    triggers, notes = read.triggers, []
    form: dict[str, Any] = {
        "trigger": triggers[0] if len(triggers) == 1 else triggers,
        "target": {"task": task},
        **({"payload": payload} if payload else {}),
        **read.form,
        **_policies(job),
    }
    jitter = job.jitter or (timedelta(seconds=round(read.jitter)) if read.jitter else None)
    if jitter:
        form["jitter"] = format_duration(timedelta(seconds=max(1, round(jitter.total_seconds()))))
    if job.paused:
        form["enabled"] = False
        notes.append("it was paused; it is created paused")
    return Found(name_of(job.id), form, f"job {job.id}", tuple(notes))


def _policies(job: _Job) -> dict[str, Any]:
    form: dict[str, Any] = {}
    if job.grace is not None:
        form["grace"] = format_duration(max(job.grace, LEAST_GRACE))
        form["catchup"] = "skip"
    elif not job.coalesce:
        form["catchup"] = "all"
    if job.most == 1:
        form |= {"overlap": "queue"} if job.waits else {}
    else:
        form |= {"overlap": "allow"} | ({} if job.most is None else {"max_concurrent": job.most})
    return form


def _payload(job: _Job, module: str, function: str, folder: Path) -> dict[str, Any]:
    """Arguments by name, as JSON; raises NotCarried."""
    payload = dict(job.kwargs)
    if job.args:
        names = parameters_of(module, function, folder)
        if names is None or len(names) < len(job.args):
            number = counted(len(job.args), "positional argument")
            told = f"it has {number}, and the source of {module}:{function} is not below {folder}"
            raise NotCarried(f"{told}; run the import in the directory of the program")
        payload = dict(zip(names, job.args, strict=False)) | payload
    for name, value in payload.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            kind = getattr(value, "name", "") or type(value).__name__
            raise NotCarried(f"argument {name} is not JSON but a {shorten(kind)}") from None
    kept: dict[str, Any] = escaped(payload)
    return kept
