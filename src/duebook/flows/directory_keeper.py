"""Keeps the registry equal to the directories of flows that a node watches.

Of the nodes with the same directory, only one at a time does so, under a lease: with different
checkouts they would undo each other's changes.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, Protocol

from duebook.errors import printable
from duebook.flows.reconcile import Registry
from duebook.flows.sync import PATIENCE, RESCAN, FlowSync
from duebook.flows.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from duebook.flows.problems import Problem

__all__ = ["FlowKeeper", "LeasedRegistry", "scan_once"]

RENEW: Final = 20.0
"""Seconds between two renewals of the lease, which is valid for three times as long."""

_log: Final = logging.getLogger(__name__)


class LeasedRegistry(Registry, Protocol):
    """A registry that several nodes share."""

    def owned_by(self, session_id: str) -> None:
        """Set the session that holds the leases from now on; they end when the session does."""

    def hold(self, roots: Collection[str]) -> tuple[set[str], float]:
        """The directories that this node may manage for the next minute, and the seconds until the
        others might be free."""

    def release(self) -> None:
        """Let other nodes manage the directories."""

    def queues(self, roots: Collection[str]) -> set[str]:
        """The queues of the flows currently defined in these directories."""


class FlowKeeper:
    """`step()` in a thread of the node; `ring` calls it early when a file changes."""

    name = "flows"

    def __init__(self, roots: Sequence[Path], registry: LeasedRegistry) -> None:
        self._names = [root.resolve().name for root in roots]
        self._sync = FlowSync(roots, registry)
        self._registry = registry
        self._roots = roots
        self._watcher: Watcher | None = None
        self._held_at = float("-inf")
        self._held: set[str] = set()
        self._others_wait = RENEW
        """seconds until directories of other nodes might be free"""
        self._others: set[str] = set()
        """directories that another node manages"""
        self._told: set[Problem] = set()
        self._ring: Callable[[], None] = lambda: None
        self._serve: Callable[[Collection[str], str], None] = lambda _queues, _why: None

    def owned_by(self, session_id: str) -> None:
        """Start a new session, which manages no directory yet."""
        self._registry.owned_by(session_id)
        self._held_at = float("-inf")
        self._ring()

    def start(
        self,
        ring: Callable[[], None],
        serve: Callable[[Collection[str], str], None] = lambda _queues, _why: None,
    ) -> None:
        """Start watching; the queues that the flows name are served."""
        self._ring, self._serve = ring, serve
        self._watcher = Watcher(self._roots, ring)
        self._watcher.start()

    def step(self) -> float:
        """Make the registry equal to the files; returns in how many seconds to look again."""
        now = time.monotonic()
        if self._held != set(self._names) or now - self._held_at >= RENEW:
            self._hold(now)
        longest = min(RENEW, self._others_wait)
        if not self._held:
            self._serve_queues()
            return longest
        synced = self._sync.step(now, self._held)
        self._serve_queues()
        if synced.is_late:
            self._held_at = float("-inf")
        for change in synced.changes:
            _log.info("flows: %s %s (%s)", change.kind, change.name, change.place)
        for note in synced.notes:
            _log.warning("flows: %s", printable(note))
        for problem in synced.problems:
            if problem not in self._told:
                _log.warning("flows: %s", printable(str(problem)))
        self._told = set(synced.problems)
        return min(synced.wait, longest)

    def _serve_queues(self) -> None:
        """Serve the queues of all flows, even in directories that other nodes read or in broken
        files."""
        queues = self._sync.queues
        if self._others or self._sync.has_problems:
            queues |= self._registry.queues(self._names)
        self._serve(queues, f"flows in {', '.join(self._names)} use it")

    def _hold(self, now: float) -> None:
        held, self._others_wait = self._registry.hold(self._names)
        if gained := held - self._held:
            _log.info("flows: this node reads %s", ", ".join(sorted(gained)))
        self._sync.forget(self._held - held)
        if others := set(self._names) - held - self._others:
            _log.info("flows: another node reads %s", ", ".join(sorted(others)))
        self._held, self._held_at = held, now
        self._others = set(self._names) - held

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
        if self._held:
            self._registry.release()


def scan_once(
    roots: Sequence[Path],
    registry: LeasedRegistry,
    session_id: str,
    pause: Callable[[float], object] = time.sleep,
) -> set[str]:
    """Read directories until no file changes, for a process that then exits. Returns those that it
    manages now; other nodes manage the rest."""
    registry.owned_by(session_id)
    sync, began = FlowSync(roots, registry), time.monotonic()
    held, _ = registry.hold([root.resolve().name for root in roots])
    while held:
        now = time.monotonic()
        synced = sync.step(now, held)
        if synced.wait >= RESCAN or now - began > 2 * PATIENCE:
            for problem in synced.problems:
                _log.warning("flows: %s", printable(str(problem)))
            break
        pause(synced.wait)
        if synced.is_late:
            held, _ = registry.hold(held)
    return held
