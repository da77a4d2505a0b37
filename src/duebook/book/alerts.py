"""Use cases of alerts: define rules, silence and test them, list the problems they found."""

from __future__ import annotations

import hmac
import json
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from duebook.book.audit import Auditor
from duebook.book.rights import UNLIMITED, Rights
from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.ids import new_id
from duebook.model.alert import (
    ALERTS,
    FOLLOWED,
    MOST_CHANNELS,
    MOST_RULES,
    Alert,
    AlertDelivery,
    AlertRule,
    AlertTest,
    ChannelState,
    delivered_state,
    load_rule,
)
from duebook.model.channel import (
    Channel,
    keep_channel,
    load_channel,
    show_address,
    show_channel,
)
from duebook.model.codec import encode
from duebook.model.consumer import Consumer
from duebook.model.event import Draft, json_text
from duebook.model.fields import read_instant, whole
from duebook.model.listing import Listing, read_cursor, write_cursor
from duebook.model.node import why_unserved
from duebook.model.sink import ATTEMPTS
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from duebook.model.node import LiveNode
    from duebook.store.base import Store, Tx

    RuleList = list[AlertRule]  # inside the class below `list` is a method

__all__ = ["Alerts"]

MOST_LISTED: Final = 1_000
MOST_OWN_CHANNELS: Final = 100
"""In a namespace."""
TIMED: Final = ("late", "running", "slow", "no_success", "unattended")
"""Conditions that depend on time: they have to be checked regularly."""


