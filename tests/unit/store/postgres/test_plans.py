"""The hot queries of the PostgreSQL store use their indexes, whatever is in the tables, also when
they have been executed so often that the server might think of another plan."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg import errors

from duebook.engine.due_cursor import DueCursor
from duebook.engine.ticker import Ticker
from duebook.engine.work_cursor import WorkCursor
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.arriving import ARRIVING_RUNS, SPREAD_RUNS
from duebook.store.postgres.connection import SCHEMA
from duebook.store.postgres.parts import NEW_RUNS
from duebook.store.postgres.statements import KEPT, PREPARED, QUERIES
from duebook.store.queries import percent_named
from duebook.store.sql.rows import NewRun
from duebook.store.values import FIRST, WHOLE_QUEUE
from tests.support.builders import MINUTE, VirtualClock, add_run, add_schedule, begin, claim

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duebook.store.values import Mark, QueuePart
    from tests.support.postgres import Server

NOW: Final = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
IDS: Final = "{s1,s2,s3}"
RUNS: Final = "{q1,q2,q3}"
TOKEN: Final[dict[str, Any]] = {"run_id": "r1", "attempt": 1, "session_id": "alive"}
HOW: Final[dict[str, Any]] = {"status": "failed", "reason": None, "error": None, "exit_code": 1}
OUTPUT: Final[dict[str, Any]] = {"output": "1", "output_ref": None}
BEGUN: Final[dict[str, Any]] = {"begun_at": NOW}
PROGRESS: Final[dict[str, Any]] = {"progress": 0.5, "text": "half", "now": NOW}
PLACE: Final[dict[str, Any]] = {"queue": "default", "namespace": "default"}
FITS: Final[dict[str, Any]] = {"tasks": "{}", "labels": "{}"}
CLAIMABLE: Final[dict[str, Any]] = {**PLACE, **FITS, "now": NOW, "limit": 5}
PARTS: Final[dict[str, Any]] = {
    "ranks": [part.rank for part in WHOLE_QUEUE],
    "sinces": [part.since for part in WHOLE_QUEUE],
    "lasts": [part.last for part in WHOLE_QUEUE],
}
CLAIMER: Final = {"session_id": "alive", "at": NOW, "admitted": False, "everywhere": "*"}
CLAIM: Final = CLAIMABLE | PARTS | CLAIMER | {"straight": 3}
NO_PARTS: Final[dict[str, Any]] = {
    "part_queues": [],
    "part_namespaces": [],
    "ranks": [],
    "sinces": [],
    "lasts": [],
}
PLACE_OF_ALL: Final = ("default", "default")
SWEPT: Final[dict[str, Any]] = {
    "namespaces": "{shop}",
    "among": False,
    "before": NOW + timedelta(days=1),
    "remembered": NOW,
    "at": NOW + timedelta(seconds=100),
    "place": 0,
}
NEW_RUN: Final = NewRun(
    *("n1", "s1", 1, NOW, "schedule", 0, False, None, NOW, NOW, None),
    *("default", "schedule:every 1m", "default", 0, None, True, None, 3),
)
COPIES: Final = """
INSERT INTO active_runs (id, schedule_id, version, origin, wakes, created_at, ready_at, namespace,
    trigger, queue, priority, exclusive, max_takeovers, status)
SELECT r.id || n, r.schedule_id, r.version, r.origin, r.wakes, r.created_at,
    r.ready_at + n * interval '1 ms', r.namespace, r.trigger, r.queue, r.priority, r.exclusive,
    r.max_takeovers, r.status
