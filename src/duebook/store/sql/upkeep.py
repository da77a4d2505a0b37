"""Looks after the books: forgets what is old, and tells what is in them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.model.node import LiveNode
from duebook.model.serving import ALL, serving_of
from duebook.settings import KEYS_KEPT
from duebook.store.sql.statements import Statements
from duebook.store.values import Inventory, News

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.serving import Serving
    from duebook.store.sql.statements import Row

__all__ = ["Upkeep"]

LOGINS_KEPT: Final = timedelta(days=1)
"""Beyond their end, for clocks of nodes may be wrong."""
MOST_UNENDED: Final = 1_000
LONGEST_LEASE: Final = timedelta(minutes=1)
"""Of leadership and of members of groups."""


class Upkeep(Statements):
    """Retention and status."""

    def purge(self, before: datetime, limit: int) -> int:
        left = limit
        # in this order: a session is forgotten only when no old run is left
        for query in (
            "delete_old_events",
            "delete_old_runs",
            "delete_old_ledger",
            "delete_old_changes",
            "delete_old_sessions",
            "delete_old_tokens",
            "delete_old_clock_steps",
        ):
            left -= self._run(query, before=before, limit=left)
        self._run("delete_lost_wakes")
        self._run("delete_old_flow_revisions", before=before)
        self._run("delete_ended_logins", before=self.now - LOGINS_KEPT)
        left -= self._run("delete_old_keys", before=self.now - KEYS_KEPT, limit=left)
        forgotten = self._all("list_old_schedules", before=before, limit=left)
        for (schedule_id,) in forgotten:
            self._run("delete_revisions", id=schedule_id)
            self._run("forget_schedule", id=schedule_id)
        return limit - left + len(forgotten)

    def wake_asleep(self, limit: int) -> list[str]:
        woken = [id_ for (id_,) in self._all("wake_asleep", now=self.now, limit=limit)]
        if woken:
            self._notify(News.WAKE, self.now)
        return woken

    def note_clock_step(
        self, before: datetime, earliest: datetime, noticed: datetime, lease: timedelta
    ) -> bool:
        ids = [id_ for (id_,) in self._all("list_unended", limit=MOST_UNENDED + 1)]
        noted = self._run(
            "insert_clock_step",
            before=before,
            earliest=earliest,
            noticed=noticed,
            active=None if len(ids) > MOST_UNENDED else json.dumps(ids),
        )
        if noted and before - self.now > lease:
            until = self.now + max(lease, LONGEST_LEASE)
            self._run("rebase_runs", now=self.now, before=before)
            self._notify(News.WORK)
            self._run("rebase_sessions", now=self.now)
            self._run("rebase_leases", until=until)
            self._run("rebase_members", until=until)
        return noted == 1

    def last_seen(self) -> datetime | None:
        found: datetime | None = self._time(self._value("get_last_seen"))
        return found

    def list_nodes(self, of: Serving = ALL) -> list[LiveNode]:
        nodes = [self._node(row) for row in self._all("list_nodes", now=self.now)]
        if of == ALL:
            return nodes
        running: Counter[str] = Counter()
        for session_id, namespace, number in self._all("list_running_by_node"):
            if namespace in of:
                running[session_id] += number
        own = (replace(node, namespaces=node.namespaces.seen_by(of)) for node in nodes)
        return [
            replace(node, running=running[node.id]) for node in own if node.namespaces.names != ()
        ]

    def _node(self, row: Row) -> LiveNode:
        id_, node, pid, roles, version, tzdata, *rest, ahead, running, leads = row
        tasks, queues, namespaces, labels, *times = rest
        started_at, seen_at, expires_at = map(self._time, times)
        return LiveNode(
            id_,
            node,
            pid,
            tuple(roles.split(",")),
            version,
            tzdata,
            tuple(json.loads(tasks)),
            tuple(json.loads(queues)),
            serving_of(json.loads(namespaces)),
            json.loads(labels),
            started_at,
            seen_at,
            expires_at,
            timedelta(seconds=ahead),
            running,
            bool(leads),
        )

    def inventory(self) -> Inventory:
        alive = self._all("list_alive", now=self.now)
        (runs, entries, log_lines), (ready_at, wake_at) = (
            self._all("count_rows")[0],
            self._all("get_waiting", now=self.now)[0],
        )
        return Inventory(
            now=self.now,
            schedules=dict(self._all("count_schedules")),
            active_runs=dict(self._all("count_active_runs")),
            runs=runs,
            entries=entries,
            log_lines=log_lines,
            nodes=tuple((node, roles, version) for node, roles, _, version in alive),
            waits_since=self._time(ready_at),
            wake_at=self._time(wake_at),
        )
