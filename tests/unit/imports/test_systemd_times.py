"""Timers are due when `systemd-analyze calendar` says so, except where systemd is wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duebook.imports.calendar_specs import read_calendar
from duebook.imports.found import NotCarried
from duebook.timetext import parse_instant
from duebook.triggers import load_trigger
from tests.support.systemd_times import BASE, MOST, SPECS, TABLE, analyze, is_installed, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

YEAR = timedelta(days=365)


def due_times(spec: str, number: int = MOST) -> Sequence[datetime]:
    found = read_calendar(spec, "UTC")
    bounds = {key: parse_instant(text) for key, text in found.bounds.items()}
    start, end = bounds.get("start_at", BASE), bounds.get("end_at", BASE + YEAR)
    return load_trigger(found.trigger).between(max(start, BASE), min(end, BASE + YEAR), number)


@pytest.mark.parametrize("spec", SPECS)
def test_a_timer_is_due_when_systemd_says(spec: str) -> None:
    assert summary(list(due_times(spec))) == json.loads(TABLE.read_text())[spec]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("*-*-* 25:00", "out of range 0 to 23"),
        ("Foo 10:00", "not a weekday"),
        ("Fri..Mon 10:00", "runs backwards"),
        ("*-*-* 10:00:00.5", "fractions of a second"),
        ("2026/2-*-01", "years with a step"),
        ("2026,2028-01-01 *:00", "years that do not follow each other"),
        ("*-*-* 10:00 Mars/Base", "Mars/Base"),
        ("*-02-30", "never fires"),
        ("10:00 11:00", "unexpected"),
        ("x" * 2_000, "too long"),
        ("", "it is empty"),
        ("@soon", "seconds since 1970"),
        ("*-*-0", "out of range 1 to 31"),
        ("*:0/0", "not a number, range or step"),
    ],
)
def test_what_cannot_be_carried_over_is_named(spec: str, told: str) -> None:
    with pytest.raises(NotCarried, match=told):
        due_times(spec)


def test_a_gap_and_a_fold_are_handled_by_duebook_not_skipped_as_by_systemd() -> None:
    """systemd has no 02:30 on the day of the gap, and a pause of an hour in the fold."""
    spring, autumn = datetime(2027, 3, 27, 12, tzinfo=UTC), datetime(2027, 10, 30, 23, tzinfo=UTC)
    nightly = load_trigger(read_calendar("02:30 Europe/Brussels", "UTC").trigger)
    assert nightly.next_after(spring) == datetime(2027, 3, 28, 1, 0, tzinfo=UTC)
    often = load_trigger(read_calendar("*:0/30 Europe/Brussels", "UTC").trigger)
    due = often.between(autumn, autumn + timedelta(hours=4))
    assert len(due) == 8, "every half hour of real time"


@pytest.mark.long
@pytest.mark.skipif(not is_installed(), reason="systemd-analyze is not installed")
def test_the_table_is_what_systemd_says() -> None:
    table = json.loads(TABLE.read_text())
    assert {spec: summary(analyze(spec) or []) for spec in SPECS} == table


def values(low: int, high: int) -> st.SearchStrategy[str]:
    one = st.integers(low, high).map(str)
    several = st.lists(st.integers(low, high), min_size=2, max_size=3, unique=True)
    span = several.map(lambda found: f"{min(found)}..{max(found)}")
    return st.just("*") | one | several.map(lambda found: ",".join(map(str, found))) | span


specs = st.builds(
    lambda weekday, month, sign, day, hour, minute: (
        f"{weekday} *-{month}{sign}{day} {hour}:{minute}".strip()
    ),
    st.sampled_from(["", "Mon", "Mon..Fri", "Sat,Sun", "Tue,Thu"]),
    values(1, 12),
    st.sampled_from("-~"),
    values(1, 28),
    values(0, 23),
    values(0, 59),
)


@pytest.mark.long
@pytest.mark.skipif(not is_installed(), reason="systemd-analyze is not installed")
@given(specs.filter(lambda spec: "~*" not in spec))
@settings(max_examples=100, deadline=None)
def test_random_timers_are_due_when_systemd_says(spec: str) -> None:
    theirs = analyze(spec, 100)
    assume(theirs)  # systemd refuses some, such as ~1,26, and others are never due
    assert due_times(spec, 100) == theirs
