"""Nodes announce the names of their secrets; doctor lists those that are used and not offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.book import Book
from duebook.model.serving import Serving
from tests.support.builders import begin
from tests.support.flow_builders import put_flow

if TYPE_CHECKING:
    from duebook.model.diagnosis import Checkup
    from duebook.store.base import Store

KEY = "{{ secret.KEY }}"
DAILY = {"cron": "@daily"}
FLOW = """
env: [{HOOK: "{{ secret.HOOK }}"}]
steps: ["true"]
"""


def secrets_of(store: Store) -> Checkup:
    found = Book(store).doctor.examine().checkups
    return next(one for one in found if one.check == "secrets")


def test_doctor_lists_secrets_that_no_live_node_offers_to_the_namespace(store: Store) -> None:
    begin(store, "a", roles="scheduler,worker", secrets={"default": ["KEY"]})
    book, shop = Book(store), Book(store, "shop")
    target = {"shell": "true", "env": {"KEY": KEY}}
    book.schedules.create("fine", trigger=DAILY, target=target)
    assert secrets_of(store).level == "ok"
    shop.schedules.create("orders", trigger=DAILY, target="t", payload={"key": KEY})
    put_flow(store, FLOW)
    found = secrets_of(store)
    assert found.level == "warning"
    assert '"KEY" to namespace "shop" (schedule shop/orders)' in found.message
    assert '"HOOK" to namespace "default" (flow ' in found.message
    assert "[secrets.NAMESPACE]" in found.remedy
    begin(store, "b", secrets={"shop": ["KEY"], "default": ["HOOK"]})
    assert secrets_of(store).level == "ok"


def test_a_node_that_does_not_serve_the_namespace_offers_it_nothing(store: Store) -> None:
    begin(store, namespaces=Serving(("other",)), secrets={"default": ["KEY"]})
    made = Book(store).schedules.create("x", trigger=DAILY, target="t", payload={"key": KEY})
    assert [note.code for note in made.notes] == ["secret"]
    (node,) = store.read(lambda tx: tx.nodes.list_nodes())
    assert node.secrets == {"default": ["KEY"]}
