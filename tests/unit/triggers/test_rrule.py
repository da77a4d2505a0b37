"""Recurrence rules: their bounds are instants, their phase is fixed, and they answer in time."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from duebook import every, rrule

if TYPE_CHECKING:
    from duebook.triggers import Trigger

BRUSSELS = "Europe/Brussels"  # clocks go back at 2026-10-25T01:00:00Z
LAST = datetime.max.replace(tzinfo=UTC)
FIRST = datetime.min.replace(tzinfo=UTC)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def shown(trigger: Trigger, start: str, end: str) -> list[str]:
    return [f"{due:%m-%dT%H:%M}" for due in trigger.between(instant(start), instant(end))]


def test_until_is_an_instant_and_ends_the_rule_in_its_own_pass_of_a_fold() -> None:
    rule = rrule("FREQ=HOURLY;BYMINUTE=30;UNTIL=20261025T003000Z", tz=BRUSSELS)
    assert shown(rule, "2026-10-24T23:00", "2026-10-26") == ["10-24T23:30", "10-25T00:30"]
    assert rule.previous_before(LAST) == instant("2026-10-25T00:30")


def test_an_until_on_the_wall_covers_both_passes() -> None:
    rule = rrule("FREQ=HOURLY;BYMINUTE=30;UNTIL=20261025T023000", tz=BRUSSELS)
    assert shown(rule, "2026-10-25T00:00", "2026-10-26") == ["10-25T00:30", "10-25T01:30"]


def test_nothing_is_due_before_a_beginning_in_the_second_pass() -> None:
    for text in ("FREQ=HOURLY", "FREQ=DAILY"):
        rule = rrule(text, tz=BRUSSELS, dtstart="2026-10-25T01:30:00Z")
        first = rule.next_after(FIRST)
        assert first is not None
        assert first >= instant("2026-10-25T01:30")


def test_a_beginning_that_is_a_date_begins_with_its_first_instant() -> None:
    rule = rrule("FREQ=DAILY", tz="America/Havana", dtstart="2026-03-08")  # no 00:00 that day
    assert rule.next_after(FIRST) == instant("2026-03-08T05:00")


@pytest.mark.parametrize("day", ["2026-10-25T00:00:00Z", "2026-03-28T23:00:00Z"])
def test_count_counts_due_times_through_changes_of_clocks(day: str) -> None:
    rule = rrule("FREQ=HOURLY;COUNT=4", tz=BRUSSELS, dtstart=day)
    assert len(rule.between(FIRST, LAST)) == rule.count(FIRST, LAST) == 4


def test_a_rule_without_a_beginning_is_in_phase_with_a_monday_the_first() -> None:
    assert shown(rrule("FREQ=WEEKLY"), "2026-01-01", "2026-01-13") == ["01-05T00:00", "01-12T00:00"]
    assert shown(rrule("FREQ=MONTHLY"), "2026-01-02", "2026-02-28") == ["02-01T00:00"]
    every_other_day = rrule("FREQ=DAILY;INTERVAL=2")
    for start in ("2026-01-01T01:00", "2026-01-01T23:00"):
        assert shown(every_other_day, start, "2026-01-05") == ["01-02T00:00", "01-04T00:00"]


def test_a_week_number_means_the_weekday_of_the_beginning() -> None:
    rule = rrule("FREQ=YEARLY;BYWEEKNO=20", dtstart="2026-01-01")  # a Thursday
    assert shown(rule, "2026-01-01", "2026-12-31") == ["05-14T00:00"]


def test_answers_do_not_depend_on_what_was_asked_before() -> None:
    rule = rrule("FREQ=YEARLY;BYWEEKNO=-53;BYDAY=MO", dtstart="1990-01-01")
    before = shown(rule, "2019-01-01", "2021-01-01")
    rule.next_after(instant("2002-01-01"))
    rule.count(FIRST, LAST)
    assert shown(rule, "2019-01-01", "2021-01-01") == before == ["12-30T00:00"]


def test_a_count_above_the_limit_is_never_called_exact() -> None:
    fields = ";".join(
        f"BY{name}={','.join(map(str, range(n)))}"
        for name, n in (("HOUR", 24), ("MINUTE", 60), ("SECOND", 60))
    )
    rule = rrule(f"FREQ=DAILY;INTERVAL=2;{fields}", tz="America/New_York", dtstart="2026-03-08")
    count = rule.count(instant("2026-03-08T06:59:59"), instant("2026-10-01"))
    assert (count, count.exact) == (100_000, False)


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=YEARLY;BYDAY=MO;BYSETPOS=1",
        "FREQ=WEEKLY;BYMONTH=12;BYHOUR=9,10;BYSETPOS=2;WKST=FR",
        "FREQ=YEARLY;BYWEEKNO=1,53,-1;WKST=FR",
        "FREQ=MONTHLY;INTERVAL=12",
        "FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1",
        "FREQ=SECONDLY;INTERVAL=7",
        "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=31;BYHOUR=23;BYMINUTE=59;BYSECOND=59;BYSETPOS=1",
    ],
)
@pytest.mark.parametrize("dtstart", [None, "0001-01-02", "2026-01-01", "9998-06-01"])
@pytest.mark.parametrize("tz", ["UTC", "Asia/Manila", "America/New_York"])
def test_nothing_breaks_at_the_ends_of_the_calendar(
    text: str, dtstart: str | None, tz: str
) -> None:
    rule = rrule(text, tz=tz, dtstart=dtstart)
    for moment in (FIRST, FIRST + timedelta(hours=4), instant("0001-03-01"), LAST):
        after, before = rule.next_after(moment), rule.previous_before(moment)
        assert after is None or after > moment
        assert before is None or before < moment
    last = rule.previous_before(LAST)
    assert last is None or rule.next_after(last) is None


@pytest.mark.parametrize(
    ("text", "tz"),
    [
        ("FREQ=YEARLY", "UTC"),
        ("FREQ=HOURLY", BRUSSELS),
        ("FREQ=HOURLY;INTERVAL=21;BYMONTH=2;BYMONTHDAY=29;BYHOUR=3", BRUSSELS),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", BRUSSELS),
    ],
)
def test_sparse_and_far_questions_are_answered_in_time(text: str, tz: str) -> None:
    rule = rrule(text, tz=tz)
    far = datetime(2200, 1, 1, tzinfo=UTC)
    began = time.thread_time()
    rule.between(far, LAST, 100)
    rule.count(instant("2026-01-01"), far)
    rule.omitted(instant("2026-01-01"), far, 10)
    assert time.thread_time() - began < 2


def test_whole_days_without_an_anchor_report_only_what_they_moved() -> None:
    days = every("1d", tz="America/New_York")
    start = instant("2026-03-07T07:30")  # 02:30 on the wall
    moved = days.omitted(start, instant("2028-01-01"))
    assert [omission.wall for omission in moved] == [datetime(2026, 3, 8, 2, 30)]
    assert days.between(start, instant("2028-01-01"))[-1].minute == 0, "03:00 from then on"
