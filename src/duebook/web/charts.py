"""Draws runs and loads as SVG: numbers in, paths and rectangles out; pure, and without style."""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from duebook.triggers.zones import local_datetime
from duebook.web.times import length_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.insight import Coming, HourLoad, RunMark
    from duebook.web.times import Clock

__all__ = ["duration_chart", "load_chart", "strip", "time_line"]

STRIP_HEIGHT: Final = 20
BAR: Final = 5
CHART_WIDTH: Final = 720
CHART_HEIGHT: Final = 140


def strip(marks: Sequence[RunMark], most: int) -> Markup:
    """The recent runs of a schedule: colour is how they ended, height is how long they took."""
    if not marks:
        return Markup('<span class="none">no runs yet</span>')
    paths: dict[str, list[str]] = {}
    longest = max((_seconds(mark.took) for mark in marks), default=0.0)
    for number, mark in enumerate(marks, most - len(marks)):
        height = _height(_seconds(mark.took), longest, STRIP_HEIGHT)
        paths.setdefault(mark.status, []).append(
            f"M{number * BAR} {STRIP_HEIGHT}v-{height}h4v{height}"
        )
    drawn = Markup("").join(
        Markup('<path class="run-{}" d="{}"/>').format(status, "".join(parts))
        for status, parts in paths.items()
    )
    return Markup(
        '<svg class="strip" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">'
        "{}</svg>"
    ).format(most * BAR, STRIP_HEIGHT, most * BAR, STRIP_HEIGHT, _words(marks), drawn)


def _words(marks: Sequence[RunMark]) -> str:
    counts = Counter(mark.status for mark in marks)
    told = ", ".join(f"{number} {status}" for status, number in counts.most_common())
    return f"the last {len(marks)} runs: {told}" if len(marks) > 1 else f"one run: {told}"


def _seconds(length: timedelta | None) -> float:
    return max(length.total_seconds(), 0.0) if length else 0.0


