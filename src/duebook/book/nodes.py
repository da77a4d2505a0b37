"""What people ask about nodes: who works on the books."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duebook.model.node import LiveNode
    from duebook.store.base import Store

    Listed = list[LiveNode]  # inside the class below `list` is a method

__all__ = ["Nodes"]


class Nodes:
    """The nodes that live; all namespaces share them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self) -> Listed:
        """Every node whose lease has not run out, by name, the oldest first."""
        return self._store.read(lambda tx: tx.list_nodes())
