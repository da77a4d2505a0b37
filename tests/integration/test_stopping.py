"""Real nodes that stop and drain: how long they wait, and what becomes of their runs."""

from __future__ import annotations

import signal

from tests.support.nodes import HELD, World, world
from tests.support.waiting import eventually

__all__ = ["world"]  # the fixture


def test_a_stop_waits_for_what_runs_and_a_second_signal_does_not(world: World) -> None:
    node = world.up("--stop-within", "5m").wait_ready()
    world.add("held", HELD)
    run = world.trigger("held")
    world.wait_evidence("start", "held")
    node.send(signal.SIGTERM)
    eventually(lambda: "waiting up to 5m for 1 run; press Ctrl-C again" in node.log)
    (shown,) = world.book.nodes.list()
    assert shown.draining_at is not None, "others see that it takes on nothing more"
    assert world.status(run) == "running"
    assert node.end(signal.SIGTERM) == 0
    world.wait_for(run, "queued")
    assert world.evidence("end", "held") == []

    again = world.up("--stop-within", "5m").wait_ready()
    world.wait_evidence("start", "held", number=2)
    again.send(signal.SIGINT)
    eventually(lambda: "waiting up to 5m" in again.log)
    world.go.touch()
    assert again.wait_end() == 0
    assert world.status(run) == "succeeded"


def test_a_node_drains_at_the_request_of_another_process_and_stops_when_idle(
    world: World,
) -> None:
    node = world.up("--slots", "1").wait_ready()
    world.add("held", HELD, overlap="allow")
    first = world.trigger("held")
    world.wait_evidence("start", "held")
    waiting = world.trigger("held")
    name = f"{world.book.nodes.list()[0].node}:{node.pid}"
    asked = world.cli("drain", name)  # a process that has ended when the node hears of it
    assert asked.stdout.startswith(f"draining {name}: 1 run running"), asked.stderr
    eventually(lambda: "this node is draining" in node.log)
    assert "draining" in world.cli("nodes").stdout
    world.go.touch()
    world.wait_for(first, "succeeded")
    assert world.status(waiting) == "queued"
    assert not node.has_ended

    world.cli("undrain", name)
    world.wait_for(waiting, "succeeded")
    world.cli("drain", name, "--stop")
    assert node.wait_end() == 0
    assert "this node has drained; it stops" in node.log
    assert world.book.nodes.list() == []
