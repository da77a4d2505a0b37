"""One node leads: it is killed, stopped beyond its lease, and stopped in its commit."""

from __future__ import annotations

import signal
import time

import psycopg

from tests.chaos.fleet import LEASE, Fleet, Member
from tests.support.waiting import eventually

NAMES = ("all-1", "all-2", "cron", "queue", "skip")


def start_three(fleet: Fleet, lease: float = LEASE) -> None:
    fleet.load(NAMES)
    for _ in range(3):
        fleet.node(coordination="leader", lease=lease)


def leader(fleet: Fleet, after: int = 0) -> tuple[Member, int]:
    """The leader in a term after the given one, and that term."""

    def found() -> tuple[int, int] | None:
        with psycopg.connect(fleet.url) as connection:
            return connection.execute(
                "SELECT n.pid, l.term FROM duebook.leases AS l JOIN duebook.node_sessions AS n"
                " ON n.id = l.session_id WHERE l.expires_at > now() AND l.term > %s",
                [after],
            ).fetchone()

    lead = eventually(found)
    assert lead is not None
    (member,) = (member for member in fleet.members if member.process.pid == lead[0])
    return member, lead[1]


def test_a_killed_leader_is_followed_and_nothing_is_lost_or_doubled(fleet: Fleet) -> None:
    start_three(fleet)
    fleet.wait_more("all-1", 2)
    first, term = leader(fleet)
    first.process.end(signal.SIGKILL)
    assert leader(fleet, after=term)[0] is not first
    fleet.wait_more("all-1", 2)
    fleet.settle_accounts()


def test_a_leader_that_leaves_is_followed_at_once(fleet: Fleet) -> None:
    lease = 20 * LEASE  # so that a busy machine does not take half of it
    start_three(fleet, lease)
    fleet.wait_more("all-1", 2)
    first, term = leader(fleet)
    assert first.process.end() == 0
    left = time.monotonic()
    leader(fleet, after=term)
    assert time.monotonic() - left < lease / 2
    fleet.settle_accounts()


def test_a_leader_stopped_beyond_its_lease_does_nothing_when_it_goes_on(fleet: Fleet) -> None:
    start_three(fleet)
    fleet.wait_more("all-1", 2)
    first, term = leader(fleet)
    fleet.stop(first)
    leader(fleet, after=term)
    fleet.wait_more("all-1", 2)
    second, _ = leader(fleet)
    first.process.send(signal.SIGCONT)
    fleet.wait_more("all-1", 3)
    third, _ = leader(fleet)
    has_lost_it = any(
        words in second.process.log for words in ("is no longer the leader", "lost its session")
    )
    assert third is not first or has_lost_it, "who came back leads no more"
    fleet.settle_accounts()


def test_a_leader_stopped_in_its_commit_holds_up_no_others_pulse(fleet: Fleet) -> None:
    fleet.load(NAMES)
    stopped = fleet.start(coordination="leader", stop_at="ticker before:COMMIT")
    fleet.wait_stopped(stopped)
    patient = 5 * LEASE  # a busy machine does not make them lose it
    others = [fleet.node(coordination="leader", lease=patient) for _ in range(2)]
    fleet.wait_more("all-1", 3)
    assert leader(fleet)[0] in others
    stopped.process.send(signal.SIGCONT)
    fleet.settle_accounts()
    for member in others:
        assert "lost its session" not in member.process.log
        assert "out of reach" not in member.process.log
