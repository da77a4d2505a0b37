"""Doctor finds what is wrong with nodes, schedules and the database, and repairs what is safe."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duebook.balance import check_books
from duebook.book import Book
from duebook.book.doctor import examination, facts
from duebook.budget import Budget
from duebook.model.diagnosis import CHECKED
from duebook.triggers import tzdata_version
from tests.support.backends import SqliteBackend
from tests.support.builders import (
    BEGIN,
    MINUTE,
    SECOND,
    add_run,
    add_schedule,
    begin,
    claim,
    make_spec,
    settle,
    tick,
)
from tests.support.flow_builders import CHAIN, put_flow

if TYPE_CHECKING:
    import pytest

    from duebook.model.diagnosis import Checkup, Diagnosis
    from duebook.store.base import Store
    from tests.support.backends import Backend
    from tests.support.builders import VirtualClock

DAY = timedelta(days=1)
BRUSSELS: dict[str, Any] = {"trigger": {"daily": "09:00", "tz": "Europe/Brussels"}}


def examine(store: Store) -> dict[str, Checkup]:
    return by_check(Book(store).doctor.examine())


def by_check(found: Diagnosis) -> dict[str, Checkup]:
    return {checkup.check: checkup for checkup in found.checkups}


def amiss(found: dict[str, Checkup]) -> set[str]:
    """What is not ok, except autovacuum, which the test server runs without."""
    return {one.check for one in found.values() if one.level != "ok"} - {"vacuum"}


def live(store: Store, session_id: str = "node-1", **more: Any) -> None:
    """A node that plans and works, with the time zone data of this machine."""
    about = {"roles": "scheduler,worker", "queues": ("default",), "tzdata": tzdata_version()}
    begin(store, session_id, 30 * DAY, **about | more)


def set_state(backend: Backend, name: str, changes: str, *values: object) -> None:
    backend.write(
        f"UPDATE schedule_state SET {changes} WHERE schedule_id IN"  # noqa: S608
        " (SELECT id FROM schedules WHERE name = ?)",
        *values,
        name,
    )


def test_a_healthy_database_has_one_line_for_each_check(store: Store) -> None:
    live(store)
    add_schedule(store)
    found = examine(store)
    assert amiss(found) == set()
    assert list(found) == [check for check in CHECKED if check in found]
    assert {"database", "schema", "clocks", "tzdata", "planning", "retention"} <= found.keys()


def test_a_schedule_without_a_wake_time_is_found_and_repaired(
    backend: Backend, store: Store, clock: VirtualClock
) -> None:
    live(store)
    add_schedule(store, "asleep", "shop")
    add_schedule(store, "well")
    set_state(backend, "asleep", "wake_at = NULL, next_due_at = NULL")
    found = examine(store)["planning"]
    assert (found.level, found.fixable, found.subjects) == ("problem", True, ("shop/asleep",))
    assert "wake_at is missing" in found.message
    repaired = Book(store, by="cli:ann").doctor.repair()
    assert repaired.repaired == ("1 schedule planned again: shop/asleep",)
    assert amiss(by_check(repaired)) == set()
    (change,) = Book(store, "shop").audit.list(by="cli:ann")
    assert (change.action, change.subject) == ("wake", "asleep")
    entries = Book(store).audit.list(everywhere=True)
    assert Book(store, by="cli:ann").doctor.repair().repaired == ()
    assert Book(store).audit.list(everywhere=True) == entries, "nothing changed"
    clock.advance()
    tick(store)
    (run,) = Book(store, "shop").runs.list("asleep")
    assert run.due_at == BEGIN + MINUTE
    assert check_books(store).balanced


def test_a_wake_time_after_the_next_due_time_is_found_and_repaired(
    backend: Backend, store: Store
) -> None:
    live(store)
    add_schedule(store, "late")
    column = backend.rows("SELECT wake_at FROM schedule_state")[0][0]
    later = column + 86_400_000_000 if isinstance(column, int) else column + DAY
    set_state(backend, "late", "wake_at = ?", later)
    found = examine(store)["planning"]
    assert found.level == "problem"
    assert "late is planned only at 2026-01-06T12:01:00Z" in found.message
    assert "due at 2026-01-05T12:01:00Z" in found.message
    assert amiss(by_check(Book(store).doctor.repair())) == set()
    tick(store)
    assert Book(store).schedules.get("late").next_due_at == BEGIN + MINUTE
    assert examine(store)["planning"].level == "ok"


def test_all_schedules_are_looked_at_page_by_page_unless_the_time_is_used_up(
    backend: Backend, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(store)
    for number in range(7):
        add_schedule(store, f"daily-{number}", **BRUSSELS)
    hour = 3_600_000_000 if isinstance(backend, SqliteBackend) else timedelta(hours=1)
    backend.write("UPDATE schedule_state SET next_due_at = next_due_at + ?", hour)
    for module, name, value in ((facts, "PAGE", 2), (facts, "LOOKED", 4), (facts, "MOST", 3)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(examination, "PAGE", 2)
    found = examine(store)
    assert "the next due time of 7 schedules was computed with other" in found["tzdata"].message
    assert "and 4 more" in found["tzdata"].message
    assert len(found["tzdata"].subjects) == 3
    assert "of 7 active schedules agree" in found["planning"].message
    hurried = by_check(Book(store, budget=Budget(-1.0)).doctor.examine())
    assert hurried["planning"].message.startswith("looked at the first 4 active schedules: ")
    assert "duebook db check" in hurried["planning"].remedy
    assert "the next due time of 4 schedules" in hurried["tzdata"].message
    (told,) = Book(store).doctor.repair().repaired
    assert told.startswith("7 schedules planned again: ")


def test_due_times_that_other_time_zone_data_computed_are_found_and_computed_again(
    backend: Backend, store: Store
) -> None:
    live(store)
    add_schedule(store, "daily", **BRUSSELS)
    add_schedule(store, "same", trigger={"cron": "@hourly"})
    book = Book(store)
    right = book.schedules.get("daily").next_due_at
    assert right is not None
    hour = 3_600_000_000 if isinstance(backend, SqliteBackend) else timedelta(hours=1)
    for column in ("next_due_at", "wake_at"):
        set_state(backend, "daily", f"{column} = {column} + ?", hour)
    found = examine(store)["tzdata"]
    assert (found.level, found.subjects) == ("problem", ("daily",))
    assert "daily (2026-01-06T09:00:00Z → 2026-01-06T08:00:00Z)" in found.message
    assert book.doctor.repair().repaired == ("1 schedule planned again: daily",)
    tick(store)
    assert book.schedules.get("daily").next_due_at == right
    assert examine(store)["tzdata"].level == "ok"


def test_nodes_with_other_time_zone_data_versions_and_clocks_are_told(
    backend: Backend, store: Store
) -> None:
    live(store)
    live(store, "node-2", tzdata="2019a", version="9.9")
    backend.write("UPDATE node_sessions SET clock_ahead = 90 WHERE id = ?", "node-2")
    found = examine(store)
    assert {found[check].level for check in ("tzdata", "versions", "clocks")} == {"warning"}
    assert "host-of-node-2 (pid 1) has 2019a" in found["tzdata"].message
    assert found["tzdata"].remedy.endswith("duebook zones diff 2019a")
    assert "host-of-node-2 (pid 1) is 90 s ahead" in found["clocks"].message


def test_a_clock_that_stepped_back_is_told_for_a_week(store: Store, clock: VirtualClock) -> None:
    live(store)
    store.transact(
        lambda tx: tx.upkeep.note_clock_step(
            tx.now + timedelta(hours=1), tx.now, tx.now, timedelta(hours=2)
        )
    )
    assert "stepped back 1 time in 7 days" in examine(store)["clocks"].message
    clock.advance(8 * DAY)
    assert examine(store)["clocks"].level == "ok"


def test_a_dead_node_is_told_until_somebody_takes_over(store: Store, clock: VirtualClock) -> None:
    begin(store, "gone", 30 * SECOND)
    add_run(store, add_schedule(store))
    claim(store, "gone")
    clock.advance(MINUTE)
    found = examine(store)["sessions"]
    assert (found.level, found.subjects) == ("warning", ("host-of-gone (pid 1)",))
    assert "with 1 run" in found.message
    live(store)
    assert examine(store)["sessions"].level == "warning"
    clock.advance(5 * MINUTE)
    assert examine(store)["sessions"].level == "problem"
    store.transact(lambda tx: tx.nodes.bury())
    assert examine(store)["sessions"].message == "1 node with a current lease"


def test_due_times_that_nobody_plans_or_runs_are_problems(
    store: Store, clock: VirtualClock
) -> None:
    assert examine(store)["scheduler"].remedy == "start one: duebook up"
    live(store, namespaces=_only("default"))
    add_run(store, add_schedule(store, "slow", queue="slow"))
    add_run(store, add_schedule(store, "news", target="digest"))
    add_schedule(store, "lonely", "shop")
    clock.advance(10 * MINUTE)
    found = examine(store)
    assert 'no live node serves namespace "shop"' in found["scheduler"].message
    assert 'in queue "slow", which no live worker serves' in found["queues"].message
    assert found["queues"].remedy == "start one: duebook up --queue slow"
    assert 'waiting for task "digest"' in found["tasks"].message
    assert "is overdue by" in found["planning"].message
    assert amiss(found) == {"scheduler", "queues", "tasks", "planning"}


def _only(*names: str) -> Any:
    from duebook.model.serving import Serving

    return Serving(names)


def test_queues_and_tasks_of_schedules_are_warned_of_before_anything_waits(store: Store) -> None:
    live(store, tasks=("known",))
    add_schedule(store, "slow", queue="slow")
    add_schedule(store, "good", target="known")
    add_schedule(store, "news", target="digest")
    found = examine(store)
    assert (found["queues"].level, found["tasks"].level) == ("warning", "warning")
    assert found["queues"].message == 'no live worker serves queue "slow" (schedule slow)'
    assert found["tasks"].message == 'no live worker knows task "digest" (schedule news)'


def test_a_definition_that_cannot_be_read_is_told_with_the_way_to_repair_it(
    backend: Backend, store: Store
) -> None:
    live(store)
    add_schedule(store, "strange", "shop")
    backend.write(
        "UPDATE schedule_revisions SET spec = ?",
        json.dumps(make_spec().to_json() | {"trigger": {"moon": "full"}}),
    )
    found = examine(backend.open())["definitions"]
    assert (found.level, found.subjects) == ("problem", ("shop/strange",))
    assert "duebook --namespace shop update strange --cron" in found.remedy


def test_a_directory_that_no_node_reads_is_told(store: Store, clock: VirtualClock) -> None:
    live(store)
    put_flow(store, CHAIN)
    clock.advance(timedelta(hours=1))
    store.transact(lambda tx: tx.directories.release_directories("reader"))
    found = examine(store)["flows"]
    assert found.level != "ok"
    assert "flow forget flows" in found.remedy


def test_history_that_nobody_deletes_is_told(store: Store, clock: VirtualClock) -> None:
    live(store)
    add_run(store, add_schedule(store))
    (claimed,) = claim(store)
    settle(store, claimed.token)
    clock.advance(92 * DAY)
    found = examine(store)["retention"]
    assert (found.level, "kept for 90d" in found.message) == ("warning", True)
