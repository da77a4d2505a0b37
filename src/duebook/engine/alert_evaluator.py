"""Finds the problems of one namespace, from life-cycle events and from looks at its current state.

It is a member of the group that reads the log for the namespace's rules. Its decisions and the move
of its cursor commit together, so that each event counts once even if a node dies. Only the member
that has the cursor, under its current term, makes the looks.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.alerting import Board, decide, happening_of
from duebook.budget import Budget
from duebook.delivery.courier import LEASE, Courier
from duebook.engine.alert_looks import Looks
from duebook.engine.alert_messages import LONGEST, alert_event
from duebook.errors import Conflict
from duebook.ids import new_id
from duebook.model.consumer import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.alerting import Decided, Happening, Look
    from duebook.delivery.courier import Round
    from duebook.model.alert import Alert, AlertRule
    from duebook.model.consumer import Consumer, Delivery
    from duebook.model.event import Event
    from duebook.store.base import Store, Tx

__all__ = ["AlertEvaluator"]

log = logging.getLogger(__name__)

_WAKING: Final = ("schedule.resumed", "schedule.updated")
LINGERS: Final = 60.0
"""Seconds without work after which it is idle."""


class AlertEvaluator(Courier):
    """One member of the group; call `step` from one thread only."""

    def __init__(
        self,
        store: Store,
        consumer: Consumer,
        lease: timedelta = LEASE,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(store, consumer, None, lease=lease, monotonic=monotonic)
        self._namespace = consumer.namespace
        self._looks = Looks(consumer.namespace, monotonic)
        self._timed = consumer.options.get("timed")
        self._busy_at = monotonic()
        """when it last had something to do"""
        self.has_decided = False
        """whether it has decided about any event, looks aside"""
        self._wake: float | None = None
        """when a waiting message may be sent"""

    def step(self, quiet: bool = False) -> float:
        """Decide what there is to decide; returns in how many seconds to look again.

        While the log is `quiet` it is not read, and each look also shows that this member is alive.
        """
        rests = quiet and self._cursors and not self._is_stale
        found = None if rests else self.fetch()
        if self._timed != (timed := self.consumer.options.get("timed")):
            self._timed = timed
            self._looks.forget()
        if not self._cursors:
            self._looks.forget()
            return self.rest
        deliveries = found.deliveries if found is not None else ()
        if deliveries or self._looks.due or self._is_woken():
            self._evaluate(found)
        elif found is not None:
            self.settle(found, Report())
        if found is not None and (found.more or found.deliveries):
            return 0.0
        return max(min([self.rest, self._looks.rest, *self._until_wake()]), 0.0)

    @property
    def _is_stale(self) -> bool:
        """Whether it must show that it is alive before others take over."""
        return self._monotonic() - self._shared_at > self._lease.total_seconds() / 2

    def hasten(self) -> float:
        """The state may have changed; returns in how many seconds to look at it."""
        return self._looks.hasten()

    @property
    def is_idle(self) -> bool:
        """Whether it can end without losing anything: it is needed again when something happens, or
        at its next look, whose time is stored in the database."""
        looks = self._timed and self._looks.rest < LINGERS / 2
        if self._cursors and (looks or self._wake is not None):
            return False
        return self._monotonic() - self._busy_at >= LINGERS

    def _is_woken(self) -> bool:
        return self._wake is not None and self._monotonic() >= self._wake

    def _until_wake(self) -> list[float]:
        return [] if self._wake is None else [self._wake - self._monotonic()]

    def _evaluate(self, found: Round | None) -> None:
        """Decide, and move the cursor, in one transaction."""

        def work(tx: Tx) -> tuple[Decided, Look | None, datetime]:
            cursors = list(self._cursors.values()) if found is None else found.cursors
            held = tx.consumers.hold_cursors(self.consumer, self.member, cursors)
            if len(held) < len(cursors):
                raise Conflict("another node evaluates the alert rules of this namespace now")
            decided, look = self._decide(tx, () if found is None else found.deliveries)
            if found is not None and not self.settle_by(tx, found, Report()):
                raise Conflict("another node evaluates the alert rules of this namespace now")
            tx.consumers.renew_member(self.consumer, self.member, self._lease)
            return decided, look, tx.now

        began = self._monotonic()
        try:
            decided, look, now = self._store.transact(work)
        except Conflict as error:
            log.info("%s: %s", self._namespace, error)
            self._looks.forget()
            self.hurry()
            return
        if found is not None:
            self.settled(found, Report())
        self._shared_at = max(self._shared_at, began)
        happened = bool(found is not None and (found.deliveries or decided.told))
        self._busy_at = self._monotonic() if happened else float("-inf")
        self.has_decided |= happened
        if look is not None:
            self._looks.looked(look, now)
        wake = decided.wake_at
        later = None if wake is None else self._monotonic() + (wake - now).total_seconds()
        self._wake = later

    def _decide(self, tx: Tx, deliveries: Sequence[Delivery]) -> tuple[Decided, Look | None]:
        events = [one.event for one in deliveries if not one.replay]
        happenings = self._happenings(tx, events)
        namespace, subjects = self._namespace, {fact.subject.key for fact in happenings}
        if self._timed and any(event.type in _WAKING for event in events):
            self._hasten(tx)
        if self._looks.due:
            rules = tx.alerts.list_rules(namespace)
            look = self._looks.look(tx, rules)
            alerts = tx.alerts.board(namespace, subjects, look.kinds)
            tx.alerts.note_look(namespace, look.again_at)
        else:
            look = None
            alerts = tx.alerts.board(namespace, subjects, ())
            known = {alert.schedule for alert in alerts if alert.schedule is not None}
            rules = tx.alerts.rules_about(namespace, subjects | known)
        streaks = tx.alerts.streaks(namespace, subjects) if subjects else {}
        windows = tx.calendars.list_windows(namespace)
        board = Board(rules, alerts, streaks, windows, self._late(tx, rules, happenings))
        decided = decide(board, happenings, look, tx.now, new_id)
        self._write(tx, decided)
        return decided, look

    def _late(
        self, tx: Tx, rules: Sequence[AlertRule], happenings: Sequence[Happening]
    ) -> list[Alert]:
        """Alerts already sent about late starts of runs that have now ended."""
        limits = [one.limit for rule in rules for one in rule.conditions if one.kind == "late"]
        late = [fact for fact in happenings if limits and fact.late > min(limits)]
        if not late:
            return []
        since = min((fact.due_at for fact in late if fact.due_at is not None), default=tx.now)
        return tx.alerts.told_late(self._namespace, {fact.subject.key for fact in late}, since)

    def _hasten(self, tx: Tx) -> None:
        """A schedule that just became active may be late, or long without a success."""
        tx.alerts.note_look(self._namespace, tx.now + timedelta(seconds=self._looks.hasten()))

    def _happenings(self, tx: Tx, events: Sequence[Event]) -> list[Happening]:
        names = {event.key for event in events}
        labels = tx.alerts.labels_of(self._namespace, names) if names else {}
        found = (happening_of(event, labels) for event in events)
        return [happening for happening in found if happening is not None]

    def _write(self, tx: Tx, decided: Decided) -> None:
        budget = Budget(LONGEST)
        drafts = [alert_event(tx, told, budget) for told in decided.told]
        about = {draft.key: draft.id for draft in drafts}
        tx.alerts.save(
            [replace(a, event_id=about.get(a.message or "", a.event_id)) for a in decided.alerts]
        )
        tx.alerts.save_streaks(self._namespace, decided.streaks)
        for rule, sent in decided.sent.items():
            tx.alerts.note_sent(self._namespace, rule, sent)
        tx.events.append_events(drafts)
        if decided.deleted:
            for name in tx.alerts.rules_of(self._namespace, decided.deleted):
                tx.alerts.remove_rule(self._namespace, name)
