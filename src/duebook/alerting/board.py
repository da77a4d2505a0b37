"""Opens, repeats and resolves alerts, and decides on messages about them; pure.

A problem of a rule stays open until it is over, and is sent once, or again after `repeat`. Problems
that may not be sent yet wait, and are sent in one message. A message that problems are over follows
once all problems of the original message are.
"""

from __future__ import annotations

from dataclasses import field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from duebook.alerting.facts import Happening, Look, Standing, Subject, is_slow
from duebook.alerting.pace import may_send_at, remember
from duebook.alerting.words import MOST_NAMED, title_of
from duebook.lazy_dataclasses import dataclass
from duebook.model.alert import Alert, AlertRule, Condition
from duebook.timetext import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from duebook.model.window import MaintenanceWindow

__all__ = ["Board", "Decided", "Told", "decide"]

RECONSIDERED: Final = timedelta(minutes=1)
"""How often alerts are checked that wait for the end of a silence, which may end early."""
EARLIER: Final = 1 / 8
"""The part of `repeat` by which a recurring problem is sent earlier: one that fails every night
is sent every night, even if it ends earlier, or in a day of 23 hours."""
_ENDED_BY_SUCCESS: Final = ("failure", "failures", "missed", "no_success")
Key = tuple[str, str, str]
"""rule, kind and subject of an open alert"""


@dataclass(frozen=True, slots=True)
class Told:
    """A message to send."""

    rule: AlertRule
    status: Literal["problem", "resolved"]
    key: str
    """the same for a problem, its repetitions and its end"""
    alerts: tuple[Alert, ...]
    """the first few that it reports"""
    count: int
    """of all that it reports"""
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """The stored state: rules, the alerts that may change, and consecutive failures."""

    rules: Sequence[AlertRule]
    alerts: Sequence[Alert] = ()
    """the open and waiting ones of the subjects in question, and all others of their messages"""
    streaks: Mapping[str, int] = field(default_factory=dict)
    windows: Sequence[MaintenanceWindow] = ()
    late: Sequence[Alert] = ()
    """those that recently reported late due times"""


class Decided(NamedTuple):
    """The changes."""

    alerts: list[Alert]
    """new and changed ones"""
    told: list[Told]
    sent: dict[str, tuple[datetime, ...]]
    """by rule, if it has changed"""
    streaks: dict[str, int]
    """by subject, if it has changed; 0: no failures any more"""
    deleted: list[str]
    """ids of deleted schedules: their own rules are deleted too"""
    wake_at: datetime | None
    """when a waiting alert may be sent"""


def decide(
    board: Board,
    happenings: Iterable[Happening],
    look: Look | None,
    now: datetime,
    new_id: Callable[[], str],
) -> Decided:
    """How events, in order, and the current state change a board."""
    work = _Work(board, now, new_id)
    for happening in happenings:
        work.happen(happening)
    if look is not None:
        work.stand(look)
    return work.finish()


