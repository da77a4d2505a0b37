"""Delivers the events of a consumer to its outlet, in order for each key, at least once.

A member of the consumer's group owns some partitions; another member takes them over if it sends no
heartbeat. A member that moves a cursor proves with its term that it is still the owner. A key whose
event could not be delivered waits on its own, while its cursor moves on.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from duebook.delivery.moves import (
    judged,
    move_after,
    move_retried,
    outage_delay,
    reached_somebody,
    told,
)
from duebook.delivery.sharing import share
from duebook.errors import DuebookError
from duebook.ids import new_id
from duebook.lazy_dataclasses import dataclass
from duebook.model.consumer import Cursor, Delivery, Report
from duebook.model.event import slot_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.model.consumer import Consumer, HeldKey, Move
    from duebook.model.event import Event
    from duebook.store.base import Store, Tx

__all__ = ["Courier", "Outlet", "Round"]

log = logging.getLogger(__name__)

BATCH: Final = 500
LEASE: Final = timedelta(seconds=30)
POLL: Final = 10.0
"""Seconds after which it checks the log even without a hint."""
WRITE_BEYOND: Final = 1_000
"""Positions without an own event after which a cursor is moved on anyway."""
MOST_HELD: Final = 1_000
"""Keys of a partition that wait on their own; with more, the whole partition waits."""


class Outlet(Protocol):
    """Where events go."""

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        """Deliver in order; an event after a failed one with the same key is not delivered."""


@dataclass(frozen=True, slots=True)
class Round:
    """What is to be delivered now, and the cursors that it moves."""

    deliveries: list[Delivery]
    cursors: list[Cursor]
    until: int
    now: datetime
    more: bool
    letters: bool = False
    retried: list[HeldKey] = field(default_factory=list)
    """keys that were waiting, if the round retries those"""
    seen: dict[int, int] = field(default_factory=dict)
    """in that case, how far each partition has been read"""


class Courier:
    """One member of a consumer's group; `step` is called by one thread."""

    def __init__(
        self,
        store: Store,
        consumer: Consumer,
        outlet: Outlet | None = None,
        batch: int = BATCH,
        lease: timedelta = LEASE,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self.consumer = consumer
        self.member = new_id()
        self._outlet = outlet
        self._batch = batch
        self._lease = lease
        self._monotonic = monotonic
        self._shared_at = float("-inf")
        self._cursors: dict[int, Cursor] = {}
        self._seen: dict[int, int] = {}
        """how far each partition has been read, which may be beyond its cursor"""
        self.rest = 0.0
        """seconds until the next check, if there was nothing"""
        self._held: dict[int, dict[str, HeldKey]] = {}
        """keys of each partition that wait on their own"""
        self._retried_last = False
        self._outages = 0
        """consecutive rounds that did not reach the receiver"""
        self._away_until: datetime | None = None
        """no delivery to the receiver is tried until then"""
        self._write_beyond = WRITE_BEYOND
        self._closing = threading.Event()
        self._beating: threading.Thread | None = None

    def step(self) -> float:
        """Deliver what there is; returns after how many seconds to check again at the latest."""
        found = self.fetch()
        if found is None:
            return self.rest
        if found.deliveries:
            self.perform(found)
        else:
            self.settle(found, Report())
        return 0.0 if found.more or found.deliveries else self.rest

    def perform(self, found: Round) -> None:
        """Deliver a round, and move the cursors."""
        assert self._outlet is not None  # noqa: S101 - a courier without one is not stepped
        self.settle(found, self._outlet.deliver(found.deliveries))

    def fetch(self) -> Round | None:
        """What is to be delivered now; None if this member owns nothing, or all of it waits."""
        if self._monotonic() - self._shared_at >= self._lease.total_seconds() / 3:
            self.share()
        self.rest = min(POLL, self._lease.total_seconds() / 3)
        if not self._cursors:
            return None
        return self._store.read(self._fetch)

    def _fetch(self, tx: Tx) -> Round | None:
        now, ready = tx.now, self._ready(tx.now)
        if not ready:
            return None
        parts = [cursor.part for cursor in ready]
        if letters := tx.consumers.take_letters(self.consumer, parts, self._batch):
            again = [Delivery(event, self._part(event), True, True) for event in letters]
            return Round(again, [], 0, now, True, letters=True)
        due = [h for part in parts for h in self._held_in(part) if h.retry_at <= now]
        open_ = [cursor for cursor in ready if len(self._held_in(cursor.part)) < MOST_HELD]
        if due and not self._retried_last:  # alternate, so that neither blocks the other
            return self._fetch_held(tx, due)
        found = self._fetch_new(tx, open_) if open_ else None
        if due and (found is None or not (found.deliveries or found.more)):
            return self._fetch_held(tx, due)
        self._retried_last = False
        return found

    def _ready(self, now: datetime) -> list[Cursor]:
        """The cursors that need not wait for their receiver; sets when to check again."""
        cursors = list(self._cursors.values())
        times = [max(filter(None, (c.retry_at, self._away_until)), default=now) for c in cursors]
        ready = [cursor for cursor, at in zip(cursors, times, strict=True) if at <= now]
        times += [held.retry_at for cursor in ready for held in self._held_in(cursor.part)]
        self.rest = min([self.rest, *((at - now).total_seconds() for at in times if at > now)])
        return ready

    def _held_in(self, part: int) -> list[HeldKey]:
        return list(self._held[part].values())

    def _fetch_new(self, tx: Tx, cursors: list[Cursor]) -> Round:
        consumer, parts = self.consumer, [cursor.part for cursor in cursors]
        after = min(self._seen[part] for part in parts)
        batch = tx.events.read_events(
            consumer.namespace,
            after,
            self._batch,
            consumer.topics,
            parts,
            consumer.partitions,
            types=consumer.types,
            keys=consumer.keys,
        )
        deliveries = []
        for event in self._wanted(tx, batch.events):
            part = self._part(event)
            if (event.position or 0) > self._seen[part] and event.key not in self._held[part]:
                deliveries.append(self._delivery(event))
        return Round(deliveries, cursors, batch.after, tx.now, batch.more)

    def _fetch_held(self, tx: Tx, due: list[HeldKey]) -> Round:
        """The oldest keys to be retried, with the events that wait behind them."""
        self._retried_last = True
        consumer, first = self.consumer, min(held.position for held in due)
        parts = sorted({held.part for held in due})
        batch = tx.events.read_events(
            consumer.namespace,
            first - 1,
            self._batch,
            consumer.topics,
            parts,
            consumer.partitions,
            types=consumer.types,
            keys=sorted({held.key for held in due if self._follows(held.key)}),
        )
        until = max(batch.after, first)
        retried = {held.key: held for held in due if held.position <= until}
        deliveries = []
        for event in self._wanted(tx, batch.events):
            held, position = retried.get(event.key), event.position or 0
            if held and held.position <= position <= self._seen[held.part]:
                deliveries.append(self._delivery(event))
        cursors = [self._cursors[part] for part in sorted({h.part for h in retried.values()})]
        seen = {cursor.part: self._seen[cursor.part] for cursor in cursors}
        waiting = list(retried.values())
        return Round(deliveries, cursors, until, tx.now, True, retried=waiting, seen=seen)

    def _wanted(self, tx: Tx, events: list[Event]) -> list[Event]:
        """Events of schedules with the consumer's labels; the cursor moves past the others."""
        labels = self.consumer.labels
        return tx.events.with_labels(events, labels) if labels and events else events

    def _follows(self, key: str) -> bool:
        return self.consumer.keys is None or key in self.consumer.keys

    def _delivery(self, event: Event) -> Delivery:
        part = self._part(event)
        return Delivery(event, part, (event.position or 0) <= self._cursors[part].replay_until)

    def _part(self, event: Event) -> int:
        return slot_of(event.key) % self.consumer.partitions

    def settle(self, found: Round, report: Report) -> None:
        """Record the result of a round."""
        if found.letters or self._moves(found, report):
            self._store.transact(lambda tx: self.settle_by(tx, found, report))
        self.settled(found, report)

    def settle_by(self, tx: Tx, found: Round, report: Report) -> bool:
        """As `settle`, in a transaction; call `settled` after it is committed.

        False: part of it no longer belongs to this member, or has already been settled.
        """
        if found.letters:
            return self._settle_letters(tx, found, report)
        moves = self._moves(found, report)
        moved = tx.consumers.move_cursors(self.consumer, self.member, moves)
        if len(moved) < len(moves):
            log.info("%s: some partitions moved to another member", self.consumer.name)
            self._shared_at = float("-inf")
        return len(moved) == len(moves)

    def _settle_letters(self, tx: Tx, found: Round, report: Report) -> bool:
        report = judged(found.deliveries, report)
        failed = report.rejected | report.undelivered
        settled = True
        for delivery in found.deliveries:
            event = delivery.event
            if event.id not in report.untried:
                why = failed.get(event.id)
                error = None if why is None else told(event, why)
                settled &= tx.consumers.settle_letter(self.consumer, event.id, error)
        return settled

    def settled(self, found: Round, report: Report) -> None:
        """Continue from the settled round."""
        moves = [] if found.letters else self._moves(found, report)
        self._note_outage(found, report)
        if not found.retried:
            for cursor in found.cursors:
                self._seen[cursor.part] = max(found.until, self._seen[cursor.part])
        for move in moves:
            self._cursors[move.part] = self._cursors[move.part]._replace(
                position=move.position, retry_at=move.retry_at
            )
            if not found.retried and (move.position < found.until or move.error is not None):
                self._seen[move.part] = move.position
            held = self._held[move.part]
            held.update({one.key: one for one in move.held})
            for key in move.freed:
                held.pop(key, None)
        if moves:
            self._write_beyond = WRITE_BEYOND

    def _note_outage(self, found: Round, report: Report) -> None:
        """Count rounds of new events that did not reach the receiver; any other ends the outage."""
        if reached_somebody(found.deliveries, report):
            self._outages, self._away_until = 0, None
            self._cursors = {
                part: cursor._replace(retry_at=None) for part, cursor in self._cursors.items()
            }
        elif (at := self._outage(found, report)) is not None:
            self._outages += 1
            self._away_until = at

    def _outage(self, found: Round, report: Report) -> datetime | None:
        """Until when to leave the receiver alone; None: the round does not show that it is down."""
        if found.letters or found.retried or not report.undelivered:
            return None
        if reached_somebody(found.deliveries, report):
            return None
        return found.now + outage_delay(self._outages + 1, self.consumer.name)

    def _moves(self, found: Round, report: Report) -> list[Move]:
        events: dict[int, list[Event]] = {cursor.part: [] for cursor in found.cursors}
        for delivery in found.deliveries:
            events[delivery.part].append(delivery.event)
        report, consumer, now = judged(found.deliveries, report), self.consumer, found.now
        if found.retried:
            return [
                move_retried(
                    consumer,
                    cursor,
                    [held for held in found.retried if held.part == cursor.part],
                    events[cursor.part],
                    found.until,
                    found.seen[cursor.part],
                    report,
                    now,
                )
                for cursor in found.cursors
            ]
        at = self._outage(found, report)
        return [
            move_after(consumer, cursor, events[cursor.part], found.until, report, now, at)
            for cursor in found.cursors
            if events[cursor.part] or found.until - cursor.position >= self._write_beyond
        ]

    def share(self) -> None:
        """Send a heartbeat, and take or release partitions so that all members have as many.

        The consumer may have been changed: all members follow its latest settings.
        """
        began = self._monotonic()

        def work(tx: Tx) -> tuple[list[Cursor], list[HeldKey], Consumer]:
            cursors = tx.consumers.share_cursors(self.consumer, self.member, self._lease, share)
            held = tx.consumers.list_held(self.consumer, self.member)
            return (
                cursors,
                held,
                tx.consumers.get_consumer(self.consumer.namespace, self.consumer.name),
            )

        cursors, waiting, self.consumer = self._store.transact(work)
        self._held = {cursor.part: {} for cursor in cursors}
        for held in waiting:
            self._held[held.part][held.key] = held
        for cursor in cursors:
            known = self._cursors.get(cursor.part)
            still = known is not None and known.term == cursor.term
            # the cursor may be beyond `seen` if the result of the last settling was lost
            seen = self._seen[cursor.part] if still else 0
            self._seen[cursor.part] = max(seen, cursor.position)
        self._cursors = {cursor.part: cursor for cursor in cursors}
        self._shared_at = began
        self._write_beyond = 1  # move cursors now, so that none seems to be behind

    def hurry(self) -> None:
        """Check the partitions again in the next step."""
        self._shared_at = float("-inf")

    def begin_beating(self) -> None:
        """Send heartbeats from a separate thread while a delivery takes long."""
        self._beating = threading.Thread(
            target=self._beat, name=f"duebook-member-{self.consumer.name}", daemon=True
        )
        self._beating.start()

    def _beat(self) -> None:
        pause = self._lease.total_seconds() / 3
        while not self._closing.wait(pause):
            if self._monotonic() - self._shared_at < pause:
                continue  # `share` has just sent one
            try:
                self._store.transact(
                    lambda tx: tx.consumers.renew_member(self.consumer, self.member, self._lease)
                )
            except DuebookError as error:
                log.debug("%s: a heartbeat was lost: %s", self.consumer.name, error)

    def close(self) -> None:
        """Release the partitions that it owns."""
        self._closing.set()
        try:
            self._store.transact(lambda tx: tx.consumers.leave_group(self.consumer, self.member))
        except DuebookError as error:
            log.warning("%s: could not leave its group: %s", self.consumer.name, error)
