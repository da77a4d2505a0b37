"""Notes about secrets that a definition names and no live node offers; reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.model.note import Note
from duebook.targets.templates import spec_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duebook.model.node import LiveNode
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.base import Tx

__all__ = ["is_offered", "unknown_secrets"]


def unknown_secrets(tx: Tx, namespace: str, spec: ScheduleSpec) -> tuple[Note, ...]:
    """A note for each secret of a definition that its runs would not find at present."""
    if not (names := spec_secrets(spec)):
        return ()
    nodes = tx.nodes.list_nodes()
    return tuple(
        Note(
            "secret",
            f'no live node offers secret "{name}" to namespace "{namespace}"; add it to '
            f"[secrets.{namespace}] in the duebook.toml of a node, and restart it",
        )
        for name in sorted(names)
        if not is_offered(nodes, namespace, name)
    )


def is_offered(nodes: Iterable[LiveNode], namespace: str, name: str) -> bool:
    """Whether a live worker that serves the namespace has the secret for it."""
    return any(node.serves(namespace) and name in node.secrets.get(namespace, ()) for node in nodes)
