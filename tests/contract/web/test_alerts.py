"""The page of alerts: problems, rules, and actions on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.alerts import end_run, evaluate, evaluator
from tests.support.builders import VirtualClock, begin

if TYPE_CHECKING:
    from duebook.book import Book
    from tests.support.pages import Browser

HOOK = "https://hooks.slack.com/services/T0/B0/marked-secret"
JOB: Any = {"trigger": {"cron": "0 0 * * *"}, "target": {"command": ["true"]}}


def test_a_rule_is_saved_tested_silenced_and_deleted(admin: Browser, book: Book) -> None:
    assert "No rules yet" in admin.ok("/alerts").text
    form = {"name": "ops", "on": "failure, late:10m", "to": HOOK, "labels": "team:data"}
    saved = admin.send(admin.ok("/alerts/new"), "/alerts", **form, limit="5")
    assert "Saved rule “ops”" in saved.text
    (rule,) = book.alerts.list()
    assert (rule.on, rule.labels, rule.limit) == (("failure", "late:10m"), {"team": "data"}, 5)
    edit = admin.ok("/alerts/new", name="ops")
    admin.send(edit, "/alerts", on="missed", to="")
    assert book.alerts.get("ops").channels == rule.channels
    for action, words in (("test", "A test message"), ("silence", "Silenced")):
        asked = admin.ok(f"/alerts/ops/{action}")
        assert words in admin.send(asked, f"/alerts/ops/{action}", **{"for": "8h"}).text
    assert "silenced until" in admin.ok("/alerts").text
    assert "marked-secret" not in admin.ok("/alerts").source + edit.source
    admin.send(admin.ok("/alerts/ops/delete"), "/alerts/ops/delete")
    assert book.alerts.list() == []


def test_mistakes_are_shown_beside_the_form_without_its_secrets(admin: Browser) -> None:
    page = admin.ok("/alerts/new")
    wrong = admin.send(page, "/alerts", name="ops", on="late", to=HOOK)
    assert "needs a duration" in wrong.text
    assert "marked-secret" not in wrong.source


def test_open_problems_are_on_the_page_and_on_the_overview(viewer: Browser, book: Book) -> None:
    job = book.schedules.create("nightly", **JOB)
    book.alerts.save("ops", to=HOOK)
    end_run(book.store, job.id, error="exit code <7>")
    one = evaluator(book.store, VirtualClock())
    evaluate(one, book.store)
    page = viewer.ok("/alerts")
    assert "nightly failed" in page.text
    assert "exit code <7>" in page.text
    assert "1 alert is open" in viewer.ok("/").text
    assert "/alerts" in viewer.ok("/").links


def test_the_form_of_a_new_rule_replaces_none(admin: Browser, book: Book) -> None:
    book.alerts.save("ops", on="missed", to=HOOK)
    refused = admin.send(admin.ok("/alerts/new"), "/alerts", name="ops", on="failure", to=HOOK)
    assert '"ops" exists; choose another name' in refused.text
    assert book.alerts.get("ops").on == ("missed",)


def test_a_channel_that_no_live_node_can_serve_says_so(viewer: Browser, book: Book) -> None:
    begin(book.store, "node-1", roles="relay")
    book.alerts.save("ops", to="mailto:ops@example.com")
    (channel,) = book.alerts.get("ops").channels
    unserved = {"default": {channel.name: "this node has no mail server"}}
    book.store.transact(lambda tx: tx.nodes.tell_unserved("node-1", unserved))
    assert "no live node can send to it: this node has no mail server" in viewer.ok("/alerts").text
