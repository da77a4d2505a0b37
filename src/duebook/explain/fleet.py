"""Present and past nodes, as far as explanations need them: which planned, which could work."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from duebook.explain.skips import Outage
from duebook.model.flow_target import FLOW_QUEUE, HUMAN_QUEUE
from duebook.model.flow_view import lacking
from duebook.model.serving import unserved
from duebook.settings import RETENTION

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duebook.model.node import LiveNode
    from duebook.model.run import Run
    from duebook.store.base import Tx
    from duebook.store.values import SessionSpan

__all__ = ["Fleet"]


class Fleet:
    """The nodes of the database, each fact read once."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._now = tx.now
        self._sessions: dict[datetime, list[SessionSpan]] = {}

    def outage(self, due_at: datetime, grace: timedelta, decided_at: datetime) -> Outage | None:
        """The time without a scheduler that the due time fell into, or that started after it."""
        spans = self._spans(decided_at)
        ends = [end for start, end in spans if start <= due_at + grace]
        since = max(ends, default=None)
        if since is not None and since > due_at + grace:
            return None
        until = min((start for start, _ in spans if start > due_at + grace), default=decided_at)
        return Outage(since, until)

    def _spans(self, until: datetime) -> list[tuple[datetime, datetime]]:
        """When each scheduler was live."""
        if until not in self._sessions:
            self._sessions[until] = self._tx.nodes.list_sessions(until - RETENTION, until)
        return [
            (session.started_at, self._now if session.alive(self._now) else session.seen_at)
            for session in self._sessions[until]
            if session.plans
        ]

    def scheduler_runs(self) -> bool:
        sessions = self._tx.nodes.list_sessions(self._now, self._now)
        return any(session.plans and session.alive(self._now) for session in sessions)

    def lacks(self, run: Run) -> str | None:
        """What a queued run needs and no live worker has; also None if there is no live worker."""
        if run.status != "queued" or run.queue in (FLOW_QUEUE, HUMAN_QUEUE) or not self._workers:
            return None
        return lacking(run.namespace, run.task, {}, self._workers)

    def unserved(self, namespace: str) -> str | None:
        """A message if no live worker serves a namespace."""
        return unserved(namespace, [node.namespaces for node in self._workers])

    @cached_property
    def _workers(self) -> list[LiveNode]:
        return [node for node in self._tx.nodes.list_nodes() if node.works]
