"""Decides which alert evaluators and channels have work to do, by reading the new end of the log.

Alerts are rare. Evaluators and channels are started when there is work for them, and stop after a
while without any: at rest, rules and channels cost neither threads nor queries.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass
from duebook.model.alert import ALERTS, FOLLOWED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from duebook.model.alert_facts import AlertReader
    from duebook.model.consumer import Consumer
    from duebook.store.base import Store, Tx

__all__ = ["AlertDesk", "Key", "Seen", "tidy_channels"]

MOST_BEHIND: Final = 1_000
"""An idle cursor this many positions behind the end of the log is moved at once; otherwise only
every ADVANCE_EVERY seconds."""
ADVANCE_EVERY: Final = 60.0
BATCH: Final = 500
Key = tuple[str, str]
"""namespace and name of a consumer"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look at the log found."""

    now: datetime
    readers: tuple[AlertReader, ...]
    end: int
    """the last position of the log"""
    latest: Mapping[Key, int] = field(default_factory=dict)
    """the position of the last event for each reader that has one"""

    def idle(self) -> list[AlertReader]:
        """Readers without an owner that have nothing to deliver."""
        return [one for one in self.readers if not one.owned and not self._is_due(one)]

    def due(self) -> list[Key]:
        """Readers without an owner that have work to do."""
        return [
            one[:2]
            for one in self.readers
            if not one.owned
            and (self._looks(one) or one.waiting or self._has_events(one) or self._retries(one))
        ]

    def looks(self) -> list[Key]:
        """Readers with time-based rules that are due for a look."""
        return [one[:2] for one in self.readers if self._looks(one)]

    def _looks(self, one: AlertReader) -> bool:
        return one.look_at is not None and one.look_at <= self.now

    def _is_due(self, one: AlertReader) -> bool:
        return one.waiting or one.retry_at is not None or self._has_events(one)

    def _has_events(self, one: AlertReader) -> bool:
        """Not while deliveries to a failing receiver are paused, even if events wait."""
        return one.retry_at is None and self.latest.get(one[:2], 0) > one.position

    def _retries(self, one: AlertReader) -> bool:
        return one.retry_at is not None and one.retry_at <= self.now

    def next_time(self, besides: Collection[Key]) -> float | None:
        """Seconds until a reader without an owner is due for a retry or a look."""
        idle = [one for one in self.readers if not one.owned and one[:2] not in besides]
        times = [at for one in idle for at in (one.retry_at, one.look_at) if at]
        return min(((at - self.now).total_seconds() for at in times), default=None)


class AlertDesk:
    """Remembers the last event for each reader, so that each stretch of the log is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._latest: dict[Key, int] = {}
        self._known: tuple[int, int] | None = None
        """the stretch of the log for which the last events are known"""
        self._advanced_at = float("-inf")

    def look(self, consumers: Iterable[Consumer], clock: float) -> Seen:
        """What there is to do for these consumers; `clock` is monotonic."""
        names = {(one.namespace, one.name) for one in consumers}
        seen = self._store.read(lambda tx: self._look(tx, names))
        idle = [one for one in seen.idle() if one.position < seen.end]
        behind = max((seen.end - one.position for one in idle), default=0)
        if behind >= MOST_BEHIND or (behind and clock - self._advanced_at >= ADVANCE_EVERY):
            self._advanced_at = clock
            self._store.transact(lambda tx: _advance(tx, idle, seen.end))
        return seen

    def _look(self, tx: Tx, names: Collection[Key]) -> Seen:
        readers = tuple(one for one in tx.alerts.readers() if one[:2] in names)
        # What is read below is kept until the next look, also for consumers too new for `names`.
        self._latest = {key: at for key, at in self._latest.items() if key in names}
        end = tx.events.last_position()
        first = min((one.position for one in readers), default=end)
        if self._known is None or first < self._known[0]:
            self._read(tx, first, end)
            self._known = (first, end)
        elif end > self._known[1]:
            self._read(tx, self._known[1], end)
            self._known = (self._known[0], end)
        return Seen(tx.now, readers, end, dict(self._latest))

    def _read(self, tx: Tx, after: int, until: int) -> None:
        found = tx.alerts.last_events(after, until, (*FOLLOWED, ALERTS))
        for (namespace, topic), position in found.items():
            if topic == ALERTS:
                self._read_alerts(tx, namespace, after, position)
            else:
                self._note((namespace, ALERTS), position)

    def _read_alerts(self, tx: Tx, namespace: str, after: int, until: int) -> None:
        """Each alert names its channels."""
        while after < until:
            batch = tx.events.read_events(namespace, after, BATCH, [ALERTS])
            for event in batch.events:
                for name in event.data.get("channels", ()):
                    self._note((namespace, name), event.position or 0)
            after = batch.after

    def _note(self, key: Key, position: int) -> None:
        self._latest[key] = max(position, self._latest.get(key, 0))


def _advance(tx: Tx, idle: Iterable[AlertReader], until: int) -> None:
    places: dict[tuple[str, int], list[str]] = {}
    for one in idle:
        places.setdefault((one.namespace, one.position), []).append(one.name)
    for (namespace, position), names in sorted(places.items()):
        tx.consumers.advance_idle(namespace, names, position, until)


def tidy_channels(tx: Tx, namespace: str) -> None:
    """Delete channels whose rules were deleted with their schedules, once they have delivered
    everything; with the last of them, delete the reader of the log."""
    tx.consumers.lock_consumer(namespace, ALERTS)
    rules = tx.alerts.list_rules(namespace)
    used = {name for rule in rules for name in rule.to}
    channels = [
        one.name for one in tx.consumers.list_consumers(namespace) if one.kind == "alert_channel"
    ]
    if unused := [name for name in channels if name not in used]:
        before = tx.events.last_position() + 1
        latest = tx.events.read_events_back(namespace, before, 1, [ALERTS]).events
        until = max((event.position or 0 for event in latest), default=0)
        for name in unused:
            parts = tx.consumers.list_partitions(namespace, name)
            if all(part.position >= until and not part.held for part in parts):
                tx.consumers.remove_consumer(namespace, name)
                used.add(name)
    if not rules and all(name in used for name in channels):
        tx.consumers.remove_consumer(namespace, ALERTS)
