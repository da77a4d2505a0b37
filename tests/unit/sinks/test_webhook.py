"""Webhooks: what is sent, how it is signed, and what an answer means."""

from __future__ import annotations

import json

import pytest

from duebook.errors import Invalid, Unavailable
from duebook.model.sink import keep_options, load_options, show_options
from duebook.sinks.webhook import WebhookSink, sign
from tests.support.event_builders import delivery

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105
URL = "https://example.com/hooks"


class Receiver:
    """Answers as it is told, and keeps what it was sent."""

    def __init__(self, **answers: int | None) -> None:
        self.sent: list[tuple[str, dict[str, str], bytes]] = []
        self._answers = answers

    def __call__(self, url: str, headers: dict[str, str], body: bytes) -> int:
        self.sent.append((url, headers, body))
        status = self._answers.get(headers["webhook-id"], 204)
        if status is None:
            raise Unavailable("nobody is there")
        return status

    def stop(self) -> None: ...


def sink(receiver: Receiver) -> WebhookSink:
    return WebhookSink(URL, SECRET, receiver, lambda: 1_614_265_330.9)


def test_a_signature_is_that_of_standard_webhooks() -> None:
    """The example that the reference implementations are tested with."""
    body = b'{"test": 2432232314}'
    signature = sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body)
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_an_event_is_sent_as_a_cloud_event() -> None:
    receiver = Receiver()
    report = sink(receiver).deliver([delivery(7, replay=True)])
    assert (report.rejected, report.undelivered, report.untried) == ({}, {}, set())
    ((url, headers, body),) = receiver.sent
    assert url == URL
    assert headers["Content-Type"].startswith("application/cloudevents+json")
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("e7", "1614265330")
    assert headers["webhook-signature"] == sign(SECRET, "e7", 1_614_265_330, body)
    assert json.loads(body) == {
        "specversion": "1.0",
        "id": "e7",
        "source": "/duebook/default/schedules/etl",
        "type": "due",
        "subject": "k",
        "time": "2026-01-05T12:00:00Z",
        "topic": "orders",
        "partitionkey": "k",
        "sequence": "7",
        "runid": "r-1",
        "dueat": "2026-01-05T12:00:00Z",
        "replay": "true",
        "datacontenttype": "application/json",
        "data": {"n": 7},
    }


@pytest.mark.parametrize("status", [301, 400, 404, 410, 500])
def test_what_is_not_taken_holds_up_its_key_only(status: int) -> None:
    receiver = Receiver(e1=status)
    report = sink(receiver).deliver([delivery(1), delivery(2), delivery(3, "other")])
    assert report.rejected == {"e1": f"it returned {status}"}
    assert report.untried == {"e2"}
    assert report.undelivered == {}
    assert len(receiver.sent) == 2


@pytest.mark.parametrize("status", [None, 429, 502, 503])
def test_what_does_not_get_through_comes_later_and_holds_up_its_key_only(
    status: int | None,
) -> None:
    receiver = Receiver(e2=status)
    report = sink(receiver).deliver([delivery(1), delivery(2), delivery(3), delivery(4, "other")])
    assert report.undelivered.keys() == {"e2"}
    assert report.untried == {"e3"}
    assert report.rejected == {}
    assert len(receiver.sent) == 3


@pytest.mark.parametrize("status", [None, 503])
def test_a_receiver_that_is_down_is_not_asked_for_every_event(status: int | None) -> None:
    receiver = Receiver(**{f"e{n}": status for n in range(2, 10)})
    report = sink(receiver).deliver([delivery(n, f"key-{n}") for n in range(1, 10)])
    assert report.undelivered.keys() == {"e2", "e3", "e4"}
    assert report.untried == {f"e{n}" for n in range(5, 10)}
    assert len(receiver.sent) == 4


def test_the_secret_of_a_sink_is_shown_nowhere() -> None:
    options = load_options("webhook", {"url": URL, "secret": SECRET})
    shown = show_options(options)
    assert shown == {"url": URL, "secret": "***"}
    config = {"sasl.password": "x", "linger.ms": "5"}
    options = load_options("kafka", {"servers": "k:9092", "config": config})
    shown = show_options(options)
    assert shown["config"] == {"sasl.password": "***", "linger.ms": "5"}


@pytest.mark.parametrize(
    ("kind", "options", "word"),
    [
        ("webhook", {}, "url"),
        ("webhook", {"url": "ftp://x", "secret": SECRET}, "url"),
        ("webhook", {"url": "https://a:b@x", "secret": SECRET}, "password"),
        ("webhook", {"url": URL, "secret": "short"}, "secret"),
        ("webhook", {"url": URL, "secret": SECRET, "servers": "x"}, "servers"),
        ("kafka", {}, "servers"),
        ("kafka", {"servers": "x", "config": {"a": []}}, "config"),
        ("kafka", {"servers": "x", "config": {"message.timeout.ms": "soon"}}, "soon"),
        ("kafka", {"servers": "x", "config": {"message.timeout.ms": 0}}, "timeout"),
        ("kafka", {"servers": "x", "config": {"delivery.timeout.ms": 5}}, "Duebook sets it"),
        ("kafka", {"servers": "x", "config": {"partitioner": "random"}}, "order"),
        ("carrier pigeon", {}, "kind"),
    ],
)
def test_what_is_no_sink_is_refused(kind: str, options: dict[str, object], word: str) -> None:
    with pytest.raises(Invalid, match=word):
        load_options(kind, options)


def test_a_new_secret_is_one() -> None:
    assert load_options("webhook", keep_options("webhook", {"url": URL}, {}))
