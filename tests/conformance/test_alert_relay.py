"""Alert evaluators and channels are served only while there is work for them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.delivery.courier import Courier
from duebook.engine.alert_desk import AlertDesk
from duebook.engine.alert_evaluator import LINGERS
from duebook.engine.alert_relay import MOST_BUSY, SETTLED, AlertRelay
from duebook.engine.relay import Relay
from duebook.errors import Invalid
from duebook.model.alert import ALERTS
from duebook.model.node import Drain
from tests.support.alerts import HOOK, end_run, titles
from tests.support.builders import (
    LEASE,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    get_schedule,
    settle,
    tick,
)
from tests.support.event_builders import Box, append, stamp

if TYPE_CHECKING:
    from collections.abc import Collection

    from duebook.engine.alert_desk import Key
    from duebook.model.consumer import Consumer
    from duebook.store.base import Store


HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class Watched:
    """An alert relay on a virtual clock, which records the channels that it starts."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.store = store
        self._clock = clock
        self.began: list[str] = []
        self.rest = 0.0
        self._relay = AlertRelay(store, LEASE, self._begin, self.monotonic)

    def monotonic(self) -> float:
        return self._clock.now.timestamp()

    def _begin(self, consumer: Consumer, _lingers: float) -> None:
        self.began.append(consumer.name)

    def step(self, serving: Collection[Key] = ()) -> list[str]:
        """Step until the relay rests; return the channels that it started."""
        self.began = []
        stamp(self.store)
        for _ in range(20):
            known = self.store.read(lambda tx: tx.consumers.list_consumers())
            consumers = {(one.namespace, one.name): one for one in known}
            self._relay.new_channels(consumers)
            busy = [*serving, *(("default", name) for name in self.began)]
            self.rest = self._relay.step(consumers, busy)
            if stamp(self.store) is None and self.rest > 0:
                break
        return list(dict.fromkeys(self.began))

    @property
    def evaluates(self) -> list[str]:
        return [namespace for namespace, _ in self._relay._evaluating]

    def deliver(self, name: str) -> Box:
        """Do the work of a channel's thread."""
        consumer = self.store.read(lambda tx: tx.consumers.get_consumer("default", name))
        box = Box()
        courier = Courier(self.store, consumer, box, lease=LEASE, monotonic=self.monotonic)
        while courier.step() == 0:
            pass
        courier.close()
        return box


@pytest.fixture
def relay(store: Store, clock: VirtualClock) -> Watched:
    return Watched(store, clock)


def sleep(clock: VirtualClock, relay: Watched, length: timedelta) -> None:
    """The relay steps only when it wants to."""
    until = clock.now + length
    relay.step()
    while (left := (until - clock.now).total_seconds()) > 0:
        clock.advance(min(max(relay.rest, 0.001), left) * SECOND)
        relay.step()


def channels(store: Store, rule: str) -> tuple[str, ...]:
    return store.read(lambda tx: tx.alerts.get_rule("default", rule)).to


def due(store: Store) -> bool:
    return store.pulse("node-1", LEASE, ["default"]).alerts


def position(store: Store, name: str) -> int:
    return store.read(lambda tx: tx.consumers.list_partitions("default", name))[0].position


def test_rules_at_rest_have_no_evaluator_and_no_channel_at_work(
    store: Store, relay: Watched
) -> None:
    begin(store)
    for number in range(3):
        Book(store, f"n{number}").alerts.save("ops", to=f"{HOOK}/{number}")
    assert relay.step() == []
    assert (relay.evaluates, relay.rest, due(store)) == ([], 3_600, False)


def test_a_failure_is_evaluated_and_only_channels_of_its_rule_deliver(
    store: Store, relay: Watched
) -> None:
    begin(store)
    job = add_schedule(store, "nightly")
    book = Book(store)
    book.alerts.save("nightly", to=f"{HOOK}/1", schedule="nightly")
    book.alerts.save("other", to=f"{HOOK}/2", on="missed")
    relay.step()
    end_run(store, job)
    stamp(store)
    assert due(store)
    (mine,) = channels(store, "nightly")
    assert relay.step() == [mine]
    assert (relay.evaluates, titles(store)) == (["default"], ["nightly failed"])
    assert len(relay.deliver(mine).got) == 1
    assert relay.step() == []


