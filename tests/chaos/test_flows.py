"""Flows on a fleet whose nodes are killed and stopped: each step runs by its rules, and each flow
ends once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.chaos.fleet import LEASE
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.chaos.fleet import Fleet

POINTS = ("advancer before:COMMIT", "advancer after:insert_step_run", "settler after:COMMIT")


def ended(fleet: Fleet, flow: str) -> int:
    return sum(
        run["flow"] == flow and run["finished_at"] is not None and run["queue"] == "@flow"
        for run in fleet.books().runs
    )


def wait_for_ends(fleet: Fleet, number: int) -> None:
    before = {flow: ended(fleet, flow) for flow in ("wide", "doomed")}
    eventually(
        lambda: all(ended(fleet, flow) >= before[flow] + number for flow in before), 20 * LEASE
    )


def test_flows_go_by_their_rules_while_nodes_die_and_stop(fleet: Fleet) -> None:
    fleet.load_flows()
    steady = fleet.node()
    for point in (
        "advancer before:COMMIT",
        "advancer after:insert_step_run",
        "settler after:COMMIT",
    ):
        doomed = fleet.start(kill_at=point)
        eventually(lambda d=doomed: not d.alive)  # type: ignore[misc]
        wait_for_ends(fleet, 1)
    stopped = fleet.start(stop_at="advancer after:take_flows")
    fleet.wait_stopped(stopped)
    wait_for_ends(fleet, 1)
    stopped.process.send(signal.SIGCONT)
    assert steady.alive
    fleet.settle_accounts()
    states = {(run["flow"], run["status"]) for run in fleet.books().runs if run["queue"] == "@flow"}
    assert states >= {("wide", "partial"), ("doomed", "failed"), ("inner", "succeeded")}
