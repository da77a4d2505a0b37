"""Instants, durations and times of day as text."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.errors import InvalidTime
from duebook.timetext import (
    format_duration,
    format_instant,
    format_time,
    parse_date,
    parse_duration,
    parse_instant,
    parse_time,
    relative,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("30s", 30), ("15m", 900), ("1h30m", 5_400), ("2d", 172_800), ("1w", 604_800)],
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.timedeltas(timedelta(), timedelta(days=36_525)))
def test_a_duration_comes_back_from_its_text(length: timedelta) -> None:
    whole = length - timedelta(microseconds=length.microseconds)
    assert parse_duration(format_duration(whole)) == whole


@pytest.mark.parametrize(
    "bad", ["", "15", "m", "1h1h", "-5m", "1.5h", "5ms", "١m", "9" * 200, 5, None]
)
def test_what_is_no_duration(bad: Any) -> None:
    with pytest.raises(InvalidTime):
        parse_duration(bad)


def test_instants_are_utc_and_come_back() -> None:
    moment = parse_instant("2026-03-29T02:10:00+01:00")
    assert moment == datetime(2026, 3, 29, 1, 10, tzinfo=UTC)
    assert moment.tzinfo is UTC
    assert format_instant(moment) == "2026-03-29T01:10:00Z"
    assert parse_instant(datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5)))).hour == 19


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "now",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-13-01T00:00:00Z",
        datetime(2026, 1, 1),
        5,
    ],
)
def test_what_is_no_instant(bad: Any) -> None:
    with pytest.raises(InvalidTime):
        parse_instant(bad)


def test_a_naive_time_is_told_what_it_lacks() -> None:
    with pytest.raises(
        InvalidTime, match="has no time zone; add one, such as 2026-01-01T00:00:00Z"
    ):
        parse_instant("2026-01-01T00:00:00")


def test_times_of_day_and_dates() -> None:
    assert parse_time("7:00") == time(7)
    assert format_time(parse_time("17:30:15")) == "17:30:15"
    assert parse_date("2026-02-28") == date(2026, 2, 28)
    for bad in ("24:00", "7", "07:60", time(7, microsecond=1), 7):
        with pytest.raises(InvalidTime):
            parse_time(bad)  # type: ignore[arg-type]
    for bad_date in ("2026-02-30", "20260101", datetime(2026, 1, 1), 7):
        with pytest.raises(InvalidTime):
            parse_date(bad_date)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"),
        (45, "in 45 s"),
        (-90, "1 min 30 s ago"),
        (27_000, "in 7 h 30 min"),
        (86_400 + 30, "in 1 d"),
        (-3 * 86_400 - 7_200, "3 d 2 h ago"),
    ],
)
def test_distances_for_people(seconds: int, text: str) -> None:
    assert relative(timedelta(seconds=seconds)) == text