def test_an_evaluator_ends_when_nothing_happens(
    store: Store, clock: VirtualClock, relay: Watched
) -> None:
    begin(store)
    job = add_schedule(store)
    Book(store).alerts.save("ops", to=HOOK)
    relay.step()
    end_run(store, job, "succeeded")
    relay.step()
    assert relay.evaluates == ["default"]
    clock.advance(LINGERS * SECOND)
    relay.step()
    assert relay.evaluates == []
    clock.advance(SETTLED * SECOND)
    relay.step()
    assert not due(store)


TIMED = {
    "late:10m": 600.0,
    "running:30m": 1_800.0,
    "slow": 3_600.0,
    "no_success:40m": 2_400.0,
    "unattended:5m": 3_600.0,
}
"""Conditions that depend on time, and after how many seconds the relay checks at the latest."""


@pytest.mark.parametrize(("condition", "rest"), TIMED.items())
def test_a_rule_that_follows_from_time_rests_until_something_may_change(
    store: Store, relay: Watched, condition: str, rest: float
) -> None:
    begin(store, roles="scheduler,worker,relay")
    add_schedule(store, "nightly", trigger={"every": "1d"})
    Book(store).alerts.save("ops", to=HOOK, on=condition)
    assert due(store)
    relay.step()
    assert (relay.evaluates, relay.rest, due(store)) == ([], rest, False)


def test_a_problem_that_follows_from_time_is_looked_at_by_one_until_it_is_over(
    store: Store, clock: VirtualClock, relay: Watched
) -> None:
    begin(store)
    job = add_schedule(store, "hourly", trigger={"every": "1h"})
    Book(store).alerts.save("ops", to=HOOK, on=["late:10m", "recovered"], group="0s")
    other = Watched(store, clock)
    sleep(clock, relay, HOUR + 11 * MINUTE)
    assert titles(store) == ["hourly is more than 10m late"]
    told = Book(store).alerts.history()[0].opened_at
    assert told - get_schedule(store, job).created_at < HOUR + 10 * MINUTE + 13 * SECOND
    other.step()
    assert (relay.evaluates, other.evaluates) == (["default"], [])
    clock.advance(LEASE)  # it sent no heartbeat
    other.step()
    assert other.evaluates == ["default"]
    tick(store)
    begin(store, "node-2")
    assert len(claim(store, "node-2", limit=1)) == 1
    sleep(clock, other, MINUTE)
    assert titles(store)[1:] == ["recovered: hourly is more than 10m late"]
    assert other.evaluates == []


@pytest.mark.mostly_on_a_file
def test_what_becomes_too_long_while_the_relay_rests_is_found_in_time(
    store: Store, clock: VirtualClock, relay: Watched
) -> None:
    begin(store, roles="scheduler,worker,relay", lease=DAY)
    job = add_schedule(store, "nightly", trigger={"every": "1d"})
    book = Book(store)
    book.alerts.save("long", to=f"{HOOK}/1", on="running:30m")
    book.alerts.save("never", to=f"{HOOK}/2", on="no_success:2h")
    sleep(clock, relay, 7 * MINUTE)
    add_run(store, job)
    (claimed,) = claim(store, "node-1", limit=1)
    began = clock.now
    sleep(clock, relay, 31 * MINUTE)
    settle(store, claimed.token, "failed")
    sleep(clock, relay, 85 * MINUTE)
    opened = {alert.kind: alert.opened_at for alert in book.alerts.history()}
    assert 30 * MINUTE < opened["running"] - began < 30 * MINUTE + 13 * SECOND
    created = get_schedule(store, job).created_at
    assert 2 * HOUR < opened["no_success"] - created < 2 * HOUR + 2 * MINUTE


