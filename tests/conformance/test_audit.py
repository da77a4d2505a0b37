"""The audit log: every use case that writes records who, when and what, in its transaction."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.errors import DuebookError, Invalid
from duebook.model.listing import BadCursor
from duebook.store.sql import looking
from tests.support.builders import BEGIN, MINUTE, VirtualClock, begin, claim, settle, tick
from tests.support.retention import purge_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.change import Change
    from duebook.store.base import Store
    from tests.support.backends import Backend

pytestmark = pytest.mark.book_as(by="token:ci")

SECRET = "hunter2-not-to-be-shown"  # noqa: S105


def make(book: Book, name: str = "job", **more: Any) -> None:
    definition: dict[str, Any] = {
        "trigger": {"every": "1m"},
        "target": {"command": ["true"]},
    } | more
    book.schedules.create(name, **definition)


def newest(book: Book, **filters: Any) -> Change:
    return book.audit.list(limit=1, everywhere=True, **filters)[0]


def test_a_schedule_that_is_made_is_put_down_with_its_definition(book: Book) -> None:
    made = book.schedules.create("job", trigger={"every": "1m"}, target="report", queue="slow")
    (change,) = book.audit.list()
    assert (change.at, change.by, change.namespace) == (BEGIN, "token:ci", "default")
    assert (change.action, change.kind, change.subject) == ("create", "schedule", "job")
    assert (change.subject_id, change.before) == (made.id, None)
    assert change.after == {
        "trigger": {"every": "1m", "anchor": "2026-01-05T12:00:00Z"},
        "target": {"task": "report"},
        "queue": "slow",
    }
    assert made.created_by == "token:ci"


def test_an_edit_is_put_down_with_what_is_different_and_nothing_else(book: Book) -> None:
    make(book, queue="slow", description="a")
    book.schedules.update("job", by="cli:ann", queue=None, priority=3)
    change = newest(book)
    assert (change.action, change.by) == ("update", "cli:ann")
    assert change.before == {"queue": "slow", "priority": 0}
    assert change.after == {"queue": "default", "priority": 3}
    book.schedules.update("job", priority=3)
    assert newest(book) == change, "what says nothing new changes nothing"


ACTIONS: dict[
    str, tuple[Callable[[Book], object], dict[str, Any] | None, dict[str, Any] | None]
] = {
    "pause": (
        lambda book: book.schedules.pause("job", "broken", BEGIN + MINUTE),
        {"status": "active"},
        {"status": "paused", "reason": "broken", "until": "2026-01-05T12:01:00Z"},
    ),
    "reschedule": (
        lambda book: book.schedules.reschedule("job", BEGIN + timedelta(seconds=90)),
        {"next_due_at": "2026-01-05T12:01:00Z"},
        {"next_due_at": "2026-01-05T12:01:30Z"},
    ),
    "skip_next": (
        lambda book: book.schedules.skip_next("job"),
        {"next_due_at": "2026-01-05T12:01:00Z"},
        {"next_due_at": "2026-01-05T12:02:00Z"},
    ),
    "delete": (
        lambda book: book.schedules.delete("job"),
        {
            "trigger": {"every": "1m", "anchor": "2026-01-05T12:00:00Z"},
            "target": {"command": ["true"]},
        },
        None,
    ),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_what_is_done_to_a_schedule_is_put_down(book: Book, action: str) -> None:
    act, before, after = ACTIONS[action]
    make(book)
    act(book)
    change = newest(book)
    assert (change.action, change.kind, change.subject, change.by) == (
        *(action, "schedule", "job"),
        "token:ci",
    )
    assert (change.before, change.after) == (before, after)


def test_resuming_triggering_and_backfilling_are_put_down(book: Book, clock: VirtualClock) -> None:
    make(book)
    book.schedules.pause("job")
    book.schedules.resume("job")
    assert (newest(book).before, newest(book).after) == (
        {"status": "paused"},
        {"status": "active"},
    )
    run = book.schedules.trigger("job")
    assert (newest(book).action, newest(book).after) == ("trigger", {"run_id": run.id})
    clock.advance(10 * MINUTE)
    tick(book.store)
    book.schedules.backfill("job", BEGIN, clock.now, dry_run=True)
    assert newest(book).action == "trigger", "a dry run changes nothing"
    runs = book.schedules.backfill("job", BEGIN, clock.now)
    assert runs
    assert newest(book).after == {
        "start": "2026-01-05T12:00:00Z",
        "end": "2026-01-05T12:10:00Z",
        "runs": len(runs),
    }
    seen = newest(book)
    assert book.schedules.backfill("job", BEGIN, clock.now) == []
    assert newest(book) == seen, "nothing to fill"


def test_cancelling_and_opening_a_run_again_are_put_down(book: Book) -> None:
    make(book)
    first, second = book.schedules.trigger("job"), book.schedules.trigger("job")
    book.runs.cancel(first.id)
    change = newest(book)
    assert (change.kind, change.action, change.subject) == ("run", "cancel", "job")
    assert (change.subject_id, change.before, change.after) == (
        first.id,
        {"status": "queued"},
        {"status": "cancelled"},
    )
    begin(book.store)
    (claimed,) = claim(book.store)
    book.runs.cancel(second.id)
    assert newest(book).after == {"status": "requested"}
    settle(book.store, claimed.token, "cancelled")
    book.runs.retry(second.id)
    assert (newest(book).action, newest(book).after) == ("retry", {"status": "queued"})


def test_templates_queues_and_tokens_are_put_down(book: Book) -> None:
    book.templates.save("nightly", cron="@daily")
    assert (newest(book).action, newest(book).before) == ("create", None)
    book.templates.save("nightly", queue="slow", by="cli:ann")
    change = newest(book)
    assert (change.action, change.by, change.kind) == ("update", "cli:ann", "template")
    assert (change.before, change.after) == ({"trigger": {"cron": "@daily"}}, {"queue": "slow"})
    book.templates.remove("nightly")
    assert (newest(book).action, newest(book).after) == ("delete", None)
    book.queues.limit("mail", concurrency=3)
    book.queues.limit("mail", rate="5/s")
    change = newest(book)
    assert (change.kind, change.subject, change.namespace) == ("queue", "mail", "")
    assert change.before == {"concurrency": 3, "rate": None}
    assert change.after == {"concurrency": None, "rate": "5/s"}
    book.queues.free("mail")
    assert (newest(book).action, newest(book).before) == ("free", change.after)
    token, secret = book.tokens.create("ci", "viewer", "shop")
    after = {"role": "viewer", "namespaces": ["shop"], "expires_at": None}
    assert (newest(book).subject_id, newest(book).after) == (token.id, after)
    book.tokens.revoke("ci")
    assert (newest(book).action, newest(book).before) == ("revoke", after)
    assert secret not in str(book.audit.list(everywhere=True))


def test_secrets_are_masked_and_that_they_changed_is_seen(book: Book) -> None:
    target = {"http": {"url": "https://a.test", "headers": {"Authorization": SECRET}}}
    make(book, "hook", target=target)
    make(book, "dump", target={"command": ["true"], "env": {"PGPASSWORD": SECRET}})
    book.templates.save("hook", target=target)
    target["http"]["headers"] = {"Authorization": SECRET + "2"}
    book.schedules.update("hook", target=target)
    change = newest(book)
    assert change.before == change.after
    assert change.after
    assert list(change.after) == ["target"]
    book.schedules.delete("dump")
    book.templates.remove("hook")
    assert SECRET not in str(book.audit.list())


def test_what_failed_leaves_nothing(book: Book) -> None:
    make(book)
    for wrong in (
        lambda: make(book),
        lambda: book.schedules.resume("job"),
        lambda: book.schedules.update("job", version=7, queue="x"),
        lambda: book.schedules.delete("nobody"),
        lambda: book.queues.free("mail"),
        lambda: book.tokens.revoke("ci"),
        lambda: book.templates.remove("nightly"),
    ):
        with pytest.raises(DuebookError):
            wrong()
    assert len(book.audit.list(everywhere=True)) == 1


def test_code_that_declares_a_schedule_is_named(book: Book) -> None:
    book.schedules.declare_one("job", "code:shop", trigger={"every": "1m"}, target="report")
    assert newest(book).by == "code:shop"


def test_what_somebody_enqueues_is_on_record(book: Book) -> None:
    run = book.enqueue("report")
    (change,) = book.audit.list(everywhere=True)
    assert (change.by, change.subject_id) == ("token:ci", run.id)
    assert change.after == {"status": "queued", "result": "created"}


@pytest.mark.book_as(by="library")
def test_what_a_program_enqueues_is_its_own_record(book: Book) -> None:
    book.enqueue("report")
    assert book.audit.list(everywhere=True) == []


# -- reading it


@pytest.fixture
def history(book: Book, store: Store, clock: VirtualClock) -> Book:
    """Twenty-five changes, some of them at the same time."""
    for number in range(10):
        make(book, f"job-{number}")
        if number % 3 == 0:
            clock.advance()
    other = Book(store, "other", by="cli:ann")
    for number in range(5):
        make(other, f"job-{number}")
        book.schedules.pause(f"job-{number}")
        book.queues.limit(f"queue-{number}", concurrency=1)
    return book


def pages(book: Book, limit: int, **filters: Any) -> list[Change]:
    found: list[Change] = []
    cursor: str | None = None
    for _ in range(100):
        page = book.audit.list(limit=limit, cursor=cursor, **filters)
        assert len(page) <= limit
        found += page
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise AssertionError("there is no end")


@pytest.mark.parametrize("limit", [1, 2, 7, 25, 100])
def test_pages_show_each_change_once_the_newest_first(history: Book, limit: int) -> None:
    found = pages(history, limit, everywhere=True)
    assert len(found) == 25
    assert found == sorted(found, key=lambda change: (change.at, change.id), reverse=True)
    assert len({change.id for change in found}) == 25


def test_a_namespace_sees_its_own_changes_only(history: Book, store: Store) -> None:
    assert {change.namespace for change in pages(history, 4)} == {"default"}
    assert len(pages(history, 4)) == 15
    assert len(pages(Book(store, "other"), 4)) == 5
    assert pages(Book(store, "nobody"), 4) == []


def test_filters_together_leave_what_meets_all_of_them(history: Book) -> None:
    both = pages(history, 3, subject="job-3")
    assert [change.action for change in both] == ["pause", "create"]
    assert pages(history, 3, subject="job-3", kind="run") == []
    assert len(pages(history, 3, subject="job-3", everywhere=True)) == 3
    assert len(pages(history, 3, kind="queue", everywhere=True)) == 5
    assert len(pages(history, 3, by="cli:ann", everywhere=True)) == 5
    assert pages(history, 3, by="cli:ann") == []
    early = pages(history, 3, until=BEGIN)
    assert [change.subject for change in early] == ["job-0"]
    late = pages(history, 3, since=BEGIN + MINUTE)
    assert len(early) + len(late) == 15
    assert pages(history, 3, since=BEGIN + MINUTE, until=BEGIN) == []
    assert pages(history, 3, subject="x\0") == []


def test_a_look_for_something_rare_is_bounded_and_goes_on(
    history: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "MOST_LOOKED", 4)
    first = history.audit.list(subject="job-0", by="token:ci", limit=2, everywhere=True)
    assert len(first) < 2
    assert first.next_cursor is not None
    found = pages(history, 2, subject="job-0", by="token:ci", everywhere=True)
    assert [change.action for change in found] == ["pause", "create"]


def test_a_wrong_question_says_what_is_wrong(history: Book) -> None:
    cursor = history.audit.list(limit=2).next_cursor
    for wrong in ("", "nonsense", "W10", "ä", "x" * 2_000, "bnVsbA", 7):
        with pytest.raises(BadCursor):
            history.audit.list(cursor=wrong)  # type: ignore[arg-type]
    with pytest.raises(BadCursor, match="belongs to a list with another filter"):
        history.audit.list(cursor=cursor, kind="run")
    questions: dict[str, Any] = {"limit": 0, "kind": 3, "by": "x" * 201, "since": "soon"}
    for field, value in questions.items():
        with pytest.raises(Invalid, match=field):
            history.audit.list(**{field: value})


def test_old_changes_are_forgotten_with_the_history_in_small_batches(
    history: Book, store: Store, clock: VirtualClock
) -> None:
    assert store.transact(lambda tx: purge_all(tx, BEGIN, 5).number) == 0
    assert store.transact(lambda tx: purge_all(tx, clock.now, 5).number) == 5
    left = history.audit.list(everywhere=True)
    assert len(left) == 20
    assert min(change.at for change in left) > BEGIN


def test_making_a_schedule_costs_one_statement_for_the_audit(backend: Backend) -> None:
    points: list[str] = []
    make(Book(backend.open(points.append)))
    assert points.count("before:insert_change") == 1
