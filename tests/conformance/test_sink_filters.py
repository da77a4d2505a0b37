"""Consumers that filter by type, or by labels of schedules: they get those events in order,
and have no lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.errors import Invalid
from duebook.ids import new_id
from duebook.model.codec import encode
from duebook.model.consumer import new_consumer
from duebook.model.event import new_draft
from tests.support.builders import LEASE, MINUTE, VirtualClock, add_schedule
from tests.support.event_builders import Box, courier, join, lag, run, stamp, step

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.store.base import Store


def write(store: Store, key: str, type_: str = "t", schedule_id: str | None = None) -> str:
    meta = {"schedule_id": schedule_id} if schedule_id else {}
    draft = new_draft(new_id(), "default", "orders", type_, key, {}, meta)
    store.transact(lambda tx: tx.events.append_events([draft]))
    return draft.id


def test_only_the_types_that_are_asked_for_come_in_order(store: Store, clock: VirtualClock) -> None:
    wanted = []
    for n in range(30):
        id_ = write(store, f"k{n % 3}", f"type-{n % 5}")
        wanted += [id_] if n % 5 in (1, 3) else []
    box = Box()
    run(courier(store, box, clock, types=["type-3", "type-1"]))
    assert box.ids == wanted


def test_only_events_of_schedules_with_the_labels_come(store: Store, clock: VirtualClock) -> None:
    both = add_schedule(store, "both", labels={"team": "data", "tier": "1"})
    one = add_schedule(store, "one", labels={"team": "data"})
    other = add_schedule(store, "other", labels={"team": "web", "tier": "1"})
    ids = [write(store, "k", schedule_id=id_) for id_ in (both, one, other, None, both)]
    box, wide = Box(), Box()
    run(courier(store, box, clock, labels={"team": "data", "tier": "1"}))
    assert box.ids == [ids[0], ids[4]]
    run(courier(store, wide, clock, name="wide", labels={"team": "data"}))
    assert wide.ids == [ids[0], ids[1], ids[4]]


def test_events_about_runs_come_by_type_and_label_also_of_deleted_schedules(
    store: Store, clock: VirtualClock, book: Book
) -> None:
    box = Box()
    one = courier(store, box, clock, types="run.cancelled", labels={"team": "data"})
    for name, team in (("etl", "data"), ("web", "web")):
        add_schedule(store, name, labels={"team": team})
    clock.advance(MINUTE)
    step(store)
    for name in ("web", "etl"):
        book.schedules.delete(name)
    run(one)
    assert [(d.event.type, d.event.key) for d in box.got] == [("run.cancelled", "etl")]


def test_a_cursor_goes_on_past_what_nobody_asked_for(store: Store, clock: VirtualClock) -> None:
    schedule = add_schedule(store, labels={"team": "web"})
    drafts = [
        new_draft(new_id(), "default", "orders", "t", f"k{n}", {}, {"schedule_id": schedule})
        for n in range(1_500)
    ]
    store.transact(lambda tx: tx.events.append_events(drafts))
    stamp(store, 10_000)
    by_type, by_label = Box(), Box()
    members = [
        courier(store, by_type, clock, name="types", types="other"),
        courier(store, by_label, clock, name="labels", labels={"team": "data"}),
    ]
    run(*members)
    assert (by_type.got, by_label.got) == ([], [])
    clock.advance(LEASE)
    run(*members)
    assert [lag(store, name) for name in ("types", "labels")] == [(0, 0, 0)] * 2


def test_a_failure_holds_up_its_key_and_no_other_also_with_filters(
    store: Store, clock: VirtualClock
) -> None:
    schedule = add_schedule(store, labels={"team": "data"})
    other = add_schedule(store, "other")
    box = Box()
    box.refuses = {"bad"}
    one = courier(store, box, clock, types=["t"], labels={"team": "data"})
    ids = [write(store, "bad", schedule_id=schedule), write(store, "bad", schedule_id=other)]
    ids += [write(store, key, schedule_id=schedule) for key in ("bad", "good")]
    run(one)
    assert box.ids == [ids[3]]
    box.refuses = set()
    clock.advance(MINUTE)
    one.hurry()
    run(one)
    assert box.ids == [ids[3], ids[0], ids[2]]
    assert lag(store) == (0, 0, 0)


def test_what_waits_and_is_no_longer_asked_for_is_let_go(store: Store, clock: VirtualClock) -> None:
    box = Box()
    box.refuses = {"bad"}
    one = courier(store, box, clock, types=["a", "b"])
    write(store, "bad", "a")
    run(one)
    assert lag(store)[2] == 1
    join(store, types=["b"])
    box.refuses = set()
    last = write(store, "bad", "b")
    clock.advance(MINUTE)
    one.hurry()
    run(one)
    assert box.ids == [last]
    clock.advance(LEASE)
    run(one)
    assert lag(store) == (0, 0, 0)


def test_a_replay_brings_only_what_the_filters_ask_for(
    store: Store, clock: VirtualClock, book: Book
) -> None:
    wanted = [write(store, "k", type_) for type_ in "abab"][::2]
    box = Box()
    one = courier(store, box, clock, types="a")
    run(one)
    book.events.replay("billing", after=0)
    one.hurry()
    run(one)
    assert box.ids == wanted * 2
    assert [delivery.replay for delivery in box.got] == [False] * 2 + [True] * 2


@pytest.mark.parametrize(
    ("types", "topics"),
    [
        ("run.failed", ("duebook.runs",)),
        (["flow.finished", "run.late"], ("duebook.runs",)),
        (["run.failed", "schedule.paused"], ("duebook.runs", "duebook.schedules")),
        ("placed", None),
    ],
)
def test_types_of_duebook_need_no_topic(types: Any, topics: tuple[str, ...] | None) -> None:
    assert new_consumer("default", "s", "webhook", None, 1, 1, {}, types).topics == topics
    named = new_consumer("default", "s", "webhook", "orders", 1, 1, {}, types)
    assert named.topics == ("orders",)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"types": "run.fail"}, 'type "run.fail" is not one of run.succeeded, run.failed'),
        ({"types": ["run.failed", "placed"]}, "name the topics"),
        ({"types": []}, "types"),
        ({"types": 7}, "is not a type or a list"),
        ({"types": "a b"}, "without spaces"),
        ({"types": [str(n) for n in range(101)]}, "at most 100"),
        ({"labels": {"team": 7}}, "labels"),
        ({"labels": "team=data"}, "labels"),
    ],
)
def test_filters_that_are_wrong_are_refused(book: Book, given: dict[str, Any], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        book.events.add_sink("hooks", "webhook", url="https://example.com", **given)
    assert book.events.sinks() == []


def test_filters_are_kept_shown_and_changed(book: Book) -> None:
    def add(**filters: Any) -> dict[str, Any]:
        book.events.add_sink("hooks", "webhook", url="https://example.com", **filters)
        return encode(book.events.sinks()[0])

    shown = add(types=["run.failed"], labels={"team": "data"})
    assert (shown["types"], shown["labels"]) == (["run.failed"], {"team": "data"})
    shown = add()
    assert (shown["types"], shown["labels"], shown["topics"]) == (None, {}, None)
