"""A node dies at every named point of a step: nothing is half-written, and repeating it heals.

Each point is tried in two ways. `raised`: the hook raises and the process goes on, so that the
store has to clean up. `killed`: the files are copied as they are at that very moment, which is
what a killed process leaves behind, and the copy is opened instead.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pytest

from duebook.engine.advancer import Advancer
from duebook.model.flow_target import FlowTarget
from duebook.model.plan import DueException
from duebook.model.run import Outcome
from duebook.store.joined import JoinedStore
from duebook.store.sqlite import SqliteStore
from tests.conformance.builders import (
    BEGIN,
    LEASE,
    MINUTE,
    SECOND,
    VirtualClock,
    add_run,
    add_schedule,
    begin,
    claim,
    run_tick,
    settle,
    tick,
)
from tests.conformance.flow_builders import CHAIN, put_flow, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.store.base import Store, Tx

Tables = dict[str, list[tuple[Any, ...]]]
TABLES: Final = (
    "schedule_state",
    "schedule_exceptions",
    "runs",
    "run_attempts",
    "ledger",
    "flow_runs",
    "flow_wakes",
)
NODE: Final = "node-1"


class Crash(BaseException):
    """Nothing that a product catches."""


# -- the steps: how the books stand before, and what is repeated after a crash


def prepare_tick(store: Store, clock: VirtualClock) -> None:
    """One due time each that fires, is skipped by a person, is skipped for overlap, is missed."""
    add_schedule(store, "fires")
    said = add_schedule(store, "said")
    store.transact(lambda tx: tx.add_exception(said, DueException(BEGIN + 5 * MINUTE, "skip")))
    add_run(store, add_schedule(store, "busy"))
    add_schedule(store, "missed", catchup="skip")
    clock.advance(5 * MINUTE)


def prepare_claim(store: Store, clock: VirtualClock) -> None:
    """Three of four runs can be claimed; the fourth waits for one of its own schedule."""
    for name in ("a", "b"):
        add_schedule(store, name)
    both = add_schedule(store, "both", overlap="skip")
    clock.advance(MINUTE)
    tick(store)
    add_run(store, both)
    begin(store)


def prepare_settle(store: Store, clock: VirtualClock) -> None:
    """A run that is the last of its schedule and wakes it."""
    add_schedule(store, trigger={"at": (BEGIN + MINUTE).isoformat()})
    clock.advance(MINUTE)
    tick(store)
    begin(store)
    claim(store)
    clock.advance(SECOND)


def prepare_takeover(store: Store, clock: VirtualClock) -> None:
    """One run to be requeued, one that is poison, one that was to be cancelled."""
    add_schedule(store, "again")
    add_schedule(store, "poison", max_takeovers=0)
    add_schedule(store, "cancelled", trigger={"at": (BEGIN + MINUTE).isoformat()})
    clock.advance(MINUTE)
    tick(store)
    begin(store)
    (unwanted,) = (c.run.id for c in claim(store) if c.run.schedule == "cancelled")
    store.transact(lambda tx: tx.cancel(unwanted, "cancelled"))
    clock.advance(LEASE)


def prepare_advance(store: Store, clock: VirtualClock) -> None:
    """One run of a flow each that begins, goes on, skips what comes after a failure, ends, is
    cancelled, and whose caller runs it again."""
    put_flow(store, CHAIN)
    put_flow(store, "name: outer\nsteps: [{name: inner, call: chain, retries: 1}]", "outer")
    runs = {"chain": start(store), "fails": start(store), "ends": start(store)}
    runs |= {"stops": start(store), "outer": start(store, "outer")}
    begin(store)
    for _ in range(2):
        Advancer(store).step()
        for claimed in claim(store):
            context = claimed.step_context
            assert context is not None
            if context.run_id == runs["outer"]:
                token = claimed.token
                store.transact(lambda tx, token=token: tx.call_flow(token, FlowTarget("chain")))  # type: ignore[misc]
            elif context.run_id == runs["ends"] and claimed.run.step == "one":
                settle(store, claimed.token)
            elif context.run_id != runs["stops"]:
                is_well = context.run_id in (runs["chain"], runs["ends"])
                settle(store, claimed.token, "succeeded" if is_well else "failed")
    store.transact(lambda tx: tx.cancel(runs["stops"], "stopped"))
    start(store)
    clock.advance(SECOND)


def prepare_call(store: Store, clock: VirtualClock) -> None:
    """A step that is about to become the run of a flow."""
    put_flow(store, CHAIN)
    put_flow(store, "name: outer\nsteps: [{name: inner, call: chain}]", "outer")
    start(store, "outer")
    begin(store)
    Advancer(store).step()
    claim(store)
    clock.advance(SECOND)


def call_from_own_run(tx: Tx) -> None:
    for own in tx.own_runs(NODE):
        assert tx.call_flow(own.token, FlowTarget("chain", (("DAY", "1"),)))


def settle_own_run(tx: Tx) -> None:
    """A node that lost the answer asks what is still its own, and settles that."""
    for own in tx.own_runs(NODE):
        assert tx.settle(own.token, Outcome("failed", "exit_code", "it broke", 3))


def bury_and_take_over(tx: Tx) -> None:
    tx.bury()
    tx.take_over(100)


STEPS: Final[dict[str, tuple[Callable[[Store, VirtualClock], None], Callable[[Tx], object]]]] = {
    "tick": (prepare_tick, run_tick),
    "claim": (prepare_claim, lambda tx: tx.claim(NODE, "default", 10)),
    "settle": (prepare_settle, settle_own_run),
    "takeover": (prepare_takeover, bury_and_take_over),
    "advance": (prepare_advance, lambda tx: Advancer(JoinedStore(tx)).advance(tx)),
    "call": (prepare_call, call_from_own_run),
}


# -- the machinery


class Points:
    """Counts the hook's calls, and does something at one of them."""

    def __init__(self, at: int = -1, act: Callable[[], None] = lambda: None) -> None:
        self.seen: list[str] = []
        self._at, self._act = at, act

    def __call__(self, name: str) -> None:
        self.seen.append(name)
        if len(self.seen) - 1 == self._at:
            self._act()


