"""The ticker's own decisions: which part of a batch to try again after the database refused it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.engine.due_cursor import DueCursor
from duebook.engine.keeper import Keeper
from duebook.engine.ticker import Ticker
from duebook.errors import Unavailable
from duebook.store.sql.plans import Plans
from duebook.store.sqlite import SqliteStore
from duebook.store.values import Mark
from tests.support.builders import (
    LEASE,
    MINUTE,
    VirtualClock,
    add_schedule,
    begin,
    get_runs,
    get_schedule,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from duebook.model.plan import Plan
    from duebook.store.values import Taken


def unreachable(*_: object) -> Any:
    raise Unavailable("no disk")


def step_until_done(ticker: Ticker, clock: VirtualClock) -> int:
    """Step while there is something to do at once; returns how often."""
    steps = 1
    while (wake_at := ticker.step()) is not None and wake_at <= clock.now:
        steps += 1
        assert steps < 100
    return steps


def test_a_schedule_that_the_database_refuses_never_holds_up_the_others(
    store: SqliteStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [add_schedule(store, f"job-{n}") for n in range(20)]
    poison = ids[7]
    commit = Plans.commit

    def refuse(part: Plans, plans: Sequence[Plan], session_id: str | None) -> Any:
        if any(plan.schedule_id == poison for plan in plans):
            raise OverflowError("a number that no column holds")
        return commit(part, plans, session_id)

    monkeypatch.setattr(Plans, "commit", refuse)
    clock.advance()
    ticker = Ticker(store, batch=16)
    step_until_done(ticker, clock)
    assert len(get_runs(store)) == 19
    assert get_schedule(store, poison).problem == "OverflowError: a number that no column holds"
    clock.advance(timedelta(minutes=1))
    assert step_until_done(ticker, clock) <= 10, "batches grow again"


def test_books_out_of_reach_say_nothing_about_a_batch(
    store: SqliteStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_schedule(store)
    clock.advance()

    with monkeypatch.context() as patched:
        patched.setattr(Plans, "commit", unreachable)
        with pytest.raises(Unavailable):
            Ticker(store).step()
    Ticker(store).step()
    assert len(get_runs(store)) == 1


def test_in_leader_mode_only_who_leads_plans(tmp_path: Path) -> None:
    clock = VirtualClock()
    store = SqliteStore(tmp_path / "books.db", clock)
    add_schedule(store)
    terms: dict[str, int | None] = {}
    tickers = {}
    for name in ("node-1", "node-2"):
        begin(store, name, timedelta(hours=1))
        terms[name] = store.pulse(name, LEASE, (), leads=True).term
        tickers[name] = Ticker(store, name, term=lambda name=name: terms[name])  # type: ignore[misc]
    clock.advance(MINUTE)
    assert tickers["node-2"].step() is None
    assert tickers["node-2"].fired == 0
    assert tickers["node-1"].step() == clock.now + MINUTE
    assert tickers["node-1"].fired == 1


def test_a_commit_under_an_old_term_changes_nothing(tmp_path: Path) -> None:
    clock = VirtualClock()
    store = SqliteStore(tmp_path / "books.db", clock)
    schedule_id = add_schedule(store)
    begin(store, "node-1", timedelta(hours=1))
    begin(store, "node-2", timedelta(hours=1))
    assert store.pulse("node-1", LEASE, (), leads=True).term == 1
    clock.advance(MINUTE)
    assert store.pulse("node-2", LEASE, (), leads=True).term == 2
    late = Ticker(store, "node-1", term=lambda: 1)  # it does not know yet
    assert late.step() is None
    assert get_runs(store, schedule_id) == []
    assert Ticker(store, "node-2", term=lambda: 2).step() == clock.now + MINUTE
    assert len(get_runs(store, schedule_id)) == 1


def note_takes(monkeypatch: pytest.MonkeyPatch) -> list[Mark | None]:
    """Where each take begins from now on."""
    marks: list[Mark | None] = []
    take = Plans.take

    def note(part: Plans, limit: int, after: Mark | None = None) -> Taken:
        marks.append(after)
        return take(part, limit, after)

    monkeypatch.setattr(Plans, "take", note)
    return marks


def test_a_look_begins_where_the_last_full_batch_ended(
    store: SqliteStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = sorted(add_schedule(store, f"job-{n}") for n in range(5))
    clock.advance()
    marks = note_takes(monkeypatch)
    ticker = Ticker(store, batch=2)
    step_until_done(ticker, clock)
    assert marks[:3] == [None, Mark(clock.now, ids[1]), Mark(clock.now, ids[3])]
    assert marks[3:] in ([], [None]), "then once from the beginning"
    assert len(get_runs(store)) == 5


def test_a_full_batch_is_announced_before_it_is_planned(
    store: SqliteStore, clock: VirtualClock
) -> None:
    for n in range(3):
        add_schedule(store, f"job-{n}")
    clock.advance()
    fired: list[int] = []
    ticker = Ticker(store, batch=2, more_due=lambda: fired.append(ticker.fired))
    step_until_done(ticker, clock)
    assert fired == [0], "and the short batch after it is not"


def test_a_ticker_whose_look_failed_holds_up_no_other(
    store: SqliteStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_schedule(store)
    clock.advance()
    cursor = DueCursor()
    with monkeypatch.context() as patched:
        patched.setattr(store, "transact", unreachable)
        with pytest.raises(Unavailable):
            Ticker(store, cursor=cursor).step()
    assert Ticker(store, cursor=cursor).step() == clock.now + MINUTE
    assert len(get_runs(store)) == 1


def test_a_batch_that_came_to_nothing_is_looked_at_again(
    store: SqliteStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        add_schedule(store, f"job-{n}")
    clock.advance()
    ticker = Ticker(store, batch=2)
    with monkeypatch.context() as patched:
        patched.setattr(Plans, "commit", unreachable)
        with pytest.raises(Unavailable):
            ticker.step()
    step_until_done(ticker, clock)
    assert len(get_runs(store)) == 3


def test_what_was_left_behind_is_found_when_the_keeper_looks_back(
    store: SqliteStore, clock: VirtualClock
) -> None:
    begin(store, "node-1", timedelta(hours=1))
    cursor = DueCursor()
    ticker = Ticker(store, "node-1", cursor=cursor)
    keeper = Keeper(store, "node-1", LEASE, None, lambda *_: None, cursor=cursor)
    add_schedule(store)
    clock.advance(MINUTE)
    cursor.mark = Mark(clock.now + MINUTE, "")
    assert ticker.step() is None, "a look from the mark does not see it"
    keeper.renew()
    assert keeper.pulse is not None
    assert keeper.pulse.wake_at == clock.now
    cursor.look_back(keeper.pulse.wake_at)
    assert ticker.step() == clock.now + MINUTE
    assert ticker.fired == 1


def test_a_batch_that_may_have_been_too_much_is_halved(
    store: SqliteStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(8):
        add_schedule(store, f"job-{n}")
    clock.advance()
    limits: list[int] = []
    take = Plans.take

    def refuse_many(part: Plans, limit: int, after: Mark | None = None) -> Taken:
        limits.append(limit)
        if limit > 2:
            raise Unavailable("no answer within 10 s")
        return take(part, limit, after)

    monkeypatch.setattr(Plans, "take", refuse_many)
    ticker = Ticker(store, batch=8)
    for _ in range(2):
        with pytest.raises(Unavailable):
            ticker.step()
    ticker.step()
    assert limits == [8, 4, 2]
    assert len(get_runs(store)) == 2


def test_a_transaction_that_the_store_tries_again_takes_the_same(
    store: SqliteStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(4):
        add_schedule(store, f"job-{n}")
    clock.advance()
    marks = note_takes(monkeypatch)
    commit, transact = Plans.commit, store.transact
    fails = [True]

    def lose_once(part: Plans, plans: Sequence[Plan], session_id: str | None) -> int:
        if fails:
            fails.clear()
            raise TimeoutError("a deadlock")
        return commit(part, plans, session_id)

    def try_twice(work: Any) -> Any:
        try:
            return transact(work)
        except TimeoutError:
            return transact(work)

    monkeypatch.setattr(Plans, "commit", lose_once)
    monkeypatch.setattr(store, "transact", try_twice)
    Ticker(store, batch=2).step()
    assert marks == [None, None]
