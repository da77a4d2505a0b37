"""The hot queries use their index, and their cost does not grow with the history."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest

from duebook.store.sqlite import SqliteStore
from duebook.store.sqlite.statements import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW: Final = 1_000_000
SCHEDULES: Final = 40
READS: Final = re.compile(r"(SCAN|SEARCH) (runs|r|other|oldest|schedule_state|st|node_sessions)\b")
PLACE: Final[dict[str, Any]] = {"queue": "default", "namespace": "default"}
END: Final[dict[str, Any]] = {
    "now": NOW,
    "status": "succeeded",
    **dict.fromkeys(("reason", "error", "exit_code", "output", "output_ref")),
}
HOT: Final[dict[str, dict[str, Any]]] = {
    "take_due": {"now": NOW, "limit": 10, "after": NOW, "after_id": ""},
    "get_earliest_wake": {"after": NOW},
    "list_active": {"ids": json.dumps([f"s{n}" for n in range(5)])},
    "list_claimable": PLACE | {"now": NOW, "limit": 5, "tasks": "[]", "labels": "{}"},
    "claim_runs": {"places": "[1, 2, 3]", "session_id": "alive", "now": NOW, "begun_at": NOW},
    "list_own_runs": {"ids": json.dumps(["r0", "r1", "e1-0"])},
    "settle_alike": {**END, "begun": json.dumps({SCHEDULES + 1: NOW, SCHEDULES + 2: None})},
    "settle_each": {**END, "place": SCHEDULES + 1, "begun_at": NOW},
    "list_namespaces": {"queue": "default"},
    "get_any_queued": {"queues": '["default"]', "namespaces": '["d", "shop"]'},
    "count_running": {"queue": "default"},
    "list_session_runs": {"id": "alive"},
    "list_orphans": {"limit": 10},
    "get_earliest_ready": {"now": NOW},
    "end_expired_sessions": {"now": NOW, "longest": 30},
    "list_waiting_queues": {"limit": 10},
    "count_queued": {"queue": "default", "limit": 10},
    "get_most_overdue": {"before": NOW},
    "list_problems": {"limit": 10},
    "wake_asleep": {"now": NOW, "limit": 10},
    "cancel_queued_runs": {"ids": json.dumps(["s1", "s2"]), "now": NOW, "reason": "deleted"},
    "limit_queued_runs": {"id": "s1", "exclusive": 0, "max_concurrent": 1},
    "delete_states": {"ids": json.dumps(["s1", "s2"])},
    "look_at_old_runs": {
        "namespaces": '["shop"]',
        "among": 0,
        "before": NOW,
        "remembered": NOW,
        "at": 0,
        "place": 0,
        "limit": 5,
    },
    "look_at_outdated_runs": {"id": "s1", "before": NOW, "remembered": NOW, "limit": 1},
    "look_at_surplus_runs": {"id": "s1", "last": 0, "remembered": NOW, "limit": 1},
    "delete_runs": {"ids": json.dumps(["r0", "e1-0"]), "kept": 0},
}
NAMES: Final[dict[str, Any]] = {"namespace": "d", "after": "s1", "before": "s{", "limit": 51}
LABEL: Final[dict[str, Any]] = {**NAMES, "label": "team", "value": "x"}
AGE: Final[dict[str, Any]] = {"namespace": "d", "at": 0, "id": "s1", "limit": 51}
PLACES: Final[dict[str, Any]] = {"namespace": "default", "first": 0, "before": NOW, "limit": 51}
STRETCH: Final[dict[str, Any]] = {"schedule_id": "s1", "since": 0, "before": NOW, "limit": 51}
PAGES: Final[dict[str, dict[str, Any]]] = {
    "list_by_name": NAMES,
    "list_by_name_back": NAMES,
    "search_by_name": NAMES | {"text": "x"},
    "search_by_name_back": NAMES | {"text": "x"},
    "list_by_label": LABEL,
    "list_by_label_back": LABEL,
    "list_by_age": AGE,
    "list_by_age_back": AGE,
    "list_by_wake": {"at": 0, "id": "", "limit": 51},
    "list_runs_by_place": PLACES,
    "list_runs_of_task": {**PLACES, "task": "digest"},
    "list_failed_runs": {**PLACES, "status": "failed"},
    "list_running_runs": PLACES,
    "list_queued_runs": {**PLACES, "few": 1_000},
    "list_runs_of": {**STRETCH, "place": 5},
    "list_ledger": {**STRETCH, "id": 5},
    "list_schedules_by_id": {"ids": json.dumps(["s1", "s2"])},
    "list_latest_runs": {"ids": json.dumps(["s1", "s2"])},
    "list_marks": {"ids": json.dumps(["s1", "s2"]), "each": 20},
    "count_failed": {"namespace": "default", "first": 5, "most": 100},
}

SORTED: Final = ("list_runs_of", "list_latest_runs", "list_running_runs", "list_queued_runs")


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    SqliteStore(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        yield opened


def fill(connection: sqlite3.Connection, ended: int, dead: int = 0) -> None:
    """Each schedule has one queued run and `ended` ones behind it; two sessions run something."""
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO schedules (id, namespace, name, version, created_at) VALUES (?, 'd', ?, 1, 0)",
        ((f"s{n}", f"s{n}") for n in range(SCHEDULES)),
    )
    connection.executemany(
        "INSERT INTO schedule_state (schedule_id, version, status, watermark, wake_at) "
        "VALUES (?, 1, 'active', 0, ?)",
        ((f"s{n}", NOW - 10 + n) for n in range(SCHEDULES)),
    )
    connection.executemany(
        "INSERT INTO node_sessions (id, node, pid, roles, version, tzdata, started_at, expires_at, "
        "seen_at, ended_at) VALUES (?, 'n', 1, '', '', '', 0, ?, 0, ?)",
        [("alive", 2 * NOW, None), ("dead", 0, 1), *((f"old{n}", 0, 1) for n in range(dead))],
    )
    runs: list[tuple[Any, ...]] = [
        (f"q{n}", f"s{n}", n, "queued", None, None) for n in range(SCHEDULES)
    ]
    runs += [(f"r{n}", f"s{n}", -n - 1, "running", "alive", None) for n in range(2)]
    runs += [
        (f"e{n}-{i}", f"s{n}", 100 + i, "succeeded", "alive", 1)
        for n in range(SCHEDULES)
        for i in range(ended)
    ]
    connection.executemany(
        "INSERT INTO runs (id, namespace, schedule_id, version, due_at, origin, trigger, queue, "
        "priority, exclusive, wakes, max_takeovers, status, session_id, claimed_at, created_at, "
        "ready_at, finished_at) VALUES (?, 'default', ?, 1, ?, 'schedule', '', 'default', 0, 1, 0, "
        "3, ?, ?, 0, 0, 0, ?)",
        runs,
    )
    connection.execute("COMMIT")


def plan_of(connection: sqlite3.Connection, name: str) -> list[str]:
    sql = f"EXPLAIN QUERY PLAN {QUERIES[name]}"
    return [row[3] for row in connection.execute(sql, (HOT | PAGES)[name])]


def cost_of(connection: sqlite3.Connection, name: str, values: dict[str, Any] | None = None) -> int:
    """How many steps SQLite's machine takes."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, 1)
    connection.execute("SAVEPOINT measured")
    connection.execute(QUERIES[name], values or HOT[name]).fetchall()
    connection.execute("ROLLBACK TO measured")
    connection.execute("RELEASE measured")
    connection.set_progress_handler(None, 1)
    return steps


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("ended", [None, 0, 50])
@pytest.mark.parametrize("name", HOT)
def test_a_hot_query_uses_an_index(
    connection: sqlite3.Connection, name: str, ended: int | None, analyzed: bool
) -> None:
    if ended is not None:
        fill(connection, ended)
    if analyzed:
        connection.execute("ANALYZE")
    lines = plan_of(connection, name)
    reads = [line for line in lines if READS.match(line)]
    assert reads
    for line in reads:
        assert "INDEX" in line or "INTEGER PRIMARY KEY" in line, line
    assert not any("TEMP B-TREE" in line for line in lines)


