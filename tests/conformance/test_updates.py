"""Changing definitions: revisions, versions, waiting due times, and what a success wakes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.errors import Conflict
from duebook.model.codec import encode
from duebook.model.schedule import InvalidSchedule
from duebook.timetext import format_instant
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    get_ledger,
    get_run,
    get_runs,
    get_schedule,
    settle,
    tick,
)

if TYPE_CHECKING:
    from duebook.book import Book
    from duebook.store.base import Store
    from tests.support.backends import Backend

LONG = timedelta(days=365)


def test_an_update_is_a_new_revision_and_the_old_one_stays(book: Book, clock: VirtualClock) -> None:
    job = add_schedule(book.store, priority=1)
    now = clock.advance(SECOND)
    updated = book.schedules.update("job", by="ada", priority=2, labels={"team": "data"})
    assert (updated.version, updated.spec and updated.spec.priority) == (2, 2)
    first, second = book.schedules.revisions("job")
    assert (first.version, first.by, first.valid_from) == (1, "a test", BEGIN)
    assert (second.version, second.by, second.valid_from) == (2, "ada", now)
    assert [r.spec and r.spec.priority for r in (first, second)] == [1, 2]
    assert get_schedule(book.store, job).version == 2


def test_runs_keep_the_definition_they_were_planned_by(book: Book, clock: VirtualClock) -> None:
    add_schedule(book.store, priority=1, overlap="allow")
    begin(book.store, lease=LONG)
    clock.advance(MINUTE)
    tick(book.store)
    book.schedules.update("job", target={"command": ["false"]})
    clock.advance(MINUTE)
    tick(book.store)
    specs = {c.run.version: str(c.spec.target) for c in claim(book.store)}
    assert specs == {1: "true", 2: "false"}


def test_an_update_of_a_version_that_is_not_the_latest_is_a_conflict(book: Book) -> None:
    add_schedule(book.store)
    book.schedules.update("job", version=1, priority=2)
    with pytest.raises(Conflict, match="version 2, not 1"):
        book.schedules.update("job", version=1, priority=3)
    assert book.schedules.get("job").version == 2


def test_an_invalid_update_changes_nothing(book: Book) -> None:
    add_schedule(book.store)
    with pytest.raises(InvalidSchedule) as caught:
        book.schedules.update("job", overlap="maybe", priority="high")
    assert set(caught.value.problems) == {"overlap", "priority"}
    assert len(book.schedules.revisions("job")) == 1


def test_none_puts_a_policy_back_to_its_default(book: Book) -> None:
    add_schedule(book.store, timeout="5m", max_runs=3)
    updated = book.schedules.update("job", timeout=None, max_runs=None)
    assert updated.spec is not None
    assert (updated.spec.timeout, updated.spec.max_runs) == (None, None)


def test_a_new_interval_keeps_the_phase_of_the_creation(book: Book, clock: VirtualClock) -> None:
    add_schedule(book.store)
    clock.advance(90 * SECOND)
    tick(book.store)
    updated = book.schedules.update("job", trigger={"every": "10m"})
    assert updated.next_due_at == BEGIN + 10 * MINUTE


def test_with_nothing_pending_an_update_counts_from_now(book: Book, clock: VirtualClock) -> None:
    job = add_schedule(book.store)
    clock.advance(MINUTE)
    tick(book.store)
    now = clock.advance(30 * SECOND)
    updated = book.schedules.update("job", trigger="*/5 * * * *")
    assert (updated.watermark, updated.next_due_at) == (now, BEGIN + 5 * MINUTE)
    assert get_ledger(book.store, job) == []


def test_what_waits_follows_the_new_definition_and_the_rest_is_recorded(
    book: Book, clock: VirtualClock
) -> None:
    job = add_schedule(book.store, overlap="queue", grace="1h")
    begin(book.store, lease=LONG)
    add_run(book.store, job)
    (by_hand,) = claim(book.store)
    clock.advance(4 * MINUTE)
    tick(book.store)
    book.schedules.update("job", trigger="*/2 * * * *")
    entries = sorted(get_ledger(book.store, job), key=lambda entry: entry.due_from)
    assert [(e.due_from, e.reason, e.version) for e in entries] == [
        (BEGIN + MINUTE, "edited", 1),
        (BEGIN + 3 * MINUTE, "edited", 1),
    ]
    settle(book.store, by_hand.token)
    for _ in range(4):
        tick(book.store)
        for claimed in claim(book.store):
            settle(book.store, claimed.token)
    due = sorted(run.due_at for run in get_runs(book.store) if run.due_at)
    assert due == [BEGIN + 2 * MINUTE, BEGIN + 4 * MINUTE]


def test_a_paused_schedule_stays_paused_through_an_update(book: Book, clock: VirtualClock) -> None:
    job = add_schedule(book.store)
    book.schedules.pause("job", reason="maintenance", until=BEGIN + 10 * MINUTE)
    clock.advance(5 * MINUTE + SECOND)
    updated = book.schedules.update("job", priority=5)
    assert (updated.status, updated.pause_reason) == ("paused", "maintenance")
    assert (updated.paused_at, updated.paused_until) == (BEGIN, BEGIN + 10 * MINUTE)
    clock.now = BEGIN + 10 * MINUTE
    assert tick(book.store) == 0
    assert book.schedules.get("job").status == "active"
    assert [(e.reason, e.count) for e in get_ledger(book.store, job)] == [("paused", 9)]


def test_an_update_changes_whom_the_schedule_waits_for(book: Book, backend: Backend) -> None:
    add_schedule(book.store, depends_on=[{"schedule": "a", "within": "1h"}])
    wanted = [{"schedule": name, "within": "1h"} for name in ("b", "c")]
    book.schedules.update("job", depends_on=wanted)
    rows = backend.rows("SELECT upstream FROM schedule_deps ORDER BY 1")
    assert rows == [("b",), ("c",)]
    book.schedules.delete("job")
    assert backend.rows("SELECT upstream FROM schedule_deps") == []


# -- dependencies


@pytest.fixture
def chain(store: Store) -> tuple[str, str]:
    """`load` is due every minute and waits up to 30 s for `extract`."""
    begin(store, lease=LONG)
    extract = add_schedule(store, "extract", trigger={"at": "2026-02-01T00:00:00Z"})
    depends = [{"schedule": "extract", "within": "1m", "wait": "30s"}]
    return extract, add_schedule(store, "load", depends_on=depends)


def test_a_success_wakes_the_schedules_that_wait_for_it(
    store: Store, clock: VirtualClock, chain: tuple[str, str]
) -> None:
    extract, load = chain
    clock.advance(MINUTE)
    assert tick(store) == 0
    assert store.read(lambda tx: tx.plans.earliest_wake()) == clock.now + 30 * SECOND
    add_run(store, extract)
    (claimed,) = claim(store)
    now = clock.advance(SECOND)
    settle(store, claimed.token)
    assert store.read(lambda tx: tx.plans.earliest_wake()) == now
    assert tick(store) == 1
    assert [run.due_at for run in get_runs(store, load)] == [BEGIN + MINUTE]


def test_a_failure_wakes_nobody_and_the_wait_ends_with_a_reason(
    store: Store, clock: VirtualClock, chain: tuple[str, str]
) -> None:
    extract, load = chain
    clock.advance(MINUTE)
    tick(store)
    add_run(store, extract)
    settle(store, claim(store)[0].token, "failed")
    tick(store)
    assert get_ledger(store, load) == []
    assert store.read(lambda tx: tx.plans.earliest_wake()) == clock.now + 30 * SECOND
    clock.advance(30 * SECOND)
    assert tick(store) == 0
    (entry,) = get_ledger(store, load)
    assert (entry.reason, entry.facts["schedule"]) == ("dependency", "extract")
    assert (entry.facts["exists"], entry.facts["succeeded_at"]) == (True, None)


def test_an_upstream_that_was_deleted_does_not_exist(
    book: Book, clock: VirtualClock, chain: tuple[str, str]
) -> None:
    extract, load = chain
    add_run(book.store, extract)
    settle(book.store, claim(book.store)[0].token)
    book.schedules.delete("extract")
    clock.advance(90 * SECOND)
    tick(book.store)
    clock.advance(30 * SECOND)
    tick(book.store)
    entries = get_ledger(book.store, load)
    assert {(e.reason, e.facts.get("exists")) for e in entries} == {("dependency", False)}


def test_a_schedule_of_the_same_name_in_another_namespace_is_no_upstream(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, lease=LONG)
    other = add_schedule(store, "extract", namespace="elsewhere")
    add_run(store, other)
    settle(store, claim(store, namespace="elsewhere")[0].token)
    load = add_schedule(store, "load", depends_on=[{"schedule": "extract", "within": "1h"}])
    clock.advance(MINUTE)
    tick(store)
    assert get_runs(store, load) == []
    assert get_ledger(store, load)[0].facts["exists"] is False


# -- cancel


def test_a_due_time_that_cancels_ends_queued_runs_and_asks_running_ones_to_end(
    store: Store, clock: VirtualClock
) -> None:
    begin(store, lease=LONG)
    add_schedule(store, overlap="cancel")
    clock.advance(MINUTE)
    tick(store)
    (first,) = claim(store)
    clock.advance(MINUTE)
    assert tick(store) == 1
    asked = get_run(store, first.run.id)
    assert (asked.status, asked.cancel_requested_at) == ("running", clock.now)
    assert [own.cancel_reason for own in store.read(lambda tx: tx.claims.own_runs("node-1"))] == [
        "superseded"
    ]
    clock.advance(MINUTE)
    assert tick(store) == 1
    statuses = {run.due_at: (run.status, run.reason) for run in get_runs(store)}
    assert statuses[BEGIN + 2 * MINUTE] == ("cancelled", "superseded")
    assert claim(store) == [], "the newest waits until the first has ended"
    settle(store, first.token, "cancelled")
    assert [c.run.due_at for c in claim(store)] == [BEGIN + 3 * MINUTE]


def test_a_due_time_that_cancels_leaves_manual_and_backfill_runs_alone(
    book: Book, clock: VirtualClock
) -> None:
    """It waits for started and for manual runs, but cancels queued runs of due times at once."""
    begin(book.store, lease=60 * MINUTE)
    job = add_schedule(book.store, overlap="cancel", catchup="skip")
    clock.advance(5 * MINUTE + 30 * SECOND)
    tick(book.store)
    settle(book.store, claim(book.store)[0].token)
    book.schedules.backfill("job", BEGIN + MINUTE, BEGIN + 2 * MINUTE)
    (backfill,) = claim(book.store)
    manual = add_run(book.store, job)
    clock.now = BEGIN + 6 * MINUTE
    assert tick(book.store) == 0
    states = {run.origin: (run.status, run.cancel_requested_at) for run in get_runs(book.store)}
    assert states["manual"] == ("queued", None)
    assert get_run(book.store, backfill.run.id).cancel_requested_at is None
    settle(book.store, backfill.token)
    (by_hand,) = claim(book.store)
    assert by_hand.run.id == manual
    assert tick(book.store) == 0
    settle(book.store, by_hand.token)
    assert tick(book.store) == 1
    (due,) = claim(book.store)
    assert due.run.due_at == BEGIN + 6 * MINUTE
    add_run(book.store, job)
    clock.now = BEGIN + 7 * MINUTE
    assert tick(book.store) == 0
    assert get_run(book.store, due.run.id).cancel_requested_at == clock.now
    assert get_run(book.store, due.run.id).reason == "superseded"


def test_what_a_target_hides_stays_when_it_is_sent_back_as_it_was_shown(book: Book) -> None:
    env = {"PGPASSWORD": "s3cret"}
    target = {"command": ["pg_dump", "mydb"], "env": env}
    book.schedules.create("dump", trigger={"every": "1h"}, target=target)
    shown = encode(book.schedules.get("dump"))["target"]
    assert shown["env"] == {"PGPASSWORD": "***"}
    book.schedules.update("dump", target={**shown, "command": ["pg_dump", "other"]})
    kept = book.schedules.replace("dump", trigger={"every": "2h"}, target=shown).spec
    assert kept is not None
    assert kept.target.to_json() == target
    with pytest.raises(
        InvalidSchedule, match="a placeholder for a hidden value; give the real value"
    ):
        book.schedules.create("copy", trigger={"every": "1h"}, target=shown)


# -- an edit that widens catch-up


@pytest.mark.parametrize(
    ("before", "after", "first"),
    [
        ({"catchup": "skip"}, {"catchup": "all"}, 1),
        ({"catchup": "skip"}, {"catchup": "all", "catchup_window": "3h"}, 4),
        ({"catchup": "one"}, {"catchup": "all"}, 1),
        ({"catchup": "all", "catchup_window": "2h"}, {"catchup_window": "4h"}, 3),
        ({"catchup": "all", "catchup_window": "2h"}, {"catchup_window": None}, 1),
    ],
)
def test_a_wider_catchup_names_the_backfill_of_what_was_missed(
    book: Book,
    store: Store,
    clock: VirtualClock,
    before: dict[str, Any],
    after: dict[str, Any],
    first: int,
) -> None:
    hour, hourly = timedelta(hours=1), {"every": "1h"}
    book.schedules.create("job", trigger=hourly, target="t", catchup_pace="0s", **before)
    clock.advance(6 * hour + MINUTE)  # six due times; the last is in time
    clock.advance(MINUTE)
    tick(store)
    preview = book.schedules.preview_update("job", **after)
    edited = book.schedules.update("job", **after)
    assert edited.notes == preview.notes
    (note,) = edited.notes
    assert preview.missed is not None
    start, end = preview.missed.start, preview.missed.end
    assert start == BEGIN + first * hour
    command = f"duebook backfill job --from {format_instant(start)} --to {format_instant(end)}"
    assert note.message.endswith(f": {command}")
    assert note.code == "missed"
    runs = book.schedules.backfill("job", start, end)
    assert len(runs) == preview.missed.count
    assert not book.schedules.get("job").notes
    assert not book.schedules.update("job", catchup="skip").notes
    assert not book.schedules.update("job", **({"catchup": "all"} | after)).notes  # all have runs


def test_an_edit_that_widens_nothing_has_no_notes(
    book: Book, store: Store, clock: VirtualClock
) -> None:
    book.schedules.create(
        "job", trigger={"every": "1h"}, target="t", catchup="all", catchup_window="2h"
    )
    clock.advance(timedelta(hours=6))
    tick(store)
    for changes in ({"catchup_window": "1h"}, {"priority": 1}, {"catchup": "skip"}):
        assert not book.schedules.update("job", **changes).notes
