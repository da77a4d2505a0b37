"""The end of the event log for callers that see one namespace: the position of its last event.

All namespaces share the log's positions, so its true end would reveal how much others write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from duebook.store.base import Store

__all__ = ["OwnPositions"]


class _Known(NamedTuple):
    looked: int = 0
    """searched up to this position"""
    last: int = 0
    """the last event of the namespace found there; 0: none"""


class OwnPositions:
    """For every namespace that was asked for; reads each position once, for all callers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, _Known] = {}

    def last(self, namespace: str, until: int) -> int:
        """The position of the namespace's last event up to `until`; 0 if there is none."""
        known = self._known.get(namespace, _Known())
        if until <= known.looked:
            return known.last if known.last <= until else self._find(namespace, 0, until)
        found = self._find(namespace, known.looked, until) or known.last
        self._known[namespace] = _Known(until, found)
        return found

    def _find(self, namespace: str, after: int, until: int) -> int:
        return self._store.read(lambda tx: tx.events.last_own_position(namespace, after, until))
