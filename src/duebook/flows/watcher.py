"""Watches directories for changes and gives hints; losing one costs only time.

Each directory below is watched by itself: what watches a whole tree follows links out of it.
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
"""Milliseconds in which events become one hint."""
AGAIN: Final = 5.0
"""Seconds until a directory that cannot be watched is tried again."""

_log: Final = logging.getLogger(__name__)


class Watcher:
    """A thread for each directory, so that one that is not there leaves the others alone."""

    def __init__(self, roots: Sequence[Path], hint: Callable[[], None]) -> None:
        self._hint = hint
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(root,), name="flows-watch", daemon=True)
            for root in roots
        ]

    def start(self) -> None:
        logging.getLogger("watchfiles").setLevel(logging.WARNING)  # we say what changed
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
        """Until there are others; what changed before the watch began is hinted at, too."""
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
    """A directory and those below it in which files are looked for."""
    found = []
    for here, names, _ in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith("."))
        found.append(here)
    return found
