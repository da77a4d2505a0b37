"""Schedules whose definitions this node cannot read: they show it, delay no others, can be
repaired, and lose no due times."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.engine.measures import Measures
from duebook.engine.ticker import Ticker
from duebook.errors import Conflict
from duebook.model.schedule import InvalidSchedule
from duebook.store.values import SessionInfo
from tests.support.builders import (
    BEGIN,
    LEASE,
    MINUTE,
    VirtualClock,
    add_schedule,
    make_spec,
    tick,
)

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.store.base import Store
    from tests.support.backends import Backend

STRANGE: dict[str, dict[str, Any] | list[int]] = {
    "a value that only a newer version allows": {"priority": 1_000_000},
    "a policy that only a newer version knows": {"calendar": "banking"},
    "a trigger of a newer version": {"trigger": {"moon": "full"}},
    "a target of a newer version": {"target": {"robot": "arm"}},
    "a list": [1, 2],
}


def spoil(backend: Backend, name: str, fields: dict[str, Any] | list[int]) -> Book:
    """Make a stored definition unreadable; return a Book that has not cached the readable one."""
    form = fields if isinstance(fields, list) else make_spec().to_json() | fields
    backend.write(
        "UPDATE schedule_revisions SET spec = ? WHERE schedule_id IN"
        " (SELECT id FROM schedules WHERE name = ?)",
        json.dumps(form),
        name,
    )
    return Book(backend.open())


@pytest.fixture
def strange(backend: Backend, store: Store) -> Book:
    """A plain schedule, and one whose priority cannot be read."""
    add_schedule(store, "plain")
    add_schedule(store, "strange")
    return spoil(backend, "strange", {"priority": 1_000_000})


def dues(book: Book, name: str) -> list[datetime]:
    return sorted(run.due_at for run in book.runs.list(name) if run.due_at)


def recorded(book: Book, name: str) -> list[tuple[str, int]]:
    return [(entry.reason, entry.count) for entry in book.schedules.ledger(name)]


@pytest.mark.parametrize("kind", STRANGE)
def test_it_shows_its_problem_and_holds_up_nobody(
    kind: str, backend: Backend, store: Store, clock: VirtualClock
) -> None:
    add_schedule(store, "plain", overlap="allow")
    add_schedule(store, "strange")
    book = spoil(backend, "strange", STRANGE[kind])
    for _ in range(3):
        clock.advance()
        Ticker(book.store).step()
    assert len(dues(book, "plain")) == 3
    (listed,) = book.schedules.list(problem=True)
    assert listed.name == "strange"
    assert listed.spec is None
    assert listed.problem
    assert "cannot be read" in listed.problem
    assert ("newer version" in listed.problem) is (kind != "a list")
    assert book.schedules.list(text="strange")[0].problem == listed.problem


def test_a_definition_that_is_missing_holds_up_nobody(
    backend: Backend, store: Store, clock: VirtualClock
) -> None:
    gone = add_schedule(store, "gone")
    add_schedule(store, "plain")
    backend.write("DELETE FROM schedule_revisions WHERE schedule_id = ?", gone)
    book, ticker = Book(backend.open()), Ticker(store)
    clock.advance()
    assert ticker.step() == clock.now + MINUTE, "a scheduler asks again and again"
    assert len(dues(book, "plain")) == 1
    assert "missing" in (book.schedules.get("gone").problem or "")
    assert [s.name for s in book.schedules.list()] == ["gone", "plain"]
    book.schedules.update("gone", trigger={"every": "1m"}, target={"shell": "true"})
    tick(book.store)
    assert book.schedules.get("gone").problem is None
    assert dues(book, "gone") == [BEGIN + MINUTE]


def test_it_is_logged_once_and_counted(
    strange: Book, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    measures = Measures()
    ticker = Ticker(strange.store, measures=measures)
    with caplog.at_level(logging.ERROR, "duebook.engine.ticker"):
        for _ in range(5):
            clock.advance()
            ticker.step()
    (logged,) = caplog.records
    assert "strange" in logged.getMessage()
    assert "priority" in logged.getMessage()
    assert measures.set_aside == 5
    load = strange.store.read(lambda tx: tx.status.load(10))
    assert load.broken == 1


def test_readiness_names_it(strange: Book, clock: VirtualClock) -> None:
    info = SessionInfo("n", "host", 1, "scheduler,worker", "0", "2026a", (), ("default",))
    clock.advance()
    Ticker(strange.store).step()
    strange.store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))
    strange.schedules.pause("plain")
    readiness = strange.readiness()
    (problem,) = (p for p in readiness.problems if p.code == "schedule")
    assert '"strange"' in problem.message
    assert "priority" in problem.message
    assert readiness.checks["schedule"] is False
    assert {p.code for p in readiness.problems} <= {"schedule", "queue"}


def test_an_update_keeps_what_can_be_read(strange: Book, clock: VirtualClock) -> None:
    clock.advance()
    Ticker(strange.store).step()
    with pytest.raises(InvalidSchedule, match=r"set priority again, or reset it") as refused:
        strange.schedules.update("strange", overlap="allow")
    assert set(refused.value.problems) == {"priority"}
    repaired = strange.schedules.update("strange", priority=7)
    assert repaired.version == 2
    assert repaired.spec == make_spec(priority=7)
    assert repaired.problem is None
    tick(strange.store)
    assert dues(strange, "strange") == [BEGIN + MINUTE]


@pytest.mark.parametrize("changes", [{"priority": None}, {"priority": 3, "overlap": "queue"}])
def test_a_field_can_be_reset(strange: Book, changes: dict[str, Any]) -> None:
    edited = strange.schedules.preview_update("strange", **changes)
    repaired = strange.schedules.update("strange", **changes)
    assert repaired.spec == edited.after
    assert repaired.spec is not None
    assert repaired.spec.priority == changes["priority"] or not changes["priority"]


def test_a_policy_of_a_newer_version_can_only_be_dropped(backend: Backend, store: Store) -> None:
    add_schedule(store, "strange")
    book = spoil(backend, "strange", {"moon": "full", "overlap": "queue"})
    with pytest.raises(InvalidSchedule, match="reset moon to drop it, or upgrade Duebook"):
        book.schedules.update("strange", priority=1)
    with pytest.raises(InvalidSchedule, match="moon"):
        book.schedules.update("strange", moon="new")
    assert book.schedules.update("strange", moon=None).spec == make_spec(overlap="queue")


def test_a_whole_definition_repairs_it(strange: Book) -> None:
    form = make_spec(overlap="queue").to_json()
    assert strange.schedules.replace("strange", version=1, **form).spec == make_spec(
        overlap="queue"
    )


def test_what_fell_meanwhile_is_judged_after_the_repair(strange: Book, clock: VirtualClock) -> None:
    ticker = Ticker(strange.store)
    for _ in range(10):
        clock.advance()
        ticker.step()
    strange.schedules.update("strange", priority=None)
    ticker.step()
    assert dues(strange, "strange") == [BEGIN + 8 * MINUTE], "missed: one, the newest"
    assert sum(count for _, count in recorded(strange, "strange")) == 7 + 2
    assert strange.schedules.get("strange").watermark == clock.now


def test_the_pending_due_times_of_a_trigger_that_changes_are_edited(
    strange: Book, clock: VirtualClock
) -> None:
    """The old trigger is readable, although another field is not."""
    clock.advance(3 * MINUTE)
    every = {"every": "2m", "anchor": BEGIN.isoformat()}
    strange.schedules.update("strange", priority=1, trigger=every)
    tick(strange.store)
    assert ("edited", 1) in recorded(strange, "strange")
    assert dues(strange, "strange") == [BEGIN + 2 * MINUTE]


def test_a_new_trigger_for_one_that_cannot_be_read_counts_from_the_watermark(
    backend: Backend, store: Store, clock: VirtualClock
) -> None:
    add_schedule(store, "strange")
    book = spoil(backend, "strange", {"trigger": {"moon": "full"}, "catchup": "all"})
    clock.advance(3 * MINUTE)
    with pytest.raises(InvalidSchedule, match="set trigger again"):
        book.schedules.update("strange", catchup="one")
    every = {"every": "1m", "anchor": BEGIN.isoformat()}
    book.schedules.update("strange", trigger=every, catchup_pace="0s", overlap="allow")
    tick(book.store)
    assert dues(book, "strange") == [BEGIN + minute * MINUTE for minute in (1, 2, 3)]


def test_pause_and_resume_lose_nothing(strange: Book, clock: VirtualClock) -> None:
    """Due before the pause: minutes 1 to 3; while it was paused: 4 to 6; then: 7 and 8."""
    schedules = strange.schedules
    schedules.update("plain", overlap="allow")
    clock.advance(3 * MINUTE)
    Ticker(strange.store).step()
    paused = schedules.pause("strange", "it is broken")
    assert (paused.status, paused.spec) == ("paused", None)
    assert [s.name for s in schedules.list(problem=True)] == ["strange"]
    clock.advance(3 * MINUTE)
    Ticker(strange.store).step()
    assert schedules.get("strange").status == "paused"
    assert schedules.resume("strange").status == "active"
    clock.advance(2 * MINUTE)
    Ticker(strange.store).step()
    form = make_spec(catchup="all", catchup_pace="0s", overlap="allow").to_json()
    schedules.replace("strange", version=1, **form)
    tick(strange.store)
    fired = [(due - BEGIN) // MINUTE for due in dues(strange, "strange")]
    assert fired == [1, 2, 3, 7, 8]
    assert recorded(strange, "strange") == [("paused", 3)]


def test_what_fell_while_it_was_paused_can_be_caught_up(strange: Book, clock: VirtualClock) -> None:
    schedules = strange.schedules
    schedules.pause("strange")
    clock.advance(3 * MINUTE)
    schedules.resume("strange")
    form = make_spec(on_resume="catchup", overlap="allow", catchup="all", catchup_pace="0s")
    schedules.replace("strange", version=1, **form.to_json())
    tick(strange.store)
    assert len(dues(strange, "strange")) == 3


def test_one_that_is_repaired_while_paused_stays_paused(strange: Book, clock: VirtualClock) -> None:
    strange.schedules.pause("strange", until=BEGIN + 10 * MINUTE)
    clock.advance(5 * MINUTE)
    repaired = strange.schedules.update("strange", priority=None)
    assert (repaired.status, repaired.problem) == ("paused", None)
    clock.advance(5 * MINUTE)
    tick(strange.store)
    assert strange.schedules.get("strange").status == "active"


def test_many_at_once_include_it(strange: Book, clock: VirtualClock) -> None:
    schedules = strange.schedules
    everything = {"text": "*"}
    assert schedules.act("pause", everything, dry_run=True).count == 2
    assert schedules.act("pause", everything).count == 2
    assert schedules.act_on("resume", ["plain", "strange"]) == ["plain", "strange"]
    clock.advance()
    for action in ("trigger", "skip_next"):
        assert schedules.act(action, everything).names == ("plain",)
    assert schedules.act("delete", everything).count == 2
    assert schedules.list() == []


def test_nothing_that_lists_or_explains_fails(strange: Book, clock: VirtualClock) -> None:
    clock.advance()
    Ticker(strange.store).step()
    schedules = strange.schedules
    for sort in ("name", "-name", "created_at", "-created_at", "next_due_at"):
        assert len(schedules.list(sort=sort)) == 2
    for wanted in ({"status": "active"}, {"target": "command"}, {"text": "s*"}, {"problem": True}):
        assert "strange" in [s.name for s in schedules.list(**wanted)]
    told = schedules.explain("strange", at=BEGIN + MINUTE)
    assert "cannot be read" in told.text  # type: ignore[union-attr]
    assert schedules.explain("strange", start=BEGIN, end=clock.now) == []
    assert schedules.revisions("strange")[0].spec is None
    assert schedules.exceptions("strange") == []
    assert strange.insights.overview().problems[0].name == "strange"
    for ask in (
        lambda: schedules.preview("strange"),
        lambda: schedules.trigger("strange"),
        lambda: schedules.skip_next("strange"),
        lambda: schedules.render("strange"),
    ):
        with pytest.raises(Conflict, match='schedule "strange": the definition cannot be read'):
            ask()


def test_a_quota_admits_others_and_the_repair(strange: Book) -> None:
    strange.namespaces.limit("default", schedules=3, fires_per_minute=3)
    strange.schedules.create("third", trigger={"every": "2m"}, target={"shell": "true"})
    assert strange.schedules.update("strange", priority=1).version == 2


def test_what_depends_on_it_can_be_made(strange: Book) -> None:
    after = {"schedule": "strange", "within": "1h"}
    made = strange.schedules.create(
        "after", trigger={"every": "1m"}, target={"shell": "true"}, depends_on=[after]
    )
    assert made.status == "active"


def test_a_program_declares_it_anew(strange: Book) -> None:
    form = make_spec().to_json()
    id_ = strange.schedules.get("strange").id
    strange.store.transact(lambda tx: tx.schedules.change_owner([id_], "code:test"))
    declared, how = strange.schedules.declare_one("strange", "code:test", **form)
    assert (how, declared.version, declared.spec) == ("changed", 2, make_spec())


def test_a_declaration_of_many_repairs_it(strange: Book) -> None:
    form = {"name": "strange", **make_spec().to_json()}
    planned = strange.schedules.declare([form], "tests", adopt=True, dry_run=True)
    (told,) = [one for one in planned.schedules if one.name == "strange"]
    assert [note.code for note in told.notes] == ["unreadable", "adopt"]
    strange.schedules.declare([form], "tests", adopt=True, expect=planned.fingerprint)
    repaired = strange.schedules.get("strange")
    assert (repaired.version, repaired.spec, repaired.owner) == (2, make_spec(), "tests")


def test_the_check_of_the_books_notes_it(strange: Book, clock: VirtualClock) -> None:
    from duebook.balance import check_books

    clock.advance()
    Ticker(strange.store).step()
    checked = check_books(strange.store)
    assert checked.balanced
    assert any(f.schedule == "strange" and "read" in f.text for f in checked.findings)
