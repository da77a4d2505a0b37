"""A change is told field by field, as people read it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from duebook.model.change import Change
from duebook.web.changes import LONGEST, field_changes

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def told(before: Any, after: Any, action: str = "update", kind: str = "schedule") -> list[Any]:
    change = Change(1, NOW, "ann", "default", action, kind, "job", "", before, after)
    return [
        (row.name, "secret") if row.hidden else (row.name, row.was, row.becomes)
        for row in field_changes(change)
    ]


def test_only_what_differs_below_a_field_is_told() -> None:
    before = {"trigger": {"cron": "0 1 * * *", "tz": "UTC"}, "labels": {"a": "1", "b": "2"}}
    after = {"trigger": {"cron": "0 2 * * *", "tz": "UTC"}, "labels": {"a": "1", "c": "3"}}
    assert told(before, after) == [
        ("trigger › cron", "0 1 * * *", "0 2 * * *"),
        ("labels › b", "2", "–"),
        ("labels › c", "–", "3"),
    ]


def test_what_was_empty_is_told_by_its_parts() -> None:
    assert told({"payload": {}}, {"payload": {"a": {"b": 1}}}) == [("payload › a › b", "–", "1")]
    assert told({"queue": None}, {"queue": "slow"}) == [("queue", "–", "slow")]


def test_another_kind_of_value_is_told_as_a_whole() -> None:
    before, after = {"target": "orders"}, {"target": {"command": ["echo", "a b"]}}
    assert told(before, after) == [("target", "orders", '{"command": ["echo", "a b"]}')]
    made = told({"target": {"command": ["a"]}}, {"target": {"command": ["echo", "a b"]}})
    assert made == [("target › command", "a", "echo 'a b'")]
    assert told({"exclude": []}, {"exclude": ["2026-12-25", "2026-12-26"]}) == [
        ("exclude", "–", "2026-12-25, 2026-12-26")
    ]


def test_a_field_that_looks_the_same_has_a_secret_that_changed() -> None:
    same = {"target": {"shell": "x", "env": {"KEY": "***"}}}
    assert told(same, same) == [("target", "secret")]
    assert told(same, same, kind="template") == []


def test_what_is_only_said_afterwards_has_no_before() -> None:
    after = {"status": "paused", "reason": "holiday", "until": "2026-12-24T10:00:00Z"}
    assert told({"status": "active"}, after, "pause") == [
        ("status", "active", "paused"),
        ("reason", None, "holiday"),
        ("until", None, datetime(2026, 12, 24, 10, tzinfo=UTC)),
    ]
    assert told(None, {"retry": {"attempts": 3}}, "create") == [("retry › attempts", None, "3")]
    assert told({"queue": "slow"}, None, "delete") == [("queue", "slow", None)]
    assert told(None, None, "start", "flow") == []


def test_nothing_can_be_hidden_or_endless() -> None:
    deep: Any = {"a": {"b": {"c": {"d": {"e": True}}}}}
    ((name, _, value),) = told({"payload": {}}, {"payload": deep})
    assert (name, value) == ("payload › a › b › c", '{"d": {"e": true}}')
    ((_, _, value),) = told({"x": ""}, {"x": "a\u202eb" + "y" * 1_000})
    assert value.startswith("a\\u202eb")
    assert len(value) < LONGEST + 10
    assert told({"x": 1}, {"x": "2026-99-99T00:00:00Z"}) == [("x", "1", "2026-99-99T00:00:00Z")]
    assert told({"on": True}, {"on": False}) == [("on", "yes", "no")]
