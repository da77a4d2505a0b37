"""Kinds of triggers and targets as short texts, and back."""

from __future__ import annotations

import json

import pytest

from duebook.web.kinds import KINDS, Typed, read_kinds, same_value, typed

TRIGGERS = [
    ({"cron": "30 2 * * *", "tz": "Europe/Brussels"}, "cron", "30 2 * * *", "Europe/Brussels"),
    ({"every": "15m"}, "every", "15m", ""),
    ({"daily": ["07:00", "17:30"], "tz": "UTC"}, "daily", "07:00, 17:30", "UTC"),
    ({"weekly": "MON,WED 09:00"}, "weekly", "MON,WED 09:00", ""),
    ({"at": "2027-01-31T08:00:00Z"}, "at", "2027-01-31T08:00:00Z", ""),
    ({"rrule": "FREQ=MONTHLY;BYDAY=-1FR"}, "rrule", "FREQ=MONTHLY;BYDAY=-1FR", ""),
]
TARGETS = [
    ("cleanup", "task", "cleanup"),
    ({"task": "cleanup"}, "task", "cleanup"),
    ({"command": ["echo", "two words"]}, "command", "echo 'two words'"),
    ({"shell": "a | b"}, "shell", "a | b"),
    ({"flow": "warehouse"}, "flow", "warehouse"),
    ({"http": {"url": "https://example.com"}}, "http", "https://example.com"),
    (
        {"http": {"method": "POST", "url": "https://example.com"}},
        "http",
        "POST https://example.com",
    ),
]
ONLY_JSON = [
    ("trigger", {"cron": "30 2 * * *", "gap": "skip"}),
    ("trigger", {"every": "15m", "anchor": "2026-01-01T00:00:00Z"}),
    ("trigger", [{"every": "15m"}, {"cron": "@daily"}]),
    ("trigger", {"daily": 7}),
    ("trigger", {"tz": "UTC"}),
    ("target", {"command": ["true"], "env": {"A": "1"}}),
    ("target", {"http": {"url": "https://example.com", "json": {}}}),
    ("target", {"event": {"topic": "orders"}}),
    ("target", 7),
]


@pytest.mark.parametrize(("form", "kind", "text", "tz"), TRIGGERS)
def test_a_trigger_is_shown_as_its_kind_and_read_back(
    form: object, kind: str, text: str, tz: str
) -> None:
    assert typed("trigger", json.dumps(form)) == Typed(kind, text, tz)
    read = read_kinds({"trigger": text, "trigger_kind": kind, "tz": tz})
    assert json.loads(read["trigger"]) == form


@pytest.mark.parametrize(("form", "kind", "text"), TARGETS)
def test_a_target_is_shown_as_its_kind_and_read_back(form: object, kind: str, text: str) -> None:
    assert typed("target", json.dumps(form)) == Typed(kind, text)
    read = read_kinds({"target": text, "target_kind": kind})
    assert same_value(read["target"], json.dumps(form))


@pytest.mark.parametrize(("field", "form"), ONLY_JSON)
def test_what_no_kind_can_show_stays_json(field: str, form: object) -> None:
    text = json.dumps(form)
    assert typed(field, text) == Typed("json", text)
    assert read_kinds({field: text, f"{field}_kind": "json"}) == {field: text}


def test_json_is_json_whatever_kind_was_chosen() -> None:
    text = '{"every": "1h"}'
    assert read_kinds({"trigger": text, "trigger_kind": "cron", "tz": "UTC"}) == {"trigger": text}


def test_a_time_without_offset_is_of_the_chosen_zone() -> None:
    given = {"trigger": "2027-01-31T09:00", "trigger_kind": "at", "tz": "Europe/Brussels"}
    assert json.loads(read_kinds(given)["trigger"]) == {"at": "2027-01-31T08:00:00Z"}
    unread = read_kinds(given | {"trigger": "soon"})
    assert json.loads(unread["trigger"]) == {"at": "soon"}, "the trigger says what is wrong"


def test_a_command_that_no_shell_reads_is_refused_later() -> None:
    read = read_kinds({"target": "echo 'open", "target_kind": "command"})
    assert json.loads(read["target"]) == {"command": "echo 'open"}
    assert typed("target", read["target"]).text == read["target"]


def test_an_empty_field_has_the_first_kind() -> None:
    assert [typed(field, "").kind for field in KINDS] == ["cron", "task"]


def test_a_broken_text_is_shown_again() -> None:
    assert typed("trigger", "30 2 *") == Typed("cron", "30 2 *")
    assert typed("trigger", '{"cron": ') == Typed("json", '{"cron": ')
    assert not same_value("{", "}")
