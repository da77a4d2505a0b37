"""Explanations through the book: the facts they name match the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.errors import InvalidTime, InvalidTrigger, NotFound
from duebook.explain import Explanation
from duebook.model.codec import encode
from duebook.planner import DueTimes
from duebook.store.values import SessionInfo
from tests.support.builders import (
    BEGIN,
    LEASE,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    begin,
    claim,
    get_runs,
    overlap,
    settle,
    tick,
)

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.store.base import Store

HOUR = 60 * MINUTE
HOURLY = {"cron": "0 * * * *"}


def create(book: Book, trigger: Any = HOURLY, name: str = "job", **policies: Any) -> None:
    book.schedules.create(name, trigger=trigger, target={"command": ["true"]}, **policies)


def explain(book: Book, at: str | datetime) -> Explanation:
    answer = book.schedules.explain("job", at=at)
    assert isinstance(answer, Explanation)
    return answer


def explain_all(book: Book, start: datetime, end: datetime) -> list[Explanation]:
    answer = book.schedules.explain("job", start=start, end=end)
    assert isinstance(answer, list)
    return answer


def node_lives(store: Store, clock: VirtualClock, until: datetime, name: str = "a") -> None:
    """A scheduler that ticks and renews every minute, then leaves."""
    info = SessionInfo(name, f"host-{name}", 1, "scheduler,worker", "0", "2026a")
    store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))
    while clock.now < until:
        tick(store, session_id=name)
        store.transact(lambda tx: tx.nodes.renew(name, LEASE))
        clock.advance(min(MINUTE, until - clock.now))
    tick(store, session_id=name)
    store.transact(lambda tx: tx.nodes.end_session(name))


def day(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 1, 6, hour, minute, tzinfo=UTC)


# -- what ran


def test_a_sentence_tells_times_in_the_zone_that_is_asked_for(
    book: Book, clock: VirtualClock
) -> None:
    create(book, {"cron": "0 * * * *", "tz": "America/New_York"}, exclude=["2026-01-06"])
    clock.now = BEGIN + HOUR
    tick(book.store)
    begin(book.store)
    (claimed,) = claim(book.store)
    settle(book.store, claimed.token, "failed", error="boom")
    told = book.schedules.explain("job", at=BEGIN + HOUR, tz="Asia/Tokyo")
    assert isinstance(told, Explanation)
    assert told.text.startswith("ran at 22:00, ")
    assert (told.tz, told.verdict, told.run_status) == ("Asia/Tokyo", "ran", "failed")
    clock.now = datetime(2026, 1, 7, 12, tzinfo=UTC)
    tick(book.store)
    left_out = book.schedules.explain("job", at="2026-01-06T20:00", tz="Asia/Tokyo")
    assert str(left_out) == "excluded: 6 January is one of its excluded days"
    with pytest.raises(InvalidTrigger):
        book.schedules.explain("job", at=BEGIN, tz="Mars/Olympus")


def test_a_run_is_told_with_its_delay_length_end_and_node(book: Book, clock: VirtualClock) -> None:
    create(book)
    clock.now = BEGIN + HOUR
    tick(book.store)
    clock.advance(3 * SECOND)
    begin(book.store)
    (work,) = claim(book.store)
    clock.advance(SECOND)
    assert explain(book, BEGIN + HOUR).text.startswith("running since 13:00:03, 3 s late, for 1 s")
    clock.advance(12 * MINUTE - SECOND)
    settle(book.store, work.token)
    told = explain(book, BEGIN + HOUR)
    assert told.text == "ran at 13:00:03, 3 s late, for 12 min, succeeded on host-of-node-1"
    assert (told.verdict, told.reason, told.run_id) == ("ran", None, work.run.id)
    assert encode(told) == {
        "at": "2026-01-05T13:00:00Z",
        "verdict": "ran",
        "reason": None,
        "run_id": work.run.id,
        "run_status": "succeeded",
        "other_run_id": None,
        "text": told.text,
        "tz": "UTC",
        "kind": "start",
    }


def test_a_failure_names_its_error_and_a_retry_its_attempt(book: Book, clock: VirtualClock) -> None:
    create(book)
    clock.now = BEGIN + HOUR
    tick(book.store)
    assert explain(book, clock.now).text == (
        "queued since 13:00, for less than 1 s: no worker has started it yet"
    )
    begin(book.store)
    (work,) = claim(book.store)
    clock.advance(20 * SECOND)
    settle(book.store, work.token, "failed", error="exit code 1")
    told = explain(book, BEGIN + HOUR)
    assert told.text == "ran at 13:00, for 20 s, failed on host-of-node-1: exit code 1"
    book.runs.retry(work.run.id)
    assert explain(book, BEGIN + HOUR).text == (
        "queued again, for attempt 2, ahead of runs that became ready after 13:00:20: "
        "no worker has started it yet"
    )
    (work,) = claim(book.store)
    clock.advance(20 * SECOND)
    settle(book.store, work.token)
    told = explain(book, BEGIN + HOUR)
    assert told.text == ("ran at 13:00:20, for 20 s, succeeded on host-of-node-1 (attempt 2)")


def test_an_attempt_that_went_on_beside_its_successor_is_told(
    book: Book, clock: VirtualClock
) -> None:
    create(book)
    clock.now = BEGIN + HOUR
    tick(book.store)
    begin(book.store)
    (work,) = claim(book.store)
    clock.advance(20 * SECOND)
    overlap(book.store, work, 5 * SECOND)
    clock.advance(10 * SECOND)
    assert explain(book, BEGIN + HOUR).text == (
        "running since 13:00:20, for 10 s, on host-of-successor (attempt 2); "
        "attempt 1 on host-of-node-1 continued until 13:00:25 beside attempt 2, "
        "because its node was paused or disconnected for longer than its lease"
    )


def test_a_backfill_is_told_with_what_it_made_good(book: Book, clock: VirtualClock) -> None:
    create(book, catchup="skip")
    clock.now = BEGIN + 2 * HOUR + 10 * MINUTE
    tick(book.store)
    book.schedules.backfill("job", BEGIN + HOUR, BEGIN + HOUR)
    told = explain(book, BEGIN + HOUR)
    assert told.verdict == "queued"
    assert told.text.startswith("queued as a backfill since 14:10")
    assert told.text.endswith("; before that, it was skipped (missed)")


def test_a_backfill_names_the_due_time_that_it_gives_way_to(
    book: Book, clock: VirtualClock
) -> None:
    create(book, catchup="skip")
    clock.now = BEGIN + 2 * HOUR + 10 * MINUTE
    tick(book.store)
    book.schedules.backfill("job", BEGIN + HOUR, BEGIN + HOUR)
    assert "no worker has started it yet" in explain(book, BEGIN + HOUR).text
    clock.now = BEGIN + 3 * HOUR
    tick(book.store)
    told = explain(book, BEGIN + HOUR).text
    assert "it gives way to the run of 15:00, which is queued" in told


# -- what was skipped


def test_an_overlap_names_the_run_and_how_long_it_was_active(
    book: Book, clock: VirtualClock
) -> None:
    create(book, {"cron": "0,14 2,3 * * *"}, catchup="skip")
    clock.now = day(2)
    tick(book.store)
    begin(book.store)
    (work,) = claim(book.store)
    clock.now = day(3, 14)
    tick(book.store)
    told = explain(book, day(3, 14))
    assert told.text == (
        f"skipped: run {work.run.id[:13]} was still active, since 02:00, for 74 min"
    )
    assert (told.verdict, told.reason, told.run_id) == ("skipped", "overlap", None)
    assert told.other_run_id == work.run.id


def test_a_range_of_overlaps_counts_up_to_the_due_time_asked_about(
    book: Book, clock: VirtualClock
) -> None:
    create(book, {"cron": "*/10 * * * *"})
    clock.now = BEGIN + 10 * MINUTE
    tick(book.store)
    run_id = get_runs(book.store)[0].id
    for _ in range(5):
        clock.advance(10 * MINUTE)
        tick(book.store)
    assert len(book.schedules.ledger("job")) == 1, "one entry that goes on"
    told = explain(book, BEGIN + 40 * MINUTE)
    assert told.text == f"skipped: run {run_id[:13]} was still active, since 12:10, for 30 min"
    assert explain(book, BEGIN + 41 * MINUTE).verdict == "not_due"


def test_two_live_due_times_in_one_plan(book: Book, clock: VirtualClock) -> None:
    create(book, {"cron": "*/5 * * * *"}, grace="1h")
    clock.now = BEGIN + 10 * MINUTE
    tick(book.store)
    assert explain(book, BEGIN + 10 * MINUTE).text == (
        "skipped: the run of 12:05 was about to start"
    )


def test_a_coalesced_due_time_names_the_outage_and_what_fired_instead(
    book: Book, clock: VirtualClock
) -> None:
    create(book, HOURLY, overlap="allow")
    node_lives(book.store, clock, day(1, 12), "a")
    clock.now = day(4, 40)
    node_lives(book.store, clock, day(4, 45), "b")
    for hour in (2, 3):
        told = explain(book, day(hour))
        assert told.text == (
            "missed: no scheduler was running from 01:12 to 04:40; catchup=one fired 04:00 instead"
        )
        assert told.reason == "coalesced"
    assert explain(book, day(4)).text == (
        "queued as a catch-up run since 04:40, for 5 min: no worker has started it yet"
    )


def test_a_missed_due_time_that_was_dropped(book: Book, clock: VirtualClock) -> None:
    create(book, HOURLY, catchup="skip")
    node_lives(book.store, clock, BEGIN + 30 * MINUTE, "a")
    clock.now = BEGIN + 100 * MINUTE
    node_lives(book.store, clock, BEGIN + 101 * MINUTE, "b")
    assert explain(book, BEGIN + HOUR).text == (
        "missed: no scheduler was running from 12:30 to 13:40; catchup=skip dropped it"
    )


def test_a_due_time_that_a_running_scheduler_saw_late(book: Book, clock: VirtualClock) -> None:
    create(book, HOURLY, catchup="skip")
    info = SessionInfo("a", "host-a", 1, "scheduler", "0", "2026a")
    book.store.transact(lambda tx: tx.nodes.begin_session(info, 2 * HOUR))
    clock.now = BEGIN + 72 * MINUTE
    tick(book.store, session_id="a")
    assert explain(book, BEGIN + HOUR).text == (
        "missed: it was seen 12 min late, more than the grace of 1m; catchup=skip dropped it"
    )


def test_what_nobody_ever_planned_before(book: Book, clock: VirtualClock) -> None:
    create(book, HOURLY, catchup="skip")
    clock.now = BEGIN + 90 * MINUTE
    tick(book.store)
    assert explain(book, BEGIN + HOUR).text == (
        "missed: no scheduler was running before 13:30; catchup=skip dropped it"
    )


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ({"catchup_window": "2h"}, "it expired: catchup_window=2h reaches back no further"),
        ({"catchup_limit": 2}, "it expired: catchup_limit=2 keeps no more"),
    ],
)
def test_an_expired_due_time_names_the_bound(
    book: Book, clock: VirtualClock, bound: dict[str, Any], words: str
) -> None:
    create(book, HOURLY, catchup="all", **bound)
    clock.now = BEGIN + 5 * HOUR
    clock.advance(30 * MINUTE)
    tick(book.store)
    told = explain(book, BEGIN + HOUR)
    assert told.reason == "expired"
    assert told.text == f"missed: no scheduler was running before 17:30; {words}"


def test_a_due_time_that_fell_while_paused(book: Book, clock: VirtualClock) -> None:
    create(book)
    clock.advance(10 * MINUTE)
    book.schedules.pause("job", reason="holidays")
    assert explain(book, BEGIN + HOUR).text == (
        "due in 50 min, at 13:00, but the schedule has been paused since 12:10 (holidays)"
    )
    clock.advance(HOUR)
    assert explain(book, BEGIN + HOUR).text == (
        "waiting: the schedule has been paused since 12:10 (holidays); "
        "on_resume=skip will record it as skipped"
    )
    book.schedules.resume("job")
    assert explain(book, BEGIN + HOUR).text == (
        "skipped: the schedule was paused until 13:10; on_resume=skip dropped it"
    )


def test_what_a_person_said_about_a_due_time(book: Book, clock: VirtualClock) -> None:
    create(book, overlap="allow")
    book.schedules.skip_next("job")
    book.schedules.reschedule("job", BEGIN + 150 * MINUTE)
    assert explain(book, BEGIN + HOUR).text == "will be skipped at 13:00, as a user requested"
    assert explain(book, BEGIN + 2 * HOUR).text == (
        "will not run at 14:00: a user moved it to 14:30"
    )
    assert explain(book, BEGIN + 150 * MINUTE).text == (
        "due in 2 h 30 min, at 14:30; a user moved it there from 14:00"
    )
    told = explain_all(book, BEGIN, BEGIN + 3 * HOUR)
    assert [e.at for e in told] == [BEGIN + m * MINUTE for m in (60, 120, 150, 180)]
    while clock.now < BEGIN + 3 * HOUR:
        clock.advance(MINUTE)
        tick(book.store)
    assert explain(book, BEGIN + HOUR).text == "skipped: a user requested it"
    assert explain(book, BEGIN + 2 * HOUR).text == "skipped: a user moved it to 14:30"
    assert explain(book, BEGIN + 150 * MINUTE).verdict == "queued"
    assert [e.at for e in explain_all(book, BEGIN, clock.now)] == [e.at for e in told]


def test_a_dependency_that_was_not_met(book: Book, clock: VirtualClock) -> None:
    create(book, HOURLY, depends_on=[{"schedule": "extract", "within": "1h", "wait": "10m"}])
    clock.now = BEGIN + HOUR
    tick(book.store)
    assert explain(book, BEGIN + HOUR).text == (
        "waiting for extract to succeed within 1h, which does not exist, until 13:10"
    )
    clock.advance(10 * MINUTE)
    tick(book.store)
    assert explain(book, BEGIN + HOUR).text == (
        "skipped: it depends on extract, which did not exist"
    )
    create(book, HOURLY, "extract")
    clock.now = BEGIN + 2 * HOUR
    tick(book.store)
    clock.advance(10 * MINUTE)
    tick(book.store)
    assert explain(book, BEGIN + 2 * HOUR).text == (
        "skipped: extract had not succeeded within 1h (it never succeeded)"
    )


def test_somebody_did_it_by_hand(book: Book, clock: VirtualClock) -> None:
    create(book, skip_if_successful=True)
    clock.now = BEGIN + 20 * MINUTE
    schedule = book.schedules.get("job")
    run_id = add_run(book.store, schedule.id)
    begin(book.store)
    (work,) = claim(book.store)
    settle(book.store, work.token)
    clock.now = BEGIN + HOUR
    tick(book.store)
    assert explain(book, BEGIN + HOUR).text == (
        f"skipped: run {run_id[:13]}, started manually at 12:20, had already succeeded "
        "(skip_if_successful)"
    )


def test_edits_and_the_definition_in_force(book: Book, clock: VirtualClock) -> None:
    create(book)
    clock.now = BEGIN + HOUR + 10 * MINUTE
    book.schedules.update("job", trigger={"cron": "30 * * * *"})
    assert explain(book, BEGIN + HOUR).text == (
        "skipped: an edit removed it from the definition, at 13:10"
    )
    assert explain(book, BEGIN + 30 * MINUTE).verdict == "waiting", "the edit reaches back to it"
    assert explain(book, BEGIN + 2 * HOUR).text.startswith("not due: the minute field excludes 0")


def test_the_definition_in_force_then_is_asked(book: Book, clock: VirtualClock) -> None:
    create(book)
    clock.now = BEGIN + HOUR
    tick(book.store)
    clock.advance(MINUTE)
    book.schedules.update("job", trigger={"cron": "30 * * * *"})
    assert explain(book, BEGIN + 30 * MINUTE).text == (
        "not due: the minute field excludes 30; the next is Mon 2026-01-05 13:00 (UTC)"
    )
    assert explain(book, BEGIN + HOUR).verdict == "queued"
    assert explain(book, BEGIN + 2 * HOUR).text.startswith("not due: the minute field excludes 0")


def test_after_delete_the_books_still_answer(book: Book, clock: VirtualClock) -> None:
    create(book)
    clock.now = BEGIN + HOUR + 10 * MINUTE
    book.schedules.delete("job")
    assert explain(book, BEGIN + HOUR).text == "skipped: the schedule was deleted, at 13:10"
    assert explain(book, BEGIN + 2 * HOUR).text == "not due: the schedule was deleted"


def test_max_runs(book: Book, clock: VirtualClock) -> None:
    create(book, {"cron": "*/10 * * * *"}, max_runs=1, grace="1h", overlap="allow")
    clock.now = BEGIN + 20 * MINUTE
    tick(book.store)
    assert explain(book, BEGIN + 20 * MINUTE).text == (
        "skipped: the schedule had reached its max_runs of 1"
    )


def test_superseded_by_a_newer_one(book: Book, clock: VirtualClock) -> None:
    create(book, {"cron": "*/10 * * * *"}, overlap="latest", grace="1h")
    clock.now = BEGIN + 10 * MINUTE
    tick(book.store)
    clock.advance(20 * MINUTE)
    tick(book.store)
    assert explain(book, BEGIN + 20 * MINUTE).text == (
        "skipped: overlap=latest kept only the newest, 12:30"
    )
    run_id = get_runs(book.store)[0].id
    told = explain(book, BEGIN + 30 * MINUTE)
    assert told.text == f"waiting: run {run_id[:13]} is active since 12:10"
    assert told.other_run_id == run_id
    assert (told.verdict, told.reason) == ("waiting", "overlap")


def test_excluded_days_before_and_after(book: Book, clock: VirtualClock) -> None:
    create(book, HOURLY, exclude=["2026-01-06"])
    assert explain(book, day(5)).text == "excluded: 6 January is one of its excluded days"
    clock.now = day(12)
    tick(book.store)
    told = explain(book, day(5))
    assert told.text == "excluded: 6 January is one of its excluded days"
    assert (told.verdict, told.reason) == ("skipped", "excluded")


# -- what waits and what is still to come


def test_a_due_time_to_come(book: Book, clock: VirtualClock) -> None:
    create(book, {"cron": "0 5 * * *"})
    clock.now = day(2)
    tick(book.store)
    assert explain(book, day(5)).text == "due in 3 h, at 05:00"
    assert explain(book, day(5) + timedelta(days=1)).text == "due in 27 h, at 2026-01-07 05:00"


def test_a_backlog_waits_its_turn(book: Book, clock: VirtualClock) -> None:
    create(book, HOURLY, catchup="all", overlap="queue")
    clock.now = BEGIN + 4 * HOUR
    clock.advance(2 * MINUTE)
    tick(book.store)
    told = explain(book, BEGIN + 2 * HOUR)
    assert told.text == "waiting its turn: the backlog continues at 16:03"
    assert told.reason == "pace"
    assert explain(book, BEGIN + 3 * HOUR).text == (
        "waiting behind 14:00, which is waiting its turn: the backlog continues at 16:03"
    )


def test_a_due_time_that_nobody_looks_at(book: Book, clock: VirtualClock) -> None:
    create(book)
    clock.now = BEGIN + HOUR + 30 * SECOND
    assert explain(book, BEGIN + HOUR).text == "due 30 s ago, at 13:00; no scheduler is running"
    clock.advance(HOUR + 10 * MINUTE)
    told = explain(book, BEGIN + HOUR)
    assert told.verdict == "waiting"
    assert told.text.startswith("not decided yet; at present, missed: no scheduler")


# -- what is not due


def test_before_it_was_created(book: Book) -> None:
    create(book)
    assert explain(book, BEGIN - HOUR).text == (
        "not due: the schedule was created on Mon 2026-01-05 12:00 (UTC)"
    )


def test_the_field_that_excludes_an_instant(book: Book, clock: VirtualClock) -> None:
    clock.now = datetime(2026, 1, 1, tzinfo=UTC)
    create(book, {"cron": "0 9 * * 1-5", "tz": "Europe/Brussels"})
    told = explain(book, "2026-01-03T09:00")
    assert told.text == (
        "not due: the day-of-week field excludes Saturday; "
        "the next is Mon 2026-01-05 09:00 (Europe/Brussels)"
    )
    assert (told.verdict, told.at) == ("not_due", datetime(2026, 1, 3, 8, tzinfo=UTC))


def test_other_triggers_say_what_they_are(book: Book) -> None:
    create(book, {"every": "15m"}, end_at="2026-01-05T18:00:00Z")
    assert explain(book, BEGIN + 7 * MINUTE).text == (
        "not due: every 15m from Mon 2026-01-05 12:00 (UTC); the next is Mon 2026-01-05 12:15 (UTC)"
    )
    assert explain(book, BEGIN + 7 * HOUR).text == (
        "not due: the schedule ended on Mon 2026-01-05 18:00 (UTC); "
        "the last was Mon 2026-01-05 18:00 (UTC)"
    )


def test_a_wall_time_that_did_not_exist_ran_when_the_gap_ended(
    book: Book, clock: VirtualClock
) -> None:
    clock.now = datetime(2025, 3, 9, 5, tzinfo=UTC)
    create(book, {"cron": "30 2 * * *", "tz": "America/New_York"})
    assert explain(book, "2025-03-09T02:30").text == (
        "02:30 does not exist on 9 March (clocks move from 02:00 to 03:00); due in 2 h, at 03:00"
    )
    clock.now = datetime(2025, 3, 9, 7, tzinfo=UTC)
    tick(book.store)
    begin(book.store)
    (work,) = claim(book.store)
    clock.advance(5 * SECOND)
    settle(book.store, work.token)
    told = explain(book, "2025-03-09 02:30")
    assert told.text == (
        "02:30 did not exist on 9 March (clocks moved from 02:00 to 03:00); ran at 03:00"
    )
    assert (told.verdict, told.run_id) == ("ran", work.run.id)
    assert explain(book, datetime(2025, 3, 9, 2, 30)).text == told.text
    assert "; not due: the minute field excludes 15" in explain(book, "2025-03-09T02:15").text


def test_a_wall_time_that_gap_skip_left_out(book: Book, clock: VirtualClock) -> None:
    clock.now = datetime(2025, 3, 1, tzinfo=UTC)
    create(book, {"cron": "30 2 * * *", "tz": "America/New_York", "gap": "skip"})
    clock.now = datetime(2025, 3, 10, tzinfo=UTC)
    told = explain(book, "2025-03-09T02:30")
    assert told.text == (
        "02:30 did not exist on 9 March (clocks moved from 02:00 to 03:00); gap=skip skipped it"
    )
    assert told.reason == "dst_gap"


def test_the_second_pass_of_a_fold(book: Book, clock: VirtualClock) -> None:
    clock.now = datetime(2025, 11, 1, tzinfo=UTC)
    create(book, {"cron": "30 1 * * *", "tz": "America/New_York"})
    clock.now = datetime(2025, 11, 3, tzinfo=UTC)
    tick(book.store)
    told = explain(book, "2025-11-02T01:30:00-05:00")
    assert told.text == (
        "01:30 came twice on 2 November in America/New_York; it is due only the first time"
    )
    assert told.verdict == "not_due"
    assert explain(book, "2025-11-02T01:30").verdict != "not_due", "a wall time means the first"


def test_mistakes(book: Book) -> None:
    create(book)
    with pytest.raises(InvalidTime):
        explain(book, "yesterday")
    with pytest.raises(NotFound):
        book.schedules.explain("nobody", at=BEGIN)


# -- maintenance windows to come


UPGRADE = 'maintenance window "db upgrade", from 14:30 to 16:30'


def test_a_due_time_in_a_window_to_come_will_be_skipped(book: Book) -> None:
    create(book, labels={"team": "x"})
    window = ("db upgrade", BEGIN + 150 * MINUTE, BEGIN + 270 * MINUTE, {"team": "x"})
    book.windows.add(*window)
    book.windows.add("other", BEGIN, BEGIN + 9 * HOUR, {"team": "y"})
    told = explain(book, BEGIN + 3 * HOUR)
    assert told.text == f"will be skipped at 15:00: it falls into {UPGRADE}"
    assert (told.verdict, told.reason) == ("to_come", "paused")
    texts = [each.text for each in explain_all(book, BEGIN, BEGIN + 5 * HOUR)]
    assert [text.split(",")[0] for text in texts] == [
        "due in 1 h",
        "due in 2 h",
        'will be skipped at 15:00: it falls into maintenance window "db upgrade"',
        'will be skipped at 16:00: it falls into maintenance window "db upgrade"',
        "due in 5 h",
    ]
    between = explain(book, BEGIN + 155 * MINUTE).text
    assert between.endswith("the next is Mon 2026-01-05 17:00 (UTC)")
    book.schedules.pause("job")
    assert explain(book, BEGIN + 3 * HOUR).text == told.text
    book.windows.remove("db upgrade")
    assert explain(book, BEGIN + 3 * HOUR).text.startswith("due in 3 h")


def test_what_is_moved_or_jittered_into_a_window_waits_for_its_end(
    book: Book, clock: VirtualClock
) -> None:
    create(book, jitter="50m")
    ripe_at = DueTimes.of(
        book.store.read(lambda tx: tx.plans.snapshot(tx.schedules.find_schedule("default", "job"))),
        clock.now,
    ).ripe_at(BEGIN + HOUR)
    book.windows.add("db upgrade", ripe_at - SECOND, BEGIN + 3 * HOUR)
    told = explain(book, BEGIN + HOUR)
    assert "by its jitter, but waits until the end of maintenance window" in told.text
    assert (told.verdict, told.reason) == ("to_come", "paused")
    book.schedules.reschedule("job", BEGIN + 2.5 * HOUR)
    moved = explain(book, BEGIN + 2.5 * HOUR).text
    assert "a user moved it there from 13:00, but waits until the end of" in moved


# -- ranges


def test_a_range_lists_each_due_time_in_order(book: Book, clock: VirtualClock) -> None:
    create(book, HOURLY, overlap="allow")
    clock.now = BEGIN + HOUR
    tick(book.store)
    clock.now = BEGIN + 4 * HOUR + 30 * MINUTE
    tick(book.store)
    told = explain_all(book, BEGIN, BEGIN + 6 * HOUR)
    assert [e.at for e in told] == [BEGIN + n * HOUR for n in range(1, 7)]
    assert [e.verdict for e in told] == [
        *("queued", "skipped", "skipped", "queued", "to_come", "to_come")
    ]


def test_a_long_range_of_the_ledger_is_one_explanation(book: Book, clock: VirtualClock) -> None:
    create(book, {"cron": "* * * * *"}, catchup="skip")
    clock.now = BEGIN + 2 * HOUR
    clock.advance(30 * SECOND)
    tick(book.store)
    told = explain_all(book, BEGIN + 10 * MINUTE, BEGIN + 2 * HOUR)
    assert len(told) == 2
    assert told[0].text == (
        "110 due times from 12:10 to 13:59, missed: no scheduler was running before 14:00; "
        "catchup=skip dropped it"
    )
    assert told[1].verdict == "queued"
