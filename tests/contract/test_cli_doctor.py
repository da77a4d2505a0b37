"""The commands that examine a database, repair it and copy it to a backup."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.support.cli import live

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.cli import Cli

ANYWHERE = True


def put_to_sleep(cli: Cli) -> None:
    with closing(sqlite3.connect(cli.path)) as connection, connection:
        connection.execute("UPDATE schedule_state SET wake_at = NULL")


def test_each_check_is_a_line_and_a_problem_is_an_exit_code(cli: Cli) -> None:
    cli.ok("add", "job", "--cron", "@daily", "--", "true")
    result = cli("doctor")
    assert result.exit_code == 1
    told = " ".join(result.stdout.split())
    assert "problem scheduler no live node is a scheduler" in told
    assert "→ start one: duebook up" in told
    assert result.stdout.splitlines()[-1] == "1 problem, 0 warnings"
    live(cli)
    found = cli.json("doctor")
    assert (found["level"], found["repaired"]) == ("warning", [])
    by_check = {one["check"]: one for one in found["checkups"]}
    assert by_check["tzdata"]["level"] == "warning", "the node has other time zone data"
    assert by_check["planning"]["remedy"] == ""


def test_what_is_safe_to_repair_is_repaired_and_audited(cli: Cli) -> None:
    live(cli)
    cli.ok("add", "job", "--cron", "@daily", "--", "true")
    put_to_sleep(cli)
    assert cli("doctor").exit_code == 1
    fixed = cli.ok("doctor", "--fix")
    assert fixed.splitlines()[0] == "fixed: 1 schedule planned again: job"
    assert cli.ok("doctor", "--fix").splitlines()[0] == "nothing to fix"
    entries = cli.json("audit", "--all")
    assert [one["action"] for one in entries][:3] == ["repair", "wake", "create"]


@pytest.mark.on_file
def test_a_database_that_cannot_be_reached_is_a_problem(cli: Cli) -> None:
    result = cli("doctor", "--database", "postgresql://localhost:1/nothing", "--json")
    assert result.exit_code == 1
    assert '"check": "database"' in result.stdout
    assert '"checked_at": null' in result.stdout


@pytest.mark.on_file
def test_a_backup_is_a_complete_file_for_its_owner_only(cli: Cli, tmp_path: Path) -> None:
    cli.ok("add", "job", "--cron", "@daily", "--", "true")
    copy = tmp_path / "backup.db"
    copy.write_text("an older one")
    said = cli.ok("db", "backup", str(copy))
    assert " ".join(said.split()).startswith(f"copied the database to {copy}")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.glob("backup*")] == ["backup.db"]
    restored = cli.ok("ls", "--database", str(copy), "--json")
    assert '"name": "job"' in restored
    by_check = {one["check"]: one for one in _doctor(cli)}
    assert "the last duebook db backup was" in by_check["backups"]["message"]


def _doctor(cli: Cli) -> list[dict[str, str]]:
    live(cli)
    found: list[dict[str, str]] = cli.json("doctor")["checkups"]
    return found


@pytest.mark.on_file
def test_a_backup_that_cannot_be_made_is_refused(cli: Cli, tmp_path: Path) -> None:
    onto_itself = cli("db", "backup", str(cli.path))
    assert (onto_itself.exit_code, "is the database itself" in onto_itself.stderr) == (2, True)
    nowhere = cli("db", "backup", str(tmp_path / "no" / "folder.db"))
    assert (nowhere.exit_code, "cannot be written" in nowhere.stderr) == (4, True)
    server = cli("db", "backup", "x.db", "--database", "postgresql://localhost:1/nothing")
    assert (server.exit_code, "use pg_dump" in server.stderr) == (2, True)
