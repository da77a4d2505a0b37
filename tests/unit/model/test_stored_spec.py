"""Stored definitions: equal texts are read once, and mean the same as if they were read anew."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duebook.model import stored_spec
from duebook.model.definition import load_spec
from duebook.model.schedule import InvalidSchedule, ScheduleSpec
from duebook.model.stored_spec import read_stored
from duebook.model.unreadable import read_spec

DAILY = {"trigger": {"cron": "0 9 * * *"}, "target": {"task": "work"}}
FORMS: dict[str, dict[str, Any]] = {
    "task": DAILY,
    "command": DAILY | {"target": {"command": ["true"], "env": {"A": "b"}}},
    "request": DAILY | {"target": {"http": {"url": "https://x.example", "json": {"a": [1]}}}},
    "event": DAILY | {"target": {"event": {"topic": "t", "data": {"a": [1]}}}},
    "flow": DAILY | {"target": {"flow": "etl", "params": {"a": [1]}}},
    "payload": DAILY | {"payload": {"a": [1]}},
    "policies": DAILY | {"labels": {"team": "t1"}, "retry": {"attempts": 3}, "timeout": "1h"},
    "hash": DAILY | {"trigger": {"cron": "H 9 * * *"}},
    "own hash": DAILY | {"trigger": {"cron": "H 9 * * *", "key": "mine"}},
    "dependent": DAILY | {"depends_on": [{"schedule": "other", "within": "1h"}]},
}


@pytest.fixture(autouse=True)
def _unread() -> None:
    stored_spec._known.cache_clear()


@pytest.mark.parametrize("kind", FORMS)
def test_a_text_means_the_same_for_each_name(kind: str) -> None:
    text = json.dumps(FORMS[kind])
    for name in ("a", "b", "a", "c"):
        assert read_stored(text, name) == read_spec(text, name)


def test_a_hash_is_that_of_the_own_name() -> None:
    text = json.dumps(FORMS["hash"])
    found = {name: read_stored(text, name).triggers[0].to_json()["key"] for name in ("a", "b")}
    assert found == {"a": "a", "b": "b"}


def test_a_schedule_that_waits_for_itself_is_refused_after_others_were_read() -> None:
    text = json.dumps(FORMS["dependent"])
    assert read_stored(text, "mine").depends_on
    with pytest.raises(InvalidSchedule, match="cannot depend on itself"):
        read_stored(text, "other")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"trigger": {"cron": "x"}, "target": "work"}'])
def test_a_text_that_is_wrong_is_refused_each_time(text: str) -> None:
    for _ in range(2):
        with pytest.raises(InvalidSchedule):
            read_stored(text, "mine")


@pytest.mark.parametrize("kind", ["payload", "request", "event", "flow", "task"])
def test_who_changes_what_was_read_changes_nothing_for_others(kind: str) -> None:
    text = json.dumps(FORMS[kind])
    _spoil(read_stored(text, "a"))
    assert read_stored(text, "a") == read_spec(text, "a")


def _spoil(spec: ScheduleSpec) -> None:
    for value in (spec.payload, *_parts(spec.target)):
        if isinstance(value, dict):
            value.setdefault("a", []).append("spoilt")
        elif isinstance(value, list):
            value.append("spoilt")


def _parts(target: Any) -> list[Any]:
    return [getattr(target, name, None) for name in ("json", "data")] + [
        value for _, value in getattr(target, "params", ())
    ]


def test_what_is_kept_is_bounded() -> None:
    long = json.dumps(DAILY | {"description": "x" * stored_spec.LONGEST_KNOWN})
    read_stored(long, "a")
    assert stored_spec._known.cache_info().currsize == 0
    for number in range(stored_spec.MOST_KNOWN + 10):
        read_stored(json.dumps(DAILY | {"description": str(number)}), "a")
    assert stored_spec._known.cache_info().currsize == stored_spec.MOST_KNOWN


def test_the_stored_form_of_a_definition_is_kept() -> None:
    text = json.dumps(load_spec(FORMS["own hash"], "a").to_json())
    read_stored(text, "a")
    read_stored(text, "b")
    assert stored_spec._known.cache_info().hits == 1


@pytest.mark.parametrize("former", [{}, {"a": 1}])
def test_a_payload_that_changes_is_written_as_it_is_now(former: dict[str, int]) -> None:
    text = json.dumps(DAILY | {"payload": former})
    read_stored(text, "other").written()
    spec = read_stored(text, "job")
    assert spec.written() == spec.to_shown()
    spec.payload["a"] = 2
    assert spec.written()["payload"] == {"a": 2}
    assert read_stored(text, "third").written() == read_spec(text, "third").to_shown()


def test_a_definition_is_written_for_people_once() -> None:
    text = json.dumps(DAILY)
    assert read_stored(text, "a").written() is read_stored(text, "b").written()
