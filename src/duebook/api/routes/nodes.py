"""Nodes: who works on the books. All namespaces share them."""

from __future__ import annotations

from dataclasses import replace

from starlette.responses import Response

from duebook.api.answers import listed
from duebook.api.asking import Everywhere
from duebook.api.operations import V1, Operations
from duebook.api.schemas.others import NodeList
from duebook.model.access import Role
from duebook.model.forms import node_form

__all__ = ["operations"]

operations = Operations(f"{V1}/nodes", "nodes")


@operations("GET", "", Role.VIEWER, NodeList)
def list_nodes(ask: Everywhere) -> Response:
    """Every node whose lease has not run out, by name; of namespaces, those that the token sees."""
    sees = ask.caller.sees
    nodes = [
        replace(node, namespaces=node.namespaces.seen_by(sees)) for node in ask.book.nodes.list()
    ]
    return listed([node_form(node) for node in nodes]).response()
