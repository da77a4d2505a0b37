"""Finds nodes of this machine whose process has ended, before their lease runs out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from duebook.machine import process_is_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duebook.store.base import Store
    from duebook.store.values import Neighbour

__all__ = ["bury_gone", "find_gone"]

log = logging.getLogger(__name__)

TAKE_OVER_BATCH: Final = 500


def find_gone(
    neighbours: Iterable[Neighbour], is_gone: Callable[[int, int], bool] = process_is_gone
) -> list[str]:
    """The sessions whose processes have ended."""
    return [other.session_id for other in neighbours if is_gone(other.pid, other.started)]


def bury_gone(store: Store, session_id: str) -> None:
    """Queue their runs again, for a process too short-lived to have a lease and a keeper."""
    gone = find_gone(store.read(lambda tx: tx.nodes.neighbours(session_id)))
    if not gone:
        return
    for dead in store.transact(lambda tx: tx.nodes.bury_gone(gone)):
        log.warning("node session %s is dead; its runs are being taken over", dead)
    while store.transact(lambda tx: tx.attempts.take_over(TAKE_OVER_BATCH)) == TAKE_OVER_BATCH:
        pass
