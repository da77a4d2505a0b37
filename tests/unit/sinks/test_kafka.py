"""Kafka without a broker: what is told when a message cannot be handed over."""

from __future__ import annotations

from base64 import b64decode
from contextlib import closing
from typing import Any

import pytest

from duebook.errors import Invalid, Unavailable
from duebook.model.kafka_settings import TOKEN_URL
from duebook.sinks.kafka import KafkaSink
from duebook.targets.addresses import read_networks
from duebook.targets.posting import Poster
from tests.support.event_builders import delivery
from tests.support.waiting import eventually

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


class Open:
    """Lets everything through; has the answer of a token endpoint."""

    def __init__(self, status: int = 200, body: bytes = b"") -> None:
        self.answer = status, body
        self.asked: list[tuple[str, dict[str, str], bytes]] = []

    def refuse(self, servers: str) -> None: ...

    def fetch(self, url: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        self.asked.append((url, headers, body))
        return self.answer


def sink(producer: Producer | None = None, **config: str) -> KafkaSink:
    made = KafkaSink("127.0.0.1:1", Open(), config={"message.timeout.ms": "1"} | config)
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


def test_servers_at_addresses_that_are_not_allowed_are_told_with_the_sink() -> None:
    made = KafkaSink("k-1:9092,[::1]:9092", Poster(), config={"message.timeout.ms": "1"})
    assert made.deliver([delivery(1)]).undelivered["e1"] == (
        "no connection to ::1: ::1 is loopback; the setting http_allow can allow it"
    )


def test_each_server_is_judged_by_its_resolved_addresses() -> None:
    def resolver(host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
        if host == "gone":
            raise OSError
        return [(2, ({"meta": "169.254.169.254", "own": "10.1.0.7"}.get(host, "8.8.8.8"), port))]

    poster = Poster(read_networks("10.1.0.0/16"), resolver=resolver)
    poster.refuse("k:9092, own:9092,gone,SASL_SSL://k:9093")
    for servers in ("k:1,meta:9092", "PLAINTEXT://meta:9092", "meta"):
        with pytest.raises(Invalid, match="is link-local"):
            poster.refuse(servers)


OAUTH = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "duebook",
    "sasl.oauthbearer.client.secret": "t:p s",
    "sasl.oauthbearer.scope": "bus",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
    "message.timeout.ms": "1",
}


def test_tokens_come_through_the_gate_and_the_library_never_sees_the_secret() -> None:
    gate = Open(body=b'{"access_token": "abc", "expires_in": 60}')
    made = KafkaSink("127.0.0.1:1", gate, config=OAUTH)
    assert not any("oauthbearer" in name for name in made._settings)
    with closing(made):
        made._opened()
        ((url, headers, body), *_) = eventually(lambda: gate.asked)
    assert url == "https://login.example.com/token"
    assert b64decode(headers["Authorization"].removeprefix("Basic ")) == b"duebook:t%3Ap%20s"
    assert body == b"grant_type=client_credentials&scope=bus"
    token, _, _, extensions = made._token("")
    assert (token, extensions) == ("abc", {"logicalCluster": "lkc-1"})


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, b"", "returned 401"),
        (200, b"{", "did not return an access_token"),
        (200, b"[]", "did not return an access_token"),
        (200, b'{"access_token": 1}', "did not return an access_token"),
        (200, b'{"access_token": "a", "expires_in": "soon"}', "did not return an access_token"),
    ],
)
def test_a_token_endpoint_that_gives_none_is_told(status: int, body: bytes, told: str) -> None:
    made = KafkaSink("127.0.0.1:1", Open(status, body), config=OAUTH)
    with pytest.raises(Invalid, match=told):
        made._token("")
    assert told in made._silence()


def test_a_token_endpoint_at_an_address_that_is_not_allowed_gets_no_secret() -> None:
    made = KafkaSink(
        "127.0.0.1:1", Poster(), config=OAUTH | {TOKEN_URL: "http://169.254.169.254/token"}
    )
    with pytest.raises(Unavailable, match="link-local; the setting http_allow can allow it"):
        made._token("")
