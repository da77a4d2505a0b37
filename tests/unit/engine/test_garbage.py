"""How seldom a node looks for garbage."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc
from duebook.engine.garbage import collect_seldom
before = gc.get_threshold()
collect_seldom()
assert gc.isenabled()
assert gc.get_threshold()[0] > 10 * before[0]
assert gc.get_freeze_count() > 1_000
"""


def test_a_node_looks_for_garbage_seldom_and_not_among_what_stays() -> None:
    """In a process of its own: the tests keep their collector."""
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)  # noqa: S603
