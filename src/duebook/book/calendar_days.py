"""Resolves the days of a calendar: dates, weekdays, rules, public holidays, iCal files and other
calendars. The only user of the `holidays` package."""

from __future__ import annotations

import re
from datetime import date, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, InvalidTrigger, shorten
from duebook.model.calendar_days import FIRST_DAY, LAST_DAY, MOST_DAYS, DaySet
from duebook.triggers.days import EPOCH_ORDINAL
from duebook.triggers.rrule import rrule
from duebook.triggers.zones import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from duebook.budget import Budget
    from duebook.model.calendar import CalendarRule, DaySource

__all__ = ["Resolver", "resolve"]

YEARS: Final = range(FIRST_DAY.year, LAST_DAY.year + 1)
MOST_EVENTS: Final = 10_000
MOST_RECURRENCES: Final = 2_000_000
"""Of all rules, events and public holidays that are resolved together; takes some seconds."""
_FIRST: Final = FIRST_DAY.toordinal()
_LAST: Final = LAST_DAY.toordinal()
_DURATION: Final = re.compile(
    r"\+?P(?:(\d{1,5})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,7})H)?(?:(\d{1,8})M)?(?:(\d{1,9})S)?)?$"
)
_REMEDY: Final = "use fewer recurring events and rules, or end them with UNTIL"


def resolve(rule: CalendarRule, others: Mapping[str, DaySet]) -> DaySet:
    """The days of one calendar, resolved by a Resolver."""
    return Resolver().resolve(rule, others)


class Resolver:
    """Resolves calendars that are saved together. One limit covers the work for all of them, and
    one `budget`; raises OverBudget when it is used up."""

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget
        self._left = MOST_RECURRENCES

    def resolve(self, rule: CalendarRule, others: Mapping[str, DaySet]) -> DaySet:
        """The days of a calendar; `others` are those that it refers to. Raises Invalid."""
        days = self._days_of(rule.days, others)
        without = rule.without.to_json()
        return days - self._days_of(rule.without, others) if without else days

    def _days_of(self, source: DaySource, others: Mapping[str, DaySet]) -> DaySet:
        marks = _Marks()
        for days in source.dates:
            marks.add(days.first.toordinal(), days.last.toordinal())
        for day in self._single(source):
            marks.add(day, day)
        if source.ical:
            self._mark_events(source.ical, marks)
        found = marks.days()
        for name in source.calendars:
            if name not in others:
                raise Invalid(f'calendars: calendar "{name}" does not exist')
            found = found | others[name]
        return found

    def _single(self, source: DaySource) -> Iterator[int]:
        if source.weekdays:
            wanted = set(source.weekdays)
            yield from (day for day in range(_FIRST, _LAST + 1) if (day - 1) % 7 in wanted)
        for text in source.rrule:
            yield from self._counted(_recurrences(text, None, _FIRST))
        for place in source.holidays:
            yield from self._counted(_holidays(place))

    def _counted(self, days: Iterable[int]) -> Iterator[int]:
        for day in days:
            self._left -= 1
            if self._left < 0:
                raise Invalid(
                    f"the rules and events of the calendar, and of those that refer to it, recur "
                    f"more than {MOST_RECURRENCES:,} times from 2000 to 2099; {_REMEDY}"
                )
            if self._budget is not None:
                self._budget.spend(_REMEDY)
            yield day

    def _mark_events(self, text: str, marks: _Marks) -> None:
        """Mark the days of the events of an iCal file (RFC 5545), including recurring ones."""
        number = 0
        for number, event in enumerate(_read_events(text), 1):
            if number > MOST_EVENTS:
                raise Invalid(f"ical has more than {MOST_EVENTS:,} events")
            self._mark_event(event, marks)
        if not number:
            raise Invalid("ical has no events (VEVENT); is it an iCal file?")

    def _mark_event(self, event: dict[str, list[str]], marks: _Marks) -> None:
        if "DTSTART" not in event or "CANCELLED" in event.get("STATUS", ()):
            return
        begin = _date(event["DTSTART"][0])
        start = last = begin.toordinal()
        if "DTEND" in event:
            end = event["DTEND"][0]
            midnight = "T" not in end or end.partition("T")[2].startswith("000000")
            last = max(start, _date(end).toordinal() - midnight)
        elif "DURATION" in event:
            last += _more_days(event["DTSTART"][0], event["DURATION"][0])
        added = (_date(value).toordinal() for value in _split(event.get("RDATE", ())))
        starts = {start, *self._counted(added)}
        since = max(_FIRST - (last - start), 1)
        for rule in event.get("RRULE", ()):
            starts.update(self._counted(_recurrences(rule, begin, since)))
        exceptions = (e for e in _split(event.get("EXDATE", ())) if _may_be(e, event["DTSTART"][0]))
        for day in starts.difference(_date(e).toordinal() for e in exceptions):
            marks.add(day, day + last - start)


