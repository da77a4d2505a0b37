"""The figures of the overview pages are right in every store."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import pytest

from duebook.book import Book, insights
from duebook.book.run_marks import measure_labelled
from duebook.errors import NotFound
from duebook.model.run import Outcome, lateness
from duebook.model.statistics import figures
from duebook.planner.due import jittered
from duebook.store.sql import looking
from duebook.web.forecast import coming_hours
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    add_run,
    add_schedule,
    begin,
    claim,
    get_runs,
    settle,
    tick,
)

if TYPE_CHECKING:
    from duebook.store.base import Store
    from tests.support.builders import VirtualClock

HOUR = timedelta(hours=1)


def ran(store: Store, clock: VirtualClock, count: int, status: str = "succeeded") -> None:
    """Let minutes pass; each due run takes 10 seconds."""
    for _ in range(count):
        clock.advance(MINUTE)
        tick(store)
        begun = claim(store)
        clock.advance(10 * SECOND)
        for claimed in begun:
            settle(store, claimed.token, status)  # type: ignore[arg-type]
        clock.advance(-10 * SECOND)


def test_marks_are_the_newest_of_each_with_those_by_hand(store: Store, clock: VirtualClock) -> None:
    first, second = add_schedule(store, "first"), add_schedule(store, "second")
    add_schedule(store, "third", trigger={"cron": "@yearly"})
    begin(store, lease=HOUR)
    ran(store, clock, 5)
    by_hand = add_run(store, first)
    marks = store.read(lambda tx: tx.insights.list_marks([first, second, "nobody"], 3))
    assert set(marks) == {first, second}
    assert [mark.at for mark in marks[second]] == [BEGIN + n * MINUTE for n in (3, 4, 5)]
    assert marks[second][-1].took == 10 * SECOND
    assert lateness(marks[second][-1]) == timedelta()
    assert marks[first][-1].id == by_hand
    assert lateness(marks[first][-1]) is None
    assert len(marks[first]) == 3
    assert store.read(lambda tx: tx.insights.list_marks([], 3)) == {}


def test_what_runs_failed_and_began_late_is_found(store: Store, clock: VirtualClock) -> None:
    begin(store, lease=HOUR)
    job = add_schedule(store)
    clock.advance(MINUTE)
    tick(store)
    clock.advance(5 * MINUTE)
    (claimed,) = claim(store)
    assert [run.id for run in store.read(lambda tx: tx.insights.list_running("default", 5))] == [
        claimed.run.id
    ]
    assert store.read(lambda tx: tx.insights.list_running("shop", 5)) == []
    settle(store, claimed.token, "failed")
    assert store.read(lambda tx: tx.insights.list_running("default", 5)) == []
    late = store.read(lambda tx: tx.insights.list_late("default", BEGIN, MINUTE, 5))
    assert [run.id for run in late] == [claimed.run.id]
    of_no_schedule = late[0]._replace(id="x", schedule_id=None)
    found = store.read(lambda tx: tx.insights.list_specs([*late, of_no_schedule]))
    assert {id_: spec.tz for id_, spec in found.items()} == {claimed.run.id: "UTC"}
    assert store.read(lambda tx: tx.insights.list_late("default", BEGIN, HOUR, 5)) == []
    assert store.read(lambda tx: tx.insights.list_late("shop", BEGIN, MINUTE, 5)) == []
    assert store.read(lambda tx: tx.insights.count_failed("default", BEGIN, 10)) == 1
    assert store.read(lambda tx: tx.insights.count_failed("shop", BEGIN, 10)) == 0
    assert len(get_runs(store, job)) == 1


def test_backfills_retries_and_jitter_are_not_late(store: Store, clock: VirtualClock) -> None:
    begin(store, lease=24 * HOUR)
    retried: dict[str, Any] = {
        "retry": {"attempts": 2, "delay": "40m"},
        "trigger": {"cron": "@hourly"},
    }
    add_schedule(store, "retried", **retried)
    add_schedule(store, "shifted", trigger={"cron": "@hourly"}, jitter="30m", grace="1h")
    clock.advance(HOUR)
    tick(store)
    (first,) = claim(store)
    failed = Outcome("failed", "exit_code", "exit code 3", 3)
    store.transact(lambda tx: tx.attempts.settle(first.token, failed, 40 * MINUTE))
    shift = jittered(BEGIN + HOUR, 30 * MINUTE, "shifted") - (BEGIN + HOUR)
    assert shift > 2 * MINUTE
    clock.advance(shift)
    tick(store)
    assert [claimed.run.schedule for claimed in claim(store)] == ["shifted"]
    clock.advance(40 * MINUTE)
    assert [claimed.run.schedule for claimed in claim(store)] == ["retried"]
    book = Book(store)
    book.schedules.backfill("retried", start=BEGIN - HOUR, end=BEGIN)
    assert book.insights.overview().late == []
    (mark,) = book.insights.marks("shifted", 5)
    assert figures([mark]).highest_lateness == timedelta()


def test_what_waited_for_a_backfill_or_was_retried_is_not_late(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, lease=24 * HOUR)
    add_schedule(store, "hourly", trigger={"cron": "@hourly"}, grace="1h")
    add_schedule(store, "stopped", trigger={"cron": "@hourly"}, grace="1h", queue="other")
    book = Book(store)
    book.schedules.backfill("hourly", start=BEGIN - HOUR, end=BEGIN)
    clock.advance(HOUR - MINUTE)
    (filling,) = claim(store, limit=1)
    clock.advance(MINUTE)
    tick(store)
    (stopped,) = book.runs.list("stopped")
    book.runs.cancel(stopped.id)  # before it was started
    clock.advance(20 * MINUTE)
    settle(store, filling.token)
    tick(store)
    (waited,) = claim(store, limit=1)
    assert (waited.run.origin, waited.run.due_at) == ("schedule", BEGIN + HOUR)
    book.runs.retry(stopped.id)
    (again,) = claim(store, queue="other")
    assert (again.run.id, again.run.attempt) == (stopped.id, 1)
    assert book.insights.overview().late == []


def test_the_lateness_of_an_hour_is_without_jitter_and_backfills(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, lease=3 * HOUR)
    book = Book(store)
    hourly = {"cron": "0 * * * *"}
    for name in ("plain", "filled"):
        add_schedule(store, name, trigger=hourly)
    add_schedule(store, "jittered", trigger=hourly, jitter="20m")
    add_schedule(store, "foreign", namespace="shop", trigger=hourly)
    book.schedules.backfill("filled", start=BEGIN - HOUR, end=BEGIN)
    (filled,) = claim(store)
    clock.advance(HOUR + 20 * MINUTE)
    settle(store, filled.token)
    assert book.insights.hours(BEGIN, BEGIN + 2 * HOUR)[0].late == 0
    tick(store)
    for claimed in claim(store):
        settle(store, claimed.token)
    (load,) = book.insights.hours(BEGIN, BEGIN + 2 * HOUR)
    assert (load.hour, load.runs, load.late) == (BEGIN + HOUR, 4, 1)
    assert load.latest == 20 * MINUTE
    assert book.insights.hours(BEGIN, BEGIN + HOUR) == []


def test_the_late_runs_of_an_hour_are_counted_one_by_one(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those within their jitter do not count, even if another of the schedule does; of too many,
    the newest count."""
    begin(store, lease=9 * HOUR)
    book = Book(store)
    often = {"cron": "0,20 * * * *"}
    add_schedule(store, "jittered", trigger=often, jitter="10m", overlap="allow", grace="2h")
    for hours in (1, 2):
        clock.advance(BEGIN + hours * HOUR + 31 * MINUTE - clock.now)
        tick(store)
        for claimed in claim(store):
            settle(store, claimed.token)
    assert counted(book) == [(3, 2, True), (2, 1, True)]
    monkeypatch.setattr("duebook.store.sql.insights.LOOKED", 3)
    (_, _, known), newest = counted(book)
    assert (known, newest) == (False, (2, 1, True))


