"""How things stand, as far as alerts ask: what is late, what runs, and which nodes were seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.serving import Serving

__all__ = ["AlertReader", "LastSeen", "LateRun", "LongRun"]


class LateRun(NamedTuple):
    """A due time that has not started."""

    schedule: str
    labels: dict[str, str]
    due_at: datetime
    run_id: str | None = None
    """None: it was not planned"""


class LongRun(NamedTuple):
    """A run that goes on."""

    schedule: str | None
    labels: dict[str, str]
    task: str | None
    flow: str | None
    started_at: datetime
    run_id: str
    due_at: datetime | None
    schedule_id: str | None


class LastSeen(NamedTuple):
    """When a node with these roles, that serves these namespaces, was last seen."""

    roles: tuple[str, ...]
    namespaces: Serving
    seen_at: datetime


class AlertReader(NamedTuple):
    """How far an evaluator or a channel has come in the log, and whether anything waits for it."""

    namespace: str
    name: str
    position: int
    owned: bool
    """whether a live member serves it"""
    retry_at: datetime | None
    """when what it did not deliver is tried again"""
    waiting: bool
    """whether dead letters are to be delivered again, or problems wait to be told"""
    look_at: datetime | None = None
    """when rules that follow from time are looked at next; None: it has none"""
