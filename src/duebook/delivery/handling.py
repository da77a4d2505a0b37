"""Passes events to functions of a program: each at least once, or in one transaction with the
function's own writes."""

from __future__ import annotations

import inspect
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duebook.delivery.courier import Courier
from duebook.errors import Unavailable, shorten
from duebook.model.consumer import Report
from duebook.sinks.each import deliver_each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.delivery.courier import Round
    from duebook.model.consumer import Delivery
    from duebook.model.event import Event

__all__ = ["HandlerOutlet", "TransactionCourier", "wants_connection"]

log = logging.getLogger(__name__)

LONGEST_ERROR = 500


def wants_connection(function: Callable[..., Any]) -> bool:
    """Whether a handler takes a second argument: the connection of its transaction."""
    return len(inspect.signature(function).parameters) > 1


class HandlerOutlet:
    """Calls a function for each event; after a failure, later events with the same key wait."""

    def __init__(self, function: Callable[[Event], object]) -> None:
        self._function = function

    def deliver(self, deliveries: Sequence[Delivery]) -> Report:
        return deliver_each(
            deliveries, lambda delivery: _called(delivery, self._function, _given(delivery))
        )


def _given(delivery: Delivery) -> Event:
    return replace(delivery.event, replay=True) if delivery.replay else delivery.event


def _called(delivery: Delivery, function: Callable[..., object], *arguments: Any) -> str | None:
    """Why the function failed, or None; raises only Unavailable."""
    try:
        function(*arguments)
    except Unavailable:
        raise
    except BaseException as error:  # otherwise it would end the thread, and all deliveries
        log.warning("event %s could not be processed", delivery.event.id, exc_info=True)
        return _told(error)
    return None


def _told(error: BaseException) -> str:
    return shorten(f"{type(error).__name__}: {error}", LONGEST_ERROR)


class TransactionCourier(Courier):
    """Calls a function with an event and a connection; its writes there and the position commit
    together, so that each event counts once. Savepoints undo failed calls."""

    def __init__(self, *arguments: Any, function: Callable[..., object], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._function = function
        self._connection: Any = None

    def perform(self, found: Round) -> None:
        if self._connection is None or self._connection.closed:
            self._connection = self._store.connect()
        connection = self._connection
        try:
            with self._store.join(connection) as tx:
                held = tx.consumers.hold_cursors(self.consumer, self.member, found.cursors)
            if len(held) < len(found.cursors):
                self._undo()
                return
            report = self._all_together(found) or deliver_each(found.deliveries, self._call)
            with self._store.join(connection) as tx:
                settled = self.settle_by(tx, found, report)
            if not settled:
                self._undo()
                return
            connection.commit()
        except BaseException:
            connection.close()
            raise
        self.settled(found, report)

    def _undo(self) -> None:
        """Undo the writes: another member has the partition by now."""
        self._connection.rollback()
        self.hurry()

    def _all_together(self, found: Round) -> Report | None:
        """Use one savepoint for all events, which is much faster; None if one fails: then
        everything is undone, and they are processed one by one."""
        try:
            with self._connection.transaction():
                for delivery in found.deliveries:
                    self._function(_given(delivery), self._connection)
        except BaseException:
            if self._connection.closed:
                raise
            return None
        return Report()

    def _call(self, delivery: Delivery) -> str | None:
        return _called(delivery, self._in_savepoint, delivery)

    def _in_savepoint(self, delivery: Delivery) -> None:
        with self._connection.transaction():
            self._function(_given(delivery), self._connection)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        super().close()