def counted(book: Book) -> list[tuple[int, int, bool]]:
    """Runs that ended in each hour, how many of them were late, and whether all were counted."""
    loads = sorted(book.insights.hours(BEGIN, BEGIN + 4 * HOUR), key=lambda load: load.hour)
    return [(load.runs, load.late, load.late_complete) for load in loads]


def test_hours_and_durations_add_up(store: Store, clock: VirtualClock) -> None:
    begin(store, lease=3 * HOUR)
    job = add_schedule(store)
    ran(store, clock, 3)
    clock.advance(HOUR)
    ran(store, clock, 1, "failed")
    hours = store.read(lambda tx: tx.insights.count_hours("default", BEGIN, BEGIN + 3 * HOUR))
    hours.sort(key=lambda load: load.hour)
    assert [(load.hour, load.runs, load.failed) for load in hours] == [
        (BEGIN, 3, 0),
        (BEGIN + HOUR, 1, 1),
    ]
    assert hours[0].busy == 30 * SECOND
    assert store.read(lambda tx: tx.insights.count_hours("default", BEGIN, BEGIN)) == []
    assert store.read(lambda tx: tx.insights.list_durations("default")) == {job: 10 * SECOND}
    assert store.read(lambda tx: tx.insights.list_durations("shop")) == {}


def test_active_schedules_are_listed_with_their_definitions(store: Store) -> None:
    for name in ("a", "b", "c"):
        add_schedule(store, name)
    add_schedule(store, "else", "shop")
    Book(store).schedules.pause("b")
    first, after = store.read(lambda tx: tx.insights.list_planned("default", "", 1))
    assert [planned.name for planned in first] == ["a"]
    assert after == "a"
    rest, after = store.read(lambda tx: tx.insights.list_planned("default", "a", 5))
    assert [planned.name for planned in rest] == ["c"]
    assert after is None
    assert store.read(lambda tx: tx.insights.list_inhabited()) == ["default", "shop"]


