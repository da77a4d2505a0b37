"""The flow directory of a simulation: real files, which a node reads on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.book.flow_registry import FlowRegistry
from duebook.flows.sync import FlowSync
from duebook.testing.node import FOR_EVER

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.store.base import Store

__all__ = ["SimulatedDirectory"]


class SimulatedDirectory:
    """Held by one node at a time, until its scheduler is down."""

    def __init__(self, path: Path, store: Store, namespace: str) -> None:
        path.mkdir()
        self._path = path
        self._registry = FlowRegistry(store, namespace, FOR_EVER)
        self._sync = FlowSync([path], self._registry)
        self._moment = 0.0

    def write(self, name: str, source: str) -> None:
        (self._path / f"{name}.yaml").write_text(source, encoding="utf-8")

    def delete(self, name: str) -> bool:
        """False if there is no such file."""
        path = self._path / f"{name}.yaml"
        known = path.exists()
        path.unlink(missing_ok=True)
        return known

    def read(self, session_id: str) -> None:
        """Let a node take it, and read it until all files count as stable."""
        self._registry.owned_by(session_id)
        self._registry.hold([self._path.name])
        for _ in range(3):
            self._sync.step(self._moment)
            self._moment += 1.0
