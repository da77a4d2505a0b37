"""Delivers events to a program's loop; each is settled when the loop continues."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from duebook.backoff import backoff
from duebook.delivery.courier import Courier
from duebook.errors import Conflict, Unavailable
from duebook.model.consumer import HeldKey, Move, Report
from duebook.randomness import fraction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta

    from duebook.delivery.courier import Round
    from duebook.model.consumer import Consumer, Delivery
    from duebook.store.base import Store, Tx

__all__ = ["Received", "received"]

log = logging.getLogger(__name__)

LEFT: Final = "the loop ended while it was processing this event"


class Received:
    """An event that a loop is processing; it is done when the loop asks for the next one."""

    def __init__(self, delivery: Delivery, courier: Courier, found: Round, store: Store) -> None:
        self._delivery = delivery
        self._courier = courier
        self._found = found
        self._store = store
        self._settles = False
        self.event: Final = delivery.event
        self.replay: Final = delivery.replay
        """whether it was delivered before, and a replay was requested"""
        self.is_done = False

    @property
    def id(self) -> str:
        return self.event.id

    @property
    def topic(self) -> str:
        return self.event.topic

    @property
    def type(self) -> str:
        return self.event.type

    @property
    def key(self) -> str:
        return self.event.key

    @property
    def data(self) -> Any:
        return self.event.data

    @property
    def meta(self) -> dict[str, Any]:
        return self.event.meta

    @property
    def at(self) -> datetime:
        return self.event.at

    @property
    def position(self) -> int | None:
        return self.event.position

    def done(self) -> None:
        """Mark the event as done, so that it is not delivered again, even if the loop ends."""
        self.is_done = True

    def settle_in(self, connection: Any) -> None:
        """Mark the event as done in the caller's own transaction: both commit, or neither.

        `connection` is as for `enqueue`; commit it before the loop continues. Raises Conflict if
        another member of the group now has this partition, so that the transaction rolls back.
        """
        consumer, event = self._courier.consumer, self.event
        with self._store.join(connection) as tx:
            if self._delivery.letter:
                settled = tx.consumers.settle_letter(consumer, event.id, None)
            else:
                settled = bool(
                    tx.consumers.move_cursors(consumer, self._courier.member, [self._move()])
                )
        if not settled:
            raise Conflict(
                f"event {event.id} now belongs to another member of {consumer.name}; "
                "roll back the transaction"
            )
        self._settles = True

    def _move(self) -> Move:
        part, position, found = self._delivery.part, self.event.position or 0, self._found
        (term,) = [c.term for c in found.cursors if c.part == part]
        if not found.retried:
            return Move(part, term, position)
        behind = HeldKey(part, self.event.key, position + 1, 0, 0, found.now)
        return Move(part, term, found.seen[part], held=(behind,))

    def conclude(self) -> None:
        """Called when the loop continues; raises Conflict if a transaction was not committed."""
        if self._settles and not self.is_settled():
            raise Conflict(
                f"settle_in was called for event {self.event.id}, but its transaction was not "
                "committed"
            )
        self.is_done = True

    def is_settled(self) -> bool:
        """Whether it will not be delivered again, even if the loop is left now."""
        return self.is_done or (self._settles and self._store.read(self._is_settled))

    def _is_settled(self, tx: Tx) -> bool:
        consumer, event = self._courier.consumer, self.event
        if self._delivery.letter:
            return not tx.consumers.count_letters(consumer.namespace, consumer.name, event.id)
        done = tx.consumers.get_position(consumer, self._delivery.part, event.key)
        return done >= (event.position or 0)


def received(
    store: Store, consumer: Consumer, batch: int, lease: timedelta, follow: bool
) -> Iterator[Received]:
    """The events of a group's member, in order; without `follow`, ends when there are no more."""
    courier, seen, failures = Courier(store, consumer, batch=batch, lease=lease), 0, 0
    courier.begin_beating()
    try:
        while True:
            try:
                found = courier.fetch()
                if found is not None and found.deliveries:
                    yield from _loop(store, courier, found)
                    continue
                if found is not None:
                    courier.settle(found, Report())
                if found is None or not found.more:
                    if not follow:
                        return
                    seen = store.wait_for_log(seen, courier.rest)
                failures = 0
            except Unavailable as error:  # of the database, not of the loop's body
                if not follow:
                    raise
                failures += 1
                log.warning("group %s is waiting for the database: %s", consumer.name, error)
                courier.hurry()
                time.sleep(backoff(failures, fraction(courier.member, failures)))
    finally:
        courier.close()


def _loop(store: Store, courier: Courier, found: Round) -> Iterator[Received]:
    given: Received | None = None
    number = 0
    try:
        for delivery in found.deliveries:
            given = Received(delivery, courier, found, store)
            yield given
            given.conclude()
            number += 1
    finally:
        report = Report()
        for delivery in found.deliveries[number:]:
            if given is not None and delivery.event is given.event:
                if not given.is_settled():
                    report.rejected[delivery.event.id] = LEFT
            else:
                report.untried.add(delivery.event.id)
        courier.settle(found, report)
