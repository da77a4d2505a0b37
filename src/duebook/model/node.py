"""Nodes that live, as values: what they do, how long their lease lasts, how their clock goes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from duebook.model.codec import Shown, shown
from duebook.model.serving import Serving, serving_of

__all__ = ["LiveNode"]


@shown("Node")
@dataclass(frozen=True, slots=True)
class LiveNode:
    """A node whose lease has not expired."""

    id: str
    node: Annotated[str, Shown("The name of its machine.")]
    pid: int
    roles: tuple[str, ...]
    version: str
    tzdata: str
    tasks: Annotated[tuple[str, ...], Shown("The tasks that it knows.")]
    queues: Annotated[tuple[str, ...], Shown("The queues that it serves.")]
    namespaces: Annotated[
        Serving,
        Shown(
            'The namespaces whose runs it executes; ["*"] for all.',
            write=Serving.to_json,
            read=serving_of,
            json=list[str],
        ),
    ]
    labels: Annotated[dict[str, str], Shown("Labels that steps can require.")]
    started_at: datetime
    seen_at: Annotated[datetime, Shown("Its last heartbeat.")]
    expires_at: Annotated[datetime, Shown("When its lease expires, unless renewed.")]
    clock_ahead: Annotated[
        timedelta,
        Shown("How many seconds its clock is ahead of the database's, at its last heartbeat."),
    ]
    """negative: behind"""
    running: Annotated[int, Shown("How many runs it is executing.")]
    leads: Annotated[bool, Shown("Whether it is the leader.")]
    """in leader mode"""

    def serves(self, namespace: str) -> bool:
        """Whether it executes runs of a namespace."""
        return "worker" in self.roles and namespace in self.namespaces
