"""Several nodes on one file, at full load and while one of them dies: nothing doubled or lost."""

from __future__ import annotations

import signal
import time
from collections import Counter

from tests.support.nodes import LEASE, QUICK, World, check, world
from tests.support.waiting import PATIENCE, eventually

__all__ = ["world"]  # the fixture

SCHEDULES = [f"second-{n:02d}" for n in range(50)]


def test_two_nodes_share_fifty_schedules_of_every_second(world: World) -> None:
    for name in SCHEDULES:
        world.add(name, QUICK, trigger={"every": "1s"})
    nodes = [world.node(slots=5) for _ in range(2)]
    enough = 3 * len(SCHEDULES)
    eventually(lambda: _shared(world) and len(world.evidence("end")) >= enough, 2 * PATIENCE)
    assert [node.end() for node in nodes] == [0, 0]
    assert not any("Traceback" in node.log for node in nodes)
    runs = world.query("SELECT status, attempt, losses FROM runs WHERE status <> 'queued'")
    assert set(runs) == {("succeeded", 1, 0)}
    assert len(runs) >= enough
    assert set(Counter(e.schedule for e in world.evidence("end"))) == set(SCHEDULES)
    check(world)


def _shared(world: World) -> bool:
    """Whether every schedule ran, and both nodes had their share."""
    ran = {(e.schedule, e.node) for e in world.evidence("end")}
    return {name for name, _ in ran} == set(SCHEDULES) and len({node for _, node in ran}) == 2


def test_a_node_killed_at_full_load_loses_and_doubles_nothing(world: World) -> None:
    for name in SCHEDULES[:20]:
        world.add(name, QUICK, trigger={"every": "1s"})
    survivor, victim = world.node(slots=5, lease=LEASE), world.node(slots=5, lease=LEASE)
    eventually(lambda: world.sessions(victim))
    world.wait_evidence("start", SCHEDULES[0], 2)
    victim.end(signal.SIGKILL)
    (*_, (session, _)) = world.sessions(victim)
    gone = "SELECT count(*) FROM runs WHERE status = 'running' AND session_id = ?"
    eventually(lambda: world.query(gone, session) == [(0,)])
    now = time.time()
    eventually(lambda: all(_ran_since(world, name, now) for name in SCHEDULES[:20]))
    assert survivor.end() == 0
    assert not victim.family()
    check(world)


def _ran_since(world: World, schedule: str, moment: float) -> bool:
    return any(e.at > moment for e in world.evidence("end", schedule))
