"""Turns triggers from the stores of APScheduler 3 and 4 into triggers of Duebook; pure."""

from __future__ import annotations

import re
from dataclasses import field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from duebook.errors import shorten
from duebook.imports.found import BROKEN, NotCarried
from duebook.imports.pickles import Thing, zone_of
from duebook.imports.wall_patterns import WallPattern, within_years
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_duration, format_instant
from duebook.triggers.words import MONTHS
from duebook.triggers.zones import day_start

__all__ = ["ApsTrigger", "read_aps_trigger"]

_FIELDS: Final = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS: Final = tuple(name[:3].lower() for name in MONTHS)
_POSITIONS: Final = ("1st", "2nd", "3rd", "4th", "5th", "last")
_POSITION: Final = re.compile(rf"({'|'.join(_POSITIONS)}) +({'|'.join(_WEEKDAYS)})")
_RANGE: Final = re.compile(r"(\w+)(?:-(\w+))?(?:/(\d+))?")
_EPOCH_YEAR: Final = 1970


@dataclass(slots=True)
class ApsTrigger:
    """Triggers, and fields of a definition that belong to them."""

    triggers: list[dict[str, Any]]
    form: dict[str, Any] = field(default_factory=dict)
    jitter: float | None = None


def read_aps_trigger(value: Any, now: datetime) -> ApsTrigger:
    """From an unpickled trigger, or from (reference, state) as in combining triggers and JSON. A
    start time after `now` is kept. Raises NotCarried."""
    kind, state = _kind(value)
    read = _READERS.get(kind)
    if read is None:
        raise NotCarried(f"{shorten(kind)} cannot be expressed")
    try:
        found = read(state, now)
    except BROKEN as error:
        raise NotCarried(f"{kind} cannot be read: {shorten(str(error), 100)}") from None
    jitter = state.get("jitter")
    found.jitter = jitter if isinstance(jitter, int | float) else found.jitter
    return found


def _kind(value: Any) -> tuple[str, dict[str, Any]]:
    """The name of the class, and its state."""
    if isinstance(value, Thing):
        reference, state = value.name, value.state
    elif isinstance(value, list | tuple) and len(value) == 2:
        reference, state = value
    else:
        raise NotCarried("its trigger is missing")
    if isinstance(state, tuple):  # APScheduler 3.0 wrote it like this
        state = state[1]
    if not isinstance(reference, str) or not isinstance(state, dict):
        raise NotCarried("its trigger cannot be read")
    return reference.rpartition(":")[2], state


# -- cron


def _cron(state: dict[str, Any], now: datetime) -> ApsTrigger:
    tz = zone_of(state["timezone"])
    texts = dict(zip(_FIELDS, map(_field_text, state["fields"]), strict=True))
    days, nth = _days(texts["day"])
    weekdays = _values(texts["day_of_week"], 0, 6, _WEEKDAYS)
    pattern = WallPattern(
        second=_values(texts["second"], 0, 59),
        minute=_values(texts["minute"], 0, 59),
        hour=_values(texts["hour"], 0, 23),
        day=days,
        month=_values(texts["month"], 1, 12, _MONTHS),
        weekday=frozenset((day + 1) % 7 for day in weekdays),
        week=_values(texts["week"], 1, 53),
        nth=nth,
    )
    form = _years(texts["year"], tz)
    start, end = (
        _instant(state, "start_date", "start_time"),
        _instant(state, "end_date", "end_time"),
    )
    if start is not None and start > now:
        form["start_at"] = format_instant(start)
    if end is not None:
        form["end_at"] = format_instant(end)
    return ApsTrigger([pattern.trigger(tz)], form)


def _field_text(value: Any) -> str:
    """A field is a string in version 4; in version 3 its expressions are objects."""
    if isinstance(value, str):
        return value
    return ",".join(_expression(one) for one in value.state["expressions"])


def _expression(thing: Any) -> str:
    kind, state = thing.name.rpartition(":")[2], thing.state
    if kind == "LastDayOfMonthExpression":
        return "last"
    if kind == "WeekdayPositionExpression":
        return f"{_POSITIONS[state['option_num']]} {_WEEKDAYS[state['weekday']]}"
    step = f"/{state['step']}" if state.get("step") else ""
    if kind == "AllExpression":
        return f"*{step}"
    first, last = state["first"], state["last"]
    if kind == "MonthRangeExpression" or kind == "WeekdayRangeExpression" or last is not None:
        return f"{first}-{first if last is None else last}{step}"
    return f"{first}{step}"


def _days(text: str) -> tuple[frozenset[int], frozenset[tuple[int, int]]]:
    """Days of the month, and weekdays within it such as `2nd fri`."""
    numbers: set[int] = set()
    nth: set[tuple[int, int]] = set()
    for item in re.split(" *, *", text.strip().lower()):
        if match := _POSITION.fullmatch(item):
            position = _POSITIONS.index(match[1]) + 1
            weekday = (_WEEKDAYS.index(match[2]) + 1) % 7
            nth.add((weekday, -1 if match[1] == "last" else position))
        elif item == "last":
            numbers.add(-1)
        else:
            numbers |= _values(item, 1, 31)
    return frozenset(numbers), frozenset(nth)


