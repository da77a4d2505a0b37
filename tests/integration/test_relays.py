"""Real relays are killed at every point between read, publish and mark: another goes on, nothing is
lost, no key goes backwards, and what comes twice has the same id."""

from __future__ import annotations

import signal
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from tests.support.kafka import Kafka, messages
from tests.support.nodes import LEASE, NodeProcess, World, open_world
from tests.support.waiting import PATIENCE, eventually
from tests.support.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = 3
EACH = 6
"""Events that are published for each relay."""
SENT = 250
"""Bytes: more than a producer says when it publishes nothing."""
MARK: Final = "* after:move_cursor"
POINTS: Final[list[dict[str, str]]] = [
    {"kill_at": "* before:list_events"},
    {"kill_at": "* after:list_events"},
    {"kill_at": "* before:move_cursor"},
    {"kill_at": MARK},
    {"kill_at": "* before:COMMIT", "armed_by": MARK},
    {"kill_at": "* after:COMMIT", "armed_by": MARK},
]
STAMPING: Final[list[dict[str, str]]] = [
    {"kill_at": "sequencer before:stamp_events"},
    {"kill_at": "sequencer after:stamp_events"},
    {"kill_at": "sequencer before:COMMIT"},
    {"kill_at": "sequencer after:COMMIT"},
]


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with closing(Webhook()) as opened:
        yield opened


@pytest.fixture(params=["postgres", pytest.param("sqlite", marks=pytest.mark.long)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with open_world(tmp_path, url) as opened:
        yield opened


@pytest.fixture
def on_postgres(tmp_path: Path, postgres_url: str) -> Iterator[World]:
    with open_world(tmp_path, postgres_url) as opened:
        yield opened


HALVES = pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.long)])
"""Of the points; tests/conformance/test_delivery_crashes.py has all of them, without processes."""


def relay(world: World, **options: Any) -> NodeProcess:
    words = {"lease": LEASE, "http_allow": "127.0.0.0/8", **options}
    return world.start_node(roles=["relay"], **words)


def publish(world: World, number: int = EACH) -> None:
    for n in range(number):
        world.book.events.publish("orders", {"n": n}, key=f"key-{n % KEYS}")


def dies(process: NodeProcess, at: object) -> None:
    def died() -> bool:
        return process.process.poll() is not None

    eventually(died)
    assert process.process.returncode == -signal.SIGKILL, (at, process.log)


def check(world: World, got: list[tuple[str, str]]) -> None:
    """All of them, and of each key none came for the first time after a later one."""
    events = world.book.events.list("orders", limit=1_000)
    places = {event.id: event.position or 0 for event in events}
    assert {id_ for id_, _ in got} == places.keys()
    for key in {event.key for event in events}:
        order = [places[id_] for id_ in dict.fromkeys(id_ for id_, of in got if of == key)]
        assert order == sorted(order)
    assert world.book.events.dead_letters() == []


@HALVES
def test_relays_killed_at_every_point_of_their_work_with_the_books_lose_nothing(
    world: World, webhook: Webhook, half: int
) -> None:
    world.book.events.add_sink("hooks", "webhook", "orders", url=webhook.url)
    points = (POINTS + (STAMPING if world.book.store.sequences else []))[half::2]
    for point in points:
        killed = relay(world, **point)
        publish(world)
        dies(killed, point)
    relay(world)
    eventually(lambda: len(dict(webhook.heard)) == EACH * len(points))
    caught_up(world)
    check(world, webhook.heard)


def test_a_relay_killed_before_its_receiver_answers_sends_that_again_under_the_same_id(
    world: World, webhook: Webhook
) -> None:
    world.book.events.add_sink("hooks", "webhook", "orders", url=webhook.url)
    killed = relay(world)
    reached = threading.Event()

    def kill() -> None:
        if len(webhook.heard) == EACH // 2 and not reached.is_set():
            killed.end(signal.SIGKILL)
            reached.set()

    webhook.before_answer = kill
    publish(world)
    assert reached.wait(PATIENCE)
    before = webhook.heard
    relay(world)
    eventually(lambda: len(dict(webhook.heard)) == EACH)
    caught_up(world)
    assert before[-1] in webhook.heard[len(before) :]
    check(world, webhook.heard)


def test_two_relays_publish_what_is_committed_late_and_go_on_when_one_is_killed(
    on_postgres: World, webhook: Webhook
) -> None:
    book = on_postgres.book
    book.events.add_sink("hooks", "webhook", "orders", url=webhook.url)
    killed, _ = relay(on_postgres), relay(on_postgres)
    with psycopg.connect(on_postgres.place) as late:
        book.events.publish("orders", {"n": -1}, key="key-0", connection=late)
        publish(on_postgres, 20)
        eventually(lambda: len(dict(webhook.heard)) == 20)
    eventually(lambda: len(dict(webhook.heard)) == 21)
    with psycopg.connect(on_postgres.place) as late:
        book.events.publish("orders", {"n": -2}, key="key-1", connection=late)
        publish(on_postgres, 20)
        killed.end(signal.SIGKILL)
        publish(on_postgres, 20)
        eventually(lambda: len(dict(webhook.heard)) == 61)
    eventually(lambda: len(dict(webhook.heard)) == 62)
    caught_up(on_postgres)
    check(on_postgres, webhook.heard)


@HALVES
def test_kafka_gets_all_of_it_though_relays_are_killed_at_every_point(
    on_postgres: World, tmp_path: Path, half: int
) -> None:
    """Also while a broker that stands still has what was sent, and reads it later."""
    points = POINTS[1 - half :: 2]  # those that a webhook has not
    with closing(Kafka(tmp_path)) as kafka:
        consumer = kafka.consume("orders")

        def got() -> list[tuple[str, str]]:
            return [(m["headers"]["ce_id"], m["key"]) for m in messages(consumer)]

        on_postgres.book.events.add_sink("bus", "kafka", "orders", servers=kafka.servers)
        for point in points:
            killed = relay(on_postgres, **point)
            publish(on_postgres)
            dies(killed, point)
        killed = relay(on_postgres)
        publish(on_postgres)
        eventually(lambda: len(dict(got())) == EACH * (len(points) + 1))
        caught_up(on_postgres)
        kafka.cluster.pause()
        publish(on_postgres)
        eventually(lambda: in_transit(killed.pid, kafka.servers) > SENT)
        killed.end(signal.SIGKILL)
        kafka.cluster.resume()
        relay(on_postgres)
        eventually(lambda: len(dict(got())) == EACH * (len(points) + 2))
        caught_up(on_postgres)
        check(on_postgres, got())


def caught_up(world: World) -> None:
    eventually(lambda: [lag.behind for lag in world.book.events.lags()] == [0])


def in_transit(pid: int, server: str) -> int:
    """Bytes that a process has sent to a server, which has not read them."""
    port = f":{int(server.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            sockets.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
    ours = {row[1] for row in rows if row[2].endswith(port) and row[9] in sockets}
    return sum(int(row[4].partition(":")[2], 16) for row in rows if row[2] in ours)
