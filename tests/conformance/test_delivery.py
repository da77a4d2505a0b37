"""Cursors, groups and dead letters: each key in order, at least once, whichever node delivers."""

from __future__ import annotations

import threading
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.delivery.courier import POLL
from duebook.errors import Conflict, Invalid, NotFound
from duebook.model.consumer import Cursor, Move, Report, new_consumer
from tests.support.builders import LEASE, MINUTE, VirtualClock
from tests.support.event_builders import Box, append, courier, join, lag, run, stamp
from tests.support.retention import purge_all

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.delivery.courier import Courier
    from duebook.model.consumer import Consumer
    from duebook.store.base import Store
    from tests.support.backends import Backend

HOUR = timedelta(hours=1)


def test_a_consumer_gets_every_event_once_in_order(store: Store, clock: VirtualClock) -> None:
    ids = append(store, *"abcabc") + append(store, "d", topic="other")
    box = Box()
    one = courier(store, box, clock)
    run(one)
    assert box.ids == ids
    ids += append(store, "a")
    run(one)
    assert box.ids == ids
    assert not any(delivery.replay for delivery in box.got)


def test_topics_choose_and_life_cycles_are_left_out(store: Store, clock: VirtualClock) -> None:
    append(store, "a", topic="t")
    wanted = append(store, "a", topic="orders")
    box = Box()
    run(courier(store, box, clock, topics=["orders"]))
    assert box.ids == wanted


def test_a_new_consumer_goes_on_where_it_was(store: Store, clock: VirtualClock) -> None:
    append(store, *"abc")
    first, second = Box(), Box()
    one = courier(store, first, clock)
    run(one)
    one.close()
    ids = append(store, *"xyz")
    run(courier(store, second, clock))
    assert second.ids == ids


def test_members_share_the_partitions_and_every_key_stays_in_order(
    backend: Backend, store: Store, clock: VirtualClock
) -> None:
    boxes = [Box() for _ in range(3)]
    members = [courier(backend.open(), box, clock, partitions=8) for box in boxes]
    for _ in range(3):
        for member in members:
            member.share()
    assert sorted(len(member._cursors) for member in members) == [2, 3, 3]
    ids: dict[str, list[str]] = defaultdict(list)
    for n in range(60):
        ids[f"key-{n % 20}"] += append(store, f"key-{n % 20}")
    run(*members)
    assert all(box.got for box in boxes)
    for key, wanted in ids.items():
        got = [[d.event.id for d in box.got if d.event.key == key] for box in boxes]
        assert [one for one in got if one] == [wanted]


def test_what_was_settled_is_not_delivered_again_though_nobody_heard_of_it(
    store: Store, clock: VirtualClock
) -> None:
    ids = append(store, *"abc")
    stamp(store)
    box = Box()
    one = courier(store, box, clock)
    found = one.fetch()
    assert found is not None
    report = box.deliver(found.deliveries)
    store.transact(lambda tx: one.settle_by(tx, found, report))  # and then the connection broke
    one.hurry()
    run(one)
    assert box.ids == ids


def test_all_members_get_the_topics_that_were_named_last(store: Store, clock: VirtualClock) -> None:
    box = Box()
    one = courier(store, box, clock, topics=["t"])
    join(store, topics=["t", "orders"])
    ids = append(store, "a", topic="orders")
    clock.advance(LEASE)
    run(one)
    assert box.ids == ids


def test_what_a_dead_member_owned_is_taken_over(
    backend: Backend, store: Store, clock: VirtualClock
) -> None:
    append(store, *"abcdefgh")
    dead, box = courier(backend.open(), Box(), clock), Box()
    assert len(dead._cursors) == 4
    living = courier(store, box, clock)
    run(living)
    assert box.got == []
    clock.advance(2 * LEASE)
    living.share()
    run(living)
    assert len(box.got) == 8


