"""The story of a distributed scheduler with events: three nodes of which one leads and is killed,
and two that listen, on Kafka and on PostgreSQL."""

from __future__ import annotations

import signal
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg

from duebook.store.postgres.connection import SCHEMA
from tests.integration.nodes import open_world
from tests.kafka import Kafka, messages
from tests.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

LEADER = b"SELECT n.pid FROM leases AS l JOIN node_sessions AS n ON n.id = l.session_id"
SCHEDULES = 5
WANTED = 12


def test_both_consumers_get_every_event_in_order_though_the_leader_is_killed(
    tmp_path: Path, postgres_url: str
) -> None:
    got: list[Any] = []
    with closing(Kafka(tmp_path)) as kafka, open_world(tmp_path, postgres_url) as world:
        book, listener = world.book, kafka.consume("ticks")
        book.events.add_sink("bus", "kafka", "ticks", servers=kafka.servers, start="beginning")
        roles = ["scheduler", "relay"]
        nodes = [world.node(coordination="leader", roles=roles) for _ in range(3)]
        for n in range(SCHEDULES):
            book.schedules.create(
                f"tick-{n}",
                frequency_unit="SECONDS",
                frequency_time=1,
                target={"event": {"topic": "ticks", "data": {"due": "{{ due_at }}"}}},
                catchup="all",
            )

        def consume(least: int) -> bool:
            got.extend(book.events.consume("ticks", "billing", follow=False))
            return len(got) >= least

        eventually(lambda: consume(3 * SCHEDULES), 30)
        with psycopg.connect(postgres_url, options=f"-c search_path={SCHEMA}") as connection:
            ((leader,),) = connection.execute(LEADER).fetchall()
        (killed,) = [node for node in nodes if node.pid == leader]
        killed.end(signal.SIGKILL)
        eventually(lambda: consume(WANTED * SCHEDULES), 60)
        for n in range(SCHEDULES):
            book.schedules.pause(f"tick-{n}")
        eventually(lambda: consume(0) and book.events.lags()[0].behind == 0, 30)
        events = book.events.list("ticks", limit=1_000)
        wanted = [event.id for event in events]
        eventually(lambda: len(messages(listener)) >= len(wanted), 30)
    assert sorted(event.id for event in got) == sorted(wanted)
    heard = [message["headers"]["ce_id"] for message in messages(listener)]
    assert set(heard) == set(wanted)
    places = {event.id: event.position or 0 for event in events}
    for n in range(SCHEDULES):
        own = [event for event in events if event.key == f"tick-{n}"]
        assert [event.version for event in own] == list(range(1, len(own) + 1))
        mine = {event.id for event in own}
        for ids in ([event.id for event in got], list(dict.fromkeys(heard))):
            order = [places[id_] for id_ in ids if id_ in mine]
            assert order == sorted(order)
