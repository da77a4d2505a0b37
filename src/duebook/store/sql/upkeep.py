"""Maintenance: deletes old data, wakes sleeping schedules, and records steps of the clock."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from duebook.model.access import EVERYWHERE
from duebook.model.clock_step import ClockStep
from duebook.model.node_times import LEASE
from duebook.settings import KEYS_KEPT
from duebook.store.sql.statements import Part
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Upkeep"]

LOGINS_KEPT: Final = timedelta(days=1)
"""Time after their end, because clocks of nodes may be wrong."""
MOST_UNENDED: Final = 1_000
LONGEST_LEASE: Final = timedelta(minutes=1)
"""For leadership and members of groups."""


class Upkeep(Part):
    """Retention, and the repairs of a keeper."""

    def purge(self, before: datetime, limit: int, long_ago: datetime | None = None) -> int:
        """Delete up to `limit` events and ledger entries from before `before`; and from before
        `long_ago`, if that is earlier, changes, nodes, tokens and schedules without history.

        Responses to repeated requests are deleted after a day. Returns the number of deletions.
        """
        old, left = long_ago or before, limit
        left -= self._db.run("delete_old_events", before=before, limit=left)
        if forgotten := self._db.run("delete_old_ledger", before=before, limit=left):
            self._db.run("mark_ledger", everywhere=EVERYWHERE, until=before)
        left -= forgotten
        for query in (
            "delete_old_changes",
            "delete_old_sessions",
            "delete_old_tokens",
            "delete_old_clock_steps",
            "delete_old_alerts",
        ):
            left -= self._db.run(query, before=old, limit=left)
        self._db.run("delete_lost_wakes")
        self._db.run("delete_old_flow_revisions", before=old)
        self._db.run("delete_ended_logins", before=self._db.now - LOGINS_KEPT)
        left -= self._db.run("delete_old_keys", before=self._db.now - KEYS_KEPT, limit=left)
        gone = self._db.all("list_old_schedules", before=old, limit=left)
        for (schedule_id,) in gone:
            self._db.run("delete_revisions", id=schedule_id)
            self._db.run("forget_history", id=schedule_id)
            self._db.run("forget_schedule", id=schedule_id)
        return limit - left + len(gone)

    def wake_asleep(self, limit: int) -> list[str]:
        """Wake up to `limit` schedules that are active, or paused for a while, and that no node
        would ever look at again; returns their ids."""
        woken = [id_ for (id_,) in self._db.all("wake_asleep", now=self._db.now, limit=limit)]
        if woken:
            self._db.notify(News.WAKE, self._db.now)
        return woken

    def wake(self, schedule_ids: Sequence[str]) -> None:
        """Let the planner look at active schedules now, whatever their wake time."""
        self._db.all("take_states", ids=sorted(schedule_ids))  # in the common lock order
        self._db.run("wake_schedules", ids=sorted(schedule_ids), now=self._db.now)
        self._db.notify(News.WAKE, self._db.now)

    def note_clock_step(
        self, before: datetime, earliest: datetime, noticed: datetime, lease: timedelta
    ) -> bool:
        """The database's clock stepped back: when it showed `noticed`, it would have shown `before`
        without the step, and right after the step it showed at least `earliest`.

        After a step of more than a `lease`, or the shortest one, leases from before it end in time,
        and runs wait no longer than they would have. Returns False when another node has recorded
        it already: then the times from `earliest` to `noticed` of both overlap.
        """
        ids = [id_ for (id_,) in self._db.all("list_unended", limit=MOST_UNENDED + 1)]
        noted = self._db.run(
            "insert_clock_step",
            before=before,
            earliest=earliest,
            noticed=noticed,
            active=None if len(ids) > MOST_UNENDED else json.dumps(ids),
        )
        if noted and before - self._db.now > min(lease, LEASE):  # others may have a shorter one
            until = self._db.now + max(lease, LONGEST_LEASE)
            self._db.run("rebase_runs", now=self._db.now, before=before)
            self._db.notify(News.WORK)
            self._db.run("rebase_sessions", now=self._db.now)
            self._db.run("rebase_leases", until=until)
            self._db.run("rebase_members", until=until)
        return noted == 1

    def list_clock_steps(self) -> list[ClockStep]:
        """When the database's clock stepped back, the first time first."""
        time = self._db.time
        return [
            ClockStep(
                time(before),
                time(earliest),
                time(noticed),
                place,
                None if ids is None else frozenset(json.loads(ids)),
            )
            for before, earliest, noticed, place, ids in self._db.all("list_clock_steps")
        ]

    def last_seen(self) -> datetime | None:
        """The latest time that a node has read from the database's clock."""
        found: datetime | None = self._db.time(self._db.value("get_last_seen"))
        return found
