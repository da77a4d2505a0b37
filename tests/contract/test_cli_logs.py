"""The log of a run on the command line: its end, a part, its attempts, and live output."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.cli import flow_runs
from duebook.cli import run as running
from duebook.clock import utc_now
from duebook.model.run import LogLine, Outcome
from duebook.store.sqlite import SqliteStore
from tests.support.builders import begin, claim
from tests.support.flow_builders import put_flow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.model.run import Claim
    from duebook.store.base import Store
    from tests.support.cli import Cli

ANYWHERE = True


def write(store: Store, claimed: Claim, *texts: str, ago: int = 0) -> None:
    at = utc_now() - timedelta(minutes=ago)
    lines = [LogLine(at, "stdout", text) for text in texts]
    store.transact(lambda tx: tx.attempts.append_log(claimed.token, 1, lines))


def settle(store: Store, claimed: Claim, status: Any, reason: str | None = None) -> None:
    outcome = Outcome(status, reason)
    store.transact(lambda tx: tx.attempts.settle(claimed.token, outcome))


@pytest.fixture
def run(cli: Cli) -> str:
    """A run that failed an hour ago, and succeeded when it was retried just now."""
    cli.ok("add", "job", "--every", "1h", "--", "true")
    run_id: str = cli.json("run", "job")["id"]
    with closing(SqliteStore(cli.path)) as store:
        begin(store)
        (first,) = claim(store)
        write(store, first, "connecting", "no route", ago=60)
        settle(store, first, "failed", "exit_code")
        cli.ok("retry", run_id)
        (second,) = claim(store)
        write(store, second, "connecting", "done")
        settle(store, second, "succeeded")
    return run_id


def test_attempts_are_kept_apart(cli: Cli, run: str) -> None:
    assert cli.ok("logs", run).splitlines() == [
        "connecting",
        "no route",
        "--- attempt 2 ---",
        "connecting",
        "done",
    ]


def test_only_the_last_lines_are_printed(cli: Cli, run: str) -> None:
    assert cli.ok("logs", run, "--tail", "1").splitlines() == ["--- attempt 2 ---", "done"]
    assert cli.ok("logs", run, "-n", "3").splitlines() == [
        "no route",
        "--- attempt 2 ---",
        "connecting",
        "done",
    ]
    assert [line["text"] for line in cli.json("logs", run, "--tail", "2")] == ["connecting", "done"]
    assert "has no such lines" in cli("logs", run, "--tail", "0").stderr


def test_only_lines_since_a_time_are_printed(cli: Cli, run: str) -> None:
    since = ["--- attempt 2 ---", "connecting", "done"]
    assert cli.ok("logs", run, "--since", "30m").splitlines() == since
    assert len(cli.ok("logs", run, "--since", "2h").splitlines()) == 5
    yesterday = f"{utc_now().astimezone() - timedelta(days=1):%Y-%m-%d}"
    assert len(cli.ok("logs", run, "--since", yesterday).splitlines()) == 5
    assert "has no such lines" in cli("logs", run, "--since", "now").stderr
    assert cli("logs", run, "--since", "soon").exit_code == 2


def test_the_date_of_each_line_is_shown(cli: Cli, run: str) -> None:
    line = cli.ok("logs", run, "--times").splitlines()[-1]
    assert line.startswith(f"{utc_now().astimezone():%Y-%m-%d} ")
    assert line.endswith(" done")


class Clock:
    """Runs an action at each look, instead of letting time pass."""

    def __init__(self, events: Iterator[None]) -> None:
        self._events = events

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, _: float) -> None:
        next(self._events, None)


def test_a_run_that_is_waited_for_prints_its_log_as_it_comes(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("add", "job", "--every", "1h", "--", "true")
    with closing(SqliteStore(cli.path)) as store:
        begin(store)

        def happen() -> Iterator[None]:
            (claimed,) = claim(store)
            yield
            write(store, claimed, "loading", "loaded")
            yield
            settle(store, claimed, "succeeded")
            yield

        monkeypatch.setattr(running, "time", Clock(happen()))
        result = cli("run", "job", "--wait")
    assert result.exit_code == 0, result.output
    first, second, last = result.stdout.splitlines()
    assert (first, second) == ("loading", "loaded")
    assert last.endswith(" succeeded")
    assert [line.split()[-1] for line in result.stderr.splitlines()] == ["queued", "running"]


def interrupted() -> Iterator[None]:
    yield
    raise KeyboardInterrupt


def test_after_ctrl_c_the_run_is_said_to_continue(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("add", "job", "--every", "1h", "--", "true")
    monkeypatch.setattr(running, "time", Clock(interrupted()))
    result = cli("run", "job", "--wait")
    assert result.exit_code == 130
    (run,) = cli.json("runs")
    assert run["status"] == "queued"
    assert result.stderr.splitlines()[-3:] == [
        f"stopped waiting; run {run['id']} continues",
        f"to follow it: duebook logs {run['id']} --follow",
        f"to stop it: duebook cancel {run['id']}",
    ]


def test_after_ctrl_c_the_run_of_a_flow_is_said_to_continue(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("flow", "ls")
    with closing(SqliteStore(cli.path)) as store:
        put_flow(store, "steps: [echo hello]\n", "greet")
        Book(store).flows.get("greet")
    monkeypatch.setattr(flow_runs, "time", Clock(interrupted()))
    result = cli("flow", "start", "greet", "--wait")
    assert result.exit_code == 130
    assert "stopped waiting; run " in result.stderr
    assert "duebook cancel " in result.stderr
