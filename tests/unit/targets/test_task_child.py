"""What the process of a task says of itself after a run."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from duebook.targets import task_child
from duebook.targets.task_child import has_children

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_thread_that_ends_while_children_are_looked_for_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[Path] = []

    def look(thread: Path) -> bytes:
        looks.append(thread)
        if len(looks) == 1:
            raise FileNotFoundError(thread)
        return b""  # whatever children other tests have left

    monkeypatch.setattr(task_child, "_children_of", look)
    assert not has_children()
    assert looks[0] in looks[1:]


def test_a_child_that_nobody_has_waited_for_is_seen() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]):
        assert has_children()


def test_where_threads_end_all_the_time_there_may_be_children(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ended(_: Path) -> bytes:
        raise FileNotFoundError

    monkeypatch.setattr(task_child, "_children_of", ended)
    assert has_children()
