"""Chooses other minutes for schedules that may move, so that fewer runs overlap; pure.

Frequency, hours and days stay the same: only the minute at which a schedule starts changes. The
heaviest schedules choose first. Each takes the minute for which the fullest minute that it touches
stays lowest; on a tie it stays, or moves as little as possible.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import accumulate, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.planner import DueTimes
from duebook.triggers.cron import Cron
from duebook.triggers.daily import Daily
from duebook.triggers.every import Every
from duebook.triggers.weekly import Weekly
from duebook.triggers.zones import local_datetime

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duebook.budget import Budget
    from duebook.model.schedule import ScheduleSpec
    from duebook.triggers import Trigger

__all__ = ["Spread", "spread"]

MINUTE: Final = timedelta(minutes=1)
HOUR: Final = 60
MOST_LOOKED: Final = 200
"""Due times of one schedule that are considered when choosing its minute."""
MOST_LOOKED_MINUTES: Final = 20_000
"""Minutes of these due times that are considered, for long runs."""
LONGEST: Final = 24 * 60
"""Minutes of one run that are counted."""
_SOME_DAY: Final = datetime(2026, 6, 15, tzinfo=UTC)
_NUMBER: Final = re.compile(r"[0-9]{1,2}", re.ASCII)
_STEP: Final = re.compile(r"(?:\*|([0-9]{1,2})-59)/([0-9]{1,2})", re.ASCII)
_HASHED_STEP: Final = re.compile(r"H/([0-9]{1,2})", re.ASCII)


NOTHING_TIED: Final[Mapping[str, str]] = MappingProxyType({})


class Spread(NamedTuple):
    """The schedules that move, with their new definitions."""

    specs: dict[str, ScheduleSpec]
    movable: int
    fixed: dict[str, str]
    """schedules that were selected but cannot move, with the reason"""


def spread(
    specs: Mapping[str, ScheduleSpec],
    takes: Mapping[str, timedelta],
    start: datetime,
    until: datetime,
    label: tuple[str, str] | None,
    names: Sequence[str],
    budget: Budget | None = None,
    tied: Mapping[str, str] = NOTHING_TIED,
) -> Spread:
    """Schedules may move if they have the label, are named, or have an `H` as their minute; those
    in `tied` may not, for the given reason."""
    profile = _Profile(-(-(until - start) // MINUTE))
    movable: dict[str, list[ScheduleSpec]] = {}
    fixed: dict[str, str] = {}
    load: dict[str, _Load] = {}
    for name, spec in sorted(specs.items()):
        meant = name in names or (label is not None and label in spec.labels)
        own = _load_of(name, spec, takes[name], start, until, budget)
        if name in tied or not (meant or _is_hashed(spec)):
            if meant:
                fixed[name] = tied[name]
            profile.add(own)
            continue
        choices = _choices(spec)
        if len(choices) > 1:
            movable[name], load[name] = choices, own
        else:
            fixed[name] = "only an interval, or a trigger with one minute in each hour, can move"
            profile.add(own)
    moved: dict[str, ScheduleSpec] = {}
    heavy = sorted(movable, key=lambda name: (-len(load[name].minutes) * load[name].width, name))
    for name in heavy:
        found, offset = _best(movable[name], load[name], profile, budget)
        profile.add(load[name], offset)
        if offset:
            moved[name] = found
    return Spread(dict(sorted(moved.items())), len(movable), fixed)


class _Load(NamedTuple):
    """When a schedule is busy, in minutes from the start."""

    minutes: list[int]
    """the minutes at which it is due"""
    width: int
    """how many minutes one run touches"""

    def spans(self, offset: int = 0) -> Iterator[tuple[int, int]]:
        """The spans of its runs in minutes after the start, if its due times were moved by
        `offset`."""
        for at in self.minutes:
            yield max(at + offset, 0), max(at + offset + self.width, 0)


class _Profile:
    """How many runs there are in each minute from the start.

    Long runs are added as a start and an end, and summed up only when levels are read: a minute
    with a thousand of them costs no more than any other.
    """

    def __init__(self, minutes: int) -> None:
        self._levels = [0] * (minutes + LONGEST + HOUR)
        self._changes = [0] * (len(self._levels) + 1)
        self._pending = False

    def add(self, load: _Load, offset: int = 0) -> None:
        last = len(self._levels)
        if len(load.minutes) * load.width * 8 < last:
            for first, end in load.spans(offset):
                for minute in range(first, end):
                    self._levels[minute] += 1
            return
        for first, end in load.spans(offset):
            self._changes[min(first, last)] += 1
            self._changes[min(end, last)] -= 1
        self._pending = True

    def levels(self, load: _Load, offset: int) -> list[int]:
        """The levels of the minutes in which the first due times of a schedule would run."""
        if self._pending:
            summed = accumulate(self._changes)
            self._levels = [was + more for was, more in zip(self._levels, summed, strict=False)]
            self._changes = [0] * len(self._changes)
            self._pending = False
        most = max(MOST_LOOKED_MINUTES // load.width, 1)
        looked = islice(load.spans(offset), min(MOST_LOOKED, most))
        return [level for first, end in looked for level in self._levels[first:end]]


def _load_of(
    name: str,
    spec: ScheduleSpec,
    takes: timedelta,
    start: datetime,
    until: datetime,
    budget: Budget | None,
) -> _Load:
    due = DueTimes(spec, (), start, name, budget).among(start, until)
    minutes, begun = [], timedelta()
    for at in due:
        minute, rest = divmod(at - start, MINUTE)
        minutes.append(minute)
        begun = max(begun, rest)  # a run that starts at 02:00:25 may touch one minute more
    return _Load(minutes, min(max(-(-(takes + begun) // MINUTE), 1), LONGEST))


def _best(
    choices: Sequence[ScheduleSpec], load: _Load, profile: _Profile, budget: Budget | None
) -> tuple[ScheduleSpec, int]:
    """The best definition, and how many minutes it is later than the present one."""
    now = _minute_of(choices[0])

    def cost(offset: int) -> tuple[int, int, int]:
        if budget is not None:
            budget.spend()
        levels = profile.levels(load, offset)
        return max(levels, default=0), sum(level * level for level in levels), abs(offset)

    ranked = [(cost(_minute_of(choice) - now), choice) for choice in choices]
    _, found = min(ranked, key=lambda one: one[0])
    return found, _minute_of(found) - now


# -- triggers


def _is_hashed(spec: ScheduleSpec) -> bool:
    """Whether its minute is chosen by hashing (`H`)."""
    first = spec.triggers[0] if len(spec.triggers) == 1 else None
    fields = first.expression.split() if isinstance(first, Cron) else []
    return len(fields) == 5 and fields[0].startswith("H")


def _choices(spec: ScheduleSpec) -> list[ScheduleSpec]:
    """Its definition at every minute that it may have, the present one first."""
    if len(spec.triggers) != 1:
        return [spec]
    now, others = _movable(spec.triggers[0])
    return [replace(spec, triggers=(trigger,)) for trigger in (now, *others)]


def _movable(trigger: Trigger) -> tuple[Trigger, list[Trigger]]:
    """The trigger with its minute written out, and the same trigger at other minutes."""
    if isinstance(trigger, Cron):
        return _move_cron(trigger)
    if isinstance(trigger, Daily | Weekly) and len({at.minute for at in trigger.times}) == 1:
        here = trigger.times[0].minute
        return trigger, [_at_minute(trigger, m) for m in range(HOUR) if m != here]
    if isinstance(trigger, Every) and trigger.anchor is not None:
        length, rest = divmod(trigger.period, MINUTE)
        if length > 1 and not rest and trigger.period < timedelta(days=1):
            here = _offset(trigger)
            first = trigger.anchor - here * MINUTE
            steps = range(min(length, HOUR))
            return trigger, [
                replace(trigger, anchor=first + m * MINUTE) for m in steps if m != here
            ]
    return trigger, []


def _move_cron(trigger: Cron) -> tuple[Trigger, list[Trigger]]:
    fields = trigger.expression.split()
    if len(fields) != 5:
        return trigger, []
    minute, rest = fields[0], fields[1:]

    key = trigger.key if any("H" in field for field in rest) else None

    def at(text: str) -> Trigger:
        return replace(trigger, expression=" ".join([text, *rest]), key=key)

    if _NUMBER.fullmatch(minute) or minute == "H":
        here = _first_minute(trigger)
        return at(str(here)), [at(str(m)) for m in range(HOUR) if m != here]
    found = _STEP.fullmatch(minute) or _HASHED_STEP.fullmatch(minute)
    if found is not None:
        step, here = int(found.groups()[-1]), _first_minute(trigger)
        if 1 < step < HOUR and HOUR % step == 0 and here < step:
            texts = {m: f"{m}-59/{step}" if m else f"*/{step}" for m in range(step)}
            return at(texts[here]), [at(texts[m]) for m in texts if m != here]
    return trigger, []


def _first_minute(trigger: Cron) -> int:
    """The first minute at which it is due in each of its hours."""
    minute = trigger.expression.split()[0]
    if _NUMBER.fullmatch(minute):
        return int(minute)
    if (found := _STEP.fullmatch(minute)) is not None:
        return int(found[1] or 0)
    due_at = trigger.next_after(_SOME_DAY)
    here = 0 if due_at is None else local_datetime(due_at, trigger.tz).minute
    hashed = _HASHED_STEP.fullmatch(minute)
    return here if hashed is None else here % int(hashed[1])


def _at_minute(trigger: Daily | Weekly, minute: int) -> Trigger:
    times = tuple(time(at.hour, minute, at.second) for at in trigger.times)
    return replace(trigger, times=times)


def _offset(trigger: Every) -> int:
    """Minutes after the hour, or after a multiple of the period if that is shorter."""
    assert trigger.anchor is not None  # noqa: S101 - the caller has checked
    length = trigger.period // MINUTE
    return int(trigger.anchor.timestamp() // 60) % min(length, HOUR)


def _minute_of(spec: ScheduleSpec) -> int:
    trigger = spec.triggers[0]
    if isinstance(trigger, Cron):
        return _first_minute(trigger)
    if isinstance(trigger, Daily | Weekly):
        return trigger.times[0].minute
    return _offset(trigger) if isinstance(trigger, Every) else 0
