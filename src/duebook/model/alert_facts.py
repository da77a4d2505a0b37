"""The current state, as far as alerts need it: what is late, what runs, when nodes were seen."""

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
    """An active run."""

    schedule: str | None
    labels: dict[str, str]
    task: str | None
    flow: str | None
    started_at: datetime
    run_id: str
    due_at: datetime | None
    schedule_id: str | None


class LastSeen(NamedTuple):
    """When a node with these roles that serves these namespaces was last seen."""

    roles: tuple[str, ...]
    namespaces: Serving
    seen_at: datetime


class AlertReader(NamedTuple):
    """How far an evaluator or channel has read the log, and whether it has anything waiting."""

    namespace: str
    name: str
    position: int
    owned: bool
    """whether a live member serves it"""
    retry_at: datetime | None
    """when delivery is retried"""
    waiting: bool
    """whether dead letters are to be replayed, or problems wait to be sent"""
    look_at: datetime | None = None
    """when its time-based rules need the next look; None: it has none"""
