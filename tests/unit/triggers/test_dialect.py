"""The cron dialect: what each form means, shown on days whose calendar is easy to check."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duebook import cron, every

JANUARY = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(seconds=1)  # 1 January 2026: a Thursday


def days(expression: str, month: int = 1, **options: str) -> list[int]:
    """The days of a month of 2026 on which an expression is due."""
    start = datetime(2026, month, 1, tzinfo=UTC) - timedelta(seconds=1)
    end = datetime(2026, month + 1, 1, tzinfo=UTC) - timedelta(seconds=1)
    found = cron(expression, **options).between(start, end, limit=10_000)
    return sorted({due.day for due in found})


def times(expression: str, **options: str) -> list[str]:
    """The times of 1 January 2026 at which an expression is due."""
    end = JANUARY + timedelta(days=1)
    return [f"{due:%H:%M:%S}" for due in cron(expression, **options).between(JANUARY, end, 100_000)]


def test_five_fields_are_due_at_second_zero() -> None:
    assert times("30 2 * * *") == ["02:30:00"]


def test_six_fields_begin_with_seconds() -> None:
    assert times("15,45 30 2 * * *") == ["02:30:15", "02:30:45"]


def test_lists_ranges_and_steps() -> None:
    assert times("0 1,3-5,20-23/2 * * *") == [f"{hour:02d}:00:00" for hour in (1, 3, 4, 5, 20, 22)]


def test_a_number_with_a_step_runs_to_the_maximum() -> None:
    assert times("50/4 23 * * *") == ["23:50:00", "23:54:00", "23:58:00"]


def test_a_step_beyond_the_range_leaves_its_first_value() -> None:
    assert times("*/90 23 * * *") == ["23:00:00"]


def test_names_are_read_in_any_case() -> None:
    assert (
        days("0 0 * jan Mon-wed")
        == days("0 0 * 1 1-3")
        == [5, 6, 7, 12, 13, 14, 19, 20, 21, 26, 27, 28]
    )


def test_zero_and_seven_are_sunday() -> None:
    assert days("0 0 * * 0") == days("0 0 * * 7") == days("0 0 * * SUN") == [4, 11, 18, 25]
    assert days("0 0 * * 5-7") == days("0 0 * * 0,5,6")


def test_a_step_from_a_weekday_reaches_sunday() -> None:
    assert days("0 0 * * 1/6") == days("0 0 * * 0,1")


def test_a_question_mark_is_a_star() -> None:
    assert times("0 ? ? * ?") == times("0 * * * *")
    assert days("0 0 13 * ?") == [13]


@pytest.mark.parametrize(
    ("descriptor", "expression"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@Hourly", "0 * * * *"),
    ],
)
def test_descriptors(descriptor: str, expression: str) -> None:
    end = datetime(2027, 1, 2, tzinfo=UTC)
    assert cron(descriptor).between(JANUARY, end) == cron(expression).between(JANUARY, end)


def test_at_every_is_the_every_trigger() -> None:
    assert cron("@every 1h30m") == every("1h30m")
    assert cron("@EVERY  90s", tz="Europe/Brussels") == every("90s", tz="Europe/Brussels")


@pytest.mark.parametrize("prefix", ["CRON_TZ", "TZ"])
def test_a_zone_may_stand_before_the_expression(prefix: str) -> None:
    assert cron(f"{prefix}=Asia/Tokyo 0 9 * * *") == cron("0 9 * * *", tz="Asia/Tokyo")


def test_both_day_fields_restricted_means_either() -> None:
    assert days("0 0 13 * FRI") == [2, 9, 13, 16, 23, 30]


@pytest.mark.parametrize("expression", ["0 0 */2 * FRI", "0 0 1-31/2 * */5"])
def test_a_field_that_starts_with_a_star_means_both(expression: str) -> None:
    odd_fridays = [9, 23]
    expected = odd_fridays if "FRI" in expression else [9, 11, 23, 25]
    assert days(expression) == expected


def test_the_last_day_of_the_month() -> None:
    assert days("0 0 L * *") == [31]
    assert days("0 0 L * *", month=2) == [28]


def test_the_last_working_day_of_the_month() -> None:
    assert days("0 0 LW * *") == [30]  # 31 January 2026 is a Saturday


def test_the_working_day_nearest_to_a_day() -> None:
    assert days("0 0 15W * *") == [15]  # a Thursday
    assert days("0 0 17W * *") == [16]  # a Saturday
    assert days("0 0 18W * *") == [19]  # a Sunday
    assert days("0 0 1W * *", month=2) == [2]  # a Sunday
    assert days("0 0 1W * *", month=8) == [3]  # a Saturday: not back into July
    assert days("0 0 31W * *", month=5) == [29]  # a Sunday: not on into June
    assert days("0 0 31W * *", month=6) == []


def test_the_nth_weekday_of_the_month() -> None:
    assert days("0 0 * * MON#2") == days("0 0 * * 1#2") == [12]
    assert days("0 0 * * FRI#5") == [30]
    assert days("0 0 * * MON#5") == []


def test_the_last_weekday_of_the_month() -> None:
    assert days("0 0 * * 5L") == days("0 0 * * FRIL") == [30]


def test_special_days_stand_in_lists() -> None:
    assert days("0 0 1,15W,L * *") == [1, 15, 31]
    assert days("0 0 * * 1#1,5L") == [5, 30]


def test_h_is_stable_and_differs_between_keys() -> None:
    backup = cron("H H * * *", key="backup")
    assert backup == cron("H H * * *", key="backup")
    assert times("H H * * *", key="backup") == ["15:06:00"], "a release must not move people's jobs"
    found = {tuple(times("H H * * *", key=f"job-{n}")) for n in range(50)}
    assert len(found) > 40


def test_h_stays_within_a_range_and_keeps_a_step() -> None:
    for n in range(50):
        (time,) = times("H(10-19) 3 * * *", key=f"job-{n}")
        assert "03:10:00" <= time <= "03:19:00"
        found = times("H/15 3 * * *", key=f"job-{n}")
        assert len(found) == 4
        assert found[0] < "03:15:00"


def test_h_falls_into_every_month() -> None:
    for n in range(100):
        assert len(days("0 0 H * *", month=2, key=f"job-{n}")) == 1


def test_extra_spaces_do_not_matter() -> None:
    assert cron("  0   9\t* *  1-5 ") == cron("0 9 * * 1-5")