def test_a_late_member_moves_nothing_under_an_old_term(
    backend: Backend, store: Store, clock: VirtualClock
) -> None:
    append(store, *"abcd")
    stamp(store)
    late, box = courier(backend.open(), Box(), clock), Box()
    found = late.fetch()
    assert found is not None
    assert len(found.deliveries) == 4
    clock.advance(2 * LEASE)
    living = courier(store, box, clock)
    run(living)
    late.settle(found, Report())
    assert lag(store)[0] == 0
    assert len(box.got) == 4
    moves = [Move(c.part, c.term, 1_000) for c in late._cursors.values()]
    moved = store.transact(lambda tx: tx.consumers.move_cursors(late.consumer, late.member, moves))
    assert moved == set()


def move(store: Store, one: Courier, cursor: Cursor) -> set[int]:
    moves = [Move(cursor.part, cursor.term, cursor.position)]
    return store.transact(lambda tx: tx.consumers.move_cursors(one.consumer, one.member, moves))


def test_a_cursor_never_moves_back(store: Store, clock: VirtualClock) -> None:
    one = courier(store, Box(), clock, partitions=1)
    append(store, *"abc")
    run(one)
    (cursor,) = one._cursors.values()
    assert cursor.position > 1
    assert move(store, one, cursor._replace(position=cursor.position - 1)) == set()
    assert move(store, one, cursor) == {0}
    assert lag(store)[0] == 0


def test_a_member_that_owns_a_partition_again_moves_nothing_under_its_former_term(
    backend: Backend, store: Store, clock: VirtualClock
) -> None:
    append(store, "a")
    stamp(store)
    one = courier(store, Box(), clock, partitions=1)
    (former,) = one._cursors.values()
    clock.advance(2 * LEASE)
    other = courier(backend.open(), Box(), clock)
    assert other._cursors.keys() == {0}
    clock.advance(2 * LEASE)
    one.share()
    (current,) = one._cursors.values()
    assert move(store, one, former._replace(position=1)) == set()
    assert move(store, one, current._replace(position=1)) == {0}


def test_an_event_that_is_not_taken_holds_up_its_key_only_and_then_is_a_dead_letter(
    store: Store, clock: VirtualClock
) -> None:
    box = Box()
    box.refuses = {"bad"}
    one = courier(store, box, clock, partitions=1)
    append(store, "bad", *"abcdefgh", "bad")
    run(one)
    assert {delivery.event.key for delivery in box.got} == set("abcdefgh")
    assert lag(store)[2] == 1
    for _ in range(2):
        clock.advance(MINUTE)
        run(one)
    assert lag(store)[1] == 1, "three attempts"
    for _ in range(3):
        clock.advance(HOUR)
        run(one)
    letter, _ = store.read(lambda tx: tx.consumers.list_letters("default", "billing", 10).rows)
    assert lag(store) == (0, 2, 0)
    assert (letter.event.key, letter.error, letter.attempts) == ("bad", "no such thing", 3)
    parts = store.read(lambda tx: tx.consumers.list_partitions("default", "billing"))
    assert {part.error for part in parts} == {None}, "none waits any more"


def test_an_outlet_that_is_down_for_long_loses_nothing(store: Store, clock: VirtualClock) -> None:
    box = Box()
    box.down = True
    one = courier(store, box, clock)
    ids = append(store, *"abab")
    for _ in range(50):
        run(one)
        clock.advance(10 * MINUTE)
    assert lag(store)[1] == 0
    box.down = False
    run(one)
    assert [d.event.id for d in box.got if d.event.key == "a"] == [ids[0], ids[2]]
    assert [d.event.id for d in box.got if d.event.key == "b"] == [ids[1], ids[3]]


def test_a_courier_at_rest_looks_when_something_may_be_tried_again(
    store: Store, clock: VirtualClock
) -> None:
    box = Box()
    one = courier(store, box, clock, partitions=64)
    assert one.step() == POLL
    box.refuses = {"bad"}
    append(store, "bad", "good")
    run(one)
    rest = one.step()
    assert 0 < rest <= 1
    clock.advance(timedelta(seconds=rest))
    box.refuses = set()
    assert one.step() == 0
    assert [delivery.event.key for delivery in box.got] == ["good", "bad"]
    assert one.step() == POLL


