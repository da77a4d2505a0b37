"""Real nodes are killed at every point of their work with the database, while others continue."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from duebook.store.postgres.statements import QUERIES
from tests.chaos.fleet import LEASE
from tests.chaos.points import POINTS, STATEMENTS
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.chaos.fleet import Fleet

LANES = 4
TRIES = 3
AT_WORK = [point for point in POINTS if point.startswith(("ticker", "dispatcher", "settler"))]
"""Points that a node reaches by itself."""


def test_every_point_is_a_statement_of_the_store() -> None:
    assert {name for names in STATEMENTS.values() for name in names} <= QUERIES.keys()


def kill_at(fleet: Fleet, point: str, patience: float = 3 * LEASE) -> bool:
    """Whether a node reached the point in time, and died there; it may take a while to start."""
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
    """The same without other deaths: first one node dies at work, whose runs the next can take
    over."""
    if point.endswith("end_expired_sessions"):
        return any(kill_after_a_stop(fleet, point) for _ in range(TRIES))
    return any(
        kill_at(fleet, "settler before:COMMIT") and kill_at(fleet, point, 5 * LEASE)
        for _ in range(TRIES)
    )


def kill_after_a_stop(fleet: Fleet, point: str) -> bool:
    """A process that is gone is noticed at once; only the lease of a stopped one must run out."""
    still = fleet.node()
    still.process.send(signal.SIGSTOP)
    reached = kill_at(fleet, point, 5 * LEASE)
    still.process.end(signal.SIGKILL)
    return reached


def kill_at_all(fleet: Fleet, points: list[str]) -> list[str]:
    """Several nodes at the same time; returns the points that no node reached."""

    def kill(some: list[str]) -> list[str]:
        return [point for point in some if not kill_at(fleet, point)]

    with ThreadPoolExecutor(LANES) as lanes:
        return [
            point
            for lane in [lanes.submit(kill, points[n::LANES]) for n in range(LANES)]
            for point in lane.result()
        ]


def test_nodes_killed_at_some_points_of_their_work_lose_and_double_nothing(fleet: Fleet) -> None:
    fleet.load()
    fleet.load_flows()
    with fleet.fault("deaths"):
        missed = kill_at_all(fleet, AT_WORK[::5])
        assert len(missed) < len(AT_WORK[::5]), "no node reached any of them"
        fleet.node()
    fleet.settle_accounts()


@pytest.mark.kills
def test_nodes_killed_at_every_point_lose_and_double_nothing(fleet: Fleet) -> None:
    fleet.load()
    fleet.load_flows()
    other = fleet.node(lease=4 * LEASE, slots=2, roles=["worker"])  # it leaves enough work
    with fleet.fault("deaths"):  # of nodes that would take over; the one that remains looks rarely
        missed = kill_at_all(fleet, POINTS)
        other.process.end(signal.SIGTERM)  # it might be the one that takes over
        missed = [point for point in missed if not kill_after_a_death(fleet, point)]
        assert not missed, "no node reached these"
        fleet.node()
    fleet.settle_accounts()
