"""Reads `beat_schedule` of a Celery app, which means importing the user's program."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final

from duebook.errors import Invalid, shorten
from duebook.imports.beat import (
    CRONTAB_FIELDS,
    Entry,
    crontab_trigger,
    found_entry,
    interval_trigger,
)
from duebook.imports.found import Import, NotCarried
from duebook.triggers.zones import zone_name

__all__ = ["read_app"]

_KNOWN: Final = ("task", "schedule", "args", "kwargs", "options", "relative")


def read_app(app: Any) -> Import:
    """The entries of an app that has been imported, in their order; raises Invalid if it is not a
    Celery app."""
    conf = getattr(app, "conf", None)
    if conf is None or not hasattr(app, "send_task"):
        raise Invalid(f"{shorten(repr(app))} is not a Celery app")
    app.finalize()  # handlers of this signal can also add entries
    done, tz = Import(), zone_name(str(conf.timezone or "UTC"))
    for name, entry in dict(conf.beat_schedule or {}).items():
        try:
            done.found.append(found_entry(_entry(str(name), entry, tz)))
        except (NotCarried, Invalid) as error:
            done.leave(f"entry {name}", "", error)
    return done


def _entry(name: str, entry: Any, tz: str) -> Entry:
    if not isinstance(entry, dict) or "task" not in entry or "schedule" not in entry:
        raise NotCarried("it has no task or no schedule")
    notes = [f"{shorten(key)} is not carried over" for key in entry if key not in _KNOWN]
    if entry.get("relative"):
        notes.append("relative is not carried over: intervals count from when they are created")
    return Entry(
        name=name,
        task=entry["task"],
        trigger=_trigger(entry["schedule"], tz),
        args=_plain("args", list(entry.get("args") or ())),
        kwargs=_plain("kwargs", dict(entry.get("kwargs") or {})),
        options=entry.get("options") or {},
        place=f"entry {name}",
        notes=tuple(notes),
    )


def _trigger(schedule: Any, tz: str) -> dict[str, Any]:
    if isinstance(schedule, int | float | timedelta):
        return interval_trigger(schedule, None)
    if all(hasattr(schedule, key) for key in CRONTAB_FIELDS):
        return crontab_trigger({key: getattr(schedule, key) for key in CRONTAB_FIELDS}, tz)
    if hasattr(schedule, "lat") and hasattr(schedule, "lon"):
        raise NotCarried("a solar schedule: Duebook does not know where the sun is")
    if type(schedule).__name__ == "schedule":
        return interval_trigger(schedule.run_every, None)
    raise NotCarried(f"a schedule of class {type(schedule).__name__} cannot be expressed")


def _plain(key: str, value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotCarried(f"{key} cannot be written as JSON: {shorten(str(error), 100)}") from None
