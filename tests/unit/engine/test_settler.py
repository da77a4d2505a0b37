"""The settler: ends that wait share a transaction, and one that spoils it harms no other."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from duebook.engine.advancer import Advancer
from duebook.engine.settler import Settler
from duebook.model.retry import Retry
from duebook.model.run import Outcome
from tests.support.builders import add_run, add_schedule, begin, claim, get_run
from tests.support.flow_builders import CHAIN, put_flow, start
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.run import Claim
    from duebook.store.base import Tx
    from duebook.store.sql.attempts import Attempts
    from duebook.store.sqlite import SqliteStore

NUMBER = 8


class CountingStore:
    """Counts transactions, and can be told to wait, and to choke on some error texts."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.transactions = 0
        self.may_go_on = threading.Event()

    def transact(self, work: Callable[[Tx], Any]) -> Any:
        assert self.may_go_on.wait(PATIENCE)
        self.transactions += 1
        return self.store.transact(lambda tx: work(_choking(tx)))


class _Choking:
    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._attempts, name)

    def settle_all(self, ended: Sequence[tuple[Any, Outcome]], *more: Any) -> Any:
        if any(outcome.error == "poison" for _, outcome in ended):
            raise ValueError("the database refuses this")
        return self._attempts.settle_all(ended, *more)

    def settle(self, token: Any, outcome: Outcome, retry_after: Any = None) -> bool:
        if outcome.error == "poison":
            raise ValueError("the database refuses this")
        return self._attempts.settle(token, outcome, retry_after)


def _choking(tx: Tx) -> Tx:
    tx.attempts = _Choking(tx.attempts)  # type: ignore[assignment]
    return tx


@pytest.fixture
def claims(store: SqliteStore) -> list[Claim]:
    for number in range(NUMBER):
        add_run(store, add_schedule(store, f"job-{number}"))
    begin(store)
    return claim(store)


def settle_all(store: SqliteStore, ended: Sequence[tuple[Claim, Outcome | None]]) -> int:
    """Settles them all as one batch; returns how many transactions that took."""
    counting = CountingStore(store)
    done: list[Claim] = []
    settler = Settler(counting, done.extend)  # type: ignore[arg-type]
    for claimed, outcome in ended:
        settler.put(claimed, outcome)
    counting.may_go_on.set()
    eventually(lambda: len(done) == len(ended))
    settler.close()
    return counting.transactions


def test_ends_that_wait_share_a_transaction(store: SqliteStore, claims: list[Claim]) -> None:
    transactions = settle_all(store, [(claimed, Outcome("succeeded")) for claimed in claims])
    assert transactions <= 2
    assert {get_run(store, claimed.run.id).status for claimed in claims} == {"succeeded"}


def test_the_end_of_a_step_is_told_with_its_flow(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    put_flow(store, CHAIN)
    start(store)
    begin(store)
    Advancer(store).step()
    (step,) = claim(store)
    with caplog.at_level(logging.INFO, "duebook.engine.settler"):
        settle_all(store, [(step, Outcome("failed", "exit_code", "exit code 1", 1))])
    assert caplog.messages == [f"chain: one failed (exit code 1), run {step.run.id}"]


def test_an_end_that_the_database_refuses_fails_alone(
    store: SqliteStore, claims: list[Claim]
) -> None:
    ended = [(claimed, Outcome("succeeded")) for claimed in claims]
    ended[5] = (claims[5], Outcome("failed", "error", "poison"))
    settle_all(store, ended)
    statuses = [get_run(store, claimed.run.id).status for claimed in claims]
    assert statuses.count("succeeded") == NUMBER - 1
    spoiled = get_run(store, claims[5].run.id)
    assert (spoiled.status, spoiled.error) == (
        "failed",
        "its outcome could not be stored",
    )


def test_an_end_to_be_retried_that_the_database_refuses_harms_no_other(
    store: SqliteStore,
) -> None:
    for number in range(3):
        add_run(store, add_schedule(store, f"job-{number}", retry=Retry(attempts=3)))
    begin(store)
    claims = claim(store)
    settle_all(
        store,
        [
            (claims[0], Outcome("failed", "error", "poison")),
            (claims[1], Outcome("failed", "error", "another")),
            (claims[2], None),
        ],
    )
    runs = [get_run(store, claimed.run.id) for claimed in claims]
    assert [run.status for run in runs] == ["queued"] * 3
    assert [run.failures for run in runs] == [1, 1, 0]


def test_buffered_runs_are_handed_back_in_one_transaction(
    store: SqliteStore, claims: list[Claim]
) -> None:
    counting = CountingStore(store)
    done: list[Claim] = []
    settler = Settler(counting, done.extend)  # type: ignore[arg-type]
    for claimed in claims:
        settler.put_back(claimed)
    counting.may_go_on.set()
    eventually(lambda: len(done) == len(claims))
    settler.close()
    assert counting.transactions <= 2
    assert {get_run(store, claimed.run.id).status for claimed in claims} == {"queued"}
