"""`duebook --url`: how the server and its token are found, and the messages if they are not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from duebook.api.local_token import keep_local_token
from duebook.api.login_links import LoginLinks
from duebook.cli import main
from tests.support.api import FixedTokens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.serving import Served

NOBODY = "http://127.0.0.1:1"
HELLO = ("add", "hello", "--every", "1h", "--", "true")


def duebook(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def server(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A remote server, and an empty working directory."""
    monkeypatch.chdir(tmp_path)
    store = served.use(tmp_path / "elsewhere" / "books.db")
    yield served
    store.close()


def test_the_environment_names_the_server(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUEBOOK_URL", server.url)
    monkeypatch.setenv("DUEBOOK_TOKEN", "admin")
    assert duebook(*HELLO).exit_code == 0
    (listed,) = json.loads(duebook("ls", "--json").stdout)
    assert (listed["name"], listed["created_by"]) == ("hello", "token:admin")
    assert not (tmp_path / ".duebook").exists()


def test_a_file_names_the_server(server: Served, tmp_path: Path) -> None:
    (tmp_path / "duebook.toml").write_text(f'url = "{server.url}"\ntoken = "admin"\n')
    assert duebook(*HELLO).exit_code == 0
    assert "hello" in duebook("ls").stdout


def test_a_database_that_is_named_on_the_command_line_wins(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUEBOOK_URL", server.url)
    monkeypatch.setenv("DUEBOOK_TOKEN", "admin")
    assert duebook("--database", "mine.db", *HELLO).exit_code == 0
    assert "no schedules yet" in duebook("ls").stdout
    assert "hello" in duebook("--database", "mine.db", "ls").stdout


def test_a_server_and_a_database_at_once_are_refused(server: Served) -> None:
    result = duebook("--url", server.url, "--database", "mine.db", "ls")
    assert result.exit_code == 2
    assert "give either --database or --url, not both" in result.stderr


def test_the_token_of_a_node_on_this_machine_is_found(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = keep_local_token(tmp_path / ".duebook" / "token")
    seen: list[str] = []
    check = FixedTokens.check

    def see(tokens: FixedTokens, text: str) -> object:
        seen.append(text)
        return check(tokens, "admin" if text == token else text)

    monkeypatch.setattr(FixedTokens, "check", see)
    assert duebook("--url", server.url, *HELLO).exit_code == 0
    assert set(seen) == {token}


def test_a_link_to_a_node_that_has_ended_is_refused_and_another_can_be_named(
    server: Served, tmp_path: Path
) -> None:
    path = tmp_path / ".duebook" / "token"
    token = keep_local_token(path)
    LoginLinks(path, lambda: token).announce(NOBODY)
    result = duebook("token", "link")
    assert (result.exit_code, f"nothing answers at {NOBODY}" in result.stderr) == (4, True)
    assert "or name a running one: duebook token link --url" in result.stderr
    named = duebook("--url", server.url, "token", "link")
    assert named.stdout.startswith(f"{server.url}/login?code=")


def test_the_token_of_this_machine_is_sent_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_local_token(tmp_path / ".duebook" / "token")
    monkeypatch.chdir(tmp_path)
    tokens: list[str | None] = []

    class Spy:
        def __init__(self, _url: str, token: str | None, _namespace: str) -> None:
            tokens.append(token)
            raise SystemExit(0)

    monkeypatch.setattr("duebook.remote.book.Server", Spy)
    duebook("--url", "https://duebook.example", "ls")
    assert tokens == [None]


@pytest.mark.parametrize(
    "arguments", [HELLO, ("ls",), ("runs",), ("logs", "hello"), ("queue", "ls")]
)
def test_a_server_that_does_not_answer_is_exit_code_4(arguments: tuple[str, ...]) -> None:
    result = duebook("--url", NOBODY, "--token", "admin", *arguments)
    assert result.exit_code == 4
    assert result.stderr.startswith(f"error: cannot reach {NOBODY}: ")
    assert "check that `duebook up` runs there and that this is its address" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_server_that_does_not_answer_is_not_ready() -> None:
    result = duebook("--url", NOBODY, "status")
    assert result.exit_code == 1
    assert result.stdout.startswith("problem database: cannot reach")


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ((), "needs a token; give --token, or DUEBOOK_TOKEN"),
        (("--token", "wrong"), "does not know this token; it may be revoked, expired"),
    ],
)
def test_a_wrong_token_is_exit_code_1_with_words(
    server: Served, token: tuple[str, ...], words: str
) -> None:
    result = duebook("--url", server.url, *token, "ls")
    assert result.exit_code == 1
    assert f"{server.url} {words}" in result.stderr
    assert "duebook token create creates one" in result.stderr
    assert "wrong" not in result.stderr


def test_a_token_that_may_not_is_exit_code_1_with_words(server: Served) -> None:
    result = duebook("--url", server.url, "--token", "viewer", *HELLO)
    assert result.exit_code == 1
    assert result.stderr == 'error: token "viewer" is viewer; this needs operator\n'


def test_a_token_sees_only_its_namespaces(server: Served) -> None:
    mine = ("--url", server.url, "--token", "admin@shop", "--namespace")
    assert duebook(*mine, "shop", *HELLO).exit_code == 0
    result = duebook(*mine, "other", "ls")
    assert result.exit_code == 3
    assert 'namespace "other" does not exist, or your token does not include it' in result.stderr


@pytest.mark.parametrize("url", ["localhost:7420", "http://a b"])
def test_what_is_no_address_is_refused(url: str) -> None:
    result = duebook("--url", url, "ls")
    assert result.exit_code == 2
    assert "is not a server address such as http://127.0.0.1:7420" in result.stderr


DATABASE_COMMANDS = [
    ("up",),
    ("web",),
    ("worker", "reports:book"),
    ("tick",),
    ("db", "status"),
    ("db", "check"),
    ("db", "migrate"),
    ("db", "reopen"),
]


@pytest.mark.parametrize("arguments", DATABASE_COMMANDS, ids=" ".join)
def test_what_needs_the_database_itself_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    for where in (("--url", NOBODY), ()):
        monkeypatch.setenv("DUEBOOK_URL", NOBODY)
        result = duebook(*where, *arguments)
        assert result.exit_code == 2, result.output
        assert "needs direct access to the database" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_who_names_a_database_may_work_on_it_beside_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUEBOOK_URL", NOBODY)
    monkeypatch.setenv("DUEBOOK_DATABASE_URL", str(tmp_path / "books.db"))
    assert duebook("db", "migrate").exit_code == 0
    assert duebook("tick").exit_code == 0
