"""A token for one namespace learns nothing about others through what all namespaces share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.model.serving import ALL, Serving
from duebook.store.sql import events as sql_events
from tests.support.api import HELLO, Api
from tests.support.builders import begin

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.store.base import Store


@pytest.fixture
def shop(app: App) -> Api:
    return Api(app, "viewer@shop")


def publish(store: Store, namespace: str, times: int = 1) -> None:
    for number in range(times):
        Book(store, namespace).events.publish("t", number)
    store.transact(lambda tx: tx.events.stamp_events(1_000))


def test_the_end_of_the_log_is_the_last_event_of_its_own(store: Store, api: Api, shop: Api) -> None:
    publish(store, "other", 2)
    assert shop.ok("GET", "events/position") == {"position": 0}
    publish(store, "shop")
    publish(store, "other", 3)
    assert shop.ok("GET", "events/position") == {"position": 3}
    assert shop.ok("GET", "events")["position"] == 3
    assert shop.ok("GET", "events?newest=true")["position"] <= 3
    assert shop.ok("GET", "events?after=3")["position"] == 3
    past = "2020-01-01T00:00:00Z"
    assert shop.ok("GET", f"events/position?since={past}") == {"position": 0}
    assert api.ok("GET", "events/position") == {"position": 6}
    assert api.ok("GET", "events")["position"] == 6
    publish(store, "shop")
    assert shop.ok("GET", "events/position") == {"position": 7}


def test_whoever_follows_with_a_token_of_one_namespace_misses_nothing(
    store: Store, shop: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_events, "WINDOW", 2)
    publish(store, "shop")
    place = shop.ok("GET", "events/position")["position"]
    publish(store, "other", 100)
    publish(store, "shop", 2)
    found, cursor = [], None
    for _ in range(20):
        at = "" if cursor is None else f"&cursor={cursor}"
        page = shop.ok("GET", f"events?after={place}{at}")
        found += [event["position"] for event in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == [102, 103]
    assert page["position"] == 103


def test_only_nodes_that_serve_its_namespace_are_shown(store: Store, api: Api, shop: Api) -> None:
    begin(store, "everything", namespaces=ALL)
    begin(store, "shops", namespaces=Serving(("shop", "other")))
    begin(store, "others", namespaces=Serving(("other",)))
    for namespace in ("shop", "other", "other"):
        Book(store, namespace).enqueue("digest")
    for namespace in ("shop", "other"):
        claim_all(store, namespace)
    seen = {node["node"]: node for node in shop.ok("GET", "nodes")["items"]}
    assert set(seen) == {"host-of-everything", "host-of-shops"}
    assert seen["host-of-shops"]["namespaces"] == ["shop"]
    assert seen["host-of-everything"]["running"] == 1
    assert {node["running"] for node in api.ok("GET", "nodes")["items"]} == {0, 3}


def claim_all(store: Store, namespace: str) -> None:
    store.transact(lambda tx: tx.claims.claim("everything", "default", 10, ("digest",), namespace))


def test_only_queues_with_work_of_its_own_are_shown(store: Store, api: Api, shop: Api) -> None:
    for namespace, queue in (("shop", "mail"), ("other", "mail"), ("other", "secret-project")):
        Book(store, namespace).enqueue("digest", queue=queue)
    api.ok("PUT", "queues/mail", {"concurrency": 3})
    api.ok("PUT", "queues/theirs", {"concurrency": 3})
    (mail,) = shop.ok("GET", "queues")["items"]
    assert (mail["name"], mail["concurrency"], mail["queued"]) == ("mail", 3, 1)
    names = [queue["name"] for queue in api.ok("GET", "queues")["items"]]
    assert names == ["mail", "secret-project", "theirs"]


def test_a_cursor_of_another_namespace_is_refused(app: App, shop: Api) -> None:
    admin = Api(app, "admin")
    for number in range(3):
        admin.ok("POST", "schedules?namespace=other", HELLO | {"name": f"job-{number}"})
    for question in ("schedules", "schedules?sort=next_due_at", "audit", "runs"):
        sign = "&" if "?" in question else "?"
        page = admin.ok("GET", f"{question}{sign}namespace=other&limit=1")
        if (cursor := page["next_cursor"]) is None:
            continue
        problem = shop.refused(400, "GET", f"{question}{sign}cursor={cursor}")
        assert problem["code"] == "bad_cursor"
        assert "start from the beginning" in problem["detail"]
