"""Turns the entries of `beat_schedule` into definitions of schedules; only reads the app."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from celery.schedules import crontab, maybe_schedule, schedule

from duebook.errors import Invalid, quoted, shorten
from duebook.imports.beat import CRONTAB_FIELDS, LENGTHS, OPTIONS, crontab_trigger, escaped
from duebook.model.definition import load_spec
from duebook.timetext import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["entry_name", "read_entries", "trigger_of", "zone_name"]

CLEANUP: Final = "celery.backend_cleanup"
LONGEST_NAME: Final = 128
MOST_TOLD: Final = 20
_KNOWN: Final = (*OPTIONS, *LENGTHS)


def read_entries(app: Any) -> dict[str, dict[str, Any]]:
    """The definition of each entry, by the name of its schedule.

    Raises Invalid, which names every entry that cannot become a schedule.
    """
    found: dict[str, dict[str, Any]] = {}
    taken: dict[str, str] = {}
    problems = []
    for entry, form in _all_entries(app).items():
        try:
            name = entry_name(entry)
            if (other := taken.setdefault(name, entry)) != entry:
                told = f'has the same name as entry "{other}": both would be schedule "{name}"'
                raise Invalid(f"{told}; rename one")  # noqa: TRY301 - one of several kinds
            found[name] = _definition(app, entry, name, form)
            load_spec(found[name], name)
        except Invalid as error:
            problems.append(f'entry "{shorten(entry)}": {error}')
    if problems:
        more = len(problems) - MOST_TOLD
        rest = [f"and {more} more"] if more > 0 else []
        raise Invalid("beat_schedule: " + "; ".join([*problems[:MOST_TOLD], *rest]))
    return found


def _all_entries(app: Any) -> dict[str, Mapping[str, Any]]:
    """All entries, with the one that beat itself adds for backends that do not delete old
    results."""
    entries = dict(app.conf.beat_schedule or {})
    if app.conf.result_expires and not app.backend.supports_autoexpire:
        daily = {"task": CLEANUP, "schedule": crontab("0", "4"), "options": {"expires": 43_200}}
        entries.setdefault(CLEANUP, daily)
    return entries


def entry_name(entry: object) -> str:
    """The name of an entry's schedule: in lower case, other characters become `-`."""
    if not isinstance(entry, str):
        raise Invalid(f"the name {quoted(entry)} is not text")
    name = re.sub(r"[^a-z0-9._-]+", "-", entry.lower()).strip("-._")[:LONGEST_NAME]
    if not name:
        raise Invalid("its name has no letter or digit; rename it")
    return name


def _definition(app: Any, entry: str, name: str, form: Any) -> dict[str, Any]:
    if not hasattr(form, "get") or not form.get("task") or form.get("schedule") is None:
        raise Invalid('it needs a "task" and a "schedule"')
    options = dict(form.get("options") or {})
    task = str(form["task"])
    target: dict[str, Any] = {"celery": task}
    if form.get("args"):
        target["args"] = escaped(list(form["args"]))
    target["kwargs"] = escaped(dict(form.get("kwargs") or {}))
    declared = getattr(app.tasks.get(task), "ignore_result", False)
    if options.pop("ignore_result", declared):
        target["wait"] = False
    definition = {
        "trigger": trigger_of(app, form["schedule"], bool(form.get("relative"))),
        "target": target | _options(options),
        "overlap": "allow",
    }
    return definition if name == entry else definition | {"title": entry[:200]}


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """The options that a target has; raises Invalid for any other."""
    if unknown := sorted(str(option) for option in options if option not in _KNOWN):
        known = ", ".join((*_KNOWN, "ignore_result"))
        raise Invalid(f'option "{shorten(unknown[0])}" is not supported; use one of {known}')
    found = {option: value for option, value in options.items() if value is not None}
    for option in LENGTHS:
        if option in found:
            found[option] = _seconds(f"option {option}", found[option])
    if "queue" in found and not isinstance(found["queue"], str):
        found["queue"] = str(getattr(found["queue"], "name", found["queue"]))
    return found


def _seconds(what: str, value: object) -> str:
    """A duration that Celery gives in seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = timedelta(seconds=value)
    if isinstance(value, timedelta) and value >= timedelta(seconds=1) and not value.microseconds:
        return format_duration(value)
    raise Invalid(f"{what} {quoted(str(value))} is not a whole number of seconds")


def trigger_of(app: Any, when: Any, relative: bool = False) -> dict[str, Any]:
    """The trigger with the due times of a Celery schedule; raises Invalid for unknown kinds.

    Relative intervals count from midnight, so that an hour starts on the hour.
    """
    known = maybe_schedule(when, relative, app=app)
    if type(known) is crontab:
        fields = {key: getattr(known, key) for key in CRONTAB_FIELDS}
        return crontab_trigger(fields, zone_name(app))
    if type(known) is not schedule:
        kind = type(known).__name__
        why = "depends on the sun" if kind == "solar" else "is a class that Duebook does not know"
        raise Invalid(f"its schedule, {kind}, {why}; use crontab, a timedelta or seconds")
    every = {"every": _seconds("its schedule", known.run_every)}
    if not known.relative:
        return every
    tz = zone_name(app)
    anchor = datetime(2000, 1, 1, tzinfo=ZoneInfo(tz))
    return every | {"anchor": anchor.isoformat(), "tz": tz}


def zone_name(app: Any) -> str:
    """The time zone by which the app reads crontabs."""
    if app.conf.timezone:
        return str(app.conf.timezone)
    if app.conf.enable_utc:
        return "UTC"
    from tzlocal import get_localzone_name  # Celery requires it

    return str(get_localzone_name())
