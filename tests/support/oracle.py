"""Knows, slowly and by brute force, which instants a trigger must yield; shares nothing with it.

Every wall time of every local day is tried in turn: does it match, does it exist in the zone, how
often does it exist? Time zones come straight from the files of the pinned tzdata package.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

MONTH_NAMES = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAY_NAMES = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]

TOO_LONG_A_GAP = 3 * HOUR
# No zone has set its clocks back by more than this since 1970 (Vostok did, in 1994).
LONGEST_FOLD = 7 * HOUR


@dataclass(frozen=True)
class Rule:
    """Which wall times match, in which zone, and what its gaps and folds do to them."""

    tz: str
    falls_on: Callable[[date], bool]
    times: tuple[time, ...]
    follows_real_time: bool = False
    gap: str = "run_after"
    fold: str = "first"


# Zones


@cache
def zone(name: str) -> ZoneInfo:
    """The zone from the tzdata package, not from the machine."""
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def zone_names() -> list[str]:
    return resources.files("tzdata").joinpath("zones").read_text().split()


def distinct_zone_names() -> list[str]:
    """One name for each different content: many names are links to the same data."""
    folder = resources.files("tzdata").joinpath("zoneinfo")
    by_content: dict[bytes, str] = {}
    for name in zone_names():
        by_content.setdefault(folder.joinpath(*name.split("/")).read_bytes(), name)
    return sorted(by_content.values())


def wall_at(instant: datetime, tz: str) -> datetime:
    """What a wall clock shows."""
    return instant.astimezone(zone(tz)).replace(tzinfo=None, fold=0)


def offset_at(instant: datetime, tz: str) -> timedelta:
    offset = instant.astimezone(zone(tz)).utcoffset()
    assert offset is not None
    return offset


def instants_of(wall: datetime, tz: str) -> list[datetime]:
    """Every instant at which the clock shows this time: none in a gap, two in a fold."""
    guesses = {wall.replace(tzinfo=zone(tz), fold=fold).astimezone(UTC) for fold in (0, 1)}
    return sorted(guess for guess in guesses if wall_at(guess, tz) == wall)


def change_between(before: datetime, after: datetime, tz: str) -> datetime:
    """The first instant with the new offset, when exactly one change lies in (before, after]."""
    while after - before > SECOND:
        middle = before + (after - before) // 2 // SECOND * SECOND
        if offset_at(middle, tz) == offset_at(before, tz):
            before = middle
        else:
            after = middle
    return after


@cache
def transitions(tz: str, first_year: int, last_year: int) -> list[datetime]:
    """Every instant in those years at which the offset changes, found by checking each day."""
    days = (date(last_year + 1, 1, 1) - date(first_year, 1, 1)).days
    noons = [datetime(first_year, 1, 1, 12, tzinfo=UTC) + n * DAY for n in range(-1, days + 1)]
    offsets = [offset_at(noon, tz) for noon in noons]
    changed = [n for n in range(len(noons) - 1) if offsets[n] != offsets[n + 1]]
    found = [change_between(noons[n], noons[n + 1], tz) for n in changed]
    return [instant for instant in found if first_year <= instant.year <= last_year]


def jump_at(transition: datetime, tz: str) -> timedelta:
    """How far the clock leaps: forwards (a gap) above zero, backwards (a fold) below."""
    return offset_at(transition, tz) - offset_at(transition - SECOND, tz)


def end_of_gap(wall: datetime, tz: str) -> datetime:
    """The end of the gap that this wall time is in."""
    early = wall.replace(tzinfo=zone(tz), fold=1).astimezone(UTC)
    late = wall.replace(tzinfo=zone(tz), fold=0).astimezone(UTC)
    return change_between(early, late, tz)


# Due times


def due_times(rule: Rule, start: datetime, end: datetime) -> list[datetime]:
    """The due times in (start, end], in order, each once."""
    found: set[datetime] = set()
    for wall in matching_walls(rule, start, end):
        found.update(instant for instant in due_for(rule, wall) if start < instant <= end)
    return sorted(found)


def due_for(rule: Rule, wall: datetime) -> list[datetime]:
    """The due times that result from one matching wall time."""
    instants = instants_of(wall, rule.tz)
    if not instants:
        moved = moved_to(rule, wall)
        return [moved] if moved else []
    if rule.follows_real_time or rule.fold == "both":
        return instants
    return instants[:1]


def moved_to(rule: Rule, wall: datetime) -> datetime | None:
    """Where a wall time in a gap is moved: to the end of the gap, or nowhere."""
    gap_ends = end_of_gap(wall, rule.tz)
    too_long = jump_at(gap_ends, rule.tz) >= TOO_LONG_A_GAP
    if rule.follows_real_time or rule.gap == "skip" or too_long:
        return None
    return gap_ends


def omissions(rule: Rule, start: datetime, end: datetime) -> list[tuple[datetime, datetime | None]]:
    """Each matching wall time that a gap removed and where it went, for gaps in (start, end]."""
    return [
        (wall, moved_to(rule, wall))
        for wall in matching_walls(rule, start, end)
        if not instants_of(wall, rule.tz) and start < end_of_gap(wall, rule.tz) <= end
    ]


def matching_walls(rule: Rule, start: datetime, end: datetime) -> Iterator[datetime]:
    """Matching wall times, existing or not, that may result in a due time in (start, end]; in
    order."""
    first = wall_at(start, rule.tz) - LONGEST_FOLD
    last = wall_at(end, rule.tz) + LONGEST_FOLD
    for n in range((last.date() - first.date()).days + 1):
        day = first.date() + n * DAY
        if rule.falls_on(day):
            walls = (datetime.combine(day, moment) for moment in rule.times)
            yield from (wall for wall in walls if first <= wall <= last)


# Rules


def daily_rule(times: list[str], tz: str, gap: str = "run_after", fold: str = "first") -> Rule:
    moments = tuple(sorted(time.fromisoformat(text) for text in times))
    return Rule(tz, lambda _: True, moments, gap=gap, fold=fold)


def weekly_rule(text: str, tz: str, gap: str = "run_after", fold: str = "first") -> Rule:
    """``text`` has the form "MON,FRI 09:00"."""
    days, moment = text.split()
    names = days.split(",")
    times = (time.fromisoformat(moment),)
    return Rule(tz, lambda day: day_name(day) in names, times, gap=gap, fold=fold)


def calendar_rule(
    days: int, anchor: datetime, tz: str, gap: str = "run_after", fold: str = "first"
) -> Rule:
    """Every `days` local days, counted both ways from the anchor's, at its wall time."""
    first = wall_at(anchor, tz)

    def falls_on(day: date) -> bool:
        return (day - first.date()).days % days == 0

    return Rule(tz, falls_on, (first.time(),), gap=gap, fold=fold)


