"""Twenty-nine cases of older schedulers, restated: nothing is dropped, and planned exactly once.

    1  a new schedule with a window      its watermark is now: nothing is caught up
    2  a new one without a window        the same; a window given later finds the watermark
    3  deleted while a backlog drains    the rest is recorded as deleted, running work goes on
    4  a window is added                 the backlog counts from the watermark there is
    5  catching up is taken back         the rest is recorded, live due times go on
    6  the trigger changes               only the new one's due times are replayed
    7  the overlap policy changes        the backlog follows the new one at once
    8  renamed                           what was pending is recorded; the new one is new
    9  the same definition, another name as 8: two schedules, two accounts
    10 many schedules at once            all are planned at the next tick
    11 more than one tick takes          the others follow in the next: none is dropped
    12 missed and live together          in order: the live one waits behind
    13 several triggers                  one series, in order, without doubles
    14 paused with a backlog             nothing is decided; it resumes where it stopped
    15 skip_if_successful and a backlog  missed due times run nevertheless
    16 a run begins after the plan       the claim keeps the second one waiting
    17 a tick with nothing to do         no run and no entry; the watermark may move
    18 the work fails after the plan     the run says so; its due time is not planned again
    19 a crash between plan and commit   planned once by the next tick, not twice
    20 a crash right after the creation  a committed schedule keeps its watermark
    21 the watermark is missing          counts as new: nothing is caught up

And by name: no schedules, disabled, due, future, without a next due time, missed, an executor that
fails, an invalid cron expression.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.engine.ticker import Ticker
from duebook.errors import Conflict
from duebook.model.schedule import InvalidSchedule
from duebook.planner import plan
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    VirtualClock,
    begin,
    claim,
    get_ledger,
    get_runs,
    run_tick,
    settle,
    tick,
)

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.store.base import Store, Tx
    from tests.support.backends import Backend

HOUR = timedelta(hours=1)
LONG = timedelta(days=365)


def create(book: Book, name: str = "etl", **definition: Any) -> str:
    """An hourly schedule; returns its id."""
    form = {"trigger": "0 * * * *", "target": {"command": ["true"]}} | definition
    return book.schedules.create(name, **form).id


def fired(store: Store, schedule_id: str | None = None) -> list[str]:
    """The due times that became runs, in order, with their origin."""
    runs = [run for run in get_runs(store, schedule_id) if run.due_at is not None]
    return [f"{run.due_at:%H:%M} {run.origin}" for run in sorted(runs, key=lambda r: str(r.due_at))]


def recorded(store: Store, schedule_id: str) -> list[str]:
    """The ledger, oldest first: first due time, count and reason."""
    entries = sorted(get_ledger(store, schedule_id), key=lambda entry: entry.due_from)
    return [f"{entry.due_from:%H:%M} x{entry.count} {entry.reason}" for entry in entries]


def work(store: Store, status: Any = "succeeded") -> int:
    """Claim what is ready and settle it; returns how many runs that were."""
    claims = claim(store)
    for claimed in claims:
        settle(store, claimed.token, status)
    return len(claims)


def drain(store: Store, clock: VirtualClock) -> None:
    """Work and tick until the backlog is gone."""
    for _ in range(20):
        tick(store)
        work(store)
        clock.advance(SECOND)


@pytest.fixture(autouse=True)
def _node(store: Store) -> None:
    begin(store, lease=LONG)


@pytest.mark.parametrize("window", ["6h", None])
def test_case_01_a_new_schedule_catches_nothing_up_with_or_without_a_window(
    book: Book, clock: VirtualClock, window: str | None
) -> None:
    etl = create(book, catchup="all", catchup_window=window)
    assert book.schedules.get("etl").watermark == BEGIN
    assert tick(book.store) == 0
    clock.advance(HOUR)
    tick(book.store)
    assert (fired(book.store, etl), recorded(book.store, etl)) == (["13:00 schedule"], [])


def test_case_01_after_a_restart_the_watermark_counts(
    book: Book, backend: Backend, clock: VirtualClock
) -> None:
    etl = create(book, catchup="all", catchup_window="6h", overlap="queue")
    clock.advance(3 * HOUR + 30 * MINUTE)
    again = backend.open()
    drain(again, clock)
    assert fired(again, etl) == ["13:00 catchup", "14:00 catchup", "15:00 catchup"]


def test_case_02_a_window_given_later_finds_the_watermark(book: Book, clock: VirtualClock) -> None:
    etl = create(book, catchup="skip", overlap="queue")
    clock.advance(2 * HOUR + 30 * MINUTE)
    book.schedules.update("etl", catchup="all", catchup_window="6h")
    drain(book.store, clock)
    assert fired(book.store, etl) == ["13:00 catchup", "14:00 catchup"]


def test_case_03_deleted_while_a_backlog_drains(book: Book, clock: VirtualClock) -> None:
    etl = create(book, catchup="all")
    clock.advance(4 * HOUR + 30 * MINUTE)
    tick(book.store)
    (running,) = claim(book.store)
    book.schedules.delete("etl")
    assert recorded(book.store, etl) == ["14:00 x3 deleted"]
    clock.advance(HOUR)
    assert tick(book.store) == 0
    assert settle(book.store, running.token)
    assert fired(book.store, etl) == ["13:00 catchup"]


def test_case_04_a_window_is_added(book: Book, clock: VirtualClock) -> None:
    etl = create(book, catchup="skip", overlap="queue")
    clock.advance(HOUR)
    tick(book.store)
    work(book.store)
    clock.advance(4 * HOUR + 30 * MINUTE)
    book.schedules.update("etl", catchup="all", catchup_window="150m")
    drain(book.store, clock)
    assert recorded(book.store, etl) == ["14:00 x1 expired"]
    assert fired(book.store, etl)[1:] == ["15:00 catchup", "16:00 catchup", "17:00 catchup"]


def test_case_05_catching_up_is_taken_back(book: Book, clock: VirtualClock) -> None:
    etl = create(book, catchup="all", catchup_window="6h")
    clock.advance(4 * HOUR + 30 * MINUTE)
    tick(book.store)
    work(book.store)
    book.schedules.update("etl", catchup="skip", catchup_window=None)
    drain(book.store, clock)
    assert recorded(book.store, etl) == ["14:00 x3 missed"]
    clock.advance(30 * MINUTE)
    tick(book.store)
    assert fired(book.store, etl) == ["13:00 catchup", "17:00 schedule"]


def test_case_06_the_trigger_changes(book: Book, clock: VirtualClock) -> None:
    etl = create(book, catchup="all", overlap="queue")
    clock.advance(3 * HOUR + 30 * MINUTE)
    book.schedules.update("etl", trigger="15 * * * *")
    drain(book.store, clock)
    assert fired(book.store, etl) == [
        "12:15 catchup",
        "13:15 catchup",
        "14:15 catchup",
        "15:15 catchup",
    ]
    assert recorded(book.store, etl) == ["13:00 x3 edited"]


def test_case_07_the_overlap_policy_changes(book: Book, clock: VirtualClock) -> None:
    etl = create(book, catchup="all", overlap="queue")
    book.schedules.trigger("etl")
    (by_hand,) = claim(book.store)
    clock.advance(3 * HOUR + 30 * MINUTE)
    assert tick(book.store) == 0
    book.schedules.update("etl", overlap="latest")
    settle(book.store, by_hand.token)
    tick(book.store)
    assert fired(book.store, etl) == ["15:00 catchup"]
    assert recorded(book.store, etl) == ["13:00 x2 superseded"]


def test_case_08_another_name_is_another_schedule(book: Book, clock: VirtualClock) -> None:
    old = create(book, "old", catchup="all")
    clock.advance(2 * HOUR + 30 * MINUTE)
    book.schedules.delete("old")
    new = create(book, "new", catchup="all")
    assert recorded(book.store, old) == ["13:00 x2 deleted"]
    tick(book.store)
    assert fired(book.store) == []
    clock.advance(30 * MINUTE)
    tick(book.store)
    assert (fired(book.store, old), fired(book.store, new)) == ([], ["15:00 schedule"])


def test_case_09_a_name_that_is_free_again_starts_anew(book: Book, clock: VirtualClock) -> None:
    first = create(book)
    clock.advance(HOUR + 30 * MINUTE)
    book.schedules.delete("etl")
    second = create(book)
    assert first != second
    assert book.schedules.get("etl").watermark == clock.now
    assert recorded(book.store, first) == ["13:00 x1 deleted"]
    assert recorded(book.store, second) == []


def test_case_10_many_schedules_at_once(book: Book, clock: VirtualClock) -> None:
    for number in range(300):
        create(book, f"etl-{number}")
    clock.advance(HOUR)
    assert tick(book.store) == 300


def test_case_11_more_than_one_tick_takes(book: Book, clock: VirtualClock) -> None:
    for number in range(30):
        create(book, f"etl-{number}")
    clock.advance(HOUR)
    ticker = Ticker(book.store, batch=7)
    for _ in range(5):
        ticker.step()
    assert fired(book.store) == ["13:00 schedule"] * 30


def test_case_12_missed_and_live_together(book: Book, clock: VirtualClock) -> None:
    etl = create(book, catchup="all", overlap="queue")
    clock.advance(3 * HOUR)
    drain(book.store, clock)
    assert fired(book.store, etl) == ["13:00 catchup", "14:00 catchup", "15:00 schedule"]
    begun = [run.due_at for run in sorted(get_runs(book.store), key=lambda r: str(r.started_at))]
    assert begun == sorted(begun, key=str)


def test_case_13_several_triggers(book: Book, clock: VirtualClock) -> None:
    etl = create(book, trigger=["0 * * * *", "30 * * * *", "0 13 * * *"], overlap="allow")
    for _ in range(120):
        clock.advance(MINUTE)
        tick(book.store)
    expected = [f"{time} schedule" for time in ("12:30", "13:00", "13:30", "14:00")]
    assert (fired(book.store, etl), recorded(book.store, etl)) == (expected, [])


def test_case_14_paused_with_a_backlog(book: Book, clock: VirtualClock) -> None:
    etl = create(book, catchup="all", overlap="queue")
    clock.advance(3 * HOUR + 30 * MINUTE)
    tick(book.store)
    book.schedules.pause("etl")
    work(book.store)
    clock.advance(2 * HOUR)
    assert tick(book.store) == 0
    book.schedules.resume("etl")
    drain(book.store, clock)
    assert fired(book.store, etl) == ["13:00 catchup", "14:00 catchup", "15:00 catchup"]
    assert recorded(book.store, etl) == ["16:00 x2 paused"]


def test_case_15_skip_if_successful_and_a_backlog(book: Book, clock: VirtualClock) -> None:
    etl = create(book, catchup="all", overlap="queue", skip_if_successful=True)
    clock.advance(2 * HOUR + 30 * MINUTE)
    book.schedules.trigger("etl")
    work(book.store)
    drain(book.store, clock)
    assert fired(book.store, etl) == ["13:00 catchup", "14:00 catchup"]
    clock.now = BEGIN + 3 * HOUR
    tick(book.store)
    assert recorded(book.store, etl) == ["15:00 x1 already_succeeded"]


def test_case_16_a_run_begins_after_the_plan(book: Book, clock: VirtualClock) -> None:
    etl = create(book)
    clock.advance(HOUR)
    tick(book.store)
    book.schedules.trigger("etl")
    begun = claim(book.store)
    assert len(begun) == 1, "the other waits for its turn"
    settle(book.store, begun[0].token)
    assert len(claim(book.store)) == 1
    assert fired(book.store, etl) == ["13:00 schedule"]


def test_case_17_a_tick_with_nothing_to_do(book: Book, clock: VirtualClock) -> None:
    etl = create(book)
    clock.advance(MINUTE)
    for _ in range(3):
        assert tick(book.store) == 0
    assert (fired(book.store, etl), recorded(book.store, etl)) == ([], [])
    assert book.schedules.get("etl").next_due_at == BEGIN + HOUR


def test_case_18_the_work_fails_after_the_plan(book: Book, clock: VirtualClock) -> None:
    etl = create(book)
    clock.advance(HOUR)
    tick(book.store)
    work(book.store, "failed")
    clock.advance(MINUTE)
    assert tick(book.store) == 0
    (run,) = get_runs(book.store, etl)
    assert (run.status, run.failures, run.due_at) == ("failed", 1, BEGIN + HOUR)


def test_case_19_a_crash_between_plan_and_commit(
    book: Book, backend: Backend, clock: VirtualClock
) -> None:
    etl = create(book, catchup="all", overlap="allow", catchup_pace="0s")
    clock.advance(2 * HOUR + 30 * MINUTE)

    def crash(tx: Tx) -> None:
        assert run_tick(tx) == 2
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        book.store.transact(crash)
    again = backend.open()
    assert fired(again) == []
    assert [tick(again), tick(again)] == [2, 0]
    assert fired(again, etl) == ["13:00 catchup", "14:00 catchup"]


def test_case_20_a_crash_right_after_the_creation(
    book: Book, backend: Backend, clock: VirtualClock
) -> None:
    etl = create(book)
    again = backend.open()
    clock.advance(HOUR + 30 * MINUTE)
    tick(again)
    assert fired(again, etl) == ["13:00 catchup"], "the watermark is that of its creation"


def test_case_21_the_watermark_is_missing(book: Book, clock: VirtualClock) -> None:
    etl = create(book, catchup="all")
    clock.advance(5 * HOUR + 30 * MINUTE)

    def without_watermark(tx: Tx) -> int:
        lost = replace(tx.plans.snapshot(etl), watermark=None)
        return tx.plans.commit([plan(lost, tx.now)], None)

    assert book.store.transact(without_watermark) == 0
    assert book.schedules.get("etl").watermark == clock.now
    assert (fired(book.store, etl), recorded(book.store, etl)) == ([], [])


# -- by name


def test_no_schedules(store: Store) -> None:
    assert (tick(store), Ticker(store).step()) == (0, None)


def test_a_disabled_schedule(book: Book, clock: VirtualClock) -> None:
    etl = create(book)
    book.schedules.pause("etl")
    clock.advance(3 * HOUR)
    assert tick(book.store) == 0
    with pytest.raises(Conflict, match="paused"):
        book.schedules.pause("etl")
    assert recorded(book.store, etl) == []


def test_a_due_schedule(book: Book, clock: VirtualClock) -> None:
    create(book)
    clock.advance(HOUR)
    assert tick(book.store) == 1
    (run,) = get_runs(book.store)
    assert run.trigger == "schedule:0 * * * *"
    assert book.schedules.get("etl").next_due_at == BEGIN + 2 * HOUR


def test_a_schedule_of_the_future(book: Book, clock: VirtualClock) -> None:
    create(book)
    clock.advance(HOUR - SECOND)
    assert tick(book.store) == 0


def test_a_schedule_without_a_next_due_time(book: Book, clock: VirtualClock) -> None:
    with pytest.raises(InvalidSchedule, match="no due time"):
        create(book, end_at="2026-01-05T12:30:00Z")
    create(book, trigger={"at": "2026-01-05T12:10:00Z"})
    clock.advance(HOUR)
    tick(book.store)
    assert book.schedules.get("etl").next_due_at is None
    work(book.store)
    tick(book.store)
    assert book.schedules.get("etl").status == "completed"


def test_a_missed_schedule_is_caught_up_once(book: Book, clock: VirtualClock) -> None:
    etl = create(book)
    clock.advance(3 * HOUR + 30 * MINUTE)
    tick(book.store)
    assert fired(book.store, etl) == ["15:00 catchup"]
    assert recorded(book.store, etl) == ["13:00 x2 coalesced"]
    assert book.schedules.get("etl").next_due_at == BEGIN + 4 * HOUR


def test_an_executor_that_fails_does_not_stop_the_schedule(book: Book, clock: VirtualClock) -> None:
    etl = create(book)
    for _ in range(3):
        clock.advance(HOUR)
        tick(book.store)
        work(book.store, "failed")
    assert len(fired(book.store, etl)) == 3


def test_an_invalid_cron_expression_is_refused(book: Book) -> None:
    with pytest.raises(InvalidSchedule, match="minute 61"):
        create(book, trigger="61 * * * *")
    assert book.schedules.list() == []
