"""The comparison with Dagu counts equal causes together, and says what ended otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tools.compare_dagu import cause, is_harmless, main
from tools.dagu_runs import Ended, StepEnded, differences, run_in_dagu

from duebook.flows.build import build

if TYPE_CHECKING:
    from pathlib import Path

STAND_IN = """#!/bin/sh
case $1 in
validate) ! grep -q broken "$2" ;;
start)
  run="$DAGU_HOME/data/run"
  mkdir -p "$run"
  echo hello > "$run/one.out"
  node='{"step":{"name":"one"},"status":4,"startedAt":"2026","stdout":"@"}'
  echo '{"status":1,"nodes":[]}' > "$run/status.jsonl"
  echo "{\\"status\\":4,\\"nodes\\":[$node]}" | sed "s#@#$run/one.out#" >> "$run/status.jsonl" ;;
esac
"""


def dagu(folder: Path) -> str:
    """A program that answers as Dagu does."""
    program = folder / "dagu"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return str(program)


def test_messages_that_differ_in_their_words_only_have_one_cause() -> None:
    texts = ("steps: [{run: a, depends: b}]", "steps: [{run: c, depends: d}]")
    causes = {cause(build(text, "f.yaml", "f").problems[0]) for text in texts}
    assert causes == {'"…" depends on "…", which is not a step'}


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("steps: [echo hello, sleep 1, exit 3]", True),
        ("steps: [curl https://example.com]", False),
        ("steps: [rm -rf x]", False),
        ("steps: [sleep 60]", False),
        ("steps: [echo a > /tmp/a]", False),
    ],
)
def test_only_files_that_print_and_test_are_executed(text: str, harmless: bool) -> None:
    assert is_harmless(text) is harmless


def test_what_ended_otherwise_is_told_step_by_step() -> None:
    one = {"a": StepEnded("succeeded", "x"), "cmd_2": StepEnded("failed", "")}
    other = {"a": StepEnded("succeeded", "y"), "step-2": StepEnded("failed", "")}
    assert differences(Ended("failed", one), Ended("failed", one)) == []
    assert differences(Ended("failed", one), Ended("partial", other)) == [
        "failed in Dagu, partial in Duebook",
        "a printed 'x' in Dagu, 'y' in Duebook",
    ]
    fewer = Ended("failed", {"a": StepEnded("not run", None)})
    assert differences(Ended("failed", one), fewer) == [
        "2 steps in Dagu, 1 in Duebook",
        "a succeeded in Dagu, not run in Duebook",
    ]


def test_a_run_of_dagu_is_read_from_its_record(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("steps: [{name: one, run: echo hello}]\n")
    found = run_in_dagu(dagu(tmp_path), [file], tmp_path / "runs", 30)
    assert found == {file: Ended("succeeded", {"one": StepEnded("succeeded", "hello")})}


def test_the_table_counts_what_is_read_of_what_dagu_accepts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.yaml").write_text("steps: [ls]\n")
    (files / "b.yaml").write_text("ssh: {}\nsteps: [ls]\n")
    (files / "c.yaml").write_text("name: broken\nsteps: [ls]\n")
    assert main([str(files), "--dagu", dagu(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "accepted by Dagu      2\nof these, read        1 of 2 (50.0%)\n" in told
    assert "   1  key `ssh` is not supported" in told
    assert "read, but not by Dagu 1\n    c.yaml" in told
