"""Lists by page and by filter, and actions on everything that a filter matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import HELLO, Api
from tests.support.builders import begin

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.store.base import Store

pytestmark = pytest.mark.both_databases


def made(number: int, **more: Any) -> dict[str, Any]:
    return HELLO | {"name": f"job-{number:03}"} | more


@pytest.fixture
def many(api: Api) -> Api:
    """Ten schedules: the even ones of team a, the odd ones of team b and paused."""
    body = [
        made(n, labels={"team": "ab"[n % 2], "all": "yes"}, enabled=n % 2 == 0) for n in range(10)
    ]
    assert api.ok("POST", "bulk/schedules", {"schedules": body})["count"] == 10
    return api


def names(api: Api, **params: Any) -> list[str]:
    """All names, by pages of three."""
    found, cursor = [], None
    while True:
        more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        page = api.ok("GET", "schedules", params=params | {"limit": 3} | more)
        found += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def test_a_long_page_is_compressed_for_who_accepts_that(many: Api) -> None:
    for path in ("schedules", "schedules?sort=-name"):
        plain, small = (
            many("GET", path, headers={"Accept-Encoding": accepted})
            for accepted in ("identity", "gzip")
        )
        assert len(plain.content) > 4_096
        assert "content-encoding" not in plain.headers
        assert small.headers["content-encoding"] == "gzip"
        assert int(small.headers["content-length"]) < len(plain.content) // 2
        assert small.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
        assert small.json() == plain.json()


def test_one_schedule_is_not_compressed(many: Api) -> None:
    answer = many("GET", "schedules/job-000", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in answer.headers
    assert "vary" not in answer.headers


def test_pages_follow_each_other_without_gaps(many: Api) -> None:
    everything = [f"job-{n:03}" for n in range(10)]
    assert names(many) == everything
    assert names(many, sort="-name") == everything[::-1]
    assert names(many, label=["team:a", "all:yes"]) == everything[::2]
    assert names(many, status="paused") == everything[1::2]
    assert names(many, text="job-00*") == everything
    assert names(many, text="7") == ["job-007"]
    assert names(many, target="http") == []
    many.ok("POST", "schedules", HELLO | {"name": "told", "target": {"event": {"topic": "x"}}})
    assert names(many, target="event") == ["told"]
    assert "told" not in names(many, target="command")
    assert names(many, due_before="2000-01-01T00:00:00Z") == []


@pytest.mark.parametrize(
    "params",
    [
        {"status": "asleep"},
        {"label": "team"},
        {"text": "' OR 1=1*"},
        {"due_before": "soon"},
        {"target": "shell;"},
        {"sort": "name; DROP TABLE runs"},
        {"limit": 0},
        {"limit": 10**30},
        {"problem": "maybe"},
        {"cursor": "e30"},
        {"colour": "red"},
    ],
)
def test_filters_that_are_none_cannot_be_read(many: Api, params: dict[str, Any]) -> None:
    assert many.refused(400, "GET", "schedules", params=params)["detail"]


def test_every_wrong_filter_is_named(many: Api) -> None:
    problem = many.refused(400, "GET", "schedules", params={"text": "?*", "due_before": "soon"})
    assert {error["field"] for error in problem["errors"]} == {"text", "due_before"}


def test_runs_are_filtered_and_paged(many: Api) -> None:
    for number in (0, 2, 4):
        many.ok("POST", f"schedules/job-{number:03}/trigger")
    first = many.ok("GET", "runs", params={"limit": 2, "status": "queued", "origin": "manual"})
    assert [run["schedule"] for run in first["items"]] == ["job-004", "job-002"]
    params = {"limit": 2, "status": "queued", "origin": "manual", "cursor": first["next_cursor"]}
    assert [run["schedule"] for run in many.ok("GET", "runs", params=params)["items"]] == [
        "job-000"
    ]
    assert many.ok("GET", "runs", params={"status": "failed"})["items"] == []
    bad = many.refused(400, "GET", "runs", params={"cursor": first["next_cursor"]})
    assert bad["code"] == "bad_cursor"
    assert many.ok("GET", "schedules/job-000/runs", params={"origin": "manual"})["items"]
    many.refused(400, "GET", "schedules/job-000/ledger", params={"reason": "fate"})


def test_many_are_made_together_or_not_at_all(api: Api) -> None:
    body = [made(0), made(1, cron="61 * * * *"), made(0), {"name": "x"}, 7]
    problem = api.refused(422, "POST", "bulk/schedules", {"schedules": body})
    named = {error["field"] for error in problem["errors"]}
    assert named >= {"schedules[1].trigger", "schedules[2].name", "schedules[3].target"}
    assert api.ok("GET", "schedules")["items"] == []
    api.refused(422, "POST", "bulk/schedules", {"schedules": []})
    api.refused(422, "POST", "bulk/schedules", {"schedules": {}})
    api.refused(422, "POST", "bulk/schedules", {})


def test_a_bulk_request_is_done_once_for_its_key(api: Api) -> None:
    body = {"schedules": [made(n) for n in range(3)]}
    key = {"Idempotency-Key": "bulk-1"}
    assert api.ok("POST", "bulk/schedules", body, headers=key) == api.ok(
        "POST", "bulk/schedules", body, headers=key
    )


def test_operators_make_many_of_known_tasks_only(app: App, store: Store) -> None:
    begin(store)
    store.transact(lambda tx: tx.nodes.tell_tasks("node-1", ["digest"]))
    operator = Api(app, "operator")
    body = [made(0, target="digest"), made(1)]
    operator.refused(403, "POST", "bulk/schedules", {"schedules": body})
    assert operator.ok("POST", "bulk/schedules", {"schedules": body[:1]})["count"] == 1


def test_an_action_on_all_that_a_filter_finds_can_be_tried_dry(many: Api) -> None:
    wanted = {"action": "pause", "filter": {"label": {"team": "a"}}, "reason": "moving"}
    dry = many.ok("POST", "bulk/actions", wanted | {"dry_run": True})
    assert (dry["count"], dry["names"][0], dry["dry_run"]) == (5, "job-000", True)
    assert len(names(many, status="active")) == 5
    assert many.ok("POST", "bulk/actions", wanted)["count"] == 5
    assert names(many, status="active") == []
    deleted = many.ok("POST", "bulk/actions", {"action": "delete", "filter": {"text": "*"}})
    assert deleted["count"] == 10
    assert names(many) == []


def test_many_are_paused_until_a_time(many: Api) -> None:
    wanted = {"action": "pause", "filter": {"text": "*"}}
    until = "2999-01-01T00:00:00Z"
    assert many.ok("POST", "bulk/actions", wanted | {"until": until})["count"] == 5
    found = many.ok("GET", "schedules?label=team:a")["items"]
    assert {schedule["paused_until"] for schedule in found} == {until}
    past = wanted | {"until": "2001-01-01T00:00:00Z"}
    assert "in the past" in many.refused(422, "POST", "bulk/actions", past)["detail"]
    many.refused(422, "POST", "bulk/actions", wanted | {"until": "soon"})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"action": "pause", "filter": {}}, 422),
        ({"action": "pause"}, 422),
        ({"action": "explode", "filter": {"text": "*"}}, 422),
        ({"action": "pause", "filter": []}, 422),
        ({"action": "pause", "filter": {"lable": "team:a"}}, 400),
        ({"action": "pause", "filter": {"text": "*"}, "dry_run": "yes"}, 422),
    ],
)
def test_a_bulk_action_that_is_not_right_does_nothing(
    many: Api, body: dict[str, Any], status: int
) -> None:
    many.refused(status, "POST", "bulk/actions", body)
    assert len(names(many, status="active")) == 5
