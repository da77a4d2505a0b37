"""Schedules over HTTP: create, read, change, act, ask, delete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.model.codec import encode
from tests.support.api import HELLO, Api
from tests.support.builders import tick, write_unreadable

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.store.base import Store


def test_a_schedule_is_created_from_name_cron_target_and_enabled(api: Api) -> None:
    made = api("POST", "schedules", HELLO | {"enabled": True})
    assert made.status_code == 201
    assert made.headers["etag"] == '"1"'
    assert made.headers["location"] == f"/api/v1/schedules/{made.json()['id']}"
    schedule = api.ok("GET", "schedules/hello")
    assert schedule["trigger"] == {"cron": "0 9 * * *"}
    assert schedule["status"] == "active"
    assert schedule["next_due_at"].endswith("T09:00:00Z")
    assert schedule["created_by"] == "token:admin"


def test_a_schedule_that_is_not_enabled_is_paused(api: Api) -> None:
    assert api.ok("POST", "schedules", HELLO | {"enabled": False})["status"] == "paused"
    assert api.ok("PATCH", "schedules/hello", {"enabled": True})["status"] == "active"


def test_a_run_carries_its_trigger_and_stands_on_the_schedule(api: Api, store: Store) -> None:
    api.ok("POST", "schedules", HELLO)
    api.ok("POST", "schedules/hello/reschedule", {"at": "2026-01-01T00:00:00Z"})
    tick(store)
    (run,) = api.ok("GET", "schedules/hello/runs")["items"]
    assert run["trigger"] == "schedule:0 9 * * *"
    schedule = api.ok("GET", "schedules/hello")
    assert schedule["last_run_id"] == run["id"]
    assert schedule["last_run_at"] == run["created_at"]
    assert schedule["last_enqueued_at"] == run["created_at"]
    assert schedule["updated_at"] == schedule["created_at"]
    assert api.ok("PATCH", "schedules/hello", {"priority": 1})["last_enqueued_at"] is not None


def test_every_wrong_field_is_named_at_once(api: Api) -> None:
    body = {"name": "Hello!", "cron": "61 * * * *", "grace": 5, "colour": "red", "overlap": "x"}
    problem = api.refused(422, "POST", "schedules", body)
    assert problem["code"] == "invalid_schedule"
    named = {error["field"] for error in problem["errors"]}
    assert named == {"name", "trigger", "target", "grace", "colour", "overlap"}


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"trigger": {"cron": "* * * * *", "tz": "Mars/Base"}}, "trigger", "Mars/Base"),
        ({"max_runs": 10**30}, "max_runs", "whole number"),
        ({"trigger": {"at": "2020-01-01T00:00:00Z"}, "cron": None}, "trigger", "in the past"),
        ({"trigger": "0 0 30 2 *", "cron": None}, "trigger", "never"),
        ({"depends_on": [{"schedule": "hello", "within": "1h"}]}, "depends_on", "itself"),
        ({"self": 1}, "self", "not a field"),
        ({"by": "root"}, "by", "not a field"),
        ({"enabled": "yes"}, "enabled", "not true or false"),
        ({"payload": []}, "payload", "not a JSON object"),
    ],
)
def test_bad_input_is_told_in_words(
    api: Api, change: dict[str, Any], field: str, words: str
) -> None:
    problem = api.refused(422, "POST", "schedules", HELLO | change)
    messages = {error["field"]: error["message"] for error in problem["errors"]}
    assert words in messages[field]
    api.refused(404, "GET", "schedules/hello")


def test_a_name_is_taken_once(api: Api) -> None:
    api.ok("POST", "schedules", HELLO)
    assert api.refused(409, "POST", "schedules", HELLO)["code"] == "conflict"


def test_put_replaces_the_whole_of_the_version_it_names(api: Api) -> None:
    api.ok("POST", "schedules", HELLO | {"description": "old", "timeout": "1h"})
    whole = {"cron": "0 10 * * *", "target": HELLO["target"]}
    assert api.refused(428, "PUT", "schedules/hello", whole)["code"] == "version_needed"
    changed = api("PUT", "schedules/hello", whole, headers={"If-Match": '"1"'})
    assert changed.status_code == 200
    assert changed.headers["etag"] == '"2"'
    assert "description" not in changed.json()
    assert "timeout" not in changed.json()
    stale = api.refused(409, "PUT", "schedules/hello", whole | {"version": 1})
    assert "has version 2, not 1" in stale["detail"]
    problem = api.refused(422, "PUT", "schedules/hello", {"version": 2})
    assert {error["field"] for error in problem["errors"]} == {"trigger", "target"}


def test_patch_changes_some_fields_and_heeds_a_version_if_given(api: Api) -> None:
    api.ok("POST", "schedules", HELLO | {"description": "old", "timeout": "1h"})
    changed = api.ok("PATCH", "schedules/hello", {"timeout": None, "grace": "5m"})
    assert changed["description"] == "old"
    assert changed["grace"] == "5m"
    assert "timeout" not in changed
    stale = {"If-Match": '"1"'}
    assert api("PATCH", "schedules/hello", {"grace": "6m"}, headers=stale).status_code == 409
    api.ok("PATCH", "schedules/hello", {"grace": "6m", "version": 2})
    api.refused(422, "PATCH", "schedules/hello", {"name": "other"})


@pytest.mark.parametrize("value", ['"x"', "1.5", '"-1"', '"99999999999"', ""])
def test_an_if_match_that_is_no_version_cannot_be_read(api: Api, value: str) -> None:
    api.ok("POST", "schedules", HELLO)
    api.refused(400, "DELETE", "schedules/hello", headers={"If-Match": value})


def test_delete_frees_the_name_and_keeps_the_history(api: Api) -> None:
    api.ok("POST", "schedules", HELLO)
    run = api.ok("POST", "schedules/hello/trigger")
    assert api("DELETE", "schedules/hello", headers={"If-Match": '"7"'}).status_code == 409
    assert api("DELETE", "schedules/hello", headers={"If-Match": '"1"'}).status_code == 204
    api.refused(404, "GET", "schedules/hello")
    api.refused(404, "DELETE", "schedules/hello")
    assert [found["id"] for found in api.ok("GET", "schedules/hello/runs")["items"]] == [run["id"]]
    assert api.ok("GET", f"runs/{run['id']}")["status"] == "cancelled"
    api.ok("POST", "schedules", HELLO)


def test_pause_resume_skip_and_reschedule(api: Api) -> None:
    api.ok("POST", "schedules", HELLO)
    paused = api.ok("POST", "schedules/hello/pause", {"reason": "moving"})
    assert (paused["status"], paused["pause_reason"]) == ("paused", "moving")
    api.refused(409, "POST", "schedules/hello/pause", {})
    assert api.ok("POST", "schedules/hello/resume")["status"] == "active"
    skipped = api.ok("POST", "schedules/hello/skip-next")
    first, second = skipped["skipped_due_at"], skipped["schedule"]["next_due_at"]
    assert first < second
    api.refused(409, "POST", "schedules/hello/skip-next", {"due_at": first})
    late = {"at": "2099-01-01T00:00:00Z", "due_at": first}
    api.refused(409, "POST", "schedules/hello/reschedule", late)
    moved = api.ok("POST", "schedules/hello/reschedule", {"at": "2099-01-01T00:00:00+01:00"})
    said = api.ok("GET", "schedules/hello/exceptions")["items"]
    assert [word["kind"] for word in said] == ["skip", "moved_away", "moved_here"]
    assert moved["next_due_at"] > second
    assert api.ok("POST", "schedules/hello/restore", {"at": second})["next_due_at"] == second
    api.refused(409, "POST", "schedules/hello/restore", {"at": second})
    assert api.ok("POST", "schedules/hello/restore", {"at": first})["next_due_at"] == first


def test_an_update_is_shown_before_it_is_made(api: Api) -> None:
    api.ok("POST", "schedules", HELLO)
    edit = api.ok("POST", "schedules/hello/preview-update", {"cron": "0 9 * * *", "grace": "5m"})
    assert (edit["after"]["trigger"]["cron"], edit["after"]["grace"]) == ("0 9 * * *", "5m")
    assert len(edit["was_due"]) == len(edit["will_be_due"]) == 10
    problem = api.refused(422, "POST", "schedules/hello/preview-update", {"grace": "soon"})
    assert [error["field"] for error in problem["errors"]] == ["grace"]
    problem = api.refused(422, "POST", "schedules/hello/preview-update", {"count": "many"})
    assert [error["field"] for error in problem["errors"]] == ["count"]
    assert api.ok("GET", "schedules/hello")["version"] == 1


def test_an_action_names_every_wrong_field(api: Api) -> None:
    api.ok("POST", "schedules", HELLO)
    body = {"start": "yesterday", "reprocess": "some", "colour": "red"}
    problem = api.refused(422, "POST", "schedules/hello/backfill", body)
    named = {error["field"] for error in problem["errors"]}
    assert named == {"start", "end", "reprocess", "colour"}


def test_a_backfill_can_be_tried_dry(api: Api) -> None:
    api.ok("POST", "schedules", HELLO | {"start_at": "2026-11-01T00:00:00Z"})
    now = api.ok("GET", "schedules/hello")["created_at"]
    dry = api.ok("POST", "schedules/hello/backfill", {"start": now, "end": now, "dry_run": True})
    assert dry == {"dry_run": True, "count": 0, "due_times": [], "runs": []}


def test_a_backfill_is_undone(api: Api) -> None:
    api.ok("POST", "schedules", {"name": "hello", "cron": "* * * * *", "target": "job"})
    start = datetime.now(UTC) - timedelta(hours=1)
    span = {"start": start.isoformat(), "end": (start + timedelta(minutes=9)).isoformat()}
    runs = api.ok("POST", "schedules/hello/backfill", span)["runs"]
    body = span | {"queued_at": runs[0]["ready_at"]}
    assert api.ok("POST", "schedules/hello/undo-backfill", body) == {
        "cancelled": len(runs),
        "begun": 0,
    }
    api.refused(422, "POST", "schedules/hello/undo-backfill", span)


def test_preview_explain_and_revisions_answer(api: Api) -> None:
    api.ok("POST", "schedules", HELLO)
    due = api.ok("GET", "schedules/hello/preview", params={"count": 3})["items"]
    assert len(due) == 3
    (told,) = api.ok("GET", "schedules/hello/explain", params={"at": due[0]})["items"]
    assert (told["verdict"], told["tz"], told["run_status"]) == ("to_come", "UTC", None)
    asked = {"at": due[0], "tz": "Asia/Tokyo"}
    assert api.ok("GET", "schedules/hello/explain", params=asked)["items"][0]["tz"] == "Asia/Tokyo"
    api.refused(422, "GET", "schedules/hello/explain", params={"at": due[0], "tz": "x"})
    span = {"start": due[0], "end": due[2]}
    assert len(api.ok("GET", "schedules/hello/explain", params=span)["items"]) == 3
    api.refused(422, "GET", "schedules/hello/explain")
    api.ok("PATCH", "schedules/hello", {"description": "new"})
    versions = api.ok("GET", "schedules/hello/revisions")["items"]
    assert [revision["version"] for revision in versions] == [1, 2]
    assert versions[1]["definition"]["description"] == "new"


def test_the_ledger_says_what_did_not_run(api: Api, store: Store) -> None:
    api.ok("POST", "schedules", HELLO)
    for at in ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"):  # both are due at once
        api.ok("POST", "schedules/hello/reschedule", {"at": at})
        tick(store)
    (run,) = api.ok("GET", "runs")["items"]
    (entry,) = api.ok("GET", "schedules/hello/ledger")["items"]
    assert (entry["reason"], entry["due_from"]) == ("overlap", "2026-01-02T00:00:00Z")
    assert run["id"] in str(entry["facts"])


def test_what_would_run_is_rendered(api: Api) -> None:
    target = {"command": ["echo", "{{ payload.who }}"]}
    api.ok("POST", "schedules", HELLO | {"target": target, "payload": {"who": "all"}})
    shown = api.ok("POST", "schedules/hello/render", {"payload": {"who": "$(id)"}})
    assert shown["target"]["command"] == ["echo", "$(id)"]


def test_a_template_gives_what_is_left_out(api: Api, app: App) -> None:
    defaults = {"cron": "H 2 * * *", "retry": 3, "target": {"command": ["true"]}}
    assert api.ok("PUT", "templates/nightly", defaults)["updated_by"] == "token:admin"
    assert [found["name"] for found in api.ok("GET", "templates")["items"]] == ["nightly"]
    operator = Api(app, "operator")
    made = operator.ok("POST", "schedules", {"name": "orders", "template": "nightly"})
    assert made["target"] == {"command": ["true"]}
    api.ok("DELETE", "templates/nightly")
    api.refused(404, "GET", "templates/nightly")
    problem = api.refused(422, "PUT", "templates/nightly", {"enabled": True, "cron": "@daily"})
    assert problem["errors"][0]["field"] == "enabled"


def test_the_form_is_that_of_the_command_line(api: Api, store: Store) -> None:
    api.ok("POST", "schedules", HELLO | {"labels": {"team": "x"}, "retry": {"attempts": 2}})
    assert api.ok("GET", "schedules/hello") == encode(Book(store).schedules.get("hello"))


def test_what_a_target_hides_lets_nobody_define_another(app: App, api: Api) -> None:
    """Sent back as shown, it stays the same; only admins may define anything else."""
    hook = {"url": "https://example.com/hook", "headers": {"X-Key": "s3cret"}}
    api.ok("POST", "schedules", {"name": "hook", "cron": "@daily", "target": {"http": hook}})
    shown = api.ok("GET", "schedules/hook")["target"]
    operator = Api(app, "operator")
    operator.ok("PATCH", "schedules/hook", {"target": shown, "description": "mine"})
    other = {"http": {**shown["http"], "url": "https://example.com/other"}}
    operator.refused(403, "PATCH", "schedules/hook", {"target": other})
    api.ok("PATCH", "schedules/hook", {"target": other})
    elsewhere = {"http": {**shown["http"], "url": "https://elsewhere.example/"}}
    problem = api.refused(422, "PATCH", "schedules/hook", {"target": elsewhere})
    assert ("a placeholder for a hidden value; give the real value") in problem["errors"][0][
        "message"
    ]


def test_a_name_that_is_missing_is_called_missing(api: Api) -> None:
    problem = api.refused(422, "POST", "schedules", {})
    told = {error["field"]: error["message"] for error in problem["errors"]}
    assert told == {
        "name": "name is missing",
        "trigger": "trigger is missing",
        "target": "target is missing",
    }


ROW = {
    "name": "stocktaking",
    "frequency_unit": "MINUTES",
    "frequency_time": 15,
    "start_ts": "2099-01-01T00:00:00Z",
    "event_topic": "stock",
    "event_type": "due",
    "event_data": '{"shop": 1}',
    "active": False,
}


def test_the_words_of_another_scheduler_are_read(api: Api) -> None:
    made = api.ok("POST", "schedules", ROW)
    assert made["target"] == {"event": {"topic": "stock", "type": "due", "data": {"shop": 1}}}
    assert made["trigger"] == {"every": "15m", "anchor": "2099-01-01T00:00:00Z"}
    assert made["status"] == "paused"
    changed = api.ok("PATCH", "schedules/stocktaking", {"event_type": "late", "active": True})
    assert changed["target"]["event"] == {"topic": "stock", "type": "late", "data": {"shop": 1}}
    assert changed["status"] == "active"
    whole = {"cron": "0 9 * * *", "event_topic": "stock", "active": False, "version": 2}
    replaced = api.ok("PUT", "schedules/stocktaking", whole)
    assert replaced["target"] == {"event": {"topic": "stock"}}
    assert replaced["status"] == "paused"
    created = api.ok("POST", "bulk/schedules", {"schedules": [ROW | {"name": "other"}]})
    assert created["items"][0]["status"] == "paused"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"target": "digest"}, "target"),
        ({"enabled": True}, "active"),
        ({"status": "active"}, "status"),
        ({"trigger": {"every": "1h"}}, "trigger"),
        ({"event_topic": "no topic"}, "event_topic"),
    ],
)
def test_words_that_contradict_each_other_are_refused(
    api: Api, given: dict[str, Any], field: str
) -> None:
    problem = api.refused(422, "POST", "schedules", ROW | given)
    assert [error["field"] for error in problem["errors"]] == [field]


def test_an_operator_defines_no_event_by_other_words(api: Api, app: App) -> None:
    operator = Api(app, "operator")
    event = {"event": {"topic": "stock", "type": "due", "data": {"secret": "s3"}}}
    api.ok("PUT", "templates/events", {"target": event})
    api.ok("POST", "schedules", {"name": "stock", "cron": "@daily", "template": "events"})
    operator.refused(403, "POST", "schedules", ROW)
    operator.refused(403, "POST", "bulk/schedules", {"schedules": [ROW]})
    operator.refused(403, "PUT", "templates/mine", {"event_topic": "stock"})
    made = {"name": "mine", "cron": "@daily", "template": "events"}
    operator.refused(403, "POST", "schedules", made | {"event_data": {"a": 1}})
    operator.refused(403, "PATCH", "schedules/stock", {"event_type": None})
    operator.refused(403, "PATCH", "schedules/stock", {"event_data": {"secret": "mine"}})
    operator.refused(403, "POST", "schedules/stock/preview-update", {"event_topic": "other"})
    whole = {"cron": "@daily", "event_topic": "stock", "version": 1}
    operator.refused(403, "PUT", "schedules/stock", whole)
    same = {"event_topic": "stock", "event_data": {"secret": "***"}, "grace": "5m"}
    assert operator.ok("PATCH", "schedules/stock", same)["grace"] == "5m"
    assert Book(app.state.services.store).schedules.get("stock").spec.target.data == {  # type: ignore[union-attr]
        "secret": "s3"
    }


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_definition_that_cannot_be_read_is_repaired(method: str, api: Api, store: Store) -> None:
    made = api.ok("POST", "schedules", {"name": "job", "cron": "0 * * * *", "target": "t"})
    write_unreadable(store, made["id"])
    form = api.ok("GET", "schedules/job")
    assert "priority" in form["problem"]
    assert "trigger" not in form
    assert [one["name"] for one in api.ok("GET", "schedules")["items"]] == ["job"]
    if method == "PATCH":
        refused = api.refused(422, "PATCH", "schedules/job", {"overlap": "queue"})
        assert [one["field"] for one in refused["errors"]] == ["priority"]
        repaired = api.ok("PATCH", "schedules/job", {"priority": None})
    else:
        whole = {"cron": "0 * * * *", "target": "t", "version": 2}
        repaired = api.ok("PUT", "schedules/job", whole)
    assert (repaired["problem"], repaired["version"]) == (None, 3)
