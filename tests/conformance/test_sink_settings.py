"""Secrets of sinks stay with their endpoints; only allow-listed Kafka settings are accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.errors import Invalid
from duebook.model.codec import encode
from tests.attack.walls import HOSTILE_SETTINGS, REFUSED_SETTINGS

if TYPE_CHECKING:
    from duebook.book import Book

pytestmark = pytest.mark.book_as(by="token:ci")

SECRET = "hunter2-not-to-be-shown"  # noqa: S105
HOOK = "https://example.com/hooks"
KAFKA_CONFIG = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.client.secret": SECRET,
    "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
    "ssl.key.pem": SECRET,
}
HIDDEN_CONFIG = KAFKA_CONFIG | {"sasl.oauthbearer.client.secret": "***", "ssl.key.pem": "***"}


def test_what_settings_of_kafka_hide_stays_while_no_endpoint_changes(book: Book) -> None:
    def add(config: dict[str, Any], servers: str = "k:9092") -> None:
        book.events.add_sink("bus", "kafka", servers=servers, config=config)

    add(KAFKA_CONFIG)
    shown = encode(book.events.sinks()[0])["options"]["config"]
    assert shown == HIDDEN_CONFIG, "where secrets go is shown, and secrets are not"
    add(HIDDEN_CONFIG | {"linger.ms": 7})
    assert book.events.sinks()[0].options["config"] == KAFKA_CONFIG | {"linger.ms": "7"}
    for setting, value in HOSTILE_SETTINGS.items():
        with pytest.raises(Invalid, match="a placeholder for a hidden value"):
            add(HIDDEN_CONFIG | {setting: value})
    with pytest.raises(Invalid, match="a placeholder for a hidden value"):
        add(HIDDEN_CONFIG, "attacker:9092")
    without = {name: text for name, text in HIDDEN_CONFIG.items() if name != "security.protocol"}
    with pytest.raises(Invalid, match="a placeholder for a hidden value"):
        add(without)
    assert book.events.sinks()[0].options["config"] == KAFKA_CONFIG | {"linger.ms": "7"}
    assert SECRET not in str(book.audit.list())


def test_the_secret_of_a_webhook_stays_with_its_url(book: Book) -> None:
    sink, secret = book.events.add_sink("hooks", "webhook", url=HOOK)
    with pytest.raises(Invalid, match="a placeholder for the secret of another host"):
        book.events.add_sink("hooks", "webhook", url="https://attacker.example/", secret="***")  # noqa: S106
    changed, new = book.events.add_sink("hooks", "webhook", url="https://attacker.example/")
    assert new is not None
    assert new == changed.options["secret"] != secret == sink.options["secret"]


def test_settings_of_kafka_that_are_not_allowed_are_refused(book: Book) -> None:
    for setting in REFUSED_SETTINGS:
        with pytest.raises(Invalid, match=setting):
            book.events.add_sink("bus", "kafka", servers="k:9092", config={setting: "x"})
    assert book.events.sinks() == []
