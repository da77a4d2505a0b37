"""Secrets by reference over HTTP: who may use them, and who sees which node offers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.model.serving import Serving
from tests.support.api import HELLO, Api
from tests.support.builders import begin

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.store.base import Store

KEY = "{{ secret.KEY }}"
KNOWN: dict[str, Any] = {
    "tasks": ("hello", "leak"),
    "roles": "scheduler,worker",
    "queues": ("default",),
}
ROW = HELLO | {"target": "hello", "payload": {"key": KEY}}


def test_only_an_admin_names_secrets_and_chooses_what_receives_them(
    app: App, api: Api, store: Store
) -> None:
    begin(store, **KNOWN)
    operator = Api(app, "operator")
    plain = ROW | {"payload": {"key": "x"}}
    operator.ok("POST", "schedules", plain | {"name": "mine"})
    whole = {key: value for key, value in ROW.items() if key != "name"}
    version = api.ok("GET", "schedules/mine")["version"]
    operator.refused(403, "PUT", "schedules/mine", whole | {"version": version})
    operator.refused(403, "POST", "schedules", ROW)
    operator.refused(403, "POST", "bulk/schedules", {"schedules": [ROW]})
    operator.refused(403, "PUT", "declarations/x", {"schedules": [ROW]})
    operator.refused(403, "PUT", "templates/mine", {"payload": {"key": KEY}})
    operator.refused(403, "PATCH", "schedules/mine", {"payload": {"key": KEY}})
    problem = operator.refused(
        403, "POST", "schedules/mine/preview-update", {"payload": {"key": KEY}}
    )
    assert "only an admin may define a payload that names secrets" in problem["detail"]

    api.ok("POST", "schedules", ROW)
    shown = operator.ok("GET", "schedules/hello")
    assert shown["payload"] == {"key": KEY}
    operator.ok("PATCH", "schedules/hello", {"priority": 1, "payload": shown["payload"]})
    operator.ok("POST", "schedules/hello/trigger")
    operator.refused(403, "PATCH", "schedules/hello", {"target": "leak"})
    operator.refused(403, "PATCH", "schedules/hello", {"payload": {"other": KEY}})
    operator.ok("PATCH", "schedules/hello", {"payload": {"key": "mine"}})
    version = api.ok("GET", "schedules/hello")["version"]
    operator.refused(403, "PUT", "schedules/hello", whole | {"version": version})


def test_a_note_tells_which_secrets_no_node_offers(api: Api, store: Store) -> None:
    begin(store, **KNOWN, secrets={"default": ["OTHER"], "shop": ["KEY"]})
    (note,) = api.ok("POST", "schedules", ROW)["notes"]
    assert note["code"] == "secret"
    assert 'no live node offers secret "KEY" to namespace "default"' in note["message"]
    begin(store, "node-2", **KNOWN, secrets={"default": ["KEY"]})
    assert "notes" not in api.ok("PATCH", "schedules/hello", {"priority": 2})


def test_the_names_of_secrets_are_for_those_who_see_the_namespace(api: Api, store: Store) -> None:
    begin(store, **KNOWN, secrets={"default": ["KEY"], "shop": ["SHOP_KEY"]})
    (node,) = api.ok("GET", "nodes")["items"]
    assert node["secrets"] == {"default": ["KEY"], "shop": ["SHOP_KEY"]}
    (seen,) = store.read(lambda tx: tx.nodes.list_nodes(Serving(("shop",))))
    assert seen.secrets == {"shop": ["SHOP_KEY"]}
