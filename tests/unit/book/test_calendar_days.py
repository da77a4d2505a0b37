"""The days that the sources of a calendar stand for."""

from __future__ import annotations

import sys
from datetime import date
from typing import Any

import pytest

from duebook.book import calendar_days
from duebook.book.calendar_days import Resolver, resolve
from duebook.budget import Budget
from duebook.errors import Invalid, OverBudget
from duebook.model.calendar import load_rule
from duebook.model.calendar_days import DaySet

ICAL = """\
BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTART;VALUE=DATE:20251224
DTEND;VALUE=DATE:20251226
RRULE:FREQ=YEARLY
EXDATE;VALUE=DATE:20271224
SUMMARY:a long line that is
  folded
END:VEVENT
BEGIN:VEVENT
DTSTART;TZID=Europe/Brussels:20260301T090000
DTEND;TZID=Europe/Brussels:20260301T100000
END:VEVENT
END:VCALENDAR
"""


def days(year: int = 2026, **definition: Any) -> list[str]:
    found = resolve(load_rule(definition), {"other": DaySet.of([date(2026, 5, 4)])})
    return [f"{day:%m-%d}" for day in found.between(date(year, 1, 1), date(year, 12, 31))]


def test_sources_are_united() -> None:
    found = days(dates=["2026-05-01/2026-05-02"], calendars="other", rrule="FREQ=YEARLY")
    assert found == ["01-01", "05-01", "05-02", "05-04"]


def test_weekdays_may_be_ranges_and_lists() -> None:
    assert days(weekdays=["MON-FRI", "SUN"])[:4] == ["01-01", "01-02", "01-04", "01-05"]


def test_a_rule_gives_its_days() -> None:
    assert days(rrule="FREQ=MONTHLY;BYDAY=-1FR")[:2] == ["01-30", "02-27"]


def test_a_difference_takes_days_out() -> None:
    found = days(dates="2026-05-01/2026-05-05", without={"calendars": ["other"], "dates": []})
    assert found == ["05-01", "05-02", "05-03", "05-05"]


def test_events_of_an_ical_file_may_recur_and_last_several_days() -> None:
    text = ICAL.replace("\n", "\r\n")
    assert days(ical=text) == ["03-01", "12-24", "12-25"]
    assert days(2027, ical=text) == []
    with pytest.raises(Invalid, match="ical has no events"):
        days(ical="hello")


def event(start: str, end: str, *more: str) -> str:
    lines = [f"DTSTART:{start}", f"DTEND:{end}", *more]
    return "\n".join(["BEGIN:VEVENT", *lines, "END:VEVENT", ""])


@pytest.mark.parametrize(
    ("start", "duration", "last"),
    [
        ("20260301", "P3D", "03-03"),
        ("20260301", "P1W", "03-07"),
        ("20260301T230000", "PT1H", "03-01"),
        ("20260301T230000Z", "PT1H1S", "03-02"),
        ("20260301T090000", "P1DT30M", "03-02"),
        ("20260301Txx0000", "PT2H", "03-01"),
    ],
)
def test_an_event_may_say_how_long_it_lasts(start: str, duration: str, last: str) -> None:
    text = f"BEGIN:VEVENT\nDTSTART:{start}\nDURATION:{duration}\nEND:VEVENT\n"
    found = days(ical=text)
    assert (found[0], found[-1]) == ("03-01", last)


@pytest.mark.parametrize("duration", ["P", "3D", "PT", "-P1D", "P1M", "P999999999D"])
def test_a_length_that_cannot_be_read_is_named(duration: str) -> None:
    text = f"BEGIN:VEVENT\nDTSTART:20260301\nDURATION:{duration}\nEND:VEVENT\n"
    with pytest.raises(Invalid, match=f'DURATION "{duration}" is not a length such as P3D'):
        days(ical=text)


def test_a_long_event_that_began_long_ago_is_seen_until_it_ends() -> None:
    text = event("19700101", "19990101", "RRULE:FREQ=YEARLY;INTERVAL=28")
    assert len(days(2025, ical=text)) == 365
    assert days(2054, ical=event("19700101", "19700104", "RRULE:FREQ=YEARLY"))[-1] == "01-03"


