"""Triggers as values: equality, hash, JSON, sharing, and what they answer at the edges."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from duebook import at, cron, daily, every, rrule, weekly
from duebook.triggers import Trigger, load_trigger, tzdata_version
from duebook.triggers.base import TimelineTrigger
from tests.support.waiting import takes_less_than

START = datetime(2026, 1, 1, tzinfo=UTC)
BRUSSELS = "Europe/Brussels"

FORMS: list[tuple[Trigger, dict[str, Any]]] = [
    (cron("0 9 * * 1-5"), {"cron": "0 9 * * 1-5"}),
    (
        cron("30 2 * * *", tz=BRUSSELS, gap="skip", fold="both"),
        {"cron": "30 2 * * *", "tz": BRUSSELS, "gap": "skip", "fold": "both"},
    ),
    (cron("H 2 * * *", key="backup"), {"cron": "H 2 * * *", "key": "backup"}),
    (every("15m"), {"every": "15m"}),
    (
        every(timedelta(days=1), tz=BRUSSELS, anchor=START),
        {"every": "1d", "tz": BRUSSELS, "anchor": "2026-01-01T00:00:00Z"},
    ),
    (daily("17:30", clock_time(7)), {"daily": ["07:00", "17:30"]}),
    (daily(["07:00:15"], tz=BRUSSELS), {"daily": ["07:00:15"], "tz": BRUSSELS}),
    (weekly("FRI,MON 09:00", tz=BRUSSELS), {"weekly": "MON,FRI 09:00", "tz": BRUSSELS}),
    (weekly("SAT-SUN 09:00,18:00"), {"weekly": "SAT,SUN 09:00,18:00"}),
    (at("2026-03-29T02:10:00+01:00"), {"at": "2026-03-29T01:10:00Z"}),
    (at(START + timedelta(microseconds=5)), {"at": "2026-01-01T00:00:00.000005Z"}),
    (rrule("RRULE:freq=daily"), {"rrule": "FREQ=DAILY"}),
    (
        rrule("FREQ=MONTHLY;BYDAY=-1FR", tz=BRUSSELS, dtstart=date(2026, 1, 1), fold="both"),
        {
            "rrule": "FREQ=MONTHLY;BYDAY=-1FR",
            "dtstart": "2026-01-01",
            "tz": BRUSSELS,
            "fold": "both",
        },
    ),
    (
        rrule("FREQ=DAILY", dtstart=START),
        {"rrule": "FREQ=DAILY", "dtstart": "2026-01-01T00:00:00Z"},
    ),
]


@pytest.mark.parametrize(("trigger", "form"), FORMS, ids=lambda value: str(value)[:40])
def test_the_json_form_comes_back_as_an_equal_trigger(
    trigger: Trigger, form: dict[str, Any]
) -> None:
    assert trigger.to_json() == form
    again = load_trigger(form)
    assert again == trigger
    assert hash(again) == hash(trigger)
    assert again.next_after(START) == trigger.next_after(START)
    assert again.text == trigger.text


def test_different_triggers_differ() -> None:
    triggers = {trigger for trigger, _ in FORMS}
    assert len(triggers) == len(FORMS)


def test_a_trigger_cannot_be_changed() -> None:
    trigger = cron("0 9 * * *")
    with pytest.raises(dataclasses.FrozenInstanceError):
        trigger.expression = "0 10 * * *"  # type: ignore[attr-defined]


def test_equal_triggers_share_their_compiled_form() -> None:
    for trigger, form in FORMS:
        again = load_trigger(form)
        if isinstance(trigger, TimelineTrigger) and isinstance(again, TimelineTrigger):
            assert again is not trigger
            assert again.timeline is trigger.timeline


def test_text_is_a_cron_expression_and_a_trigger_stays_itself() -> None:
    assert load_trigger("0 9 * * *") == cron("0 9 * * *")
    trigger = every("5m")
    assert load_trigger(trigger) is trigger


def test_the_name_of_a_schedule_is_what_h_hashes() -> None:
    assert load_trigger("H 2 * * *", key="a") == cron("H 2 * * *", key="a")
    own = load_trigger({"cron": "H 2 * * *", "key": "own"}, key="a")
    assert own == cron("H 2 * * *", key="own")


def test_zones_are_accepted_as_typed_values() -> None:
    assert cron("0 9 * * *", tz=ZoneInfo(BRUSSELS)) == cron("0 9 * * *", tz=BRUSSELS)
    assert cron("0 9 * * *", tz=UTC) == cron("0 9 * * *")


def test_the_version_of_the_zone_data_can_be_read() -> None:
    version = tzdata_version()
    assert version[:2] == "20"
    assert version[-1].isalpha()


@pytest.mark.parametrize("trigger", [trigger for trigger, _ in FORMS], ids=str)
def test_nothing_breaks_at_the_ends_of_the_calendar(trigger: Trigger) -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    for instant in (first, first + timedelta(days=1), last - timedelta(days=1), last):
        after, before = trigger.next_after(instant), trigger.previous_before(instant)
        assert after is None or after > instant
        assert before is None or before < instant
    trigger.count(first, last)
    trigger.omitted(first, last, limit=3)


@pytest.mark.parametrize("tz", ["UTC", "America/New_York"])
def test_thirty_years_of_minutes_are_counted_in_no_time(tz: str) -> None:
    trigger = cron("* * * * *", tz=tz)
    end = START + timedelta(days=30 * 365)
    assert takes_less_than(0.001, lambda: trigger.count(START, end))
    count = trigger.count(START, end)
    assert count == 100_000
    assert not count.exact
    assert str(count) == "100000+"


def test_a_count_is_exact_up_to_a_hundred_thousand() -> None:
    minutes = every("1m", anchor=START)
    count = minutes.count(START, START + timedelta(minutes=100_000))
    assert (count, count.exact, str(count)) == (100_000, True, "100000")
    count = minutes.count(START, START + timedelta(minutes=100_001))
    assert (count, count.exact) == (100_000, False)


def test_nothing_lies_between_an_end_and_a_later_start() -> None:
    trigger = every("1m", anchor=START)
    assert trigger.between(START, START - timedelta(days=1)) == []
    assert trigger.count(START, START - timedelta(days=1)) == 0
    assert trigger.between(START, START + timedelta(days=1), limit=0) == []


def test_every_with_an_anchor_never_drifts() -> None:
    trigger = every("7m", anchor="2020-01-01T00:00:30Z")
    due = trigger.next_after(START + timedelta(microseconds=1))
    assert due is not None
    assert (due - datetime(2020, 1, 1, 0, 0, 30, tzinfo=UTC)) % timedelta(minutes=7) == timedelta()
    late = due + timedelta(minutes=6, seconds=59)
    assert trigger.next_after(late) == due + timedelta(minutes=7)


def test_every_without_an_anchor_counts_from_the_instant_asked_about() -> None:
    asked = START + timedelta(seconds=17, microseconds=500)
    whole = START + timedelta(seconds=17)
    assert every("1h30m").next_after(asked) == whole + timedelta(minutes=90)
    assert every("1h30m").previous_before(whole) == whole - timedelta(minutes=90)
    assert cron("@every 1h30m").next_after(asked) == whole + timedelta(minutes=90)


def test_days_without_an_anchor_keep_the_wall_time_of_the_instant_asked_about() -> None:
    trigger = every("1d", tz=BRUSSELS)
    before_the_gap = datetime(2026, 3, 28, 8, tzinfo=UTC)  # 09:00 in Brussels
    assert trigger.next_after(before_the_gap) == datetime(2026, 3, 29, 7, tzinfo=UTC)
    in_the_fold = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # 02:30, the first time
    assert trigger.next_after(in_the_fold) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_at_is_due_once_to_the_microsecond() -> None:
    trigger = at(START + timedelta(microseconds=5))
    assert trigger.next_after(START) == START + timedelta(microseconds=5)
    assert trigger.next_after(START + timedelta(microseconds=5)) is None
    assert trigger.previous_before(START + timedelta(microseconds=6)) is not None
    assert trigger.count(START, START + timedelta(seconds=1)) == 1


def test_a_fraction_of_a_second_is_neither_lost_nor_early() -> None:
    trigger = cron("* * * * * *")
    assert trigger.next_after(START - timedelta(microseconds=1)) == START
    assert trigger.previous_before(START + timedelta(microseconds=1)) == START
