"""A move: what is waited for, what is closed when, and what stays when it breaks off."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from duebook.book import Book
from duebook.book.idempotency import IdempotencyKey, perform_once
from duebook.engine.ticker import Ticker
from duebook.errors import Conflict, NotFound, Unavailable
from duebook.model.retry import Retry
from duebook.model.run import LogLine, Progress
from duebook.store.postgres.connection import SCHEMA
from duebook.store.sqlite.moving import DRAIN, Source
from duebook.store.values import News
from tests.support.builders import (
    BEGIN,
    LEASE,
    MINUTE,
    SECOND,
    add_run,
    add_schedule,
    begin,
    claim,
    claimed_run,
    get_run,
    get_runs,
    list_all,
    lose,
    settle,
    tick,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.builders import VirtualClock
    from tests.unit.store.moving.conftest import Move


def new_rows(move: Move, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(move.url, options=f"-c search_path={SCHEMA}") as connection:
        return connection.execute(sql.encode()).fetchall()


# -- what is copied


def test_events_keep_their_positions_and_the_count_goes_on(move: Move, clock: VirtualClock) -> None:
    target = {"event": {"topic": "orders", "data": 1}}
    add_schedule(move.old(), target=target)
    for _ in range(3):
        clock.advance(MINUTE)
        Ticker(move.old()).step()
    before = Book(move.old()).events.list()
    move()
    new = move.new()
    assert Book(new).events.list() == before
    clock.advance(MINUTE)
    Ticker(new).step()
    new.transact(lambda tx: tx.events.stamp_events(100))
    after = Book(new).events.list()
    assert [event.position for event in after] == [1, 2, 3, 4]
    assert [event.version for event in after] == [1, 2, 3, 4]


def test_what_was_decided_is_not_decided_again_and_what_was_queued_runs(
    move: Move, clock: VirtualClock
) -> None:
    schedule_id = add_schedule(move.old(), overlap="allow")
    clock.advance(MINUTE)
    tick(move.old())
    copied = move()
    assert copied.rows["runs"] == copied.rows["schedules"] == 1
    new = move.new()
    assert tick(new) == 0, "its due time has a run"
    clock.advance(MINUTE)
    assert tick(new) == 1
    begin(new)
    claims = claim(new)
    assert [c.run.due_at for c in claims] == [BEGIN + MINUTE, BEGIN + 2 * MINUTE]
    assert all(settle(new, c.token) for c in claims)
    assert {run.schedule_id for run in get_runs(new)} == {schedule_id}


def test_runs_made_afterwards_come_after_those_that_were_copied(move: Move) -> None:
    old = move.old()
    schedule_id = add_schedule(old, overlap="allow")
    before = [add_run(old, schedule_id) for _ in range(3)]
    with closing(sqlite3.connect(move.path)) as connection, connection:
        connection.execute("DELETE FROM runs WHERE id = ?", [before[0]])
    move()
    after = [add_run(move.new(), schedule_id) for _ in range(3)]
    assert [run.id for run in get_runs(move.new())] == [*reversed(after), *reversed(before[1:])]


def test_every_table_of_a_file_is_copied_or_stays_on_purpose(move: Move) -> None:
    add_schedule(move.old())
    copied = move()
    with closing(sqlite3.connect(move.path)) as connection:
        sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        tables = {row[0] for row in connection.execute(sql)}
    stay = {"migrations", "meta", "secrets", "moves", "leases"}
    assert tables - stay == copied.rows.keys()


def test_logs_attempts_queues_and_limits_are_copied(move: Move, clock: VirtualClock) -> None:
    old = move.old()
    claimed = claimed_run(old, clock)
    old.transact(
        lambda tx: tx.attempts.append_log(claimed.token, 1, [LogLine(BEGIN, "stdout", "a\tb\\n")])
    )
    lose(old, "node-1")
    Book(old).queues.limit("default", concurrency=2, rate="3/m")
    move()
    new = move.new()
    (attempt,) = new.read(lambda tx: tx.runs.list_attempts(claimed.run.id))
    assert (attempt.outcome, attempt.node) == ("lost", "host-of-node-1")
    assert new_rows(move, "SELECT text FROM run_logs") == [("a\tb\\n",)]
    (load,) = Book(new).queues.list()
    assert (load.queue.concurrency, str(load.queue.rate), load.queued) == (2, "3/m", 1)


def test_tokens_answers_and_the_audit_are_copied_and_go_on(move: Move, clock: VirtualClock) -> None:
    old = Book(move.old(), by="cli:ann")
    token, secret = old.tokens.create("ci", "operator", ["shop"])
    old.tokens.check(secret)
    once = IdempotencyKey("a token", "order-17", "a body")
    perform_once(old.store, once, lambda _: {"id": "ä"})
    old.queues.limit("default", concurrency=2)
    before = old.tokens.list(), old.audit.list(everywhere=True)
    move()
    new = Book(move.new(), by="cli:ann")
    assert (new.tokens.list(), new.audit.list(everywhere=True)) == before
    found = new.tokens.check(secret)
    assert found is not None
    assert found.id == token.id
    assert perform_once(new.store, once, lambda _: {}) == ({"id": "ä"}, True)
    clock.advance()
    new.queues.free("default")
    assert new.audit.list(limit=1, everywhere=True)[0].id > max(c.id for c in before[1])


# -- what runs at that moment


def test_enqueued_runs_are_copied_with_their_outputs_keys_and_policies(move: Move) -> None:
    old = Book(move.old())
    done = old.enqueue("digest", {"to": "all"}, key="news-17", timeout="1m")
    begin(old.store)
    (claimed,) = old.store.transact(lambda tx: tx.claims.claim("node-1", "default", 1, ["digest"]))
    old.store.transact(
        lambda tx: tx.attempts.note_progress([(claimed.token, Progress(0.4, "half"))])
    )
    settle(old.store, claimed.token, output='{"rows": 3}', output_ref="there")
    waits = old.enqueue("digest", retry=3)
    before = old.runs.get(done.id)
    move()
    new = Book(move.new())
    assert new.runs.get(done.id) == before
    assert new.enqueue("digest", key="news-17").id == done.id
    begin(new.store, "node-2")
    (claimed,) = new.store.transact(lambda tx: tx.claims.claim("node-2", "default", 9, ["digest"]))
    assert (claimed.run.id, claimed.spec.retry) == (waits.id, Retry(attempts=3))


def test_a_run_under_way_is_waited_for_and_nothing_begins_meanwhile(
    move: Move, clock: VirtualClock
) -> None:
    old = move.old()
    claimed = claimed_run(old, clock, overlap="allow")
    waiting = add_run(old, claimed.run.schedule_id or "")
    seen: list[Any] = []

    def meanwhile() -> None:
        seen.append(claim(old))
        seen.append(old.read(lambda tx: tx.claims.list_work(["default"]).places))
        clock.advance(MINUTE / 6)
        old.transact(lambda tx: tx.nodes.renew("node-1", LEASE))
        tick(old)
        if len(seen) > 6:
            settle(old, claimed.token)

    move.while_waiting = meanwhile
    move()
    assert not any(seen)
    assert any("waiting" in text and "job" in text for text in move.said)
    new = move.new()
    assert get_run(new, claimed.run.id).status == "succeeded"
    assert get_run(new, waiting).status == "queued"


def test_runs_that_do_not_end_in_time_stop_the_move_and_nothing_was_changed(
    move: Move, clock: VirtualClock
) -> None:
    old = move.old()
    claimed = claimed_run(old, clock, overlap="allow")
    with pytest.raises(Conflict, match=r"job \(.*\) did not finish within 2s"):
        move()
    waiting = add_run(old, claimed.run.schedule_id or "")
    assert [c.run.id for c in claim(old)] == [waiting], "runs begin again"
    assert settle(old, claimed.token)


def test_what_a_dead_node_left_is_not_waited_for_and_taken_over_at_once(
    move: Move, clock: VirtualClock
) -> None:
    claimed = claimed_run(move.old(), clock)
    clock.advance(LEASE)
    move()
    new = move.new()
    assert new.transact(lambda tx: tx.attempts.take_over(10)) == 1
    begin(new, "node-2")
    (again,) = claim(new, "node-2")
    assert (again.run.id, again.run.attempt) == (claimed.run.id, 2)
    assert not settle(new, claimed.token), "the token of the dead node is worth nothing"


def test_nodes_of_the_old_books_have_ended_in_the_new_ones(move: Move, clock: VirtualClock) -> None:
    begin(move.old())
    waits_there = begin(move.new(), "node-2")
    move()
    spans = move.new().read(lambda tx: tx.nodes.list_sessions(clock.now, clock.now))
    assert {span.id: span.alive(clock.now) for span in spans} == {
        "node-1": False,
        waits_there: True,
    }


# -- the old books afterwards


def test_the_old_books_say_where_the_new_ones_are_without_the_password(move: Move) -> None:
    old = move.old()
    add_schedule(old)
    assert old.news(0) == ~News.LOOK
    move()
    for refused in (
        lambda: old.transact(lambda tx: tx.now),
        lambda: old.read(lambda tx: tx.now),
        lambda: old.news(0),
        move.old,
    ):
        with pytest.raises(Conflict, match=r"was moved to the database 'book_\d+' at") as error:
            refused()
        assert "secret" not in str(error.value)


def test_while_the_books_are_copied_everybody_is_asked_to_try_again(move: Move) -> None:
    old = move.old()
    with move.source() as source:
        begun = source.begin("database 'x' at y")
        assert source.close_when_idle(begun) == []
        with pytest.raises(Unavailable, match="to be copied to the database 'x' at y"):
            old.transact(lambda tx: tx.now)
        assert old.news(0), "a node does not end: the copy may yet be given up"
        source.abandon(begun)
    old.transact(lambda tx: tx.now)


def test_a_copy_that_died_while_it_waited_holds_nobody_up_for_long(
    move: Move, clock: VirtualClock
) -> None:
    old = move.old()
    add_run(old, add_schedule(old))
    begin(old, lease=MINUTE)
    with move.source() as source:
        source.begin("database 'x' at y")
    assert claim(old) == []
    work = old.read(lambda tx: tx.claims.list_work(["default"]))
    assert (work.places, work.next_at) == ((), clock.now + DRAIN)
    clock.advance(DRAIN)
    assert len(claim(old)) == 1
    begin(old, "node-2")
    lose(old, "node-1")
    move()


# -- a copy that breaks off


class Broken(Exception):
    pass


def breaking(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def fail(*_: object) -> None:
        raise Broken

    monkeypatch.setattr(f"duebook.store.{where}", fail)


@pytest.mark.parametrize(
    "where",
    [
        "postgres.arriving.Target.fill",
        "postgres.arriving.Target.sign",
        "sqlite.moving.Source.reading",
        "sqlite.moving.Source.close_when_idle",
    ],
)
def test_a_copy_that_fails_leaves_both_as_they_were(
    move: Move, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    old = move.old()
    add_schedule(old)
    with monkeypatch.context() as patched:
        breaking(patched, where)
        with pytest.raises(Broken):
            move()
    clock.advance(MINUTE)
    assert tick(old) == 1, "the old books go on"
    assert new_rows(move, "SELECT count(*) FROM schedules") == [(0,)]
    assert move().rows["runs"] == 1


def kill(move: Move, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """The copy ends there as if it had been killed: nobody tidies up."""
    with monkeypatch.context() as patched:
        breaking(patched, where)
        patched.setattr(Source, "abandon", lambda *_: None)
        with pytest.raises(Broken):
            move()


def test_a_copy_that_was_killed_while_it_filled_is_repeated(
    move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_schedule(move.old())
    kill(move, monkeypatch, "postgres.arriving.Target.sign")
    with pytest.raises(Unavailable, match="run duebook db copy again"):
        move.old()
    assert move().rows["schedules"] == 1
    assert any("was interrupted" in text for text in move.said)


def test_a_copy_that_was_killed_before_its_commit_is_repeated(
    move: Move, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_schedule(move.old())
    kill(move, monkeypatch, "postgres.arriving.Target.keep")
    with pytest.raises(Unavailable):
        move.old()
    assert move().rows["schedules"] == 1


def test_a_copy_that_was_killed_after_its_commit_is_found_done(
    move: Move, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule_id = add_schedule(move.old())

    def keep_and_die(*given: Any) -> None:
        *_, keep = given
        keep()
        raise Broken

    with monkeypatch.context() as patched:
        patched.setattr(Source, "finish", keep_and_die)
        with pytest.raises(Broken):
            move()
    with pytest.raises(Unavailable):
        move.old()
    clock.advance(MINUTE)
    assert tick(move.new()) == 1, "the new books are in use already"
    assert move().rows == {}, "nothing was copied a second time"
    assert move().rows == {}, "nor a third"
    with pytest.raises(Conflict, match="was moved"):
        move.old()
    assert [run.schedule_id for run in get_runs(move.new())] == [schedule_id]


def test_a_copy_whose_books_were_opened_again_meanwhile_is_not_kept(move: Move) -> None:
    add_schedule(move.old())
    with move.source() as source, move.source() as somebody:
        begun = source.begin("database 'x' at y")
        source.close_when_idle(begun)
        somebody.reopen()
        with pytest.raises(Conflict, match="reopened"):
            source.finish(begun, lambda: pytest.fail("kept"))


def test_two_copies_at_once_are_refused(move: Move) -> None:
    move.old()
    with move.source() as source:
        source.begin("database 'x' at y")
        with pytest.raises(Conflict, match="is being copied to the database 'x'"):
            move()


# -- refusals


def test_books_that_are_not_empty_are_left_as_they_are(move: Move) -> None:
    add_schedule(move.new(), "there")
    old = move.old()
    add_schedule(old, "here")
    with pytest.raises(Conflict, match="is not empty: it has schedules"):
        move()
    assert len(old.read(list_all)) == 1
    assert new_rows(move, "SELECT name FROM schedules") == [("there",)]


def test_a_file_that_does_not_exist_is_not_made(move: Move, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no Duebook database"):
        move()
    assert list(tmp_path.iterdir()) == []


def test_a_schema_from_the_future_is_refused(move: Move) -> None:
    move.old().close()
    with closing(sqlite3.connect(move.path)) as connection, connection:
        connection.execute("INSERT INTO migrations VALUES (99, 'later', 'x', 0)")
    with pytest.raises(Conflict, match="schema 99"):
        move()


def test_a_clock_that_is_behind_is_refused_and_a_little_is_waited_for(
    move: Move, clock: VirtualClock
) -> None:
    add_schedule(move.old())
    behind = timedelta(minutes=3)

    class Behind(type(move)):  # type: ignore[misc]
        def target(self) -> Any:
            target = super().target()
            vars(target)["now"] = lambda: clock.now - behind
            return target

    move.__class__ = Behind
    with pytest.raises(Conflict, match="is 3m behind"):
        move()
    behind = 3 * SECOND

    def catch_up() -> None:
        nonlocal behind
        behind -= SECOND

    move.while_waiting = catch_up
    move()
    assert behind == timedelta()


def test_data_that_postgresql_cannot_keep_is_named(move: Move, clock: VirtualClock) -> None:
    old = move.old()
    add_schedule(old)
    with closing(sqlite3.connect(move.path)) as connection, connection:
        connection.execute("UPDATE schedules SET created_by = 'a' || char(0) || 'b'")
    with pytest.raises(Conflict, match="cannot store a row of schedules"):
        move()
    clock.advance(MINUTE)
    assert tick(old) == 1


# -- the way back


def test_old_books_that_are_opened_again_go_on_where_they_stopped(
    move: Move, clock: VirtualClock
) -> None:
    add_schedule(move.old(), overlap="allow")
    move()
    with move.source() as source:
        assert source.reopen().place.startswith("database")
        with pytest.raises(Conflict, match="has not been moved"):
            source.reopen()
    clock.advance(MINUTE)
    assert tick(move.old()) == 1
    with pytest.raises(Conflict, match="not empty"):
        move()
