"""`duebook mcp`: what an assistant can ask, and what it can do with which token."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters, stdio_client

from duebook.book import Book
from duebook.cli import main
from duebook.cli.mcp_command import _may_act
from duebook.cli.mcp_tools import LONGEST_LINE, LONGEST_TEXT, MOST_LOGGED, new_server
from duebook.model.run import LogLine
from duebook.remote import RemoteBook
from duebook.store.sqlite import SqliteStore
from tests.support.builders import BEGIN, begin, claim

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.serving import Served

ACTIONS = {
    *("trigger_schedule", "pause_schedule", "resume_schedule", "skip_next", "cancel_run"),
    *("retry_run", "start_flow"),
}


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with Book(SqliteStore(tmp_path / "books.db")) as opened:
        opened.schedules.create(
            "nightly", trigger={"cron": "30 2 * * *"}, target={"command": ["true"]}
        )
        yield opened


class Assistant:
    """Calls tools of a server in the same process."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def tools(self) -> dict[str, Any]:
        async def ask() -> dict[str, Any]:
            async with Client(self._server) as client:
                return {tool.name: tool for tool in (await client.list_tools()).tools}

        return asyncio.run(ask())

    def call(self, name: str, /, **arguments: Any) -> tuple[bool, Any]:
        """Call a tool; return whether it failed, and its result or message."""

        async def ask() -> tuple[bool, Any]:
            async with Client(self._server) as client:
                return _read(await client.call_tool(name, arguments))

        return asyncio.run(ask())


def _read(result: Any) -> tuple[bool, Any]:
    text = result.content[0].text
    return bool(result.is_error), text if result.is_error else json.loads(text)


def test_it_can_be_asked_about_schedules_and_runs(book: Book) -> None:
    run = book.schedules.trigger("nightly")
    assistant = Assistant(new_server(book, acts=False))
    _, listed = assistant.call("list_schedules")
    assert [each["name"] for each in listed["items"]] == ["nightly"]
    assert assistant.call("get_schedule", name="nightly")[1]["status"] == "active"
    _, previewed = assistant.call("preview_schedule", name="nightly", count=3)
    assert [each["kind"] for each in previewed["items"]] == ["start"] * 3
    _, runs = assistant.call("list_runs", schedule="nightly", status="queued")
    assert [each["id"] for each in runs["items"]] == [run.id]
    assert assistant.call("get_run", run_id=run.id)[1]["attempts"] == []
    assert assistant.call("get_log", run_id=run.id) == (
        False,
        {"lines": [], "next_cursor": None},
    )
    assert "text" in assistant.call("explain_schedule", name="nightly", at="2026-01-05T02:30")[1]
    assert assistant.call("list_flows")[1] == {"items": []}
    assert assistant.call("get_status")[1]["ready"] is False
    assert assistant.call("simulate", days=2)[1]["schedules"]


def test_a_mistake_is_answered_in_a_sentence(book: Book) -> None:
    assistant = Assistant(new_server(book, acts=False))
    failed, told = assistant.call("get_schedule", name="nightlx")
    assert failed
    assert "nightlx" in told
    assert "Traceback" not in told
    assert assistant.call("list_schedules", limit=0)[0]


