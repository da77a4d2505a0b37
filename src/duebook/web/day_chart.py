"""The last day as a chart: a bar for each hour, which links to its runs; pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from duebook.errors import counted
from duebook.triggers.zones import local_datetime
from duebook.web.charts import CHART_HEIGHT, CHART_WIDTH, framed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.insight import HourLoad
    from duebook.web.times import Clock

    Link = Callable[..., str]

__all__ = ["HOURS", "day_chart", "hour_range"]

HOURS: Final = 25
"""The one that has begun, and 24 before it."""
HOUR: Final = timedelta(hours=1)
WIDE: Final = CHART_WIDTH / HOURS
STEPS: Final = (1, 2, 4, 6, 8, 10, 20, 40, 60, 80)


def day_chart(loads: Sequence[HourLoad], clock: Clock, link: Link) -> Markup:
    """Runs that ended in each hour of the last day, those that failed at the foot; nothing without
    any."""
    last = clock.now.replace(minute=0, second=0, microsecond=0)
    hours = [last - (HOURS - 1 - number) * HOUR for number in range(HOURS)]
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


def hour_range(hour: datetime, zone: str) -> dict[str, str]:
    """The fields `from` and `to` of a form for the runs of an hour, by a clock."""
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
    return Markup('<a href="{}" aria-label="{}"><title>{}</title>{}{}</a>').format(
        link("runs", **span), words, words, _room(number), parts
    )


def _room(number: int) -> Markup:
    """All of the hour's column can be pressed, however low its bar is."""
    return Markup('<rect class="room" x="{}" y="0" width="{:g}" height="{}"/>').format(
        number * WIDE, WIDE, CHART_HEIGHT
    )


def _part(status: str, number: int, foot: int, count: int, top: int) -> Markup:
    low = round(CHART_HEIGHT * foot / top, 1)
    high = round(max(CHART_HEIGHT * count / top, 2), 1)
    return Markup('<rect class="run-{}" x="{}" y="{}" width="{:g}" height="{}"/>').format(
        status, number * WIDE + 1, round(CHART_HEIGHT - low - high, 1), WIDE - 2, high
    )


def _top(most: int) -> int:
    """Where the scale ends: a number that is easy to halve."""
    size = 1
    while True:
        for step in STEPS:
            if step * size >= most:
                return step * size
        size *= 100
