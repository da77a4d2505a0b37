"""Which due times replace wall times that clocks jumped over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, time

    from duebook.triggers.base import Trigger

__all__ = ["moved_walls"]


def moved_walls(
    triggers: Sequence[Trigger], start: datetime, until: datetime
) -> dict[datetime, time]:
    """Due times after `start`, up to and including `until`, and the wall time each moved from."""
    moves: dict[datetime, time] = {}
    for trigger in triggers:
        for omission in trigger.omitted(start, until):
            if omission.moved_to:
                moves.setdefault(omission.moved_to, omission.wall.time())
    return moves
