"""How results look on a terminal and in a pipe: widths, colours, pages that refresh."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click
import pytest

from duebook.cli import terminal as module
from duebook.errors import Unavailable
from duebook.store.sqlite import SqliteStore
from tests.support.builders import begin
from tests.support.cli import live

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.cli import Cli

LONG = "a-name-that-is-as-long-as-a-name-may-be." * 3 + "end"
GREEN, YELLOW, RED, RESET = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def add(cli: Cli, name: str) -> None:
    cli.ok("add", name, "--cron", "0,5,10,15,20,25,30,35,40 1-20 * * *", "--", "true")
    cli.ok("run", name)


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))


def test_a_pipe_gets_names_and_everything_else_whole(cli: Cli) -> None:
    add(cli, LONG)
    for command in (("ls",), ("runs",)):
        line = next(line for line in cli.ok(*command).splitlines() if LONG in line)
        assert "…" not in line
    assert "0,5,10,15,20,25,30,35,40 1-20 * * *" in cli.ok("ls")


def test_a_table_takes_the_width_of_the_terminal(cli: Cli, terminal: Callable[[int], None]) -> None:
    add(cli, LONG)
    for columns in (80, 140, 200):
        terminal(columns)
        text = cli.ok("ls")
        assert widest(text) <= columns
        assert (LONG in text) == (columns == 200)
    terminal(80)
    assert widest(cli.ok("runs")) <= 80


def test_sentences_take_the_width_of_the_terminal_up_to_100(
    cli: Cli, terminal: Callable[[int], None]
) -> None:
    cli.ok("add", "job", "--every", "1h", "--description", "word " * 100, "--", "true")
    for columns, most in ((60, 60), (90, 90), (200, 100)):
        terminal(columns)
        assert most - 5 <= widest(cli.ok("show", "job")) <= most


def colored(cli: Cli, *arguments: str) -> str:
    return cli.ok(*arguments, "--color", "always")


def test_states_have_colours(cli: Cli) -> None:
    add(cli, "job")
    add(cli, "other")
    cli.ok("pause", "other")
    text = colored(cli, "ls")
    assert f"{GREEN}active{RESET}" in text
    assert f"{YELLOW}paused{RESET}" in text
    assert f"{YELLOW}queued{RESET}" in colored(cli, "runs")
    assert f"status    {GREEN}active" in colored(cli, "show", "job")
    result = cli("--color", "always", "status")
    assert f"{RED}not ready{RESET}" in result.stdout
    assert "\x1b" not in cli.ok("ls", "--color", "never")
    head, *lines = click.unstyle(text).splitlines()
    for line in lines:
        assert line[head.index("STATUS") :].startswith(("active", "paused"))
        assert line[head.index("TRIGGER") :].startswith("0,5,10"), "columns stay where they are"


def test_colours_are_for_terminals_unless_asked_for(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(cli, "job")
    assert "\x1b" not in cli.ok("ls")
    assert "\x1b" in cli.ok("--color", "always", "ls")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in cli.ok("ls")
    assert "\x1b" in cli.ok("ls", "--color", "always"), "a flag goes before the environment"


class Screen:
    """Ends after some refreshes, and records the pauses between them."""

    def __init__(self, looks: int) -> None:
        self.left = looks
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("command", ["ls", "runs", "nodes"])
def test_a_list_can_be_watched(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    add(cli, "job")
    live(cli)
    screen = Screen(3)
    monkeypatch.setattr(module, "time", screen)
    result = cli(command, "--watch")
    assert result.exit_code == 0, result.output
    assert screen.slept == [2.0] * 3
    pages = result.stdout.split(module.HOME)[1:]
    assert len(pages) == 3
    for page in pages:
        assert "every 2 s; Ctrl-C to stop" in page
        assert ("host" if command == "nodes" else "job") in page
        assert page.rstrip("\n").endswith(module.CLEAR_BELOW)


@pytest.mark.usefixtures("terminal")
def test_a_watched_list_is_cut_to_the_screen_and_outlives_an_outage(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        cli.ok("add", f"job-{number}", "--every", "1h", "--", "true")
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setattr(module, "time", Screen(1))
    page = cli.ok("ls", "--watch").split(module.HOME)[1]
    assert page.count("\n") <= 10
    assert "more lines" in page

    def fail() -> None:
        raise Unavailable("the server is gone")

    assert module._rendered(fail) == ["error: the server is gone"]


def test_only_a_terminal_can_watch(cli: Cli) -> None:
    result = cli("ls", "--watch")
    assert result.exit_code == 2
    assert "--watch needs a terminal" in result.stderr
    assert "cannot be combined" in cli("ls", "--watch", "--json").stderr


NO_NODE = "note: no node is running, so nothing is planned or run; start one: duebook up\n"


def test_it_is_said_that_no_node_is_running(cli: Cli) -> None:
    added = cli("add", "job", "--every", "1h", "--", "true")
    assert added.stderr == NO_NODE
    assert cli("ls").stderr == NO_NODE
    assert cli("status").stderr == NO_NODE
    for command in (("ls",), ("status",), ("add", "other", "--every", "1h", "--shell", "true")):
        assert "no node is running" not in cli(*command, "--json").output
    live(cli)
    for command in (("ls",), ("status",), ("add", "third", "--every", "1h", "--shell", "true")):
        assert cli(*command).stderr == ""


def test_it_is_said_which_role_no_node_has(cli: Cli) -> None:
    cli.ok("add", "job", "--every", "1h", "--", "true")
    with closing(SqliteStore(cli.path)) as store:
        begin(store, roles="worker")
    assert "no running node has the role scheduler" in cli("ls").stderr
