"""Queues in a transaction: their limits, and what may start within them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from duebook.model.flow_target import FLOW_QUEUE, HUMAN_QUEUE
from duebook.model.queue import Queue, QueueLimiter, QueueLoad
from duebook.model.serving import ALL, Serving
from duebook.store.sql.rows import begun_text, read_limiter
from duebook.store.sql.statements import Part
from duebook.store.values import NO_DELAY, News

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duebook.model.run import Run

__all__ = ["Queues"]


class Queues(Part):
    """Limits of queues, and what waits and runs in each."""

    def limit_queue(self, queue: Queue) -> None:
        """Set the limits of a queue; active runs continue."""
        rate = queue.rate
        self._db.run(
            "limit_queue",
            name=queue.name,
            concurrency=queue.concurrency,
            rate_count=None if rate is None else rate.count,
            rate_seconds=None if rate is None else int(rate.per.total_seconds()),
        )
        self._db.notify(News.WORK)

    def free_queue(self, name: str) -> bool:
        """Remove the limits of a queue; returns whether it had any."""
        self._db.notify(News.WORK)
        return self._db.run("free_queue", name=name) == 1

    def get_queue(self, name: str) -> Queue | None:
        """The limits of a queue, locked; None when it has none."""
        row = self._db.one("get_limiter", queue=name)
        return None if row is None else read_limiter(row).queue

    def list_queues(self, of: Serving = ALL) -> list[QueueLoad]:
        """Every queue that has limits or work, by name.

        For some namespaces: those that have work of them, and how much.
        """
        queued: Counter[str] = Counter()
        running: Counter[str] = Counter()
        for name, namespace, waiting, under_way in self._db.all("list_loads"):
            if name not in (FLOW_QUEUE, HUMAN_QUEUE) and namespace in of:  # no worker does
                queued[name] += waiting
                running[name] += under_way
        queues = {name: Queue(name) for name in queued}
        limited = {limiter.queue.name: limiter.queue for limiter in self.limiters()}
        queues |= {n: queue for n, queue in limited.items() if of == ALL or n in queues}
        return [QueueLoad(queues[name], queued[name], running[name]) for name in sorted(queues)]

    def limiters(self) -> list[QueueLimiter]:
        """The limiters of all queues with limits."""
        return [read_limiter(row) for row in self._db.all("list_limiters")]

    def shut(self, limiter: QueueLimiter) -> tuple[bool, datetime | None]:
        """Whether nothing of the queue may start, and when its rate next allows a start.

        A limiter ahead of its clock needs a claim that records that. The database's time stands
        still while a clock that was set back catches up; rates use that clock.
        """
        now = self._clock_at(limiter)
        if limiter.is_ahead(now) or limiter.room(now, self._running(limiter)):
            return False, None
        opens_at = limiter.opens_at(now)
        return True, None if opens_at is None else opens_at + max(self._db.now - now, NO_DELAY)

    def through(
        self, limiter: QueueLimiter, limit: int, take: Callable[[int, datetime], list[Run]]
    ) -> list[Run]:
        """The clock is read, and runs are counted, after the limiter was locked."""
        before, now = limiter, self._clock_at(limiter)
        if limiter.is_ahead(now):
            limiter = limiter.set_back(now)
        room = limiter.room(now, self._running(limiter))
        runs = take(min(limit, room), max(self._db.now, limiter.instant(now))) if room else []
        limiter = limiter.passed(now, len(runs))
        if limiter is not before:
            self._db.run("note_begun", queue=limiter.queue.name, begun=begun_text(limiter))
        return runs

    def _clock_at(self, limiter: QueueLimiter) -> datetime:
        return self._db.now if limiter.queue.rate is None else self._db.clock_now()

    def _running(self, limiter: QueueLimiter) -> int:
        """Counted only if a limit needs it."""
        if limiter.queue.concurrency is None:
            return 0
        return int(self._db.value("count_running", queue=limiter.queue.name))
