"""Stops and restarts of flows are due times: decided, held by a pause, recorded and explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.balance import check_books
from duebook.engine.advancer import Advancer
from duebook.explain import Explanation
from duebook.explain.words import short_id
from duebook.flows.build import build
from tests.support.builders import (
    BEGIN,
    MINUTE,
    begin,
    claim,
    get_run,
    get_runs,
    settle,
    tick,
)
from tests.support.flow_builders import FOR_EVER, attend, put_flow, start

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duebook.book import Book
    from duebook.model.run import Run
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock

HOUR = 60 * MINUTE
SERVICE = """
name: service
steps: [{name: serve, command: sleep 3600}]
"""
TIMES: dict[str, Any] = {
    "trigger": {"cron": "0 * * * *"},
    "target": {"flow": "service"},
    "stop": {"cron": "30 * * * *"},
    "restart": {"cron": "45 14 * * *"},
}


@pytest.fixture
def service(store: Store, book: Book) -> Book:
    """A flow that starts at every full hour, stops at half past, and restarts at 14:45."""
    put_flow(store, SERVICE, "service")
    book.schedules.create("service", **TIMES)
    begin(store, lease=FOR_EVER)
    return book


def go(store: Store, clock: VirtualClock, length: timedelta) -> None:
    """Tick every quarter of an hour."""
    end = clock.now + length
    while clock.now < end:
        clock.advance(min(15 * MINUTE, end - clock.now))
        tick(store)
        Advancer(store).step()


def recorded(book: Book, name: str = "service") -> list[tuple[str, str, str]]:
    """Kind, due time and reason of each entry, the oldest first."""
    entries = book.schedules.ledger(name, limit=1_000)[::-1]
    return sorted((f"{e.due_from:%H:%M}", e.kind, e.reason) for e in entries)


def explain(book: Book, at: datetime, name: str = "service") -> Explanation:
    told = book.schedules.explain(name, at=at)
    assert isinstance(told, Explanation)
    return told


def test_a_stop_ends_what_runs_and_the_ledger_has_what_it_found(
    service: Book, store: Store, clock: VirtualClock
) -> None:
    run_id = start(store, "service")
    Advancer(store).step()
    go(store, clock, 30 * MINUTE)
    assert get_run(store, run_id).cancel_requested_at == clock.now
    (entry,) = service.schedules.ledger("service")
    assert (entry.kind, entry.verdict, entry.reason) == ("stop", "done", "stopped")
    assert entry.facts == {"active": 1, "runs": [run_id]}
    told = explain(service, clock.now)
    assert (told.kind, told.verdict) == ("stop", "done")
    assert told.text == f"stopped at 12:30: run {short_id(run_id)} was asked to stop"
    assert check_books(store).balanced


def test_a_stop_that_is_decided_late_leaves_what_is_due_after_it(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    put_flow(store, SERVICE, "service")
    times = {"trigger": {"cron": "10 30 * * * *"}, "stop": {"cron": "0 30 * * * *"}}
    book.schedules.create("service", **TIMES | times)
    begin(store, lease=FOR_EVER)
    clock.advance(30 * MINUTE + MINUTE / 2)  # both are live, and decided together
    tick(store)
    Advancer(store).step()
    assert recorded(book) == [("12:30", "stop", "stopped")]
    (run,) = book.runs.list("service")
    assert (run.status, run.cancel_requested_at) == ("running", None)


def test_a_stop_of_what_does_not_run_is_recorded_too(
    service: Book, store: Store, clock: VirtualClock
) -> None:
    go(store, clock, 30 * MINUTE)
    assert recorded(service) == [("12:30", "stop", "stopped")]
    assert explain(service, clock.now).text == "stopped at 12:30: it was not running"


def test_a_window_that_selects_a_label_of_a_flow_skips_starts_and_restarts_but_no_stop(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    text = f"labels: [team=data]\ncalendar: {{except: sundays}}{SERVICE}"
    schedule = 'schedule: {start: "0 * * * *", stop: "30 * * * *", restart: "45 * * * *"}'
    (flow,) = build(f"{text}{schedule}", "service.yaml", "service").flows
    put_flow(store, SERVICE, "service")
    book.calendars.save("sundays", weekdays="SUN")
    book.schedules.create("service", **flow.schedule_form() or {})
    begin(store, lease=FOR_EVER)
    book.windows.add("upgrade", BEGIN + 20 * MINUTE, BEGIN + 110 * MINUTE, {"team": "data"})
    book.windows.add("other", BEGIN, BEGIN + 5 * HOUR, {"team": "web"})
    coming = [(str(due), due.kind) for due in book.schedules.preview("service", 4)]
    assert [(at[11:16], kind) for at, kind in coming] == [
        ("12:30", "stop"),
        ("13:30", "stop"),
        ("14:00", "start"),
        ("14:30", "stop"),
    ]
    told = explain(book, BEGIN + 45 * MINUTE)
    assert told.text.startswith("restart will be skipped at 12:45: it falls into maintenance")
    assert (told.kind, told.verdict) == ("restart", "to_come")
    assert "the flow will be stopped in 30 min" in explain(book, BEGIN + 30 * MINUTE).text
    go(store, clock, 130 * MINUTE)
    assert recorded(book) == [
        ("12:30", "stop", "stopped"),
        ("12:45", "restart", "paused"),
        ("13:00", "start", "paused"),
        ("13:30", "stop", "stopped"),
    ]
    assert [e.count for e in book.schedules.ledger("service") if e.kind == "restart"] == [2]
    assert [f"{run.due_at:%H:%M}" for run in book.runs.list("service")] == ["14:00"]
    told = explain(book, BEGIN + 45 * MINUTE)
    assert told.text.startswith('restart skipped: it fell into the maintenance window "upgrade"')
    assert check_books(store, deep=True).balanced


def test_a_pause_holds_stops_and_restarts_and_they_are_recorded_when_it_ends(
    service: Book, store: Store, clock: VirtualClock
) -> None:
    run_id = start(store, "service")
    Advancer(store).step()
    service.schedules.pause("service")
    go(store, clock, 3 * HOUR)
    assert get_run(store, run_id).cancel_requested_at is None
    assert "the schedule has been paused" in explain(service, BEGIN + 30 * MINUTE).text
    assert recorded(service) == []
    service.schedules.resume("service")
    entries = service.schedules.ledger("service", limit=10)
    assert {(e.kind, e.count, e.reason) for e in entries} == {
        ("start", 3, "paused"),
        ("stop", 3, "paused"),
        ("restart", 1, "paused"),
    }
    told = explain(service, BEGIN + 30 * MINUTE)
    assert (told.kind, told.verdict, told.reason) == ("stop", "skipped", "paused")
    assert "a stop is never caught up" in told.text
    assert check_books(store).balanced
    clock.advance(30 * MINUTE)
    tick(store)
    Advancer(store).step()
    assert get_run(store, run_id).cancel_requested_at == clock.now


def test_a_pause_that_ends_by_itself_holds_them_until_then(
    service: Book, store: Store, clock: VirtualClock
) -> None:
    service.schedules.pause("service", until=BEGIN + HOUR + 15 * MINUTE)
    clock.advance(HOUR + 30 * MINUTE)
    tick(store)
    tick(store)
    assert ("12:30", "stop", "paused") in recorded(service)
    assert ("13:30", "stop", "stopped") in recorded(service)
    assert check_books(store).balanced


def test_while_no_node_reads_the_directory_they_wait_and_are_judged_then(
    service: Book, store: Store, clock: VirtualClock
) -> None:
    store.transact(lambda tx: tx.directories.release_directories("reader"))
    clock.advance(30 * MINUTE)
    tick(store)
    assert recorded(service) == []
    assert explain(service, clock.now).reason == "unattended"
    clock.advance(MINUTE / 2)
    attend(store)
    clock.advance(5 * MINUTE)
    tick(store)
    assert recorded(service) == [("12:30", "stop", "missed")]
    assert "a stop is never caught up" in explain(service, BEGIN + 30 * MINUTE).text
    assert check_books(store).balanced


def test_a_stop_that_waited_for_a_scan_within_the_grace_acts(
    service: Book, store: Store, clock: VirtualClock
) -> None:
    store.transact(lambda tx: tx.directories.release_directories("reader"))
    clock.advance(30 * MINUTE)
    tick(store)
    clock.advance(MINUTE / 2)
    attend(store, wakes=True)
    tick(store)
    assert recorded(service) == [("12:30", "stop", "stopped")]


def test_the_preview_has_all_three_kinds_in_their_order(service: Book) -> None:
    found = service.schedules.preview("service", 7)
    assert [(f"{at:%H:%M}", at.kind) for at in found] == [
        ("12:30", "stop"),
        ("13:00", "start"),
        ("13:30", "stop"),
        ("14:00", "start"),
        ("14:30", "stop"),
        ("14:45", "restart"),
        ("15:00", "start"),
    ]


def test_each_due_time_of_a_stretch_is_explained_with_its_kind(
    service: Book, store: Store, clock: VirtualClock
) -> None:
    go(store, clock, HOUR)
    told = service.schedules.explain("service", start=BEGIN, end=BEGIN + 3 * HOUR)
    assert isinstance(told, list)
    assert [(f"{one.at:%H:%M}", one.kind, one.verdict) for one in told] == [
        ("12:30", "stop", "done"),
        ("13:00", "start", "running"),
        ("13:30", "stop", "to_come"),
        ("14:00", "start", "to_come"),
        ("14:30", "stop", "to_come"),
        ("14:45", "restart", "to_come"),
        ("15:00", "start", "to_come"),
    ]


def test_an_edit_and_a_delete_record_those_that_were_pending(
    service: Book, store: Store, clock: VirtualClock
) -> None:
    clock.advance(30 * MINUTE)
    service.schedules.update("service", stop=None)
    assert recorded(service) == [("12:30", "stop", "edited")]
    service.schedules.update("service", stop={"cron": "40 * * * *"})
    clock.advance(10 * MINUTE)
    service.schedules.delete("service")
    assert recorded(service) == [("12:30", "stop", "edited"), ("12:40", "stop", "deleted")]
    assert check_books(store).balanced


def test_the_check_finds_a_stop_that_was_not_recorded(
    service: Book, store: Store, clock: VirtualClock, backend: Backend
) -> None:
    go(store, clock, HOUR)
    assert recorded(service) != []
    backend.write("DELETE FROM ledger WHERE kind = 'stop'")
    (found,) = (f for f in check_books(store).findings if f.problem)
    assert (found.rule, found.due_at) == ("I2", BEGIN + 30 * MINUTE)
    assert found.text == "a stop is not in the ledger"


def test_a_flow_without_a_start_has_a_schedule_that_stops_it_and_can_be_paused(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    put_flow(store, SERVICE, "service")
    book.schedules.create("service", **TIMES | {"trigger": [], "overlap": "allow"})
    run_id = start(store, "service")
    go(store, clock, 30 * MINUTE)
    assert get_run(store, run_id).cancel_requested_at == clock.now
    schedule = book.schedules.get("service")
    assert (schedule.status, schedule.next_due_at) == ("active", None)
    assert explain(book, clock.now + MINUTE).verdict == "not_due"
    book.schedules.pause("service")
    assert check_books(store).balanced


def test_only_a_schedule_of_a_flow_stops_and_restarts(book: Book) -> None:
    with pytest.raises(ValueError, match="only flows are stopped"):
        book.schedules.create("job", cron="@daily", target="job", stop={"cron": "@hourly"})


def test_of_a_stop_and_a_restart_at_one_instant_the_restart_acts(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    put_flow(store, SERVICE, "service")
    restart = {"cron": "30 * * * *"}
    book.schedules.create("service", **TIMES | {"restart": restart})
    before: Run = get_run(store, start(store, "service"))
    go(store, clock, 30 * MINUTE)
    assert recorded(book) == [("12:30", "restart", "restarted"), ("12:30", "stop", "superseded")]
    assert get_run(store, before.id).cancel_requested_at == clock.now
    assert "only the newest is applied, the restart of 12:30" in explain(book, clock.now).text


def test_a_stop_ends_a_restart_that_is_under_way(
    store: Store, book: Book, clock: VirtualClock
) -> None:
    put_flow(store, SERVICE, "service")
    times = {"trigger": [], "restart": {"cron": "30 12 * * *"}, "stop": {"cron": "45 12 * * *"}}
    book.schedules.create("service", **TIMES | times)
    begin(store, lease=FOR_EVER)
    run_id = start(store, "service")
    Advancer(store).step()
    (serving,) = claim(store)
    go(store, clock, 45 * MINUTE)
    assert recorded(book) == [("12:30", "restart", "restarted"), ("12:45", "stop", "stopped")]
    assert settle(store, serving.token, "cancelled", reason="flow_cancelled")
    go(store, clock, HOUR)
    runs = [run.id for run in get_runs(store) if run.step is None]
    assert runs == [run_id], "it is not started again"
    assert get_run(store, run_id).status == "cancelled"
