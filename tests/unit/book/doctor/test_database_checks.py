"""From which figures on a database is worth a warning, or a problem."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duebook.book.doctor.database_checks import GIB, MIB, check_file, check_server
from duebook.model.checkup import FileFacts, OpenTransaction, ServerFacts, TableFacts

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
FILE = FileFacts(
    "/var/lib/duebook.db", 3 * MIB, MIB, 0, 50 * GIB, 100 * GIB, NOW - 9 * HOUR, NOW - HOUR
)
KEYS = TableFacts("due_keys", 1_000, 10, MIB, autovacuum=True, vacuumed=HOUR)
SERVER = ServerFacts(9 * MIB, True, (KEYS,), None, 0, 20, 97)


def of_file(**changes: Any) -> dict[str, str]:
    return {one.check: one.level for one in check_file(replace(FILE, **changes), NOW)}


def of_server(**changes: Any) -> dict[str, str]:
    return {one.check: one.level for one in check_server(replace(SERVER, **changes))}


def test_a_healthy_database_is_ok() -> None:
    assert set(of_file().values()) | set(of_server().values()) == {"ok"}


@pytest.mark.parametrize(
    ("changes", "check", "level"),
    [
        ({"wal_size": 300 * MIB}, "database", "warning"),
        ({"size": 500 * MIB, "unused": 300 * MIB}, "database", "warning"),
        ({"disk_free": GIB}, "disk", "warning"),
        ({"disk_free": 50 * MIB}, "disk", "problem"),
        ({"disk_free": GIB, "disk_size": 8 * GIB}, "disk", "ok"),
        ({"backed_up_at": None}, "backups", "ok"),
        ({"backed_up_at": None, "created_at": NOW - 48 * HOUR}, "backups", "warning"),
        ({"backed_up_at": NOW - 200 * HOUR}, "backups", "warning"),
    ],
)
def test_a_file_is_judged(changes: dict[str, Any], check: str, level: str) -> None:
    assert of_file(**changes)[check] == level


@pytest.mark.parametrize(
    ("changes", "check", "level"),
    [
        ({"autovacuum": False}, "vacuum", "problem"),
        ({"tables": (KEYS._replace(autovacuum=False),)}, "vacuum", "problem"),
        ({"tables": (KEYS._replace(dead=30_000),)}, "vacuum", "warning"),
        ({"tables": (KEYS._replace(dead=30_000, live=90_000),)}, "vacuum", "ok"),
        ({"tables": (KEYS._replace(size=90 * MIB),)}, "vacuum", "warning"),
        ({"tables": (KEYS._replace(size=90 * MIB, vacuumed=None),)}, "vacuum", "ok"),
        ({"oldest": OpenTransaction("process 1", HOUR / 4)}, "transactions", "warning"),
        ({"oldest": OpenTransaction("process 1", HOUR)}, "transactions", "problem"),
        ({"oldest": OpenTransaction("process 1", HOUR / 60)}, "transactions", "ok"),
        ({"connections": 80}, "connections", "warning"),
        ({"connections": 96}, "connections", "problem"),
    ],
)
def test_a_server_is_judged(changes: dict[str, Any], check: str, level: str) -> None:
    assert of_server(**changes)[check] == level


def test_connections_that_this_user_may_not_see_are_told() -> None:
    found = check_server(replace(SERVER, hidden=3))[2]
    assert found.level == "ok"
    assert "3 hidden connections: GRANT pg_read_all_stats" in found.remedy
