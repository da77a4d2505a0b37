"""`duebook db check` and `db status`: what they print, at 80 columns and as JSON."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from duebook.cli import main
from duebook.store.sqlite import SqliteStore
from tests.support.builders import BEGIN, VirtualClock, add_schedule, begin, claim, tick
from tests.support.cli import Cli

if TYPE_CHECKING:
    from pathlib import Path


HELLO = ("add", "hello", "--every", "1h", "--", "true")


def doctor(cli: Cli, sql: str) -> None:
    with closing(sqlite3.connect(cli.path)) as connection, connection:
        connection.execute(sql)


def test_good_books_balance(cli: Cli) -> None:
    cli.ok(*HELLO)
    result = cli("db", "check")
    assert (result.exit_code, result.stdout) == (0, "the books balance\n")
    assert result.stderr == "checked schedules: 1, due times: 0 since yesterday\n"
    assert cli.json("db", "check")["balanced"] is True
    assert cli("db", "check", "--deep").exit_code == 0


def test_a_problem_says_schedule_due_time_and_what_is_wrong_within_80_columns(cli: Cli) -> None:
    cli.ok("add", "a-rather-long-name-of-a-schedule-for-the-morning", *HELLO[2:])
    doctor(cli, "UPDATE schedule_state SET wake_at = wake_at + 86400000000")
    result = cli("db", "check")
    assert result.exit_code == 1
    assert max(map(len, result.stdout.splitlines())) <= 80
    words = " ".join(result.stdout.split())
    assert words.startswith("problem I2: a-rather-long-name-of-a-schedule-for-the-morning 20")
    assert "UTC: will be planned only at" in words
    assert result.stdout.endswith("\nthe books do not balance\n")


def test_problems_as_json(cli: Cli) -> None:
    cli.ok(*HELLO)
    doctor(cli, "UPDATE schedule_state SET next_due_at = watermark")
    result = cli("db", "check", "--json")
    assert result.exit_code == 1
    assert '"rule": "I2"' in result.stdout
    assert '"schedule": "hello"' in result.stdout


def test_many_problems_of_a_kind_are_counted(cli: Cli) -> None:
    for number in range(25):
        cli.ok("add", f"s{number}", *HELLO[2:])
    doctor(cli, "DELETE FROM schedule_state")
    lines = cli("db", "check").stdout.splitlines()
    assert len(lines) == 22
    assert "problem I6: and 5 more; see --json" in lines


def test_status_tells_what_is_in_the_books(cli: Cli) -> None:
    clock = VirtualClock()
    cli = Cli(cli.path.with_name("other.db"))
    store = SqliteStore(cli.path, clock)
    add_schedule(store)
    clock.advance()
    tick(store)
    begin(store)
    claim(store)
    store.close()
    shown = cli.ok("db", "status")
    for words in ("schema         1 of 1", "1 active", "0 queued, 1 running", "no node is running"):
        assert words in shown
    assert "behind" in shown
    found = cli.json("db", "status")
    assert found["store"] == "sqlite"
    assert found["active_runs"] == {"running": 1}
    assert found["lag_seconds"] > 0
    assert found["now"] > f"{BEGIN:%Y}"


def test_status_of_postgresql(postgres_url: str) -> None:
    result = CliRunner().invoke(main, ["--database", postgres_url, "db", "status"])
    assert result.exit_code == 0, result.output
    assert "1 of 1; nodes with schema 1 or newer may use it" in " ".join(result.stdout.split())
    assert "planning" in result.stdout


def test_status_of_books_that_were_moved_says_so(cli: Cli, postgres_url: str) -> None:
    cli.ok(*HELLO)
    cli.ok("db", "copy", str(cli.path), postgres_url)
    assert "was moved to the database" in " ".join(cli.ok("db", "status").split())
    assert "was moved" in cli.json("db", "status")["closed"]


def test_nodes_may_be_told_the_database_behind_the_command(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    told = cli("tick", "--database", str(other))
    assert (told.exit_code, str(other) in told.stderr) == (3, True)
    SqliteStore(other).close()
    assert cli("tick", "--database", str(other)).exit_code == 0


READING = [
    ("ls",),
    ("runs",),
    ("status",),
    ("nodes",),
    ("tick",),
    ("show", "hello"),
    ("run", "hello"),
    ("logs", "hello"),
    ("pause", "--text", "*"),
    ("explain", "hello", "--at", "now"),
    ("flow", "ls"),
    ("token", "ls"),
    ("audit",),
    ("db", "check"),
]


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_a_command_that_reads_creates_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 3
    assert f"there is no database at {tmp_path}/.duebook/duebook.db" in result.stderr
    assert "duebook up" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_completing_a_name_creates_no_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    environment = {
        "_DUEBOOK_COMPLETE": "bash_complete",
        "COMP_WORDS": "duebook show he",
        "COMP_CWORD": "2",
    }
    assert CliRunner().invoke(main, [], env=environment, prog_name="duebook").stdout == "\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "hello", "--every", "1h", "--", "true"),
        ("db", "migrate"),
        ("token", "create", "ci", "--role", "viewer"),
        ("template", "save", "nightly", "--every", "1d"),
        ("queue", "limit", "mail", "--concurrency", "1"),
        ("namespace", "limit", "shop", "--schedules", "1"),
    ],
    ids=" ".join,
)
def test_a_command_that_puts_the_first_thing_into_a_database_creates_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, arguments).exit_code == 0
    assert (tmp_path / ".duebook" / "duebook.db").exists()
