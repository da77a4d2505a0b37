"""Rules of alerts as they are read: conditions, bounds, and errors that name the field."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from duebook.errors import Invalid
from duebook.model.alert import Condition, load_conditions, load_rule, read_condition

MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("failure", Condition("failure")),
        ("failures:3", Condition("failures", number=3)),
        ("late:10m", Condition("late", 10 * MINUTE)),
        ("no-success:1h30m", Condition("no_success", 90 * MINUTE)),
        ("unattended", Condition("unattended", 2 * MINUTE)),
        ("unattended:5m", Condition("unattended", 5 * MINUTE)),
        ("slow", Condition("slow")),
    ],
)
def test_a_condition_is_read_from_its_text_and_written_as_such(
    text: str, condition: Condition
) -> None:
    assert read_condition(text) == condition
    assert read_condition(str(condition)) == condition


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("late", "needs a duration, such as late:10m"),
        ("late:0s", "too short"),
        ("late:soon", "is not a duration"),
        ("late:-5m", '"-5m" is not a duration'),
        ("failures", "failures:2 to failures:1000"),
        ("failures:1", "failures:2 to failures:1000"),
        ("failures:10000", "failures:2 to failures:1000"),
        ("failures:٣", "failures:2 to failures:1000"),
        ("failure:3", "is not a condition"),
        ("broken", "is not a condition; use some of failure"),
        ([], "is not a list of conditions"),
        ([3], "is not a condition"),
        (["failure", "failure"], "more than once"),
        (["recovered"], "add a problem to recover from"),
        (7, "is not a list of conditions"),
    ],
)
def test_wrong_conditions_are_refused(value: Any, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        load_conditions(value)


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"group": "2d"}, "group 2d is longer than 1d"),
        ({"repeat": "1m"}, "repeat 1m is shorter than 5m"),
        ({"limit": 0}, "limit 0 is not a whole number from 1 to 1,000"),
        ({"enabled": "yes"}, "enabled .* is not true or false"),
        ({"schedule": "a", "labels": {"a": "b"}}, "give schedule or labels, not both"),
        ({"schedule": "A B"}, "invalid schedule"),
        ({"labels": {"a": 1}}, "labels"),
        ({"colour": "red"}, '"colour" is not a field of a rule; use one of on, schedule'),
    ],
)
def test_wrong_rules_are_refused_with_the_name_of_the_field(form: dict[str, Any], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        load_rule("default", "ops", form)


def test_a_rule_has_defaults_for_everything_but_its_name() -> None:
    rule = load_rule("default", "ops", {})
    assert (rule.on, rule.group, rule.repeat, rule.limit) == (
        ("failure", "recovered"),
        "1m",
        "1d",
        20,
    )
    with pytest.raises(Invalid, match="invalid rule"):
        load_rule("default", "O P S", {})