FROM active_runs AS r CROSS JOIN generate_series(1, 2100) AS n WHERE r.id = %s
"""
PAGE: Final[dict[str, Any]] = {"since": NOW, "at": NOW, "id": 7, "limit": 5}
HOT: Final[dict[str, dict[str, Any]]] = {
    "take_due": {"now": NOW, "limit": 10, "after": NOW, "after_id": ""},
    "get_earliest_wake": {"after": NOW},
    "lock_state": {"id": "s1"},
    "take_states": {"ids": IDS},
    "cancel_queued_runs": {"ids": IDS, "now": NOW, "reason": "deleted"},
    "delete_states": {"ids": IDS},
    "delete_schedules": {"ids": IDS, "now": NOW},
    "lock_wakes": {"ids": RUNS},
    "list_active": {"ids": IDS},
    "list_settled": {"ids": IDS},
    "list_claimable": CLAIMABLE,
    "claim_ready": CLAIM,
    "start_runs": {
        **{name: [value] for name, value in NEW_RUN._asdict().items()},
        "begins": [True],
        "session_id": "alive",
        "now": NOW,
    },
    "list_namespaces": {"queue": "default"},
    "count_running": {"queue": "default"},
    "renew_all": {
        "clock": NOW,
        "here": NOW,
        "lease": timedelta(seconds=30),
        "id": "alive",
        "leads": True,
        "queues": "{default}",
        "namespaces": None,
        "after": NOW,
    },
    "get_any_queued": {"queues": "{default}", "namespaces": "{default,shop}"},
    "list_abilities": {"now": NOW},
    "get_schedule_named": {"namespace": "default", "name": "job"},
    "lock_exclusive": {"ids": IDS},
    "claim_limited": {"ids": RUNS, "session_id": "alive", "now": NOW, "at": NOW},
    "list_upstreams": {"ids": IDS},
    "settle_run": {**TOKEN, **HOW, **OUTPUT, **BEGUN, "now": NOW},
    "settle_runs": {
        **{name: [value] for name, value in (TOKEN | HOW | OUTPUT | BEGUN).items()},
        "now": NOW,
    },
    "get_own_run": TOKEN,
    "wake_schedule": {"schedule_id": "s1", "now": NOW},
    "list_session_runs": {"id": "alive"},
    "list_orphans": {"limit": 10},
    "take_orphans": {"ids": RUNS},
    "list_expiring": {"now": NOW, "limit": 10},
    "get_earliest_expiry": {},
    "get_earliest_ready": {"now": NOW},
    "list_schedules_by_id": {"ids": IDS},
    "list_latest_runs": {"ids": IDS},
    "list_marks": {"ids": IDS, "each": 20},
    "list_running": {"namespace": "default", "limit": 20},
    "list_late_hours": {
        "namespace": "default",
        "since": NOW,
        "until": NOW + timedelta(hours=1),
        "seconds": 60.0,
        "looked": 50,
    },
    "list_late": {
        "namespace": "default",
        "since": NOW,
        "seconds": 60.0,
        "before": 9_000,
        "looked": 50,
        "limit": 5,
    },
    "count_failed": {"namespace": "default", "first": 5_000, "most": 100},
    "list_durations": {"namespace": "default", "before": 9_000, "looked": 50},
    "list_inhabited": {"limit": 1_000},
    "get_any_active": {"namespace": "default", "limit": 100},
    "get_signal": {"now": NOW},
    "list_paused": {"namespace": "default", "after": "", "before": "{", "limit": 51},
    "list_tokens_by_id": {"ids": IDS},
    "list_flow_runs_of": {"namespace": "default", "flow": "f", "limit": 5},
    "list_runs_by_id": {"ids": RUNS},
    "get_place": {"namespace": "default", "place": 5_000},
    "get_last_place": {"namespace": "default"},
    "look_at_old_runs": {**SWEPT, "limit": 5},
    "look_at_outdated_runs": {"id": "s1", "before": NOW, "remembered": NOW, "limit": 5},
    "look_at_surplus_runs": {"id": "s1", "last": 5, "remembered": NOW, "limit": 5},
    "delete_runs": {"ids": RUNS, "kept": False},
    "list_histories": {"ids": IDS},
    "list_changes": {"namespace": "default", **PAGE},
    "list_changes_of": {"namespace": "default", "subject": "s1", **PAGE},
    "list_all_changes": PAGE,
    "list_changes_by_id": {"ids": "{1,2}"},
    "delete_old_changes": {"before": NOW, "limit": 5},
    "delete_old_keys": {"before": NOW, "limit": 5},
    "list_waiting_queues": {"limit": 10},
    "count_queued": {"queue": "default", "limit": 10},
    "count_running_by_queue": {},
    "list_first_tasks": {**PLACE, "limit": 10},
    "get_most_overdue": {"before": NOW},
    "list_problems": {"limit": 10},
    "wake_asleep": {"now": NOW, "limit": 10},
    "count_statuses": {"after": "s5", "limit": 100},
}
NAMES: Final[dict[str, Any]] = {"namespace": "default", "after": "s5", "before": "s{", "limit": 51}
LABEL: Final[dict[str, Any]] = {**NAMES, "label": "team", "value": "x"}
AGE: Final[dict[str, Any]] = {"namespace": "default", "at": NOW, "id": "s5", "limit": 51}
PLACES: Final[dict[str, Any]] = {"namespace": "default", "first": 0, "before": 9_000, "limit": 51}
STRETCH: Final[dict[str, Any]] = {"schedule_id": "s1", "since": NOW, "before": NOW, "limit": 51}
LOG: Final[dict[str, Any]] = {
    "namespace": "default",
    "after": 100,
    "until": 9_000,
    "every": True,
    "topics": "{}",
    "type": None,
    "any_type": True,
    "types": [],
    "key": None,
    "limit": 51,
    "most": 1_000_000,
}
PAGES: Final[dict[str, dict[str, Any]]] = {
    "list_by_name": NAMES,
    "list_by_name_back": NAMES,
    "list_by_label": LABEL,
    "list_by_label_back": LABEL,
    "list_by_age": AGE,
    "list_by_age_back": AGE,
    "list_by_wake": {"at": NOW, "id": "", "limit": 51},
    "list_runs_by_place": PLACES,
    "list_runs_of_task": {**PLACES, "task": "digest"},
    "list_failed_runs": {**PLACES, "status": "failed"},
    "list_queued_runs": PLACES,
    "list_runs_of": {**STRETCH, "place": 5},
    "list_ledger": {**STRETCH, "id": 5},
    "look_at_old_runs": {**SWEPT, "limit": 51},
}
BY_ID: Final[dict[str, dict[str, Any]]] = {
    "settle_run": HOT["settle_run"],
    "settle_runs": HOT["settle_runs"],
    "note_progress": {name: [value] for name, value in (TOKEN | PROGRESS).items()},
    "mark_begun": {name: [value] for name, value in (TOKEN | BEGUN).items()},
    "lock_own_runs": {"ids": RUNS},
    "insert_returned_attempts": {"ids": RUNS, "now": NOW},
    "hand_back_runs": {"ids": RUNS},
    "get_own_run": TOKEN,
    "retry_run": {**TOKEN, **HOW, "ready_at": NOW, "failed": 1},
    "hand_back_run": {**TOKEN, "ready_at": NOW},
    "get_token_state": TOKEN,
    "requeue_runs": {"ids": "{r1}", "now": NOW},
    "fail_lost_run": {**HOW, "id": "r1", "now": NOW},
    "cancel_queued_run": {"id": "q1", "now": NOW, "reason": "x"},
    "request_cancel": {"id": "r1", "now": NOW, "reason": "x"},
    "claim_limited": HOT["claim_limited"],
    "take_orphans": {"ids": RUNS},
    "expire_runs": {"ids": RUNS, "now": NOW},
}
LOOK: Final[dict[str, Any]] = {
    **FITS,
    **NO_PARTS,
    "queues": "{default}",
    "namespaces": None,
    "clock": NOW,
}
ALL_VALUES: Final = HOT | PAGES | {"look_for_work": LOOK}
FILL: Final = """
INSERT INTO schedules (id, namespace, name, version, created_at)
SELECT 's' || n, 'default', 's' || n, 1, :now FROM generate_series(1, :many) AS n;
INSERT INTO schedule_state (schedule_id, version, status, watermark, wake_at)
SELECT 's' || n, 1, 'active', :now, :now + n * interval '1 second'
FROM generate_series(-9, :many) AS n WHERE n > 0;
INSERT INTO schedule_labels (schedule_id, label, value, namespace, name)
SELECT 's' || n, 'team', CASE WHEN n % 10 = 0 THEN 'x' ELSE 'y' END, 'default', 's' || n
FROM generate_series(1, :many) AS n;
INSERT INTO ledger (schedule_id, version, due_from, due_to, count, exact, verdict, reason, facts,
    at)
