"""What people ask about nodes: who works on the books."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.model.serving import ALL

if TYPE_CHECKING:
    from duebook.model.node import LiveNode
    from duebook.model.serving import Serving
    from duebook.store.base import Store

    Listed = list[LiveNode]  # inside the class below `list` is a method

__all__ = ["Nodes"]


class Nodes:
    """The nodes that live; all namespaces share them. Who sees only some namespaces, `sees`, sees
    the nodes that serve one of them."""

    def __init__(self, store: Store, sees: Serving = ALL) -> None:
        self._store = store
        self._sees = sees

    def list(self) -> Listed:
        """Every node whose lease has not run out, by name, the oldest first."""
        return self._store.read(lambda tx: tx.nodes.list_nodes(self._sees))
