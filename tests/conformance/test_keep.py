"""How long runs are kept: by namespace, by schedule and by count; and what that must not break."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.balance import check_books
from duebook.engine.advancer import Advancer
from duebook.engine.retention import ANEW, EVERY, Retention
from duebook.errors import Conflict, Invalid
from duebook.settings import RETENTION
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    get_run,
    get_runs,
    settle,
    tick,
)
from tests.support.flow_builders import CHAIN, put_flow, start

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.book import Book
    from duebook.store.base import Store
    from tests.support.backends import Backend

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
LONG = timedelta(days=4_000)
HOURLY = {"every": "1h", "anchor": "2026-01-05T12:00:00Z"}


def retain(store: Store) -> None:
    """One round of a node's retention."""
    retention = Retention(store)
    while retention.step() != EVERY:
        pass


def work(store: Store, clock: VirtualClock, hours: int, *namespaces: str) -> None:
    """Every hour, run what is due successfully."""
    for _ in range(hours):
        clock.advance(HOUR)
        tick(store)
        for namespace in namespaces or ("default",):
            for claimed in claim(store, namespace=namespace, limit=100):
                settle(store, claimed.token)


def hours_of(store: Store, schedule_id: str) -> list[int]:
    """The hours after which the remaining runs were due."""
    runs = store.read(lambda tx: tx.runs.list_runs_due(schedule_id, BEGIN, BEGIN + LONG, 1_000))
    return [int((run.due_at - BEGIN) / HOUR) for run in runs if run.due_at is not None]


def hour(number: int) -> datetime:
    return BEGIN + number * HOUR


@pytest.fixture
def job(store: Store) -> str:
    begin(store, lease=LONG)
    return add_schedule(store, trigger=HOURLY)


def test_a_namespace_keeps_its_runs_as_long_as_it_says_and_others_are_left_alone(
    store: Store, book: Book, clock: VirtualClock, job: str
) -> None:
    other = add_schedule(store, "job", "shop", trigger=HOURLY)
    work(store, clock, 6, "default", "shop")
    assert book.namespaces.keep("shop", "2h").keep == "2h"
    retain(store)
    assert hours_of(store, job) == [1, 2, 3, 4, 5, 6]
    assert hours_of(store, other) == [4, 5, 6]
    book.namespaces.keep("*", "3h")
    retain(store)
    assert hours_of(store, job) == [3, 4, 5, 6]
    assert hours_of(store, other) == [4, 5, 6], "it has a keep of its own"
    book.namespaces.keep("shop", None)
    assert {use.name: use.keep for use in book.namespaces.list()} == {
        "*": "3h",
        "default": "3h",
        "shop": "3h",
    }


def test_a_schedule_keeps_its_runs_for_less_or_longer_than_its_namespace(
    store: Store, book: Book, clock: VirtualClock, job: str
) -> None:
    brief = add_schedule(store, "brief", trigger=HOURLY, keep="1h")
    long = add_schedule(store, "long", trigger=HOURLY, keep="4h")
    book.namespaces.keep("default", "2h")
    work(store, clock, 8)
    retain(store)
    assert hours_of(store, brief) == [7, 8]
    assert hours_of(store, job) == [6, 7, 8]
    assert hours_of(store, long) == [4, 5, 6, 7, 8]


def test_only_the_newest_runs_are_kept(store: Store, clock: VirtualClock, job: str) -> None:
    few = add_schedule(store, "few", trigger=HOURLY, keep_last=2)
    both = add_schedule(store, "both", trigger=HOURLY, keep_last=3, keep="1h")
    work(store, clock, 6)
    retain(store)
    assert hours_of(store, few) == [5, 6]
    assert hours_of(store, both) == [5, 6], "whichever deletes more"
    assert hours_of(store, job) == [1, 2, 3, 4, 5, 6]


def test_many_schedules_and_runs_are_deleted_in_pages(store: Store, clock: VirtualClock) -> None:
    begin(store, lease=LONG)
    ids = [add_schedule(store, f"job-{n}", trigger=HOURLY, keep_last=1) for n in range(120)]
    for _ in range(3):
        clock.advance(HOUR)
        tick(store)
        while claims := claim(store, limit=100):
            for claimed in claims:
                settle(store, claimed.token)
    retain(store)
    assert {len(get_runs(store, id_)) for id_ in ids} == {1}


