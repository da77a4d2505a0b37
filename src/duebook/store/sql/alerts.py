"""Alerts in a transaction: rules, the problems that they found, and the current state."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import NotFound, shorten
from duebook.model.alert import ALERTS, Alert, AlertDelivery, AlertRule
from duebook.model.alert_facts import AlertReader, LastSeen, LateRun, LongRun
from duebook.model.listing import Found, PagePosition
from duebook.model.serving import serving_of
from duebook.store.sql.rows import LATEST, clean, micros, moment, without_nul
from duebook.store.sql.statements import Part, Row
from duebook.store.values import News
from duebook.timetext import format_instant, parse_instant

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

__all__ = ["Alerts"]

_SPEC: Final = ("on", "to", "schedule", "labels", "group", "repeat", "limit", "enabled")
LONGEST_LATE: Final = timedelta(days=30)
"""Problems that started earlier are ignored."""
_TIMES: Final = (9, 10, 11, 15, 16)
"""The fields of an alert that are times."""


class Alerts(Part):
    """The evaluator of a namespace must hold the cursor of its consumer."""

    # -- rules

    def save_rule(self, rule: AlertRule) -> None:
        """Create a rule, or change it; `to` are the names of consumers."""
        spec = {key: getattr(rule, key) for key in _SPEC}
        self._db.run(
            "save_alert_rule",
            namespace=rule.namespace,
            name=rule.name,
            spec=json.dumps(spec),
            schedule=rule.schedule,
            schedule_id=rule.schedule_id,
            now=self._db.now,
            by=clean(rule.created_by),
        )
        kept = [each.kind for each in rule.conditions] if rule.enabled else []
        self.close(rule.namespace, rule.name, kept)
        self.note_look(rule.namespace, None)
        self._db.notify(News.LOG)

    def close(self, namespace: str, rule: str, kept: Sequence[str] = ()) -> None:
        """Resolve the problems that a rule found, except some kinds, without sending messages."""
        about = {"namespace": namespace, "rule": rule, "kept": list(kept), "now": self._db.now}
        self._db.run("close_alerts_of_rule", **about)

    def list_rules(self, namespace: str) -> list[AlertRule]:
        """By name."""
        return [
            self._rule(namespace, row)
            for row in self._db.all("list_alert_rules", namespace=namespace)
        ]

    def rules_about(self, namespace: str, schedules: Collection[str]) -> list[AlertRule]:
        """Those that may cover these schedules, by name."""
        asked = {"namespace": namespace, "schedules": sorted(schedules)}
        return [self._rule(namespace, row) for row in self._db.all("list_rules_about", **asked)]

    def get_rule(self, namespace: str, name: str) -> AlertRule:
        """Raises NotFound."""
        row = self._db.one("get_alert_rule", namespace=namespace, name=without_nul(name))
        if row is None:
            raise NotFound(f'alert rule "{shorten(name)}" does not exist')
        return self._rule(namespace, row)

    def _rule(self, namespace: str, row: Row) -> AlertRule:
        name, text, schedule_id, silenced_until, sent, created_at, by = row
        spec = json.loads(text)
        spec |= {key: tuple(spec[key]) for key in ("on", "to")}
        return AlertRule(
            namespace,
            name,
            **spec,
            schedule_id=schedule_id,
            silenced_until=self._db.time(silenced_until),
            created_at=self._db.time(created_at),
            created_by=by,
            sent=tuple(parse_instant(at) for at in json.loads(sent)),
        )

    def remove_rule(self, namespace: str, name: str) -> bool:
        """Whether it existed; the problems it had found are closed."""
        removed = self._db.run("delete_alert_rule", namespace=namespace, name=name) == 1
        self.close(namespace, name)
        return removed

    def rules_of(self, namespace: str, schedule_ids: Sequence[str]) -> list[str]:
        """The rules that belong to these schedules."""
        rows = self._db.all("list_rules_of_schedules", namespace=namespace, ids=list(schedule_ids))
        return [name for (name,) in rows]

    def silence(self, namespace: str, name: str, until: datetime | None) -> None:
        self._db.run("silence_alert_rule", namespace=namespace, name=name, until=until)

    def note_sent(self, namespace: str, name: str, sent: Sequence[datetime]) -> None:
        """Record when a rule recently sent messages about problems."""
        times = json.dumps([format_instant(at) for at in sent])
        self._db.run("note_alerts_sent", namespace=namespace, name=name, sent=times)

    # -- problems

    def board(
        self, namespace: str, subjects: Collection[str], kinds: Collection[str]
    ) -> list[Alert]:
        """What may change by events about these subjects, or by a look at these kinds."""
        rows = self._db.all(
            "list_board_alerts",
            namespace=namespace,
            subjects=sorted(subjects),
            kinds=sorted(kinds),
        )
        return [self._alert(row) for row in rows]

    def told_late(self, namespace: str, subjects: Collection[str], since: datetime) -> list[Alert]:
        """Problems with late due times that were open at some time since then."""
        asked: dict[str, Any] = {"namespace": namespace, "subjects": sorted(subjects)}
        asked |= {"since": since, "opened": since - LONGEST_LATE}
        return [self._alert(row) for row in self._db.all("list_told_late", **asked)]

    def save(self, alerts: Sequence[Alert]) -> None:
        """Write alerts that are new or changed."""
        self._db.many("save_alert", [_alert_values(alert) for alert in alerts])

    def list_alerts(
        self,
        namespace: str,
        limit: int,
        after: PagePosition | None = None,
        rule: str | None = None,
        only_open: bool = False,
    ) -> Found[Alert]:
        """The newest first."""
        at, id_ = after or (micros(LATEST), "~")
        rows = self._db.all(
            "list_alerts",
            namespace=namespace,
            before_at=moment(int(at)),
            before_id=id_,
            rule=None if rule is None else without_nul(rule),
            every=not only_open,
            limit=limit,
        )
        found = [self._alert(row) for row in rows]
        if len(found) < limit:
            return Found(found, None)
        return Found(found, (micros(found[-1].opened_at), found[-1].id))

    def deliveries(
        self, namespace: str, event_ids: Collection[str]
    ) -> dict[str, list[AlertDelivery]]:
        """The state of messages with their channels, by the ids of their events.

        A message that left the log was delivered to all channels except those that refused it.
        """
        asked = {"namespace": namespace, "ids": sorted(event_ids)}
        found: dict[str, list[AlertDelivery]] = {}
        for event_id, *row in self._db.all("list_deliveries", **asked):
            found.setdefault(event_id, []).append(_delivery(*row))
        kept = {event_id for (event_id,) in self._db.all("list_events_kept", **asked)}
        return {id_: found.get(id_, []) for id_ in event_ids if id_ in kept or id_ in found}

    def count_open(self, namespace: str) -> int:
        return int(self._db.value("count_open_alerts", namespace=namespace) or 0)

    def _alert(self, row: Row) -> Alert:
        values = list(row)
        for place in _TIMES:
            values[place] = self._db.time(values[place])
        return Alert(*values)

    def streaks(self, namespace: str, subjects: Collection[str]) -> dict[str, int]:
        """Consecutive failures of subjects; without those that have none."""
        return dict(self._db.all("list_streaks", namespace=namespace, subjects=sorted(subjects)))

    def save_streaks(self, namespace: str, streaks: Mapping[str, int]) -> None:
        if over := sorted(subject for subject, failures in streaks.items() if not failures):
            self._db.run("delete_streaks", namespace=namespace, subjects=over)
        self._db.many(
            "save_streak",
            [
                {"namespace": namespace, "subject": subject, "failures": failures}
                for subject, failures in sorted(streaks.items())
                if failures
            ],
        )

    # -- readers of the log for alerts

    def readers(self) -> list[AlertReader]:
        """How far evaluators and channels of alerts have read, by namespace and name."""
        rows = self._db.all("list_alert_readers", now=self._db.now)
        return [
            AlertReader(
                namespace,
                name,
                position,
                bool(owned),
                self._db.time(retry_at),
                bool(waiting),
                self._db.time(look_at),
            )
            for namespace, name, position, owned, retry_at, waiting, look_at in rows
        ]

    def note_look(self, namespace: str, at: datetime | None) -> None:
        """When its time-based rules are looked at next; None: now."""
        self._db.run("note_look", namespace=namespace, name=ALERTS, at=at)

    def last_events(
        self, after: int, until: int, topics: Sequence[str]
    ) -> dict[tuple[str, str], int]:
        """The last position of each namespace and topic, in a stretch of the log."""
        asked = {"after": after, "until": until, "topics": list(topics)}
        rows = self._db.all("list_alert_topics", **asked)
        return {(namespace, topic): position for namespace, topic, position in rows}

    # -- the current state

    def labels_of(self, namespace: str, names: Collection[str]) -> dict[str, dict[str, str]]:
        """The labels of schedules that exist, by name."""
        rows = self._db.all("list_labels_named", namespace=namespace, names=sorted(names))
        return {name: json.loads(labels) for name, labels in rows}

    def late(self, namespace: str, before: datetime, limit: int) -> list[LateRun]:
        """What was due before a time and has not started: runs, and due times without one."""
        asked: dict[str, Any] = {"namespace": namespace, "before": before, "limit": limit}
        runs = self._db.all("list_late_runs", **asked)
        due = self._db.all("list_late_schedules", **asked)
        return [
            LateRun(name, json.loads(labels), self._db.time(due_at), *run_id)
            for name, labels, due_at, *run_id in (*runs, *due)
        ]

    def running(self, namespace: str, before: datetime, limit: int) -> list[LongRun]:
        """Runs that started before a time and are still running."""
        rows = self._db.all("list_long_runs", namespace=namespace, before=before, limit=limit)
        time = self._db.time
        return [
            LongRun(
                name,
                json.loads(labels or "{}"),
                task,
                flow,
                time(started_at),
                id_,
                time(due_at),
                schedule_id,
            )
            for name, labels, task, flow, started_at, id_, due_at, schedule_id in rows
        ]

    def unsuccessful(
        self, rule: AlertRule, since: datetime, limit: int
    ) -> list[tuple[str, dict[str, str]]]:
        """Schedules of a rule that have not succeeded since a time, with their labels."""
        rows = self._db.all("list_unsuccessful", since=since, limit=limit, **_asked(rule))
        return [(name, json.loads(labels)) for name, labels in rows]

    def next_unsuccessful(self, rule: AlertRule, since: datetime) -> datetime | None:
        """When the next of a rule's schedules succeeded or was created, among those that did since
        a time; None: there are no such schedules."""
        value = self._db.value("get_next_unsuccessful", since=since, **_asked(rule))
        at: datetime | None = self._db.time(value)
        return at

    def lengths(self, schedule_id: str, limit: int) -> list[timedelta]:
        """The durations of the latest successful runs."""
        rows = self._db.all("list_lengths", schedule_id=schedule_id, limit=limit)
        return [self._db.time(ended) - self._db.time(started) for started, ended in rows]

    def last_success(self, schedule_id: str) -> datetime | None:
        """When a run of a schedule last succeeded."""
        at: datetime | None = self._db.time(self._db.value("get_last_success", id=schedule_id))
        return at

    def last_seen(self, since: datetime) -> list[LastSeen]:
        """When nodes were last seen, by their roles and the namespaces that they serve."""
        rows = self._db.all("list_last_seen", since=since)
        return [
            LastSeen(
                tuple(roles.split(",")), serving_of(json.loads(served)), self._db.time(seen_at)
            )
            for roles, served, seen_at in rows
        ]


def _asked(rule: AlertRule) -> dict[str, Any]:
    """The schedules that a rule covers; with several labels, by the first of them."""
    label, value = next(iter(rule.labels.items()), (None, None))
    of = {"namespace": rule.namespace, "schedule": rule.schedule}
    return of | {"label": label, "value": value}


def _delivery(
    name: str, passed: Any, held: Any, error: str | None, refusal: str | None, again: Any
) -> AlertDelivery:
    if refusal is not None:
        return AlertDelivery(name, "sending" if again else "refused", refusal)
    if passed and not held:
        return AlertDelivery(name, "delivered")
    return AlertDelivery(name, "sending", error)


def _alert_values(alert: Alert) -> dict[str, Any]:
    names = [name for name in Alert.__slots__ if name != "deliveries"]
    values: dict[str, Any] = {name: getattr(alert, name) for name in names}
    return values | {"title": clean(alert.title), "text": clean(alert.text)}
