"""Describes the fields of a cron expression in a sentence; decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.triggers.words import MONTHS, ORDINALS, WEEKDAYS, clock, join, runs, weekday_list

if TYPE_CHECKING:
    from duebook.triggers.fields import Field, Fields

__all__ = ["describe_fields"]

_NUMBERS: Final = tuple(str(n) for n in range(60))
_MOST_TIMES: Final = 6
"""Up to this many times of day are listed one by one; more are described by their fields."""


def describe_fields(fields: Fields) -> str:
    """For example "Every 15 minutes from 09:00 to 17:45, Monday to Friday"."""
    times = _times(fields)
    days = _days(fields)
    if not days and times.startswith("At") and " of every " not in times:
        return f"{times} every day"
    return f"{times}, {days}" if days else times


def _times(fields: Fields) -> str:
    hour, minute, second = fields.hour, fields.minute, fields.second
    few = _size(hour) * _size(minute) * _size(second) <= _MOST_TIMES
    if few and not hour.unrestricted and not (_even_step(hour) and _size(minute) == 1):
        return f"At {join(_all_times(fields))}"
    if second.values == (0,):
        return _minutes(hour, minute)
    return _seconds(hour, minute, second)


def _all_times(fields: Fields) -> list[str]:
    return [
        clock(h * 3_600 + m * 60 + s)
        for h in fields.hour.values
        for m in fields.minute.values
        for s in fields.second.values
    ]


def _minutes(hour: Field, minute: Field) -> str:
    if _size(minute) == 1:
        return _once_an_hour(hour, minute.values[0])
    phrase = _recurring(minute, "minute")
    if hour.unrestricted:
        return phrase if phrase.startswith("Every") else f"{phrase} of every hour"
    return f"{phrase} {_within_hours(hour, minute.values[0], minute.values[-1])}"


def _once_an_hour(hour: Field, minute: int) -> str:
    if hour.unrestricted:
        return "Every hour" if minute == 0 else f"Every hour at minute {minute}"
    first = clock(hour.values[0] * 3_600 + minute * 60)
    last = clock(hour.values[-1] * 3_600 + minute * 60)
    if step := _even_step(hour):
        return f"Every {step} hours from {first}"
    if _contiguous(hour):
        return f"Every hour from {first} to {last}"
    return f"At minute {minute} of hours {runs(hour.values, _NUMBERS)}"


def _within_hours(hour: Field, first_minute: int, last_minute: int) -> str:
    if _contiguous(hour):
        first = clock(hour.values[0] * 3_600 + first_minute * 60)
        return f"from {first} to {clock(hour.values[-1] * 3_600 + last_minute * 60)}"
    return f"in hours {runs(hour.values, _NUMBERS)}"


def _seconds(hour: Field, minute: Field, second: Field) -> str:
    phrase = _recurring(second, "second")
    if hour.unrestricted and minute.unrestricted:
        return phrase if phrase.startswith("Every") else f"{phrase} of every minute"
    minutes = "every minute" if minute.unrestricted else _plural("minute", minute)
    hours = "every hour" if hour.unrestricted else _plural("hour", hour)
    return f"{phrase} in {minutes} of {hours}"


def _recurring(field: Field, unit: str) -> str:
    if field.unrestricted:
        return f"Every {unit}"
    if step := _even_step(field):
        return f"Every {step} {unit}s"
    return f"At {_plural(unit, field)}"


def _plural(unit: str, field: Field) -> str:
    return f"{unit}{'s' if _size(field) > 1 else ''} {runs(field.values, _NUMBERS)}"


def _size(field: Field) -> int:
    return len(field.values)


def _contiguous(field: Field) -> bool:
    return field.values[-1] - field.values[0] + 1 == _size(field)


def _even_step(field: Field) -> int:
    """The distance of the values if it is the same all the way round, else 0."""
    values, span = field.values, field.spec.high + 1
    if len(values) < 2 or values[0] != 0:
        return 0
    step = values[1] - values[0]
    even = span % step == 0 and values == tuple(range(0, span, step))
    return step if even and step > 1 else 0


def _days(fields: Fields) -> str:
    of_month, of_week, month = fields.day_of_month, fields.day_of_week, fields.month
    months = "" if month.unrestricted else runs([m - 1 for m in month.values], MONTHS)
    if fields.either_day and (of_month.unrestricted or of_week.unrestricted):
        return f"every day in {months}" if months else ""
    if _one_date(of_month) and of_week.unrestricted and _size(month) == 1:
        return f"on {of_month.values[0]} {months}"
    days = _day_parts(of_month, of_week, fields.either_day)
    if months and " or on " in days:
        return f"in {months}: {days}"
    return " ".join(part for part in (days, f"in {months}" if months else "") if part)


def _one_date(of_month: Field) -> bool:
    return _size(of_month) == 1 and not of_month.specials


def _day_parts(of_month: Field, of_week: Field, either: bool) -> str:
    month_days = "" if of_month.unrestricted else f"on {_of_month(of_month)}"
    week_days = "" if of_week.unrestricted else _of_week(of_week)
    if not month_days or not week_days:
        return month_days or week_days
    if either:
        return f"{month_days}, or on {week_days.removeprefix('on ')}"
    return f"{month_days}, if it is {_of_week(of_week, 'or').removeprefix('on ')}"


def _of_month(field: Field) -> str:
    parts = []
    if field.values:
        word = "days" if _size(field) > 1 else "day"
        parts.append(f"{word} {runs(field.values, _NUMBERS)}")
    for kind, day in field.specials:
        if kind == "L":
            parts.append("the last day")
        elif kind == "LW":
            parts.append("the last working day")
        else:
            parts.append(f"the working day nearest to day {day}")
    return f"{join(parts)} of the month"


def _of_week(field: Field, last: str = "and") -> str:
    parts = []
    if field.values:
        parts.append(weekday_list(field.values, last))
    for kind, number in field.specials:
        if kind == "#":
            weekday, nth = divmod(number, 10)
            parts.append(f"the {ORDINALS[nth]} {WEEKDAYS[weekday]} of the month")
        else:
            parts.append(f"the last {WEEKDAYS[number]} of the month")
    text = join(parts, last)
    return text if " to " in text and len(parts) == 1 else f"on {text}"
