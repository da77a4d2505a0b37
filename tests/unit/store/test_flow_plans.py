"""What is asked about flows uses indexes on both stores, however long the history is."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from duebook.store.postgres.arriving import ARRIVING_RUNS, SPREAD_RUNS
from duebook.store.postgres.connection import SCHEMA
from duebook.store.postgres.statements import QUERIES as POSTGRES
from duebook.store.queries import percent_named
from duebook.store.sqlite import SqliteStore
from duebook.store.sqlite.statements import QUERIES as SQLITE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.postgres import Server

AT: Final = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
FLOW: Final[dict[str, Any]] = {"namespace": "default", "flow": "f1"}
DIRECTORY: Final[dict[str, Any]] = {"namespace": "default", "name": "flows", "now": AT}
TOKEN: Final[dict[str, Any]] = {"run_id": "b1", "attempt": 1, "session_id": "alive"}
IDS: Final = ["b1", "b2", "b3"]
HOT: Final[dict[str, dict[str, Any]]] = {
    "get_flow_wake": {},
    "take_woken": {"limit": 10},
    "take_flows": {"now": AT, "limit": 10},
    "lock_flow_run": {"id": "b1"},
    "use_wakes": {"ids": IDS},
    "list_parents": {"ids": IDS},
    "list_steps": {"ids": IDS},
    "list_outputs": {"ids": IDS},
    "list_step_contexts": {"ids": ["b1-x", "b2-x"]},
    "lock_beginning": {"ids": IDS},
    "begin_flow_run": {"ids": IDS, "now": AT},
    "call_flow": {**TOKEN, "flow": "f1"},
    "retry_flow": {"id": "b1", "ready_at": AT, "reason": None, "error": None},
    "forget_all_steps": {"id": "b1"},
    "forget_steps": {"id": "b1", "steps": ["x", "y"]},
    "delete_skipped_steps": {"id": "b1", "steps": ["x", "y"]},
    "list_waiting_steps": {"id": "b1"},
    "list_steps_of": {"id": "b1"},
    "list_active_flow_runs": FLOW,
    "count_flows_under_way": {"namespaces": ["default"] * 2, "flows": ["f1", "f2"]},
    "list_waiting_for_flow": {**FLOW, "limit": 5},
    "list_callers": {"ids": ["b1-x", "b2-x"]},
    "get_last_flow_end": FLOW,
    "list_flow_runs_of": {**FLOW, "limit": 5},
    "list_runs_of_flow": {**FLOW, "first": 0, "before": 2**62, "limit": 5},
    "list_latest_flow_runs": {"namespace": "default", "names": ["f1", "f2"]},
    "list_flow_revisions": {
        "namespace": "default",
        "flows": ["f1"] * 2,
        "digests": ["db1", "db11"],
    },
    "list_flows_after": {"namespace": "default", "after": "f1", "limit": 10},
    "list_waiting_flows": {"ids": ["s1"]},
    "get_flow_run": {"id": "b1"},
    "list_flow_schedules": {**DIRECTORY, "until": AT},
    "count_waiting_flows": DIRECTORY,
    "delete_lost_wakes": {},
    "take_controls": {"now": AT, "limit": 10},
}
FILL: Final = """
INSERT INTO {runs} (id, namespace, origin, trigger, parent_run_id, step, flow, queue, priority,
    exclusive, wakes, max_takeovers, status, session_id, attempt, claimed_at, created_at, ready_at,
    finished_at)
WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {many})
SELECT 'b' || n, 'default', 'manual', 'manual', NULL, NULL, 'f' || (n % 10), '@flow', 0, {no},
    {yes}, 0, CASE WHEN n < 8 THEN 'running' ELSE 'succeeded' END, '', 1, {at}, {at}, {at},
    CASE WHEN n < 8 THEN NULL ELSE {at} END
FROM n;
INSERT INTO {runs} (id, namespace, origin, trigger, parent_run_id, step, flow, queue, priority,
    exclusive, wakes, max_takeovers, status, session_id, attempt, claimed_at, created_at, ready_at,
    finished_at)
SELECT r.id || '-' || s.name, 'default', 'flow', '', r.id, s.name, r.flow, 'default', 0, {no},
    {yes}, 3, r.status, 'alive', 1, {at}, {at}, {at}, r.finished_at
FROM {runs} AS r CROSS JOIN (SELECT 'x' AS name UNION ALL SELECT 'y' UNION ALL SELECT 'z') AS s;
INSERT INTO flow_runs (run_id, digest, params, wake_at)
SELECT id, 'd', '{{}}', CASE WHEN status = 'running' THEN {at} END FROM {runs}
WHERE parent_run_id IS NULL;
INSERT INTO flow_revisions (namespace, flow, digest, place, source, at)
SELECT 'default', flow, 'd' || id, 'flows/f.yaml', '', {at} FROM {runs} WHERE parent_run_id IS NULL;
INSERT INTO flow_wakes (run_id) VALUES ('b1');
INSERT INTO flows (namespace, name, place, digest, updated_at)
SELECT CASE WHEN status = 'running' THEN 'default' ELSE 'other' END, CASE WHEN status = 'running'
    THEN flow ELSE id END, 'flows/f.yaml', 'd', {at}
