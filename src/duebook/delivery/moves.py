"""Where cursors go after a round of deliveries: on, or to rest before what failed; pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.chance import fraction
from duebook.model.consumer import Move
from duebook.targets.hiding import hiding_payload

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.consumer import Consumer, Cursor, Report
    from duebook.model.event import Event

__all__ = ["move_after", "retry_delay", "told"]

FIRST_DELAY: Final = timedelta(seconds=1)
LONGEST_DELAY: Final = timedelta(minutes=5)


def retry_delay(failures: int, *seed: object) -> timedelta:
    """Twice as long each time, up to a bound; half of it is left to chance."""
    longest = min(FIRST_DELAY * float(1 << min(failures - 1, 20)), LONGEST_DELAY)
    return longest * (1 - fraction(*seed, failures) / 2)


def move_after(
    consumer: Consumer,
    cursor: Cursor,
    events: Sequence[Event],
    until: int,
    report: Report,
    now: datetime,
    outages: int,
) -> Move:
    """Where the cursor of a partition goes: `events` are those it was to get, up to `until`.

    Events of a partition are delivered in order, so it rests before the first that was not.
    `outages` is how many rounds before this one did not reach the receiver.
    """
    for event in events:
        before = (event.position or 1) - 1
        if event.id in report.untried:
            failures = cursor.failures if before == cursor.position else 0
            return Move(cursor.part, cursor.term, before, failures)
        if event.id in report.undelivered:
            at = now + retry_delay(outages + 1, consumer.name, cursor.part)
            failures = cursor.failures if before == cursor.position else 0
            why = told(event, report.undelivered[event.id])
            return Move(cursor.part, cursor.term, before, failures, at, why)
        if event.id in report.rejected:
            failures = cursor.failures + 1 if before == cursor.position else 1
            why = told(event, report.rejected[event.id])
            if failures >= consumer.attempts:
                return Move(cursor.part, cursor.term, before + 1, error=why, buried=event)
            at = now + retry_delay(failures, event.id)
            return Move(cursor.part, cursor.term, before, failures, at, why)
    return Move(cursor.part, cursor.term, max(until, cursor.position))


def told(event: Event, error: str) -> str:
    """What went wrong, without what is secret in the event: people read it."""
    return hiding_payload(event.data)(error)
