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
    """A session of a node whose lease has not run out."""

    id: str
    node: Annotated[str, Shown("The name of its machine.")]
    pid: int
    roles: tuple[str, ...]
    version: str
    tzdata: str
    tasks: Annotated[tuple[str, ...], Shown("Those that it knows.")]
    queues: Annotated[tuple[str, ...], Shown("Those that it serves.")]
    namespaces: Annotated[
        Serving,
        Shown(
            'Those whose runs it executes; ["*"] for all.',
            write=Serving.to_json,
            read=serving_of,
            json=list[str],
        ),
    ]
    labels: Annotated[dict[str, str], Shown("For steps that ask for them.")]
    started_at: datetime
    seen_at: Annotated[datetime, Shown("Its last sign of life.")]
    expires_at: Annotated[datetime, Shown("When its lease ends, unless renewed.")]
    clock_ahead: Annotated[
        timedelta, Shown("Seconds ahead of the books' clock at its last sign of life.")
    ]
    """negative: behind"""
    running: Annotated[int, Shown("Its runs under way.")]
    leads: Annotated[bool, Shown("Whether it is the one that plans.")]
    """in leader mode"""

    def serves(self, namespace: str) -> bool:
        """Whether it executes runs of a namespace."""
        return "worker" in self.roles and namespace in self.namespaces
