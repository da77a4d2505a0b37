"""The queues that a node serves; more can be added while it runs, also in the database."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from duebook.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from duebook.store.base import Store

__all__ = ["ServedQueues"]

log = logging.getLogger(__name__)


class ServedQueues(Sequence[str]):
    """Shared by a node's parts, which always see the current queues."""

    def __init__(self, store: Store, names: Sequence[str], ring: Callable[[], None]) -> None:
        """`names` is empty for a node without a worker, and stays so; `ring` is called when queues
        are added."""
        self._store = store
        self._names = tuple(names)
        self._ring = ring
        self.session_id = ""
        """of the node, once it has one"""

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        return self._names[index]

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def add(self, names: Collection[str], why: str) -> None:
        """Serve these too from now on, until the node ends; `why` is logged.

        Raises Unavailable; then the caller tries again.
        """
        more = sorted(set(names) - set(self._names))
        if not more or not self._names:
            return
        served = (*self._names, *more)
        self._store.transact(lambda tx: tx.nodes.serve_queues(self.session_id, served))
        self._names = served
        plural = "s" if len(more) > 1 else ""
        log.info("also serves queue%s %s: %s", plural, shorten(", ".join(more), 200), why)
        self._ring()
