"""Watches directories for changes and gives hints; a lost hint only costs time.

Each directory of a tree is watched separately: watching a whole tree would follow links out of it.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Final

from watchfiles import watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["Watcher"]

DEBOUNCE: Final = 50
"""Milliseconds in which events are combined into one hint."""
AGAIN: Final = 5.0
"""Seconds until watching a directory is tried again after a failure."""

_log: Final = logging.getLogger(__name__)


class Watcher:
    """A thread for each directory, so that a missing one does not affect the others."""

    def __init__(self, roots: Sequence[Path], hint: Callable[[], None]) -> None:
        self._hint = hint
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(root,), name="flows-watch", daemon=True)
            for root in roots
        ]

    def start(self) -> None:
        logging.getLogger("watchfiles").setLevel(logging.WARNING)  # we log what changed
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _watch(self, root: Path) -> None:
        told = ""
        while not self._stop.is_set():
            try:
                self._watch_directories(root)
            except (OSError, RuntimeError) as error:
                if str(error) != told:
                    _log.warning("flows: cannot watch %s: %s", root, error)
                told = str(error)
                self._stop.wait(AGAIN)
                self._hint()

    def _watch_directories(self, root: Path) -> None:
        """Watch until the set of directories changes; changes before the watch started also give a
        hint."""
        inode, directories, is_first = root.stat().st_ino, _directories(root), True
        for changes in watch(
            *directories,
            watch_filter=None,
            debounce=DEBOUNCE,
            step=DEBOUNCE,
            stop_event=self._stop,
            rust_timeout=500,
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=False,
            ignore_permission_denied=True,
        ):
            if changes or is_first:
                self._hint()
            is_first = False
            if root.stat().st_ino != inode or (changes and _directories(root) != directories):
                return


def _directories(root: Path) -> list[str]:
    """A directory and its subdirectories in which files are looked for."""
    found = []
    for here, names, _ in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith("."))
        found.append(here)
    return found
