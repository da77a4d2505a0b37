"""Words of other schedulers for an event and a pause mean Duebook's own fields."""

from __future__ import annotations

from typing import Any

import pytest

from duebook.model.aliases import canonical, read_enabled
from duebook.model.definition import load_changes, load_spec
from duebook.model.schedule import InvalidSchedule
from duebook.model.target import EventTarget

EVERY = {"frequency_unit": "MINUTES", "frequency_time": 5}
SHOWN = {"event": {"topic": "orders", "type": "due", "data": {"shop": 1}}}


def problems(form: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidSchedule) as caught:
        load_spec(form, "job")
    return caught.value.problems


def test_a_row_of_a_table_of_schedules_is_a_definition() -> None:
    row = {"event_topic": "orders", "event_type": "due", "event_data": '{"shop": 1}'}
    assert load_spec(EVERY | row, "job").target == EventTarget("orders", "due", data={"shop": 1})


@pytest.mark.parametrize("data", ["plain text", "{{ payload.shop }}", 7, {"a": [1]}, "7"])
def test_data_that_is_no_text_of_an_object_stays_as_it_is(data: Any) -> None:
    spec = load_spec(EVERY | {"event_topic": "orders", "event_data": data}, "job")
    assert spec.target == EventTarget("orders", data=data)


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"event_topic": "or ders"}, "event_topic", "event_topic"),
        ({"event_topic": "duebook.x"}, "event_topic", "belong to Duebook"),
        ({"event_topic": "orders", "event_type": "a b"}, "event_type", "event_type"),
        ({"event_topic": "orders", "event_data": float("nan")}, "event_data", "event_data"),
        ({"event_type": "due"}, "event_topic", "event_topic is missing; event_type requires it"),
        ({"event_topic": "orders", "target": "digest"}, "target", "leave one of them out"),
        ({"target": "digest", "status": "paused"}, "status", "enabled (or active)"),
    ],
)
def test_what_cannot_be_an_event_is_refused_by_the_word_that_was_used(
    given: dict[str, Any], field: str, words: str
) -> None:
    found = problems(EVERY | given)
    assert list(found) == [field]
    assert words in found[field]


@pytest.mark.parametrize(
    ("changes", "event"),
    [
        ({"event_topic": "stock"}, {"topic": "stock", "type": "due", "data": {"shop": 1}}),
        ({"event_data": {"shop": 2}}, {"topic": "orders", "type": "due", "data": {"shop": 2}}),
        ({"event_type": None}, {"topic": "orders", "data": {"shop": 1}}),
        ({"event_data": None}, {"topic": "orders", "type": "due"}),
    ],
)
def test_a_change_of_one_word_leaves_the_rest_of_the_event(
    changes: dict[str, Any], event: dict[str, Any]
) -> None:
    assert load_changes({"target": SHOWN}, changes)["target"] == {"event": event}


def test_words_of_an_event_that_are_null_leave_another_target_alone() -> None:
    changes = {"event_topic": None, "event_data": None, "grace": "5m"}
    assert load_changes({"target": {"task": "t"}}, changes) == {
        "target": {"task": "t"},
        "grace": "5m",
    }


@pytest.mark.parametrize(
    ("given", "enabled"),
    [
        ({}, None),
        ({"active": False}, False),
        ({"active": True}, True),
        ({"enabled": False, "active": None}, False),
        ({"enabled": True, "active": True}, True),
    ],
)
def test_active_is_another_word_for_enabled(given: dict[str, Any], enabled: bool | None) -> None:
    assert read_enabled(given | {"grace": "1m"}) == ({"grace": "1m"}, enabled, {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"enabled": True, "active": False}, "active is false but enabled is true"),
        ({"active": "no"}, 'active "no" is not true or false'),
    ],
)
def test_a_contradiction_about_active_is_refused(given: dict[str, Any], words: str) -> None:
    _, _, wrong = read_enabled(given)
    assert list(wrong) == ["active"]
    assert words in wrong["active"]


def test_own_words_stay_as_they_are() -> None:
    form = {"trigger": {"every": "1m"}, "target": SHOWN, "start_at": None}
    assert canonical(form) == form
