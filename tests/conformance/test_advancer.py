"""The advancer on every store: steps start in order, joins fire once, flows end as they should."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.engine.advancer import Advancer
from duebook.engine.flow_controls import FlowControls
from duebook.engine.output_files import OutputFiles
from duebook.engine.settling import conclude
from duebook.engine.steps import Ready, StepPreparer
from duebook.flows.flow_cache import FlowCache
from duebook.model.flow_target import FlowTarget
from duebook.model.run import Outcome
from duebook.targets.command import environment
from duebook.targets.command_setup import CommandSetup
from duebook.targets.spawner import Spawner
from duebook.timetext import format_instant
from tests.support.builders import (
    MINUTE,
    SECOND,
    add_run,
    add_schedule,
    begin,
    claim,
    get_run,
    get_runs,
    get_schedule,
    lose,
    tick,
)
from tests.support.flow_builders import CHAIN, claim_steps, put_flow, settle, start, steps_of

if TYPE_CHECKING:
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock

DIAMOND = """
name: diamond
steps:
  - {name: a, command: "true", output: ROWS}
  - {name: b, command: "true", depends: a}
  - {name: c, command: "true", depends: a}
  - {name: d, command: "true", depends: [b, c]}
"""


def finish(store: Store, **ends: str) -> dict[str, str]:
    """Work until nothing is left; steps succeed unless `ends` says otherwise. Returns outcomes."""
    advancer = Advancer(store)
    advancer.step()
    told: dict[str, str] = {}
    while claims := claim(store):
        for claimed in claims:
            step = claimed.run.step or ""
            told[step] = ends.get(step.replace(".", "_"), "succeeded")
            how: dict[str, Any] = {"exit_code": 1} if told[step] == "failed" else {}
            assert settle(store, claimed.token, told[step], **how)  # type: ignore[arg-type]
        advancer.step()
    return told


def states(store: Store, run_id: str) -> dict[str, tuple[str, str | None]]:
    return {name: (run.status, run.reason) for name, run in steps_of(store, run_id).items()}


def test_steps_begin_when_those_before_them_have_ended_and_the_flow_ends_last(
    store: Store,
) -> None:
    put_flow(store, DIAMOND, "diamond")
    run_id = start(store, "diamond")
    begin(store)
    advancer = Advancer(store)
    assert advancer.step() is None
    assert get_run(store, run_id).status == "running"
    (first,) = claim(store)
    assert first.run.step == "a"
    settle(store, first.token, output=json.dumps("12"))
    advancer.step()
    pair = claim_steps(store)
    assert set(pair) == {"b", "c"}
    context = pair["b"].step_context
    assert context is not None
    assert context.ends["a"][1] == "12"
    settle(store, pair["b"].token)
    advancer.step()
    assert claim(store) == []
    settle(store, pair["c"].token)
    advancer.step()
    (last,) = claim(store)
    settle(store, last.token)
    assert advancer.step() is None
    run = get_run(store, run_id)
    assert (run.status, run.output) == ("succeeded", {"ROWS": "12"})


def test_two_last_steps_that_end_together_let_the_join_begin_once(backend: Backend) -> None:
    store = backend.open()
    put_flow(store, DIAMOND, "diamond")
    run_id = start(store, "diamond")
    begin(store)
    Advancer(store).step()
    (first,) = claim(store)
    settle(store, first.token)
    Advancer(store).step()
    pair = claim_steps(store)
    barrier = threading.Barrier(2)

    def end(name: str) -> None:
        mine = backend.open()
        barrier.wait()
        settle(mine, pair[name].token)
        Advancer(mine).step()

    threads = [threading.Thread(target=end, args=(name,)) for name in ("b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    Advancer(store).step()
    assert [claimed.run.step for claimed in claim(store)] == ["d"]
    assert len(steps_of(store, run_id)) == 4


def test_a_failed_step_stops_those_after_it_and_fails_the_flow(store: Store) -> None:
    put_flow(store, DIAMOND, "diamond")
    run_id = start(store, "diamond")
    begin(store)
    finish(store, b="failed")
    assert states(store, run_id)["d"] == ("cancelled", "upstream_failed")
    run = get_run(store, run_id)
    assert (run.status, run.reason, run.error) == ("failed", "step", "step b failed")


def test_handlers_run_in_their_order_and_know_how_it_ended(store: Store) -> None:
    put_flow(
        store,
        """
        name: handled
        steps: [{name: work, command: "true"}]
        handler_on: {init: "true", failure: "true", success: "true", exit: "true"}
        """,
        "handled",
    )
    start(store, "handled")
    begin(store)
    told = finish(store, work="failed")
    assert list(told) == ["handler_on.init", "work", "handler_on.failure", "handler_on.exit"]


def test_a_flow_that_is_cancelled_cancels_its_steps_and_runs_its_handler(store: Store) -> None:
    put_flow(
        store,
        """
        name: long
        steps:
          - [{name: one, command: sleep 60}, {name: two, command: sleep 60}]
          - {name: three, command: "true"}
        handler_on: {abort: "true"}
        """,
        "long",
    )
    run_id = start(store, "long")
    begin(store)
    advancer = Advancer(store)
    advancer.step()
    (one,) = claim(store, limit=1)
    assert store.transact(lambda tx: tx.runs.cancel(run_id, "cancelled")) == "requested"
    advancer.step()
    own = store.read(lambda tx: tx.claims.own_runs("node-1"))
    assert [run.cancel_reason for run in own] == ["flow_cancelled"]
    settle(store, one.token, "cancelled", reason="flow_cancelled")
    told = finish(store)
    assert list(told) == ["handler_on.abort"]
    assert states(store, run_id)["three"] == ("cancelled", "flow_cancelled")
    run = get_run(store, run_id)
    assert (run.status, run.reason) == ("cancelled", "cancelled")


def test_a_flow_that_is_stopped_says_so_whatever_failed_and_was_continued_over(
    store: Store,
) -> None:
    text = "steps: [{name: a, command: x, continue_on: failed}, {name: b, command: x}]"
    put_flow(store, text, "f")
    run_id = start(store, "f")
    begin(store)
    advancer = Advancer(store)
    for status, reason in (("failed", None), ("cancelled", "flow_cancelled")):
        advancer.step()
        (claimed,) = claim(store)
        if claimed.run.step == "b":
            store.transact(lambda tx: tx.flow_controls.stop_flows([run_id], "stopped"))
        settle(store, claimed.token, status, reason=reason)  # type: ignore[arg-type]
    advancer.step()
    run = get_run(store, run_id)
    assert (run.status, run.why) == ("cancelled", "stopped")


def test_a_flow_that_has_not_begun_ends_at_once_when_it_is_cancelled(store: Store) -> None:
    put_flow(store, CHAIN)
    run_id = start(store)
    assert store.transact(lambda tx: tx.runs.cancel(run_id, "cancelled")) == "cancelled"
    assert Advancer(store).step() is None
    assert steps_of(store, run_id) == {}


def test_a_flow_that_takes_too_long_fails(store: Store, clock: VirtualClock) -> None:
    put_flow(store, CHAIN + "timeout_sec: 30\n")
    run_id = start(store)
    begin(store, lease=timedelta(minutes=5))
    advancer = Advancer(store)
    assert advancer.step() == clock.now + timedelta(seconds=30)
    (one,) = claim(store)
    clock.advance(timedelta(seconds=31))
    advancer.step()
    settle(store, one.token, "cancelled", reason="flow_timeout")
    advancer.step()
    run = get_run(store, run_id)
    assert (run.status, run.reason) == ("failed", "timeout")


def test_a_step_whose_node_is_lost_begins_again_and_the_flow_goes_on(store: Store) -> None:
    put_flow(store, CHAIN)
    run_id = start(store)
    begin(store)
    Advancer(store).step()
    claim(store)
    lose(store, "node-1")
    begin(store, "node-2")
    advancer = Advancer(store)
    advancer.step()
    (again,) = claim(store, "node-2")
    assert (again.run.step, again.run.attempt) == ("one", 2)
    settle(store, again.token)
    advancer.step()
    (two,) = claim(store, "node-2")
    settle(store, two.token)
    advancer.step()
    assert get_run(store, run_id).status == "succeeded"


def test_a_step_becomes_the_flow_that_it_calls_and_gets_its_outputs(store: Store) -> None:
    put_flow(
        store,
        """
        name: outer
        steps:
          - {name: inner, call: chain}
          - {name: after, command: "true"}
        """,
        "outer",
    )
    put_flow(
        store,
        CHAIN.replace('name: two, command: "true"', 'name: two, command: "true", output: SUM')
        + "params: {DAY: today}\n",
    )
    run_id = start(store, "outer")
    begin(store)
    advancer = Advancer(store)
    advancer.step()
    (call,) = claim(store)
    target = FlowTarget("chain", (("DAY", "1"),))
    assert store.transact(lambda tx: tx.flow_runs.call_flow(call.token, target))
    assert not store.transact(lambda tx: tx.flow_runs.call_flow(call.token, target))
    advancer.step()
    (one,) = claim(store)
    context = one.step_context
    assert context is not None
    assert (one.run.parent_run_id, context.flow, context.params) == (
        call.run.id,
        "chain",
        {"DAY": "1"},
    )
    settle(store, one.token)
    advancer.step()
    (two,) = claim(store)
    settle(store, two.token, output=json.dumps("3"))
    advancer.step()
    inner = steps_of(store, run_id)["inner"]
    assert (inner.status, inner.output) == ("succeeded", {"SUM": "3"})
    (after,) = claim(store)
    assert after.run.step == "after"
    settle(store, after.token)
    advancer.step()
    assert get_run(store, run_id).status == "succeeded"


def test_cancelling_a_flow_cancels_the_flow_that_it_called(store: Store) -> None:
    put_flow(store, "name: outer\nsteps: [{name: inner, call: chain}]\n", "outer")
    put_flow(store, CHAIN)
    run_id = start(store, "outer")
    begin(store)
    advancer = Advancer(store)
    advancer.step()
    (call,) = claim(store)
    store.transact(lambda tx: tx.flow_runs.call_flow(call.token, FlowTarget("chain")))
    advancer.step()
    store.transact(lambda tx: tx.runs.cancel(run_id, "cancelled"))
    advancer.step()
    assert get_run(store, call.run.id).status == "cancelled"
    assert get_run(store, run_id).status == "cancelled"
    assert claim(store) == []


TYPED = """
name: typed
params: [{name: N, type: integer, required: true}, {name: WHO, default: world}]
steps: [{name: a, command: 'echo "$N"'}]
"""


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"N": 1, "WHOM": "moon"}, 'flow "typed" has no param "WHOM"; did you mean `WHO`?'),
        ({"WHO": "moon"}, 'param "N" is required'),
        ({"N": "many"}, 'param "N" many is not a valid integer'),
    ],
)
def test_a_flow_that_is_called_with_other_params_fails_before_its_first_step(
    store: Store, params: dict[str, Any], told: str
) -> None:
    put_flow(store, CHAIN)
    put_flow(store, TYPED, "typed")
    outer = start(store)
    begin(store)
    Advancer(store).step()
    (calling,) = claim(store)
    call = Outcome("succeeded", call=FlowTarget("typed", tuple(params.items())))
    store.transact(lambda tx: conclude(tx, calling, call))
    Advancer(store).step()
    inner = get_run(store, calling.run.id)
    assert (inner.status, inner.reason, inner.error) == ("failed", "invalid", told)
    assert steps_of(store, inner.id) == {}
    assert get_run(store, outer).status == "failed"


def test_a_step_knows_the_schedule_and_the_due_time_of_its_flow(
    store: Store, clock: VirtualClock
) -> None:
    put_flow(store, TYPED, "typed")
    schedule = add_schedule(store, target={"flow": "typed", "params": {"N": "7"}})
    clock.advance()
    tick(store)
    (run,) = get_runs(store, schedule)
    begin(store)
    clock.advance(SECOND)
    Advancer(store).step()
    (step,) = claim(store)
    assert step.step_context is not None
    preparer = StepPreparer(store, Spawner(CommandSetup({})), FlowCache())
    ready = preparer.prepare(step, step.step_context, OutputFiles())
    assert isinstance(ready, Ready)
    assert run.due_at is not None
    found = ready.claim.run
    assert (found.schedule_id, found.schedule, found.due_at) == (
        schedule,
        get_schedule(store, schedule).name,
        run.due_at,
    )
    told = environment(ready.claim, {})
    assert told["DUEBOOK_DUE_AT"] == told["DUEBOOK_INTERVAL_END"] == format_instant(run.due_at)
    assert told["DUEBOOK_INTERVAL_START"] == format_instant(run.due_at - MINUTE)
    assert told["N"] == "7"


def test_a_step_knows_who_asked_for_the_run_of_its_flow(store: Store) -> None:
    put_flow(store, TYPED, "typed")
    put_flow(store, CHAIN)
    target = FlowTarget("chain")
    store.transact(
        lambda tx: tx.flow_runs.start_flow("one", "default", target, 0, "manual", "cli:ann")
    )
    begin(store)
    Advancer(store).step()
    (calling,) = claim(store)
    assert calling.run.requested_by == get_run(store, "one").requested_by == "cli:ann"
    call = Outcome("succeeded", call=FlowTarget("typed", (("N", "7"),)))
    store.transact(lambda tx: conclude(tx, calling, call))
    Advancer(store).step()
    (inner,) = claim(store)
    assert inner.run.requested_by == "cli:ann", "also in a flow that a step calls"


def test_a_flow_that_does_not_exist_fails_with_its_name(store: Store) -> None:
    run_id = start(store, "ghost")
    Advancer(store).step()
    run = get_run(store, run_id)
    assert (run.status, run.reason) == ("failed", "missing_target")
    assert run.error == 'flow "ghost" does not exist'


def test_runs_of_a_schedule_that_must_not_overlap_wait_for_each_other(store: Store) -> None:
    put_flow(store, CHAIN)
    schedule = add_schedule(store, target={"flow": "chain"})
    ids = [add_run(store, schedule), add_run(store, schedule)]
    begin(store)
    advancer = Advancer(store)
    advancer.step()
    assert sorted(get_run(store, id_).status for id_ in ids) == ["queued", "running"]
    finish(store)
    assert {get_run(store, id_).status for id_ in ids} == {"succeeded"}
    assert store.read(lambda tx: [f for f in tx.checks.check(deep=True) if f.problem]) == []


def test_the_end_of_a_flow_wakes_its_schedule(store: Store, clock: VirtualClock) -> None:
    put_flow(store, CHAIN)
    schedule = add_schedule(store, target={"flow": "chain"}, overlap="queue")
    begin(store, lease=timedelta(hours=1))
    clock.advance()
    tick(store)
    Advancer(store).step()
    clock.advance()
    tick(store)  # the second due time waits for the first
    assert len(get_runs(store, schedule)) == 1
    finish(store)
    tick(store)
    assert len(get_runs(store, schedule)) == 2
    assert get_schedule(store, schedule).problem is None


def test_max_active_steps_bounds_what_runs_at_once(store: Store) -> None:
    steps = ", ".join(f'{{name: s{n}, command: "true"}}' for n in range(5))
    put_flow(store, f"name: wide\nmax_active_steps: 2\ntype: graph\nsteps: [{steps}]\n", "wide")
    start(store, "wide")
    begin(store)
    advancer = Advancer(store)
    seen = []
    advancer.step()
    while claims := claim(store):
        seen.append(len(claims))
        for claimed in claims:
            settle(store, claimed.token)
        advancer.step()
    assert seen == [2, 2, 1]


@pytest.mark.parametrize("size", [120])
def test_many_flows_are_advanced_together(store: Store, size: int) -> None:
    put_flow(store, CHAIN)
    ids = [start(store) for _ in range(size)]
    begin(store)
    advancer = Advancer(store)
    advancer.step()
    for _ in range(2):
        claims = claim(store, limit=size)
        assert len(claims) == size
        ended = [(claimed.token, Outcome("succeeded")) for claimed in claims]
        store.transact(lambda tx: tx.attempts.settle_all(ended))  # noqa: B023
        advancer.step()
    assert {get_run(store, id_).status for id_ in ids} == {"succeeded"}


def test_stop_and_restart_schedules_act_on_what_runs(store: Store, clock: VirtualClock) -> None:
    put_flow(
        store,
        """
        name: service
        schedule: {stop: "10 * * * *", restart: "20 * * * *"}
        restart_wait_sec: 30
        steps: [{name: serve, command: sleep 3600}]
        """,
        "service",
    )
    begin(store, lease=timedelta(days=1))
    add_schedule(
        store,
        "service",
        trigger=[],
        target={"flow": "service"},
        overlap="allow",
        stop={"cron": "10 * * * *"},
        restart={"cron": "20 * * * *"},
    )
    advancer = Advancer(store)
    run_id = start(store, "service")
    advancer.step()
    (serve,) = claim(store)
    clock.advance(10 * MINUTE)
    tick(store)
    advancer.step()
    settle(store, serve.token, "cancelled", reason="flow_cancelled")
    advancer.step()
    stopped = get_run(store, run_id)
    assert (stopped.status, stopped.reason) == ("cancelled", "stopped")
    tick(store)
    assert store.read(lambda tx: tx.plans.earliest_wake()) == clock.now + 10 * MINUTE
    again = start(store, "service")
    advancer.step()
    (serve,) = claim(store)
    clock.advance(10 * MINUTE)
    tick(store)
    advancer.step()
    settle(store, serve.token, "cancelled", reason="flow_cancelled")
    advancer.step()
    assert get_run(store, again).status == "cancelled"
    clock.advance(timedelta(seconds=5))
    advancer.step()
    assert claim(store) == []  # it waits
    clock.advance(timedelta(seconds=26))
    advancer.step()
    (serve,) = claim(store)
    assert serve.run.parent_run_id not in (run_id, again)


@pytest.mark.parametrize(
    ("start_at", "is_started", "status"),
    [
        ("20 * * * *", False, None),
        ("21 * * * *", False, "running"),
        ("20 * * * *", True, "running"),
        ("21 * * * *", True, "cancelled"),
    ],
)
def test_a_restart_leaves_a_start_at_its_instant_to_the_schedule(
    store: Store, clock: VirtualClock, start_at: str, is_started: bool, status: str | None
) -> None:
    text = f"""
        schedule: {{start: "{start_at}", restart: "20 * * * *"}}
        steps: [{{name: serve, command: sleep 3600}}]
        """
    put_flow(store, text, "service")
    begin(store, lease=timedelta(days=1))
    add_schedule(  # another schedule, which is due later, starts it
        store,
        trigger=[],
        target={"flow": "service"},
        overlap="allow",
        restart={"cron": "20 * * * *"},
    )
    clock.advance(20 * MINUTE)
    if is_started:
        start(store, "service")
    tick(store)
    Advancer(store).step()
    runs = store.read(lambda tx: tx.flow_runs.list_flow_runs("default", "service", 2))
    assert [run.status for run in runs] == ([] if status is None else [status])


def test_a_stop_does_not_wait_until_no_run_does(store: Store) -> None:
    put_flow(store, CHAIN)
    ids = [start(store) for _ in range(3)]
    store.transact(
        lambda tx: tx.flow_controls.control_flow("default", "chain", tx.now, restarting=True)
    )
    Advancer(store, batch=1).step()
    runs = [get_run(store, id_) for id_ in ids]
    assert {run.reason for run in runs} == {"stopped"}
    assert sorted(run.attempt for run in runs) == [0, 0, 1]


def test_an_advancer_pauses_while_others_look_after_stops(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_flow(store, CHAIN)
    store.transact(
        lambda tx: tx.flow_controls.control_flow("default", "chain", tx.now, restarting=False)
    )
    monkeypatch.setattr(FlowControls, "step", lambda *_: 0)
    wake_at = Advancer(store).step()
    assert wake_at is not None
    assert clock.now < wake_at < clock.now + SECOND


def call(store: Store) -> None:
    """Start the steps that call a flow."""
    for claimed in claim(store):
        target, token = FlowTarget("chain"), claimed.token
        assert store.transact(lambda tx, t=token, f=target: tx.flow_runs.call_flow(t, f))  # type: ignore[misc]


def test_a_flow_that_was_called_and_failed_is_run_again_as_its_step_says(
    store: Store, clock: VirtualClock
) -> None:
    put_flow(
        store,
        """
        name: outer
        steps:
          - {name: inner, call: chain, retry_policy: {limit: 1, interval_sec: 60}}
        """,
        "outer",
    )
    put_flow(store, CHAIN)
    run_id = start(store, "outer")
    begin(store, lease=timedelta(hours=1))
    advancer = Advancer(store)
    advancer.step()
    call(store)
    for attempt in (1, 2):
        advancer.step()
        (one,) = claim(store)
        assert one.run.step == "one"
        settle(store, one.token, "failed", reason="exit_code")
        advancer.step()
        inner = steps_of(store, run_id)["inner"]
        if attempt == 1:
            assert (inner.status, inner.failures, inner.error) == ("queued", 1, "step one failed")
            clock.advance(59 * SECOND)
            assert advancer.step() == inner.ready_at
            assert claim(store) == []
            clock.advance(SECOND)
    assert (inner.status, inner.attempt, inner.failures) == ("failed", 2, 2)
    assert get_run(store, run_id).status == "failed"
    assert [run.step for run in store.read(lambda tx: tx.flow_runs.list_steps_of(inner.id))] == [
        None,
        None,
        "one",
        "two",
    ]
    assert store.read(lambda tx: [f for f in tx.checks.check(deep=True) if f.problem]) == []


def test_a_flow_that_waits_to_be_run_again_can_be_cancelled(store: Store) -> None:
    put_flow(
        store,
        "name: outer\nsteps: [{name: inner, call: chain, retries: 1}]",
        "outer",
    )
    put_flow(store, CHAIN)
    run_id = start(store, "outer")
    begin(store)
    advancer = Advancer(store)
    advancer.step()
    call(store)
    advancer.step()
    (one,) = claim(store)
    settle(store, one.token, "failed")
    advancer.step()
    assert steps_of(store, run_id)["inner"].status == "queued"
    store.transact(lambda tx: tx.runs.cancel(run_id, "cancelled"))
    advancer.step()
    assert steps_of(store, run_id)["inner"].status == "cancelled"
    assert get_run(store, run_id).status == "cancelled"