@pytest.mark.parametrize(
    ("start", "end"),
    [("19000101", "99991231"), ("99991230", "99991231"), ("00010101", "00010101")],
)
def test_events_at_the_ends_of_time_are_cut_to_the_hundred_years(start: str, end: str) -> None:
    found = days(ical=event(start, end, "RDATE:20260101,99991231", "RRULE:FREQ=YEARLY"))
    assert found[0] == "01-01"


@pytest.mark.parametrize(
    ("start", "exception", "left"),
    [
        ("20260101T000000", "20260102T090000", ["01-01", "01-02"]),
        ("20260101T000000", "20260102T000000", ["01-01"]),
        ("20260101T000000", "20260102", ["01-01"]),
        ("20260101T000000", "20260102T050000Z", ["01-01"]),
        ("20260101", "20260102", ["01-01"]),
    ],
)
def test_an_exception_takes_out_what_starts_at_its_time(
    start: str, exception: str, left: list[str]
) -> None:
    text = event(start, "20260101T010000", "RRULE:FREQ=DAILY;COUNT=2", f"EXDATE:{exception}")
    assert days(ical=text) == left


def test_what_recurs_too_often_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendar_days, "MOST_RECURRENCES", 12_000)
    weekly = event("20000101", "20030101", "RRULE:FREQ=WEEKLY")
    assert len(days(ical=weekly * 2)) == 365
    for definition in (
        {"ical": weekly * 3},
        {"rrule": ["FREQ=WEEKLY"] * 3},
        {"ical": weekly * 2, "without": {"rrule": "FREQ=WEEKLY"}},
    ):
        with pytest.raises(Invalid, match="recur more than 12,000 times from 2000 to 2099; use"):
            days(**definition)


def test_resolving_stops_when_the_budget_is_used_up() -> None:
    ticks = iter(range(100))
    resolver = Resolver(Budget(10, lambda: next(ticks)))
    with pytest.raises(OverBudget, match="more than 10 s of processor time; use fewer recurring"):
        resolver.resolve(load_rule({"rrule": "FREQ=DAILY"}), {})


def test_public_holidays_are_those_of_the_package() -> None:
    assert days(holidays="BE") == [
        *("01-01", "04-05", "04-06", "05-01", "05-14", "05-24", "05-25"),
        *("07-21", "08-15", "11-01", "11-11", "12-25"),
    ]
    assert days(2027, weekdays="MON-FRI", without={"holidays": "be"})[:2] == ["01-04", "01-05"]


def test_a_part_of_a_country_may_have_more_holidays() -> None:
    assert set(days(holidays="de-by")) - set(days(holidays="DE")) == {"01-06", "06-04", "11-01"}


@pytest.mark.parametrize(
    ("place", "told"),
    [("XX", "Country XX not available"), ("DE-XX", "does not have subdivision XX")],
)
def test_a_place_that_the_package_does_not_know_is_refused(place: str, told: str) -> None:
    with pytest.raises(Invalid, match=f'holidays "{place}" is not known: .*{told}'):
        days(holidays=place)


def test_without_the_package_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(Invalid, match=r"pip install 'holidays"):
        days(holidays="BE")


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        ({}, "a calendar needs at least one of dates"),
        ({"weekday": "MON"}, "weekday is not a field of a calendar"),
        ({"weekdays": "FRI-MON"}, "weekdays FRI-MON runs backwards"),
        ({"weekdays": "XYZ"}, "is not a weekday MON to SUN"),
        ({"dates": ["2026-02-30"]}, "dates: "),
        ({"rrule": "FREQ=HOURLY"}, "recurs within a day"),
        ({"rrule": "nonsense"}, "nonsense"),
        ({"calendars": ["nowhere"]}, 'calendar "nowhere" does not exist'),
        ({"dates": "2026-01-01", "without": {"x": 1}}, "without x is not one of"),
        ({"dates": "2026-01-01", "without": 5}, "without 5 is not an object"),
        ({"ical": 5}, "ical is not the text of a file"),
    ],
)
def test_what_is_wrong_is_named(definition: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        days(**definition)


def test_days_are_stored_as_a_short_text() -> None:
    weekdays = resolve(load_rule({"weekdays": "MON-FRI"}), {})
    assert len(weekdays.text) < 200
    assert DaySet.load(weekdays.text).flags == weekdays.flags
    for wrong in ("", "x", "eJwDAAAAAAE=", 5):
        with pytest.raises(Invalid):
            DaySet.load(wrong)
