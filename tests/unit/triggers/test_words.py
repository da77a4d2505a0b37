"""What triggers say to people: descriptions and warnings, literally."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from duebook import at, cron, daily, every, rrule, weekly
from duebook.triggers import Trigger, load_trigger

NOW = datetime(2026, 6, 1, tzinfo=UTC)

CRON = {
    "* * * * *": "Every minute",
    "*/15 * * * *": "Every 15 minutes",
    "0/15 * * * *": "Every 15 minutes",
    "0 * * * *": "Every hour",
    "5 * * * *": "Every hour at minute 5",
    "5,35 * * * *": "At minutes 5 and 35 of every hour",
    "*/7 * * * *": "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour",
    "30 2 * * *": "At 02:30 every day",
    "0 9,12,17 * * *": "At 09:00, 12:00 and 17:00 every day",
    "0 */2 * * *": "Every 2 hours from 00:00",
    "30 */6 * * *": "Every 6 hours from 00:30",
    "0 9-17 * * *": "Every hour from 09:00 to 17:00",
    "0 0-5,9,12,20-23 * * *": "At minute 0 of hours 0 to 5, 9, 12 and 20 to 23 every day",
    "*/15 9-17 * * 1-5": "Every 15 minutes from 09:00 to 17:45, Monday to Friday",
    "*/30 0,12 * * *": "At 00:00, 00:30, 12:00 and 12:30 every day",
    "*/10 0,12 * * *": "Every 10 minutes in hours 0 and 12",
    "0 0 * * 0,6": "At 00:00, on Saturday and Sunday",
    "0 0 * * MON": "At 00:00, on Monday",
    "0 0 1 * *": "At 00:00, on day 1 of the month",
    "0 0 1,15 * *": "At 00:00, on days 1 and 15 of the month",
    "0 0 L * *": "At 00:00, on the last day of the month",
    "0 0 LW * *": "At 00:00, on the last working day of the month",
    "0 0 15W * *": "At 00:00, on the working day nearest to day 15 of the month",
    "0 0 * * 1#2": "At 00:00, on the second Monday of the month",
    "0 0 * * 5L": "At 00:00, on the last Friday of the month",
    "0 0 1 1 *": "At 00:00, on 1 January",
    "0 0 1 */3 *": "At 00:00, on day 1 of the month in January, April, July and October",
    "0 0 * 6-8 *": "At 00:00, in June to August",
    "0 0 13 * 5": "At 00:00, on day 13 of the month, or on Friday",
    "0 0 1 * */2": "At 00:00, on day 1 of the month, if it is Tuesday, Thursday, Saturday or "
    "Sunday",
    "0 0 1 * 0-6": "At 00:00 every day",
    "0 0 1-31 * 1": "At 00:00 every day",
    "0 0 1 1 0-6": "At 00:00, every day in January",
    "0 0 1 1 1": "At 00:00, in January: on day 1 of the month, or on Monday",
    "0 0 */15 * 5": "At 00:00, on days 1, 16 and 31 of the month, if it is Friday",
    "* * * * * *": "Every second",
    "*/10 * * * * *": "Every 10 seconds",
    "30 * * * * *": "At second 30 of every minute",
    "15 30 2 * * *": "At 02:30:15 every day",
    "*/10 */5 9 * * *": "Every 10 seconds in minutes 0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50 and "
    "55 of hour 9",
    "@hourly": "Every hour",
}


@pytest.mark.parametrize("expression", CRON)
def test_cron_expressions_in_words(expression: str) -> None:
    assert cron(expression).describe() == f"{CRON[expression]} (UTC)"


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (every("1m"), "Every minute (UTC)"),
        (every("90s"), "Every 1 minute 30 seconds (UTC)"),
        (every("2w"), "Every 2 weeks (UTC)"),
        (every("10d"), "Every 10 days (UTC)"),
        (
            every("1d", anchor="2026-01-01T08:00:00Z", tz="Europe/Brussels"),
            "Every day at 09:00, counted from 2026-01-01 (Europe/Brussels)",
        ),
        (
            every("15m", anchor="2026-01-01T00:00:00Z"),
            "Every 15 minutes, counted from 2026-01-01T00:00:00Z (UTC)",
        ),
        (daily("07:00:30"), "At 07:00:30 every day (UTC)"),
        (weekly("MON-FRI 09:00,17:00"), "At 09:00 and 17:00, Monday to Friday (UTC)"),
        (at("2026-03-29T01:10:00Z"), "Once, at 2026-03-29T01:10:00Z (UTC)"),
        (
            rrule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE"),
            "Every 2 weeks on Monday and Wednesday at 00:00 (UTC)",
        ),
        (
            rrule("FREQ=YEARLY;COUNT=3", dtstart="2026-02-14"),
            "Every year on 14 February at 00:00, 3 times, from 2026-02-14 (UTC)",
        ),
        (
            rrule("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=18"),
            "Every month on every Monday to Friday at 18:00 "  # noqa: ISC004
            "(only the last of these in a month) (UTC)",
        ),
        (
            rrule("FREQ=MONTHLY;BYMONTHDAY=-1;UNTIL=20271231"),
            "Every month on the last day of the month at 00:00, until 2027-12-31 23:59 (UTC)",
        ),
        (
            rrule("FREQ=DAILY;BYHOUR=9,17;BYSETPOS=-1"),
            "Every day at 09:00 and 17:00 (only the last of these in a day) (UTC)",
        ),
        (
            rrule("FREQ=DAILY;BYMONTHDAY=13;BYDAY=FR"),
            "Every day on day 13 of the month, if it is Friday, at 00:00 (UTC)",
        ),
        (rrule("FREQ=YEARLY;BYDAY=MO"), "Every year on every Monday at 00:00 (UTC)"),
        (rrule("FREQ=YEARLY;BYDAY=21MO"), "Every year on the 21st Monday at 00:00 (UTC)"),
        (
            rrule("FREQ=YEARLY;BYWEEKNO=20"),
            "Every year on Monday of week 20 of the year at 00:00 (UTC)",
        ),
        (rrule("FREQ=WEEKLY"), "Every week on Monday at 00:00 (UTC)"),
        (
            rrule("FREQ=HOURLY", dtstart="2026-01-01T10:15:00Z"),
            "Every hour at minute 15, from 2026-01-01 (UTC)",
        ),
        (
            rrule("FREQ=HOURLY;INTERVAL=6;BYMONTH=1,2"),
            "Every 6 hours in January and February at minute 0 (UTC)",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_other_triggers_in_words(trigger: Trigger, words: str) -> None:
    assert trigger.describe() == words


def warnings(form: dict[str, Any]) -> list[str]:
    return [warning.text for warning in load_trigger(form).warnings(NOW)]


NEW_YORK = "America/New_York"
GAP = [
    f"02:30 does not exist on {day} in America/New_York (clocks go from 02:00 to 03:00): it is "
    for day in ("2027-03-14",)
]
FOLD = [
    f"01:30 happens twice on {day} in America/New_York (clocks go back from 02:00 to 01:00): it is "
    for day in ("2026-11-01", "2027-11-07")
]


@pytest.mark.parametrize(
    "form", [{"cron": "30 2 * * *"}, {"daily": "02:30"}, {"weekly": "SUN 02:30"}]
)
def test_a_time_in_a_gap_that_comes_before_the_end_of_next_year(form: dict[str, Any]) -> None:
    moved = [f"{start}due at 03:00 instead" for start in GAP]
    assert warnings({**form, "tz": NEW_YORK}) == moved
    skipped = [f"{start}skipped that day" for start in GAP]
    assert warnings({**form, "tz": NEW_YORK, "gap": "skip"}) == skipped


@pytest.mark.parametrize(
    "form", [{"cron": "30 1 * * *"}, {"daily": "01:30"}, {"weekly": "SUN 01:30"}]
)
def test_a_time_in_a_fold_that_comes_before_the_end_of_next_year(form: dict[str, Any]) -> None:
    first = [f"{start}due the first time only" for start in FOLD]
    assert warnings({**form, "tz": NEW_YORK}) == first
    both = [f"{start}due both times" for start in FOLD]
    assert warnings({**form, "tz": NEW_YORK, "fold": "both"}) == both


def test_a_weekday_on_which_clocks_never_change_is_no_cause_for_warning() -> None:
    assert warnings({"weekly": "WED 02:30", "tz": NEW_YORK}) == []
    assert warnings({"daily": "02:30"}) == []


def test_days_and_rules_are_warned_of_as_well() -> None:
    anchored = {"every": "1d", "anchor": "2026-01-01T07:30:00Z", "tz": NEW_YORK}
    assert warnings(anchored) == [f"{start}due at 03:00 instead" for start in GAP]
    rule = {"rrule": "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "dtstart": "2026-01-01", "tz": NEW_YORK}
    assert warnings(rule) == [f"{start}due at 03:00 instead" for start in GAP]


def test_several_times_in_one_gap_make_one_warning() -> None:
    texts = warnings({"cron": "*/15 2 * * *", "tz": NEW_YORK})
    assert texts[0] == (
        "02:00, 02:15 and 2 more times do not exist on 2027-03-14 in America/New_York "
        "(clocks go from 02:00 to 03:00): they are skipped that day"
    )


def test_an_expression_for_every_hour_is_carried_through_by_real_time() -> None:
    assert warnings({"cron": "0 * * * *", "tz": NEW_YORK}) == []


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            "*/7 * * * *",
            "*/7 is uneven, as 7 does not divide 60: minute 56 is followed by 0, only 4 later",
        ),
        (
            "0 */5 * * *",
            "*/5 is uneven, as 5 does not divide 24: hour 20 is followed by 0, only 4 later",
        ),
        (
            "0 0 */2 * *",
            "*/2 starts again each month: day 31 is followed by day 1",
        ),
        (
            "0/7 * * * *",
            "0/7 is uneven, as 7 does not divide 60: minute 56 is followed by 0, only 4 later",
        ),
        (
            "0 0 * * */2",
            "*/2 is uneven, as 2 does not divide 7: day-of-week 6 is followed by 0, only 1 later",
        ),
        (
            "*/90 * * * *",
            "*/90 is minute 0 only: a step of 90 leaves the range immediately",
        ),
        (
            "0 0 13 * 5",
            "day-of-month and day-of-week are both restricted: a day that matches either is due",
        ),
    ],
)
def test_expressions_that_often_surprise(expression: str, text: str) -> None:
    assert warnings({"cron": expression}) == [text]


@pytest.mark.parametrize("expression", ["*/15 * * * *", "0 */6 * * *", "0 0 1 */3 *", "0 0 * * *"])
def test_even_expressions_do_not_surprise(expression: str) -> None:
    assert warnings({"cron": expression}) == []


@pytest.mark.parametrize(
    "form",
    [
        {"cron": "* * * * *", "fold": "both"},
        {"every": "5m", "gap": "skip"},
        {"rrule": "FREQ=HOURLY", "gap": "skip"},
    ],
)
def test_options_without_effect_are_named(form: dict[str, Any]) -> None:
    (text,) = warnings(form)
    assert text.startswith("gap and fold have no effect")