class _Marks:
    """Ranges of days; each costs the same, however long it is."""

    def __init__(self) -> None:
        self._changes = [0] * (MOST_DAYS + 1)
        """how many ranges start on a day, less those that ended the day before"""

    def add(self, first: int, last: int) -> None:
        """Days as ordinals; those outside the hundred years are ignored."""
        if last >= _FIRST and first <= _LAST:
            self._changes[max(first, _FIRST) - _FIRST] += 1
            self._changes[min(last, _LAST) - _FIRST + 1] -= 1

    def days(self) -> DaySet:
        return DaySet.of_flags(bytes(depth > 0 for depth in accumulate(self._changes[:-1])))


def _recurrences(text: str, start: date | None, since: int) -> Iterator[int]:
    """The days of a rule, from `since` to 2099, each once."""
    try:
        timeline = rrule(text, dtstart=start).timeline
    except InvalidTrigger as error:
        raise Invalid(f"rrule: {str(error).removeprefix('rrule ')}") from None
    at = timeline.next((since - EPOCH_ORDINAL) * DAY - 1)
    while at is not None and (day := at // DAY + EPOCH_ORDINAL) <= _LAST:
        yield day
        at = timeline.next((day - EPOCH_ORDINAL + 1) * DAY - 1)


def _holidays(place: str) -> list[int]:
    """The public holidays of a country such as BE, or of a part of one such as DE-BY."""
    try:
        import holidays
    except ImportError:
        raise Invalid(
            f'holidays "{shorten(place)}" needs holidays, which is not installed: '
            "pip install 'holidays>=0.80,<1'"
        ) from None
    country, _, part = place.upper().partition("-")
    try:
        found: Any = holidays.country_holidays(country, subdiv=part or None, years=YEARS)
    except NotImplementedError as error:
        raise Invalid(f'holidays "{shorten(place)}" is not known: {shorten(str(error))}') from None
    return [day.toordinal() for day in found]


# -- iCal


def _read_events(text: str) -> Iterator[dict[str, list[str]]]:
    lines = text.replace("\r\n", "\n").replace("\n ", "").replace("\n\t", "").split("\n")
    event: dict[str, list[str]] | None = None
    for line in lines:
        head, _, value = line.partition(":")
        name = head.partition(";")[0].upper()
        if (name, value.upper()) == ("BEGIN", "VEVENT"):
            event = {}
        elif (name, value.upper()) == ("END", "VEVENT") and event is not None:
            yield event
            event = None
        elif event is not None:
            event.setdefault(name, []).append(value.strip())


def _more_days(start: str, duration: str) -> int:
    """Days after the first one that an event lasts, given a length such as P3D or PT36H."""
    found = _DURATION.match(duration.upper())
    if found is None or not any(found.groups()):
        raise Invalid(f'ical: DURATION "{shorten(duration)}" is not a length such as P3D or PT2H')
    weeks, days, *parts = (int(part or 0) for part in found.groups())
    clock = start[9:15] if start[9:15].isdecimal() else ""
    hours, minutes, seconds = (int(clock[n : n + 2] or 0) for n in (0, 2, 4))
    seconds += parts[2] + 60 * (minutes + parts[1]) + 3_600 * (hours + parts[0])
    return min(max(7 * weeks + days + -(-seconds // DAY) - 1, 0), MOST_DAYS)


def _split(values: Iterable[str]) -> Iterator[str]:
    return (part for value in values for part in value.split(","))


def _may_be(exception: str, start: str) -> bool:
    """Whether an exception may refer to a recurrence that starts at the time of `start`. It does
    not if both have a time, by the same clock, and the times differ."""
    times = exception[8:], start[8:]
    same_clock = exception.endswith("Z") == start.endswith("Z")
    return not all(times) or not same_clock or times[0] == times[1]


def _date(value: str) -> date:
    try:
        return datetime.strptime(value[:8], "%Y%m%d").date()  # noqa: DTZ007 - a calendar day
    except ValueError:
        raise Invalid(f'ical: "{shorten(value)}" is not a date such as 20261225') from None
