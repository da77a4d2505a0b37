"""Describes a recurrence rule in a sentence; decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.triggers.words import MONTHS, ORDINALS, WEEKDAYS, clock, join, runs, weekday_list

if TYPE_CHECKING:
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


def describe_rule(rule: Rule) -> str:
    """For example "Every month on the last Friday at 09:00", for a rule with its defaults."""
    unit = _UNITS[rule.freq]
    start = f"Every {unit}" if rule.interval == 1 else f"Every {rule.interval} {unit}s"
    parts = [start, _days(rule), _months(rule), _times(rule), _position(rule, unit)]
    return " ".join(part for part in parts if part) + _limits(rule)


def _months(rule: Rule) -> str:
    months = rule.get("BYMONTH")
    if not months or _one_date(rule):
        return ""
    return f"in {runs([m - 1 for m in months], MONTHS)}"


def _one_date(rule: Rule) -> bool:
    """Whether the rule names a date such as 14 February."""
    by = (rule.get("BYMONTH"), rule.get("BYMONTHDAY"))
    plain = all(len(values) == 1 for values in by) and by[1][0] > 0
    return plain and not (rule.byday or rule.get("BYYEARDAY") or rule.get("BYWEEKNO"))


def _days(rule: Rule) -> str:
    if _one_date(rule):
        return f"on {rule.get('BYMONTHDAY')[0]} {MONTHS[rule.get('BYMONTH')[0] - 1]}"
    parts = [
        _numbered("day", "of the month", rule.get("BYMONTHDAY")),
        _numbered("day", "of the year", rule.get("BYYEARDAY")),
    ]
    dates = [part for part in parts if part]
    weekdays = _weekdays(rule, "or" if dates else "and")
    weeks = _numbered("week", "of the year", rule.get("BYWEEKNO"))
    text = " and ".join([f"on {part}" for part in dates])
    if weekdays:
        text = f"{text}, if it is {weekdays}," if text else f"on {weekdays}"
    return f"{text} of {weeks}" if weeks else text


def _numbered(unit: str, whole: str, numbers: tuple[int, ...]) -> str:
    if not numbers:
        return ""
    if numbers == (-1,):
        return f"the last {unit} {whole}"
    shown = join([str(n) if n > 0 else f"{_ordinal(n)}" for n in numbers], "or")
    return f"{unit} {shown} {whole}"


def _weekdays(rule: Rule, last: str) -> str:
    plain = [(day + 1) % 7 for day, nth in rule.byday if nth == 0]
    parts = [weekday_list(plain, last)] if plain else []
    if plain and rule.freq in ("MONTHLY", "YEARLY") and not rule.get("BYWEEKNO"):
        parts = [f"every {parts[0]}"]
    for day, nth in rule.byday:
        if nth:
            parts.append(f"the {_ordinal(nth)} {WEEKDAYS[(day + 1) % 7]}")
    return join(parts, last)


def _ordinal(nth: int) -> str:
    if nth == -1:
        return "last"
    if nth < 0:
        return f"{_ordinal(-nth)} to last"
    if nth < len(ORDINALS):
        return ORDINALS[nth]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(nth % 10, "th") if nth // 10 % 10 != 1 else "th"
    return f"{nth}{ending}"


def _times(rule: Rule) -> str:
    hours, minutes, seconds = (rule.get(name) for name in ("BYHOUR", "BYMINUTE", "BYSECOND"))
    if rule.below_a_day:
        return _fields(("hour", hours), ("minute", minutes), ("second", seconds))
    times = [clock(h * 3_600 + m * 60 + s) for h in hours for m in minutes for s in seconds]
    if len(times) > _MOST_TIMES:
        return f"at {len(times)} times from {times[0]} to {times[-1]}"
    return f"at {join(times)}"


def _fields(*named: tuple[str, tuple[int, ...]]) -> str:
    """Hours, minutes and seconds of a rule below a day; second 0 is not mentioned."""
    parts = [
        f"{name}{'s' if len(values) > 1 else ''} {join([str(v) for v in values])}"
        for name, values in named
        if values and (name, values) != ("second", (0,))
    ]
    return f"at {', '.join(parts)}" if parts else ""


def _position(rule: Rule, unit: str) -> str:
    positions = rule.get("BYSETPOS")
    return (
        f"(only the {join([_ordinal(p) for p in positions])} of these in a {unit})"
        if positions
        else ""
    )


def _limits(rule: Rule) -> str:
    text = (
        f", until {rule.until:%Y-%m-%d %H:%M}{'Z' if rule.until.tzinfo else ''}"
        if rule.until
        else ""
    )
    return text + (
        f", {'once' if rule.count == 1 else f'{rule.count} times'}" if rule.count else ""
    )