SELECT 's' || n % 100, 1, :now + n * interval '1 s', :now + n * interval '1 s', 1, true, 'skipped',
    'overlap', '{}', :now FROM generate_series(1, :many) AS n;
INSERT INTO node_sessions
SELECT 'n' || n, 'n', 1, '', '', '', :now, :now, :now, :now FROM generate_series(1, 50) AS n;
INSERT INTO node_sessions VALUES ('alive', 'n', 1, '', '', '', :now, :now + '1 h', :now, NULL);
INSERT INTO arriving_runs (id, namespace, schedule_id, version, due_at, origin, trigger, queue,
    priority, exclusive, wakes, max_takeovers, status, session_id, claimed_at, created_at, ready_at,
    finished_at)
SELECT kind || n, 'default', 's' || n, 1, :now + shift * interval '1 s', 'schedule', '', 'default',
    0, n % 2 = 0, n % 3 = 0, 3, status, CASE WHEN status <> 'queued' THEN 'alive' END,
    CASE WHEN status <> 'queued' THEN :now END, :now, :now,
    CASE WHEN status IN ('succeeded', 'failed') THEN :now + n * interval '1 s' END
FROM (VALUES ('q', 1, 'queued', 2000), ('r', 2, 'running', 300), ('e', 3, 'succeeded', :many),
    ('f', 4, 'succeeded', :many), ('x', 5, 'failed', 300)) AS v (kind, shift, status, top)
