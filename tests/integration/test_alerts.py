"""Alerts by real nodes: they reach HTTP and mail servers on loopback, whichever node is killed."""

from __future__ import annotations

import signal
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.mail import MailServer
from tests.support.nodes import LEASE, NodeProcess, World, open_world
from tests.support.waiting import eventually
from tests.support.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALLOW = "127.0.0.0/8"
FAILS = {"command": ["sh", "-c", "exit 3"]}


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with closing(Webhook()) as opened:
        yield opened


@pytest.fixture(params=["postgres", pytest.param("sqlite", marks=pytest.mark.long)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with open_world(tmp_path, url) as opened:
        yield opened


def relay(world: World, **options: Any) -> NodeProcess:
    return world.start_node(roles=["relay"], lease=LEASE, http_allow=ALLOW, **options)


def test_an_alert_arrives_although_nodes_are_killed_while_they_decide_and_deliver(
    world: World, webhook: Webhook
) -> None:
    book = world.book
    book.schedules.create("nightly", trigger={"every": "1d"}, target=FAILS)
    book.alerts.save("ops", to=webhook.url)
    world.start_node(roles=["scheduler", "worker"], lease=LEASE)
    decides = relay(world, kill_at="* before:COMMIT", armed_by="* after:save_alert")
    book.schedules.trigger("nightly")
    eventually(lambda: decides.process.poll() is not None)
    assert decides.process.returncode == -signal.SIGKILL, decides.log
    assert book.alerts.history() == []
    delivers = relay(world)

    def kill() -> None:
        webhook.before_answer = lambda: None
        delivers.end(signal.SIGKILL)

    webhook.before_answer = kill
    eventually(lambda: len(webhook.got) == 1)
    relay(world)
    eventually(lambda: len(webhook.got) == 2)
    first, again = webhook.got
    assert first == again, "a message that comes twice is the same"
    assert (first["title"], first["status"]) == ("nightly failed", "problem")
    assert "exit code 3" in first["text"]
    eventually(lambda: [one.state for one in book.alerts.history(only_open=True)] == ["delivered"])
    (alert,) = book.alerts.history()
    assert alert.run_id == first["run_id"]


def test_a_channel_that_is_down_does_not_hold_up_mail_and_gets_its_alert_later(
    world: World, webhook: Webhook
) -> None:
    webhook.status = 503
    with closing(MailServer()) as mail:
        to = f"smtp://127.0.0.1:{mail.port}?tls=none&from=node@example.com&to=ops@example.com"
        book = world.book
        book.schedules.create("nightly", trigger={"every": "1d"}, target=FAILS)
        book.alerts.save("ops", to=[webhook.url, to])
        url = "https://duebook.example.com"
        roles = ["scheduler", "worker", "relay"]
        world.start_node(roles=roles, http_allow=ALLOW, public_url=url)
        book.schedules.trigger("nightly")
        eventually(lambda: len(mail.mails) == 1)
        ((recipients, text),) = mail.mails
        assert recipients == ["ops@example.com"]
        assert "nightly failed" in str(text["Subject"])
        eventually(lambda: any(channel.failing for channel in book.alerts.get("ops").channels))
        (note,) = [one for one in book.readiness().notes if one.code == "alerts"]
        assert "it returned 503" in note.message
        webhook.status = 204
        eventually(lambda: len(webhook.got) == 1)
        assert webhook.got[0]["link"].startswith("https://duebook.example.com/runs/")
        test = book.alerts.test("ops")
        eventually(lambda: not book.alerts.delivery(test.event_id).waiting)
        assert [got["status"] for got in webhook.got] == ["problem", "test"]
