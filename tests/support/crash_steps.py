"""The steps in which a node crashes: the state of the database before, and what is repeated
after."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.engine.advancer import Advancer
from duebook.ids import new_id
from duebook.model.enqueued import load_enqueued
from duebook.model.flow_target import FlowTarget
from duebook.model.plan import DueException
from duebook.model.run import Outcome
from duebook.store.joined import JoinedStore
from tests.support.builders import (
    BEGIN,
    LEASE,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    run_tick,
    settle,
    tick,
)
from tests.support.flow_builders import CHAIN, put_flow, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store, Tx


Tables = dict[str, list[tuple[Any, ...]]]


TABLES: Final = (
    "schedule_state",
    "schedule_exceptions",
    "held_catchup",
    "runs",
    "run_attempts",
    "run_keys",
    "ledger",
    "flow_runs",
    "flow_wakes",
    "namespace_history",
    "schedule_history",
)


NODE: Final = "node-1"


class Crash(BaseException):
    """Not an exception that Duebook catches."""


def prepare_tick(store: Store, clock: VirtualClock) -> None:
    """Due times that run, are skipped by a user or for overlap, are missed, or are held."""
    add_schedule(store, "fires")
    said = add_schedule(store, "said")
    store.transact(
        lambda tx: tx.schedules.add_exception(said, DueException(BEGIN + 5 * MINUTE, "skip"))
    )
    add_run(store, add_schedule(store, "busy"))
    add_schedule(store, "missed", catchup="skip")
    add_schedule(store, "held", catchup_approval=0)
    clock.advance(5 * MINUTE)


def prepare_claim(store: Store, clock: VirtualClock) -> None:
    """Three of four runs can be claimed; the fourth waits for a run of its own schedule."""
    for name in ("a", "b"):
        add_schedule(store, name)
    both = add_schedule(store, "both", overlap="skip")
    clock.advance(MINUTE)
    tick(store)
    add_run(store, both)
    begin(store)


def prepare_settle(store: Store, clock: VirtualClock) -> None:
    """The last run of a schedule, whose end wakes the schedule."""
    add_schedule(store, trigger={"at": (BEGIN + MINUTE).isoformat()})
    clock.advance(MINUTE)
    tick(store)
    begin(store)
    claim(store)
    clock.advance(SECOND)


def prepare_settle_many(store: Store, clock: VirtualClock) -> None:
    """Three active runs."""
    prepare_claim(store, clock)
    assert len(claim(store)) == 3
    clock.advance(SECOND)


def prepare_hand_back(store: Store, clock: VirtualClock) -> None:
    """Two buffered runs, one of which is to be cancelled."""
    schedule = add_schedule(store, overlap="allow")
    ids = [add_run(store, schedule) for _ in range(2)]
    begin(store)
    store.transact(lambda tx: tx.claims.claim_ahead(NODE, "default", 0, 2, (), "default", ()))
    store.transact(lambda tx: tx.runs.cancel(ids[0], "cancelled"))
    clock.advance(SECOND)


def prepare_takeover(store: Store, clock: VirtualClock) -> None:
    """A run to requeue, a run that is poison, and a run that is to be cancelled."""
    add_schedule(store, "again")
    add_schedule(store, "poison", max_takeovers=0)
    add_schedule(store, "cancelled", trigger={"at": (BEGIN + MINUTE).isoformat()})
    clock.advance(MINUTE)
    tick(store)
    begin(store)
    (unwanted,) = (c.run.id for c in claim(store) if c.run.schedule == "cancelled")
    store.transact(lambda tx: tx.runs.cancel(unwanted, "cancelled"))
    clock.advance(LEASE)


def prepare_advance(store: Store, clock: VirtualClock) -> None:
    """Runs of flows: one each that starts, continues, skips the steps after a failure, ends, is
    cancelled, and is run again by its caller."""
    put_flow(store, CHAIN)
    put_flow(store, "name: outer\nsteps: [{name: inner, call: chain, retries: 1}]", "outer")
    runs = {"chain": start(store), "fails": start(store), "ends": start(store)}
    runs |= {"stops": start(store), "outer": start(store, "outer")}
    begin(store)
    for _ in range(2):
        Advancer(store).step()
        for claimed in claim(store):
            context = claimed.step_context
            assert context is not None
            if context.run_id == runs["outer"]:
                token = claimed.token
                store.transact(
                    lambda tx, token=token: tx.flow_runs.call_flow(token, FlowTarget("chain"))  # type: ignore[misc]
                )
            elif context.run_id == runs["ends"] and claimed.run.step == "one":
                settle(store, claimed.token)
            elif context.run_id != runs["stops"]:
                is_well = context.run_id in (runs["chain"], runs["ends"])
                settle(store, claimed.token, "succeeded" if is_well else "failed")
    store.transact(lambda tx: tx.runs.cancel(runs["stops"], "stopped"))
    start(store)
    clock.advance(SECOND)


def prepare_call(store: Store, clock: VirtualClock) -> None:
    """A step that is about to become the run of a flow."""
    put_flow(store, CHAIN)
    put_flow(store, "name: outer\nsteps: [{name: inner, call: chain}]", "outer")
    start(store, "outer")
    begin(store)
    Advancer(store).step()
    claim(store)
    clock.advance(SECOND)


def call_from_own_run(tx: Tx) -> None:
    for own in tx.claims.own_runs(NODE):
        assert tx.flow_runs.call_flow(own.token, FlowTarget("chain", (("DAY", "1"),)))


def settle_own_run(tx: Tx) -> None:
    """A node that did not get the response asks which run is still its own, and settles that."""
    for own in tx.claims.own_runs(NODE):
        assert tx.attempts.settle(own.token, Outcome("failed", "exit_code", "it broke", 3))


def settle_own_runs(tx: Tx) -> None:
    """As above, for all at once: two end alike, and one differently."""
    ends = (Outcome("succeeded"), Outcome("succeeded"), Outcome("failed", "error", "it broke"))
    own = [own.token for own in tx.claims.own_runs(NODE)]
    ended = list(zip(own, ends, strict=False))
    assert tx.attempts.settle_all(ended) == set(own)


def hand_back_own_runs(tx: Tx) -> None:
    """A node that stops hands back what it has buffered; one of the runs was cancelled."""
    tx.attempts.hand_back_all([own.token for own in tx.claims.own_runs(NODE)])


def bury_and_take_over(tx: Tx) -> None:
    tx.nodes.bury()
    tx.attempts.take_over(100)


def prepare_retain(store: Store, clock: VirtualClock) -> None:
    """Runs that are older than their namespace keeps, or more than their schedule keeps."""
    add_schedule(store, "outdated")
    add_schedule(store, "surplus", keep_last=1)
    begin(store, NODE, lease=timedelta(days=1))
    store.transact(lambda tx: tx.history.set_keep("default", timedelta(hours=1)))
    for _ in range(3):
        clock.advance()
        tick(store)
        for claimed in claim(store, NODE):
            settle(store, claimed.token)
    clock.advance(timedelta(hours=1) - MINUTE)


def retain(tx: Tx) -> None:
    """Delete one batch, as a node does."""
    for swept in tx.history.keeps().swept():
        tx.history.sweep(swept, 100)
    tx.history.sweep_schedules("", 100)


def prepare_enqueue(store: Store, clock: VirtualClock) -> None:
    """Two runs that have not started have keys, and one that has started had a key."""
    begin(store)
    enqueue_started(store.transact)
    store.transact(lambda tx: tx.claims.claim(NODE, "default", 10, ["digest"]))
    store.transact(enqueue_debounced)
    clock.advance(SECOND)


def enqueue_started(transact: Callable[[Callable[[Tx], object]], object]) -> None:
    wanted = load_enqueued("digest", {}, "index", {"unique": "pending"})
    transact(lambda tx: tx.enqueued.enqueue(new_id(), "default", wanted))


def enqueue_debounced(tx: Tx) -> None:
    wanted = load_enqueued("digest", {"n": 1}, "page-3", {"debounce": "5s"})
    tx.enqueued.enqueue(new_id(), "default", wanted)


def enqueue_by_keys(tx: Tx) -> None:
    """Enqueue with a new key, a key that is free again, and the key of a run that gets a newer
    payload."""
    options: list[tuple[str, dict[str, str]]] = [
        ("new", {"unique": "1h"}),
        ("index", {"unique": "pending"}),
        ("page-3", {"debounce": "5s"}),
    ]
    for key, how in options:
        wanted = load_enqueued("digest", {"n": 2}, key, how)
        tx.enqueued.enqueue(new_id(), "default", wanted)


STEPS: Final[dict[str, tuple[Callable[[Store, VirtualClock], None], Callable[[Tx], object]]]] = {
    "tick": (prepare_tick, run_tick),
    "claim": (prepare_claim, lambda tx: tx.claims.claim(NODE, "default", 10)),
    "settle": (prepare_settle, settle_own_run),
    "settle many": (prepare_settle_many, settle_own_runs),
    "hand back": (prepare_hand_back, hand_back_own_runs),
    "takeover": (prepare_takeover, bury_and_take_over),
    "advance": (prepare_advance, lambda tx: Advancer(JoinedStore(tx)).advance(tx)),
    "call": (prepare_call, call_from_own_run),
    "retain": (prepare_retain, retain),
    "enqueue": (prepare_enqueue, enqueue_by_keys),
}


class Points:
    """Counts the hook's calls, and does something at one of them."""

    def __init__(self, at: int = -1, act: Callable[[], None] = lambda: None) -> None:
        self.seen: list[str] = []
        self._at, self._act = at, act

    def __call__(self, name: str) -> None:
        self.seen.append(name)
        if len(self.seen) - 1 == self._at:
            self._act()
