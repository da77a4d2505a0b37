"""Use cases of nodes: list the live ones, and drain one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duebook.book.audit import SHARED, Auditor
from duebook.errors import Conflict, NotFound, shorten
from duebook.model.fields import read_flag
from duebook.model.node import Drain
from duebook.model.serving import ALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.node import LiveNode
    from duebook.model.serving import Serving
    from duebook.store.base import Store, Tx

    Listed = list[LiveNode]  # inside the class below `list` is a method

__all__ = ["Nodes", "find_node"]


class Nodes:
    """The live nodes; all namespaces share them. A user who sees only the namespaces in `sees` sees
    the nodes that serve one of them."""

    def __init__(self, store: Store, sees: Serving = ALL, by: str = "") -> None:
        self._store = store
        self._sees = sees
        self._audit = Auditor(SHARED, by)

    def list(self) -> Listed:
        """Return every node whose lease has not expired, by name, oldest first."""
        return self._store.read(lambda tx: tx.nodes.list_nodes(self._sees))

    def drain(self, node: str, stop: bool = False) -> LiveNode:
        """Drain a node: it starts no more runs, hands back those that it has not started, finishes
        the running ones, and with `stop` then stops.

        The node notices within seconds, at the latest with its next heartbeat. Restarting it ends
        the drain. Raises NotFound, and Conflict if several live nodes have that name.
        """
        stops = read_flag("stop", stop)

        def work(tx: Tx) -> LiveNode:
            found = find_node(tx.nodes.list_nodes(), node)
            drain = Drain(found.draining_at or tx.now, stops)
            tx.nodes.drain(found.id, drain)
            after = {"draining": True, "stop": stops}
            self._note(tx, "drain", found, after)
            return replace(found, draining_at=drain.at, stops_when_idle=stops)

        return self._store.transact(work)

    def undrain(self, node: str) -> LiveNode:
        """Let a node start runs again. Raises NotFound, and Conflict if several live nodes have
        that name or it is not draining."""

        def work(tx: Tx) -> LiveNode:
            found = find_node(tx.nodes.list_nodes(), node)
            if found.draining_at is None:
                raise Conflict(f"node {_named(found)} is not draining")
            tx.nodes.drain(found.id, None)
            self._note(tx, "undrain", found, {"draining": False})
            return replace(found, draining_at=None, stops_when_idle=False)

        return self._store.transact(work)

    def _note(self, tx: Tx, action: str, node: LiveNode, after: dict[str, bool]) -> None:
        before = {"draining": node.draining_at is not None}
        self._audit.note(tx, action, "node", node.node, node.id, before, after)


def find_node(nodes: Sequence[LiveNode], text: str) -> LiveNode:
    """Find a node by its id, its name, or its name and process id.

    Raises NotFound, and Conflict if several have that name.
    """
    found = [node for node in nodes if text in (node.id, node.node, f"{node.node}:{node.pid}")]
    if not found:
        known = ", ".join(_named(node) for node in nodes)
        hint = f"; live nodes: {shorten(known, 300)}" if known else "; no node is running"
        raise NotFound(f'node "{shorten(text)}" does not exist{hint}')
    if len(found) > 1:
        named = {_named(node) for node in found}
        words = named if len(named) == len(found) else {node.id for node in found}
        raise Conflict(
            f'there are {len(found)} nodes with the name "{shorten(text)}"; use one of '
            f"{shorten(', '.join(sorted(words)), 300)}"
        )
    return found[0]


def _named(node: LiveNode) -> str:
    return f"{node.node}:{node.pid}"