def test_runs_that_have_not_ended_stay(store: Store, clock: VirtualClock) -> None:
    few = add_schedule(store, "few", trigger=HOURLY, keep_last=1, keep="1h", overlap="allow")
    clock.advance(HOUR)
    tick(store)
    clock.advance(100 * DAY)
    retain(store)
    assert [run.status for run in get_runs(store, few)] == ["queued"]


def test_a_run_without_a_schedule_is_kept_as_its_namespace_says(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    begin(store, lease=LONG)
    run = book.enqueue("task", key="once")
    (claimed,) = store.transact(lambda tx: tx.claims.claim("node-1", "default", 9, ["task"]))
    settle(store, claimed.token)
    book.namespaces.keep("default", "1h")
    clock.advance(HOUR - SECOND)
    retain(store)
    assert get_run(store, run.id).status == "succeeded"
    clock.advance(2 * SECOND)
    retain(store)
    assert get_runs(store) == []
    assert book.enqueue("task", key="once").id != run.id


def test_steps_are_kept_as_long_as_the_run_of_their_flow(
    store: Store, backend: Backend, book: Book, clock: VirtualClock
) -> None:
    put_flow(store, CHAIN)
    begin(store, lease=LONG)
    book.namespaces.keep("default", "1h")
    run_id = start(store)
    Advancer(store).step()
    (one,) = claim(store)
    settle(store, one.token)
    Advancer(store).step()
    clock.advance(2 * HOUR)
    retain(store)
    assert get_run(store, one.run.id).status == "succeeded", "its flow is still running"
    (two,) = claim(store)
    settle(store, two.token)
    Advancer(store).step()
    assert get_run(store, run_id).status == "succeeded"
    clock.advance(30 * MINUTE)
    retain(store)
    assert get_run(store, one.run.id).status == "succeeded", "a retry would need it"
    clock.advance(HOUR)
    retain(store)
    for table in ("runs", "flow_runs", "run_attempts"):
        assert backend.rows(f"SELECT count(*) FROM {table}") == [(0,)], table  # noqa: S608


def test_the_newest_success_stays_for_schedules_that_depend_on_it(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, lease=LONG)
    first = add_schedule(store, "first", trigger=HOURLY, keep_last=1, keep="1h")
    work(store, clock, 1)
    clock.advance(HOUR)
    tick(store)
    settle(store, claim(store)[0].token, "failed")
    after = add_schedule(
        store,
        "after",
        trigger={"every": "1d", "anchor": "2026-01-05T12:00:00Z"},
        depends_on=[{"schedule": "first", "within": "2d"}],
    )
    clock.advance(3 * HOUR)
    retain(store)
    assert hours_of(store, first) == [1]
    clock.now = BEGIN + DAY
    tick(store)
    assert len(get_runs(store, after)) == 1
    clock.advance(RETENTION)
    retain(store)
    assert 1 not in hours_of(store, first)


def test_the_newest_success_by_hand_stays_for_the_next_due_time(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, lease=LONG)
    daily = {"every": "1d", "anchor": "2026-01-05T13:00:00Z"}
    job = add_schedule(store, trigger=daily, keep="1h", skip_if_successful=True)
    work(store, clock, 1)
    clock.advance(MINUTE)
    by_hand = add_run(store, job)
    settle(store, claim(store)[0].token)
    clock.advance(20 * HOUR)
    retain(store)
    assert get_run(store, by_hand).status == "succeeded"
    clock.advance(4 * HOUR - MINUTE)
    assert tick(store) == 0


# -- nothing runs twice, and the database passes its check


@pytest.mark.parametrize("said", [{"keep": "2h"}, {"keep_last": 2}])
def test_a_due_time_whose_run_was_deleted_never_runs_again(
    store: Store, book: Book, clock: VirtualClock, said: dict[str, str]
) -> None:
    begin(store, lease=LONG)
    job = add_schedule(store, trigger=HOURLY, **said)
    work(store, clock, 6)
    retain(store)
    left = hours_of(store, job)
    assert left[0] > 1
    book.schedules.update("job", keep="90d", keep_last=None)
    with pytest.raises(Invalid, match="where history starts"):
        book.schedules.backfill("job", hour(left[0] - 1), hour(6))
    assert book.schedules.backfill("job", hour(left[0]) - SECOND, hour(6)) == []
    book.schedules.update("job", keep=None)
    with pytest.raises(Invalid, match="where history starts"):
        book.schedules.backfill("job", hour(1), hour(6))
    with pytest.raises(Conflict, match="may have run before"):
        book.schedules.reschedule("job", hour(left[0] - 1))
    tick(store)
    assert hours_of(store, job) == left


def test_a_longer_keep_brings_nothing_back_that_was_deleted_under_the_former(
    store: Store, book: Book, clock: VirtualClock, job: str
) -> None:
    work(store, clock, 6)
    book.namespaces.keep("*", "2h")
    retain(store)
    for widen in (
        lambda: book.namespaces.keep("*", None),
        lambda: book.namespaces.keep("default", "365d"),
        lambda: book.schedules.update("job", keep="3650d"),
        lambda: book.schedules.update("job", keep=None),
        lambda: book.namespaces.keep("default", None),
    ):
        widen()
        with pytest.raises(Invalid, match="where history starts"):
            book.schedules.backfill("job", hour(1), hour(6))
        assert check_books(store, deep=True).balanced
    assert hours_of(store, job) == [4, 5, 6]


def test_what_was_deleted_is_not_missed(store: Store, book: Book, clock: VirtualClock) -> None:
    begin(store, lease=LONG)
    add_schedule(store, trigger=HOURLY)
    add_schedule(store, "few", trigger=HOURLY, keep_last=2)
    add_schedule(store, "brief", trigger=HOURLY, keep="2h")
    add_schedule(store, "skips", trigger=HOURLY, catchup="skip", grace="0s")
    work(store, clock, 3)
    clock.advance(HOUR + SECOND)
    tick(store)
    book.namespaces.keep("*", "1h")
    clock.advance(2 * HOUR - SECOND)
    tick(store)
    retain(store)
    for deep in (False, True):
        assert [f for f in check_books(store, deep).findings if f.problem] == []
    book.namespaces.keep("*", None)
    assert [f for f in check_books(store, True).findings if f.problem] == []


def test_an_explanation_says_that_a_due_time_is_past_its_keep(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    begin(store, lease=LONG)
    add_schedule(store, trigger=HOURLY, keep_last=2)
    work(store, clock, 5)
    retain(store)
    told = str(book.schedules.explain("job", hour(2)))
    assert told.endswith(
        "the ledger has no entry for it; it is past its keep: runs are kept for 90d, and only "
        "the newest 2"
    )
    assert "succeeded" in str(book.schedules.explain("job", hour(5)))


def test_an_edit_that_widens_catch_up_names_nothing_that_is_forgotten(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    begin(store, lease=LONG)
    add_schedule(store, trigger=HOURLY, catchup="skip", keep="2h")
    clock.advance(3 * HOUR + MINUTE)
    tick(store)
    clock.advance(2 * HOUR)
    tick(store)
    missed = book.schedules.preview_update("job", catchup="all").missed
    assert missed is not None
    assert missed.start >= clock.now - 2 * HOUR
    book.schedules.backfill("job", missed.start, missed.end)


def test_what_was_left_for_longer_is_looked_at_again_once_a_day(
    store: Store, book: Book, clock: VirtualClock, job: str
) -> None:
    """The sweep has already passed a schedule that no longer has its own `keep`."""
    book.schedules.update("job", keep="365d")
    work(store, clock, 2)

    def seconds() -> float:
        return clock.now.timestamp()

    retention = Retention(store, seconds)
    clock.advance(RETENTION)
    retention.step()
    assert hours_of(store, job)[:2] == [1, 2]
    book.schedules.update("job", keep=None)
    retention.step()
    assert hours_of(store, job)[:2] == [1, 2]
    clock.advance(timedelta(seconds=ANEW))
    retention.step()
    assert 1 not in hours_of(store, job)


def test_what_a_deleted_schedule_said_goes_with_it(
    store: Store, backend: Backend, book: Book, clock: VirtualClock
) -> None:
    add_schedule(store, keep_last=5)
    book.schedules.delete("job")
    clock.advance(RETENTION + DAY)
    retain(store)
    for table in ("schedules", "schedule_history"):
        assert backend.rows(f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608


@pytest.mark.parametrize("wrong", ["30m", "11000d", "never", ""])
def test_a_namespace_refuses_a_keep_that_is_none(book: Book, wrong: str) -> None:
    with pytest.raises(Invalid, match=r"^keep"):
        book.namespaces.keep("shop", wrong)
