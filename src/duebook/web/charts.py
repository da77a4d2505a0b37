"""Draws charts of runs as SVG from plain numbers; pure, and without styles."""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from duebook.errors import counted
from duebook.web.times import length_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.model.insight import Coming, RunMark
    from duebook.model.statistics import DayFigures
    from duebook.web.times import Clock

__all__ = [
    "CHART_HEIGHT",
    "CHART_WIDTH",
    "duration_chart",
    "framed",
    "scale_top",
    "strip",
    "success_chart",
    "time_line",
]

STRIP_HEIGHT: Final = 20
BAR: Final = 5
CHART_WIDTH: Final = 720
CHART_HEIGHT: Final = 140
MOST_DAYS: Final = 60
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
SCALES: Final = (
    *(0.2, 1.0, 2.0, 4.0, 10.0, 20.0, 40.0),
    *(number * MINUTE for number in (1, 2, 4, 10, 20, 40)),
    *(number * HOUR for number in (1, 2, 4, 12)),
    *(number * DAY for number in (1, 2, 4, 10, 20, 40)),
)
"""Upper ends of a scale, in seconds: these and their halves are easy to read."""


def strip(marks: Sequence[RunMark], most: int) -> Markup:
    """The recent runs of a schedule: colour shows how they ended, height how long they took."""
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
    """Between a fifth of the room and all of it; the square root keeps short bars visible."""
    if longest <= 0:
        return room // 2
    return max(round(room * math.sqrt(value / longest)), room // 5)


def duration_chart(
    marks: Sequence[RunMark], clock: Clock, link: Callable[[str], str] | None = None
) -> Markup:
    """How long each ended run took, with a hint and a link for each, and a line at their mean."""
    ended = [mark for mark in marks if mark.took is not None]
    if len(ended) < 2:
        return Markup("")
    longest = max(_seconds(mark.took) for mark in ended)
    top = _seconds(scale_top(timedelta(seconds=longest)))
    wide = CHART_WIDTH / len(ended)
    bars = Markup("").join(
        _linked(
            _bar(
                mark.status,
                number * wide,
                wide,
                _seconds(mark.took) / top,
                f"{clock.text(mark.at)}: {mark.status} after {length_text(mark.took)}",
            ),
            link(mark.id) if link else "",
        )
        for number, mark in enumerate(ended)
    )
    mean = sum(_seconds(mark.took) for mark in ended) / len(ended)
    line = Markup('<path class="mean" d="M0 {}H{}"/>').format(_level(mean / top), CHART_WIDTH)
    mean_text = length_text(timedelta(seconds=mean))
    words = (
        f"durations of the last {counted(len(ended), 'run')}: {mean_text} on "
        f"average, {length_text(timedelta(seconds=longest))} at most"
    )
    scale = [length_text(timedelta(seconds=value)) for value in (top, top / 2)]
    ends = (clock.text(ended[0].at), f"mean {mean_text}", clock.text(ended[-1].at))
    return framed(bars + line, words, [*scale, "0"], ends, link is not None)


def scale_top(longest: timedelta) -> timedelta:
    """Where a scale ends that has room for a length: it and its half are easy to read."""
    seconds = _seconds(longest)
    return timedelta(seconds=next((step for step in SCALES if step >= seconds), seconds))


def _linked(drawn: Markup, address: str) -> Markup:
    """A link for the mouse: keyboards and screen readers have the same runs in the table below."""
    if not address:
        return drawn
    return Markup('<a href="{}" tabindex="-1" aria-hidden="true">{}</a>').format(address, drawn)


def success_chart(days: Sequence[DayFigures]) -> Markup:
    """The share of each day's runs that fully succeeded, the oldest day first."""
    known = [day for day in reversed(days) if day.figures.success_rate is not None][-MOST_DAYS:]
    if len(known) < 2:
        return Markup("")
    wide = CHART_WIDTH / len(known)
    bars = Markup("").join(
        _bar("failed", number * wide, wide, 1.0, "")
        + _bar(
            "succeeded",
            number * wide,
            wide,
            day.figures.success_rate or 0.0,
            f"{day.day}: {day.figures.success_rate:.0%} of {day.figures.runs} succeeded",
        )
        for number, day in enumerate(known)
    )
    worst = min(known, key=lambda day: day.figures.success_rate or 0.0)
    lowest = f"lowest on {worst.day}: {worst.figures.success_rate:.0%}"
    words = f"success rate over {len(known)} days; {lowest}"
    return framed(bars, words, ["100%", "50%", "0"], (str(known[0].day), str(known[-1].day)))


def framed(
    drawn: Markup, words: str, scale: Sequence[str], ends: Sequence[str], links: bool = False
) -> Markup:
    """A stretched chart with an unstretched scale beside it and times below; its role is `group`
    instead of `img` if it contains links."""
    grid = Markup('<path class="grid" d="M0 .5H{0}M0 {1}H{0}M0 {2}H{0}"/>').format(
        CHART_WIDTH, CHART_HEIGHT / 2, CHART_HEIGHT - 0.5
    )
    role = "group" if links else "img"
    return Markup(
        '<figure class="framed"><div class="scale" aria-hidden="true">{}</div>'
        '<svg class="chart" viewBox="0 0 {} {}" preserveAspectRatio="none" role="{}" '
        'aria-label="{}">{}{}</svg><div class="ends" aria-hidden="true">{}</div></figure>'
    ).format(_spans(scale), CHART_WIDTH, CHART_HEIGHT, role, words, grid, drawn, _spans(ends))


def _spans(texts: Sequence[str]) -> Markup:
    return Markup("").join(Markup("<span>{}</span>").format(text) for text in texts)


def _bar(status: str, x: float, wide: float, share: float, hint: str) -> Markup:
    """A bar that fills a share of the height; large enough to see unless the share is 0."""
    high = round(max(share * CHART_HEIGHT, 2), 1) if share else 0
    title = Markup("<title>{}</title>").format(hint) if hint else ""
    return Markup('<rect class="run-{}" x="{}" y="{}" width="{}" height="{}">{}</rect>').format(
        status, round(x, 1), CHART_HEIGHT - high, round(max(wide - 1, 1), 1), high, title
    )


def _level(share: float) -> float:
    return round(CHART_HEIGHT * (1 - share), 1)


def time_line(
    coming: Sequence[Coming],
    start: datetime,
    until: datetime,
    clock: Clock,
    link: Callable[[Sequence[Coming]], str] | None = None,
) -> Markup:
    """The due times of each minute, up to `until`; each minute has a link."""
    minutes: dict[int, list[Coming]] = {}
    for due in coming:
        minutes.setdefault(max(int((due.at - start).total_seconds() // 60), 0), []).append(due)
    most = max(map(len, minutes.values()), default=1)
    bars = Markup("").join(
        _linked(
            Markup('<rect x="{}" y="{}" width="9" height="{}"><title>{}</title></rect>').format(
                minute * 12 + 1,
                64 - _height(len(found), most, 56),
                _height(len(found), most, 56),
                _due_words(found, clock),
            ),
            link(found) if link else "",
        )
        for minute, found in sorted(minutes.items())
        if minute < 60
    )
    ticks = ["now"] + [
        clock.text(start + timedelta(minutes=minute)).split()[-1][:5] for minute in (15, 30, 45, 60)
    ]
    beyond = Markup("")
    if until < start + timedelta(minutes=59):
        x = round((until - start).total_seconds() / 5)
        beyond = Markup('<rect class="unknown" x="{}" y="4" width="{}" height="60"/>').format(
            x, max(CHART_WIDTH - x, 0)
        )
    words = f"{counted(len(coming), 'due time')} in the next hour"
    return Markup(
        '<figure class="hour"><svg class="time-line" viewBox="0 0 720 66" role="{}" '
        'preserveAspectRatio="none" aria-label="{}"><path class="axis" d="M0 64H720"/>{}{}</svg>'
        '<div class="ends" aria-hidden="true">{}</div></figure>'
    ).format("group" if link else "img", words, beyond, bars, _spans(ticks))


def _due_words(found: Sequence[Coming], clock: Clock) -> str:
    names = list(dict.fromkeys(due.schedule for due in found))
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{clock.text(found[0].at)}: {', '.join(names[:5])}{more}"
