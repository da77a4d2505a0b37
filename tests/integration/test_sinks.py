"""Sinks over their real protocols: Kafka and webhooks, up and down, one beside the other."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING

import pytest

from duebook.engine.relay import Relay, RelaySetup
from duebook.engine.sequencer import Sequencer
from duebook.targets.addresses import read_networks
from tests.support.kafka import Kafka, messages
from tests.support.waiting import eventually
from tests.support.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duebook.book import Book
    from duebook.store.postgres import PostgresStore

KEYS = 10


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Kafka]:
    with closing(Kafka(tmp_path)) as opened:
        yield opened


@pytest.fixture
def relay(store: PostgresStore) -> Iterator[Relay]:
    with closing(Relay(store, RelaySetup(read_networks("127.0.0.0/8")))) as made:
        yield made


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with closing(Webhook()) as opened:
        yield opened


def publish(book: Book, number: int, first: int = 0) -> None:
    for n in range(first, first + number):
        book.events.publish("orders", {"n": n}, key=f"key-{n % KEYS}")
    Sequencer(book.store).step()


def check(numbers: list[tuple[str, int]], wanted: int) -> None:
    """All of them, and of each key none came first after a later one."""
    assert {number for _, number in numbers} == set(range(wanted))
    latest: dict[str, int] = defaultdict(lambda: -1)
    seen: set[int] = set()
    for key, number in numbers:
        if number not in seen:
            assert number > latest[key]
            latest[key] = number
        seen.add(number)


def numbers(webhook: Webhook) -> set[int]:
    return {got["data"]["n"] for got in list(webhook.got)}


def test_kafka_gets_every_event_with_its_key_and_headers(
    book: Book, kafka: Kafka, relay: Relay
) -> None:
    consumer = kafka.consume("shop.orders")
    book.events.add_sink("bus", "kafka", "orders", servers=kafka.servers, prefix="shop.")
    relay.step()
    publish(book, 50)
    eventually(lambda: len(consumer.lines) >= 50)
    found = messages(consumer)
    check([(message["key"], message["value"]["n"]) for message in found], 50)
    assert len(found) == 50
    events = {event.id: event for event in book.events.list("orders")}
    for message in found:
        event = events[message["headers"]["ce_id"]]
        assert message["headers"]["ce_partitionkey"] == event.key == message["key"]
        assert message["headers"]["ce_specversion"] == "1.0"
        assert message["headers"]["content-type"] == "application/json"


def test_a_broker_that_is_stopped_and_goes_on_loses_nothing_and_holds_up_nobody_else(
    book: Book, kafka: Kafka, relay: Relay, webhook: Webhook
) -> None:
    consumer = kafka.consume("orders")
    config = {"message.timeout.ms": "1500", "socket.timeout.ms": "1000"}
    book.events.add_sink("bus", "kafka", "orders", servers=kafka.servers, config=config)
    book.events.add_sink("hooks", "webhook", "orders", url=webhook.url)
    relay.step()
    publish(book, 20)
    eventually(lambda: len(consumer.lines) >= 20)
    kafka.cluster.pause()
    publish(book, 20, first=20)
    eventually(lambda: len(numbers(webhook)) == 40)
    kafka.cluster.resume()
    publish(book, 20, first=40)
    eventually(lambda: len({m["value"]["n"] for m in messages(consumer)}) == 60)
    check([(m["key"], m["value"]["n"]) for m in messages(consumer)], 60)
    ids = {(m["headers"]["ce_id"], m["value"]["n"]) for m in messages(consumer)}
    assert len(ids) == 60, "a duplicate has the same id"
    eventually(lambda: len(numbers(webhook)) == 60)
    check([(got["partitionkey"], got["data"]["n"]) for got in webhook.got], 60)


def test_a_webhook_that_is_busy_for_a_while_gets_all_of_it_in_order(
    book: Book, relay: Relay, webhook: Webhook
) -> None:
    webhook.status = 503
    book.events.add_sink("hooks", "webhook", url=webhook.url)
    relay.step()
    publish(book, 10)
    eventually(lambda: [lag.failing > 0 for lag in book.events.lags()] == [True])
    webhook.status = 204
    eventually(lambda: len(webhook.got) >= 10)
    check([(got["partitionkey"], got["data"]["n"]) for got in webhook.got], 10)
    assert book.events.dead_letters() == []


def test_a_webhook_that_fails_now_and_then_gets_all_of_it_soon(
    book: Book, relay: Relay, webhook: Webhook
) -> None:
    chance = Random(3)
    webhook.fails = lambda: chance.choice((503, 0)) if chance.random() < 0.05 else None
    book.events.add_sink("hooks", "webhook", url=webhook.url)
    relay.step()
    publish(book, 200)
    eventually(lambda: len(numbers(webhook)) == 200)
    check([(got["partitionkey"], got["data"]["n"]) for got in webhook.got], 200)
    assert len(webhook.got) == 200, "what got through came once"


def test_a_sink_is_served_by_its_latest_definition_and_not_when_it_is_gone(
    book: Book, relay: Relay, webhook: Webhook
) -> None:
    with closing(Webhook()) as other:
        book.events.add_sink("hooks", "webhook", url=webhook.url)
        relay.step()
        publish(book, 5)
        eventually(lambda: len(webhook.got) == 5)
        eventually(lambda: [lag.behind for lag in book.events.lags()] == [0])
        book.events.add_sink("hooks", "webhook", url=other.url)
        relay.step()
        publish(book, 5, first=5)
        eventually(lambda: len(other.got) == 5)
        book.events.remove("hooks")
        relay.step()
        assert len(webhook.got) == 5


def test_a_sink_that_may_not_be_reached_is_refused(
    book: Book, store: PostgresStore, webhook: Webhook
) -> None:
    with closing(Relay(store)) as relay:
        book.events.add_sink("hooks", "webhook", url=webhook.url)
        relay.step()
        publish(book, 1)
        eventually(lambda: [lag.failing for lag in book.events.lags()] == [1])
    assert webhook.got == []