def _values(text: str, low: int, high: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    found: set[int] = set()
    for item in re.split(" *, *", text.strip().lower()):
        if item.startswith("*"):
            step = int(item[2:]) if item[1:2] == "/" else 1
            found |= set(range(low, high + 1, step))
            continue
        match = _RANGE.fullmatch(item)
        if match is None:
            raise ValueError(f'"{shorten(item)}" is not a value')
        first = _number(match[1], low, names)
        last = _number(match[2], low, names) if match[2] else (high if match[3] else first)
        found |= set(range(first, last + 1, int(match[3] or 1)))
    if not found or min(found) < low or max(found) > high:
        raise ValueError(f'"{shorten(text)}" is out of range')
    return frozenset(found)


def _number(text: str, low: int, names: tuple[str, ...]) -> int:
    return names.index(text) + low if text in names else int(text)


def _years(text: str, tz: str) -> dict[str, Any]:
    if text == "*":
        return {}
    years = _values(text, _EPOCH_YEAR, 9999)
    if "/" in text or max(years) - min(years) + 1 != len(years):
        raise NotCarried("years that do not follow each other cannot be expressed")
    return dict(within_years(min(years), max(years), tz))


# -- the others


def _interval(state: dict[str, Any], now: datetime) -> ApsTrigger:
    given = state["interval"]
    names = ("weeks", "days", "hours", "minutes", "seconds", "microseconds")
    if not isinstance(given, timedelta):
        given = timedelta(**dict(zip(names, given, strict=True)))
    start = _instant(state, "start_date", "start_time")
    end = _instant(state, "end_date", "end_time")
    if given.microseconds:
        raise NotCarried(f"an interval of {given.total_seconds()} s; the smallest unit is 1 s")
    trigger: dict[str, Any] = {"every": format_duration(given)}
    form: dict[str, Any] = {}
    if start is not None:
        trigger |= {"anchor": format_instant(start.replace(microsecond=0))} | _wall_days(
            state, given
        )
        if start > now:
            form["start_at"] = trigger["anchor"]
    if end is not None:
        form["end_at"] = format_instant(end)
    return ApsTrigger([trigger], form)


def _wall_days(state: dict[str, Any], length: timedelta) -> dict[str, str]:
    """The zone for an interval of whole days: version 4 counts wall days in the zone of its
    start."""
    start = state.get("start_time")
    zone = getattr(start, "tzinfo", None)
    if not isinstance(zone, ZoneInfo) or zone.key == "UTC" or length % timedelta(days=1):
        return {}
    return {"tz": zone.key}


def _date(state: dict[str, Any], now: datetime) -> ApsTrigger:
    moment = _instant(state, "run_date", "run_time")
    if moment is None:
        raise NotCarried("its time is missing")
    if moment <= now:
        raise NotCarried(f"its only time, {format_instant(moment)}, has passed")
    return ApsTrigger([{"at": format_instant(moment)}])


def _calendar_interval(state: dict[str, Any], _now: datetime) -> ApsTrigger:
    years, months, weeks, days = state["interval"]
    hour, minute, second = state["time"]
    if bool(years or months) and bool(weeks or days):
        raise NotCarried("months and days in one interval cannot be expressed")
    freq, interval = (
        ("MONTHLY", years * 12 + months) if years or months else ("DAILY", weeks * 7 + days)
    )
    start, tz = _day(state["start_date"]), zone_of(state["timezone"])
    if start is None:
        raise NotCarried("its start_date is missing")
    day = f";BYMONTHDAY={start.day}" if freq == "MONTHLY" else ""
    rule = f"FREQ={freq};INTERVAL={interval}{day};BYHOUR={hour};BYMINUTE={minute};BYSECOND={second}"
    trigger = {"rrule": rule, "dtstart": start.isoformat()} | ({} if tz == "UTC" else {"tz": tz})
    end = _day(state.get("end_date"))
    if end is None:
        return ApsTrigger([trigger])
    last = day_start(end + timedelta(days=1), tz) - timedelta(seconds=1)
    return ApsTrigger([trigger], {"end_at": format_instant(last)})


def _either(state: dict[str, Any], now: datetime) -> ApsTrigger:
    parts = [read_aps_trigger(one, now) for one in state["triggers"]]
    if any(part.form for part in parts):
        raise NotCarried("OrTrigger with triggers that begin or end cannot be expressed")
    return ApsTrigger([trigger for part in parts for trigger in part.triggers])


def _both(_state: dict[str, Any], _now: datetime) -> ApsTrigger:
    raise NotCarried("AndTrigger cannot be expressed: a schedule is due when any trigger is")


def _day(value: Any) -> date | None:
    return date.fromisoformat(value) if isinstance(value, str) else value


def _instant(state: dict[str, Any], *keys: str) -> datetime | None:
    """A time with its zone; a string in JSON."""
    value = next((state[key] for key in keys if state.get(key) is not None), None)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ValueError(f"{shorten(value)} has no time zone")
    return value.astimezone(UTC)


_READERS: Final = {
    "CronTrigger": _cron,
    "IntervalTrigger": _interval,
    "DateTrigger": _date,
    "CalendarIntervalTrigger": _calendar_interval,
    "OrTrigger": _either,
    "AndTrigger": _both,
}
