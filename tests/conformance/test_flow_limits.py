"""`max_active_runs` on every store: it applies to a flow, whatever starts its runs."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.engine.advancer import Advancer
from duebook.model.flow_target import FlowTarget
from duebook.model.schedule import InvalidSchedule
from tests.support.builders import (
    SECOND,
    add_schedule,
    begin,
    claim,
    get_run,
    get_runs,
    tick,
)
from tests.support.flow_builders import put_flow, settle, start, steps_of

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.model.run import Claim
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock

LONG = timedelta(days=1)
NARROW = """
name: narrow
max_active_runs: {most}
steps: [{{name: work, command: "true"}}]
"""
OUTER = "name: outer\nsteps: [{name: inner, call: narrow}]\n"


def narrow(store: Store, most: int) -> None:
    put_flow(store, NARROW.format(most=most), "narrow")


def under_way(store: Store, ids: list[str]) -> list[str]:
    return [id_ for id_ in ids if get_run(store, id_).status == "running"]


def perform(store: Store, *, limit: int = 100) -> list[Claim]:
    """Execute the ready steps; those that call a flow do so."""
    claims = claim(store, limit=limit)
    for claimed in claims:
        if claimed.run.step == "inner":
            token, target = claimed.token, FlowTarget("narrow")
            assert store.transact(lambda tx, t=token, f=target: tx.flow_runs.call_flow(t, f))  # type: ignore[misc]
        else:
            settle(store, claimed.token)
    return claims


def test_a_flow_without_a_schedule_begins_no_more_runs_than_it_may_in_order(
    store: Store, clock: VirtualClock
) -> None:
    narrow(store, 2)
    ids = []
    for _ in range(5):
        ids.append(start(store, "narrow"))
        clock.advance(SECOND)
    begin(store, lease=LONG)
    advancer = Advancer(store)
    for expected in (ids[:2], ids[2:4], ids[4:]):
        advancer.step()
        assert under_way(store, ids) == expected
        perform(store)
        advancer.step()
    assert {get_run(store, id_).status for id_ in ids} == {"succeeded"}


def test_the_end_of_one_run_lets_the_next_begin_without_a_wait(store: Store) -> None:
    narrow(store, 1)
    ids = [start(store, "narrow") for _ in range(3)]
    begin(store)
    advancer = Advancer(store)
    advancer.step()
    while perform(store):
        advancer.step()
    assert {get_run(store, id_).status for id_ in ids} == {"succeeded"}


def test_runs_of_schedules_by_hand_and_called_ones_count_together(
    store: Store, clock: VirtualClock
) -> None:
    narrow(store, 2)
    put_flow(store, OUTER, "outer")
    schedule = add_schedule(store, "often", target={"flow": "narrow"}, overlap="allow")
    begin(store, lease=LONG)
    advancer = Advancer(store)
    outer = start(store, "outer")
    advancer.step()
    perform(store)  # it calls
    clock.advance()
    tick(store)
    by_hand = start(store, "narrow")
    advancer.step()
    (due,) = get_runs(store, schedule)
    ids = [steps_of(store, outer)["inner"].id, due.id, by_hand]
    assert len(under_way(store, ids)) == 2
    for _ in range(4):
        perform(store)
        advancer.step()
    assert {get_run(store, id_).status for id_ in [*ids, outer]} == {"succeeded"}


def test_a_called_flow_waits_for_one_by_hand_and_its_caller_for_it(store: Store) -> None:
    narrow(store, 1)
    put_flow(store, OUTER, "outer")
    begin(store)
    advancer = Advancer(store)
    first = start(store, "narrow")
    advancer.step()
    (work,) = claim(store)
    outer = start(store, "outer")
    advancer.step()
    perform(store)
    advancer.step()
    inner = steps_of(store, outer)["inner"]
    assert (inner.status, inner.attempt, inner.started_at) == ("queued", 0, None)
    settle(store, work.token)
    advancer.step()
    assert get_run(store, first).status == "succeeded"
    inner = steps_of(store, outer)["inner"]
    assert (inner.status, inner.attempt) == ("running", 1)
    perform(store)
    advancer.step()
    assert get_run(store, outer).status == "succeeded"
    assert store.read(lambda tx: [f for f in tx.checks.check(deep=True) if f.problem]) == []


def test_a_called_flow_that_waits_is_cancelled_with_its_caller(store: Store) -> None:
    narrow(store, 1)
    put_flow(store, OUTER, "outer")
    begin(store)
    advancer = Advancer(store)
    start(store, "narrow")
    outer = start(store, "outer")
    advancer.step()
    (call,) = [c for c in claim(store) if c.run.step == "inner"]
    store.transact(lambda tx: tx.flow_runs.call_flow(call.token, FlowTarget("narrow")))
    advancer.step()
    store.transact(lambda tx: tx.runs.cancel(outer, "cancelled"))
    advancer.step()
    assert steps_of(store, outer)["inner"].status == "cancelled"
    assert get_run(store, outer).status == "cancelled"


def test_a_called_flow_that_failed_and_waits_to_be_run_again_lets_others_begin(
    store: Store,
) -> None:
    narrow(store, 1)
    again = "call: narrow, retry_policy: {limit: 1, interval_sec: 60}"
    put_flow(store, OUTER.replace("call: narrow", again), "outer")
    begin(store)
    advancer = Advancer(store)
    start(store, "outer")
    advancer.step()
    perform(store)
    advancer.step()
    other = start(store, "narrow")
    advancer.step()
    assert get_run(store, other).status == "queued"
    (work,) = claim(store)
    settle(store, work.token, "failed")
    advancer.step()
    assert get_run(store, other).status == "running"


CIRCLES = {
    "each other": {"a": "b", "b": "a"},
    "by way of a third": {"a": "b", "b": "c", "c": "a"},
}


@pytest.mark.parametrize("calls", CIRCLES.values(), ids=list(CIRCLES))
def test_flows_with_a_limit_that_call_each_other_are_refused_and_do_not_wait_for_ever(
    store: Store, calls: dict[str, str]
) -> None:
    for name, other in calls.items():
        text = f"name: {name}\nmax_active_runs: 1\nsteps: [{{name: x, call: {other}}}]\n"
        put_flow(store, text, name)
    begin(store)
    advancer = Advancer(store)
    ids = [start(store, name) for name in calls]
    for _ in range(10):
        advancer.step()
        for claimed in claim(store):
            target = FlowTarget(calls[claimed.run.flow or ""])
            store.transact(lambda tx, c=claimed, t=target: tx.flow_runs.call_flow(c.token, t))  # type: ignore[misc]
    assert {get_run(store, id_).status for id_ in ids} == {"failed"}
    called = [steps_of(store, id_)["x"] for id_ in ids]
    assert {run.reason for run in called} == {"circle"}
    assert all("would wait for itself" in (run.error or "") for run in called)


def test_what_waits_follows_the_revision_in_force_and_its_own_once_there_is_none(
    store: Store, clock: VirtualClock
) -> None:
    narrow(store, 1)
    ids = [start(store, "narrow") for _ in range(4)]
    begin(store, lease=LONG)
    advancer = Advancer(store)
    advancer.step()
    narrow(store, 2)
    clock.advance(6 * SECOND)
    advancer.step()
    assert len(under_way(store, ids)) == 2
    store.transact(lambda tx: tx.flows.remove_flows("default", ["narrow"]))
    clock.advance(6 * SECOND)
    advancer.step()
    assert len(under_way(store, ids)) == 2
    perform(store)
    advancer.step()
    assert len(under_way(store, ids)) == 1  # they were created with a limit of one


def test_a_run_that_waits_says_for_what(book: Book, store: Store) -> None:
    narrow(store, 1)
    put_flow(store, OUTER, "outer")
    begin(store)
    advancer = Advancer(store)
    start(store, "narrow")
    advancer.step()
    start(store, "narrow")
    start(store, "outer")
    advancer.step()
    (call,) = [claimed for claimed in claim(store) if claimed.run.step == "inner"]
    store.transact(lambda tx: tx.flow_runs.call_flow(call.token, FlowTarget("narrow")))
    advancer.step()
    told = '1 run is active for flow "narrow", and its max_active_runs is 1'
    assert book.flows.get("narrow").waits == (told,)
    assert book.flows.get("outer").waits == (f'step "inner": {told}',)


def test_flows_of_the_same_name_in_other_namespaces_do_not_count(store: Store) -> None:
    narrow(store, 1)
    first = start(store, "narrow")
    Advancer(store).step()

    def elsewhere(tx: Any) -> None:
        found = tx.flows.get_flow("default", "narrow")
        (revision,) = tx.flows.flow_revisions("default", [("narrow", found.digest)]).values()
        tx.flows.save_flows("other", [revision])
        tx.flow_runs.start_flow("elsewhere", "other", FlowTarget("narrow"), 0, "manual")

    store.transact(elsewhere)
    Advancer(store).step()
    assert under_way(store, [first, "elsewhere"]) == [first, "elsewhere"]


def test_of_many_that_begin_runs_at_once_no_more_begin_than_may(backend: Backend) -> None:
    store = backend.open()
    narrow(store, 3)
    ids = [start(store, "narrow") for _ in range(20)]
    begin(store)
    stores = [backend.open() for _ in range(6)]
    statuses: set[str] = set()
    for _ in range(100):  # each ends the executed steps, or starts another
        barrier = threading.Barrier(len(stores))

        def advance(own: Store, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            Advancer(own, batch=2).step()

        threads = [threading.Thread(target=advance, args=(own,)) for own in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(under_way(store, ids)) <= 3
        wake_all(store)
        perform(store)
        statuses = {get_run(store, id_).status for id_ in ids}
        if statuses == {"succeeded"}:
            break
    assert statuses == {"succeeded"}


def wake_all(store: Store) -> None:
    """As if time had passed: waiting runs try to start again."""

    def work(tx: Any) -> None:
        tx.wakes.wake_flows(run.id for run in tx.flow_runs.list_flow_runs("default", "narrow", 100))

    store.transact(work)


@pytest.mark.parametrize(
    ("policies", "statuses"),
    [
        ({"overlap": "queue"}, ["succeeded", "queued"]),
        ({"overlap": "latest"}, ["succeeded", "queued"]),
        ({"overlap": "skip"}, ["succeeded"]),
        ({"overlap": "cancel"}, ["cancelled", "running"]),
        ({"overlap": "allow"}, ["running", "running"]),
        ({"overlap": "allow", "max_concurrent": 1}, ["running", "queued"]),
    ],
)
def test_a_schedule_by_hand_starts_a_flow_by_its_own_policies(
    store: Store, clock: VirtualClock, policies: dict[str, Any], statuses: list[str]
) -> None:
    put_flow(store, NARROW.format(most=-1), "narrow")
    definition = {"target": {"flow": "narrow"}, "catchup_pace": "0s"} | policies
    schedule = add_schedule(store, "own", **definition)
    begin(store, lease=LONG)
    advancer = Advancer(store)
    clock.advance()
    tick(store)
    advancer.step()
    clock.advance()
    tick(store)
    advancer.step()
    if policies["overlap"] in ("queue", "latest", "skip"):
        perform(store)
        advancer.step()
        tick(store)
    runs = sorted(get_runs(store, schedule), key=lambda run: run.created_at)
    assert [run.status for run in runs] == statuses


def test_what_a_schedule_cannot_say_about_a_flow_is_refused(book: Book) -> None:
    definition: dict[str, Any] = {"trigger": {"every": "1h"}, "target": {"flow": "narrow"}}
    others: list[dict[str, Any]] = [{"queue": "fast"}, {"max_takeovers": 1}, {"max_takeovers": 0}]
    for more in others:
        (key,) = more
        with pytest.raises(InvalidSchedule, match=f"{key} does not apply to a flow"):
            book.schedules.create("often", **definition, **more)
    made = book.schedules.create("often", **definition, queue="default", max_takeovers=3)
    assert made.spec is not None


def test_a_schedule_cannot_give_fixed_params_but_a_flow_can(
    store: Store, clock: VirtualClock
) -> None:
    fixed = "name: narrow\nparams: {A: x}\nrun_config: {disable_param_edit: true}\nsteps: [ls]\n"
    put_flow(store, fixed, "narrow")
    put_flow(store, OUTER, "outer")
    given: dict[str, Any] = {"flow": "narrow", "params": {"A": "y"}}
    ids = [
        add_schedule(store, "plain", target={"flow": "narrow"}, overlap="allow"),
        add_schedule(store, "given", target=given, overlap="allow"),
    ]
    begin(store, lease=LONG)
    advancer = Advancer(store)
    clock.advance()
    tick(store)
    advancer.step()
    (plain,), (refused,) = (get_runs(store, id_) for id_ in ids)
    assert plain.status == "running"
    assert (refused.status, refused.reason) == ("failed", "invalid")
    assert refused.error is not None
    assert "has fixed params" in refused.error
    outer = start(store, "outer")
    advancer.step()
    (token,) = (claimed.token for claimed in claim(store) if claimed.run.step == "inner")
    called = FlowTarget("narrow", (("A", "z"),))
    assert store.transact(lambda tx: tx.flow_runs.call_flow(token, called))
    advancer.step()
    assert get_run(store, steps_of(store, outer)["inner"].id).status == "running"