def test_a_long_log_is_returned_in_parts(book: Book) -> None:
    run = book.schedules.trigger("nightly")
    (claimed,) = claim(book.store, begin(book.store))
    told = [LogLine(BEGIN, "stdout", f"{number} " + "x" * 1_000) for number in range(150)]
    told.append(LogLine(BEGIN, "stderr", "y" * (LONGEST_LINE + 1)))
    book.store.transact(lambda tx: tx.attempts.append_log(claimed.token, 1, told))
    assistant = Assistant(new_server(book, acts=False))
    lines: list[str] = []
    arguments: dict[str, Any] = {"run_id": run.id, "lines": 500}
    parts = 0
    while arguments.get("cursor", "") is not None:
        failed, part = assistant.call("get_log", **arguments)
        assert not failed
        assert len(json.dumps(part)) < MOST_LOGGED * 1.1
        lines += part["lines"]
        arguments["cursor"] = part["next_cursor"]
        parts += 1
    assert parts == -(-150 * 1_010 // MOST_LOGGED)
    assert lines[:-1] == [f"stdout: {line.text}" for line in told[:-1]]
    assert lines[-1] == f"stderr: {'y' * LONGEST_LINE}… (5,001 characters)"
    for cursor in ("x", "1", "1.y", "1.2.3"):
        failed, said = assistant.call("get_log", run_id=run.id, cursor=cursor)
        assert failed
        assert f'cursor "{cursor}" is not valid here' in said


def test_an_answer_that_is_too_long_is_refused_and_a_long_text_shortened(book: Book) -> None:
    runs = [book.schedules.trigger("nightly", {"n": ["z" * 4_000] * 20}) for _ in range(3)]
    long = book.schedules.trigger("nightly", {"text": "z" * 400_000})
    assistant = Assistant(new_server(book, acts=False))
    assert assistant.call("get_run", run_id=runs[0].id)[1]["payload"] == runs[0].payload
    shown = assistant.call("get_run", run_id=long.id)[1]["payload"]["text"]
    assert shown == "z" * LONGEST_TEXT + "… (400,000 characters)"
    failed, told = assistant.call("list_runs")
    assert failed
    assert "at most 200,000" in told
    assert "z" * 100 not in told
    assert not assistant.call("list_runs", limit=2)[0]


def test_actions_are_only_there_for_those_who_may_act(book: Book) -> None:
    reading = Assistant(new_server(book, acts=False)).tools()
    acting = Assistant(new_server(book, acts=True)).tools()
    assert set(acting) - set(reading) == ACTIONS
    assert all(tool.annotations.read_only_hint for tool in reading.values())
    assert not any(acting[name].annotations.read_only_hint for name in ACTIONS)
    assert all(tool.description for tool in acting.values())
    assert Assistant(new_server(book, acts=False)).call("trigger_schedule", name="nightly")[0]
    assert book.runs.list() == []


def test_it_acts_with_the_rights_of_the_token(served: Served, tmp_path: Path) -> None:
    store = served.use(tmp_path / "served.db")
    Book(store).schedules.create(
        "nightly", trigger={"cron": "30 2 * * *"}, target={"command": ["true"]}
    )
    with RemoteBook(served.url, "viewer") as viewer, RemoteBook(served.url, "operator") as operator:
        assert not _may_act(viewer)
        assert _may_act(operator)
        failed, told = Assistant(new_server(viewer, acts=True)).call("skip_next", name="nightly")
        assert failed, "the server decides, too"
        assert "operator" in told
        assistant = Assistant(new_server(operator, acts=True))
        run_id = assistant.call("trigger_schedule", name="nightly")[1]["id"]
        assert assistant.call("cancel_run", run_id=run_id)[1]["result"]
        assert assistant.call("retry_run", run_id=run_id)[1]["status"] == "queued"
        assert assistant.call("skip_next", name="nightly")[1]["skipped"]
        assert assistant.call("pause_schedule", name="nightly", reason="a test")[1]["status"] == (
            "paused"
        )
        assert assistant.call("resume_schedule", name="nightly")[1]["status"] == "active"
    changes = Book(store).audit.list()
    assert "token:operator" in {change.by for change in changes}
    store.close()


def test_a_database_without_a_server_is_only_read(book: Book) -> None:
    assert not _may_act(book)


@pytest.mark.usefixtures("book")
def test_the_command_serves_over_stdin_and_stdout(tmp_path: Path) -> None:
    words = ["-m", "duebook", "--database", str(tmp_path / "books.db"), "mcp"]

    async def ask() -> tuple[set[str], Any]:
        server = StdioServerParameters(command=sys.executable, args=words)
        async with Client(stdio_client(server)) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            return names, _read(await client.call_tool("get_schedule", {"name": "nightly"}))

    names, (failed, schedule) = asyncio.run(asyncio.wait_for(ask(), 120))
    assert not failed
    assert schedule["name"] == "nightly"
    assert not names & ACTIONS


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "duebook.cli.mcp_tools", None)
    refused = CliRunner().invoke(main, ["mcp"])
    assert refused.exit_code == 2
    assert "pip install '.[mcp]'" in refused.output
