"""Looks at the current state for time-based alert rules, only while such rules exist."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from duebook.alerting import Look, Standing, Subject, p95

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.alert import AlertRule
    from duebook.model.alert_facts import LastSeen, LongRun
    from duebook.store.base import Tx

__all__ = ["Looks"]

EVERY: Final = 10.0
"""Minimum seconds between two looks."""
EARLY: Final = 2.0
"""Seconds by which a look may be early, so that several namespaces are looked at together."""
SUCCESSES_EVERY: Final = 60.0
"""Minimum seconds between two looks for missing successes, which cost more."""
MOST: Final = 1_000
"""Maximum number of problems of a kind that one look finds."""
MEASURED: Final = 100
"""Number of runs from which the usual duration is computed."""
MEASURED_FOR: Final = 600.0
"""Seconds for which a usual duration is kept."""
LONGEST: Final = timedelta(days=1)
"""Maximum seconds between two looks."""
SECOND: Final = timedelta(seconds=1)
REMEMBERED: Final = timedelta(days=30)
"""Nodes that were last seen longer ago than this are ignored."""
_NEVER: Final = (datetime(1970, 1, 1, tzinfo=UTC),) * 2
"""The last and the next look for missing successes, before there was one."""
_RUNNING: Final = frozenset({"running", "slow"})


class Looks:
    """When to look, and what each look finds.

    The time at which something becomes a problem is known in advance: whatever starts after a look
    becomes a problem no sooner than its limit later. So no look is needed until then.
    """

    def __init__(self, namespace: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._namespace = namespace
        self._monotonic = monotonic
        self._usual: dict[str, tuple[float, timedelta | None]] = {}
        self.forget()

    def forget(self) -> None:
        """Look at once next time, because another node made the looks or the rules have changed."""
        self._next = self._looked = float("-inf")
        self._successes = self._seen = _NEVER

    @property
    def due(self) -> bool:
        return self._monotonic() >= self._next - EARLY

    @property
    def rest(self) -> float:
        return self._next - self._monotonic()

    def hasten(self) -> float:
        """Something else has become active; returns in how many seconds to look."""
        self._next = min(self._next, self._looked + EVERY)
        last, coming = self._successes
        self._successes = last, min(coming, last + SUCCESSES_EVERY * SECOND)
        return max(self.rest, 0.0)

    def looked(self, look: Look, now: datetime) -> None:
        """A look made at `now` was committed."""
        self._successes = self._seen
        self._looked = self._monotonic()
        self._next = self._looked + (look.again_at - now).total_seconds()

    def look(self, tx: Tx, rules: Sequence[AlertRule]) -> Look:
        """The state of everything that these rules watch, and when to look again."""
        limits: dict[str, list[timedelta]] = {}
        for rule in rules:
            if rule.enabled:
                for condition in rule.conditions:
                    limits.setdefault(condition.kind, []).append(condition.limit)
        kinds = {"late", "running", "slow", "unattended"}
        found: list[Standing] = []
        moments: list[datetime] = []
        if "late" in limits:
            found += self._late(tx)
            moments += _moments(found, limits["late"], tx.now)
        if _RUNNING & limits.keys():
            running = self._running(tx, "slow" in limits)
            moments += _moments(running, limits.get("running", []), tx.now)
            moments += [tx.now] if running and "slow" in limits else []
            found += running
        if "unattended" in limits:
            missing = self._unattended(tx, rules)
            moments += [at for _, at in missing]
            found += [standing for standing, at in missing if at < tx.now]
        again = max(min([tx.now + LONGEST, *moments]), tx.now + EVERY * SECOND)
        self._seen = self._successes
        if tx.now >= self._successes[1]:
            kinds.add("no_success")
            found += self._look_for_successes(tx, rules)
        return Look(found, frozenset(kinds), min(again, self._seen[1]))

    def _look_for_successes(self, tx: Tx, rules: Sequence[AlertRule]) -> list[Standing]:
        found, moments = self._unsuccessful(tx, rules)
        moments += [tx.now] if found else []
        soon = tx.now + SUCCESSES_EVERY * SECOND
        self._seen = tx.now, max(min([tx.now + LONGEST, *moments]), soon)
        return found

    def _late(self, tx: Tx) -> list[Standing]:
        """What is due and has not started, the oldest first."""
        return [
            Standing(
                "late",
                Subject(late.schedule, late.schedule, late.labels),
                late.due_at,
                late.run_id,
                late.due_at,
            )
            for late in tx.alerts.late(self._namespace, tx.now, MOST)
        ]

    def _running(self, tx: Tx, measure: bool) -> list[Standing]:
        return [
            Standing(
                "running",
                _subject_of(run),
                run.started_at,
                run.run_id,
                run.due_at,
                usual=self._usual_of(tx, run.schedule_id) if measure else None,
            )
            for run in tx.alerts.running(self._namespace, tx.now, MOST)
        ]

    def _usual_of(self, tx: Tx, schedule_id: str | None) -> timedelta | None:
        if schedule_id is None:
            return None
        at, usual = self._usual.get(schedule_id, (float("-inf"), None))
        if self._monotonic() - at < MEASURED_FOR:
            return usual
        if len(self._usual) >= MOST:
            self._usual.clear()
        usual = p95(tx.alerts.lengths(schedule_id, MEASURED))
        self._usual[schedule_id] = (self._monotonic(), usual)
        return usual

    def _unsuccessful(
        self, tx: Tx, rules: Sequence[AlertRule]
    ) -> tuple[list[Standing], list[datetime]]:
        """Schedules without a success for too long; also sets when the next one could be."""
        found, moments = [], []
        for rule in rules:
            created = rule.created_at or tx.now
            for condition in rule.conditions if rule.enabled else ():
                if condition.kind != "no_success":
                    continue
                since, limit = tx.now - condition.limit, condition.limit
                if created > since:
                    moments.append(created + limit)
                    continue
                for name, labels in tx.alerts.unsuccessful(rule, since, MOST):
                    subject = Subject(name, name, labels)
                    found.append(Standing("no_success", subject, since, rule=rule.name))
                coming = tx.alerts.next_unsuccessful(rule, since)
                moments.append((coming or tx.now) + limit)
        return found, moments

    def _unattended(self, tx: Tx, rules: Sequence[AlertRule]) -> list[tuple[Standing, datetime]]:
        """Whether any node plans, and any executes runs of the namespace; if not, since when, and
        when that becomes too long. When a node goes away, the rules are checked anyway."""
        nodes = tx.nodes.list_nodes()
        missing = []
        if not any("scheduler" in node.roles for node in nodes):
            missing.append("plan")
        if not any(node.serves(self._namespace) for node in nodes):
            missing.append("work")
        if not missing:
            return []
        seen = tx.alerts.last_seen(tx.now - REMEMBERED)
        found = []
        for what in missing:
            times = [last.seen_at for last in seen if self._attends(what, last)]
            for rule in rules:
                since = max([rule.created_at or tx.now, *times])
                late = [c for c in rule.conditions if c.kind == "unattended"]
                if late and rule.enabled:
                    told = Standing("unattended", Subject(what), since, text=_REMEDY[what])
                    found.append((told._replace(rule=rule.name), since + late[0].limit))
        return found

    def _attends(self, what: str, node: LastSeen) -> bool:
        if what == "plan":
            return "scheduler" in node.roles
        return "worker" in node.roles and self._namespace in node.namespaces


_REMEDY: Final = {
    "plan": "no live node is a scheduler, so no due times are planned; start one: duebook up",
    "work": "no live node serves this namespace, so its runs wait; start one: duebook up",
}


def _moments(
    standings: Sequence[Standing], limits: Sequence[timedelta], now: datetime
) -> list[datetime]:
    """When one of these, or one that starts from now on, will have lasted too long."""
    if len(standings) >= MOST:
        return [now]
    return [since + limit for limit in limits for since in (now, *(s.since for s in standings))]


def _subject_of(run: LongRun) -> Subject:
    if run.schedule is not None:
        return Subject(run.schedule, run.schedule, run.labels)
    return Subject(f"flow:{run.flow}" if run.flow else f"task:{run.task}")
