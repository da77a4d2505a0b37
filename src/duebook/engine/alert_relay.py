"""Serves the alerts of all namespaces: steps their evaluators in one thread, and starts channels
that have something to deliver, a few at a time."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from duebook.backoff import backoff
from duebook.engine.alert_desk import AlertDesk, tidy_channels
from duebook.engine.alert_looks import EARLY
from duebook.errors import DuebookError
from duebook.randomness import fraction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import timedelta

    from duebook.engine.alert_desk import Key, Seen
    from duebook.engine.alert_evaluator import AlertEvaluator
    from duebook.model.consumer import Consumer
    from duebook.store.base import Store

__all__ = ["AlertRelay"]

log = logging.getLogger(__name__)

LONGEST: Final = 3_600.0
SHORTEST: Final = 0.1
"""Minimum seconds between two steps that were not asked for."""
LINGERS: Final = 5.0
"""Seconds for which a channel keeps its thread after it has delivered everything."""
MOST_BUSY: Final = 16
"""Channels that deliver at the same time; the others wait for their turn."""
SETTLED: Final = 60.0
"""Seconds after which an event has surely received its position in the log."""


class AlertRelay:
    """One per node. `begin` starts a channel, which ends after a while without work."""

    def __init__(
        self,
        store: Store,
        lease: timedelta,
        begin: Callable[[Consumer, float], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._lease = lease
        self._begin = begin
        self._monotonic = monotonic
        self._desk = AlertDesk(store)
        self._evaluating: dict[Key, _Evaluating] = {}
        self._channels: dict[Key, Consumer] = {}
        """the channels known from the last look"""
        self._served_at: dict[Key, float] = {}
        self._untidy: dict[str, float] = {}
        """namespaces that may have unused channels, and when to look for them"""

    def new_channels(self, consumers: Mapping[Key, Consumer]) -> list[tuple[Key, Consumer]]:
        """Channels that are new or have changed."""
        channels = {key: one for key, one in consumers.items() if one.kind == "alert_channel"}
        known, self._channels = self._channels, channels
        return [(key, one) for key, one in channels.items() if known.get(key) != one]

    def step(self, consumers: Mapping[Key, Consumer], serving: Collection[Key]) -> float:
        """Do what there is to do for these consumers, given those already being served; returns in
        how many seconds to look again."""
        for key, one in list(self._evaluating.items()):
            if consumers.get(key) != one.consumer:
                self._end(key)
        self._end_idle()
        if not consumers:
            return LONGEST
        seen = self._desk.look(consumers.values(), self._monotonic())
        due = seen.due()
        for key in due:
            if key not in self._channels and key not in self._evaluating:
                self._evaluating[key] = _Evaluating(
                    self._store, consumers[key], self._lease, self._monotonic
                )
        self._serve_channels([key for key in due if key in self._channels], serving)
        rests = self._evaluate(seen)
        retry = seen.next_time(self._evaluating)
        rests += [] if retry is None else [max(retry, SHORTEST)]
        self._end_idle()
        return min([LONGEST, *rests, *self._tidy()])

    def _evaluate(self, seen: Seen) -> list[float]:
        """In how many seconds each evaluator wants its next step."""
        for key in seen.looks():
            if key in self._evaluating:
                self._evaluating[key].look()
        return [one.step(seen.latest.get(key, 0)) for key, one in self._evaluating.items()]

    def _end_idle(self) -> None:
        for key, one in list(self._evaluating.items()):
            if one.evaluator.is_idle:
                self._end(key)

    def _serve_channels(self, due: list[Key], serving: Collection[Key]) -> None:
        """Start those that have waited longest; the end of one causes the next step."""
        now = self._monotonic()
        busy = [key for key in serving if key in self._channels]
        self._served_at.update(dict.fromkeys(busy, now))
        free = [key for key in due if key not in serving]
        free.sort(key=lambda key: self._served_at.get(key, 0.0))
        for key in free[: MOST_BUSY - len(busy)]:
            self._served_at[key] = now
            self._untidy[key[0]] = now + SETTLED
            self._begin(self._channels[key], LINGERS)

    def _tidy(self) -> list[float]:
        """Delete channels whose rules were deleted with their schedules."""
        now = self._monotonic()
        for namespace in [name for name, at in self._untidy.items() if at <= now]:
            self._store.transact(lambda tx, of=namespace: tidy_channels(tx, of))  # type: ignore[misc]
            del self._untidy[namespace]
        return [at - now for at in self._untidy.values()]

    def _end(self, key: Key) -> None:
        evaluator = self._evaluating.pop(key).evaluator
        evaluator.close()
        if evaluator.has_decided:
            self._untidy[key[0]] = self._monotonic() + SETTLED

    def close(self) -> None:
        """Leave the evaluators to other nodes."""
        for one in self._evaluating.values():
            one.evaluator.close()


class _Evaluating:
    """An evaluator between its steps; a failing one is retried and does not hold up the others."""

    def __init__(
        self,
        store: Store,
        consumer: Consumer,
        lease: timedelta,
        monotonic: Callable[[], float],
    ) -> None:
        from duebook.engine.alert_evaluator import AlertEvaluator  # few nodes have alert rules

        self.consumer = consumer
        self.evaluator: AlertEvaluator = AlertEvaluator(store, consumer, lease, monotonic)
        self._monotonic = monotonic
        self._next = float("-inf")
        self._latest = -1
        self._failures = 0

    def look(self) -> None:
        """The state may have changed."""
        if not self._failures:
            self._next = min(self._next, self._monotonic() + self.evaluator.hasten())

    def step(self, latest: int) -> float:
        """Step if it is time, or if there is a newer event; returns in how many seconds to step
        again."""
        if (left := self._next - self._monotonic()) > EARLY and latest <= self._latest:
            return left
        quiet = latest <= self._latest and not self._failures
        self._latest = latest
        try:
            rest = self.evaluator.step(quiet)
            self._failures = 0
        except Exception as error:
            self._failures += 1
            if isinstance(error, DuebookError):
                log.warning("alert rules of %s: %s", self.consumer.namespace, error)
            else:
                log.exception("alert rules of %s: a step failed", self.consumer.namespace)
            self.evaluator.hurry()
            rest = backoff(self._failures, fraction(self.evaluator.member, self._failures))
        self._next = self._monotonic() + rest
        return rest