class Alerts:
    """The alert rules of a namespace, and the problems that they found."""

    def __init__(
        self, store: Store, namespace: str, by: str = "", rights: Rights = UNLIMITED
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._by = by
        self._rights = rights
        self._audit = Auditor(namespace, by)

    def list(self) -> RuleList:
        """Return the rules of this namespace, by name, each with the state of its channels."""

        def work(tx: Tx) -> RuleList:
            channels = _Channels(tx, self._namespace)
            return [channels.shown(rule) for rule in tx.alerts.list_rules(self._namespace)]

        return self._store.read(work)

    def get(self, name: str) -> AlertRule:
        """Return one rule; raises NotFound."""

        def work(tx: Tx) -> AlertRule:
            rule = tx.alerts.get_rule(self._namespace, name)
            return _Channels(tx, self._namespace).shown(rule)

        return self._store.read(work)

    def save(
        self,
        name: str,
        on: str | Sequence[str] = ("failure", "recovered"),
        to: Sequence[Any] | str | None = None,
        schedule: str | None = None,
        labels: Mapping[str, str] | None = None,
        group: str = "1m",
        repeat: str | None = "1d",
        limit: int = 20,
        enabled: bool = True,
        with_schedule: bool = False,
    ) -> AlertRule:
        """Create a rule, or replace one; relays detect its problems from now on.

        `on` are conditions such as `failure` or `late:10m`; `to` are channels: URLs, or objects
        with a `kind`. An existing rule keeps its channels if none are given. `with_schedule`
        deletes the rule together with its schedule. Raises Invalid that names the field, NotFound
        for an unknown schedule, Forbidden for channels that the role may not define, and Conflict
        if a rule that belongs to one schedule would apply to others.
        """
        form: dict[str, Any] = {
            "on": on,
            "schedule": schedule,
            "labels": dict(labels or {}),
            "group": group,
        }
        form |= {"repeat": repeat, "limit": limit, "enabled": enabled}
        wanted = load_rule(self._namespace, name, form)

        return self._store.transact(lambda tx: self._save(tx, wanted, to, with_schedule))

    def _save(
        self, tx: Tx, wanted: AlertRule, to: Sequence[Any] | str | None, with_schedule: bool
    ) -> AlertRule:
        tx.consumers.lock_consumer(self._namespace, ALERTS)  # no channel is deleted meanwhile
        channels = _Channels(tx, self._namespace)
        rules = tx.alerts.list_rules(self._namespace)
        former = next((rule for rule in rules if rule.name == wanted.name), None)
        own = None
        if wanted.schedule is not None:
            own = tx.schedules.find_schedule(self._namespace, wanted.schedule)
        if former is None and not with_schedule:
            _make_room(rules, self._namespace)
        names = self._save_channels(tx, channels, former, to)
        _refuse_other(former, wanted, with_schedule)
        kept = with_schedule or (former is not None and former.schedule_id == own)
        schedule_id = own if kept else None
        rule = replace(wanted, to=names, created_by=self._by, schedule_id=schedule_id)
        tx.alerts.save_rule(rule)
        self._tidy(tx)
        shown = _Channels(tx, self._namespace)
        made = shown.shown(tx.alerts.get_rule(self._namespace, rule.name))
        self._note(tx, None if former is None else channels.shown(former), made)
        return made

    def _save_channels(
        self,
        tx: Tx,
        channels: _Channels,
        former: AlertRule | None,
        to: Sequence[Any] | str | None,
    ) -> tuple[str, ...]:
        """The names of the consumers of these channels; if none are given, of the previous ones."""
        before = [] if former is None else channels.of(former)
        found = before if to is None else _read_channels(to, before)
        if not found:
            raise Invalid("to is missing; give a channel, such as https://… or mailto:…")
        self._rights.refuse_channels(found, before)
        names = (self._save_channel(tx, channels, channel) for channel in found)
        return tuple(dict.fromkeys(names))

    def _save_channel(self, tx: Tx, channels: _Channels, channel: Channel) -> str:
        """The name of the consumer that delivers to a channel; equal channels share one."""
        text = json.dumps(channel.to_json(), sort_keys=True)
        digest = hmac.new(self._store.cursor_key(), text.encode(), "sha256").hexdigest()[:12]
        name = f"{ALERTS}.{digest}"
        if name not in channels.known and len(channels.known) >= MOST_OWN_CHANNELS:
            raise Conflict(
                f"namespace {self._namespace} already has {MOST_OWN_CHANNELS} channels for alerts; "
                "use one of them, or delete rules"
            )
        options = {"channel": channel.to_json()}
        consumer = Consumer(self._namespace, name, "alert_channel", (ALERTS,), 1, ATTEMPTS, options)
        tx.consumers.save_consumer(consumer, tx.events.last_position())
        channels.known[name] = consumer
        return name

    def _tidy(self, tx: Tx) -> None:
        """Evaluate rules only while there are any, and delete channels that no rule uses."""
        rules = tx.alerts.list_rules(self._namespace)
        used = {name for rule in rules for name in rule.to}
        for name in sorted(_Channels(tx, self._namespace).known.keys() - used):
            tx.consumers.remove_consumer(self._namespace, name)
        if not rules:
            tx.consumers.remove_consumer(self._namespace, ALERTS)
            return
        options = {"timed": _timed(rules)}
        reader = Consumer(self._namespace, ALERTS, "alert_rules", FOLLOWED, 1, ATTEMPTS, options)
        tx.consumers.save_consumer(reader, tx.events.last_position())

    def remove(self, name: str) -> None:
        """Delete a rule; its open alerts are closed without a message. Raises NotFound."""

        def work(tx: Tx) -> None:
            tx.consumers.lock_consumer(self._namespace, ALERTS)
            former = tx.alerts.get_rule(self._namespace, name)
            shown = _Channels(tx, self._namespace).shown(former)
            tx.alerts.remove_rule(self._namespace, former.name)
            self._tidy(tx)
            self._note(tx, shown, None)

        self._store.transact(work)

    def silence(self, name: str, until: str | datetime | None = None) -> AlertRule:
        """Send no alerts of a rule until then; None ends a silence. Raises NotFound, and Invalid
        for a time in the past."""
        moment = None if until is None else read_instant("until", until)

        def work(tx: Tx) -> AlertRule:
            former = tx.alerts.get_rule(self._namespace, name)
            if moment is not None and moment <= tx.now:
                raise Invalid(f"until {format_instant(moment)} is over; choose a later time")
            tx.alerts.silence(self._namespace, former.name, moment)
            rule = tx.alerts.get_rule(self._namespace, former.name)
            before, after = (
                {"silenced_until": None if at is None else format_instant(at)}
                for at in (former.silenced_until, moment)
            )
            self._audit.note(tx, "silence", "alert_rule", rule.name, before=before, after=after)
            return _Channels(tx, self._namespace).shown(rule)

        return self._store.transact(work)

    def test(self, name: str) -> AlertTest:
        """Send a test message to all channels of a rule, in the same way as its alerts; `delivery`
        shows whether it arrived. Raises NotFound."""

        def work(tx: Tx) -> AlertTest:
            rule = tx.alerts.get_rule(self._namespace, name)
            draft = _test_event(tx, rule, self._by)
            tx.events.append_events([draft])
            self._audit.note(tx, "test", "alert_rule", rule.name, draft.id)
            return AlertTest(draft.id, None, rule.to, (), {})

        return self._store.transact(work)

    def delivery(self, event_id: str) -> AlertTest:
        """Return which channels have accepted a message, identified by its event; raises
        NotFound."""

        def work(tx: Tx) -> AlertTest:
            event = tx.events.get_event(self._namespace, event_id)
            if event.topic != ALERTS:
                raise NotFound(f'event "{shorten(event_id)}" is not an alert')
            channels = _Channels(tx, self._namespace)
            found = channels.deliveries([event.id]).get(event.id, ())
            waiting = tuple(one.channel for one in found if one.state != "delivered")
            delivered = tuple(one.channel for one in found if one.state == "delivered")
            errors = {one.channel: one.error for one in found if one.error is not None}
            return AlertTest(event.id, event.position, waiting, delivered, errors)

        return self._store.read(work)

    def history(
        self,
        limit: int = 100,
        *,
        rule: str | None = None,
        only_open: bool = False,
        cursor: str | None = None,
    ) -> Listing[Alert]:
        """Return problems, newest first: of one rule, or only open ones.

        Raises BadCursor.
        """
        whole(1, MOST_LISTED)("limit", limit)
        asked, key = ["alerts", self._namespace, rule, only_open], self._store.cursor_key()
        after = read_cursor(key, asked, cursor, "is")

        def work(tx: Tx) -> Listing[Alert]:
            found = tx.alerts.list_alerts(self._namespace, limit, after, rule, only_open)
            rows = _Channels(tx, self._namespace).with_deliveries(found.rows)
            return Listing(rows, write_cursor(key, asked, found.last))

        return self._store.read(work)

    def _note(self, tx: Tx, former: AlertRule | None, made: AlertRule | None) -> None:
        """Record a change of a rule, without its secrets."""
        forms = [None if rule is None else _audited(rule) for rule in (former, made)]
        before, after = forms
        if before is not None and after is not None:
            changed = [key for key in after if after[key] != before.get(key)]
            before, after = ({key: form[key] for key in changed} for form in (before, after))
        action = "create" if former is None else "delete" if made is None else "update"
        name = (made or former).name if made or former else ""  # type: ignore[union-attr]
        self._audit.note(tx, action, "alert_rule", name, before=before, after=after)


def _timed(rules: Iterable[AlertRule]) -> bool | str:
    """Whether any rule depends on time; if so, whether each running run may matter to one."""
    kinds = {each.kind for rule in rules if rule.enabled for each in rule.conditions}
    return "runs" if "slow" in kinds else not kinds.isdisjoint(TIMED)


class _Channels:
    """The channels of a namespace, by the names of their consumers."""

    def __init__(self, tx: Tx, namespace: str) -> None:
        self._tx = tx
        self._namespace = namespace
        self.known = {
            one.name: one
            for one in tx.consumers.list_consumers(namespace)
            if one.kind == "alert_channel"
        }

    def of(self, rule: AlertRule) -> list[Channel]:
        found = (self.known.get(name) for name in rule.to)
        return [load_channel(one.options["channel"]) for one in found if one is not None]

    def shown(self, rule: AlertRule) -> AlertRule:
        """A rule without its secrets, with the state of its channels."""
        shown = tuple(show_channel(channel) for channel in self.of(rule))
        states = tuple(self.state(name) for name in rule.to if name in self.known)
        return replace(rule, to=shown, channels=states)

    def with_deliveries(self, alerts: Sequence[Alert]) -> list[Alert]:
        """Problems, each with the delivery of its latest message."""
        ids = {alert.event_id for alert in alerts if alert.event_id is not None}
        found = self.deliveries(ids)
        return [
            alert
            if alert.state != "sent" or alert.event_id is None
            else replace(
                alert,
                state=delivered_state(found.get(alert.event_id)),
                deliveries=tuple(found.get(alert.event_id, ())),
            )
            for alert in alerts
        ]

    def deliveries(self, event_ids: Collection[str]) -> dict[str, list[AlertDelivery]]:
        """The deliveries of messages to their channels, by the ids of their events."""
        found = self._tx.alerts.deliveries(self._namespace, event_ids)
        return {id_: [self._delivery(one) for one in rows] for id_, rows in found.items()}

    def _delivery(self, one: AlertDelivery) -> AlertDelivery:
        consumer = self.known.get(one.channel)
        address = "" if consumer is None else show_address(consumer.options["channel"])
        unserved = None
        if one.state == "sending":
            unserved = why_unserved(self._nodes, self._namespace, one.channel)
        error = one.error if unserved is None else f"no live node can send it: {unserved}"
        return one._replace(address=address, error=error)

    def state(self, name: str) -> ChannelState:
        channel = load_channel(self.known[name].options["channel"])
        dead = self._tx.consumers.count_letters(self._namespace, name, None)
        parts = self._tx.consumers.list_partitions(self._namespace, name)
        errors = [part.error for part in parts if part.retry_at is not None]
        unserved = why_unserved(self._nodes, self._namespace, name)
        error = next(iter(errors), None)
        return ChannelState(name, str(channel), dead, bool(errors), error, unserved)

    @cached_property
    def _nodes(self) -> Sequence[LiveNode]:
        return self._tx.nodes.list_nodes()


def _refuse_other(former: AlertRule | None, wanted: AlertRule, with_schedule: bool) -> None:
    """Raises Conflict if a rule that is deleted with its schedule applies to another schedule,
    before or after the change."""
    if former is None or former.schedule == wanted.schedule:
        return
    if former.schedule_id is not None:
        raise Conflict(
            f'alert rule "{former.name}" belongs to schedule {former.schedule} and is deleted with '
            f"it; choose another name, or give schedule {former.schedule}"
        )
    if with_schedule:
        raise Conflict(
            f'alert rule "{former.name}" exists and does not concern {wanted.schedule} alone; '
            f"delete it first: duebook alert rm {former.name}"
        )


def _make_room(rules: Iterable[AlertRule], namespace: str) -> None:
    """Raises Conflict if there are too many rules; rules of single schedules do not count."""
    if sum(rule.schedule_id is None for rule in rules) >= MOST_RULES:
        raise Conflict(
            f"namespace {namespace} already has {MOST_RULES} alert rules; delete one, or let one "
            "concern more schedules, by their labels"
        )


def _read_channels(value: object, former: Sequence[Channel]) -> list[Channel]:
    """Channels from their forms; a hidden value stays as it was. Raises Invalid."""
    items = value if isinstance(value, list | tuple) else [value]
    if len(items) > MOST_CHANNELS:
        raise Invalid(f"to has {len(items)} channels; at most {MOST_CHANNELS} are allowed")
    return [load_channel(_kept(item, former)) for item in items]


def _kept(item: object, former: Sequence[Channel]) -> object:
    for channel in former:
        if item == show_channel(channel):
            return channel
    if not isinstance(item, dict):
        return item
    alike = [channel for channel in former if channel.kind == item.get("kind")]
    return keep_channel(item, alike[0] if len(alike) == 1 else None)


def _audited(rule: AlertRule) -> dict[str, Any]:
    form = encode(rule)
    return {key: form[key] for key in form if key not in ("name", "channels", "created_at")}


def _test_event(tx: Tx, rule: AlertRule, by: str) -> Draft:
    id_ = new_id()
    who = f", requested by {by}" if by else ""
    data = {
        "rule": rule.name,
        "status": "test",
        "kind": "test",
        "title": f"test of alert rule {rule.name}",
        "text": f"This is a test message from Duebook{who}. No action is needed.",
        "incident": id_,
        "schedule": rule.schedule,
        "run": None,
        "count": 1,
        "at": format_instant(tx.now),
        "channels": [*rule.to],
    }
    meta = {"rule": rule.name, "user": by}
    return Draft(id_, rule.namespace, ALERTS, "alert.test", id_, json_text(data), json_text(meta))
