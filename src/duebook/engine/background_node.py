"""Runs a node in its own thread, beside the rest of the program."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BackgroundNode"]

log = logging.getLogger("duebook.app")


class BackgroundNode:
    """A node in its own thread; its failure is raised to the caller."""

    def __init__(self, work: Callable[[Callable[[], None]], None]) -> None:
        self._work = work
        self._begun = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="duebook-node", daemon=True)

    def _run(self) -> None:
        try:
            self._work(self._begun.set)
        except BaseException as error:
            log.exception("the node stopped with an error")
            self._error = error
        finally:
            self._begun.set()

    def begin(self) -> None:
        """Start; returns once the node can be stopped."""
        self._thread.start()
        self._begun.wait()
        if not self._thread.is_alive() or self._error is not None:
            self.end()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> None:
        """Wait for the node to end; raises the error that it failed with."""
        self._thread.join()
        if self._error is not None:
            raise self._error