@pytest.mark.parametrize("name", HOT)
def test_the_cost_of_a_hot_query_does_not_grow_with_the_history(tmp_path: Path, name: str) -> None:
    """A hundred times as many runs that ended, a hundred sessions that ended: the same steps."""
    costs = []
    for ended, dead in ((1, 1), (100, 100)):
        path = tmp_path / f"{ended}.db"
        SqliteStore(path).close()
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            fill(connection, ended, dead)
            costs.append(cost_of(connection, name))
    assert costs[1] <= 1.2 * costs[0] + 20


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("ended", [0, 50])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_a_stretch_of_an_index(
    connection: sqlite3.Connection, name: str, ended: int, analyzed: bool
) -> None:
    """What is due and what is not are merged, or at most a page of them is sorted."""
    fill(connection, ended)
    if analyzed:
        connection.execute("ANALYZE")
    for line in plan_of(connection, name):
        if re.match(r"(SCAN|SEARCH) (?!wanted|backlog|CONSTANT|\()", line):
            assert re.search(r"INDEX|PRIMARY KEY", line), line
        assert "TEMP B-TREE" not in line or name in SORTED, line


@pytest.mark.parametrize(("name", "few"), [("list_running_runs", 0), ("list_queued_runs", 5)])
def test_what_is_active_is_listed_without_reading_a_backlog(
    connection: sqlite3.Connection, name: str, few: int
) -> None:
    fill(connection, 1)
    values = PLACES | {"few": few, "limit": 3}
    short = cost_of(connection, name, values)
    connection.execute(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 3000) "
        "INSERT INTO runs (id, namespace, schedule_id, version, origin, trigger, queue, priority, "
        "exclusive, wakes, max_takeovers, status, created_at, ready_at) SELECT 'more' || n, "
        "'default', 's1', 1, 'manual', '', 'default', 0, 0, 0, 3, 'queued', 0, 0 FROM numbers"
    )
    assert cost_of(connection, name, values) <= 1.2 * short + 20


def test_the_longest_keep_is_one_step_in_an_index(connection: sqlite3.Connection) -> None:
    rows = connection.execute(f"EXPLAIN QUERY PLAN {QUERIES['get_longest_keep']}").fetchall()
    (step,) = [row[-1] for row in rows]
    assert step.startswith("SEARCH schedule_history USING COVERING INDEX schedule_history_by_keep")
