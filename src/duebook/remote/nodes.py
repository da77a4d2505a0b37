"""What people ask about the nodes of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.book.nodes import Nodes
from duebook.remote.readings import read_node

if TYPE_CHECKING:
    from duebook.book.nodes import Listed
    from duebook.remote.server import Server

__all__ = ["RemoteNodes"]


class RemoteNodes(Nodes):
    """As Nodes."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def list(self) -> Listed:
        found = self._server.get("nodes", namespaced=False)
        return [read_node(form) for form in found["items"]]
