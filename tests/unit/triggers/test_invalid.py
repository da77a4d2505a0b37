"""Bad input: named, refused at once, and never anything but InvalidTrigger."""

from __future__ import annotations

import pickle
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook import InvalidTrigger, at, cron, daily, every, rrule, weekly
from duebook.errors import Invalid
from duebook.triggers import load_trigger

ALL_MINUTES = ",".join(map(str, range(60)))
MESSAGES = {
    "60 * * * *": 'minute 60 is out of range 0-59 in "60 * * * *"',
    "* 24 * * *": 'hour 24 is out of range 0-23 in "* 24 * * *"',
    "0 0 0 * *": 'day-of-month 0 is out of range 1-31 in "0 0 0 * *"',
    "0 0 32W * *": 'day-of-month 32 is out of range 1-31 in "0 0 32W * *"',
    "0 0 * 13 *": 'month 13 is out of range 1-12 in "0 0 * 13 *"',
    "0 0 * * 8": 'day-of-week 8 is out of range 0-7 in "0 0 * * 8"',
    "60 0 0 * * *": 'second 60 is out of range 0-59 in "60 0 0 * * *"',
    "*/0 * * * *": 'minute "*/0" has a step of 0 in "*/0 * * * *"; a step must be 1 or greater',
    "*/x * * * *": 'minute "*/X" has no number after / in "*/x * * * *"',
    "5-1 * * * *": 'minute "5-1" runs backwards in "5-1 * * * *"; write 5-59,0-1',
    "0 0 * * FRI-SUN": 'day-of-week "FRI-SUN" runs backwards in "0 0 * * FRI-SUN"; '
    "Sunday is 0 and 7, so write 5-7",
    "0 0 * * FOO": 'day-of-week "FOO" is not a number 0-7 or name SUN-SAT in "0 0 * * FOO"',
    "0 0 * * MON#6": 'day-of-week "MON#6" is not a weekday with # and 1-5 in "0 0 * * MON#6"; '
    "use a form such as MON#2",
    "0 0 * * L": 'day-of-week "L" does not name a weekday in "0 0 * * L"; 5L is the last Friday',
    "1,,2 * * * *": 'minute "" is not a number 0-59, range or step in "1,,2 * * * *"',
    "-5 * * * *": 'minute "-5" is not a number 0-59, range or step in "-5 * * * *"',
    "0 0 30 2 *": '"0 0 30 2 *" never fires: that month has no such day',
    "0 0 31 4,6,9,11 *": '"0 0 31 4,6,9,11 *" never fires: that month has no such day',
    "": 'expected 5 fields, or 6 with seconds first, but found 0 in ""',
    "* * * *": 'expected 5 fields, or 6 with seconds first, but found 4 in "* * * *"',
    "0 0 0 * * * 2026": "expected 5 fields, or 6 with seconds first, but found 7 in "
    '"0 0 0 * * * 2026"; years are not supported',
    "٣ * * * *": 'only ASCII letters, digits and punctuation are allowed in "٣ * * * *"',
    "H * * * *": 'H needs a key to hash in "H * * * *": give key="backup" (--key backup), '
    "or the schedule a name",
    "0 0 L-3 * *": 'day-of-month "L-3" is not a number 1-31, range or step in "0 0 L-3 * *"',
    "@every 500ms": 'every: "500ms" is not a whole number of seconds; the smallest unit is 1s',
    "@every 0s": 'every "0s" is out of range 1s to 36525d (a century)',
    "TZ=Mars/Base 0 0 * * *": 'tz "Mars/Base" is not a time zone; use a name such as '
    "Europe/Brussels or UTC",
}


