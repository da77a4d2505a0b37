"""A SQLite database that is replaced with a backup of it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.balance import check_books
from duebook.store.sqlite import SqliteStore
from tests.support.builders import begin

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.cli import Cli


@pytest.fixture
def backup(cli: Cli, tmp_path: Path) -> Path:
    """A backup of a database with one schedule, to which another was added afterwards."""
    cli.ok("add", "before", "--every", "1h", "--", "true")
    file = tmp_path / "copy.db"
    cli.ok("db", "backup", str(file))
    cli.ok("add", "after", "--every", "1h", "--", "true")
    return file


def names(cli: Cli) -> list[str]:
    return [schedule["name"] for schedule in cli.json("ls")]


def test_a_restore_brings_back_what_was_and_can_be_undone(cli: Cli, backup: Path) -> None:
    told = cli.ok("db", "restore", str(backup), "--yes")
    assert " ".join(told.split()).startswith(f"restored {cli.path} as it was at 20")
    assert names(cli) == ["before"]
    (aside,) = cli.path.parent.glob("*.before-restore-*")
    assert not list(cli.path.parent.glob("*restoring*"))
    assert cli.path.stat().st_mode & 0o777 == 0o600
    with closing(SqliteStore(cli.path)) as store:
        assert check_books(store, deep=True).balanced
    assert cli.json("audit", "--all")[0]["action"] == "restore"
    form = cli.json("db", "restore", str(aside), "--yes")
    assert set(form) == {"file", "from", "kept", "copied_at"}
    assert names(cli) == ["after", "before"]


def test_a_restore_asks_first(cli: Cli, backup: Path) -> None:
    assert "replace" in cli("db", "restore", str(backup)).output
    assert names(cli) == ["after", "before"]


def test_a_restore_into_an_empty_place_creates_the_database(cli: Cli, backup: Path) -> None:
    cli.path.unlink()
    told = cli.ok("db", "restore", str(backup), "--yes")
    assert "former database" not in told
    assert names(cli) == ["before"]


def test_nothing_is_restored_while_a_node_runs(cli: Cli, backup: Path) -> None:
    with closing(SqliteStore(cli.path)) as store:
        begin(store, lease=timedelta(minutes=5))
    refused = cli("db", "restore", str(backup), "--yes")
    assert refused.exit_code == 1
    assert "node host-of-node-1 (pid 1) is running; stop all nodes first" in " ".join(
        refused.output.split()
    )
    assert names(cli) == ["after", "before"]


def test_nothing_is_restored_while_another_program_has_the_file_open(
    cli: Cli, backup: Path
) -> None:
    with closing(sqlite3.connect(cli.path)) as other:
        other.execute("SELECT count(*) FROM schedules").fetchone()
        refused = cli("db", "restore", str(backup), "--yes")
    assert refused.exit_code == 1
    assert "open; stop all nodes and programs that use it first" in " ".join(refused.output.split())
    assert names(cli) == ["after", "before"]


def test_nodes_of_the_time_of_the_backup_have_ended(cli: Cli, tmp_path: Path) -> None:
    with closing(SqliteStore(cli.path)) as store:
        begin(store, lease=timedelta(days=9))
    file = tmp_path / "copy.db"
    cli.ok("db", "backup", str(file))
    with closing(SqliteStore(cli.path)) as store:
        store.transact(lambda tx: tx.nodes.end_session("node-1"))
    told = cli.ok("db", "restore", str(file), "--yes")
    assert "ended the sessions of 1 node that ran then" in told
    assert cli.json("nodes") == []


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 8_192] = b"x" * 8_192
    file.write_bytes(content)


def foreign(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (a)")


def newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("INSERT INTO migrations VALUES (999, 'later', 'x', 0)")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (damage, "damaged"),
        (foreign, "not a Duebook database"),
        (newer, "the database has schema 999, but this version supports only 1"),
        (lambda file: file.write_text("text " * 1_000), "is not an SQLite database"),
        (lambda file: file.unlink(), "is not a file"),
    ],
)
def test_what_is_no_good_backup_is_refused_and_nothing_changes(
    cli: Cli, backup: Path, spoil: Any, told: str
) -> None:
    spoil(backup)
    refused = cli("db", "restore", str(backup), "--yes")
    assert refused.exit_code in (1, 2)
    assert told in " ".join(refused.output.split())
    assert names(cli) == ["after", "before"]
    assert not list(cli.path.parent.glob("*.before-restore-*"))


def test_a_database_is_not_restored_from_itself(cli: Cli, backup: Path) -> None:
    del backup
    assert "is the database itself" in cli("db", "restore", str(cli.path), "--yes").output


def test_a_restore_that_is_interrupted_leaves_the_former_database(
    cli: Cli, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its last step, the database file itself has not changed."""
    from duebook.store.sqlite import restore

    def power_off(folder: Path) -> None:
        raise KeyboardInterrupt(folder)

    for step in ("_prepare", "_refuse_use", "_put_aside"):
        with monkeypatch.context() as patch:
            patch.setattr(restore, step, lambda *_: power_off(backup))
            assert cli("db", "restore", str(backup), "--yes").exit_code != 0
        assert names(cli) == ["after", "before"]
    cli.ok("db", "restore", str(backup), "--yes")
    assert names(cli) == ["before"]


def test_a_damaged_database_can_be_replaced(cli: Cli, backup: Path) -> None:
    cli.path.write_bytes(b"not a database at all" * 500)
    result = cli("db", "restore", str(backup), "--yes")
    assert result.exit_code == 0, result.output
    assert "note: the current database cannot be read" in result.output
    assert names(cli) == ["before"]


def test_for_a_server_the_steps_are_printed(cli: Cli) -> None:
    from click.testing import CliRunner

    from duebook.cli import main

    url = ("--database", "postgresql://nobody@localhost/none")
    told = CliRunner().invoke(main, [*url, "db", "restore", "duebook.dump"])
    assert told.exit_code == 2
    check = told.output.index("pg_restore --list duebook.dump")
    assert check < told.output.index("DROP SCHEMA"), "a dump that cannot be read replaces nothing"
    assert 'pg_restore --dbname="$DUEBOOK_DATABASE_URL" duebook.dump' in told.output
    assert "duebook update NAME --catchup skip" in told.output
    form = json.loads(CliRunner().invoke(main, [*url, "db", "restore", "x", "--json"]).stdout)
    assert form["steps"][0] == "stop all nodes"
    del cli
