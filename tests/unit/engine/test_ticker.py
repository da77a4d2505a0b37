"""The ticker's own decisions: which part of a batch to try again after the database refused it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.engine.ticker import Ticker
from duebook.errors import Unavailable
from duebook.store.sqlite import SqliteStore
from duebook.store.sqlite.tx import SqliteTx
from tests.conformance.builders import VirtualClock, add_schedule, get_runs, get_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from duebook.model.plan import Plan


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(tmp_path: Path, clock: VirtualClock) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "book.db", clock)
    yield store
    store.close()


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
    commit = SqliteTx.commit

    def refuse(tx: SqliteTx, plans: Sequence[Plan], session_id: str | None) -> Any:
        if any(plan.schedule_id == poison for plan in plans):
            raise OverflowError("a number that no column holds")
        return commit(tx, plans, session_id)

    monkeypatch.setattr(SqliteTx, "commit", refuse)
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

    def unreachable(*_: object) -> Any:
        raise Unavailable("no disk")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteTx, "commit", unreachable)
        with pytest.raises(Unavailable):
            Ticker(store).step()
    Ticker(store).step()
    assert len(get_runs(store)) == 1
