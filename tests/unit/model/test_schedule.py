"""Definitions: every wrong field is named at once, and the JSON form comes back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from duebook.errors import Invalid
from duebook.model.definition import load_spec
from duebook.model.schedule import InvalidSchedule, ScheduleSpec
from duebook.model.target import CommandTarget, load_target
from duebook.triggers import cron, every

GOOD: dict[str, Any] = {"trigger": "0 9 * * *", "target": {"command": ["true"]}}


def test_a_definition_needs_only_a_trigger_and_a_target() -> None:
    spec = load_spec(GOOD, "job")
    assert spec == ScheduleSpec((cron("0 9 * * *"),), CommandTarget(("true",)))
    assert spec.to_json() == {"trigger": {"cron": "0 9 * * *"}, "target": {"command": ["true"]}}


def test_the_json_form_comes_back() -> None:
    form = {
        "trigger": [{"cron": "H 9 * * *", "key": "job"}, {"every": "5m"}],
        "target": {"shell": "echo", "env": {"A": "b"}, "cwd": "/"},
        "payload": {"n": [1, None, "x"]},
        "description": "words",
        "labels": {"team": "data"},
        "grace": "5m",
        "catchup": "skip",
        "overlap": "allow",
        "on_resume": "catchup",
        "queue": "slow",
        "priority": -3,
        "max_takeovers": 0,
        "timeout": "1h",
    }
    spec = load_spec(form, "job")
    assert spec.to_json() == form
    assert load_spec(spec.to_json(), "other") == spec
    assert (spec.grace, spec.timeout) == (timedelta(minutes=5), timedelta(hours=1))


def test_typed_values_are_accepted() -> None:
    spec = load_spec({**GOOD, "trigger": every("5m"), "timeout": timedelta(minutes=1)}, "job")
    assert (spec.triggers, spec.timeout) == ((every("5m"),), timedelta(minutes=1))


def test_every_wrong_field_is_named_at_once() -> None:
    with pytest.raises(InvalidSchedule) as caught:
        load_spec(
            {
                "trigger": "60 * * * *",
                "target": {"command": []},
                "catchup": "maybe",
                "priority": "high",
                "grace": "soon",
                "colour": "red",
            },
            "job",
        )
    assert set(caught.value.problems) == {
        "trigger",
        "target",
        "catchup",
        "priority",
        "grace",
        "colour",
    }
    assert 'catchup "maybe" is not one of one, skip' in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("trigger", []),
        ("trigger", ["0 9 * * *"] * 21),
        ("trigger", 5),
        ("payload", [1]),
        ("payload", {"x": float("nan")}),
        ("payload", {"x": object()}),
        ("payload", {"x": "y" * 1_000_001}),
        ("labels", {"a": 1}),
        ("labels", ["a"]),
        ("description", "x" * 10_001),
        ("queue", "No Spaces"),
        ("priority", True),
        ("priority", 1_001),
        ("max_takeovers", -1),
        ("timeout", "0s"),
        ("timeout", -5),
        ("overlap", ["skip"]),
    ],
)
def test_wrong_values_are_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        load_spec({**GOOD, field: value}, "job")
    assert list(caught.value.problems) == [field]


def test_a_missing_trigger_and_target_are_both_named() -> None:
    with pytest.raises(InvalidSchedule) as caught:
        load_spec({}, "job")
    assert caught.value.problems == {
        "trigger": "trigger is missing",
        "target": "target is missing",
    }


@pytest.mark.parametrize(
    "form",
    [
        None,
        "echo hello",
        {},
        {"command": ["true"], "shell": "true"},
        {"command": "true"},
        {"command": [""]},
        {"command": ["a\0b"]},
        {"command": ["a", 5]},
        {"shell": ""},
        {"shell": "x", "env": {"A=B": "c"}},
        {"shell": "x", "env": {"A": 1}},
        {"shell": "x", "env": ["A"]},
        {"shell": "x", "cwd": ""},
        {"shell": "x", "user": "root"},
    ],
    ids=str,
)
def test_wrong_targets_are_refused(form: Any) -> None:
    with pytest.raises(Invalid, match="target"):
        load_target(form)


def test_a_target_is_shown_as_it_would_be_typed() -> None:
    assert str(CommandTarget(("echo", "a b", "$x"))) == "echo 'a b' '$x'"
    assert str(CommandTarget(shell="echo $x | wc")) == "echo $x | wc"
