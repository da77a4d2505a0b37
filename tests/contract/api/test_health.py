"""Probes and scrapes: what strangers learn, what a token learns, and in which form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.store.values import SessionInfo
from tests.conformance.builders import LEASE
from tests.contract.api.conftest import HELLO, Api

if TYPE_CHECKING:
    from fastapi import FastAPI

    from duebook.store.base import Store


def live(store: Store) -> None:
    info = SessionInfo("n", "host", 1, "scheduler,worker", "0", "2026a", (), ("default",))
    store.transact(lambda tx: tx.begin_session(info, LEASE))


def test_strangers_learn_only_whether_the_books_are_worked_on(app: FastAPI) -> None:
    answer = Api(app, None)("GET", "/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False})


def test_books_that_are_worked_on_are_ready(app: FastAPI, store: Store) -> None:
    live(store)
    assert Api(app, None).ok("GET", "/readyz") == {"ready": True}


def test_a_token_for_all_namespaces_learns_what_is_in_the_way(api: Api) -> None:
    answer = api("GET", "/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"]["scheduler"] is False
    (problem,) = answer.json()["problems"]
    assert problem["code"] == "scheduler"


def test_a_token_of_one_namespace_learns_nothing_of_others(app: FastAPI) -> None:
    answer = Api(app, "viewer@shop")("GET", "/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False})


def test_a_grace_that_is_no_duration_is_refused(api: Api) -> None:
    assert api.refused(422, "GET", "/readyz?grace=soon")["code"] == "invalid_time"


def test_metrics_are_for_tokens_of_all_namespaces(app: FastAPI, api: Api) -> None:
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