def test_dead_letters_are_delivered_again_or_given_up(
    store: Store, clock: VirtualClock, book: Book
) -> None:
    box = Box()
    box.refuses = {"bad", "worse"}
    one = courier(store, box, clock, attempts=1, partitions=64)
    bad, worse = append(store, "bad", "worse")
    run(one)
    assert {letter.event.id for letter in book.events.dead_letters("billing")} == {bad, worse}
    assert book.events.replay_dead("billing", bad) == 1
    run(one)
    assert len(book.events.dead_letters()) == 2, "it was not taken this time either"
    box.refuses = set()
    assert book.events.replay_dead("billing", bad) == 1
    run(one)
    assert [(d.event.id, d.replay) for d in box.got] == [(bad, True)]
    assert book.events.drop_dead("billing") == 1
    assert book.events.dead_letters() == []


def test_what_was_delivered_is_delivered_again_marked_as_such(
    store: Store, clock: VirtualClock, book: Book
) -> None:
    ids = append(store, *"abc")
    box = Box()
    one = courier(store, box, clock)
    run(one)
    (second,) = [d.event.position for d in box.got if d.event.id == ids[1]]
    assert book.events.replay("billing", after=second - 1 if second else 0)
    append(store, "d")
    one.hurry()
    run(one)
    again = box.got[3:]
    assert {d.event.id for d in again if d.replay} >= set(ids[1:])
    assert [d.event.key for d in again if not d.replay] == ["d"]
    with pytest.raises(NotFound):
        book.events.replay("nobody", after=0)
    with pytest.raises(Invalid):
        book.events.replay("billing", after=1_000)


def test_retention_keeps_what_somebody_has_not_got(store: Store, clock: VirtualClock) -> None:
    append(store, *"abcde")
    box = Box()
    one = courier(store, box, clock)
    stamp(store)
    clock.advance(HOUR)
    assert store.transact(lambda tx: purge_all(tx, clock.now, 100).number) == 0
    run(one)
    assert store.transact(lambda tx: purge_all(tx, clock.now, 100).number) == 4


def test_a_name_is_a_group_or_a_sink(store: Store) -> None:
    assert join(store, partitions=4).partitions == 4
    assert join(store, partitions=9).partitions == 4, "keys belong to their partitions"
    wanted = new_consumer("default", "billing", "webhook", None, 1, 1)
    with pytest.raises(Conflict):
        store.transact(lambda tx: tx.consumers.save_consumer(wanted, 0))
    assert store.transact(lambda tx: tx.consumers.remove_consumer("default", "billing"))
    assert store.read(lambda tx: tx.consumers.list_consumers()) == []


def test_a_group_that_several_make_at_once_is_made_once(backend: Backend, store: Store) -> None:
    made: list[Consumer] = []

    def make() -> None:
        made.append(join(backend.open()))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert len(set(map(repr, made))) == 1
    assert len(store.read(lambda tx: tx.consumers.list_lags())) == 1


def test_a_member_of_a_group_that_was_removed_is_told(store: Store, clock: VirtualClock) -> None:
    one = courier(store, Box(), clock)
    store.transact(lambda tx: tx.consumers.remove_consumer("default", "billing"))
    with pytest.raises(NotFound, match="removed"):
        one.share()


def test_only_the_owner_holds_cursors(store: Store, clock: VirtualClock) -> None:
    one = courier(store, Box(), clock)
    own = list(one._cursors.values())
    held = store.transact(lambda tx: tx.consumers.hold_cursors(one.consumer, one.member, own))
    assert held == {0, 1, 2, 3}
    other = [Cursor(c.part, c.position, c.term + 1) for c in own]
    assert (
        store.transact(lambda tx: tx.consumers.hold_cursors(one.consumer, one.member, other))
        == set()
    )
    assert store.transact(lambda tx: tx.consumers.hold_cursors(one.consumer, "me", own)) == set()
