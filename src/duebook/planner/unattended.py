"""How due times of flows wait while no node reads the directory of their files."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.model.plan import Defer, Reason

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.plan import Unattended

__all__ = ["CHANGING_AGAIN", "UNATTENDED_AGAIN", "deferral"]

UNATTENDED_AGAIN: Final = timedelta(minutes=5)
"""When to look again at a flow whose directory no node reads; a scan wakes it earlier."""
CHANGING_AGAIN: Final = timedelta(milliseconds=100)
"""When to look again while a node changes the flows of the directory."""


def deferral(unattended: Unattended, due_at: datetime, now: datetime) -> Defer:
    until = now + (CHANGING_AGAIN if unattended.is_changing else UNATTENDED_AGAIN)
    facts = {"directory": unattended.directory, "since": unattended.since}
    return Defer(due_at, Reason.UNATTENDED, until, facts)
