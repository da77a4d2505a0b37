"""Names that other schedulers use for fields of a definition: a frequency, an event, `active`.

Every reader of definitions accepts them; Duebook stores and shows its own names.
"""

from __future__ import annotations

import json
from typing import Any, Final

from duebook.errors import Invalid, InvalidTrigger, quoted
from duebook.model import kinds
from duebook.model.event import data_text
from duebook.model.event_target import load_event
from duebook.model.frequency import FREQUENCY, frequency_fields
from duebook.model.invalid import InvalidSchedule
from duebook.model.kinds import Declared

__all__ = ["EVENT", "SHORT_FORMS", "SWITCHES", "canonical", "read_enabled"]

SHORT_FORMS: Final = {
    "cron": Declared(kinds.TEXT, "A cron expression as the trigger.", example="0 9 * * 1-5"),
    "tz": Declared(kinds.TEXT, "The IANA zone of `cron`.", example="Europe/Brussels"),
    "frequency_unit": Declared(
        kinds.TEXT,
        "SECONDS, MINUTES, HOURS, DAYS, WEEKS, MONTHS or YEARS, with `frequency_time`, "
        "as the trigger.",
        example="MINUTES",
    ),
    "frequency_time": Declared(
        kinds.whole_number(1, 1_000_000), "The number of units between due times.", example=15
    ),
    "start_ts": Declared(
        kinds.INSTANT, "The first due time of a frequency.", example="2026-12-01T00:00:00Z"
    ),
    "event_topic": Declared(
        kinds.TEXT, "The topic of an event to publish, as the target.", example="orders"
    ),
    "event_type": Declared(kinds.TEXT, "The type of that event.", example="order.created"),
    "event_data": Declared(
        kinds.ANY,
        "The data of that event; a string that contains JSON is parsed.",
        example={"id": 7},
    ),
}
"""Fields that stand for a trigger or a target."""
SWITCHES: Final = {
    "enabled": Declared(kinds.FLAG, "false pauses the schedule, true resumes it."),
    "active": Declared(kinds.FLAG, "Another word for `enabled`."),
}

EVENT: Final = {"event_topic": "topic", "event_type": "type", "event_data": "data"}
_ANY_TOPIC: Final = "any"


def canonical(form: dict[str, Any], former: object = None) -> dict[str, Any]:
    """A definition, or a part of one, with the fields `trigger`, `start_at` and `target` in place
    of those that stand for them.

    `former` is the form of the target that the definition changes: event fields that are not given
    keep their value. Raises InvalidSchedule.
    """
    return _with_event(_with_trigger(form), former)


def _with_trigger(form: dict[str, Any]) -> dict[str, Any]:
    """`cron`, with a zone beside it, or a frequency may stand for the trigger; None counts as not
    given."""
    form = {key: form[key] for key in form if form[key] is not None or key not in ("cron", "tz")}
    if any(form.get(name) is not None for name in FREQUENCY):
        if form.get("trigger") is not None:
            raise InvalidSchedule(
                {"trigger": "both trigger and a frequency are given; leave one of them out"}
            )
        rest = {key: form[key] for key in form if key not in (*FREQUENCY, "trigger")}
        return {**_frequency(form), **rest}
    if "cron" not in form or form.get("trigger") is not None:
        return form
    rest = {key: value for key, value in form.items() if key not in ("cron", "tz", "trigger")}
    return {"trigger": {key: form[key] for key in ("cron", "tz") if key in form}, **rest}


def _frequency(form: dict[str, Any]) -> dict[str, Any]:
    try:
        return frequency_fields(*(form.get(name) for name in FREQUENCY))
    except InvalidTrigger as error:
        raise InvalidSchedule({error.field: str(error)}) from None


def _with_event(form: dict[str, Any], former: object) -> dict[str, Any]:
    rest = {key: value for key, value in form.items() if key not in EVENT}
    given = {part: form[name] for name, part in EVENT.items() if name in form}
    current = _event_of(former)
    if current is None:
        given = {part: value for part, value in given.items() if value is not None}
    if not given:
        return rest
    first = f"event_{next(iter(given))}"
    if rest.get("target") is not None:
        told = f"both target and {first} are given; leave one of them out"
        raise InvalidSchedule({"target": told})
    event = {**(current or {}), **given}
    if event.get("topic") is None:
        raise InvalidSchedule({"event_topic": f"event_topic is missing; {first} requires it"})
    if given.get("data") is not None:
        event["data"] = _data(given["data"])
    for part in given.keys() - {"data"}:
        _check(part, given[part])
    return rest | {"target": {"event": {k: v for k, v in event.items() if v is not None}}}


def _event_of(form: object) -> dict[str, Any] | None:
    event = form.get("event") if isinstance(form, dict) else None
    return {"topic": event} if isinstance(event, str) else event


def _data(value: Any) -> Any:
    """Schedulers that store it in a text column pass JSON as text; other text stays as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return value  # such as a template
    try:
        data_text(value, "event_data")
    except Invalid as error:
        raise InvalidSchedule({"event_data": str(error)}) from None
    return value


def _check(part: str, value: Any) -> None:
    try:
        load_event({"topic": _ANY_TOPIC, part: value}, "event_")
    except Invalid as error:
        raise InvalidSchedule({f"event_{part}": str(error)}) from None


def read_enabled(definition: dict[str, Any]) -> tuple[dict[str, Any], bool | None, dict[str, str]]:
    """A definition without `enabled` and `active`, their value, and what is wrong with them.

    The value is None if neither is given.
    """
    rest = {key: value for key, value in definition.items() if key not in SWITCHES}
    given = {word: definition[word] for word in SWITCHES if definition.get(word) is not None}
    wrong = {
        word: f"{word} {quoted(value)} is not true or false"
        for word, value in given.items()
        if not isinstance(value, bool)
    }
    if not wrong and len(set(given.values())) > 1:
        wrong["active"] = (
            f"active is {_json(given['active'])} but enabled is {_json(given['enabled'])}; "
            "they mean the same; leave one of them out"
        )
    if wrong or not given:
        return rest, None, wrong
    return rest, next(iter(given.values())), {}


def _json(value: bool) -> str:
    return json.dumps(value)
