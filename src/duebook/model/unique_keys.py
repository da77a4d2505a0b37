"""Keys of enqueued runs: how long a run keeps its key, and what happens to a call whose key is
taken. Pure: the run that has the key, and the time, are arguments."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from duebook.errors import Invalid, InvalidTime, quoted
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import read_positive_length
from duebook.timetext import format_duration, parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duebook.model.run import Run

__all__ = [
    "FOREVER",
    "KEY_OPTIONS",
    "Holder",
    "KeyResult",
    "KeyRule",
    "Replaces",
    "Stays",
    "Takes",
    "Until",
    "is_pending",
    "load_key_rule",
    "meet",
    "read_unique",
]

Until = Literal["pending", "active", "forever", "time"]
"""How long a run keeps its key: until it starts, until it ends, forever, or for a time."""
KeyResult = Literal["created", "existing", "payload_ignored", "payload_replaced"]
MAX_WAIT_FACTOR: Final = 10
"""The default of a debounced run's longest wait, as a multiple of its debounce."""
_WORDS: Final = ("pending", "active", "forever")
_NOTHING: Final = timedelta()


@dataclass(frozen=True, slots=True)
class KeyRule:
    """The options of a call that concern its key."""

    until: Until = "forever"
    length: timedelta | None = None
    """for `time`: how long after the run was created"""
    debounce: timedelta | None = None
    max_wait: timedelta | None = None
    throttle: timedelta | None = None

    @property
    def replaces(self) -> bool:
        """Whether the newest payload wins, as long as the run has not started."""
        return self.debounce is not None or self.throttle is not None

    def free_at(self, now: datetime) -> datetime | None:
        """When the key of a run that is created now becomes free, if that depends on time alone."""
        return None if self.length is None else now + self.length

    def delay(self, given: timedelta) -> timedelta:
        """How long after a call the run that it creates is ready."""
        return given if self.debounce is None else self.debounce


FOREVER: Final = KeyRule()


class Holder(NamedTuple):
    """The run that has a key, and until when."""

    run: Run
    until: Until
    free_at: datetime | None

    def has_key(self, now: datetime) -> bool:
        if self.free_at is not None:
            return now < self.free_at
        if self.until == "pending":
            return is_pending(self.run)
        return self.until == "forever" or self.run.is_active


class Takes(NamedTuple):
    """The key is free: a new run gets it."""

    ready_at: datetime


class Stays(NamedTuple):
    """The run that has the key stays unchanged."""

    result: KeyResult


class Replaces(NamedTuple):
    """The run that has the key gets the newer payload, and another time to be ready."""

    ready_at: datetime
    result: KeyResult


def is_pending(run: Run) -> bool:
    """Whether no worker has ever claimed it. A claim into a worker's buffer counts: a run that was
    handed back, or is retried, does not become pending again."""
    return run.status == "queued" and run.attempt == 0


def meet(
    rule: KeyRule, delay: timedelta, payload: Mapping[str, Any], holder: Holder, now: datetime
) -> Takes | Stays | Replaces:
    """The result of a call whose key already has a run."""
    if not holder.has_key(now):
        return Takes(max(now + rule.delay(delay), _spaced(rule, holder.run, now)))
    is_same = dict(payload) == (holder.run.payload or {})
    if not rule.replaces or not is_pending(holder.run):
        return Stays("existing" if is_same else "payload_ignored")
    result: KeyResult = "existing" if is_same else "payload_replaced"
    return Replaces(_moved(rule, holder.run, now), result)


def _spaced(rule: KeyRule, last: Run, now: datetime) -> datetime:
    """When the next run may be ready by `throttle`, which counts from the start of the last."""
    if rule.throttle is None:
        return now
    if last.attempt == 0:  # it never started, and its own ready time was allowed already
        return last.ready_at
    return (last.claimed_at or max(now, last.ready_at)) + rule.throttle


def _moved(rule: KeyRule, run: Run, now: datetime) -> datetime:
    """When a run is ready after another call: later, but within its longest wait."""
    if rule.debounce is None:
        return run.ready_at
    latest = run.created_at + (rule.max_wait or rule.debounce)
    return max(run.ready_at, min(now + rule.debounce, latest))


def read_unique(field: str, value: Any) -> tuple[Until, timedelta | None]:
    """`pending`, `active`, `forever`, or how long a key is taken; raises Invalid."""
    for word in _WORDS:
        if value == word:
            found: Until = next(until for until in get_args(Until) if until == word)
            return found, None
    try:
        length = parse_duration(value)
    except InvalidTime:
        length = _NOTHING
    if length <= _NOTHING:
        known = ", ".join(_WORDS)
        raise Invalid(f"{field} {quoted(value)} is not {known} or a duration such as 1h")
    return "time", length


KEY_OPTIONS: Final = {
    "unique": read_unique,
    "debounce": read_positive_length,
    "max_wait": read_positive_length,
    "throttle": read_positive_length,
}
"""The options of `enqueue` that concern its key, with their readers."""


def load_key_rule(key: str | None, given: Mapping[str, Any], delay: timedelta) -> KeyRule:
    """The rule for options that their readers have parsed; raises Invalid for those that cannot be
    combined."""
    if not given:
        return FOREVER
    if key is None:
        example = "pass key, such as key=customer-17 (--key customer-17)"
        raise Invalid(f"{next(iter(given))} needs a key: {example}")
    debounce, throttle = given.get("debounce"), given.get("throttle")
    until: Until = "forever" if debounce is None and throttle is None else "pending"
    length: timedelta | None = None
    if "unique" in given:
        until, length = given["unique"]
    if debounce is not None and throttle is not None:
        raise Invalid("debounce and throttle cannot be combined; choose one")
    if (debounce or throttle) and until != "pending":
        word = "debounce" if debounce else "throttle"
        raise Invalid(f"{word} changes runs that have not started; leave out unique")
    if debounce is not None and delay:
        raise Invalid("delay and debounce cannot be combined: debounce is the delay")
    return KeyRule(until, length, debounce, _longest(debounce, given.get("max_wait")), throttle)


def _longest(debounce: timedelta | None, max_wait: timedelta | None) -> timedelta | None:
    if debounce is None:
        if max_wait is not None:
            raise Invalid("max_wait is for debounce; pass debounce, or leave it out")
        return None
    if max_wait is None:
        return debounce * MAX_WAIT_FACTOR
    if max_wait < debounce:
        told = f"{format_duration(max_wait)} is shorter than debounce {format_duration(debounce)}"
        raise Invalid(f"max_wait {told}")
    return max_wait
