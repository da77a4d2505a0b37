"""The last day as charts: a bar for each hour, which links to its runs; pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from duebook.errors import counted
from duebook.triggers.zones import local_datetime
from duebook.web.charts import CHART_HEIGHT, CHART_WIDTH, framed, scale_top
from duebook.web.times import length_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.insight import HourLoad
    from duebook.web.times import Clock

    Link = Callable[..., str]

__all__ = ["HOURS", "day_chart", "hour_range", "lateness_chart"]

HOURS: Final = 25
"""The current hour and the 24 before it."""
HOUR: Final = timedelta(hours=1)
WIDE: Final = CHART_WIDTH / HOURS
STEPS: Final = (1, 2, 4, 6, 8, 10, 20, 40, 60, 80)


def day_chart(loads: Sequence[HourLoad], clock: Clock, link: Link) -> Markup:
    """Runs that ended in each hour of the last day, those that failed at the foot; nothing without
    any."""
    hours = _hours(clock)
    known = {load.hour: load for load in loads}
    if not any(hour in known for hour in hours):
        return Markup("")
    top = _top(max(known[hour].runs for hour in hours if hour in known))
    bars = Markup("").join(
        _bar(number, known[hour], top, clock, link)
        for number, hour in enumerate(hours)
        if hour in known
    )
    runs = sum(load.runs for load in known.values() if load.hour in hours)
    failed = sum(load.failed for load in known.values() if load.hour in hours)
    words = f"{counted(runs, 'run')} by hour in the last day, {failed:,} failed"
    ends = (clock.text(hours[0]), "now")
    return framed(bars, words, [f"{top:,}", f"{top / 2:,.0f}" if top > 1 else "", "0"], ends, True)


def lateness_chart(loads: Sequence[HourLoad], clock: Clock, link: Link) -> Markup:
    """How late runs began, by the hour in which they ended; nothing if none was late."""
    hours = _hours(clock)
    late = [load for load in loads if load.hour in hours and load.late]
    if not late:
        return Markup("")
    worst = max(load.latest for load in late)
    top = scale_top(worst)
    bars = Markup("").join(
        _linked(
            hours.index(load.hour),
            f"{clock.text(load.hour)}: {counted(load.late, 'run')} started late, "
            f"at most {length_text(load.latest)}",
            link("runs", **hour_range(load.hour, clock.zone)),
            _part("queued", hours.index(load.hour), 0, load.latest / top, 1),
        )
        for load in late
    )
    runs = sum(load.late for load in late)
    words = f"{counted(runs, 'run')} started late in the last day, at most {length_text(worst)}"
    scale = [length_text(top), length_text(top / 2), "0"]
    return framed(bars, words, scale, (clock.text(hours[0]), "now"), True)


def _hours(clock: Clock) -> list[datetime]:
    last = clock.now.replace(minute=0, second=0, microsecond=0)
    return [last - (HOURS - 1 - number) * HOUR for number in range(HOURS)]


def hour_range(hour: datetime, zone: str) -> dict[str, str]:
    """The form fields `from` and `to` that select the runs of an hour, as wall times in a zone."""
    start, end = local_datetime(hour, zone), local_datetime(hour + HOUR, zone)
    return {"from": f"{start:%Y-%m-%dT%H:%M}", "to": f"{end:%Y-%m-%dT%H:%M}"}


def _bar(number: int, load: HourLoad, top: int, clock: Clock, link: Link) -> Markup:
    failed = f", {load.failed:,} failed" if load.failed else ""
    busy = f"{load.busy / HOUR:.1f} workers busy"
    words = f"{clock.text(load.hour)}: {counted(load.runs, 'run')}{failed}, {busy}"
    span = hour_range(load.hour, clock.zone)
    if load.failed:
        span |= {"status": "failed"}
    parts = Markup("").join(
        _part(status, number, foot, count, top)
        for status, foot, count in (
            ("failed", 0, load.failed),
            ("succeeded", load.failed, load.runs - load.failed),
        )
        if count
    )
    return _linked(number, words, link("runs", **span), parts)


def _linked(number: int, words: str, address: str, drawn: Markup) -> Markup:
    """What is drawn of an hour, as a link."""
    return Markup('<a href="{}" aria-label="{}"><title>{}</title>{}{}</a>').format(
        address, words, words, _room(number), drawn
    )


def _room(number: int) -> Markup:
    """Makes the whole column of the hour clickable, however low its bar is."""
    return Markup('<rect class="room" x="{}" y="0" width="{:g}" height="{}"/>').format(
        number * WIDE, WIDE, CHART_HEIGHT
    )


def _part(status: str, number: int, foot: int, count: float, top: int) -> Markup:
    low = round(CHART_HEIGHT * foot / top, 1)
    high = round(max(CHART_HEIGHT * count / top, 2), 1)
    return Markup('<rect class="run-{}" x="{}" y="{}" width="{:g}" height="{}"/>').format(
        status, number * WIDE + 1, round(CHART_HEIGHT - low - high, 1), WIDE - 2, high
    )


def _top(most: int) -> int:
    """The end of the scale: a number that is easy to halve."""
    size = 1
    while True:
        for step in STEPS:
            if step * size >= most:
                return step * size
        size *= 100
