"""Watches directories for changes and gives hints; losing one costs only time."""

from __future__ import annotations

import logging
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
        while not self._stop.is_set():
            try:
                for _ in watch(
                    root,
                    watch_filter=None,
                    debounce=DEBOUNCE,
                    step=DEBOUNCE,
                    stop_event=self._stop,
                    rust_timeout=500,
                    raise_interrupt=False,
                    ignore_permission_denied=True,
                ):
                    self._hint()
            except (OSError, RuntimeError) as error:
                _log.warning("flows: %s is not watched: %s", root, error)
            self._stop.wait(AGAIN)
            self._hint()
