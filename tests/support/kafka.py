"""A Kafka for tests: librdkafka's mock cluster in one process, and a consumer in another.

`python -m tests.support.kafka cluster` prints its address;
`python -m tests.support.kafka consume SERVERS TOPIC` prints each message as JSON, without end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from pathlib import Path


class Process:
    """One of the two processes; it ends with the test."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._out = folder / f"kafka-{words[0]}-{os.urandom(4).hex()}.out"
        with self._out.open("wb") as out:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "tests.support.kafka", *words],
                stdout=out,
                stderr=subprocess.DEVNULL,
            )

    @property
    def lines(self) -> list[str]:
        return [
            line for line in self._out.read_text().splitlines(keepends=True) if line[-1] == "\n"
        ]

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Kafka:
    """A cluster, and its consumers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.cluster = Process(folder, "cluster")
        self._consumers: list[Process] = []
        eventually(lambda: self.cluster.lines)
        self.servers = self.cluster.lines[0].strip()

    def consume(self, topic: str) -> Process:
        self._consumers.append(Process(self._folder, "consume", self.servers, topic))
        return self._consumers[-1]

    def close(self) -> None:
        for process in (*self._consumers, self.cluster):
            process.close()


def messages(consumer: Process) -> list[dict[str, Any]]:
    return [json.loads(line) for line in consumer.lines]


def _cluster() -> None:
    import confluent_kafka

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0}
    )
    brokers = producer.list_topics(timeout=PATIENCE).brokers.values()
    print(",".join(f"{broker.host}:{broker.port}" for broker in brokers), flush=True)  # noqa: T201
    threading.Event().wait()


def _consume(servers: str, topic: str) -> None:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "test",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 200,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    while True:
        message = consumer.poll(0.2)
        if message is None or message.error():
            continue
        pairs: Any = message.headers() or []
        headers = {name: value.decode() for name, value in pairs}
        key, value = message.key() or b"", message.value() or b"null"
        told = {"key": key.decode(), "value": json.loads(value), "headers": headers}
        print(json.dumps(told), flush=True)  # noqa: T201


if __name__ == "__main__":
    if sys.argv[1] == "cluster":
        _cluster()
    _consume(*sys.argv[2:])
