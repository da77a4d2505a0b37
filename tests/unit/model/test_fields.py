"""Single fields of a definition: what is accepted, how it comes back, what is refused and why."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.model.calendar_use import CalendarUse
from duebook.model.definition import load_spec
from duebook.model.fields import DateRange, Dependency, read_date_ranges, read_dependencies
from duebook.model.schedule import InvalidSchedule, ScheduleSpec
from duebook.settings import RETENTION

GOOD: dict[str, Any] = {"trigger": "0 9 * * *", "target": {"command": ["true"]}}

WRONG: dict[str, Any] = {
    "trigger": "61 * * * *",
    "target": {"command": []},
    "payload": [1],
    "title": "two\nlines",
    "description": 5,
    "labels": {"a": 1},
    "start_at": "2026-01-01 12:00",
    "end_at": "never",
    "max_runs": 0,
    "jitter": "1.5s",
    "exclude": ["2026-02-30"],
    "calendar": {"only": "a", "except": "b"},
    "grace": "-1s",
    "catchup": "maybe",
    "catchup_window": "0s",
    "catchup_limit": 100_001,
    "catchup_pace": 5,
    "catchup_approval": -1,
    "overlap": "all",
    "skip_if_successful": "yes",
    "keep": "30m",
    "keep_last": 0,
    "on_resume": "all",
    "depends_on": [{"schedule": "up"}],
    "max_concurrent": 0,
    "queue": "No Spaces",
    "priority": 1_001,
    "retry": {"attempts": 0},
    "max_takeovers": -1,
    "timeout": "0s",
    "expire_after": "soon",
    "stop": "61 * * * *",
    "restart": [{"every": "never"}],
}


def test_every_field_has_a_wrong_value_here() -> None:
    names = {field.name for field in fields(ScheduleSpec) if field.init} - {"triggers"}
    assert set(WRONG) == names | {"trigger"}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_value_is_refused_and_named(field: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        load_spec({**GOOD, field: WRONG[field]}, "job")
    assert list(caught.value.problems) == [field]


def test_all_wrong_fields_are_named_at_once() -> None:
    with pytest.raises(InvalidSchedule) as caught:
        load_spec({**WRONG, "colour": "red"}, "job")
    assert set(caught.value.problems) == {*WRONG, "colour"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"start_at": "2026-01-02T00:00:00Z", "end_at": "2026-01-01T00:00:00Z"}, "end_at"),
        ({"jitter": "25h"}, "jitter"),
        ({"depends_on": {"schedule": "job", "within": "1h"}}, "depends_on"),
        ({"payload": {"a-b": 1, "a_b": 2}}, "payload"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        load_spec({**GOOD, **changes}, "job")
    assert list(caught.value.problems) == [field]


@pytest.mark.parametrize(
    ("trigger", "number"),
    [
        ("* * * * * *", "86,400"),
        ("* * * 25 12 *", "86,400"),
        ({"every": "59s"}, "1,464"),
        (["* * * * *", {"daily": "09:30:30"}], "1,441"),
    ],
)
def test_only_what_is_due_at_most_once_a_minute_can_roll(trigger: Any, number: str) -> None:
    calendar = {"except": "holidays", "roll": "next"}
    with pytest.raises(InvalidSchedule, match=f"its triggers are due {number} times") as caught:
        load_spec({**GOOD, "trigger": trigger, "calendar": calendar}, "job")
    assert list(caught.value.problems) == ["calendar"]
    load_spec({**GOOD, "trigger": trigger, "calendar": {"except": "holidays"}}, "job")
    load_spec({**GOOD, "trigger": "* * * * *", "calendar": calendar}, "job")


@pytest.mark.parametrize(
    "field", ["grace", "catchup_window", "catchup_pace", "timeout", "expire_after"]
)
def test_a_length_with_which_no_time_can_be_written_is_refused(field: str) -> None:
    with pytest.raises(InvalidSchedule, match="100 years"):
        load_spec({**GOOD, field: "300000w"}, "job")


@pytest.mark.parametrize("part", ["within", "wait"])
def test_a_dependency_has_no_endless_lengths(part: str) -> None:
    form = {"schedule": "up", "within": "1h", part: "300000w"}
    with pytest.raises(InvalidSchedule, match="100 years"):
        load_spec({**GOOD, "depends_on": form}, "job")


@pytest.mark.parametrize(
    "changes", [{"start_at": "0001-01-01T00:00:00Z"}, {"exclude": ["0001-01-01"]}]
)
def test_times_at_the_edge_of_the_calendar_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchedule, match="1900"):
        load_spec({**GOOD, **changes}, "job")


# -- exclude and depends_on


def test_days_and_ranges_are_read_in_order() -> None:
    found = read_date_ranges("exclude", ["2026-12-24/2027-01-02", "2026-05-01", date(2026, 1, 1)])
    assert [str(days) for days in found] == ["2026-01-01", "2026-05-01", "2026-12-24/2027-01-02"]
    assert read_date_ranges("exclude", "2026-05-01") == (
        DateRange(date(2026, 5, 1), date(2026, 5, 1)),
    )


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-02/2026-01-01",
        "2026-01-01/",
        "/2026-01-01",
        "2026-01-01/2026-01-02/2026-01-03",
        5,
        None,
        datetime(2026, 1, 1, tzinfo=UTC),
        ["2026-01-01"] * 1_001,
    ],
)
def test_what_is_no_day_or_range_is_refused(value: Any) -> None:
    with pytest.raises(Exception, match="exclude"):
        read_date_ranges("exclude", value)


def test_dependencies_are_read_with_their_lengths() -> None:
    hour, ten = timedelta(hours=1), timedelta(minutes=10)
    form = [{"schedule": "a", "within": "1h", "wait": "10m"}, {"schedule": "b", "within": hour}]
    found = read_dependencies("depends_on", form)
    assert found == (Dependency("a", hour, ten), Dependency("b", hour))
    assert [dependency.to_json() for dependency in found] == [
        {"schedule": "a", "within": "1h", "wait": "10m"},
        {"schedule": "b", "within": "1h"},
    ]


@pytest.mark.parametrize(
    "value",
    [
        "extract",
        {"schedule": "up"},
        {"within": "1h"},
        {"schedule": "up", "within": "0s"},
        {"schedule": "Not A Name", "within": "1h"},
        {"schedule": "up", "within": "1h", "until": "2h"},
        [{"schedule": "up", "within": "1h"}] * 101,
    ],
)
def test_what_is_no_dependency_is_refused(value: Any) -> None:
    with pytest.raises(Exception, match="depends_on"):
        read_dependencies("depends_on", value)


# -- the JSON form

lengths = st.integers(1, 10_000_000).map(lambda seconds: timedelta(seconds=seconds))
names = st.from_regex(r"\A[a-z0-9][a-z0-9._-]{0,20}\Z")
days = st.dates(date(1990, 1, 1), date(2100, 1, 1))
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
moments = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))

SPECS: dict[str, st.SearchStrategy[Any]] = {
    "payload": st.dictionaries(st.sampled_from(["a", "b", "c"]), st.one_of(st.integers(), texts)),
    "title": st.text("abc XYZ<&é", max_size=200).map(str.strip),
    "description": texts,
    "labels": st.dictionaries(texts.filter(bool), texts, max_size=3),
    "start_at": st.none() | moments.filter(lambda at: at.year < 2000),
    "end_at": st.none() | moments.filter(lambda at: at.year >= 2000),
    "max_runs": st.none() | st.integers(1, 1_000_000_000),
    "jitter": st.integers(0, 86_400).map(lambda seconds: timedelta(seconds=seconds)),
    "exclude": st.lists(
        st.tuples(days, days).map(lambda pair: DateRange(min(pair), max(pair))), max_size=4
    ),
    "calendar": st.none()
    | st.builds(
        CalendarUse,
        names,
        st.sampled_from(["only", "except"]),
        st.sampled_from(["skip", "next", "previous"]),
    ),
    "grace": lengths,
    "catchup": st.sampled_from(["one", "skip", "all"]),
    "catchup_window": st.none() | lengths,
    "catchup_limit": st.integers(1, 50_000),
    "catchup_pace": lengths,
    "catchup_approval": st.none() | st.integers(0, 50_000),
    "overlap": st.sampled_from(["skip", "queue", "latest", "cancel", "allow"]),
    "skip_if_successful": st.booleans(),
    "keep": st.sampled_from(["1h", "30d", "3650d"]),
    "keep_last": st.integers(1, 10_000),
    "on_resume": st.sampled_from(["skip", "catchup"]),
    "depends_on": st.lists(
        st.builds(
            Dependency,
            names.filter(lambda n: n != "job"),
            lengths.filter(lambda length: length <= RETENTION),
            lengths,
        ),
        max_size=3,
    ),
    "max_concurrent": st.none() | st.integers(1, 100_000),
    "queue": names,
    "priority": st.integers(-1_000, 1_000),
    "retry": st.none() | st.integers(1, 1_000) | st.just({"attempts": 2, "on": [1, "timeout"]}),
    "max_takeovers": st.integers(0, 100),
    "timeout": st.none() | lengths,
    "expire_after": st.none() | lengths,
}
triggers = st.sampled_from(
    [
        "0 9 * * *",
        ["0 9 * * *", {"every": "5m"}],
        {"cron": "H 2 * * *"},
        {"daily": ["07:00", "17:30"], "tz": "Europe/Brussels"},
        {"at": "2026-03-29T02:10:00+01:00"},
        {"rrule": "FREQ=MONTHLY;BYDAY=-1FR"},
    ]
)
targets = st.sampled_from(
    ["email", {"command": ["pg_dump", "mydb"], "env": {"A": "b"}}, {"shell": "echo", "cwd": "/"}]
)


@given(st.fixed_dictionaries({"trigger": triggers, "target": targets}, optional=SPECS))
def test_the_json_form_of_every_field_comes_back(definition: dict[str, Any]) -> None:
    spec = load_spec(definition, "job")
    assert load_spec(spec.to_json(), "job") == spec
    assert load_spec(spec.to_json(), "job").to_json() == spec.to_json()
    named = {field.name for field in fields(ScheduleSpec) if field.init}
    assert named == {"triggers", "target", *SPECS, "stop", "restart"}


def test_the_stops_and_restarts_of_a_flow_come_back() -> None:
    definition: dict[str, Any] = {"trigger": [], "target": {"flow": "f"}, "stop": "0 9 * * *"}
    definition["restart"] = [{"daily": "07:00"}, {"every": "5m"}]
    spec = load_spec(definition, "job")
    assert (spec.triggers, len(spec.stop), len(spec.restart)) == ((), 1, 2)
    assert load_spec(spec.to_json(), "job") == spec