class _Work:
    """A board while it is being changed."""

    def __init__(self, board: Board, now: datetime, new_id: Callable[[], str]) -> None:
        self._rules = {rule.name: rule for rule in board.rules if rule.enabled}
        self._windows = [window for window in board.windows if window.state(now) == "open"]
        self._late = board.late
        self._now = now
        self._new_id = new_id
        self._before = {alert.id: alert for alert in board.alerts}
        self._alerts = dict(self._before)
        self._open: dict[Key, str] = {
            (alert.rule, alert.kind, alert.subject): alert.id
            for alert in board.alerts
            if alert.resolved_at is None
        }
        self._streaks_before = dict(board.streaks)
        self._streaks = dict(board.streaks)
        self._sent = {rule.name: rule.sent for rule in board.rules}
        self._repeats: dict[str, None] = {}
        """messages that may be repeated, in order"""
        self._over: dict[str, None] = {}
        """messages with problems that are over, in order"""
        self._told: list[Told] = []
        self._deleted: list[str] = []

    # -- events

    def happen(self, fact: Happening) -> None:
        key = fact.subject.key
        if fact.kind == "deleted":
            self._deleted.append(fact.text)
            self._resolve(alert for alert in self._open_alerts() if alert.schedule == key)
            self._streaks[key] = 0
            return
        if fact.kind == "failed":
            self._streaks[key] = self._streaks.get(key, 0) + 1
        if fact.kind == "succeeded":
            self._streaks[key] = 0
            over = (a for a in self._open_alerts() if a.kind in _ENDED_BY_SUCCESS)
            self._resolve(alert for alert in over if alert.subject == key)
        for rule in self._rules_for(fact.subject):
            for condition in rule.conditions:
                if self._happened(rule, condition, fact):
                    self._find(rule, condition, fact.subject, key, fact)

    def _happened(self, rule: AlertRule, condition: Condition, fact: Happening) -> bool:
        match condition.kind:
            case "failure":
                return fact.kind == "failed"
            case "failures":
                streak = self._streaks.get(fact.subject.key, 0)
                return fact.kind == "failed" and streak >= condition.number
            case "missed":
                return fact.kind == "missed"
            case "late":
                return fact.late > condition.limit and not self._was_late(rule, condition, fact)
            case _:
                return False

    def _was_late(self, rule: AlertRule, condition: Condition, fact: Happening) -> bool:
        """Whether the problem was open while this due time was too late: then it was reported."""
        if fact.due_at is None:
            return False
        began, started = fact.due_at + condition.limit, fact.due_at + fact.late
        return any(
            (alert.rule, alert.subject) == (rule.name, fact.subject.key)
            and alert.opened_at <= started
            and (alert.resolved_at is None or alert.resolved_at > began)
            for alert in self._late
        )

    # -- current state

    def stand(self, look: Look) -> None:
        """Open problems that exceed a limit now; resolve those that no longer do."""
        found: set[Key] = set()
        for standing in look.standings:
            key = self._key(standing)
            for rule in self._rules_about(standing):
                for condition in rule.conditions:
                    if self._stands(condition, standing):
                        found.add((rule.name, condition.kind, key))
                        self._find(rule, condition, standing.subject, key, standing)
        self._resolve(
            alert
            for alert in self._open_alerts()
            if alert.kind in look.kinds and (alert.rule, alert.kind, alert.subject) not in found
        )

    def _stands(self, condition: Condition, standing: Standing) -> bool:
        if condition.kind == "slow":
            return standing.kind == "running" and is_slow(standing, self._now)
        if condition.kind != standing.kind:
            return False
        return standing.rule is not None or self._now - standing.since > condition.limit

    @staticmethod
    def _key(standing: Standing) -> str:
        """Two runs of a schedule are separate problems."""
        if standing.kind == "running" and standing.run_id is not None:
            return f"{standing.subject.key} run:{standing.run_id}"
        return standing.subject.key

    # -- alerts

    def _rules_for(self, subject: Subject) -> list[AlertRule]:
        return [
            rule for rule in self._rules.values() if rule.covers(subject.schedule, subject.labels)
        ]

    def _rules_about(self, standing: Standing) -> list[AlertRule]:
        everything = standing.kind == "unattended"  # it concerns every schedule
        rules = self._rules.values() if everything else self._rules_for(standing.subject)
        return [rule for rule in rules if standing.rule in (None, rule.name)]

    def _open_alerts(self) -> list[Alert]:
        return [self._alerts[id_] for id_ in self._open.values()]

    def _is_silenced(self, rule: AlertRule, subject: Subject) -> bool:
        until = rule.silenced_until
        if until is not None and self._now < until:
            return True
        return any(window.selects(subject.labels) for window in self._windows)

    def _find(
        self,
        rule: AlertRule,
        condition: Condition,
        subject: Subject,
        key: str,
        fact: Happening | Standing,
    ) -> None:
        """Record a problem: open a new alert, or update the open one."""
        silenced = self._is_silenced(rule, subject)
        streak = self._streaks.get(subject.key, 0)
        title = title_of(condition, subject.key, streak)
        known = self._open.get((rule.name, condition.kind, key))
        if known is None:
            id_ = self._new_id()
            self._open[rule.name, condition.kind, key] = id_
            self._alerts[id_] = Alert(
                id_,
                rule.namespace,
                rule.name,
                condition.kind,
                key,
                title,
                fact.text,
                subject.schedule,
                fact.run_id,
                fact.due_at,
                self._now,
                self._now,
                fact.times if isinstance(fact, Happening) else 1,
                "silenced" if silenced else "waiting",
            )
            return
        alert = self._alerts[known]
        if isinstance(fact, Happening):
            alert = replace(
                alert,
                seen_at=self._now,
                count=alert.count + fact.times,
                title=title,
                text=fact.text,
                run_id=fact.run_id or alert.run_id,
                due_at=fact.due_at or alert.due_at,
            )
        if alert.state == "silenced" and not silenced:
            alert = replace(alert, state="waiting")
        self._alerts[known] = alert
        if alert.state == "sent" and not silenced and self._is_stale(rule, alert, fact):
            self._repeats[alert.message or alert.id] = None

    def _is_stale(self, rule: AlertRule, alert: Alert, fact: Happening | Standing) -> bool:
        if rule.repeat is None or alert.told_at is None:
            return False
        early = EARLIER if isinstance(fact, Happening) else 0
        return self._now - alert.told_at >= parse_duration(rule.repeat) * (1 - early)

    def _resolve(self, alerts: Iterable[Alert]) -> None:
        for alert in list(alerts):
            self._alerts[alert.id] = replace(alert, resolved_at=self._now)
            del self._open[alert.rule, alert.kind, alert.subject]
            if alert.message is not None:
                self._over[alert.message] = None

    # -- messages

    def finish(self) -> Decided:
        for message in self._repeats:
            self._let_wait(message)
        wakes = [at for rule in self._rules.values() if (at := self._tell(rule)) is not None]
        for message in self._over:
            self._tell_over(message)
        changed = [a for id_, a in self._alerts.items() if self._before.get(id_) != a]
        sent = {
            rule.name: self._sent[rule.name]
            for rule in self._rules.values()
            if self._sent[rule.name] != rule.sent
        }
        before = self._streaks_before
        streaks = {k: n for k, n in self._streaks.items() if before.get(k, 0) != n}
        return Decided(changed, self._told, sent, streaks, self._deleted, min(wakes, default=None))

    def _let_wait(self, message: str) -> None:
        """Let repetitions wait, as new alerts do."""
        waits = [replace(a, told_at=None) for a in self._of_message(message) if _is_open(a)]
        self._alerts |= {alert.id: alert for alert in waits}

    def _tell(self, rule: AlertRule) -> datetime | None:
        """Send what waits, if that is allowed now; otherwise return when it will be."""
        waiting = [alert for alert in self._alerts.values() if alert.rule == rule.name]
        new = [alert for alert in waiting if alert.state == "waiting"]
        again = dict.fromkeys(alert.message for alert in waiting if _waits_again(alert))
        if not new and not again:
            return None
        if rule.silenced_until is not None and self._now < rule.silenced_until:
            return min(rule.silenced_until, self._now + RECONSIDERED)
        if new:
            if not self._may_send(rule):
                return may_send_at(rule, self._sent[rule.name])
            self._tell_new(rule, new)
        for message in again:
            if not self._may_send(rule):
                return may_send_at(rule, self._sent[rule.name])
            self._tell_again(rule, message or "")
        return None

    def _tell_new(self, rule: AlertRule, alerts: Sequence[Alert]) -> None:
        key = alerts[0].id
        told = [replace(a, state="sent", message=key, told_at=self._now) for a in alerts]
        self._alerts |= {alert.id: alert for alert in told}
        self._send(Told(rule, "problem", key, tuple(told[:MOST_NAMED]), len(told)))
        if not any(_is_open(alert) for alert in told):
            self._over[key] = None

    def _may_send(self, rule: AlertRule) -> bool:
        at = may_send_at(rule, self._sent[rule.name])
        return at is None or at <= self._now

    def _send(self, told: Told) -> None:
        self._told.append(told)
        self._sent[told.rule.name] = remember(self._sent[told.rule.name], self._now)

    def _of_message(self, message: str) -> list[Alert]:
        return [alert for alert in self._alerts.values() if alert.message == message]

    def _tell_over(self, message: str) -> None:
        """Sent as often as the problems were, so `group` and `limit` do not apply."""
        alerts = self._of_message(message)
        rule = self._rules.get(alerts[0].rule)
        if rule is None or not rule.recovers:
            return
        if not any(_is_open(alert) for alert in alerts):
            some = tuple(alerts[:MOST_NAMED])
            self._told.append(Told(rule, "resolved", message, some, len(alerts)))

    def _tell_again(self, rule: AlertRule, message: str) -> None:
        alerts = [alert for alert in self._of_message(message) if _is_open(alert)]
        told = [replace(alert, told_at=self._now) for alert in alerts]
        self._alerts |= {alert.id: alert for alert in told}
        self._send(Told(rule, "problem", message, tuple(told[:MOST_NAMED]), len(told), True))


def _is_open(alert: Alert) -> bool:
    return alert.resolved_at is None


def _waits_again(alert: Alert) -> bool:
    """Whether it was sent, and is to be sent again."""
    return alert.state == "sent" and alert.told_at is None and _is_open(alert)