def _height(value: float, longest: float, room: int) -> int:
    """Between a fifth of the room and all of it; differences of a tenth are not worth a pixel."""
    if longest <= 0:
        return room // 2
    return max(round(room * math.sqrt(value / longest)), room // 5)


def duration_chart(marks: Sequence[RunMark], clock: Clock) -> Markup:
    """How long each run took, each with its own hint; a line at the mean of those that ended."""
    ended = [mark for mark in marks if mark.took is not None]
    if len(ended) < 2:
        return Markup("")
    longest = max(_seconds(mark.took) for mark in ended) or 1.0
    wide = CHART_WIDTH / len(ended)
    bars = Markup("").join(
        Markup(
            '<rect class="run-{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
        ).format(
            mark.status,
            round(number * wide, 1),
            CHART_HEIGHT - _bar(mark, longest),
            round(max(wide - 1, 1), 1),
            _bar(mark, longest),
            f"{clock.text(mark.at)}: {mark.status} after {length_text(mark.took)}",
        )
        for number, mark in enumerate(ended)
    )
    mean = sum(_seconds(mark.took) for mark in ended) / len(ended)
    level = round(CHART_HEIGHT - mean / longest * (CHART_HEIGHT - 4), 1)
    return Markup(
        '<svg class="chart" viewBox="0 0 {0} {1}" preserveAspectRatio="none" role="img" '
        'aria-label="{2}">{3}<path class="mean" d="M0 {4}H{0}"/></svg>'
    ).format(
        CHART_WIDTH,
        CHART_HEIGHT,
        f"how long the last {len(ended)} runs took: {length_text(timedelta(seconds=mean))} in the "
        f"mean, {length_text(timedelta(seconds=longest))} at most",
        bars,
        level,
    )


def _bar(mark: RunMark, longest: float) -> float:
    return round(max(_seconds(mark.took) / longest * (CHART_HEIGHT - 4), 2), 1)


def time_line(coming: Sequence[Coming], start: datetime, until: datetime, clock: Clock) -> Markup:
    """What is due by the minute, up to `until`."""
    minutes: dict[int, list[Coming]] = {}
    for due in coming:
        minutes.setdefault(max(int((due.at - start).total_seconds() // 60), 0), []).append(due)
    most = max(map(len, minutes.values()), default=1)
    bars = Markup("").join(
        Markup('<rect x="{}" y="{}" width="9" height="{}" rx="2"><title>{}</title></rect>').format(
            minute * 12 + 1,
            64 - _height(len(found), most, 56),
            _height(len(found), most, 56),
            _due_words(found, clock),
        )
        for minute, found in sorted(minutes.items())
        if minute < 60
    )
    ticks = Markup("").join(
        Markup('<text x="{}" y="80" text-anchor="{}">{}</text>').format(
            minute * 12,
            {0: "start", 60: "end"}.get(minute, "middle"),
            "now" if minute == 0 else clock.text(start + timedelta(minutes=minute)).split()[-1][:5],
        )
        for minute in (0, 15, 30, 45, 60)
    )
    beyond = Markup("")
    if until < start + timedelta(minutes=59):
        x = round((until - start).total_seconds() / 5)
        beyond = Markup('<rect class="unknown" x="{}" y="4" width="{}" height="60"/>').format(
            x, max(CHART_WIDTH - x, 0)
        )
    return Markup(
        '<svg class="time-line" viewBox="0 0 720 84" role="img" aria-label="{}">'
        '<path class="axis" d="M0 64H720"/>{}{}{}</svg>'
    ).format(f"{len(coming)} due times in the next hour", beyond, bars, ticks)


def _due_words(found: Sequence[Coming], clock: Clock) -> str:
    names = ", ".join(dict.fromkeys(due.schedule for due in found[:5]))
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return f"{clock.text(found[0].at)}: {names}{more}"


def load_chart(loads: Sequence[HourLoad], hours: Sequence[datetime], clock: Clock) -> Markup:
    """A week by the hour: a square each, darker where more is due; a row for each day."""
    by_hour = {load.hour: load for load in loads}
    most = max((load.runs for load in loads), default=0)
    squares = []
    for number, hour in enumerate(hours):
        load = by_hour.get(hour)
        runs = load.runs if load else 0
        squares.append(
            Markup(
                '<rect class="load-{}" x="{}" y="{}" width="26" height="26" rx="3">'
                "<title>{}</title></rect>"
            ).format(
                _level(runs, most),
                44 + number % 24 * 28,
                18 + number // 24 * 28,
                _load_words(hour, load, clock),
            )
        )
    days = Markup("").join(
        Markup('<text x="0" y="{}">{}</text>').format(
            36 + row * 28, f"{_day(hours[row * 24], clock)}"
        )
        for row in range(len(hours) // 24)
    )
    heads = Markup("").join(
        Markup('<text x="{}" y="12" text-anchor="middle">{}</text>').format(
            57 + column * 28, f"{column:02}"
        )
        for column in range(0, 24, 3)
    )
    return Markup(
        '<svg class="load" viewBox="0 0 720 216" role="img" aria-label="{}">{}{}{}</svg>'
    ).format(f"runs by the hour, {most} in the busiest", heads, days, Markup("").join(squares))


def _day(hour: datetime, clock: Clock) -> str:
    wall = local_datetime(hour + timedelta(hours=1), clock.zone)
    return f"{wall:%a} {wall.day}"


def _level(runs: int, most: int) -> int:
    """0 for nothing, 1 to 5 by how it compares with the busiest hour."""
    if runs == 0:
        return 0
    return min(1 + int(4 * math.sqrt(runs / max(most, 1))), 5)


def _load_words(hour: datetime, load: HourLoad | None, clock: Clock) -> str:
    at = clock.text(hour)
    if load is None:
        return f"{at}: nothing"
    workers = load.busy / timedelta(hours=1)
    failed = f", {load.failed} failed" if load.failed else ""
    return f"{at}: {load.runs:,} runs{failed}, {workers:.1f} workers busy"