def test_the_signal_differs_after_everything_that_a_page_shows(
    store: Store, clock: VirtualClock
) -> None:
    seen = []

    def look() -> None:
        signal = store.read(lambda tx: tx.insights.signal("default"))
        assert signal not in seen
        assert signal == store.read(lambda tx: tx.insights.signal("default"))
        seen.append(signal)

    look()
    Book(store).schedules.create("job", trigger={"every": "1m"}, target={"command": ["true"]})
    look()
    begin(store, lease=HOUR)
    look()
    clock.advance(MINUTE)
    tick(store)
    look()
    (claimed,) = claim(store)
    look()
    clock.advance(SECOND)
    settle(store, claimed.token)
    look()
    Book(store).schedules.pause("job")
    look()


def test_the_overview_tells_what_is_due_in_the_next_hour(store: Store, clock: VirtualClock) -> None:
    add_schedule(store, "often", trigger={"every": "10m", "anchor": "2026-01-05T12:00:00Z"})
    add_schedule(store, "seldom", trigger={"cron": "@yearly"})
    add_schedule(store, "lost", target={"task": "nobody_knows"}, trigger={"cron": "@yearly"})
    overview = Book(store).insights.overview()
    assert [(c.at - clock.now) // MINUTE for c in overview.coming] == [10, 20, 30, 40, 50, 60]
    assert {c.schedule for c in overview.coming} == {"often"}
    assert overview.coming_until == clock.now + HOUR
    assert [s.name for s in overview.problems] == ["lost"]
    assert overview.schedules == 3


def test_the_next_hour_is_whole_among_many_that_are_due_later(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "MOST_LOOKED", 4)
    monkeypatch.setattr(insights, "MOST_COMING", 3)
    add_schedule(store, "soon", trigger={"every": "50m", "anchor": "2026-01-05T12:00:00Z"})
    for number in range(8):
        add_schedule(store, f"later-{number}", trigger={"cron": "@yearly"})
    overview = Book(store).insights.overview()
    assert [c.schedule for c in overview.coming] == ["soon"]
    assert overview.coming_until == clock.now + HOUR
    for number in range(4):
        every = {"every": f"{20 + number}m", "anchor": "2026-01-05T12:00:00Z"}
        add_schedule(store, f"sooner-{number}", trigger=every)
    cut = Book(store).insights.overview()
    assert {c.schedule for c in cut.coming} == {"sooner-0", "sooner-1", "sooner-2"}
    assert cut.coming_until == clock.now + 22 * MINUTE


def test_skipped_and_moved_due_times_are_not_coming(store: Store, clock: VirtualClock) -> None:
    add_schedule(store, "often", trigger={"every": "20m", "anchor": "2026-01-05T12:00:00Z"})
    book = Book(store)
    book.schedules.reschedule("often", clock.now + 5 * MINUTE)
    coming = book.insights.overview().coming
    assert [(c.at - clock.now) // MINUTE for c in coming] == [5, 40, 60]
    book.schedules.skip_next("often")
    assert [c.at for c in book.insights.overview().coming] == [c.at for c in coming[1:]]
    (planned,), _ = book.insights.planned("", 5)
    assert coming_hours([planned], {}, clock.now)[clock.now][0] == 1
    book.windows.add("disks", clock.now + HOUR, clock.now + 2 * HOUR)
    (paused,), _ = book.insights.planned("", 5)
    assert clock.now + HOUR not in coming_hours([paused], {}, clock.now)


def test_the_last_success_is_found_behind_failures(store: Store, clock: VirtualClock) -> None:
    begin(store, lease=3 * HOUR)
    watched: dict[str, Any] = {"labels": {"metrics": "true"}, "jitter": "30s"}
    add_schedule(store, "watched", "shop", **watched)
    add_schedule(store, "new", **watched, trigger={"cron": "@yearly"})
    add_schedule(store, "plain", "other")
    ends: list[Literal["succeeded", "failed"]] = ["succeeded"]
    ends += ["failed"] * 7
    for status in ends:
        clock.advance(MINUTE + 30 * SECOND)
        tick(store)
        for claimed in claim(store, namespace="shop"):
            clock.advance(SECOND)
            settle(store, claimed.token, status)
            if claimed.run.schedule == "watched" and status == "succeeded":
                succeeded_at = clock.now
    new, found = store.read(measure_labelled)
    assert new == ("default", "new", False, None, None, None)
    assert found[:4] == ("shop", "watched", True, succeeded_at)
    assert found.last_duration == SECOND
    assert found.last_lateness is not None


def test_statistics_tell_of_success_and_lateness_even_of_a_deleted_schedule(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, lease=3 * HOUR)
    add_schedule(store, trigger={"cron": "* * * * *", "tz": "Asia/Tokyo"})
    clock.advance(MINUTE)
    tick(store)
    clock.advance(5 * SECOND)
    (claimed,) = claim(store)
    clock.advance(10 * SECOND)
    settle(store, claimed.token)
    book = Book(store)
    book.schedules.delete("job")
    found = book.schedules.statistics("job")
    assert (found.tz, found.total.success_rate, found.last_success_at) == (
        "Asia/Tokyo",
        1.0,
        clock.now,
    )
    assert (found.last_duration, found.last_lateness) == (10 * SECOND, 5 * SECOND)
    with pytest.raises(NotFound, match="nobody"):
        book.schedules.statistics("nobody")