CROSS JOIN LATERAL generate_series(1, top) AS n;
INSERT INTO audit (at, by, namespace, action, kind, subject, subject_id)
SELECT :now - n * interval '1 s', '', 'default', '', '', 's' || n % 9, ''
FROM generate_series(1, :many) AS n;
INSERT INTO events (id, namespace, topic, type, key, slot, data, meta, at, position)
SELECT 'e' || n, 'default', 'orders', 'orders', '', 0, '{}', '{}', :now + n * interval '1 s', n
FROM generate_series(1, :many) AS n;
INSERT INTO consumers (namespace, name, kind, topics, partitions, attempts, options, created_at)
VALUES ('default', 'billing', 'group', 'null', 1, 1, '{}', :now);
INSERT INTO cursors (namespace, name, part, position) VALUES ('default', 'billing', 0, 0);
INSERT INTO dead_letters
SELECT 'default', 'billing', 'e' || n, 0, '{}', '', 1, :now + n * interval '1 s', n % 1000 = 0
FROM generate_series(1, :many) AS n;
INSERT INTO idempotency_keys SELECT 's', n, '', '{}', :now FROM generate_series(1, :many) AS n;
"""


@pytest.fixture(scope="module", params=["not analyzed", "analyzed"])
def books(request: pytest.FixtureRequest, postgres_server: Server) -> Iterator[Any]:
    """Ten thousand schedules with two runs each that ended, and a few that have not."""
    with postgres_server.database() as url:
        options = f"-c search_path={SCHEMA} -c plan_cache_mode=force_custom_plan -c jit=off"
        options += " -c enable_bitmapscan=off -c enable_seqscan=off"
        with psycopg.connect(url, autocommit=True, options=options) as connection:
            text = FILL.replace(":now", f"timestamptz '{NOW.isoformat()}'")
            text = f"BEGIN; {ARRIVING_RUNS}; {text}; {SPREAD_RUNS}; COMMIT"
            connection.execute(text.replace(":many", "10000").encode())
            if request.param == "analyzed":
                connection.execute("VACUUM ANALYZE")
            yield connection


@pytest.mark.parametrize("name", HOT)
def test_a_hot_query_reads_no_table_from_end_to_end(
    books: psycopg.Connection[tuple[Any, ...]], name: str
) -> None:
    sql = percent_named(QUERIES[name])
    for _ in range(7):  # a prepared statement may get a generic plan from its sixth time on
        rows = books.execute(f"EXPLAIN {sql}".encode(), HOT[name], prepare=True).fetchall()
    plan = "\n".join(row[0] for row in rows)
    for table in ("active_runs", "ended_runs", "schedules", "schedule_state"):
        assert f"Seq Scan on {table}" not in plan, plan


@pytest.mark.parametrize("namespaces", [None, ["shop"], ["default", "shop"]])
@pytest.mark.parametrize("name", ["look_for_work", "get_any_queued"])
def test_a_look_for_work_reads_no_run_of_a_namespace_that_is_not_served(
    books: psycopg.Connection[tuple[Any, ...]], name: str, namespaces: list[str] | None
) -> None:
    sql = percent_named(QUERIES[name])
    served: dict[str, Any] = {"queues": ["default", "mail"], "namespaces": namespaces}
    with books.transaction():
        books.execute("SET LOCAL enable_seqscan = off")  # as in our transactions
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}".encode()
        rows = books.execute(explain, {**served, **FITS, **NO_PARTS, "clock": NOW}).fetchall()
    read = 0
    for node in nodes(rows[0][0][0]["Plan"]):
        if node.get("Index Name") == "runs_queued" and "queue = " in node.get("Index Cond", ""):
            each = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            read += each * node["Actual Loops"]
    assert read <= (0 if namespaces == ["shop"] else 5)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_a_stretch_of_an_index(
    books: psycopg.Connection[tuple[Any, ...]], name: str
) -> None:
    """It reads about as many rows as it shows, and sorts at most those."""
    sql = percent_named(QUERIES[name])
    explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}".encode()
    for _ in range(7):
        rows = books.execute(explain, PAGES[name], prepare=True).fetchall()
    for node in nodes(rows[0][0][0]["Plan"]):
        assert "Seq Scan" not in node["Node Type"], node
        read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        assert read * node["Actual Loops"] <= 3 * 51, node


def test_what_runs_is_listed_without_reading_a_backlog(
    books: psycopg.Connection[tuple[Any, ...]],
) -> None:
    sql = percent_named(QUERIES["list_running_runs"])
    explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}".encode()
    for _ in range(7):
        rows = books.execute(explain, PLACES | {"limit": 301}, prepare=True).fetchall()
    found = list(nodes(rows[0][0][0]["Plan"]))
    assert "runs_running" in {node.get("Index Name") for node in found}, found
    for node in found:
        assert node["Actual Rows"] + node.get("Rows Removed by Filter", 0) <= 300, node


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


@pytest.mark.parametrize("number", [50, 200, 1_000])
def test_runs_that_are_shown_are_found_without_reading_others(
    books: psycopg.Connection[tuple[Any, ...]], number: int
) -> None:
    """Nor all schedules, whose names they have."""
    explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {percent_named(QUERIES['list_runs_by_id'])}"
    values = {"ids": [f"e{n}" for n in range(1, number + 1)]}
    for node in nodes(books.execute(explain.encode(), values).fetchall()[0][0][0]["Plan"]):
        if node.get("Relation Name") in ("ended_runs", "active_runs", "schedules"):
            assert node["Actual Rows"] * node["Actual Loops"] <= 1.01 * number, node


@pytest.mark.parametrize("name", BY_ID)
def test_a_run_that_is_named_is_found_by_its_id(
    books: psycopg.Connection[tuple[Any, ...]], name: str
) -> None:
    """And by no index that was small when the tables were last analyzed."""
    sql = percent_named(QUERIES[name])
    plan = "\n".join(r[0] for r in books.execute(f"EXPLAIN {sql}".encode(), BY_ID[name]))
    assert "runs_pkey" in plan
    assert "runs_running" not in plan, plan
    assert "runs_queued" not in plan, plan


@pytest.mark.parametrize("name", ["settle_runs", "note_progress", "mark_begun"])
def test_many_runs_at_once_are_found_by_their_ids_and_no_others_are_read(
    books: psycopg.Connection[tuple[Any, ...]], name: str
) -> None:
    sql, number = percent_named(QUERIES[name]), 1_000
    values = {k: v * number if isinstance(v, list) else v for k, v in BY_ID[name].items()}
    values["run_id"] = [f"e{n}" for n in range(number)]
    with books.transaction():
        books.execute("SET LOCAL enable_seqscan = off")  # as in our transactions
        plan = "\n".join(r[0] for r in books.execute(f"EXPLAIN {sql}".encode(), values))
    assert re.search(r"runs_pkey .*\n\s+Index Cond: ", plan), plan[:2_000]


@pytest.mark.parametrize("number", [25, 100, 200])
@pytest.mark.parametrize("name", ["settle_runs", "note_progress", "mark_begun"])
def test_no_run_is_compared_with_the_ends_of_all_others(
    books: psycopg.Connection[tuple[Any, ...]], name: str, number: int
) -> None:
    sql = percent_named(QUERIES[name])
    values = {k: v * number if isinstance(v, list) else v for k, v in BY_ID[name].items()}
    values["run_id"] = [f"e{n}" for n in range(number)]
    with books.transaction():
        books.execute("SET LOCAL enable_seqscan = off")  # as in our transactions
        plan = "\n".join(r[0] for r in books.execute(f"EXPLAIN {sql}".encode(), values))
    assert "Nested Loop" not in plan, plan[:2_000]


def explain_kept(
    books: psycopg.Connection[tuple[Any, ...]], name: str, values: dict[str, Any], how: str
) -> Any:
    """The plan that a connection of ours keeps; what it does is undone."""
    books.execute("DISCARD PLANS")
    with suppress(errors.DuplicatePreparedStatement):
        books.execute(PREPARED[name].preparation.encode())
    cursor = psycopg.ClientCursor(books)
    text = cursor.mogrify(PREPARED[name].execution, values)
    with books.transaction(force_rollback=True):
        books.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        return cursor.execute(f"EXPLAIN ({how}, FORMAT JSON) {text}".encode()).fetchall()[0][0][0]


@pytest.mark.parametrize("name", sorted(KEPT & set(ALL_VALUES)))
def test_a_kept_plan_reads_no_table_from_end_to_end(
    books: psycopg.Connection[tuple[Any, ...]], name: str
) -> None:
    plan = explain_kept(books, name, ALL_VALUES[name], "COSTS")
    kinds = {node.get("Relation Name"): node["Node Type"] for node in nodes(plan["Plan"])}
    for table in ("active_runs", "ended_runs", "schedules", "schedule_state"):
        assert kinds.get(table) != "Seq Scan", plan


@pytest.mark.parametrize("name", ["claim_ready", "look_for_work", "list_by_name"])
def test_a_kept_plan_reads_about_as_many_rows_as_it_returns(
    books: psycopg.Connection[tuple[Any, ...]], name: str
) -> None:
    plan = explain_kept(books, name, ALL_VALUES[name], "ANALYZE")
    for node in nodes(plan["Plan"]):
        read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        assert read * node["Actual Loops"] <= 3 * 51, node


@pytest.mark.parametrize("number", [1, 25, 200, 1_000])
def test_a_kept_settle_compares_no_run_with_the_ends_of_all_others(
    books: psycopg.Connection[tuple[Any, ...]], number: int
) -> None:
    values = {k: v * number if isinstance(v, list) else v for k, v in BY_ID["settle_runs"].items()}
    values["run_id"] = [f"r{n}" for n in range(1, number + 1)]
    plan = explain_kept(books, "settle_runs", values, "ANALYZE")
    for node in nodes(plan["Plan"]):
        removed = node.get("Rows Removed by Join Filter", 0) + node.get("Rows Removed by Filter", 0)
        assert removed * node["Actual Loops"] <= number, node


def test_a_kept_insert_compares_new_runs_with_their_few_kinds_only(
    books: psycopg.Connection[tuple[Any, ...]],
) -> None:
    number, kinds = 1_000, 8
    new = NewRun(
        *("", "s1", 1, NOW, "schedule", 0, False, None, NOW, NOW, None),
        *("default", "every 1m", "q", 0, None, False, None, 3),
    )
    rows = [
        new._replace(id=f"new{n}", due_at=NOW + timedelta(days=9, seconds=n), queue=f"q{n % kinds}")
        for n in range(number)
    ]
    values = NEW_RUNS.values(rows)
    assert values is not None
    lists = {name: list(column) for name, column in values.items()}
    plan = explain_kept(books, "insert_alike", lists, "ANALYZE")
    for node in nodes(plan["Plan"]):
        assert node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] < number * kinds
    assert sum(node["Actual Rows"] for node in nodes(plan["Plan"])) < 10 * number, plan


@pytest.mark.parametrize("name", ["list_events", "list_events_back"])
def test_the_log_is_read_along_its_positions(
    books: psycopg.Connection[tuple[Any, ...]], name: str
) -> None:
    sql = percent_named(QUERIES[name])
    here = {"parts": "{0}", "partitions": 1, "any_key": True, "keys": "{}"}
    values = LOG | (here if name == "list_events" else {})
    with books.transaction():
        books.execute("SET LOCAL enable_seqscan = off")  # as in our transactions
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}".encode()
        (plan,) = books.execute(explain, values).fetchall()[0][0]
    kinds = [node["Node Type"] for node in nodes(plan["Plan"])]
    assert "Sort" not in kinds, kinds
    for node in nodes(plan["Plan"]):
        assert node.get("Index Name", "events_by_position") == "events_by_position"
        assert node["Actual Rows"] + node.get("Rows Removed by Filter", 0) <= 3 * 51, node


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("take_letters", {"name": "billing", "parts": "{0}", "partitions": 1}),
        (
            "list_letters",
            {"name": None, "before_at": NOW + 60 * MINUTE, "before_id": "", "before_name": ""},
        ),
    ],
)
def test_dead_letters_are_found_among_many(
    books: psycopg.Connection[tuple[Any, ...]], name: str, values: dict[str, Any]
) -> None:
    sql = percent_named(QUERIES[name])
    values = values | {"namespace": "default", "limit": 51, "most": 1_000_000}
    with books.transaction():
        books.execute("SET LOCAL enable_seqscan = off")  # as in our transactions
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}".encode()
        (plan,) = books.execute(explain, values).fetchall()[0][0]
    for node in nodes(plan["Plan"]):
        assert node["Actual Rows"] + node.get("Rows Removed by Filter", 0) <= 51, node


@pytest.mark.parametrize(
    ("name", "values", "conditions"),
    [
        ("get_position_at", {"at": NOW + 60 * MINUTE}, ("(at >= ", '("position" > ')),
        ("delete_old_events", {"before": NOW + 60 * MINUTE, "limit": 51}, ('("position" < ',)),
    ],
)
def test_the_log_is_not_read_from_its_beginning(
    books: psycopg.Connection[tuple[Any, ...]],
    name: str,
    values: dict[str, Any],
    conditions: tuple[str, ...],
) -> None:
    sql = percent_named(QUERIES[name])
    with books.transaction():
        books.execute("SET LOCAL enable_seqscan = off")  # as in our transactions
        plan = "\n".join(r[0] for r in books.execute(f"EXPLAIN {sql}".encode(), values))
    for condition in conditions:
        assert re.search(rf"Index Cond: \(?{re.escape(condition)}", plan), plan


def test_a_long_snapshot_does_not_make_a_look_from_the_mark_longer(
    postgres_server: Server,
) -> None:
    """While it lasts, nobody may forget where schedules were due before."""
    with postgres_server.database() as url:
        clock = VirtualClock()
        store = PostgresStore(url, clock)
        for number in range(100):
            add_schedule(store, f"job-{number}", overlap="allow")
        options = f"-c search_path={SCHEMA} -c enable_seqscan=off -c enable_bitmapscan=off"
        with psycopg.connect(url, options=options) as dump:
            dump.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            dump.execute("SELECT count(*) FROM schedule_state")
            cursor = DueCursor()
            for _ in range(40):
                clock.advance(MINUTE)
                Ticker(store, cursor=cursor).step()
            with psycopg.connect(url, options=options, autocommit=True) as connection:
                from_the_mark = pages_of_a_look(connection, cursor.mark or FIRST)
                from_the_beginning = pages_of_a_look(connection, FIRST)
        store.close()
    assert from_the_mark * 10 < from_the_beginning, (from_the_mark, from_the_beginning)


def test_a_long_snapshot_does_not_make_a_claim_from_the_marks_longer(
    postgres_server: Server,
) -> None:
    """While it lasts, the index of queued runs keeps the entries of those that were claimed."""
    with postgres_server.database() as url:
        clock = VirtualClock()
        store = PostgresStore(url, clock)
        begin(store, lease=MINUTE * 100)
        schedule_id = add_schedule(store, overlap="allow")
        options = f"-c search_path={SCHEMA} -c enable_seqscan=off -c enable_bitmapscan=off"
        with psycopg.connect(url, options=options) as dump:
            dump.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            dump.execute("SELECT count(*) FROM runs")
            cursor = WorkCursor()
            with psycopg.connect(url, options=options, autocommit=True) as connection:
                connection.execute(COPIES.encode(), [add_run(store, schedule_id)])
            for _ in range(20):
                clock.advance(MINUTE)
                cursor.claimed(PLACE_OF_ALL, claim(store, limit=100), clock.now)
            with psycopg.connect(url, options=options, autocommit=True) as connection:
                whole, part = (
                    {
                        name: pages(connection, name, clock.now, parts)
                        for name in ("claim_ready", "look_for_work")
                    }
                    for parts in (WHOLE_QUEUE, cursor.parts(PLACE_OF_ALL))
                )
        store.close()
    for name, read in whole.items():
        assert part[name] * 3 < read, (name, part[name], read)


def pages(
    connection: psycopg.Connection[tuple[Any, ...]],
    name: str,
    now: datetime,
    parts: Sequence[QueuePart],
) -> int:
    """How many a claim of one run, or a look, reads in parts of a queue."""
    columns = {
        "ranks": [part.rank for part in parts],
        "sinces": [part.since for part in parts],
        "lasts": [part.last for part in parts],
        "part_queues": ["default"] * len(parts),
        "part_namespaces": ["default"] * len(parts),
    }
    here = {"queues": ["default"], "namespaces": None, "clock": now}
    claims = {
        "session_id": "node-1",
        "at": now,
        "now": now,
        "limit": 1,
        "straight": 1,
        "admitted": False,
        "everywhere": "*",
    }
    return pages_of(connection, name, FITS | PLACE | columns | here | claims)


def pages_of_a_look(connection: psycopg.Connection[tuple[Any, ...]], mark: Mark) -> int:
    return pages_of(connection, "get_earliest_wake", {"after": mark.wake_at})


def pages_of(
    connection: psycopg.Connection[tuple[Any, ...]], name: str, values: dict[str, Any]
) -> int:
    sql = percent_named(QUERIES[name])
    explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}".encode()
    rows = connection.execute(explain, values).fetchall()
    plan = rows[0][0][0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def test_the_longest_keep_is_one_step_in_an_index(
    books: psycopg.Connection[tuple[Any, ...]],
) -> None:
    with books.transaction(force_rollback=True):
        books.execute(
            "INSERT INTO schedule_history (schedule_id, keep_seconds) SELECT id, 60 FROM schedules"
        )
        text = f"EXPLAIN (FORMAT JSON) {QUERIES['get_longest_keep']}"
        (plan,) = books.execute(text.encode()).fetchall()[0][0]
    used = [node.get("Index Name") for node in nodes(plan["Plan"])]
    assert "schedule_history_by_keep" in used, plan
    assert "Limit" in [node["Node Type"] for node in nodes(plan["Plan"])], "it reads one entry"
