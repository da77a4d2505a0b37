"""`duebook flow run` runs a file once, without a node."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.cli import Cli

OUTER = """
params: [{DAY: monday}, {REGION: eu}]
steps:
  - {name: greet, command: 'echo "hello $DAY in $REGION"', output: X}
  - {name: tidy, command: exit 3, continue_on: failed}
  - {name: call, call: inner, params: {N: "${X}"}}
"""
INNER = """
params: [{N: none}]
steps: [{name: say, command: 'echo "got $N"'}]
"""


def test_a_file_is_run_once_with_what_it_calls_and_its_args(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "outer.yaml").write_text(OUTER)
    (tmp_path / "inner.yaml").write_text(INNER)
    (tmp_path / "broken.yaml").write_text("stepz: 1")
    result = cli("flow", "run", str(tmp_path / "outer.yaml"), "--", "friday", "REGION=us")
    assert result.exit_code == 6, result.stderr
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert "call/say | got hello friday in us" in lines
    assert lines[-1] == "outer partial: step tidy failed, and the flow continued"
    assert [line.split()[:2] for line in lines if line.startswith("  tidy")][-1] == [
        "tidy",
        "failed",
    ]


def test_paths_are_relative_to_the_directory_of_each_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "flows" / "part").mkdir(parents=True)
    (tmp_path / "flows" / "here.txt").write_text("outer")
    (tmp_path / "flows" / "part" / "here.txt").write_text("inner")
    file = tmp_path / "flows" / "a.yaml"
    file.write_text(
        "steps: [{name: a, command: cat here.txt, stdout: out.txt}, {call: part/b.yaml},"
        " {name: c, command: cat here.txt, dir: part}]"
    )
    (tmp_path / "flows" / "part" / "b.yaml").write_text("steps: [{name: b, command: cat here.txt}]")
    result = cli("flow", "run", str(file))
    assert result.exit_code == 0, result.output
    found = [line.split(" | ")[1] for line in result.stdout.splitlines() if " | " in line]
    assert found == ["outer", "inner", "inner"]
    assert (tmp_path / "flows" / "out.txt").read_text() == "outer"


def test_it_says_what_the_file_does_in_another_way(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("log_dir: /var/log\nsteps: [{name: a, command: echo one}]")
    result = cli("flow", "run", str(file))
    assert result.exit_code == 0
    assert "note: log_dir has no effect" in result.stderr
    assert "note" not in result.stdout


def test_a_file_that_cannot_run_is_refused_before_anything_starts(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("stepz: [a]")
    result = cli("flow", "run", str(file))
    assert result.exit_code == 2
    assert "a.yaml:1:1: unknown key `stepz`" in result.stderr
    assert cli("flow", "run", str(tmp_path / "ghost.yaml")).exit_code == 2
    file.write_text("steps: [{name: send, task: reports.send}]")
    assert "--app MODULE:BOOK" in cli("flow", "run", str(file)).stderr
    file.write_text("params: [{DAY: monday}]\nsteps: [a]")
    refused = cli("flow", "run", str(file), "--", "x", "y")
    assert (refused.exit_code, 'no param for "y"' in refused.stderr) == (2, True)


def test_an_interrupt_stops_the_flow_and_what_it_runs(cli: Cli, tmp_path: Path) -> None:
    started, file = tmp_path / "started", tmp_path / "long.yaml"
    file.write_text(
        f"steps: [{{name: long, command: 'touch {started}; exec sleep 1000'}}]\n"
        "handler_on: {abort: echo tidied}"
    )

    def interrupt() -> None:
        eventually(started.exists)
        signal.raise_signal(signal.SIGINT)

    person = threading.Thread(target=interrupt)
    person.start()
    result = cli("flow", "run", str(file))
    person.join()
    assert result.exit_code == 130, result.stderr
    assert "stopping; press Ctrl-C again" in result.stderr
    assert "handler_on.abort | tidied" in result.stdout
    assert result.stdout.splitlines()[-1] == "long cancelled: stopped"


def test_a_second_interrupt_does_not_wait_for_the_flow(cli: Cli, tmp_path: Path) -> None:
    started, stopping = tmp_path / "started", tmp_path / "stopping"
    file = tmp_path / "stubborn.yaml"
    file.write_text(
        f"steps: [{{name: long, command: 'touch {started}; exec sleep 1000'}}]\n"
        f"handler_on: {{abort: 'touch {stopping}; exec sleep 1000'}}"
    )

    def interrupt() -> None:
        for seen in (started, stopping):
            eventually(seen.exists)
            signal.raise_signal(signal.SIGINT)

    person = threading.Thread(target=interrupt)
    person.start()
    result = cli("flow", "run", str(file))
    person.join()
    assert result.exit_code == 130, result.stderr
    assert "tidied" not in result.stdout
