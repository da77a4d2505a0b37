"""Flows through the API: who may do what with flows in files, and the responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.engine.advancer import Advancer
from duebook.store.flow_values import BrokenFile
from tests.support.api import Api
from tests.support.flow_builders import GREET, PROBLEM, put_flow

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.store.base import Store


@pytest.fixture
def operator(app: App, store: Store) -> Api:
    put_flow(store, GREET, "greet")
    return Api(app, "operator")


def test_flows_are_listed_with_what_is_wrong_with_files(operator: Api, store: Store) -> None:
    store.transact(
        lambda tx: tx.flows.save_problems(
            "default", ["flows"], {"flows/half.yaml": BrokenFile([PROBLEM])}
        )
    )
    found = operator.ok("GET", "flows")
    assert [flow["name"] for flow in found["items"]] == ["greet"]
    assert found["problems"] == [PROBLEM]
    one = operator.ok("GET", "flows/greet")
    assert (one["description"], one["place"], one["last_run"]) == (
        "says hello",
        "flows/greet.yaml",
        None,
    )
    assert [step["name"] for step in one["steps"]] == ["think", "say"]
    assert operator.refused(404, "GET", "flows/ghost")["code"] == "not_found"


def test_operators_start_flows_and_see_their_steps(operator: Api, store: Store) -> None:
    answer = operator("POST", "flows/greet/start", {"params": {"WHO": "moon"}})
    assert answer.status_code == 201
    run = answer.json()
    assert answer.headers["location"] == f"/api/v1/runs/{run['id']}"
    assert (run["flow"], run["origin"], run["status"]) == ("greet", "manual", "queued")
    Advancer(store).step()
    (step,) = operator.ok("GET", f"flows/runs/{run['id']}/steps")["items"]
    assert (step["step"], step["parent_run_id"]) == ("think", run["id"])
    assert [r["id"] for r in operator.ok("GET", "flows/greet/runs")["items"]] == [run["id"]]
    flow = operator.ok("GET", "flows/greet")
    assert flow["last_run"]["status"] == "running"
    put_flow(store, GREET + "# mended", "greet")
    performed = operator.ok("GET", f"flows/runs/{run['id']}")
    assert (performed["digest"], performed["steps"]) == (flow["digest"], flow["steps"])
    assert operator.ok("GET", "flows/greet")["digest"] != flow["digest"]


def test_a_start_is_done_once_by_its_key(operator: Api) -> None:
    key = {"Idempotency-Key": "first"}
    first = operator("POST", "flows/greet/start", {}, headers=key)
    again = operator("POST", "flows/greet/start", {}, headers=key)
    assert first.json() == again.json()
    assert len(operator.ok("GET", "flows/greet/runs")["items"]) == 1


@pytest.mark.parametrize("body", [{"params": {"WHAT": 1}}, {"params": [1]}, {"parms": {}}])
def test_what_a_flow_cannot_take_is_refused(operator: Api, body: Any) -> None:
    operator.refused(422, "POST", "flows/greet/start", body)
    assert operator.ok("GET", "flows/greet/runs")["items"] == []


def test_stop_and_retry(operator: Api) -> None:
    assert operator.refused(409, "POST", "flows/greet/stop")["code"] == "conflict"
    run = operator.ok("POST", "flows/greet/start", {})
    operator.refused(409, "POST", f"flows/runs/{run['id']}/retry", {})
    (stopped,) = operator.ok("POST", "flows/greet/stop")["items"]
    assert (stopped["id"], stopped["status"]) == (run["id"], "cancelled")
    again = operator.ok("POST", f"flows/runs/{run['id']}/retry", {"step": "think"})
    assert (again["id"], again["status"]) == (run["id"], "queued")
    operator.refused(404, "POST", "flows/runs/ghost/retry", {})
    (stopped,) = operator.ok("POST", "flows/greet/stop")["items"]
    for wrong, status in (("thnk", 404), (3, 422), (["think"], 422)):
        told = operator.refused(status, "POST", f"flows/runs/{run['id']}/retry", {"step": wrong})
        assert "did you mean `think`?" in told["detail"] or status == 422


def test_a_restart_starts_what_is_not_running(operator: Api, store: Store) -> None:
    assert operator.ok("POST", "flows/greet/restart")["name"] == "greet"
    Advancer(store).step()
    assert len(operator.ok("GET", "flows/greet/runs")["items"]) == 1


def test_flows_of_a_directory_are_forgotten_by_who_may_define_them(
    app: App, operator: Api, store: Store
) -> None:
    admin = Api(app, "admin")
    store.transact(lambda tx: tx.directories.release_directories("reader"))
    assert "no node has read directory" in admin.ok("GET", "flows/greet")["unread"]
    operator.refused(403, "POST", "flows/forget", {"directory": "flows"})
    assert admin.ok("POST", "flows/forget", {"directory": "flows"})["names"] == ["greet"]
    admin.refused(404, "POST", "flows/forget", {"directory": "flows"})
    admin.refused(422, "POST", "flows/forget", {"directory": "a\nb"})


def test_the_times_of_a_flow_have_their_kind(operator: Api, store: Store) -> None:
    times: dict[str, Any] = {"stop": {"cron": "0 22 * * *"}, "restart": {"cron": "0 4 * * *"}}
    Book(store).schedules.create("greet", cron="0 9 * * *", target={"flow": "greet"}, **times)
    found = operator.ok("GET", "schedules/greet/preview?count=3")
    assert sorted(found["kinds"]) == ["restart", "start", "stop"]
    assert len(found["items"]) == 3
    (told,) = operator.ok("GET", f"schedules/greet/explain?at={found['items'][0]}")["items"]
    assert (told["kind"], told["verdict"]) == (found["kinds"][0], "to_come")
    assert operator.ok("GET", "schedules/greet")["stop"] == [{"cron": "0 22 * * *"}]


def test_a_text_is_validated(operator: Api) -> None:
    told = operator.ok("POST", "flows/validate", {"source": "steps:\n  - retires: 3\n"})
    assert {(p["line"], p["column"]) for p in told["problems"]} == {(2, 5)}
    assert operator.ok("POST", "flows/validate", {"source": GREET}) == {"problems": []}
    dated = f"calendar: {{only: workdays}}\n{GREET.lstrip()}"
    (problem,) = operator.ok("POST", "flows/validate", {"source": dated})["problems"]
    assert (problem["line"], problem["column"], problem["key"]) == (1, 11, "calendar")
    assert 'calendar "workdays" does not exist; create it' in problem["message"]
    assert problem["text"] == "calendar: {only: workdays}"
    operator.refused(422, "POST", "flows/validate", {"source": 7})


def test_operators_schedule_flows_that_exist(operator: Api) -> None:
    form = {"name": "often", "cron": "* * * * *", "target": {"flow": "greet"}}
    assert operator.ok("POST", "schedules", form)["target"] == {"flow": "greet"}
    ghost = form | {"name": "never", "target": {"flow": "ghost"}}
    assert "does not exist" in operator.refused(403, "POST", "schedules", ghost)["detail"]


@pytest.mark.usefixtures("operator")
def test_flows_of_another_namespace_cannot_be_scheduled(app: App) -> None:
    form = {"name": "often", "cron": "* * * * *", "target": {"flow": "greet"}}
    Api(app, "operator@shop").refused(403, "POST", "schedules", form)
    Api(app, "operator@shop").refused(404, "POST", "flows/greet/start", {})


@pytest.mark.usefixtures("operator")
def test_viewers_look_and_do_nothing(app: App, store: Store) -> None:
    viewer = Api(app, "viewer")
    assert viewer.ok("GET", "flows")["items"][0]["name"] == "greet"
    for path in ("start", "stop", "restart"):
        viewer.refused(403, "POST", f"flows/greet/{path}", {})
    assert Book(store).flows.runs("greet") == []


def test_who_did_it_is_on_the_books(operator: Api, store: Store) -> None:
    operator.ok("POST", "flows/greet/start", {})
    operator.ok("POST", "flows/greet/stop")
    changes = Book(store).audit.list(everywhere=True)
    assert [(c.action, c.kind, c.subject) for c in changes] == [
        ("stop", "flow", "greet"),
        ("start", "flow", "greet"),
    ]