def test_while_a_run_is_running_a_rule_for_slow_ones_looks_at_it(
    store: Store, clock: VirtualClock, relay: Watched
) -> None:
    begin(store, roles="scheduler,worker,relay", lease=DAY)
    job = add_schedule(store, "nightly", trigger={"every": "1d"})
    for _ in range(5):
        end_run(store, job, "succeeded")
    Book(store).alerts.save("ops", to=HOOK, on="slow")
    relay.step()
    assert (relay.evaluates, due(store)) == ([], False)
    add_run(store, job)
    assert len(claim(store, "node-1", limit=1)) == 1
    assert due(store), "the pulse of any node sees the run"
    sleep(clock, relay, MINUTE)
    assert titles(store) == ["nightly has been running for more than 3 times its p95 duration"]


def test_when_a_node_goes_or_drains_rules_look_who_is_left(
    store: Store, clock: VirtualClock, relay: Watched
) -> None:
    begin(store, "both", lease=HOUR, roles="scheduler,worker,relay")
    book = Book(store)
    book.alerts.save("ops", to=HOOK, on="unattended:5m", group="0s")
    relay.step()
    store.transact(lambda tx: tx.nodes.drain("both", Drain(tx.now, stops=False)))
    assert due(store)
    clock.advance(MINUTE)
    store.transact(lambda tx: tx.nodes.renew("both", HOUR))
    relay.step()
    assert 0 < relay.rest <= 300
    store.transact(lambda tx: tx.nodes.end_session("both"))
    sleep(clock, relay, 6 * MINUTE)
    assert {alert.subject for alert in book.alerts.history()} == {"plan", "work"}


@pytest.mark.mostly_on_a_file
def test_a_changed_rule_and_a_resumed_schedule_are_looked_at_again(
    store: Store, clock: VirtualClock, relay: Watched
) -> None:
    begin(store, roles="scheduler,worker,relay", lease=DAY)
    add_schedule(store, "nightly", trigger={"every": "1d"})
    book = Book(store)
    book.alerts.save("ops", to=HOOK, on="no_success:2h")
    book.schedules.pause("nightly")
    sleep(clock, relay, 3 * HOUR)
    assert (titles(store), relay.evaluates) == ([], [])
    book.schedules.resume("nightly")
    sleep(clock, relay, 2 * MINUTE)
    assert titles(store) == ["nightly has not succeeded for 2h"]
    add_schedule(store, "other", trigger={"every": "1d"})
    sleep(clock, relay, HOUR)
    book.alerts.save("ops", to=HOOK, on="no_success:30m", schedule="other")
    assert due(store) or relay.evaluates
    sleep(clock, relay, 2 * MINUTE)
    assert titles(store)[1:] == ["other has not succeeded for 30m"]


def test_what_waits_to_be_told_is_told_by_another_when_its_evaluator_died(
    store: Store, clock: VirtualClock, relay: Watched
) -> None:
    begin(store)
    jobs = [add_schedule(store, f"job-{number}") for number in range(2)]
    Book(store).alerts.save("ops", to=HOOK, group="5m")
    relay.step()
    for job in jobs:
        end_run(store, job)
        relay.step()
    assert titles(store) == ["job-0 failed"]
    clock.advance(LEASE)
    other = Watched(store, clock)
    other.step()
    assert 0 < other.rest <= 300
    clock.advance(300 * SECOND)
    other.step()
    assert titles(store) == ["job-0 failed", "job-1 failed"]


def test_idle_cursors_move_on_so_that_old_events_can_be_deleted(
    store: Store, clock: VirtualClock, relay: Watched
) -> None:
    begin(store)
    Book(store).alerts.save("ops", to=HOOK)
    (channel,) = channels(store, "ops")
    relay.step()
    append(store, *"abc")
    clock.advance(SETTLED * SECOND)
    assert relay.step() == []
    end = store.read(lambda tx: tx.events.last_position())
    assert (position(store, channel), position(store, ALERTS), due(store)) == (end, end, False)


def test_an_owner_that_was_asleep_cannot_move_a_cursor_back_that_moved_on(
    store: Store, clock: VirtualClock, relay: Watched
) -> None:
    begin(store)
    Book(store).alerts.save("ops", to=HOOK)
    (channel,) = channels(store, "ops")
    consumer = store.read(lambda tx: tx.consumers.get_consumer("default", channel))
    asleep = Courier(store, consumer, Box(), lease=LEASE, monotonic=relay.monotonic)
    asleep.share()
    append(store, *"abc")
    clock.advance(LEASE)
    relay.step()
    (term,) = [cursor.term for cursor in asleep._cursors.values()]
    held = store.read(lambda tx: tx.consumers.list_partitions("default", channel))[0]
    assert (held.owner, term) == (None, 1)
    assert not store.transact(
        lambda tx: tx.consumers.hold_cursors(consumer, asleep.member, [*asleep._cursors.values()])
    )


