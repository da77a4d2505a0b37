"""Reads the tables of django-celery-beat; needs neither Celery nor Django installed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, json_problem, shorten
from duebook.imports.beat import Entry, crontab_trigger, found_entry, interval_trigger
from duebook.imports.found import BROKEN, Import, NotCarried
from duebook.timetext import format_instant
from duebook.triggers.zones import zone_name

if TYPE_CHECKING:
    from duebook.imports.databases import ForeignDatabase

__all__ = ["read_tables"]

_PREFIX: Final = "django_celery_beat_"
_OWN_TASK: Final = "celery.backend_cleanup"
_PERIODS: Final = ("days", "hours", "minutes", "seconds")
_Tables = dict[str, dict[Any, dict[str, Any]]]


def read_tables(database: ForeignDatabase, now: datetime) -> Import:
    """The periodic tasks, by name; raises Invalid if there are no such tables."""
    tasks = database.rows(f"{_PREFIX}periodictask")
    if tasks is None:
        raise Invalid(f"it has no table {_PREFIX}periodictask; is it the database of Django?")
    tables: _Tables = {
        kind: {row["id"]: row for row in database.rows(f"{_PREFIX}{kind}schedule") or ()}
        for kind in ("interval", "crontab", "clocked")
    }
    done = Import()
    for row in sorted(tasks, key=lambda row: str(row.get("name"))):
        name = str(row.get("name"))
        try:
            done.found.append(found_entry(_entry(row, tables, now)))
        except (NotCarried, Invalid) as error:
            done.leave(f"task {name}", "", error)
        except BROKEN as error:
            done.leave(f"task {name}", "", f"it cannot be read: {shorten(str(error), 100)}")
    return done


def _entry(row: dict[str, Any], tables: _Tables, now: datetime) -> Entry:
    if row.get("task") == _OWN_TASK:
        raise NotCarried("it is Celery's own; a beat of Celery adds it again")
    notes = []
    options = {key: row.get(key) for key in ("queue", "exchange", "routing_key", "priority")}
    options["expires"] = row.get("expire_seconds")
    options["headers"] = _json(row, "headers", {})
    form: dict[str, Any] = {}
    if row.get("description"):
        form["description"] = row["description"]
    if not row.get("enabled"):
        form["enabled"] = False
        notes.append("it is not enabled; it is created paused")
    if row.get("expires"):
        form["end_at"] = format_instant(_time(row["expires"]))
    if row.get("start_time") and (start := _time(row["start_time"])) > now:
        form["start_at"] = format_instant(start)
    return Entry(
        name=str(row["name"]),
        task=row["task"],
        trigger=_trigger(row, tables, now),
        args=_json(row, "args", []),
        kwargs=_json(row, "kwargs", {}),
        options=options,
        place=f"task {row['name']}",
        form=form,
        notes=tuple(notes),
    )


def _trigger(row: dict[str, Any], tables: _Tables, now: datetime) -> dict[str, Any]:
    if row.get("crontab_id") is not None:
        found = tables["crontab"][row["crontab_id"]]
        return crontab_trigger(found, zone_name(str(found.get("timezone") or "UTC")))
    if row.get("interval_id") is not None:
        found = tables["interval"][row["interval_id"]]
        if found["period"] not in _PERIODS:
            raise NotCarried(f"intervals in {shorten(found['period'])}; the smallest unit is 1 s")
        last = _time(row["last_run_at"]) if row.get("last_run_at") else None
        return interval_trigger(timedelta(**{found["period"]: found["every"]}), last)
    if row.get("clocked_id") is not None:
        moment = _time(tables["clocked"][row["clocked_id"]]["clocked_time"])
        if moment <= now:
            raise NotCarried(f"its only time, {format_instant(moment)}, has passed")
        return {"at": format_instant(moment)}
    if row.get("solar_id") is not None:
        raise NotCarried("a solar schedule: Duebook does not know where the sun is")
    raise NotCarried("it has no schedule")


def _time(stored: Any) -> datetime:
    """PostgreSQL stores times; SQLite stores strings, in UTC."""
    moment = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
    if not isinstance(moment, datetime):
        raise TypeError(f"{shorten(stored)} is not a time")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _json(row: dict[str, Any], key: str, empty: Any) -> Any:
    try:
        value = json.loads(row.get(key) or "null")
    except (ValueError, RecursionError) as error:
        raise NotCarried(f"{key} is not valid JSON: {json_problem(error)}") from None
    if value is None:
        return empty
    if not isinstance(value, type(empty)):
        raise NotCarried(
            f"{key} {shorten(value)} is not {'a list' if empty == [] else 'an object'}"
        )
    return value
