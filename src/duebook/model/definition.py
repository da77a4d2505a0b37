"""Reads definitions from their JSON form, in one place for library, command line, files and REST;
reports all invalid fields together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, refuse_keys, shorten
from duebook.model.aliases import canonical
from duebook.model.flow_target import FlowTarget
from duebook.model.invalid import InvalidSchedule
from duebook.model.schedule import FIELDS, ScheduleSpec
from duebook.model.target import CommandTarget, payload_variables
from duebook.settings import RETENTION
from duebook.timetext import format_duration, format_instant
from duebook.triggers import load_trigger

if TYPE_CHECKING:
    from duebook.model.calendar_use import CalendarUse
    from duebook.triggers import Trigger

__all__ = ["load_changes", "load_spec", "read_fields"]

LONGEST_JITTER: Final = timedelta(days=1)
MOST_ROLLED_A_DAY: Final = 1_440
"""Maximum due times a day with rolling, as a plan looks at rolling due times one by one."""
_LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
_DAY, _TICK = timedelta(days=1), timedelta(microseconds=1)
_CONTROLS: Final = [k for k, f in FIELDS.items() if f.kind.shape == "triggers" and k != "trigger"]
"""When a flow is stopped and restarted."""


def load_spec(form: dict[str, Any], name: str) -> ScheduleSpec:
    """A definition from its JSON form; raises InvalidSchedule with every invalid field.

    `name` is what H in a cron expression hashes, and what `depends_on` must not name.
    """
    values, problems = read_fields(form, name)
    if problems:
        raise InvalidSchedule(problems)
    return ScheduleSpec(**values)


def read_fields(form: dict[str, Any], name: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """The valid fields of a ScheduleSpec, and the problems of the others, by their names in the
    form. Without a name, an H that would hash it is a problem. Raises InvalidSchedule for fields
    that contradict each other."""
    form = canonical(form)
    values: dict[str, Any] = {}
    alone = len(form.keys() - FIELDS.keys()) == 1
    problems = refuse_keys(form, FIELDS, lambda key: _unknown(key, alone))
    for key, known in FIELDS.items():
        if form.get(key) is not None:
            try:
                values[key] = known.kind.read(key, form[key])
            except Invalid as error:
                problems[key] = str(error)
        elif key in ("trigger", "target"):
            problems[key] = f"{key} is missing"
    for key in (*_CONTROLS, "trigger"):
        if key in values:
            least = 0 if key != "trigger" or any(map(values.get, _CONTROLS)) else 1
            try:
                values[FIELDS[key].name] = _triggers(key, values.pop(key), name, least)
            except Invalid as error:
                problems[key] = str(error)
    problems |= _contradictions(values, name)
    return values, problems


def _unknown(key: str, alone: bool) -> str:
    """If there are several, none lists all known keys, to avoid repetition."""
    if key == "status":
        return "status is not a field of a definition; enabled (or active) pauses and resumes"
    if key == "tz":
        shown = '{"daily": "06:00", "tz": "Europe/Brussels"}'
        return f"tz is not a field of a definition; it belongs to the trigger, such as {shown}"
    meant = get_close_matches(key, FIELDS, n=1)
    known = f"; use one of {', '.join(FIELDS)}" if alone else ""
    hint = f"; did you mean {meant[0]}?" if meant else known
    return f"{shorten(key)} is not a field of a definition{hint}"


def load_changes(form: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The form of a definition, or of a part of one, after changes to some of its fields.

    Raises InvalidSchedule for changes that contradict each other.
    """
    return {**form, **canonical(changes, form.get("target"))}


def _contradictions(values: dict[str, Any], name: str | None) -> dict[str, str]:
    """Conflicts between fields that are valid by themselves."""
    problems: dict[str, str] = {}
    start_at, end_at = values.get("start_at"), values.get("end_at")
    if start_at and end_at and start_at > end_at:
        problems["end_at"] = f"end_at {format_instant(end_at)} is before start_at"
    if values.get("jitter", timedelta()) > LONGEST_JITTER:
        problems["jitter"] = f"jitter {format_duration(values['jitter'])} is longer than a day"
    zones = {getattr(trigger, "tz", "UTC") for trigger in values.get("triggers", ())}
    if len(zones) > 1:
        told = " and ".join(sorted(zones))
        problems |= {
            key: f"{key} needs a single time zone, but the triggers use {told}; use one zone"
            for key in ("exclude", "calendar")
            if values.get(key)
        }
    problems |= _rolls_too_often(values.get("calendar"), values.get("triggers", ()))
    if any(dependency.within > RETENTION for dependency in values.get("depends_on", ())):
        problems["depends_on"] = (
            f"depends_on: within can be at most {RETENTION.days} days, the retention period"
        )
    if any(dependency.schedule == name for dependency in values.get("depends_on", ())):
        problems["depends_on"] = f'depends_on: "{name}" cannot depend on itself'
    if isinstance(values.get("target"), FlowTarget):
        problems |= {
            key: f"{key} does not apply to a flow: {known.of_steps}"
            for key, known in FIELDS.items()
            if known.of_steps and values.get(key, known.default) != known.default
        }
    elif "target" in values:
        problems |= {
            key: f"{key} requires a flow as the target; only flows are stopped and restarted"
            for key in _CONTROLS
            if values.get(key)
        }
    if isinstance(values.get("target"), CommandTarget):
        try:
            payload_variables(values.get("payload", {}))
        except Invalid as error:
            problems["payload"] = str(error)
    return problems


def _rolls_too_often(use: CalendarUse | None, triggers: tuple[Trigger, ...]) -> dict[str, str]:
    """Counted on the first day on which each trigger is due."""
    if use is None or use.roll == "skip":
        return {}
    found = (trigger.next_after(_LONG_AGO) for trigger in triggers)
    number = sum(
        trigger.count(first - _TICK, first - _TICK + _DAY)
        for trigger, first in zip(triggers, found, strict=True)
        if first is not None
    )
    if number <= MOST_ROLLED_A_DAY:
        return {}
    text = (
        f"calendar: with roll {use.roll}, a schedule can be due at most {MOST_ROLLED_A_DAY:,} "
        f"times a day, once a minute, and its triggers are due {number:,} times; use triggers "
        "that are due less often, or leave roll out"
    )
    return {"calendar": text}


def _triggers(key: str, value: Any, name: str | None, least: int = 1) -> tuple[Trigger, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    if not least <= len(items) <= 20:
        raise Invalid(f"{key} accepts {least} to 20 triggers, not {len(items)}")
    return tuple(load_trigger(item, key=name) for item in items)
