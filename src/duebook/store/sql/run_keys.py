"""Runs without a schedule in a transaction, and the keys by which they are enqueued only once.

Claims and settles do not touch keys: whether a key is free is read from its run when needed. So
keys cost workers nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from duebook.errors import Conflict, shorten
from duebook.model.unique_keys import Holder, Replaces, Takes, Until, is_pending, meet
from duebook.store.sql.rows import clean, read_run
from duebook.store.sql.statements import Ask, Part
from duebook.store.values import News

if TYPE_CHECKING:
    from datetime import datetime

    from duebook.model.enqueued import Enqueued
    from duebook.model.run import Run
    from duebook.model.unique_keys import KeyResult
    from duebook.store.sql.statements import Values

__all__ = ["EnqueuedRuns", "Made"]

TRIES = 3
"""Attempts to get a key that others take and release at the same time."""


class Made(NamedTuple):
    """The run that a call enqueued, or that has its key."""

    run_id: str
    result: KeyResult


class Wish(NamedTuple):
    """What to enqueue, under which id, and for whom."""

    run_id: str
    namespace: str
    wanted: Enqueued
    requested_by: str | None

    @property
    def place(self) -> Values:
        """Where its key is, or would be."""
        return {"namespace": self.namespace, "task": self.wanted.task, "key": self.wanted.key}

    def kept(self, now: datetime) -> Values:
        """What is stored with the key."""
        rule = self.wanted.rule
        return {
            **self.place,
            "run_id": self.run_id,
            "until": rule.until,
            "free_at": rule.free_at(now),
        }


class EnqueuedRuns(Part):
    """Lock order: the key, then the run that has it."""

    def enqueue(
        self, run_id: str, namespace: str, wanted: Enqueued, requested_by: str | None = None
    ) -> Made:
        """A run without a schedule; or the one that has its key, perhaps with the newer payload.

        Raises Conflict when that one was created by a transaction which this one cannot see.
        """
        wish, now = Wish(run_id, namespace, wanted, clean(requested_by)), self._db.now
        ready_at = now + wanted.rule.delay(wanted.delay)
        if wanted.key is None:
            self._db.one("enqueue_run", **self._row(wish, ready_at))
            return self._made(wish)
        for _ in range(TRIES):
            _, rows = self._db.together(
                Ask("insert_run_key", wish.kept(now)),
                Ask("enqueue_run", self._row(wish, ready_at)),
            )
            if rows:
                return self._made(wish)
            if (holder := self._holder(wish)) is not None:
                return self._meet(wish, holder)
        raise Conflict(
            f'key "{shorten(wanted.key)}" belongs to a run that this transaction cannot see; '
            "try again in a new transaction"
        )

    def _made(self, wish: Wish) -> Made:
        self._db.notify(News.WORK)
        return Made(wish.run_id, "created")

    def _holder(self, wish: Wish) -> Holder | None:
        """The run that has the key now, or had it last; None when it was deleted. It cannot change
        before this transaction ends, and cannot be claimed while it is pending: a caller who was
        told that it is pending can rely on it to start later."""
        row = self._db.one("find_run_key", **wish.place)
        if row is not None and (row[1] != "forever" or wish.wanted.rule.replaces):
            row = self._db.one("lock_run_key", **wish.place)
        if row is None:
            return None
        run_id, until, free_at = row
        run = self._run(run_id)
        if run is not None and is_pending(run) and self._depends_on_state(wish, until):
            self._db.one("lock_active_run", id=run_id)
            self._db.notify(News.WORK)  # others that looked for work meanwhile have skipped it
            run = self._run(run_id)
        return None if run is None else Holder(run, until, self._db.time(free_at))

    @staticmethod
    def _depends_on_state(wish: Wish, until: Until) -> bool:
        return until == "pending" or wish.wanted.rule.replaces

    def _run(self, run_id: str) -> Run | None:
        row = self._db.one("get_run", id=run_id)
        return None if row is None else read_run(row, self._db.time)

    def _meet(self, wish: Wish, holder: Holder) -> Made:
        wanted, now, run = wish.wanted, self._db.now, holder.run
        payload = json.loads(json.dumps(wanted.payload))
        met = meet(wanted.rule, wanted.delay, payload, holder, now)
        if isinstance(met, Takes):
            self._db.run("take_run_key", **wish.kept(now))
            self._db.one("enqueue_run", **self._row(wish, met.ready_at))
            return self._made(wish)
        if isinstance(met, Replaces):
            lasts = None if run.expires_at is None else run.expires_at - run.ready_at
            self._db.run(
                "replace_payload",
                id=run.id,
                payload=json.dumps(wanted.payload),
                ready_at=met.ready_at,
                expires_at=None if lasts is None else met.ready_at + lasts,
                requested_by=wish.requested_by,
            )
        return Made(run.id, met.result)

    def _row(self, wish: Wish, ready_at: datetime) -> Values:
        wanted = wish.wanted
        policies = wanted.policies
        expires = policies.expire_after
        return {
            "id": wish.run_id,
            "namespace": wish.namespace,
            "queue": policies.queue,
            "priority": policies.priority,
            "task": wanted.task,
            "max_takeovers": policies.max_takeovers,
            "payload": json.dumps(wanted.payload),
            "now": self._db.now,
            "ready_at": ready_at,
            "expires_at": None if expires is None else ready_at + expires,
            "key": wanted.key,
            "options": wanted.options,
            "requested_by": wish.requested_by,
        }
