"""Delivers events one by one: a failure blocks its key, and a receiver that is down does not get
every event of the round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.errors import Unavailable
from duebook.model.consumer import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.consumer import Delivery

__all__ = ["deliver_each"]

MOST_MISSES: Final = 3
"""Consecutive events that did not get through, after which the rest of the round is not sent."""


def deliver_each(
    deliveries: Sequence[Delivery], deliver: Callable[[Delivery], str | None]
) -> Report:
    """Call `deliver` for each in turn: it returns why an event was rejected, or None if it was
    accepted, and raises Unavailable if the receiver cannot be reached or is busy."""
    report = Report()
    waiting: set[str] = set()
    misses = 0
    for delivery in deliveries:
        event = delivery.event
        if event.key in waiting or misses >= MOST_MISSES:
            report.untried.add(event.id)
            continue
        try:
            refusal = deliver(delivery)
        except Unavailable as error:
            report.undelivered[event.id] = str(error)
            waiting.add(event.key)
            misses += 1
            continue
        misses = 0
        if refusal is not None:
            report.rejected[event.id] = refusal
            waiting.add(event.key)
    return report
