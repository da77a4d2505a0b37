"""Real nodes are killed at every point of their work with the books, while others go on."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from duebook.store.postgres.statements import QUERIES
from tests.chaos.fleet import LEASE
from tests.chaos.points import POINTS, STATEMENTS
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.chaos.fleet import Fleet

LANES = 4
TRIES = 3


def test_every_point_is_a_statement_of_the_store() -> None:
    assert {name for names in STATEMENTS.values() for name in names} <= QUERIES.keys()


def kill_at(fleet: Fleet, point: str, patience: float = 3 * LEASE) -> bool:
    """Whether a node reached the point in time, and died of it; it may take its time to begin."""
    leaves = point.endswith(("end_session", "release_lead"))
    node = fleet.start(kill_at=point, shutdown_grace=0)
    eventually(lambda: node.process.was_ready or not node.alive)
    if leaves:
        node.process.send(signal.SIGTERM)
    try:
        eventually(lambda: not node.alive, patience)
    except AssertionError:
        node.process.end(signal.SIGKILL)
        return False
    return node.process.process.returncode == -signal.SIGKILL


def kill_after_a_death(fleet: Fleet, point: str) -> bool:
    """The same when nobody else is killed: first one dies at work, whom the next can follow."""
    if point.endswith("end_expired_sessions"):
        return any(kill_after_a_stop(fleet, point) for _ in range(TRIES))
    return any(
        kill_at(fleet, "settler before:COMMIT") and kill_at(fleet, point, 5 * LEASE)
        for _ in range(TRIES)
    )


def kill_after_a_stop(fleet: Fleet, point: str) -> bool:
    """Whose process is gone is buried at once; only the lease of one that stands still runs out."""
    still = fleet.node()
    still.process.send(signal.SIGSTOP)
    reached = kill_at(fleet, point, 5 * LEASE)
    still.process.end(signal.SIGKILL)
    return reached


@pytest.mark.lengthy
def test_nodes_killed_at_every_point_lose_and_double_nothing(fleet: Fleet) -> None:
    fleet.load()
    fleet.load_flows()
    other = fleet.node(lease=4 * LEASE, slots=2, roles=["worker"])  # it leaves enough to do
    missed: list[str] = []

    def kill(points: list[str]) -> None:
        missed.extend(point for point in points if not kill_at(fleet, point))

    with fleet.fault("deaths"):  # of those who would follow the dead; who stays looks seldom
        with ThreadPoolExecutor(LANES) as lanes:
            for lane in [lanes.submit(kill, POINTS[n::LANES]) for n in range(LANES)]:
                lane.result()
        other.process.end(signal.SIGTERM)  # which might be the one that follows the dead
        missed = [point for point in missed if not kill_after_a_death(fleet, point)]
        assert not missed, "no node reached these"
        fleet.node()
    fleet.settle_accounts()
