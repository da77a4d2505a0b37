"""Random histories of a schedule in a real database, for tests of what it shows afterwards."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from duebook.errors import Conflict, Invalid, NotFound
from duebook.explain import Explanation
from duebook.store.values import SessionInfo
from tests.support.builders import MINUTE, VirtualClock, claim, lose, settle, tick

if TYPE_CHECKING:
    from duebook.book import Book

HOUR = 60 * MINUTE
LEASE = timedelta(days=3)
TRIGGERS: list[Any] = [
    {"cron": "*/10 * * * *"},
    {"cron": "0 * * * *", "tz": "Europe/Brussels"},
    {"every": "7m"},
    {"daily": ["13:00", "15:30"]},
    [{"every": "20m"}, {"cron": "5 * * * *"}],
]


class History:
    """A schedule, nodes that start and stop, and users who change their minds."""

    def __init__(
        self,
        book: Book,
        clock: VirtualClock,
        seed: int,
        approvals: tuple[int | None, ...] = (None, 0, 3),
    ) -> None:
        self.book, self.clock, self.rnd = book, clock, random.Random(seed)
        self.approvals = approvals
        self.node: str | None = None
        self.nodes = 0
        self.claims: list[Any] = []
        target = {"command": ["true"]}
        book.schedules.create("up", trigger={"every": "30m"}, target=target)
        self.id = book.schedules.create("job", target=target, **self.definition()).id

    def definition(self) -> dict[str, Any]:
        pick, maybe = self.rnd.choice, self.rnd.random
        return {
            "trigger": pick(TRIGGERS),
            "catchup": pick(["one", "skip", "all"]),
            "overlap": pick(["skip", "queue", "latest", "cancel", "allow"]),
            "on_resume": pick(["skip", "catchup"]),
            "grace": pick(["1m", "20m"]),
            "skip_if_successful": maybe() < 0.2,
            "exclude": ["2026-01-06"] if maybe() < 0.3 else None,
            "jitter": "5m" if maybe() < 0.3 else None,
            "max_runs": pick([1, 3, 8]) if maybe() < 0.3 else None,
            "catchup_limit": pick([3, None]),
            "catchup_pace": pick(["0s", None]),
            "catchup_approval": pick(self.approvals),
            "depends_on": [{"schedule": "up", "within": "1h", "wait": "10m"}]
            if maybe() < 0.3
            else None,
        }

    def step(self) -> None:
        self.clock.advance(timedelta(seconds=self.rnd.choice([30, 60, 240, 600, 1500, 4000])))
        self.come_and_go()
        if self.node is not None:
            self.work(self.node)
        with suppress(Conflict, Invalid, NotFound):
            self.change()

    def come_and_go(self) -> None:
        chance = self.rnd.random()
        if self.node is None and chance < 0.6:
            self.nodes += 1
            node = self.node = f"node-{self.nodes}"
            info = SessionInfo(node, "host", 1, "scheduler,worker", "0", "2026a")
            self.book.store.transact(lambda tx: tx.nodes.begin_session(info, LEASE))
        elif self.node is not None and chance < 0.08:
            lose(self.book.store, self.node)
            self.node, self.claims = None, []

    def work(self, node: str) -> None:
        store = self.book.store
        store.transact(lambda tx: tx.nodes.renew(node, LEASE))
        tick(store, session_id=node)
        if self.rnd.random() < 0.5:
            self.claims += claim(store, node)
        for work in list(self.claims):
            if self.rnd.random() < 0.4:
                settle(store, work.token, self.rnd.choice(["succeeded", "failed"]))
                self.claims.remove(work)

    def change(self) -> None:
        schedules, now, chance = self.book.schedules, self.clock.now, self.rnd.random()
        if chance < 0.05:
            schedules.pause("job", until=now + HOUR if self.rnd.random() < 0.5 else None)
        elif chance < 0.12:
            schedules.resume("job")
        elif chance < 0.17:
            schedules.skip_next("job")
        elif chance < 0.22:
            schedules.reschedule("job", now + self.rnd.randrange(-30, 200) * MINUTE)
        elif chance < 0.25:
            schedules.update("job", **self.definition())
        elif chance < 0.30:
            schedules.backfill("job", now - 2 * HOUR, now - HOUR)
        elif chance < 0.305:
            schedules.delete("job")
        elif chance < 0.4:
            self.decide()

    def decide(self) -> None:
        """Decide some of the due times that wait for an operator."""
        catchup, chance = self.book.catchup, self.rnd.random()
        held = catchup.list("job")
        if not held:
            return
        one = self.rnd.choice(held)
        span = one.due_to - one.due_from
        start = one.due_from + span * self.rnd.random()
        end = start + (one.due_to - start) * self.rnd.random()
        if chance < 0.3:
            catchup.approve("job", start, end)
        elif chance < 0.5:
            catchup.reject("job", start, end)
        elif chance < 0.8:
            newest = self.rnd.choice([1, 2, 5])
            catchup.approve("job", newest=newest, reject_rest=self.rnd.random() < 0.3)
        elif chance < 0.9:
            catchup.approve("job")
        else:
            catchup.reject("job")

    def explain(self, at: datetime) -> Explanation:
        answer = self.book.schedules.explain(self.id, at=at)
        assert isinstance(answer, Explanation)
        return answer