class Base:
    """A file as it stands before a step, its clock, and what the step does to it uncrashed."""

    def __init__(self, step: str, folder: Path) -> None:
        prepare, self.work = STEPS[step]
        self.clock, self.path = VirtualClock(), folder / "before.db"
        store = SqliteStore(self.path, self.clock)
        prepare(store, self.clock)
        store.close()
        self.before = contents(self.path)
        done = Path(shutil.copy(self.path, folder / "after.db"))
        points = Points()
        store = SqliteStore(done, self.clock, points)
        points.seen.clear()  # those of opening the file
        store.transact(self.work)
        store.close()
        self.points, self.after = points.seen, contents(done)


_FOLDER: Final = TemporaryDirectory(prefix="duebook-crash-")


@cache
def base(step: str) -> Base:
    folder = Path(_FOLDER.name) / step
    folder.mkdir()
    return Base(step, folder)


def contents(path: Path) -> Tables:
    """Every row, with the ids of runs, which each attempt at a step makes anew, left out."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = {row[0]: row[1] for row in connection.execute("SELECT id, name FROM schedules")}
        return {table: _rows(connection, table, names) for table in TABLES}


def _rows(
    connection: sqlite3.Connection, table: str, names: dict[str, str]
) -> list[tuple[Any, ...]]:
    found = [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]  # noqa: S608
    for row in found:
        row.pop("run_id" if table == "run_attempts" else "id", None)
        row["schedule_id"] = names.get(row.get("schedule_id", ""))
    return sorted((tuple(row.items()) for row in found), key=repr)


def cases() -> list[tuple[str, int]]:
    """Every point of every step; found out by running each step once."""
    return [(step, number) for step in STEPS for number in range(len(base(step).points))]


def crash(path: Path, made: Base, number: int, act: Callable[[], None]) -> None:
    points = Points()
    store = SqliteStore(path, made.clock, points)
    opening = len(points.seen)
    points._at, points._act = opening + number, act
    try:
        with pytest.raises(Crash):
            store.transact(made.work)
    finally:
        store.close()
    assert points.seen[opening:] == made.points[: number + 1]


def check_invariants(path: Path, made: Base, committed: bool) -> None:
    assert contents(path) == (made.after if committed else made.before)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def check_repeating_heals(path: Path, made: Base) -> None:
    for _ in range(2):
        store = SqliteStore(path, made.clock)
        store.transact(made.work)
        store.close()
        assert contents(path) == made.after
    with closing(sqlite3.connect(path)) as connection:
        doubled = "SELECT 1 FROM runs GROUP BY schedule_id, due_at HAVING due_at AND count(*) > 1"
        assert connection.execute(doubled).fetchall() == []


# -- the tests


def test_every_step_has_a_point_around_each_statement_and_the_commit() -> None:
    for step in STEPS:
        points = base(step).points
        assert points[-2:] == ["before:COMMIT", "after:COMMIT"]
        for before, after in zip(points[::2], points[1::2], strict=True):
            assert before.replace("before:", "after:") == after
        assert base(step).before != base(step).after


def test_the_steps_reach_the_statements_that_matter() -> None:
    reached = {point.split(":")[1] for step in STEPS for point in base(step).points}
    assert reached >= {
        "take_due",
        "commit_state",
        "delete_exception",
        "insert_run",
        "insert_ledger",
        "claim_run",
        "settle_run",
        "wake_schedule",
        "end_expired_sessions",
        "insert_lost_attempts",
        "requeue_runs",
        "fail_lost_run",
        "write_high_water",
        "use_wakes",
        "begin_flow_run",
        "insert_step_run",
        "insert_skipped_run",
        "request_cancel",
        "end_flow_run",
        "retry_flow",
        "forget_all_steps",
        "rest_flow",
        "call_flow",
        "insert_called",
    }


@pytest.mark.parametrize(("step", "number"), cases())
def test_a_step_that_is_interrupted_leaves_nothing_half_written(
    tmp_path: Path, step: str, number: int
) -> None:
    made = base(step)
    path = Path(shutil.copy(made.path, tmp_path / "book.db"))

    def act() -> None:
        raise Crash

    crash(path, made, number, act)
    check_invariants(path, made, committed=made.points[number] == "after:COMMIT")
    check_repeating_heals(path, made)


@pytest.mark.parametrize(("step", "number"), cases())
def test_a_step_whose_node_is_killed_leaves_nothing_half_written(
    tmp_path: Path, step: str, number: int
) -> None:
    made = base(step)
    path = Path(shutil.copy(made.path, tmp_path / "book.db"))
    left = tmp_path / "left.db"

    def act() -> None:
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{left}{suffix}")
        raise Crash

    crash(path, made, number, act)
    check_invariants(left, made, committed=made.points[number] == "after:COMMIT")
    check_repeating_heals(left, made)


def test_a_store_that_was_interrupted_goes_on_without_being_opened_again(tmp_path: Path) -> None:
    for step in STEPS:
        made = base(step)
        path = Path(shutil.copy(made.path, tmp_path / f"{step}.db"))

        def act() -> None:
            raise Crash

        points = Points()
        store = SqliteStore(path, made.clock, points)
        points._at, points._act = len(points.seen) + len(made.points) // 2, act
        with pytest.raises(Crash):
            store.transact(made.work)
        store.transact(made.work)
        store.close()
        assert contents(path) == made.after
