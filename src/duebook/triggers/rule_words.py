"""Says in a sentence what a recurrence rule means; decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.triggers.words import MONTHS, ORDINALS, WEEKDAYS, clock, join, runs, weekday_list

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.triggers.rules import Rule

__all__ = ["describe_rule"]

_UNITS: Final = {
    "YEARLY": "year",
    "MONTHLY": "month",
    "WEEKLY": "week",
    "DAILY": "day",
    "HOURLY": "hour",
    "MINUTELY": "minute",
    "SECONDLY": "second",
}
_MOST_TIMES: Final = 6


def describe_rule(rule: Rule, begin: datetime | None) -> str:
    """For example "Every month on the last Friday at 09:00, from 2026-01-01"."""
    unit = _UNITS[rule.freq]
    start = f"Every {unit}" if rule.interval == 1 else f"Every {rule.interval} {unit}s"
    parts = [start, _months(rule), _days(rule, begin), _position(rule), _times(rule, begin)]
    text = " ".join(part for part in parts if part)
    return text + _limits(rule, begin)


def _months(rule: Rule) -> str:
    months = rule.get("BYMONTH")
    return f"in {runs([m - 1 for m in months], MONTHS)}" if months else ""


def _days(rule: Rule, begin: datetime | None) -> str:
    parts = [
        _numbered("day", "of the month", rule.get("BYMONTHDAY")),
        _numbered("day", "of the year", rule.get("BYYEARDAY")),
        _numbered("week", "of the year", rule.get("BYWEEKNO")),
        _weekdays(rule),
    ]
    parts = [part for part in parts if part]
    if parts:
        return f"on {' that is '.join(parts)}"
    return _default_day(rule, begin)


def _default_day(rule: Rule, begin: datetime | None) -> str:
    if begin is None or rule.freq not in ("YEARLY", "MONTHLY", "WEEKLY"):
        return ""
    if rule.freq == "WEEKLY":
        return f"on {WEEKDAYS[begin.isoweekday() % 7]}"
    if rule.freq == "YEARLY" and not rule.get("BYMONTH"):
        return f"on {begin.day} {MONTHS[begin.month - 1]}"
    return f"on day {begin.day}"


def _numbered(unit: str, whole: str, numbers: tuple[int, ...]) -> str:
    if not numbers:
        return ""
    if numbers == (-1,):
        return f"the last {unit} {whole}"
    shown = join([str(n) if n > 0 else f"{-n} from the end" for n in numbers])
    return f"{unit}{'s' if len(numbers) > 1 else ''} {shown} {whole}"


def _weekdays(rule: Rule) -> str:
    plain = [(day + 1) % 7 for day, nth in rule.byday if nth == 0]
    parts = [weekday_list(plain)] if plain else []
    for day, nth in rule.byday:
        if nth:
            parts.append(f"the {_ordinal(nth)} {WEEKDAYS[(day + 1) % 7]}")
    return join(parts)


def _ordinal(nth: int) -> str:
    if nth == -1:
        return "last"
    if nth < 0:
        return f"{_ordinal(-nth)} to last"
    return ORDINALS[nth] if nth < len(ORDINALS) else f"{nth}th"


def _position(rule: Rule) -> str:
    positions = rule.get("BYSETPOS")
    return f"(only the {join([_ordinal(p) for p in positions])} of these)" if positions else ""


def _times(rule: Rule, begin: datetime | None) -> str:
    if rule.below_a_day:
        named = [(n, rule.get(n)) for n in ("BYHOUR", "BYMINUTE", "BYSECOND") if rule.get(n)]
        return join(
            [f"in {name[2:].lower()} {join([str(v) for v in values])}" for name, values in named]
        )
    hours = rule.get("BYHOUR") or (begin.hour if begin else 0,)
    minutes = rule.get("BYMINUTE") or (begin.minute if begin else 0,)
    seconds = rule.get("BYSECOND") or (begin.second if begin else 0,)
    times = [clock(h * 3_600 + m * 60 + s) for h in hours for m in minutes for s in seconds]
    if len(times) > _MOST_TIMES:
        return f"at {len(times)} times from {times[0]} to {times[-1]}"
    return f"at {join(times)}"


def _limits(rule: Rule, begin: datetime | None) -> str:
    parts = [f"from {begin:%Y-%m-%d}"] if begin else []
    if rule.until:
        parts.append(f"until {rule.until:%Y-%m-%d %H:%M}")
    if rule.count:
        parts.append(f"{rule.count} times" if rule.count > 1 else "once")
    return f", {', '.join(parts)}" if parts else ""
