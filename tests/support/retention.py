"""Deletes everything from before an instant, no matter how long it should be kept: what retention
does once that time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duebook.model.history import SweptKeep
from duebook.settings import RETENTION

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.store.base import Tx
    from duebook.store.values import Place

ALL = SweptKeep(RETENTION, (), among=False)


class Purged(NamedTuple):
    number: int
    after: Place | None


def purge_all(tx: Tx, before: datetime, limit: int, after: Place | None = None) -> Purged:
    """Delete up to `limit` rows: runs first, then everything else."""
    swept = tx.history.sweep_before(ALL, before, before, limit, after)
    if swept.looked == limit:
        return Purged(swept.deleted, swept.after)
    return Purged(swept.deleted + tx.upkeep.purge(before, limit - swept.looked), None)
