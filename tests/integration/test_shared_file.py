"""Processes that share one file: none takes the log of another's writes for abandoned."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from duebook import Duebook


def removed_files() -> list[str]:
    """The files that this process has open, though they were removed."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue
        if target.endswith(" (deleted)") and ".db" in target:
            found.append(target)
    return found


def duebook(path: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "duebook", "--database", str(path), *arguments]
    return subprocess.run(  # noqa: S603 - our own command
        command, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_a_process_that_comes_and_goes_leaves_the_writes_of_another_alone(tmp_path: Path) -> None:
    path = tmp_path / "duebook.db"
    with Duebook(str(path)) as book:
        book.schedules.list()
        other = threading.Thread(target=book.schedules.list)  # a connection of its own
        other.start()
        other.join()
        Duebook(str(path)).close()
        duebook(path, "add", "theirs", "--every", "1h", "--", "true")
        assert removed_files() == []
        book.schedules.create("ours", trigger={"every": "1h"}, target="task")
        assert "ours" in duebook(path, "ls")
        assert {schedule.name for schedule in book.schedules.list()} == {"ours", "theirs"}
