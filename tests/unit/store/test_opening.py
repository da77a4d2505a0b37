"""Opening the books that a URL names: the right store, or one line that says what is wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from duebook.cli import main
from duebook.errors import DuebookError, Invalid, Unavailable
from duebook.store.opening import open_store, place_of
from duebook.store.postgres import PostgresStore
from duebook.store.postgres.route import Route
from duebook.store.sqlite import SqliteStore
from tests.support.postgres import PASSWORD, USER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres import Server


def test_a_path_and_a_sqlite_url_open_a_file(path: Path) -> None:
    for url in (str(path), f"sqlite:///{path}"):
        store = open_store(url)
        assert isinstance(store, SqliteStore)
        store.close()


@pytest.mark.parametrize("scheme", ["postgresql://", "postgres://"])
def test_a_postgres_url_opens_a_database(postgres_url: str, scheme: str) -> None:
    store = open_store(postgres_url.replace("postgresql://", scheme))
    assert isinstance(store, PostgresStore)
    store.close()


def test_without_psycopg_its_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("duebook.store.postgres")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Invalid, match=r"psycopg\[binary\]"):
        open_store("postgresql://somewhere/books")


def complaint(url: str, kind: type[DuebookError] = Unavailable) -> str:
    with pytest.raises(kind) as caught:
        open_store(url)
    text = str(caught.value)
    assert "\n" not in text
    assert PASSWORD not in text
    return text


def test_a_host_that_does_not_exist_is_unavailable_and_named() -> None:
    url = f"postgresql://{USER}:{PASSWORD}@no-such-host.invalid:5432/books"
    assert "no-such-host.invalid" in complaint(url)


def test_a_port_where_nobody_listens_is_unavailable_and_named() -> None:
    text = complaint(f"postgresql://{USER}:{PASSWORD}@127.0.0.1:1/books")
    assert "127.0.0.1:1" in text
    assert "refused" in text


def test_a_wrong_password_is_unavailable_and_not_shown(postgres_server: Server) -> None:
    url = f"postgresql://{USER}:a-mistake@127.0.0.1:{postgres_server.port}/postgres"
    text = complaint(url)
    assert "password authentication failed" in text
    assert "a-mistake" not in text


def test_a_database_that_does_not_exist_is_unavailable_and_named(postgres_server: Server) -> None:
    assert 'database "nowhere" does not exist' in complaint(postgres_server.url("nowhere"))


def test_a_url_that_cannot_be_read_is_invalid_and_its_password_not_shown() -> None:
    complaint(f"postgresql://{USER}:{PASSWORD}@host:port:5432/books?colour=red", Invalid)
    complaint(f"postgresql://{USER}:{PASSWORD}@host/books?colour=red", Invalid)


@pytest.mark.parametrize("password", ["a/secret", "a@secret", "a%secret", "secret@/x", "%zzsecret"])
@pytest.mark.parametrize("setting", ["database URL", "listen_url"])
def test_a_password_whose_signs_are_not_escaped_is_not_shown(password: str, setting: str) -> None:
    with pytest.raises(Invalid, match=f"the {setting} cannot be read: .*%40") as caught:
        Route(f"postgresql://{USER}:{password}@host/books", setting)
    assert "secret" not in str(caught.value)


def test_the_place_of_books_names_no_password() -> None:
    assert place_of("sqlite:///a/b.db") == "a/b.db"
    place = place_of(f"postgresql://{USER}:{PASSWORD}@host:5432/books")
    assert "books" in place
    assert "host:5432" in place
    assert PASSWORD not in place
    assert "at a:1, b:2" in place_of("postgresql://a:1,b:2/books")


def test_the_command_line_works_on_postgres(postgres_url: str, postgres_server: Server) -> None:
    def run(url: str, *words: str) -> str:
        result = CliRunner().invoke(main, ["--database", url, *words])
        assert result.exit_code == 0, result.output
        return result.output

    run(postgres_url, "add", "hello", "--every", "1h", "--", "echo", "hello")
    assert "hello" in run(postgres_url, "ls")
    assert "the books balance" in run(postgres_url, "db", "check")
    assert "1 of 1" in run(postgres_url, "db", "status")
    assert "next due" in run(postgres_url, "tick")
    with postgres_server.database(template="template0") as empty:
        assert "has no Duebook schema yet" in run(empty, "db", "status")
        listed = CliRunner().invoke(main, ["--database", empty, "ls"])
        assert (listed.exit_code, "duebook db migrate" in listed.stderr) == (3, True)
        assert "has no Duebook schema yet" in run(empty, "db", "status")
        run(empty, "db", "migrate")
        assert "no schedules yet" in run(empty, "ls")
