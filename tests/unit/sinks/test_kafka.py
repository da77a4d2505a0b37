"""Kafka without a broker: what is told when a message cannot be handed over."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from duebook.sinks.kafka import KafkaSink
from tests.unit.sinks.test_webhook import delivery
from tests.waiting import eventually

confluent_kafka = pytest.importorskip("confluent_kafka")


class Producer:
    """Takes what it is given at once, but for some events."""

    def __init__(self, **raises: Exception) -> None:
        self.taken: list[str] = []
        self._raises = raises

    def produce(self, headers: Any, on_delivery: Any, **_: Any) -> None:
        event_id = dict(headers)["ce_id"].decode()
        if event_id in self._raises:
            raise self._raises[event_id]
        self.taken.append(event_id)
        on_delivery(None, None)

    def poll(self, _: float) -> None: ...

    def flush(self, _: float) -> None: ...

    def purge(self) -> None: ...


def sink(producer: Producer | None = None, **config: str) -> KafkaSink:
    made = KafkaSink("127.0.0.1:1", config={"message.timeout.ms": "1"} | config)
    made._producer = producer
    return made


def kafka_error(name: str) -> Exception:
    code = getattr(confluent_kafka.KafkaError, name)
    raised: Exception = confluent_kafka.KafkaException(confluent_kafka.KafkaError(code))
    return raised


def test_nothing_overtakes_what_cannot_be_handed_over() -> None:
    producer = Producer(e1=kafka_error("_UNKNOWN_TOPIC"), e2=kafka_error("MSG_SIZE_TOO_LARGE"))
    work = [delivery(1), delivery(2, "b"), delivery(3), delivery(4, "b"), delivery(5, "c")]
    report = sink(producer).deliver(work)
    assert producer.taken == ["e5"]
    assert (set(report.undelivered), set(report.rejected)) == ({"e1"}, {"e2"})
    assert report.untried == {"e3", "e4"}


def test_a_full_queue_is_waited_for_so_long_and_no_longer() -> None:
    report = sink(Producer(e1=BufferError())).deliver([delivery(1), delivery(2)])
    assert (set(report.undelivered), report.untried) == ({"e1"}, {"e2"})


def test_settings_that_the_library_does_not_know_are_told_with_the_sink() -> None:
    report = sink(None, foo="bar").deliver([delivery(1)])
    assert report.undelivered["e1"] == 'kafka: No such configuration property: "foo"'


def test_why_no_broker_answers_is_told_with_the_sink_and_not_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with closing(sink(None, **{"message.timeout.ms": "500"})) as opened:

        def refusal() -> str:
            """What is told, once that is heard before the time is over."""
            told = opened.deliver([delivery(1)]).undelivered["e1"]
            return told if "refused" in told else ""

        why = eventually(refusal)
    assert why.startswith("no broker acknowledged it in time: 127.0.0.1:1")
    assert caplog.records == []