def test_a_channel_that_is_down_is_tried_again_at_its_time(
    store: Store, clock: VirtualClock, relay: Watched
) -> None:
    begin(store)
    Book(store).alerts.save("ops", to=HOOK)
    (channel,) = channels(store, "ops")
    Book(store).alerts.test("ops")
    assert relay.step() == [channel]
    consumer = store.read(lambda tx: tx.consumers.get_consumer("default", channel))
    box = Box()
    box.down = True
    courier = Courier(store, consumer, box, lease=LEASE, monotonic=relay.monotonic)
    courier.step()
    courier.close()
    assert relay.step() == []
    assert 0 < relay.rest <= 1
    clock.advance(SECOND)
    assert due(store)
    assert relay.step() == [channel]


def test_dead_letters_and_replays_are_delivered_again(
    store: Store, clock: VirtualClock, relay: Watched
) -> None:
    begin(store)
    Book(store).alerts.save("ops", to=HOOK)
    (channel,) = channels(store, "ops")
    Book(store).alerts.test("ops")
    relay.step()
    relay.deliver(channel)
    clock.advance(SETTLED * SECOND)
    assert relay.step() == []
    store.transact(lambda tx: tx.consumers.replay("default", channel, 0))
    assert due(store)
    assert relay.step() == [channel]


def test_channels_take_turns_when_many_have_something_to_deliver(
    store: Store, relay: Watched
) -> None:
    begin(store)
    book = Book(store)
    for rule in range(2):
        book.alerts.save(f"r{rule}", to=[f"{HOOK}/{rule}/{number}" for number in range(10)])
        book.alerts.test(f"r{rule}")
    first = relay.step()
    assert len(first) == MOST_BUSY
    busy = [("default", name) for name in first]
    assert relay.step(busy) == []
    for name in first[:4]:
        relay.deliver(name)
    late = relay.step(busy[4:])
    assert len(late) == 4
    assert not set(late) & set(first)


def test_what_a_node_cannot_serve_is_seen_by_everybody(store: Store) -> None:
    begin(store, "node-1", roles="relay")
    book = Book(store)
    book.alerts.save("ops", to="mailto:ops@example.com")

    def refuse(_consumer: Consumer, _setup: Any) -> Any:
        raise Invalid("this node has no mail server")

    relay = Relay(store, opening=refuse)
    relay.unserved.session_id = "node-1"
    relay.step()
    (channel,) = book.alerts.get("ops").channels
    assert channel.unserved == "this node has no mail server"
    (check,) = [one for one in book.doctor.examine().checkups if one.check == "alerts"]
    assert check.level == "warning"
    assert "email ops@example.com" in check.message
    assert "this node has no mail server" in check.message
    begin(store, "node-2", roles="relay")  # this one can
    (channel,) = book.alerts.get("ops").channels
    assert channel.unserved is None
    book.alerts.remove("ops")
    relay.step()
    assert [node.unserved for node in book.nodes.list()] == [{}, {}]
    relay.close()


def test_an_alert_written_while_a_relay_looks_at_older_consumers_is_still_delivered(
    store: Store, clock: VirtualClock
) -> None:
    """A rule and its first message are written after the relay lists the consumers, but before it
    reads the log."""
    begin(store)
    book = Book(store)
    book.alerts.save("known", to=f"{HOOK}/known")
    desk = AlertDesk(store)
    before = store.read(lambda tx: tx.consumers.list_consumers())
    book.alerts.save("ops", to=HOOK)
    book.alerts.test("ops")
    stamp(store)
    desk.look(before, 0.0)
    after = store.read(lambda tx: tx.consumers.list_consumers())
    clock.advance(2 * MINUTE)
    assert ("default", channels(store, "ops")[0]) in desk.look(after, 120.0).due()
