"""Where cursors move after a round of deliveries, and which keys wait behind them; pure.

An event that could not be delivered blocks its key: the key stays behind the cursor and is retried
on its own. Only a round that did not reach the receiver makes the whole receiver wait.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.model.consumer import HeldKey, Move
from duebook.randomness import fraction
from duebook.targets.hiding import hiding_payload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duebook.model.consumer import Consumer, Cursor, Delivery, Report
    from duebook.model.event import Event

__all__ = ["judged", "move_after", "move_retried", "outage_delay", "reached_somebody", "told"]

FIRST_DELAY: Final = timedelta(seconds=1)
LONGEST_DELAY: Final = timedelta(minutes=5)
"""Between two deliveries of an event that the receiver rejects."""
BUSY_DELAY: Final = timedelta(seconds=0.1)
LONGEST_OUTAGE: Final = timedelta(minutes=1)
"""Between two tries when a receiver is down, or an event does not get through."""


def _delay(tries: int, first: timedelta, longest: timedelta, *seed: object) -> timedelta:
    """Twice as long each time, up to a bound; half of it is random."""
    most = min(first * float(1 << min(tries - 1, 20)), longest)
    return most * (1 - fraction(*seed, tries) / 2)


def outage_delay(outages: int, *seed: object) -> timedelta:
    """How long a receiver is left alone after so many consecutive rounds did not reach it."""
    return _delay(outages, FIRST_DELAY, LONGEST_OUTAGE, *seed)


def reached_somebody(deliveries: Sequence[Delivery], report: Report) -> bool:
    """Whether the receiver accepted or rejected at least one event."""
    missed = report.undelivered.keys() | report.untried
    return any(delivery.event.id not in missed for delivery in deliveries)


def judged(deliveries: Sequence[Delivery], report: Report) -> Report:
    """If a round did not reach the receiver, events that were not sent count as undelivered too."""
    if reached_somebody(deliveries, report) or not report.undelivered:
        return report
    why = next(iter(report.undelivered.values()))
    everything = {delivery.event.id: why for delivery in deliveries}
    return replace(report, undelivered=everything | report.undelivered, untried=set())


class _KeyProgress(NamedTuple):
    """The progress of a key in a round."""

    held: HeldKey | None = None
    """it waits on its own from now on"""
    rests: int | None = None
    """the position of an event that was not tried, though no event of its key failed"""
    buried: tuple[tuple[Event, str], ...] = ()


def move_after(
    consumer: Consumer,
    cursor: Cursor,
    events: Sequence[Event],
    until: int,
    report: Report,
    now: datetime,
    retry_at: datetime | None = None,
) -> Move:
    """The new cursor of a partition: `events` are those that it was to deliver, up to `until`.

    It moves past keys that wait on their own, but never past an event that was not tried. With
    `retry_at` the round did not reach the receiver: the cursor stays before its first event until
    then.
    """
    if retry_at is not None and events:
        first = events[0]
        why = told(first, report.undelivered[first.id])
        return Move(cursor.part, cursor.term, (first.position or 1) - 1, retry_at, why)
    places = [
        _place(consumer, cursor.part, own, None, True, report, now)
        for own in _by_key(events).values()
    ]
    rests = [place.rests - 1 for place in places if place.rests is not None]
    return Move(
        cursor.part,
        cursor.term,
        min(rests, default=max(until, cursor.position)),
        held=tuple(place.held for place in places if place.held is not None),
        buried=tuple(letter for place in places for letter in place.buried),
    )


def move_retried(
    consumer: Consumer,
    cursor: Cursor,
    retried: Sequence[HeldKey],
    events: Sequence[Event],
    until: int,
    seen: int,
    report: Report,
    now: datetime,
) -> Move:
    """The progress of a partition's waiting keys, whose `events` were read up to `until`.

    The cursor moves to `seen`, up to which the partition has been read: events of these keys in
    between are among `events`.
    """
    found = _by_key(events)
    places = {
        held.key: _place(
            consumer, cursor.part, found.get(held.key, []), held, until >= seen, report, now, until
        )
        for held in retried
    }
    return Move(
        cursor.part,
        cursor.term,
        max(seen, cursor.position),
        held=tuple(place.held for place in places.values() if place.held is not None),
        freed=tuple(key for key, place in places.items() if place.held is None),
        buried=tuple(letter for place in places.values() for letter in place.buried),
    )


def _by_key(events: Sequence[Event]) -> Mapping[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in events:
        found.setdefault(event.key, []).append(event)
    return found


def _place(
    consumer: Consumer,
    part: int,
    events: Sequence[Event],
    former: HeldKey | None,
    complete: bool,
    report: Report,
    now: datetime,
    until: int = 0,
) -> _KeyProgress:
    """The progress of a key by its `events`, which are all of them if `complete`."""
    for number, event in enumerate(events):
        position = event.position or 0
        waited = former if number == 0 and former and former.position == position else None
        if event.id in report.untried:
            if former is None:
                return _KeyProgress(rests=position)
            kept = waited or HeldKey(part, event.key, position, 0, 0, now)
            return _KeyProgress(kept._replace(retry_at=now))
        if event.id in report.undelivered:
            return _KeyProgress(_unreached(part, event, waited, report, now))
        if event.id in report.rejected:
            held = _refused(part, event, waited, report, now)
            if held.failures < consumer.attempts:
                return _KeyProgress(held)
            more = number + 1 < len(events) or not complete
            behind = HeldKey(part, event.key, position + 1, 0, 0, now) if more else None
            return _KeyProgress(behind, buried=((event, held.error or ""),))
    if complete or former is None:
        return _KeyProgress()
    return _KeyProgress(HeldKey(part, former.key, until + 1, 0, 0, now))


def _unreached(
    part: int, event: Event, waited: HeldKey | None, report: Report, now: datetime
) -> HeldKey:
    failures, tries = (waited.failures, waited.tries + 1) if waited else (0, 1)
    at = now + _delay(tries, BUSY_DELAY, LONGEST_OUTAGE, event.id)
    why = told(event, report.undelivered[event.id])
    return HeldKey(part, event.key, event.position or 0, failures, tries, at, why)


def _refused(
    part: int, event: Event, waited: HeldKey | None, report: Report, now: datetime
) -> HeldKey:
    failures, tries = (waited.failures + 1, waited.tries + 1) if waited else (1, 1)
    at = now + _delay(failures, FIRST_DELAY, LONGEST_DELAY, event.id)
    why = told(event, report.rejected[event.id])
    return HeldKey(part, event.key, event.position or 0, failures, tries, at, why)


def told(event: Event, error: str) -> str:
    """The error without secrets of the event, because people read it."""
    return hiding_payload(event.data)(error)
