"""Compares the due times of a definition under two versions of time zone data; pure."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from duebook.model.plan import CONTROLS
from duebook.model.zones_diff import MovedDueTime
from duebook.planner.controls import control_spec
from duebook.planner.due import DueTimes
from duebook.triggers.other_zones import no_step
from duebook.triggers.zones import from_seconds, local_datetime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from duebook.model.plan import DueException, Kind
    from duebook.model.schedule import ScheduleSpec
    from duebook.triggers import Trigger

__all__ = ["counts_from_anchor", "moved_due_times", "zones_of"]

MOST: Final = 20_000
"""Due times of a stretch that are compared."""
Interval = tuple[int, int]


def zones_of(spec: ScheduleSpec) -> set[str]:
    """The zones that a definition uses."""
    every = (*spec.triggers, *spec.stop, *spec.restart)
    return {tz for trigger in every if (tz := getattr(trigger, "tz", None)) is not None}


def counts_from_anchor(spec: ScheduleSpec) -> bool:
    """Whether due times depend on what clocks showed at an instant in the past."""
    every = (*spec.triggers, *spec.stop, *spec.restart)
    return any(
        getattr(trigger, "anchor", None) or getattr(trigger, "dtstart", None) for trigger in every
    )


def moved_due_times(
    spec: ScheduleSpec,
    exceptions: Sequence[DueException],
    name: str,
    other: Callable[[str], str],
    stretches: Iterable[Interval],
    decided: datetime,
    step: Callable[[], None] = no_step,
) -> tuple[list[MovedDueTime], bool]:
    """What moves within stretches of UTC seconds when each zone is replaced by the one that `other`
    returns for its name; and whether that is all. Due times with the same wall time are matched.
    `step` is called for each due time that is read, and may raise."""
    moved: list[MovedDueTime] = []
    complete = True
    places = list(stretches)
    for kind, one in _kinds(spec):
        new = _retimed(one, other)
        said = exceptions if kind == "start" else ()
        was, will = (DueTimes(of, said, decided, name) for of in (one, new))
        for start, end in places:
            place = max(from_seconds(start), decided), from_seconds(end)
            old, theirs, whole = _comparable(was.among(*place), will.among(*place), step)
            moved += _pairs(old, theirs, one.tz, new.tz, kind)
            complete &= whole
    return sorted(moved, key=lambda one: one.was or one.becomes or decided), complete


def _kinds(spec: ScheduleSpec) -> Iterator[tuple[Kind, ScheduleSpec]]:
    if spec.triggers:
        yield "start", spec
    for kind in CONTROLS:
        if (of := control_spec(spec, kind)).triggers:
            yield kind, of


def _comparable(
    old: Iterable[datetime], new: Iterable[datetime], step: Callable[[], None]
) -> tuple[list[datetime], list[datetime], bool]:
    """The first due times of both, up to the same instant; and whether these are all."""
    both = [list(_counted(islice(times, MOST + 1), step)) for times in (old, new)]
    last = min((times[MOST] for times in both if len(times) > MOST), default=None)
    first, second = ([at for at in times if last is None or at < last] for times in both)
    return first, second, last is None


def _counted(times: Iterable[datetime], step: Callable[[], None]) -> Iterator[datetime]:
    for at in times:
        step()
        yield at


def _retimed(spec: ScheduleSpec, other: Callable[[str], str]) -> ScheduleSpec:
    return replace(spec, triggers=tuple(_in_other(one, other) for one in spec.triggers))


def _in_other(trigger: Trigger, other: Callable[[str], str]) -> Trigger:
    tz = getattr(trigger, "tz", None)
    if tz is None or other(tz) == tz:
        return trigger
    changes: dict[str, Any] = {"tz": other(tz)}
    return replace(trigger, **changes)  # type: ignore[type-var]


def _pairs(
    old: Sequence[datetime], new: Sequence[datetime], tz: str, new_tz: str, kind: Kind
) -> Iterator[MovedDueTime]:
    gone, added = sorted(set(old) - set(new)), sorted(set(new) - set(old))
    by_wall = {_wall(at, new_tz): at for at in added}
    pairs = {at: by_wall.pop(_wall(at, tz), None) for at in gone}
    alone = [at for at, becomes in pairs.items() if becomes is None]
    # all were shifted on the wall: they count from an anchor
    if len(gone) == len(alone) == len(by_wall):
        pairs |= zip(alone, by_wall.values(), strict=True)
        by_wall = {}
    yield from (MovedDueTime(*pair, kind) for pair in pairs.items())
    yield from (MovedDueTime(None, at, kind) for at in by_wall.values())


def _wall(at: datetime, tz: str) -> datetime:
    return local_datetime(at, tz).replace(tzinfo=None)
