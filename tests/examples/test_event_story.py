"""The story of three nodes with events, with a lease that is short: who leads is killed, and both
who listen get every event."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from examples.event_story import SHOPS, TOPIC, Story, judge

from tests.support.kafka import Kafka
from tests.support.nodes import LEASE, open_world

if TYPE_CHECKING:
    from pathlib import Path


def test_both_consumers_get_every_event_in_order_though_the_leader_is_killed(
    tmp_path: Path, postgres_url: str
) -> None:
    with closing(Kafka(tmp_path)) as kafka, open_world(tmp_path, postgres_url) as world:
        options: dict[str, Any] = {
            "coordination": "leader",
            "lease": LEASE,
            "http_allow": "127.0.0.1",
        }
        options["roles"] = ["scheduler", "relay"]
        verdicts = Story(postgres_url, kafka, lambda: world.node(**options)).tell()
        events = world.book.events.list(TOPIC, limit=1_000)
    assert [verdict.who for verdict in verdicts if verdict.holds] == ["Kafka", "PostgreSQL"]
    assert {verdict.written for verdict in verdicts} == {len(events)}
    for n in range(1, SHOPS + 1):
        versions = [event.version for event in events if event.key == f"stocktaking-{n}"]
        assert versions == list(range(1, len(versions) + 1))
    heard = [event.id for event in events]
    assert not judge("somebody", events, heard[1:], exactly_once=False).holds
    assert not judge("somebody", events, reversed(heard), exactly_once=False).holds
    assert judge("somebody", events, heard * 2, exactly_once=False).holds
    assert not judge("somebody", events, heard * 2, exactly_once=True).holds
