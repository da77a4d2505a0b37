"""Turns the counts of a simulation into a report of limited size; pure."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from duebook.foresight.entry import from_micros
from duebook.model.simulation import (
    MOST_BREACHES,
    BusyMinute,
    ClockChange,
    Holdup,
    Outlook,
    SimulationReport,
)
from duebook.planner import DueTimes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duebook.foresight.entry import Entry, Figures
    from duebook.foresight.simulate import Simulated
    from duebook.model.simulation import Source

__all__ = ["report_of"]

MOST_OUTLOOKS: Final = 1_000
MOST_MINUTES: Final = 10
MOST_NAMES: Final = 8
MOST_HOLDUPS: Final = 20
MOST_CHANGES: Final = 50
MOST_ASSUMED: Final = 100
COLUMNS: Final = 720
WEEK: Final = 7 * 24
MINUTE: Final = timedelta(minutes=1)
_FIRST_MONDAY: Final = 4 * 24
"""Hours from the epoch, which was a Thursday, to the first Monday."""


def report_of(
    found: Simulated, sources: Mapping[str, Source], percentile: int, assumed_takes: timedelta
) -> SimulationReport:
    """The report; `sources` explain, by schedule, how the duration of its runs was determined."""
    outlooks = [_outlook(entry, sources[entry.name]) for entry in found.entries]
    outlooks.sort(key=lambda one: (-one.skipped, -one.late_most, -one.overlaps, one.name))
    skips: Counter[str] = sum((Counter(o.skips) for o in outlooks), Counter())
    late = sorted(late for entry in found.entries for late in entry.figures.late)
    runs = sum(one.runs for one in outlooks)
    waiting = sum(one.waiting for one in outlooks)
    load, workers = found.load, found.workers
    peak = load.peak if workers is None else min(load.peak, workers)
    step, running = _columns(found)
    assumed = [name for name, source in sorted(sources.items()) if source == "assumed"]
    return SimulationReport(
        found.start,
        found.until,
        workers,
        percentile,
        len(found.entries),
        found.due_times,
        runs,
        dict(skips.most_common()),
        _late_at(late, runs + waiting, 0.5),
        _late_at(late, runs + waiting, 0.95),
        timedelta(microseconds=late[-1] if late else 0),
        peak,
        from_micros(load.peak_at) if load.peak else None,
        _busiest(found, peak),
        _most_affected(outlooks),
        _holdups(found.entries),
        tuple(_clock_changes(found)),
        step,
        running,
        _hours(found),
        tuple(assumed[:MOST_ASSUMED]),
        assumed_takes,
        len(assumed),
    )


def _most_affected(outlooks: Sequence[Outlook]) -> tuple[Outlook, ...]:
    """The first ones, and always the latest one, which a gate names."""
    if len(outlooks) <= MOST_OUTLOOKS:
        return tuple(outlooks)
    latest = nlargest(MOST_BREACHES, outlooks, key=lambda one: one.late_most)
    names = {one.name for one in latest}
    others = [one.name for one in outlooks if one.name not in names]
    names.update(others[: MOST_OUTLOOKS - len(names)])
    return tuple(one for one in outlooks if one.name in names)


def _outlook(entry: Entry, source: Source) -> Outlook:
    figures: Figures = entry.figures
    late = sorted(figures.late)
    waiting = sum(not run.attempt for run in entry.waiting) + figures.undecided
    number = figures.runs + waiting
    return Outlook(
        entry.name,
        entry.takes,
        source,
        figures.runs,
        {reason: count for reason, count in figures.skips.most_common() if count},
        _late_at(late, number, 0.5),
        _late_at(late, number, 0.95),
        timedelta(microseconds=figures.most_late),
        from_micros(figures.most_late_due) if figures.most_late else None,
        figures.overlaps,
        figures.cancelled,
        figures.timed_out,
        waiting,
    )


def _late_at(late: Sequence[int], number: int, share: float) -> timedelta:
    """The lateness that this share of all runs does not exceed; `late` only lists the late runs."""
    place = min(int(share * number), number - 1) - (number - len(late))
    return timedelta(microseconds=late[place]) if late and place >= 0 else timedelta()


def _busiest(found: Simulated, peak: int) -> tuple[BusyMinute, ...]:
    """The minutes with the most active runs, then those in which most runs start."""
    load = found.load
    began = (minute for minute, started in enumerate(load.started) if started)
    top = nlargest(MOST_MINUTES, began, key=lambda m: (load.busiest[m], load.started[m], -m))
    return tuple(
        BusyMinute(
            load.minute_at(minute),
            min(load.busiest[minute], peak),
            load.started[minute],
            _due_in(found.entries, load.minute_at(minute)),
        )
        for minute in top
    )


def _due_in(entries: Iterable[Entry], minute: datetime) -> tuple[str, ...]:
    names: list[str] = []
    before = minute - timedelta(microseconds=1)
    for entry in entries:
        if entry.snapshot.status == "paused":
            continue
        windows = entry.snapshot.windows
        due = DueTimes(entry.spec, (), before, entry.name, windows=windows)
        due_at = due.next_after(before)
        if due_at is not None and due_at < minute + MINUTE:
            names.append(entry.name)
        if len(names) == MOST_NAMES:
            break
    return tuple(names)


def _holdups(entries: Iterable[Entry]) -> tuple[Holdup, ...]:
    """The schedules for which other runs waited longest."""
    waited: dict[str, Counter[str]] = {}
    for entry in entries:
        for name, length in entry.figures.blocked_by.items():
            waited.setdefault(name, Counter())[entry.name] += length
    worst = nlargest(MOST_HOLDUPS, waited.items(), key=lambda item: (item[1].total(), item[0]))
    return tuple(
        Holdup(
            name,
            timedelta(microseconds=others.total()),
            tuple(other for other, _ in others.most_common(MOST_NAMES)),
        )
        for name, others in worst
        if others.total()
    )


def _clock_changes(found: Simulated) -> Iterable[ClockChange]:
    left = MOST_CHANGES
    for entry in found.entries:
        for trigger in entry.spec.triggers:
            omitted = trigger.omitted(found.start, found.until, min(left, 3)) if left else ()
            for one in omitted:
                left -= 1
                yield ClockChange(entry.name, f"{one.wall:%Y-%m-%d %H:%M}", one.moved_to)


def _columns(found: Simulated) -> tuple[timedelta, tuple[int, ...]]:
    """The most active runs in each of the steps that fit into a chart."""
    busiest = found.load.busiest
    length = max((found.until - found.start) // MINUTE, 1)
    step = -(-length // COLUMNS)
    shown = busiest[: length + 1]
    return step * MINUTE, tuple(max(shown[n : n + step]) for n in range(0, length, step))


def _hours(found: Simulated) -> tuple[int, ...]:
    hours = [0] * WEEK
    for minute, started in enumerate(found.load.started):
        if started:
            hour = int(found.load.minute_at(minute).timestamp()) // 3_600
            hours[(hour - _FIRST_MONDAY) % WEEK] += started
    return tuple(hours)
