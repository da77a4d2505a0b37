"""Missed due times that wait for an operator: what is set aside, and what each choice does."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.balance import check_books
from duebook.book.held import held_of
from duebook.engine.retention import Retention
from duebook.errors import Conflict, Invalid, NotFound
from duebook.model.acted import Withdrawn
from duebook.model.consumer import new_consumer
from duebook.model.listing import BadCursor
from duebook.settings import RETENTION
from tests.support.builders import (
    BEGIN,
    MINUTE,
    VirtualClock,
    add_schedule,
    begin,
    claim,
    get_ledger,
    get_runs,
    settle,
    tick,
)
from tests.support.event_builders import stamp
from tests.support.histories import History

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.book import Book
    from duebook.store.base import Store

LONG = timedelta(days=365)


def minute(number: int) -> datetime:
    return BEGIN + number * MINUTE


def held(book: Book, schedule: str | None = None) -> list[tuple[int, int, int]]:
    """First and last minute of each held range, and how many due times it has."""
    return [
        ((one.due_from - BEGIN) // MINUTE, (one.due_to - BEGIN) // MINUTE, one.count)
        for one in book.catchup.list(schedule)
    ]


def ran(store: Store, job: str) -> list[tuple[int, str]]:
    runs = get_runs(store, job)
    found = ((run.due_at, run.origin) for run in runs if run.due_at is not None)
    return sorted(((due_at - BEGIN) // MINUTE, origin) for due_at, origin in found)


def recorded(store: Store, job: str) -> list[tuple[int, int, str]]:
    return sorted(
        ((e.due_from - BEGIN) // MINUTE, (e.due_to - BEGIN) // MINUTE, e.reason)
        for e in get_ledger(store, job)
    )


def balances(store: Store) -> bool:
    return not [f for f in check_books(store, deep=True).findings if f.problem]


def outage(
    store: Store, clock: VirtualClock, minutes: int = 10, name: str = "job", **definition: Any
) -> str:
    """A minutely schedule that no node planned for some minutes; the last due time is in time."""
    policies: dict[str, Any] = {"catchup_approval": 3, "grace": "30s", "overlap": "queue"}
    policies |= definition
    job = add_schedule(store, name, **policies)
    clock.advance(minutes * MINUTE)
    tick(store)
    return job


@pytest.fixture
def job(store: Store, clock: VirtualClock) -> str:
    """Of 12:01 to 12:10 all but the last were missed, and are held."""
    begin(store, lease=LONG)
    return outage(store, clock)


# -- what is set aside


def test_more_missed_due_times_than_allowed_are_held_and_live_ones_go_on(
    store: Store, book: Book, clock: VirtualClock, job: str
) -> None:
    assert held(book) == [(1, 9, 9)]
    assert ran(store, job) == [(10, "schedule")]
    assert recorded(store, job) == []
    settle(store, claim(store)[0].token)
    clock.advance()
    tick(store)
    assert ran(store, job) == [(10, "schedule"), (11, "schedule")]
    (one,) = book.catchup.list()
    assert (one.schedule, one.schedule_id, one.version, one.exact) == ("job", job, 1, True)
    assert one.held_at == minute(10)
    assert balances(store)


@pytest.mark.parametrize("catchup", ["one", "skip", "all"])
def test_as_many_as_allowed_follow_catchup(
    store: Store, book: Book, clock: VirtualClock, catchup: str
) -> None:
    outage(store, clock, 4, catchup=catchup)
    assert held(book) == []
    outage(store, clock, 5, "other", catchup=catchup)
    assert held(book, "other") == [(5, 8, 4)]


def test_every_missed_due_time_is_held_with_an_approval_of_zero(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    outage(store, clock, 2, catchup_approval=0)
    assert held(book) == [(1, 1, 1)]


def test_neither_the_window_nor_the_limit_of_catchup_drops_what_is_held(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    job = outage(store, clock, catchup="all", catchup_window="2m", catchup_limit=1)
    assert held(book) == [(1, 9, 9)]
    clock.advance(RETENTION + 10 * MINUTE)
    tick(store)
    Retention(store).step()
    assert held(book)[0] == (1, 9, 9)
    book.catchup.approve("job", minute(1), minute(9))
    assert {at for at, _ in ran(store, job)} >= set(range(1, 10))


def test_what_was_skipped_or_moved_before_is_not_held(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    job = add_schedule(store, catchup_approval=3, grace="30s")
    book.schedules.skip_next("job", minute(1))
    book.schedules.reschedule("job", minute(5) + MINUTE / 2, minute(2))
    clock.advance(10 * MINUTE)
    tick(store)
    found = [(one.due_from, one.due_to, one.count) for one in book.catchup.list()]
    moved = minute(5) + MINUTE / 2
    assert found == [(minute(3), minute(9), 7), (moved, moved, 1)]
    assert recorded(store, job) == [(1, 1, "skipped_by_user"), (2, 2, "superseded")]
    book.catchup.approve("job")
    due = [run.due_at for run in get_runs(store, job) if run.origin == "catchup"]
    assert sorted(at for at in due if at) == sorted([*map(minute, range(3, 10)), moved])
    assert balances(store)


def test_due_times_of_a_pause_are_held_when_they_are_caught_up(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    add_schedule(store, catchup_approval=3, on_resume="catchup")
    book.schedules.pause("job")
    clock.advance(10 * MINUTE)
    book.schedules.resume("job")
    tick(store)
    assert held(book) == [(1, 8, 8)]


def test_each_outage_has_its_range(store: Store, book: Book, clock: VirtualClock, job: str) -> None:
    clock.advance(10 * MINUTE)
    tick(store)
    assert held(book) == [(1, 9, 9), (11, 19, 9)]
    book.catchup.approve("job", minute(8), minute(12))
    assert held(book) == [(1, 7, 7), (13, 19, 7)]
    assert [at for at, origin in ran(store, job) if origin == "catchup"] == [8, 9, 11, 12]
    assert balances(store)


def test_a_held_backlog_is_told_as_an_event(store: Store, book: Book, clock: VirtualClock) -> None:
    topics = ["duebook.schedules", "duebook.runs"]
    wanted = new_consumer("default", "watcher", "group", topics, 1, 1)
    store.transact(lambda tx: tx.consumers.save_consumer(wanted, 0))
    job = outage(store, clock)
    stamp(store)
    (event,) = [e for e in book.events.list("duebook.schedules") if "held" in e.type]
    assert event.type == "schedule.catchup_held"
    span = {"due_from": "2026-01-05T12:01:00Z", "due_to": "2026-01-05T12:09:00Z"}
    assert event.data == {"schedule": "job", "id": job, "count": 9} | span
    book.catchup.approve("job", newest=2)
    stamp(store)
    assert [e.type for e in book.events.list("duebook.runs")] == ["run.late", "run.late"]


# -- what is chosen


def test_one_is_chosen_and_the_rest_dropped(store: Store, book: Book, job: str) -> None:
    done = book.catchup.approve("job", newest=1, reject_rest=True)
    assert (done.approved, done.rejected, done.held) == (1, 8, 0)
    assert held(book) == []
    assert ran(store, job) == [(9, "catchup"), (10, "schedule")]
    assert recorded(store, job) == [(1, 8, "skipped_by_user")]
    assert balances(store)


@pytest.mark.usefixtures("job")
def test_all_are_chosen_and_run_in_order_behind_live_due_times(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    done = book.catchup.approve("job")
    assert (done.approved, done.rejected, done.held) == (9, 0, 0)
    assert done.queued_at == clock.now
    order = []
    for _ in range(10):
        (claimed,) = claim(store)
        order.append((claimed.run.due_at, claimed.run.origin))
        settle(store, claimed.token)
    assert order == [(minute(10), "schedule"), *((minute(n), "catchup") for n in range(1, 10))]
    assert claim(store) == []
    assert balances(store)


def test_some_are_chosen_and_the_rest_stays_held(store: Store, book: Book, job: str) -> None:
    done = book.catchup.approve("job", minute(3), minute(5))
    assert (done.approved, done.held) == (3, 6)
    assert (done.due_from, done.due_to) == (minute(3), minute(5))
    assert held(book) == [(1, 2, 2), (6, 9, 4)]
    assert book.catchup.approve("job", newest=5).held == 1
    assert held(book) == [(1, 1, 1)]
    assert book.catchup.approve("job", newest=5).approved == 1
    assert [at for at, origin in ran(store, job) if origin == "catchup"] == [*range(1, 10)]
    assert balances(store)


def test_none_are_chosen(store: Store, book: Book, job: str) -> None:
    done = book.catchup.reject("job")
    assert (done.approved, done.rejected, done.held, done.queued_at) == (0, 9, 0, None)
    assert held(book) == []
    assert ran(store, job) == [(10, "schedule")]
    assert recorded(store, job) == [(1, 9, "skipped_by_user")]
    assert balances(store)
    book.schedules.backfill("job", minute(1), minute(9))
    assert len(ran(store, job)) == 10
    assert balances(store)


def test_a_trial_changes_nothing(store: Store, book: Book, job: str) -> None:
    tried = book.catchup.approve("job", newest=2, reject_rest=True, dry_run=True)
    assert (tried.approved, tried.rejected, tried.held, tried.dry_run) == (2, 7, 0, True)
    assert book.catchup.reject("job", end=minute(4), dry_run=True).rejected == 4
    assert held(book) == [(1, 9, 9)]
    assert ran(store, job) == [(10, "schedule")]


@pytest.mark.usefixtures("job")
def test_many_are_decided_by_their_labels_and_counted(store: Store, book: Book) -> None:
    assert store.read(lambda tx: tx.status.load(10)).held == {"default": 9}
    assert book.catchup.decide("reject", {"team": "data"}).schedules == 0
    book.schedules.update("job", labels={"team": "data"})
    tried = book.catchup.decide("approve", {"team": "data"}, newest=2, dry_run=True)
    assert (tried.names, tried.approved, tried.held) == (("job",), 2, 7)
    assert book.catchup.decide("reject", {"team": "data"}).rejected == 9
    found = store.read(lambda tx: tx.status.load(10))
    assert (found.held, found.broken) == ({}, 0)
    with pytest.raises(Invalid, match="newest and reject_rest go with approve"):
        book.catchup.decide("reject", newest=1)


def test_a_choice_is_audited(book: Book, job: str) -> None:
    book.catchup.approve(job, minute(1), minute(2))
    book.catchup.reject("job")
    rejected, approved = book.audit.list(subject="job")
    assert (approved.action, approved.after) == (
        "approve_catchup",
        {"start": "2026-01-05T12:01:00Z", "end": "2026-01-05T12:02:00Z", "runs": 2},
    )
    assert (rejected.action, rejected.after) == (
        "reject_catchup",
        {"start": "2026-01-05T12:03:00Z", "end": "2026-01-05T12:09:00Z", "rejected": 7},
    )


@pytest.mark.usefixtures("job")
def test_an_approval_can_be_withdrawn_until_its_runs_begin(book: Book) -> None:
    done = book.catchup.approve("job")
    assert done.queued_at is not None
    undone = book.schedules.undo_backfill("job", done.due_from, done.due_to, done.queued_at)
    assert undone == Withdrawn(9, 0)


@pytest.mark.usefixtures("job")
def test_a_decided_range_cannot_be_decided_again(book: Book) -> None:
    book.catchup.approve("job", minute(1), minute(5))
    with pytest.raises(Conflict, match=r"no held due times in that period; they are from .*12:06"):
        book.catchup.reject("job", minute(1), minute(5))
    book.catchup.reject("job")
    with pytest.raises(Conflict, match='schedule "job" has no held due times'):
        book.catchup.approve("job")
    with pytest.raises(NotFound):
        book.catchup.approve("other")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"newest": 0}, "newest 0 is not a whole number from 1 to 10,000"),
        ({"newest": True}, "newest True is not a whole number"),
        ({"newest": 1, "start": BEGIN}, "give either newest, or start and end"),
        ({"start": minute(3), "end": minute(2)}, "is before start"),
        ({"start": "soon"}, "soon"),
    ],
)
def test_an_impossible_choice_is_refused(
    book: Book, job: str, given: dict[str, Any], told: str
) -> None:
    with pytest.raises(Invalid, match=told):
        book.catchup.approve("job", **given)
    assert held(book, job) == [(1, 9, 9)]


def test_more_than_one_approval_takes_are_refused_and_can_be_rejected(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    outage(store, clock, 12_000)
    with pytest.raises(Invalid, match="11,999 due times are held there; approve at most 10,000"):
        book.catchup.approve("job")
    assert book.catchup.reject("job", end=minute(11_990)).held == 9
    assert book.catchup.approve("job").approved == 9
    assert balances(store)


# -- whatever else happens to the schedule


def test_an_edit_leaves_what_is_held_as_it_was(
    store: Store, book: Book, clock: VirtualClock, job: str
) -> None:
    book.schedules.update("job", trigger={"every": "1h"}, catchup_approval=None)
    clock.advance(5 * MINUTE)
    tick(store)
    assert held(book) == [(1, 9, 9)]
    book.catchup.approve("job", newest=2)
    assert [at for at, origin in ran(store, job) if origin == "catchup"] == [8, 9]
    assert {run.version for run in get_runs(store, job) if run.origin == "catchup"} == {2}
    assert balances(store)


@pytest.mark.usefixtures("job")
def test_a_paused_schedule_can_be_decided_about(store: Store, book: Book) -> None:
    book.schedules.pause("job")
    book.catchup.approve("job", newest=2)
    book.catchup.reject("job")
    settle(store, claim(store)[0].token)
    assert [claimed.run.due_at for claimed in claim(store)] == [minute(8)]
    assert book.schedules.get("job").status == "paused"
    assert balances(store)


def test_what_is_held_of_a_deleted_schedule_is_recorded(store: Store, book: Book, job: str) -> None:
    book.catchup.reject("job", minute(4), minute(5))
    book.schedules.delete("job")
    assert held(book) == []
    assert recorded(store, job) == [
        (1, 3, "deleted"),
        (4, 5, "skipped_by_user"),
        (6, 9, "deleted"),
    ]
    assert balances(store)


def test_a_backfill_leaves_out_what_is_held(store: Store, book: Book, job: str) -> None:
    assert book.schedules.backfill("job", minute(1), minute(9)) == []
    book.catchup.reject("job", minute(2), minute(3))
    book.schedules.backfill("job", minute(1), minute(9))
    assert ran(store, job) == [(2, "backfill"), (3, "backfill"), (10, "schedule")]
    assert balances(store)


def test_no_due_time_can_be_moved_to_one_that_is_held(book: Book, job: str) -> None:
    with pytest.raises(Conflict, match="is held; approve or reject it first"):
        book.schedules.reschedule("job", minute(5))
    assert held(book, job) == [(1, 9, 9)]


def test_approved_runs_count_towards_max_runs(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    job = outage(store, clock, max_runs=4, overlap="allow")
    with pytest.raises(Conflict, match="max_runs of 4 leaves 3 runs, but 9 due times are chosen"):
        book.catchup.approve("job")
    book.catchup.approve("job", newest=3)
    clock.advance(5 * MINUTE)
    tick(store)
    assert len(ran(store, job)) == 4
    begin(store)
    while claims := claim(store):
        for claimed in claims:
            settle(store, claimed.token)
    tick(store)
    assert book.schedules.get("job").status == "completed"
    assert held(book) == [(1, 6, 6)]
    assert balances(store)


def test_a_completed_schedule_can_be_decided_about(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    job = outage(store, clock, trigger={"at": "2026-01-05T12:03:00Z"}, catchup_approval=0)
    assert book.schedules.get("job").status == "completed"
    assert held(book) == [(3, 3, 1)]
    book.catchup.approve("job")
    assert ran(store, job) == [(3, "catchup")]
    assert balances(store)


def test_events_are_written_for_approved_due_times(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    target = {"event": {"topic": "ticks", "type": "tick", "data": {}}}
    job = outage(store, clock, target=target)
    book.catchup.approve("job", newest=2)
    found = [run for run in get_runs(store, job) if run.origin == "catchup"]
    assert [run.status for run in found] == ["succeeded", "succeeded"]
    assert balances(store)


# -- what is reported


def test_held_due_times_are_explained(book: Book, job: str) -> None:
    told = str(book.schedules.explain("job", minute(5)))
    assert told.endswith("; held since 12:10, until an operator decides")
    found = book.schedules.explain("job", start=minute(1), end=minute(10))
    assert isinstance(found, list)
    assert [one.verdict for one in found] == ["waiting"] * 9 + ["queued"]
    assert found[0].reason == "held"
    book.catchup.reject(job)
    assert str(book.schedules.explain("job", minute(5))) == "skipped: a user requested it"


def test_the_status_notes_what_waits_and_is_ready_all_the_same(
    store: Store, book: Book, job: str
) -> None:
    begin(store, "planner", lease=LONG, roles="scheduler,worker", queues=("default",))
    readiness = book.readiness()
    assert readiness.ready
    (note,) = readiness.notes
    assert note.message == (
        '9 missed due times of schedule "job" have waited for approval since '
        "2026-01-05T12:10:00Z; to run them: duebook catchup approve job --all; to drop them: "
        "duebook catchup reject job --all"
    )
    assert book.readiness(namespace="other").notes == ()
    book.catchup.reject(job)
    assert book.readiness().notes == ()


def test_lists_are_paged_by_schedule(store: Store, book: Book, clock: VirtualClock) -> None:
    for name in ("c", "a", "b"):
        add_schedule(store, name, catchup_approval=1)
    add_schedule(store, "d", namespace="other", catchup_approval=1)
    clock.advance(10 * MINUTE)
    tick(store)
    first = book.catchup.list(limit=2)
    assert [one.schedule for one in first] == ["a", "b"]
    rest = book.catchup.list(cursor=first.next_cursor, limit=2)
    assert ([one.schedule for one in rest], rest.next_cursor) == (["c"], None)
    assert [one.schedule for one in book.catchup.list("b")] == ["b"]
    with pytest.raises(BadCursor):
        book.catchup.list("b", first.next_cursor)
    with pytest.raises(NotFound):
        book.catchup.list("d")


# -- over whole histories


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 40))]
)
def test_whatever_happened_each_due_time_has_one_fate(
    book: Book, clock: VirtualClock, seed: int
) -> None:
    """It has a run or an entry, or is held; `check_books` finds those that have none, or both."""
    history = History(book, clock, 2_000 + seed, approvals=(0, 2))
    for number in range(60):
        history.step()
        if number % 10 == 9:
            assert balances(book.store)
            check_held(book, history.id)


def check_held(book: Book, schedule_id: str) -> None:
    """What is held is neither held twice, nor has a run or an entry."""
    times = [
        at for one in book.store.read(lambda tx: held_of(tx, schedule_id)) for at in one.among()
    ]
    assert len(times) == len(set(times)) == sum(one.count for one in book.catchup.list())
    assert not set(times) & {run.due_at for run in get_runs(book.store, schedule_id)}
    for entry in get_ledger(book.store, schedule_id):
        assert entry.due_from not in times
        assert entry.due_to not in times
