"""Nodes: who works on the books. All namespaces share them."""

from __future__ import annotations

from starlette.responses import Response

from duebook.api.answers import listed
from duebook.api.asking import Everywhere
from duebook.api.operations import V1, Operations
from duebook.api.schemas.others import NodeList
from duebook.model.access import Role
from duebook.model.codec import encode

__all__ = ["operations"]

operations = Operations(f"{V1}/nodes", "nodes")


@operations("GET", "", Role.VIEWER, NodeList)
def list_nodes(ask: Everywhere) -> Response:
    """Every node whose lease has not run out, by name.

    A token for some namespaces sees the nodes that serve one of them, and counts only its own runs.
    """
    return listed([encode(node) for node in ask.book.nodes.list()]).response()
