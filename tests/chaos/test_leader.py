"""Nodes of which one leads: it is killed, stopped beyond its lease, and stopped in its commit."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import psycopg

from tests.chaos.fleet import LEASE, Fleet, Member
from tests.waiting import eventually

if TYPE_CHECKING:
    from typing import Any

NAMES = ("all-1", "all-2", "cron", "queue", "skip")


def start_three(fleet: Fleet, lease: float = LEASE) -> None:
    fleet.load(NAMES)
    for _ in range(3):
        fleet.node(coordination="leader", lease=lease)


def lead(fleet: Fleet) -> dict[str, Any]:
    """The term, and the process of the leader's session."""
    with psycopg.connect(fleet.url) as connection:
        cursor = connection.execute(
            "SELECT l.term, n.pid, l.expires_at > now() FROM duebook.leases AS l"
            " LEFT JOIN duebook.node_sessions AS n ON n.id = l.session_id"
        )
        term, pid, lasts = cursor.fetchall()[0]
    return {"term": term, "pid": pid, "lasts": lasts}


def leader(fleet: Fleet) -> Member:
    found = eventually(lambda: lead(fleet)["lasts"] and lead(fleet)["pid"])
    (member,) = (member for member in fleet.members if member.process.pid == found)
    return member


def wait_for_another(fleet: Fleet, term: int) -> None:
    eventually(lambda: lead(fleet)["term"] > term, 3 * LEASE)


def test_a_killed_leader_is_followed_and_nothing_is_lost_or_doubled(fleet: Fleet) -> None:
    start_three(fleet)
    first, term = leader(fleet), lead(fleet)["term"]
    fleet.wait_more("all-1", 2)
    first.process.end(signal.SIGKILL)
    wait_for_another(fleet, term)
    assert leader(fleet) is not first
    fleet.wait_more("all-1", 2)
    fleet.settle_accounts()


def test_a_leader_that_leaves_is_followed_at_once(fleet: Fleet) -> None:
    lease = 5 * LEASE  # so that nobody on a busy machine takes half of it
    start_three(fleet, lease)
    first, term = leader(fleet), lead(fleet)["term"]
    fleet.wait_more("all-1", 2)
    assert first.process.end() == 0
    left = time.monotonic()
    wait_for_another(fleet, term)
    assert time.monotonic() - left < lease / 2
    fleet.settle_accounts()


def test_a_leader_stopped_beyond_its_lease_does_nothing_when_it_goes_on(fleet: Fleet) -> None:
    start_three(fleet)
    first, term = leader(fleet), lead(fleet)["term"]
    fleet.wait_more("all-1", 2)
    fleet.stop(first)
    wait_for_another(fleet, term)
    fleet.wait_more("all-1", 2)
    second = lead(fleet)
    first.process.send(signal.SIGCONT)
    fleet.wait_more("all-1", 3)
    assert lead(fleet) == second, "who came back leads no more"
    fleet.settle_accounts()


def test_a_leader_stopped_in_its_commit_holds_up_no_others_pulse(fleet: Fleet) -> None:
    fleet.load(NAMES)
    stopped = fleet.start(coordination="leader", stop_at="ticker before:COMMIT")
    fleet.wait_stopped(stopped)
    others = [fleet.node(coordination="leader") for _ in range(2)]
    fleet.wait_more("all-1", 3, timeout=3 * LEASE)
    assert lead(fleet)["pid"] in {member.process.pid for member in others}
    stopped.process.send(signal.SIGCONT)
    fleet.settle_accounts()
    for member in others:
        assert "session is lost" not in member.process.log
        assert "out of reach" not in member.process.log
