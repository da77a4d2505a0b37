"""Receivers that fail at times, for a while, or for one event: waits only grow for a receiver that
accepts nothing, and a rejected event only delays its own key."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest

from duebook.delivery.courier import Courier
from duebook.errors import Unavailable
from duebook.model.consumer import Move, new_consumer
from duebook.sinks.webhook import WebhookSink
from tests.support.builders import LEASE, VirtualClock
from tests.support.event_builders import Box, append, courier, lag, run, stamp
from tests.support.retention import purge_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.store.base import Store
    from tests.support.backends import Backend

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105
SECOND = timedelta(seconds=1)


class Receiver:
    """Answers with the status that `answer` returns, or not at all if that is None."""

    def __init__(self, answer: Callable[[str], int | None] = lambda _: 204) -> None:
        self.answer = answer
        self.requests = 0
        self.got: list[str] = []

    def __call__(self, url: str, headers: dict[str, str], body: bytes) -> int:  # noqa: ARG002
        self.requests += 1
        event_id = headers["webhook-id"]
        status = self.answer(event_id)
        if status is None:
            raise Unavailable("the connection was reset")
        if status == 204:
            self.got.append(event_id)
        return status

    def stop(self) -> None: ...


def sink(store: Store, receiver: Receiver, clock: VirtualClock, partitions: int = 4) -> Courier:
    wanted = new_consumer("default", "hooks", "webhook", None, partitions, 3, {})
    consumer = store.transact(lambda tx: tx.consumers.save_consumer(wanted, 0))
    outlet = WebhookSink("https://example.com/hooks", SECRET, receiver)

    def monotonic() -> float:
        return clock.now.timestamp()

    return Courier(store, consumer, outlet, lease=LEASE, monotonic=monotonic)


def deliver(one: Courier, receiver: Receiver, number: int, clock: VirtualClock) -> timedelta:
    """Deliver until the receiver has `number` events; return how long that took in virtual time."""
    began = clock.now
    while len(set(receiver.got)) < number:
        rest = one.step()
        assert clock.now - began < timedelta(minutes=10), f"only {len(set(receiver.got))} came"
        if len(set(receiver.got)) < number:
            clock.advance(timedelta(seconds=rest))
    return clock.now - began


def rest(one: Courier) -> timedelta:
    """Step until the courier wants to wait; return for how long."""
    while (seconds := one.step()) == 0:
        pass
    return timedelta(seconds=seconds)


def check_order(got: list[str], wanted: dict[str, list[str]]) -> None:
    """Check that every event arrived, in order for each key."""
    for ids in wanted.values():
        assert [id_ for id_ in got if id_ in set(ids)] == ids
    assert len(got) == sum(map(len, wanted.values()))


def backlog(store: Store, number: int, keys: int) -> dict[str, list[str]]:
    names = [f"key-{n % keys}" for n in range(number)]
    ids: dict[str, list[str]] = defaultdict(list)
    for name, id_ in zip(names, append(store, *names), strict=True):
        ids[name].append(id_)
    stamp(store)
    return ids


@pytest.mark.parametrize(("number", "keys"), [(1_000, 40), (200, 1)])
def test_a_receiver_that_fails_one_request_in_twenty_gets_a_backlog_in_seconds(
    store: Store, clock: VirtualClock, number: int, keys: int
) -> None:
    chance = Random(5)
    receiver = Receiver(lambda _: chance.choice((503, None)) if chance.random() < 0.05 else 204)
    wanted = backlog(store, number, keys)
    one = sink(store, receiver, clock)
    assert deliver(one, receiver, number, clock) < 5 * SECOND
    check_order(receiver.got, wanted)
    assert receiver.requests < number * 1.2
    clock.advance(LEASE)
    run(one)
    assert lag(store, "hooks") == (0, 0, 0)


def test_a_receiver_that_is_down_is_tried_less_and_less_often_and_recovers_soon(
    store: Store, clock: VirtualClock
) -> None:
    receiver = Receiver(lambda _: 503)
    wanted = backlog(store, 100, 20)
    one = sink(store, receiver, clock)
    tried: list[datetime] = []
    while len(tried) < 10:
        before = receiver.requests
        wait = rest(one)
        if receiver.requests > before:
            assert receiver.requests - before <= 3, "a receiver that is down is hardly asked"
            tried.append(clock.now)
        clock.advance(wait)
    waits = [(later - at).total_seconds() for at, later in pairwise(tried)]
    longest = [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert all(most / 2 <= w <= most for w, most in zip(waits, longest, strict=True)), waits
    receiver.answer = lambda _: 204
    assert deliver(one, receiver, 100, clock) <= timedelta(minutes=1)
    check_order(receiver.got, wanted)
    more = backlog(store, 20, 20)
    receiver.answer = lambda _: 503
    assert rest(one) <= SECOND, "it begins anew"
    receiver.answer = lambda _: 204
    assert deliver(one, receiver, 120, clock) <= SECOND
    check_order(receiver.got[100:], more)


def test_an_event_that_never_gets_through_holds_up_only_its_key(
    store: Store, clock: VirtualClock
) -> None:
    first, *_ = held = append(store, "bad", "bad", "bad")
    others = append(store, *"abcdef")
    stamp(store)
    receiver = Receiver(lambda id_: None if id_ == first else 204)
    one = sink(store, receiver, clock, partitions=1)
    for _ in range(60):
        clock.advance(rest(one))
    assert receiver.got == others
    assert lag(store, "hooks") == (9, 0, 1), "it is not a dead letter: it was never refused"
    (part,) = store.read(lambda tx: tx.consumers.list_partitions("default", "hooks"))
    assert (part.held, part.failures, part.error) == (1, 0, "the connection was reset")
    late = append(store, "a", "bad", "b")
    stamp(store)
    rest(one)
    assert receiver.got == [*others, late[0], late[2]], "new events do not wait for it"
    receiver.answer = lambda _: 204
    assert deliver(one, receiver, 12, clock) <= timedelta(minutes=1)
    assert receiver.got[-4:] == [*held, late[1]]
    clock.advance(LEASE)
    rest(one)
    assert lag(store, "hooks") == (0, 0, 0)


def test_what_waits_behind_a_dead_letter_comes_as_soon_as_it_is_one(
    store: Store, clock: VirtualClock
) -> None:
    first, second = append(store, "bad", "bad")
    stamp(store)
    receiver = Receiver(lambda id_: 500 if id_ == first else 204)
    one = sink(store, receiver, clock, partitions=1)
    assert deliver(one, receiver, 1, clock) <= 4 * SECOND
    assert receiver.got == [second]
    assert receiver.requests == 4
    (letter,) = store.read(lambda tx: tx.consumers.list_letters("default", "hooks", 10).rows)
    assert (letter.event.id, letter.attempts) == (first, 3)


def test_keys_that_wait_are_taken_over_with_their_partitions(
    backend: Backend, store: Store, clock: VirtualClock
) -> None:
    bad, good, behind = append(store, "bad", "good", "bad")
    stamp(store)
    receiver = Receiver(lambda id_: 500 if id_ == bad else 204)
    dead = sink(backend.open(), receiver, clock, partitions=1)
    rest(dead)
    assert receiver.got == [good]
    clock.advance(2 * LEASE)
    receiver.answer = lambda _: 204
    heir = sink(store, receiver, clock, partitions=1)
    rest(heir)
    assert receiver.got == [good, bad, behind]
    late = dead._cursors[0]
    moved = store.transact(
        lambda tx: tx.consumers.move_cursors(
            dead.consumer,
            dead.member,
            [Move(0, late.term, 9, held=tuple(dead._held[0].values()))],
        )
    )
    assert moved == set()
    assert store.read(lambda tx: tx.consumers.list_held(heir.consumer, heir.member)) == []


def test_a_partition_with_too_many_keys_that_wait_waits_for_them(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.delivery.courier.MOST_HELD", 3)
    box = Box()
    box.refuses = set("abc")
    one = courier(store, box, clock, partitions=1)
    append(store, *"abcd")
    run(one)
    append(store, *"efa")
    run(one)
    assert [d.event.key for d in box.got] == ["d"]
    box.refuses = set()
    clock.advance(timedelta(minutes=5))
    run(one)
    assert [d.event.key for d in box.got] == [*"dabcefa"]


def test_a_replay_begins_before_the_keys_that_wait(store: Store, clock: VirtualClock) -> None:
    box = Box()
    box.refuses = {"bad"}
    one = courier(store, box, clock, partitions=1)
    ids = append(store, "a", "bad", "b", "bad")
    run(one)
    store.transact(lambda tx: tx.consumers.replay("default", "billing", 0))
    box.refuses = set()
    one.hurry()
    run(one)
    assert box.ids == [ids[0], ids[2], *ids]
    assert lag(store) == (0, 0, 0)


def test_retention_keeps_what_waits(store: Store, clock: VirtualClock) -> None:
    box = Box()
    box.refuses = {"bad"}
    one = courier(store, box, clock, partitions=1)
    append(store, "a", "bad", "b", "c")
    run(one)
    clock.advance(timedelta(hours=1))
    assert store.transact(lambda tx: purge_all(tx, clock.now, 100).number) == 1
    box.refuses = set()
    run(one)
    assert [d.event.key for d in box.got] == ["a", "b", "c", "bad"]
    assert store.transact(lambda tx: purge_all(tx, clock.now, 100).number) == 2


def test_a_consumer_that_is_removed_leaves_no_keys_behind(
    store: Store, clock: VirtualClock, backend: Backend
) -> None:
    box = Box()
    box.refuses = {"bad"}
    one = courier(store, box, clock, partitions=1)
    append(store, "bad")
    run(one)
    assert backend.rows("SELECT key FROM held_keys") == [("bad",)]
    store.transact(lambda tx: tx.consumers.remove_consumer("default", "billing"))
    assert backend.rows("SELECT key FROM held_keys") == []
