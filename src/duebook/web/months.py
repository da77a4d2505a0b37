"""Shows the days of a calendar as months and in words; pure."""

from __future__ import annotations

from calendar import Calendar as Weeks
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass
from duebook.model.calendar_days import FIRST_DAY, LAST_DAY, DaySet
from duebook.model.fields import DateRange

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SHOWN", "Month", "first_month", "months_from", "next_inside", "next_outside", "span"]

SHOWN: Final = 6
"""Months on a page."""
LOOKED: Final = timedelta(days=400)
_WEEKS: Final = Weeks()


@dataclass(frozen=True, slots=True)
class Month:
    """A month, Monday first."""

    first: date
    weeks: Sequence[Sequence[date | None]]
    """None for a day of another month"""
    inside: frozenset[date]
    """the days of the month that the calendar contains"""


def first_month(text: str, today: date) -> date:
    """The month that a URL names, such as 2026-12, within bounds; by default the current month."""
    try:
        asked = date.fromisoformat(f"{text}-01")
    except ValueError:
        asked = today.replace(day=1)
    return min(max(asked, FIRST_DAY), LAST_DAY.replace(day=1))


def months_from(days: DaySet, first: date, count: int = SHOWN) -> list[Month]:
    """`count` months, but none after LAST_DAY, the end of every calendar."""
    found: list[Month] = []
    while len(found) < count and first <= LAST_DAY:
        following = month_after(first, 1)
        inside = frozenset(days.between(first, following - timedelta(days=1)))
        weeks = [
            [day if day.month == first.month else None for day in week]
            for week in _WEEKS.monthdatescalendar(first.year, first.month)
        ]
        found.append(Month(first, weeks, inside))
        first = following
    return found


def month_after(first: date, months: int) -> date:
    """The first day of the month that is `months` later, or earlier if negative."""
    number = first.year * 12 + first.month - 1 + months
    return date(number // 12, number % 12 + 1, 1)


def next_inside(days: DaySet, today: date) -> DateRange | None:
    """The next range of days in the calendar, from today on; None if there is none in 400 days."""
    return next(iter(days.ranges(today, today + LOOKED)), None)


def next_outside(days: DaySet, today: date) -> DateRange | None:
    """The next range of days that are not in the calendar; None if there is none in 400 days."""
    every = (today + timedelta(days=number) for number in range(LOOKED.days))
    return next_inside(DaySet.of(every) - days, today)


def span(days: DateRange | str, today: date) -> str:
    """A range of days in words: Thu 24 Dec to Sat 2 Jan 2027 (in 37 d)."""
    first, last = _ends(days)
    told = _day(first, today)
    if last > first:
        told = f"{told} to {_day(last, today)}"
    return f"{told} ({_away(first, last, today)})"


def _ends(days: DateRange | str) -> tuple[date, date]:
    if isinstance(days, str):
        first, _, last = days.partition("/")
        return date.fromisoformat(first), date.fromisoformat(last or first)
    return days.first, days.last


def _day(day: date, today: date) -> str:
    year = "" if day.year == today.year else f" {day.year}"
    return f"{day:%a} {day.day} {day:%b}{year}"


def _away(first: date, last: date, today: date) -> str:
    if first <= today <= last:
        return "today"
    days = (first - today).days
    return f"in {days:,} d" if days > 0 else f"{(today - last).days:,} d ago"