@cache
def cron_rule(text: str, tz: str, gap: str = "run_after", fold: str = "first") -> Rule:
    """Five fields, or six with seconds first."""
    fields = text.upper().split()
    second, minute, hour, dom, month, dow = fields if len(fields) == 6 else ["0", *fields]
    wild = any(starts_with_star(field) for field in (second, minute, hour))
    months = allowed(month, 1, 12)

    def falls_on(day: date) -> bool:
        return day.month in months and day_matches(dom, dow, day)

    return Rule(tz, falls_on, times_of_day(hour, minute, second), wild, gap, fold)


def times_of_day(hour: str, minute: str, second: str) -> tuple[time, ...]:
    hours, minutes, seconds = allowed(hour, 0, 23), allowed(minute, 0, 59), allowed(second, 0, 59)
    return tuple(time(h, m, s) for h in hours for m in minutes for s in seconds)


# Cron fields: is this value a member?


def starts_with_star(field: str) -> bool:
    return field[0] in "*?"


def allowed(field: str, low: int, high: int) -> list[int]:
    return [value for value in range(low, high + 1) if field_has(field, value, low, high)]


def field_has(field: str, value: int, low: int, high: int) -> bool:
    return any(item_has(item, value, low, high) for item in field.split(","))


def item_has(item: str, value: int, low: int, high: int) -> bool:
    """Is it in ``*``, ``N``, ``N-M``, or a stepped form: ``*/S``, ``N/S``, ``N-M/S``?"""
    span, slash, step = item.partition("/")
    first, dash, last = span.partition("-")
    if first in ("*", "?"):
        begin, end = low, high
    elif dash:
        begin, end = number(first), number(last)
    else:
        begin, end = number(first), high if slash else number(first)
    return value in range(begin, end + 1, int(step or 1))


def number(text: str) -> int:
    if text in MONTH_NAMES:
        return MONTH_NAMES.index(text) + 1
    return DAY_NAMES.index(text) if text in DAY_NAMES else int(text)


def day_matches(dom: str, dow: str, day: date) -> bool:
    """As in crontab(5): both must match if either starts with a star, else one is enough."""
    by_month = any(dom_item_has(item, day) for item in dom.split(","))
    by_week = any(dow_item_has(item, day) for item in dow.split(","))
    if starts_with_star(dom) or starts_with_star(dow):
        return by_month and by_week
    return by_month or by_week


def dom_item_has(item: str, day: date) -> bool:
    if item == "L":
        return day == days_of_month(day)[-1]
    if item == "LW":
        return day == workdays_of_month(day)[-1]
    if item.endswith("W"):
        wanted = int(item[:-1])
        nearest = min(workdays_of_month(day), key=lambda other: abs(other.day - wanted))
        return wanted <= len(days_of_month(day)) and day == nearest
    return item_has(item, day.day, 1, 31)


def dow_item_has(item: str, day: date) -> bool:
    if "#" in item:
        name, nth = item.split("#")
        return is_weekday(name, day) and day in same_weekdays_of_month(day)[int(nth) - 1 : int(nth)]
    if item.endswith("L"):
        return is_weekday(item[:-1], day) and day == same_weekdays_of_month(day)[-1]
    sunday_as_seven = day_name(day) == "SUN" and item_has(item, 7, 0, 7)
    return sunday_as_seven or item_has(item, DAY_NAMES.index(day_name(day)), 0, 7)


def is_weekday(name: str, day: date) -> bool:
    return DAY_NAMES[number(name) % 7] == day_name(day)


def day_name(day: date) -> str:
    return DAY_NAMES[day.isoweekday() % 7]


def days_of_month(day: date) -> list[date]:
    return [day.replace(day=n + 1) for n in range(monthrange(day.year, day.month)[1])]


def workdays_of_month(day: date) -> list[date]:
    return [other for other in days_of_month(day) if day_name(other) not in ("SAT", "SUN")]


def same_weekdays_of_month(day: date) -> list[date]:
    return [other for other in days_of_month(day) if day_name(other) == day_name(day)]