FROM {runs} WHERE parent_run_id IS NULL;
INSERT INTO schedules (id, namespace, name, version, target, created_at)
SELECT id, 'default', id, 1, CASE WHEN status = 'running' THEN 'flow:' || flow ELSE 'command' END,
    {at}
FROM {runs} WHERE parent_run_id IS NULL;
INSERT INTO schedule_state (schedule_id, version, status, watermark, next_due_at, wake_at)
SELECT id, 1, 'active', {at}, {at}, {at} FROM schedules;
"""


@pytest.fixture(scope="module", params=["not analyzed", "analyzed"])
def books(request: pytest.FixtureRequest, postgres_server: Server) -> Iterator[Any]:
    """Three thousand runs of flows that ended, with three steps each, and a few that have not."""
    with postgres_server.database() as url:
        options = f"-c search_path={SCHEMA} -c plan_cache_mode=force_custom_plan -c jit=off"
        options += " -c enable_bitmapscan=off"
        with psycopg.connect(url, autocommit=True, options=options) as connection:
            at = f"timestamptz '{AT.isoformat()}'"
            words = {"runs": "arriving_runs", "at": at, "yes": "true", "no": "false"}
            fill = FILL.format(many=3_000, **words)
            connection.execute(f"BEGIN; {ARRIVING_RUNS}; {fill}; {SPREAD_RUNS}; COMMIT".encode())
            if request.param == "analyzed":
                connection.execute("VACUUM ANALYZE")
            yield connection


@pytest.mark.parametrize("name", HOT)
def test_a_query_about_flows_reads_no_table_of_postgres_from_end_to_end(
    books: psycopg.Connection[tuple[Any, ...]], name: str
) -> None:
    sql = percent_named(POSTGRES[name])
    with books.transaction():
        books.execute("SET LOCAL enable_seqscan = off")  # as in our transactions
        rows = books.execute(f"EXPLAIN {sql}".encode(), HOT[name]).fetchall()
    plan = "\n".join(row[0] for row in rows)
    for table in ("active_runs", "ended_runs", "flow_runs", "flow_revisions", "schedules"):
        assert f"Seq Scan on {table} " not in plan, plan[:3_000]


@pytest.mark.parametrize(
    ("name", "now"),
    [("list_flow_schedules", AT - timedelta(hours=1)), ("count_waiting_flows", AT)],
)
def test_the_schedules_of_flows_are_found_among_many_others(
    books: psycopg.Connection[tuple[Any, ...]], name: str, now: datetime
) -> None:
    sql = f"EXPLAIN {percent_named(POSTGRES[name])}"
    rows = books.execute(sql.encode(), {**HOT[name], "now": now}).fetchall()
    plan = "\n".join(row[0] for row in rows)
    assert "schedules_of_flow" in plan, plan[:3_000]


def filled(path: Path, many: int) -> sqlite3.Connection:
    SqliteStore(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(FILL.format(many=many, at=1, runs="runs", yes="1", no="0"))
    return connection


def values(name: str) -> dict[str, Any]:
    found = {key: 1 if value is AT else value for key, value in HOT[name].items()}
    return {key: json.dumps(v) if isinstance(v, list) else v for key, v in found.items()}


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("name", HOT)
def test_a_query_about_flows_uses_an_index_of_sqlite(
    tmp_path: Path, name: str, analyzed: bool
) -> None:
    with closing(filled(tmp_path / "books.db", 50)) as connection:
        if analyzed:
            connection.execute("ANALYZE")
        explained = connection.execute(f"EXPLAIN QUERY PLAN {SQLITE[name]}", values(name))
        for line in (row[3] for row in explained):
            if re.match(r"(SCAN|SEARCH) (runs|r|f|p|s|flow_runs|flows)\b", line):
                assert re.search(r"INDEX|PRIMARY KEY", line), line


@pytest.mark.parametrize("name", HOT)
def test_the_cost_of_a_query_about_flows_does_not_grow_with_the_history(
    tmp_path: Path, name: str
) -> None:
    costs = []
    for many in (100, 2_000):
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        with closing(filled(tmp_path / f"{many}.db", many)) as connection:
            connection.set_progress_handler(count, 1)
            connection.execute("BEGIN")
            connection.execute(SQLITE[name], values(name)).fetchall()
            connection.execute("ROLLBACK")
            connection.set_progress_handler(None, 1)
        costs.append(steps)
    assert costs[1] <= 1.3 * costs[0] + 30
