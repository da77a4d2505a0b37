"""Nodes that live, as values: what they do, how long their lease lasts, how their clock goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duebook.model.serving import Serving

__all__ = ["LiveNode"]


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A session of a node whose lease has not run out."""

    id: str
    node: str
    """the name of its machine"""
    pid: int
    roles: tuple[str, ...]
    version: str
    tzdata: str
    tasks: tuple[str, ...]
    """those that it knows"""
    queues: tuple[str, ...]
    """those that it serves"""
    namespaces: Serving
    """those whose runs it executes"""
    labels: dict[str, str]
    """those that it has, for steps that ask for them"""
    started_at: datetime
    seen_at: datetime
    """its last sign of life"""
    expires_at: datetime
    """when its lease ends, unless it renews it"""
    clock_ahead: timedelta
    """of the books' clock, when it was last seen; negative: behind"""
    running: int
    """its runs under way"""
    leads: bool
    """whether it is the one that plans, in leader mode"""

    def serves(self, namespace: str) -> bool:
        """Whether it executes runs of a namespace."""
        return "worker" in self.roles and namespace in self.namespaces
