"""Pings of real nodes to a service on loopback: each end of a run, also after a node has died."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.integration.http_server import Server
from tests.support.nodes import LEASE, World, open_world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path) as opened:
        yield opened


def test_runs_ping_their_service_and_a_node_that_dies_loses_none(world: World) -> None:
    with Server() as service:
        book = world.book
        for name, command in (("good", ["true"]), ("bad", ["sh", "-c", "exit 3"])):
            book.schedules.create(name, trigger={"cron": "@yearly"}, target={"command": command})
            book.events.set_ping(name, service.url(f"/ok/{name}"))
        worker = world.node(lease=LEASE, roles=["scheduler", "worker"])
        for name in ("good", "bad"):
            book.schedules.trigger(name)
        eventually(lambda: [run for run in book.runs.list() if run.is_active] == [])
        worker.end(signal.SIGKILL)
        world.node(lease=LEASE, roles=["relay"], http_allow="127.0.0.0/8")
        eventually(lambda: len({asked.path for asked in service.asked}) == 2)
        pings = {asked.path: asked.body for asked in service.asked}
        assert pings["/ok/good"] == ""
        assert pings["/ok/bad/fail"].endswith("failed\nexit_code\nexit code 3")
