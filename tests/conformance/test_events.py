"""The event log: appended together with the cause, positions without gaps, read by position."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from duebook.book import Book
from duebook.engine.sequencer import Sequencer
from duebook.errors import Invalid, NotFound
from duebook.ids import new_id
from duebook.model.event import Event, data_text, new_draft, slot_of
from duebook.model.plan import Fire
from duebook.model.run import Outcome
from duebook.targets.event import perform_event
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
    claimed_run,
    get_ledger,
    get_runs,
    get_schedule,
    settle,
    tick,
)
from tests.support.event_builders import append, problems, stamp, step
from tests.support.examples import some_of
from tests.support.retention import purge_all

if TYPE_CHECKING:
    from duebook.store.base import Store, Tx
    from duebook.store.values import Pulse
    from tests.support.backends import Backend

ORDERS = {"event": {"topic": "orders", "type": "due", "data": {"shop": 7}}}


def read(store: Store, after: int = 0, limit: int = 1_000, **more: Any) -> list[Event]:
    stamp(store)
    return store.read(lambda tx: tx.events.read_events("default", after, limit, **more)).events


def pulse(store: Store) -> Pulse:
    return store.pulse("node-1", LEASE, ["default"])


# -- the log


def test_events_are_read_in_the_order_in_which_they_were_written(store: Store) -> None:
    ids = append(store, "a", "b") + append(store, "a")
    found = read(store)
    assert [event.id for event in found] == ids
    assert [event.data for event in found] == [{"key": "a"}, {"key": "b"}, {"key": "a"}]
    positions = [event.position for event in found]
    assert None not in positions
    assert positions == sorted(set(positions), key=lambda p: p or 0)


def test_many_events_of_one_transaction_keep_their_order(store: Store) -> None:
    ids = append(store, *"abc" * 77)
    assert [event.id for event in read(store)] == ids


def test_a_reader_goes_on_from_a_position(store: Store) -> None:
    ids = append(store, *"abcde")
    first = store.transact(
        lambda tx: (tx.events.stamp_events(100), tx.events.read_events("default", 0, 2))
    )[1]
    assert [event.id for event in first.events] == ids[:2]
    assert first.more
    rest = read(store, after=first.after)
    assert [event.id for event in rest] == ids[2:]


def test_a_log_is_read_from_a_time(store: Store, clock: VirtualClock) -> None:
    append(store, "early")
    clock.advance(MINUTE)
    append(store, "then")
    clock.advance(MINUTE)
    append(store, "late")
    stamp(store)
    for since, keys in (
        (BEGIN, ["early", "then", "late"]),
        (BEGIN + SECOND, ["then", "late"]),
        (BEGIN + MINUTE, ["then", "late"]),
        (BEGIN + 2 * MINUTE, ["late"]),
        (BEGIN + 3 * MINUTE, []),
    ):
        after = store.read(lambda tx, since=since: tx.events.position_at(since))  # type: ignore[misc]
        assert [event.key for event in read(store, after)] == keys


def test_what_rolls_back_was_never_there(store: Store) -> None:
    def work(tx: Tx) -> None:
        tx.events.append_events([new_draft("lost", "default", "t", None, "k", 1)])
        raise RuntimeError

    with suppress(RuntimeError):
        store.transact(work)
    assert read(store) == []


def test_topics_partitions_and_namespaces_are_told_apart(store: Store) -> None:
    append(store, *(f"key-{n}" for n in range(40)), topic="orders")
    append(store, "x", topic="other")
    append(store, "x", topic="orders", namespace="elsewhere")
    assert len(read(store)) == 41
    assert len(read(store, topics=["orders"])) == 40
    assert len(read(store, topics=["orders", "other"])) == 41
    parts = [read(store, topics=["orders"], parts=[part], partitions=4) for part in range(4)]
    assert sum(map(len, parts)) == 40
    for part, events in enumerate(parts):
        assert events, "40 keys fall into 4 partitions"
        assert all(slot_of(event.key) % 4 == part for event in events)


def test_a_rare_topic_is_found_by_looks_that_end(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.store.sql.events.WINDOW", 3)
    append(store, *"aaaaaaa")
    (rare,) = append(store, "r", topic="rare")
    stamp(store)
    looks, after = 0, 0
    found: list[Event] = []
    while True:
        batch = store.read(lambda tx: tx.events.read_events("default", after, 10, ["rare"]))  # noqa: B023
        looks, after, found = looks + 1, batch.after, found + batch.events
        if not batch.more:
            break
    assert [event.id for event in found] == [rare]
    assert looks == 3


def test_events_are_forgotten_in_small_batches_and_positions_go_on(
    store: Store, clock: VirtualClock
) -> None:
    append(store, *"abcde")
    last = read(store)[-1].position or 0
    clock.advance(MINUTE)
    purged = [store.transact(lambda tx: purge_all(tx, clock.now, 3)).number for _ in range(3)]
    assert purged == [3, 1, 0], "the last one stays"
    append(store, "f")
    assert [event.key for event in read(store, after=last)] == ["f"]


def test_what_is_no_event_is_refused(book: Book) -> None:
    cases: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("or ders", {}, "topic"),
        ("duebook.runs", {}, "reserved"),
        ("t", {"key": "\0"}, "key"),
        ("t", {"type": "a b"}, "type"),
        ("t", {"data": float("nan")}, "data"),
        ("t", {"data": {"x": "\0"}}, "data"),
        ("t", {"data": "x" * 1_000_001}, "1,000,003"),
    )
    for topic, more, word in cases:
        with pytest.raises(Invalid, match=word):
            book.events.publish(topic, **{"data": 1, **more})


@hypothesis_settings(max_examples=some_of(30), deadline=None)
@given(
    data=st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**60), 2**60)
        | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5, alphabet="abc"), inner),
        max_leaves=10,
    )
)
@example(data=r"\u0000 is how JSON writes a NUL")
def test_data_comes_back_as_it_was_written(data: Any) -> None:
    assert json.loads(data_text(data)) == data


# -- due times


def test_a_due_time_writes_an_event_and_its_run_has_ended(
    store: Store, clock: VirtualClock
) -> None:
    job = add_schedule(store, target=ORDERS)
    clock.advance(MINUTE)
    begin(store, "scheduler")
    step(store)
    (run,) = get_runs(store, job)
    assert (run.status, run.attempt, run.due_at, run.origin) == (
        "succeeded",
        1,
        clock.now,
        "schedule",
    )
    assert run.started_at == run.finished_at == clock.now
    assert run.node == "host-of-scheduler"
    (event,) = read(store)
    assert (event.topic, event.type, event.key, event.data) == ("orders", "due", "job", {"shop": 7})
    assert event.meta == {
        "schedule": "job",
        "schedule_id": job,
        "due_at": "2026-01-05T12:01:00Z",
        "run_id": run.id,
        "user": "a test",
        "origin": "schedule",
    }
    assert (event.aggregate, event.version, event.at) == (f"schedule:{job}", 1, clock.now)
    begin(store)
    assert claim(store) == [], "no worker is involved"


def test_versions_of_a_schedule_have_no_gaps(store: Store, clock: VirtualClock) -> None:
    for name in ("one", "two"):
        add_schedule(store, name, target=ORDERS)
    for _ in range(5):
        clock.advance(MINUTE)
        step(store)
    found = read(store)
    for name in ("one", "two"):
        assert [e.version for e in found if e.meta["schedule"] == name] == [1, 2, 3, 4, 5]
    assert problems(store) == []


def test_templates_are_rendered_when_an_event_is_written(store: Store, clock: VirtualClock) -> None:
    event = {
        "topic": "reports.{{ payload.kind }}",
        "key": "{{ schedule.name }}-{{ payload.n }}",
        "data": {"due": "{{ due_at }}", "n": "{{ payload.n }}", "run": "{{ run.id }}"},
    }
    add_schedule(store, target={"event": event}, payload={"kind": "daily", "n": 3})
    clock.advance(MINUTE)
    step(store)
    (found,) = read(store)
    assert (found.topic, found.type, found.key) == ("reports.daily", "reports.daily", "job-3")
    assert found.data == {"due": "2026-01-05T12:01:00Z", "n": 3, "run": found.meta["run_id"]}


def test_without_data_an_event_has_the_payload(store: Store, clock: VirtualClock) -> None:
    add_schedule(store, target={"event": "orders"}, payload={"at": "{{ due_at }}", "n": 1})
    clock.advance(MINUTE)
    step(store)
    assert [event.data for event in read(store)] == [{"at": "2026-01-05T12:01:00Z", "n": 1}]


def test_a_template_that_fails_fails_that_run_only(store: Store, clock: VirtualClock) -> None:
    bad = {"event": {"topic": "orders", "data": "{{ payload.missing.deep }}"}}
    good, failing = (
        add_schedule(store, "good", target=ORDERS),
        add_schedule(store, "bad", target=bad),
    )
    clock.advance(MINUTE)
    step(store)
    assert [run.status for run in get_runs(store, good)] == ["succeeded"]
    (run,) = get_runs(store, failing)
    assert (run.status, run.reason) == ("failed", "template")
    assert "event data" in (run.error or "")
    assert [event.meta["schedule"] for event in read(store)] == ["good"]
    clock.advance(MINUTE)
    step(store)
    assert len(get_runs(store, failing)) == 2, "its next due time is decided as ever"


def test_a_due_time_writes_its_event_once_whoever_plans_it(
    backend: Backend, store: Store, clock: VirtualClock
) -> None:
    jobs = [add_schedule(store, f"job-{n}", target=ORDERS) for n in range(20)]
    clock.advance(MINUTE)
    others = [backend.open() for _ in range(3)]
    threads = [threading.Thread(target=step, args=(other, 3)) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read(store)
    assert sorted(event.meta["schedule_id"] for event in found) == sorted(jobs)
    assert problems(store) == []


def test_a_due_time_that_has_a_run_already_writes_nothing(
    store: Store, clock: VirtualClock, book: Book
) -> None:
    job = add_schedule(store, target=ORDERS)
    clock.advance(MINUTE)
    step(store)
    runs = book.schedules.backfill("job", BEGIN + SECOND, clock.now)
    assert runs == []
    assert len(read(store)) == 1
    assert get_ledger(store, job) == []


def test_versions_have_no_gap_where_a_due_time_had_a_run_already(
    store: Store, clock: VirtualClock
) -> None:
    """As after a failover to a server that has forgotten the last watermark."""
    some = add_schedule(store, "some", target=ORDERS, catchup="all")
    none = add_schedule(store, "none", target=ORDERS)
    add_schedule(store, "other", target=ORDERS)

    def make_runs(tx: Tx) -> None:
        tx.runs.create_backfill(tx.plans.snapshot(some), [Fire(BEGIN + 2 * MINUTE, "backfill")])
        tx.runs.create_backfill(tx.plans.snapshot(none), [Fire(BEGIN + MINUTE, "backfill")])

    store.transact(make_runs)
    for minutes in (1, 2, 1):
        clock.advance(minutes * MINUTE)
        step(store)
    versions: dict[str, list[int | None]] = {}
    for event in read(store):
        versions.setdefault(event.meta["schedule"], []).append(event.version)
    assert versions == {"some": [1, 2, 3], "none": [1, 2, 3], "other": [1, 2, 3, 4]}
    assert problems(store) == []


def test_late_due_times_all_write_their_events_at_once(store: Store, clock: VirtualClock) -> None:
    """Such a schedule never has active runs, whatever its overlap policy and pace."""
    job = add_schedule(store, target=ORDERS, catchup="all", overlap="queue")
    clock.advance(5 * MINUTE)
    step(store)
    assert [event.version for event in read(store)] == [1, 2, 3, 4, 5]
    assert {run.status for run in get_runs(store, job)} == {"succeeded"}


def test_a_one_off_event_completes_its_schedule(store: Store, clock: VirtualClock) -> None:
    job = add_schedule(store, target=ORDERS, trigger={"at": "2026-01-05T12:01:00Z"})
    clock.advance(MINUTE)
    step(store)
    assert get_schedule(store, job).status == "completed"
    assert len(read(store)) == 1


def test_an_event_wakes_the_schedules_that_depend_on_it(store: Store, clock: VirtualClock) -> None:
    add_schedule(store, "up", target=ORDERS, trigger={"at": "2026-01-05T12:02:00Z"})
    waiting = add_schedule(
        store,
        "down",
        target=ORDERS,
        trigger={"at": "2026-01-05T12:01:00Z"},
        depends_on=[{"schedule": "up", "within": "1h", "wait": "1h"}],
    )
    clock.advance(MINUTE)
    step(store)
    assert get_runs(store, waiting) == []
    clock.advance(MINUTE)
    step(store)
    step(store)
    assert [run.status for run in get_runs(store, waiting)] == ["succeeded"]


def test_people_write_events_of_a_schedule_too(
    store: Store, clock: VirtualClock, book: Book
) -> None:
    target = {"event": {"topic": "orders", "data": {"n": "{{ payload.n }}"}}}
    add_schedule(store, target=target, payload={"n": 1})
    clock.advance(MINUTE)
    step(store)
    clock.advance(3 * MINUTE)
    run = book.schedules.trigger("job", {"n": 2})
    assert (run.status, run.origin, run.due_at) == ("succeeded", "manual", None)
    clock.advance(SECOND)
    book.schedules.reschedule("job", clock.now)
    events = read(store)
    assert [event.data["n"] for event in events[:2]] == [1, 2]
    assert [event.version for event in events] == list(range(1, len(events) + 1))
    assert book.schedules.render("job")["target"]["event"]["data"] == {"n": 1}


def test_a_run_that_failed_is_tried_again_by_a_worker(
    store: Store, clock: VirtualClock, book: Book
) -> None:
    target = {"event": {"topic": "orders", "data": "{{ payload.text.deep }}"}}
    job = add_schedule(store, target=target)
    clock.advance(MINUTE)
    step(store)
    (failed,) = get_runs(store, job)
    book.runs.retry(failed.id)
    begin(store)
    (claimed,) = claim(store)
    assert perform_event(claimed).status == "failed"
    mended = claimed.run._replace(payload={"text": {"deep": 1}})
    outcome = perform_event(claimed._replace(run=mended))
    assert store.transact(lambda tx: tx.attempts.settle(claimed.token, outcome))
    assert [(event.data, event.aggregate, event.version) for event in read(store)] == [
        (1, f"run:{failed.id}", 1)
    ]


# -- what runs publish


def test_what_a_run_publishes_is_written_with_its_success(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    drafts = tuple(new_draft(new_id(), "default", "t", None, "k", n) for n in range(3))
    assert store.transact(
        lambda tx: tx.attempts.settle(claimed.token, Outcome("succeeded", events=drafts))
    )
    assert store.transact(
        lambda tx: tx.attempts.settle(claimed.token, Outcome("succeeded", events=drafts))
    )
    found = read(store)
    assert [(event.data, event.version) for event in found] == [(0, 1), (1, 2), (2, 3)]
    assert {event.aggregate for event in found} == {f"run:{claimed.run.id}"}


def test_what_a_failed_attempt_wanted_to_publish_is_forgotten(
    store: Store, clock: VirtualClock
) -> None:
    claimed = claimed_run(store, clock)
    draft = new_draft(new_id(), "default", "t", None, "k", 1)
    assert settle(store, claimed.token, "failed", events=(draft,))
    assert read(store) == []


def test_many_runs_that_end_together_publish_each_their_own(store: Store) -> None:
    for n in range(5):
        add_run(store, add_schedule(store, f"job-{n}"))
    begin(store)
    claims = claim(store)
    ended = [
        (c.token, Outcome("succeeded", events=(new_draft(c.run.id, "default", "t", None, "k", n),)))
        for n, c in enumerate(claims)
    ]
    store.transact(lambda tx: tx.attempts.settle_all(ended))
    assert {event.id for event in read(store)} == {c.run.id for c in claims}
    store.transact(lambda tx: tx.attempts.settle_all(ended))
    assert len(read(store)) == 5


# -- positions are assigned later


def test_a_pulse_tells_of_events_that_wait_for_their_position(store: Store) -> None:
    begin(store)
    assert not pulse(store).unstamped
    append(store, "a")
    assert pulse(store).unstamped == store.sequences
    Sequencer(store).step()
    assert not pulse(store).unstamped


def test_a_sequencer_goes_on_while_there_is_more_than_it_takes_at_once(store: Store) -> None:
    append(store, *"abcde")
    if store.sequences:
        sequencer = Sequencer(store, batch=2)
        assert [sequencer.step() for _ in range(3)] == [0.0, 0.0, None]
    assert [
        e.key for e in store.read(lambda tx: tx.events.read_events("default", 0, 9)).events
    ] == [*"abcde"]


# -- the client


def test_the_client_lists_and_follows_the_log(book: Book, store: Store) -> None:
    book.events.publish("orders", {"n": 1}, key="a")
    book.events.publish("orders", {"n": 2}, key="a", type="changed")
    book.events.publish("other", 3)
    stamp(store)
    assert [event.data for event in book.events.list("orders")] == [{"n": 1}, {"n": 2}]
    assert [event.data for event in book.events.list(limit=1)] == [{"n": 1}]
    assert [event.data for event in book.events.latest(limit=2)] == [{"n": 2}, 3]
    following = book.events.tail("orders", after=0, pause=lambda _: None)
    assert [next(following).type, next(following).type] == ["orders", "changed"]
    (event,) = book.events.list("other")
    assert book.events.get(event.id) == event
    with pytest.raises(NotFound):
        book.events.get(new_id())
    with pytest.raises(NotFound):
        Book(store, "elsewhere").events.get(event.id)


def test_ordinary_schedules_ask_nothing_more_of_the_books(
    backend: Backend, clock: VirtualClock
) -> None:
    points: list[str] = []
    store = backend.open(points.append)
    add_schedule(store)
    clock.advance(MINUTE)
    del points[:]
    tick(store)
    assert not [point for point in points if "event" in point or "ended" in point]