@pytest.mark.parametrize("expression", MESSAGES)
def test_the_message_names_the_field_the_text_and_the_remedy(expression: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        cron(expression)
    assert str(caught.value) == MESSAGES[expression]


@pytest.mark.parametrize("text", ["@reboot", "@weekdays", "@", "@every", "@every 1 h"])
def test_unknown_descriptors_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(InvalidTrigger, match="use one of @yearly"):
        cron(text)


@pytest.mark.parametrize(
    "text",
    [
        "," * 1_000_000,
        "1" * 5_000 + " * * * *",
        "1" * 900 + " * * * *",
        "*/" + "9" * 900 + "x * * * *",
        "*" * 1_000_000,
        "0-59/1," * 140 + "60 * * * *",
        "\x00 * * * *",
        "0 0 29 2 1#5,0#6",
        "(" * 500,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_is_refused_quickly(text: str) -> None:
    began = time.thread_time()
    with pytest.raises(InvalidTrigger) as caught:
        cron(text)
    assert time.thread_time() - began < 0.5
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("tz", "hint"),
    [
        ("Europe/Brusels", "did you mean Europe/Brussels?"),
        ("europe/brussels", "did you mean Europe/Brussels?"),
        ("America/NewYork", "did you mean America/New_York?"),
        ("New York", "did you mean America/New_York?"),
        ("Brussels", "did you mean Europe/Brussels?"),
        ("", "use a name such as Europe/Brussels or UTC"),
        ("../../etc/passwd", "use a name such as Europe/Brussels or UTC"),
        ("x" * 100_000, "use a name such as Europe/Brussels or UTC"),
    ],
    ids=lambda text: text[:20],
)
def test_a_typo_in_a_zone_suggests_the_nearest_name(tz: str, hint: str) -> None:
    for form in (
        {"cron": "0 0 * * *"},
        {"daily": "07:00"},
        {"weekly": "MON 07:00"},
        {"every": "1d"},
        {"rrule": "FREQ=DAILY"},
    ):
        with pytest.raises(InvalidTrigger) as caught:
            load_trigger({**form, "tz": tz})
        assert caught.value.field == "tz"
        assert str(caught.value).endswith(hint)


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"every": "15"}, "every"),
        ({"every": "0.5s"}, "every"),
        ({"every": "1h1h"}, "every"),
        ({"every": timedelta(milliseconds=500)}, "every"),
        ({"every": timedelta(seconds=-5)}, "every"),
        ({"every": timedelta.max}, "every"),
        ({"every": "999999999w"}, "every"),
        ({"every": "9" * 5_000 + "s"}, "every"),
        ({"every": 15}, "every"),
        ({"every": "15m", "anchor": "2026-01-01T00:00:00"}, "anchor"),
        ({"every": "15m", "anchor": 5}, "anchor"),
        ({"daily": []}, "daily"),
        ({"daily": "24:00"}, "daily"),
        ({"daily": ["07:00", 8]}, "daily"),
        ({"daily": ["7"]}, "daily"),
        ({"weekly": "09:00"}, "weekly"),
        ({"weekly": "MO 09:00"}, "weekly"),
        ({"weekly": "FRI-MON 09:00"}, "weekly"),
        ({"weekly": "MON 9am"}, "weekly"),
        ({"weekly": None}, "weekly"),
        ({"weekly": "M" * 1_000_000}, "weekly"),
        ({"at": "tomorrow"}, "at"),
        ({"at": "2026-02-30T00:00:00Z"}, "at"),
        ({"at": "2026-01-01T00:00:00"}, "at"),
        ({"at": "2016-12-31T23:59:60Z"}, "at"),
        ({"at": "0001-01-01T00:00:00+05:00"}, "at"),
        ({"at": 1}, "at"),
        ({"rrule": "DAILY"}, "rrule"),
        ({"rrule": "FREQ=SOMETIMES"}, "rrule"),
        ({"rrule": "FREQ=DAILY;INTERVAL=0"}, "rrule"),
        ({"rrule": "FREQ=DAILY;INTERVAL=" + "9" * 900}, "rrule"),
        ({"rrule": "FREQ=DAILY;BYHOUR=25"}, "rrule"),
        ({"rrule": "FREQ=DAILY;BYEASTER=1"}, "rrule"),
        ({"rrule": "FREQ=DAILY;FREQ=DAILY"}, "rrule"),
        ({"rrule": "FREQ=DAILY;BYDAY=1MO"}, "rrule"),
        ({"rrule": "FREQ=DAILY;UNTIL=soon"}, "rrule"),
        ({"rrule": "FREQ=DAILY;COUNT=3;UNTIL=20270101", "dtstart": "2026-01-01"}, "rrule"),
        ({"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "rrule"),
        ({"rrule": "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30"}, "rrule"),
        ({"rrule": "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"}, "rrule"),
        ({"rrule": "FREQ=HOURLY;INTERVAL=24;BYHOUR=3", "dtstart": "2026-01-01"}, "rrule"),
        ({"rrule": "FREQ=YEARLY;BYHOUR=1,2,3;BYMINUTE=0,30;BYSETPOS=0"}, "rrule"),
        ({"rrule": f"FREQ=YEARLY;BYMINUTE={ALL_MINUTES};BYHOUR=1,2,3;BYSETPOS=1"}, "rrule"),
        ({"rrule": "FREQ=DAILY;COUNT=3"}, "dtstart"),
        ({"rrule": "FREQ=DAILY", "dtstart": "2026-01-01T00:00:00"}, "dtstart"),
        ({"cron": "0 0 * * *", "gap": "later"}, "gap"),
        ({"cron": "0 0 * * *", "fold": "second"}, "fold"),
        ({"cron": "TZ=UTC 0 0 * * *", "tz": "Europe/Brussels"}, "tz"),
        ({"cron": "0 0 * * *", "tz": 5}, "tz"),
        ({"cron": "0 0 * * *", "tz": timezone(timedelta(hours=1))}, "tz"),
        ({"cron": "0 0 * * *", "key": 5}, "key"),
        ({"cron": "H 0 * * *", "key": "\ud800"}, "key"),
        ({"cron": "H 0 * * *", "key": "x" * 1_000_000}, "key"),
        pytest.param({"cron": 10**5_000}, "cron", id="a huge number as cron"),
        pytest.param({"every": 10**5_000}, "every", id="a huge number as every"),
        ({"every": "\x1b[31m1.5s"}, "every"),
        ({"rrule": ""}, "rrule"),
        ({"rrule": "FREQ=YEARLY;BYMONTHDAY=5;BYSETPOS=200", "dtstart": "2024-02-29"}, "rrule"),
        ({"rrule": "FREQ=SECONDLY;INTERVAL=3599;BYMINUTE=0;BYSECOND=0"}, "rrule"),
        ({"rrule": "FREQ=DAILY;COUNT=1001", "dtstart": "2026-01-01"}, "rrule"),
        ({"cron": "0 0 * * *", "zone": "UTC"}, "zone"),
        ({"cron": 5}, "cron"),
        ({"cron": "0 0 * * *", "every": "5m"}, "trigger"),
        ({}, "trigger"),
        ([], "trigger"),
        (None, "trigger"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_every_wrong_field_is_named(form: Any, field: str) -> None:
    with pytest.raises(InvalidTrigger) as caught:
        load_trigger(form)
    assert caught.value.field == field
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


@settings(deadline=None)
@given(
    st.sampled_from([cron, every, daily, weekly, at, rrule]),
    st.text(alphabet="*/,-?@LWH#0123456789 MONFREQ=;:TZmhdw+\x00٣", max_size=40) | st.text(),
)
def test_random_text_is_a_trigger_or_an_invalid_trigger(build: Any, text: str) -> None:
    with suppress(InvalidTrigger):
        build(text).next_after(datetime(2026, 1, 1, tzinfo=UTC))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
names = st.sampled_from(
    ["cron", "every", "daily", "weekly", "at", "rrule", "tz", "gap", "fold", "anchor", "dtstart"]
)


@settings(deadline=None)
@given(st.dictionaries(names, json_values, max_size=4))
def test_random_json_is_a_trigger_or_an_invalid_trigger(form: dict[str, Any]) -> None:
    with suppress(InvalidTrigger):
        load_trigger(form)


@pytest.mark.parametrize("instant", [datetime(2026, 1, 1), None, "2026-01-01T00:00:00Z", 5])
def test_instants_without_a_zone_are_refused(instant: Any) -> None:
    good = datetime(2026, 1, 1, tzinfo=UTC)
    for trigger in (cron("0 0 * * *"), every("5m"), at("2026-01-01T00:00:00Z")):
        for ask in (trigger.next_after, trigger.previous_before):
            with pytest.raises(Invalid):
                ask(instant)
        for stretch in (trigger.between, trigger.count, trigger.omitted):
            for start, end in ((instant, good), (good, instant)):
                with pytest.raises(Invalid):
                    stretch(start, end)


@pytest.mark.parametrize("limit", [-1, 1.5, None, True, "5"])
def test_a_limit_is_a_whole_number(limit: Any) -> None:
    good = datetime(2026, 1, 1, tzinfo=UTC)
    for trigger in (cron("0 0 * * *"), at("2026-01-01T00:00:00Z")):
        for stretch in (trigger.between, trigger.omitted):
            with pytest.raises(Invalid, match="limit"):
                stretch(good, good, limit)


def test_a_value_that_cannot_be_printed_is_refused_all_the_same() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(InvalidTrigger, match="a list"):
        load_trigger({"cron": nested})
    while nested:  # a deep list cannot be freed recursively either
        nested = nested[0]


def test_the_error_survives_a_process_boundary() -> None:
    error = InvalidTrigger("minute 60 is out of range", "minute")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - process pools send errors this way
    assert (str(copy), copy.field, copy.code) == (str(error), "minute", "invalid_trigger")
