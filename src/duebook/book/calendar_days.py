"""The days that a calendar stands for: dates, weekdays, rules, public holidays, iCal files and
other calendars. Only here does anybody ask the `holidays` package."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, InvalidTrigger, shorten
from duebook.model.calendar_days import FIRST_DAY, LAST_DAY, DaySet
from duebook.triggers.rrule import rrule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from duebook.model.calendar import CalendarRule, DaySource
    from duebook.triggers.rrule import Rrule

__all__ = ["resolve"]

YEARS: Final = range(FIRST_DAY.year, LAST_DAY.year + 1)
MOST_EVENTS: Final = 10_000
_DAY: Final = timedelta(days=1)


def resolve(rule: CalendarRule, others: Mapping[str, DaySet]) -> DaySet:
    """The days of a calendar; `others` are those that it refers to. Raises Invalid."""
    days = _days_of(rule.days, others)
    without = rule.without.to_json()
    return days - _days_of(rule.without, others) if without else days


def _days_of(source: DaySource, others: Mapping[str, DaySet]) -> DaySet:
    found = DaySet.of(_listed(source))
    for name in source.calendars:
        if name not in others:
            raise Invalid(f'calendars: calendar "{name}" does not exist')
        found = found | others[name]
    return found


def _listed(source: DaySource) -> Iterator[date]:
    for days in source.dates:
        yield from _range(max(days.first, FIRST_DAY), min(days.last, LAST_DAY))
    if source.weekdays:
        wanted = set(source.weekdays)
        yield from (d for d in _range(FIRST_DAY, LAST_DAY) if d.weekday() in wanted)
    for rule in source.rrule:
        yield from _recurring(_rule(rule, None))
    for place in source.holidays:
        yield from _holidays(place)
    if source.ical:
        yield from _events(source.ical)


def _range(first: date, last: date) -> Iterator[date]:
    while first <= last:
        yield first
        first += _DAY


def _rule(text: str, start: date | None) -> Rrule:
    try:
        return rrule(text, dtstart=start)
    except InvalidTrigger as error:
        raise Invalid(f"rrule: {str(error).removeprefix('rrule ')}") from None


def _recurring(rule: Rrule) -> Iterator[date]:
    last = datetime(LAST_DAY.year, 12, 31, tzinfo=UTC)
    at = rule.next_after(datetime(FIRST_DAY.year, 1, 1, tzinfo=UTC) - _DAY)
    while at is not None and at <= last:
        yield at.date()
        at = rule.next_after(at)


def _holidays(place: str) -> Iterable[date]:
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
    return sorted(found)


# -- iCal


def _events(text: str) -> Iterator[date]:
    """The days of the events of an iCal file (RFC 5545), recurring ones too."""
    number = 0
    for number, event in enumerate(_read_events(text), 1):
        if number > MOST_EVENTS:
            raise Invalid(f"ical has more than {MOST_EVENTS:,} events")
        yield from _days_of_event(event)
    if not number:
        raise Invalid("ical has no events (VEVENT); is it an iCal file?")


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


def _days_of_event(event: dict[str, list[str]]) -> Iterator[date]:
    if "DTSTART" not in event or "CANCELLED" in event.get("STATUS", ()):
        return
    start = _date(event["DTSTART"][0])
    last = start
    if "DTEND" in event:
        end = event["DTEND"][0]
        midnight = "T" not in end or end.partition("T")[2].startswith("000000")
        last = max(start, _date(end) - (_DAY if midnight else timedelta()))
    starts = {start, *_dates(event.get("RDATE", ()))}
    for rule in event.get("RRULE", ()):
        starts.update(_recurring(_rule(rule, start)))
    for day in starts - _dates(event.get("EXDATE", ())):
        yield from _range(max(day, FIRST_DAY), min(day + (last - start), LAST_DAY))


def _dates(values: Iterable[str]) -> set[date]:
    return {_date(part) for value in values for part in value.split(",")}


def _date(value: str) -> date:
    try:
        return datetime.strptime(value[:8], "%Y%m%d").date()  # noqa: DTZ007 - a calendar day
    except ValueError:
        raise Invalid(f'ical: "{shorten(value)}" is not a date such as 20261225') from None
