"""`duebook db copy` and `db reopen`: what they print, reject and leave behind."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from duebook.cli import main
from tests.support.postgres import PASSWORD

if TYPE_CHECKING:
    from tests.support.cli import Cli
    from tests.support.postgres import Server

HELLO = ("add", "hello", "--every", "1h", "--", "true")


@pytest.fixture
def url(postgres_server: Server, postgres_url: str) -> str:
    """A URL with a password that must not be shown."""
    name = postgres_url.partition("@/")[2].partition("?")[0]
    return postgres_server.url(name, host="127.0.0.1")


def at(place: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["--database", place, *words])


def test_the_books_are_copied_and_the_old_ones_say_where_they_are(cli: Cli, url: str) -> None:
    cli.ok(*HELLO)
    copied = cli("db", "copy", f"sqlite:///{cli.path}", url)
    assert copied.exit_code == 0, copied.output
    assert "copied" in copied.stdout
    assert "copied schedules: 1" in copied.stderr
    assert "hello" in at(url, "ls").stdout
    for words in (("ls",), HELLO, ("tick",), ("db", "check"), ("up",)):
        refused = cli(*words)
        assert refused.exit_code == 1
        assert "was moved to the database" in refused.stderr
        assert "127.0.0.1" in refused.stderr
        assert PASSWORD not in refused.output


def test_the_outcome_as_json(cli: Cli, url: str) -> None:
    cli.ok(*HELLO)
    copied = cli.json("db", "copy", str(cli.path), url)
    assert copied["rows"]["schedules"] == 1
    assert copied["from"] == str(cli.path)
    assert PASSWORD not in json.dumps(copied)


def test_tables_of_one_s_own_stay_or_come_along(cli: Cli, url: str) -> None:
    cli.ok(*HELLO)
    with closing(sqlite3.connect(cli.path)) as connection:
        connection.executescript(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (1), (2);"
            "CREATE TABLE drafts (id INTEGER); CREATE VIEW latest AS SELECT max(id) FROM orders;"
        )
    refused = cli("db", "copy", "--with-table", "order", str(cli.path), url)
    assert refused.exit_code == 3
    assert "your own tables are: drafts, orders" in " ".join(refused.stderr.split())
    copied = cli("db", "copy", "--json", "--with-table", "orders", str(cli.path), url)
    assert copied.exit_code == 0, copied.output
    told = json.loads(copied.stdout)
    assert told["tables"] == {"orders": 2}
    left = [{"type": "table", "name": "drafts"}, {"type": "view", "name": "latest"}]
    assert told["left"] == left
    assert "note: table drafts stays in" in copied.stderr
    assert "copied your table orders: 2" in copied.stderr


def test_a_copy_that_is_done_is_found_done(cli: Cli, url: str) -> None:
    cli.ok(*HELLO)
    cli.ok("db", "copy", str(cli.path), url)
    assert "an earlier call had copied" in cli.ok("db", "copy", str(cli.path), url)


@pytest.mark.parametrize(
    ("source", "target", "code", "word"),
    [
        ("sqlite:///nowhere.db", "{url}", 3, "there is no Duebook database at nowhere.db"),
        ("{url}", "{url}", 2, "only a SQLite database can be moved"),
        ("{path}", "{path}", 2, "only copies to PostgreSQL"),
        ("{path}", "mysql://x/y", 2, "only copies to PostgreSQL"),
        ("{path}", "postgresql://127.0.0.1:1/x", 4, "cannot reach"),
    ],
)
def test_what_cannot_be_copied_is_refused(
    cli: Cli, url: str, source: str, target: str, code: int, word: str
) -> None:
    cli.ok(*HELLO)
    words = [text.format(url=url, path=cli.path) for text in (source, target)]
    refused = cli("db", "copy", *words)
    assert (refused.exit_code, refused.stdout) == (code, "")
    assert word in refused.stderr
    assert "hello" in cli.ok("ls"), "the old books are open"


def test_a_target_with_books_is_refused(cli: Cli, url: str) -> None:
    cli.ok(*HELLO)
    at(url, *HELLO)
    refused = cli("db", "copy", str(cli.path), url)
    assert refused.exit_code == 1
    assert "is not empty: it has schedules" in refused.stderr
    assert "hello" in cli.ok("ls")


def test_old_books_are_opened_again_after_a_warning(cli: Cli, url: str) -> None:
    cli.ok(*HELLO)
    cli.ok("db", "copy", str(cli.path), url)
    asked = cli("db", "reopen")
    assert asked.exit_code == 2, "nobody can say yes"
    assert "add --yes" in asked.stderr
    assert "may run again" in " ".join(asked.stderr.split())
    assert cli("ls").exit_code == 1
    assert "is unchanged" in " ".join(cli.ok("db", "reopen", "--yes").split())
    assert "hello" in cli.ok("ls")
    assert "it is open" in cli("db", "reopen", "--yes").stderr


def test_lines_fit_80_columns(cli: Cli, url: str) -> None:
    cli.ok(*HELLO)
    copied = cli("db", "copy", "--wait", "0s", str(cli.path), url)
    words = {word for line in copied.output.splitlines() if len(line) > 80 for word in line.split()}
    assert not words or max(map(len, words)) > 60, "only a path may be longer"
