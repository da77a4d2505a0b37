"""The retry policy of a flow runs it again if it fails: after the delay, but not once it was
stopped or has ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from duebook.engine.advancer import Advancer
from duebook.model.flow_run import FlowEnd, FlowMove
from tests.support.builders import MINUTE, SECOND, begin, claim, get_run, settle
from tests.support.flow_builders import FOR_EVER, put_flow, start

if TYPE_CHECKING:
    from duebook.store.base import Store, Tx
    from tests.support.builders import VirtualClock

SHAKY = """
name: shaky
retry_policy: {limit: 3, interval_sec: 60}
steps: [{name: work, command: "true"}]
"""
PARTLY = """
name: partly
retry_policy: {limit: 3, interval_sec: 60}
steps:
  - {name: one, command: "true", continue_on: failed}
  - {name: two, command: "true"}
"""


def fail(store: Store) -> None:
    """Start the waiting step and let it fail."""
    Advancer(store).step()
    (claimed,) = claim(store)
    assert settle(store, claimed.token, "failed", reason="exit_code")


def test_a_retry_waits_for_its_delay_though_something_wakes_the_flow(
    store: Store, clock: VirtualClock
) -> None:
    put_flow(store, SHAKY, "shaky")
    begin(store, lease=FOR_EVER)
    run_id = start(store, "shaky")
    fail(store)
    advancer = Advancer(store)
    assert advancer.step() == clock.now + MINUTE
    clock.advance(59 * SECOND)
    store.transact(lambda tx: tx.wakes.wake_flows([run_id]))
    assert advancer.step() == clock.now + SECOND
    assert get_run(store, run_id).status == "queued"
    assert claim(store) == []
    clock.advance(SECOND)
    advancer.step()
    assert get_run(store, run_id).status == "running"
    assert len(claim(store)) == 1


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_flow_that_was_stopped_is_not_retried_however_its_step_ends(
    store: Store, clock: VirtualClock, end: Literal["failed", "cancelled"]
) -> None:
    put_flow(store, SHAKY, "shaky")
    begin(store, lease=FOR_EVER)
    run_id = start(store, "shaky")
    Advancer(store).step()
    (claimed,) = claim(store)
    store.transact(lambda tx: tx.flow_controls.stop_flows([run_id], "stopped"))
    Advancer(store).step()
    assert settle(store, claimed.token, end, reason="flow_cancelled")
    Advancer(store).step()
    assert get_run(store, run_id).status == end
    clock.advance(2 * MINUTE)
    assert Advancer(store).step() is None
    assert claim(store) == []


def test_a_flow_that_ended_partial_is_not_retried(store: Store) -> None:
    put_flow(store, PARTLY, "partly")
    begin(store, lease=FOR_EVER)
    run_id = start(store, "partly")
    fail(store)
    Advancer(store).step()
    (second,) = claim(store)
    assert settle(store, second.token)
    assert Advancer(store).step() is None
    assert get_run(store, run_id).status == "partial"


def test_the_end_of_a_flow_that_has_ended_changes_nothing(
    store: Store, clock: VirtualClock
) -> None:
    put_flow(store, SHAKY, "shaky")
    begin(store, lease=FOR_EVER)
    run_id = start(store, "shaky")
    Advancer(store).step()
    (claimed,) = claim(store)
    settle(store, claimed.token)
    kept: list[FlowMove] = []

    def end(tx: Tx) -> None:
        (parent,) = tx.flow_runs.take_flows(10)
        kept.append(FlowMove(parent, end=FlowEnd("succeeded")))
        tx.flow_runs.commit_flows(kept)

    store.transact(end)
    ended = get_run(store, run_id)
    assert ended.status == "succeeded"
    clock.advance(MINUTE)
    late = [replace(kept[0], end=FlowEnd("failed", "step"), error="too late")]
    store.transact(lambda tx: tx.flow_runs.commit_flows(late))
    assert get_run(store, run_id) == ended
