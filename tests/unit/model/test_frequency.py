"""Frequencies with a unit, a number and a start mean triggers without drift."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from duebook.model.definition import load_spec
from duebook.model.schedule import InvalidSchedule, ScheduleSpec
from duebook.planner import DueTimes

if TYPE_CHECKING:
    from collections.abc import Iterator

START = "2026-01-31T08:00:00Z"


def spec(unit: object, number: object, start: str | None = START) -> ScheduleSpec:
    form = {"frequency_unit": unit, "frequency_time": number, "target": {"event": "orders"}}
    return load_spec(form | ({"start_ts": start} if start else {}), "job")


def due(found: ScheduleSpec) -> Iterator[datetime]:
    after = datetime(2026, 1, 1, tzinfo=UTC)
    times = DueTimes(found, (), after, "job")
    while (following := times.next_after(after)) is not None:
        yield following
        after = following


@pytest.mark.parametrize(
    ("unit", "number", "form"),
    [
        ("SECONDS", 30, {"every": "30s", "anchor": START}),
        ("MINUTES", 15, {"every": "15m", "anchor": START}),
        ("hours", 2, {"every": "2h", "anchor": START}),
        ("Day", 1, {"every": "1d", "anchor": START}),
        ("WEEKS", 2, {"every": "14d", "anchor": START}),
        ("MONTHS", 1, {"rrule": "FREQ=MONTHLY;INTERVAL=1", "dtstart": START}),
    ],
)
def test_a_frequency_means_a_trigger_that_counts_from_its_start(
    unit: str, number: int, form: dict[str, str]
) -> None:
    found = spec(unit, number).triggers[0].to_json()
    assert {key: found[key] for key in form if key != "every"} == {
        key: value for key, value in form.items() if key != "every"
    }
    if "every" in form:
        assert found == load_spec({"trigger": form, "target": "t"}, "job").triggers[0].to_json()


def test_the_first_due_time_is_the_start_and_none_comes_before_it() -> None:
    begin = datetime(2026, 1, 31, 8, tzinfo=UTC)
    first = list(islice(due(spec("MINUTES", 15)), 3))
    assert first == [begin, begin + timedelta(minutes=15), begin + timedelta(minutes=30)]


def test_months_without_the_day_of_the_start_are_left_out() -> None:
    assert [at.month for at in islice(due(spec("MONTHS", 1)), 3)] == [1, 3, 5]


def test_a_frequency_without_a_start_begins_when_the_schedule_is_made() -> None:
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert spec("HOURS", 1, None).anchored(now).triggers[0].to_json()["anchor"] == (
        "2026-05-01T12:00:00Z"
    )


@pytest.mark.parametrize(
    ("unit", "number", "field"),
    [
        ("FORTNIGHTS", 1, "frequency_unit"),
        (None, 1, "frequency_unit"),
        ("DAYS", 0, "frequency_time"),
    ],
)
def test_what_is_no_frequency_is_refused(unit: object, number: object, field: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        spec(unit, number)
    assert list(caught.value.problems) == [field]


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"frequency_unit": "DAYS", "frequency_time": 1, "start_ts": "soon"}, "start_ts"),
        ({"frequency_unit": "DAYS", "frequency_time": 1, "start_ts": 1_700_000_000}, "start_ts"),
        ({"frequency_time": 1}, "frequency_unit"),
        ({"frequency_unit": "DAYS", "frequency_time": 1, "trigger": "every 1h"}, "trigger"),
    ],
)
def test_what_is_wrong_with_a_frequency_is_said_of_its_own_fields(
    form: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        load_spec({"target": {"event": "orders"}, **form}, "job")
    assert list(caught.value.problems) == [field]
