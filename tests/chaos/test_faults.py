"""One fault at a time on a fleet under load: nothing is lost or doubled, and nothing has to
wait."""

from __future__ import annotations

import signal
import time
from statistics import median
from typing import TYPE_CHECKING

import pytest

from tests.chaos.fleet import LEASE, QUICK
from tests.support.clock_files import set_clock
from tests.support.nodes import BEATING, HELD, SAY
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.chaos.fleet import Fleet
    from tests.chaos.proxy import Loss

MANY = ("all-1", "all-2", "cron", "queue", "skip", "latest", "failing", "pair", "narrow")
SLACK = 2.0
"""Additional seconds that a busy machine may take."""


def wait_until_trusted() -> None:
    """Wait until every ready node has run for one lease, so that it may judge others."""
    ready = time.monotonic()
    eventually(lambda: time.monotonic() > ready + LEASE * 4 / 3)


def took_over_in_time(fleet: Fleet, lost_at: float) -> None:
    """Check that the job started again within a lease and two looks, not counting stalls."""
    again = fleet.world.wait_evidence("start", "job", 2)[-1]
    took = again.at - lost_at - fleet.seen.stood_still(lost_at, again.at)
    assert took < LEASE * 5 / 3 + SLACK


def test_a_node_stopped_between_take_and_commit_and_beyond_its_lease(fleet: Fleet) -> None:
    fleet.load(MANY)
    lease = 3 * LEASE
    stopped = fleet.start(stop_at="ticker before:COMMIT", lease=lease)
    fleet.wait_stopped(stopped)
    fleet.node()
    began = time.time()
    fleet.wait_more("all-1", 2)
    took = time.time() - began - fleet.seen.stood_still(began, time.time())
    assert took < lease, "its schedules came back before its lease ended"
    eventually(lambda: time.time() > began + 1.5 * lease)
    stopped.process.send(signal.SIGCONT)
    fleet.settle_accounts()
    assert "lost its session" in stopped.process.log


def test_a_node_stopped_between_claim_and_commit_holds_nobody_up(fleet: Fleet) -> None:
    """It holds a limited queue, a limited schedule, and its own session."""
    fleet.load(("all-1", "narrow", "pair", "queue"))
    lease = 5 * LEASE  # a busy machine does not make them lose it
    fleet.node(slots=3, lease=lease)
    for point in ("dispatcher before:note_begun", "dispatcher after:claim_limited"):
        stopped = fleet.start(stop_at=point, lease=lease)
        fleet.wait_stopped(stopped)
        fleet.wait_more("all-1", 2, timeout=lease)
    for member in fleet.members[1:]:
        member.process.send(signal.SIGCONT)
    fleet.settle_accounts()
    assert "lost its session" not in fleet.members[0].process.log


def test_the_late_success_of_a_stopped_node_does_not_end_the_next_attempt(fleet: Fleet) -> None:
    fleet.world.add("job", SAY + f'[ "$DUEBOOK_ATTEMPT" = 2 ] || {{ {QUICK}; exit; }}; {HELD}')
    stopped = fleet.start(stop_at="settler before:lock_wakes")
    run = fleet.world.trigger("job")
    fleet.wait_stopped(stopped)
    fleet.node()
    fleet.world.wait_evidence("start", "job", 2)
    stopped.process.send(signal.SIGCONT)
    eventually(lambda: "this outcome is ignored" in stopped.process.log)
    assert fleet.world.status(run) == "running"
    fleet.world.go.touch()
    fleet.world.wait_for(run, "succeeded")
    fleet.settle_accounts()
    assert fleet.world.book.runs.get(run).attempt == 2


@pytest.mark.parametrize("crashes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_server_that_crashes_under_load(durable_fleet: Fleet, crashes: int) -> None:
    fleet = durable_fleet
    fleet.load(MANY)
    fleet.node()
    fleet.node()
    for _ in range(crashes):
        fleet.wait_more("all-1", 2)
        triggered = [fleet.world.trigger("all-2") for _ in range(3)]
        fleet.crash_server()
    fleet.settle_accounts()
    assert {fleet.world.status(run) for run in triggered} == {"succeeded"}


def test_commits_whose_replies_are_dropped(fleet: Fleet) -> None:
    fleet.load(MANY)
    node = fleet.node(proxied=True)
    fleet.node(slots=2)
    assert node.proxy is not None
    what: list[Loss] = ["", "reply", "", "request"]
    turns = iter(range(10_000))
    node.proxy.lose = lambda: what[next(turns) % len(what)]
    fleet.wait_more("all-1", 5)
    eventually(lambda: node.proxy is not None and node.proxy.lost > 10)
    node.proxy.lose = lambda: ""
    fleet.settle_accounts()


def test_a_node_in_a_black_hole_stops_its_work_before_others_take_it_over(fleet: Fleet) -> None:
    fleet.world.add("job", BEATING, overlap="queue")
    node = fleet.node(proxied=True)
    assert node.proxy is not None
    run = fleet.world.trigger("job")
    fleet.world.wait_evidence("beat", "job")
    fleet.node()
    wait_until_trusted()
    node.proxy.silence()
    took_over_in_time(fleet, time.time())
    fleet.world.go.touch()
    fleet.world.wait_for(run, "succeeded")
    node.proxy.let_through()
    eventually(lambda: "continues as session" in node.process.log)
    fleet.settle_accounts()


def test_a_node_whose_connections_were_forgotten_comes_back(fleet: Fleet) -> None:
    """The connections are not closed, but nothing answers on them any more."""
    fleet.load(MANY)
    node = fleet.node(proxied=True)
    assert node.proxy is not None
    fleet.wait_more("all-1", 2)
    node.proxy.forget()
    fleet.wait_more("all-1", 2)
    fleet.settle_accounts()


def test_clones_with_clocks_that_are_wrong_by_an_hour(fleet: Fleet) -> None:
    """They report the same identity, and none of them has the right time."""
    fleet.load(MANY)
    clocks = [fleet.world.folder / f"clock-{n}" for n in range(3)]
    for clock, shift in zip(clocks, (-3600, 3600, 0), strict=True):
        set_clock(clock, shift)
        fleet.node(clone="localhost", clock=str(clock))
    fleet.wait_more("all-1", 2)
    set_clock(clocks[0], 3600)  # and the clock of one of them jumps
    fleet.members[1].process.end(signal.SIGKILL)
    fleet.wait_more("all-1", 3)
    fleet.settle_accounts()
    names = {(session["node"], session["pid"]) for session in fleet.books().sessions}
    assert names == {("localhost", 1)}


def test_when_every_hint_is_lost_things_only_happen_later(fleet: Fleet) -> None:
    fleet.load(("all-1", "queue"))
    fleet.node(deaf=True, roles=["scheduler"])
    fleet.node(deaf=True, roles=["worker"])
    ready = time.time()
    fleet.wait_more("all-1", 5)
    fleet.settle_accounts()
    starts = fleet.world.evidence("start", "all-1")
    late = [line.at - line.due for line in starts if line.due > ready]
    assert median(late) < LEASE / 3 + SLACK


def test_a_killed_nodes_runs_begin_again_within_a_lease_and_two_looks(fleet: Fleet) -> None:
    fleet.world.add("job", HELD, overlap="queue")
    doomed = fleet.node()
    run = fleet.world.trigger("job")
    fleet.world.wait_evidence("start", "job")
    fleet.node()
    wait_until_trusted()
    doomed.process.end(signal.SIGKILL)
    took_over_in_time(fleet, time.time())
    fleet.world.go.touch()
    fleet.world.wait_for(run, "succeeded")
    fleet.settle_accounts()
