"""A node dies at every named point of a step: nothing is half-written, and repeating it heals.

A point is tried in one of two ways, and in the other by `make test-long`. `raised`: the hook raises
and the process goes on, so that the store has to clean up. `killed`: the files are copied as they
are at that very moment, which is what a killed process leaves behind, and the copy is opened
instead.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pytest

from duebook.store.sqlite import SqliteStore
from tests.support.builders import (
    VirtualClock,
)
from tests.support.crash_steps import (
    STEPS,
    TABLES,
    Crash,
    Points,
    Tables,
)

if TYPE_CHECKING:
    from collections.abc import Callable


# -- the machinery


class Base:
    """A file before a step, its clock, and what the step does to it without a crash."""

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
        points.seen.clear()  # the points of opening the file
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
    """Every row, except the ids of runs, which differ in each attempt at a step."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = {row[0]: row[1] for row in connection.execute("SELECT id, name FROM schedules")}
        return {table: _rows(connection, table, names) for table in TABLES}


def _rows(
    connection: sqlite3.Connection, table: str, names: dict[str, str]
) -> list[tuple[Any, ...]]:
    found = [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]  # noqa: S608
    for row in found:
        row.pop("run_id" if table in ("run_attempts", "run_keys") else "id", None)
        row["schedule_id"] = names.get(row.get("schedule_id", ""))
    return sorted((tuple(row.items()) for row in found), key=repr)


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
        "claim_runs",
        "settle_run",
        "settle_alike",
        "settle_each",
        "insert_returned_attempts",
        "hand_back_runs",
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


HALVES: Final = [  # each point in one way, before and after statements in both, as on PostgreSQL
    pytest.param({0, 3}, id="some"),
    pytest.param({1, 2}, id="others", marks=pytest.mark.long),
]
OTHER_HALVES: Final = [
    pytest.param({1, 2}, id="some"),
    pytest.param({0, 3}, id="others", marks=pytest.mark.long),
]


def points_of(step: str, half: set[int]) -> list[int]:
    return [number for number in range(len(base(step).points)) if number % 4 in half]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_is_interrupted_leaves_nothing_half_written(
    tmp_path: Path, step: str, half: set[int]
) -> None:
    made = base(step)

    def act() -> None:
        raise Crash

    for number in points_of(step, half):
        path = Path(shutil.copy(made.path, tmp_path / f"{number}.db"))
        crash(path, made, number, act)
        check_invariants(path, made, committed=made.points[number] == "after:COMMIT")
        check_repeating_heals(path, made)


@pytest.mark.parametrize("half", OTHER_HALVES)
@pytest.mark.parametrize("step", STEPS)
def test_a_step_whose_node_is_killed_leaves_nothing_half_written(
    tmp_path: Path, step: str, half: set[int]
) -> None:
    made = base(step)
    for number in points_of(step, half):
        path = Path(shutil.copy(made.path, tmp_path / f"{number}.db"))
        left = tmp_path / f"left-{number}.db"
        crash(path, made, number, partial(copy_and_crash, path, left))
        check_invariants(left, made, committed=made.points[number] == "after:COMMIT")
        check_repeating_heals(left, made)


def copy_and_crash(path: Path, left: Path) -> None:
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{left}{suffix}")
    raise Crash


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
