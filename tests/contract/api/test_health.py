"""Probes and scrapes: what strangers learn, what a token learns, and in which form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.api.watching import Watch
from duebook.book import Book
from duebook.errors import Unavailable
from duebook.model.serving import Serving
from duebook.store.values import SessionInfo
from tests.support.api import HELLO, Api
from tests.support.builders import LEASE

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.store.base import Store

pytestmark = pytest.mark.both_databases


def live(store: Store) -> None:
    info = SessionInfo("n", "host", 1, "scheduler,worker", "0", "2026a", (), ("default",))
    store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))


def test_a_node_is_ready_whatever_the_others_leave_undone(app: App, store: Store) -> None:
    Book(store).enqueue("stranger")
    assert Api(app, None).ok("GET", "/readyz") == {"ready": True}


def test_a_token_for_all_namespaces_learns_what_was_checked(api: Api, app: App) -> None:
    found = api.ok("GET", "/readyz")
    assert found["checks"] == {"database": True, "schema": True, "node": True}
    assert found["problems"] == []
    assert Api(app, "viewer@shop").ok("GET", "/readyz") == {"ready": True}


def test_a_node_that_is_stopping_is_not_ready(app: App, store: Store) -> None:
    app.state.watch = Watch(store, trouble=lambda: "this node is stopping")
    answer = Api(app, None)("GET", "/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False})
    told = Api(app, "viewer")("GET", "/readyz").json()
    assert told["problems"] == [{"code": "node", "message": "this node is stopping"}]


def test_a_node_without_its_database_is_not_ready(
    app: App, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object) -> None:
        raise Unavailable("no route")

    monkeypatch.setattr(store, "read", read)
    answer = Api(app, None)("GET", "/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False})
    assert Api(app, "viewer")("GET", "/readyz").json()["checks"]["database"] is False


def test_the_status_names_what_cannot_run(api: Api, store: Store) -> None:
    live(store)
    assert api.ok("GET", "status")["ready"] is True
    Book(store).enqueue("stranger")
    found = api.ok("GET", "status")
    assert found["ready"] is False
    assert found["checks"]["task"] is False
    assert [problem["code"] for problem in found["problems"]] == ["task"]
    assert "stranger" in found["problems"][0]["message"]


def test_the_status_is_that_of_the_namespaces_a_token_sees(app: App, store: Store) -> None:
    live(store)
    Book(store, "bank").enqueue("secret")
    shop = Api(app, "viewer@shop")
    assert shop.ok("GET", "status")["ready"] is True
    assert shop.refused(404, "GET", "status?namespace=bank")["code"] == "not_found"
    everywhere = Api(app, "viewer")
    assert everywhere.ok("GET", "status?namespace=shop")["ready"] is True
    assert everywhere.ok("GET", "status?namespace=bank")["ready"] is False
    assert everywhere.ok("GET", "status")["ready"] is False
    Book(store, "shop").enqueue("errand")
    (problem,) = shop.ok("GET", "status")["problems"]
    assert "errand" in problem["message"]


def test_the_status_names_a_namespace_that_nobody_serves(app: App, store: Store) -> None:
    about = ("n", "host", 1, "scheduler,worker", "0", "2026a", (), ("default",))
    info = SessionInfo(*about, namespaces=Serving(("bank",)))
    store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))
    shop = Book(store, "shop")
    shop.schedules.create("job", trigger={"every": "1h"}, target={"command": ["true"]})
    shop.schedules.trigger("job")
    found = Api(app, "viewer@shop").ok("GET", "status")
    assert found["checks"]["namespace"] is False
    (problem,) = found["problems"]
    assert problem["code"] == "namespace"
    told = 'runs are waiting in namespace "shop", which no live node serves; start one: '
    assert problem["message"] == told + "duebook up --serve shop"


def test_nodes_name_only_namespaces_that_the_token_sees(app: App, store: Store) -> None:
    about = ("n", "host", 1, "worker", "0", "2026a", (), ("default",))
    info = SessionInfo(*about, namespaces=Serving(("bank", "shop")))
    store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))
    for token, seen in (("viewer", ["bank", "shop"]), ("viewer@shop", ["shop"])):
        (node,) = Api(app, token).ok("GET", "nodes")["items"]
        assert node["namespaces"] == seen


def test_the_status_needs_a_token(app: App) -> None:
    assert Api(app, None)("GET", "status").status_code == 401


def test_a_grace_that_is_not_a_duration_is_refused(api: Api) -> None:
    assert api.refused(422, "GET", "status?grace=soon")["code"] == "invalid_time"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_and_scrapes_may_use_any_name(api: Api, path: str) -> None:
    for host in ("10.1.2.3:7420", "duebook.prod.svc.cluster.local:7420"):
        assert api("GET", path, headers={"Host": host}).status_code == 200


def test_everything_else_keeps_its_check_of_the_name(api: Api, app: App) -> None:
    strange = {"Host": "duebook.evil.example"}
    for path in ("status", "schedules", "/login", "/healthz/", "/metrics/x"):
        assert api.refused(403, "GET", path, headers=strange)["code"] == "foreign"
    assert api.refused(403, "POST", "/healthz", headers=strange)["code"] == "foreign"
    foreign = strange | {"Origin": "http://elsewhere.example"}
    assert api.refused(403, "GET", "/metrics", headers=foreign)["code"] == "foreign"
    assert Api(app, None)("GET", "/metrics", headers=strange).status_code == 401


def test_metrics_are_for_tokens_of_all_namespaces(app: App, api: Api) -> None:
    api.ok("POST", "schedules", HELLO)
    assert Api(app, None)("GET", "/metrics").status_code == 401
    assert Api(app, "admin@shop")("GET", "/metrics").status_code == 403
    answer = Api(app, "viewer")("GET", "/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'duebook_schedules{status="active"} 1.0' in answer.text


def test_a_line_of_a_log_says_its_place(api: Api) -> None:
    document = api.client.app.openapi()  # type: ignore[attr-defined]
    assert "place" in document["components"]["schemas"]["LogLine"]["required"]
