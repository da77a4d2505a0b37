"""Live nodes as values: what they do, how long their lease lasts, how accurate their clock is."""

from __future__ import annotations

from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from duebook.lazy_dataclasses import dataclass
from duebook.model.celery_target import CELERY
from duebook.model.codec import Shown, shown
from duebook.model.serving import ALL, Serving, serving_of

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Drain", "LiveNode", "why_unserved"]


@dataclass(frozen=True, slots=True)
class Drain:
    """A node was asked to start no more runs."""

    at: datetime
    stops: bool
    """whether it stops when its last run has finished"""


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
    draining_at: Annotated[
        datetime | None, Shown("Since when it starts no more runs; null: it starts them.")
    ] = None
    stops_when_idle: Annotated[bool, Shown("Whether it stops when its last run has finished.")] = (
        False
    )
    secrets: Annotated[
        dict[str, list[str]], Shown("The names of the secrets that it offers, by namespace.")
    ] = field(default_factory=dict)
    unserved: Annotated[
        dict[str, dict[str, str]],
        Shown(
            "The sinks and alert channels that it cannot serve, by namespace, and why; @celery "
            "while the broker or result backend of its Celery app is out of reach."
        ),
    ] = field(default_factory=dict)

    @property
    def celery_outage(self) -> str | None:
        """Why it cannot send Celery tasks, or not see how they end; None: it can, or has no app."""
        reasons = (sinks.get(CELERY) for sinks in self.unserved.values())
        return next(filter(None, reasons), None)

    @property
    def works(self) -> bool:
        """Whether it starts runs."""
        return "worker" in self.roles and self.draining_at is None

    def seen_by(self, of: Serving) -> LiveNode:
        """As shown to someone who can see only some namespaces: which tasks and queues of a node
        belong to these is unknown if it serves others too."""
        offered = {name: names for name, names in self.secrets.items() if name in of}
        unserved = {name: sinks for name, sinks in self.unserved.items() if name in of}
        served = self.namespaces.seen_by(of)
        seen = replace(self, namespaces=served, secrets=offered, unserved=unserved)
        return seen if served == self.namespaces != ALL else replace(seen, tasks=(), queues=())

    def serves(self, namespace: str) -> bool:
        """Whether it starts runs of a namespace."""
        return self.works and namespace in self.namespaces


def why_unserved(nodes: Iterable[LiveNode], namespace: str, sink: str) -> str | None:
    """Why no live relay can serve a sink or channel; None if one can, or if none is live."""
    relays = [node for node in nodes if "relay" in node.roles]
    reasons = [node.unserved.get(namespace, {}).get(sink) for node in relays]
    return None if None in reasons else next(iter(reasons), None)
