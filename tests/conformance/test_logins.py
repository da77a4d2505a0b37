"""Ended sessions as stored in the database; audit entries cannot be changed."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.store.sqlite import SqliteStore
from tests.support.retention import purge_all

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.store.base import Store, Tx
    from tests.support.builders import VirtualClock

HOUR = timedelta(hours=1)


def ended(store: Store, *digests: str) -> list[str]:
    return sorted(store.read(lambda tx: tx.access.list_ended_logins(digests)))


def test_a_login_that_was_ended_is_known_until_it_would_have_ended(
    store: Store, clock: VirtualClock
) -> None:
    def end(tx: Tx) -> None:
        for digest, hours in (("a", 1), ("b", 2), ("b", 9)):
            tx.access.end_login(digest, "local", tx.now + hours * HOUR)

    store.transact(end)
    assert ended(store) == []
    assert ended(store, "a", "b", "c", "a") in (["a", "b"], ["a", "a", "b"])
    clock.now += 25 * HOUR + timedelta(minutes=1)
    store.transact(lambda tx: purge_all(tx, tx.now - 90 * 24 * HOUR, 10))
    assert ended(store, "a", "b") == ["b"], "a day longer, for clocks may be wrong"


def test_entries_of_the_audit_in_a_file_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "books.db"
    SqliteStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO audit (at, by, namespace, action, kind, subject, subject_id)"
            " VALUES (1, 'ann', 'default', 'create', 'schedule', 's', '')"
        )
        with pytest.raises(sqlite3.IntegrityError, match="cannot be changed"):
            connection.execute("UPDATE audit SET by = 'nobody'")
