"""Draws the report of a simulation: one page that needs nothing else, and its pictures; pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from duebook.web.charts import CHART_HEIGHT, CHART_WIDTH, framed
from duebook.web.rendering import render, static
from duebook.web.times import Clock
from duebook.web.week import Cell, levelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.simulation import SimulationReport, SpreadProposal

__all__ = ["hours_of", "load_chart", "simulation_page", "spread_page"]

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def simulation_page(report: SimulationReport, breaches: Sequence[str] = ()) -> str:
    """The report as one page of HTML, without script, for light and dark."""
    return render(
        "simulation_page.html",
        report=report,
        breaches=breaches,
        clock=Clock(report.start),
        style=Markup(static("duebook.css").decode()),  # noqa: S704 - our own file
        chart=load_chart(report),
        hours=hours_of(report),
        days=DAYS,
    )


def spread_page(proposal: SpreadProposal) -> str:
    """Before and after as one page."""
    before, after = proposal.before, proposal.after
    top = max(before.peak, after.peak)
    return render(
        "spread_page.html",
        proposal=proposal,
        clock=Clock(before.start),
        style=Markup(static("duebook.css").decode()),  # noqa: S704 - our own file
        before=load_chart(before, top),
        after=load_chart(after, top),
    )


def load_chart(report: SimulationReport, top: int | None = None) -> Markup:
    """The most runs at the same time over the whole period; a line at the number of workers."""
    most = max(top or 0, report.peak, 1)
    clock = Clock(report.start)
    wide = CHART_WIDTH / max(len(report.running), 1)
    steps = []
    for number, running in enumerate(report.running):
        y = round(CHART_HEIGHT * (1 - running / most), 1)
        steps.append(f"L{round(number * wide, 1)} {y}H{round((number + 1) * wide, 1)}")
    area = Markup('<path class="run-running" d="M0 {}{}V{}Z"/>').format(
        CHART_HEIGHT, "".join(steps), CHART_HEIGHT
    )
    if report.workers is not None and report.workers <= most:
        y = round(CHART_HEIGHT * (1 - report.workers / most), 1)
        area += Markup('<path class="mean" d="M0 {}H{}"/>').format(max(y, 0.5), CHART_WIDTH)
    words = f"runs at the same time, {clock.text(report.start)} to {clock.text(report.until)}"
    if report.peak_at is not None:
        words += f"; at most {report.peak}, at {clock.text(report.peak_at)}"
    ends = (_day(report.start), _day(report.until - timedelta(seconds=1)))
    return framed(area, words, [str(most), f"{most / 2:g}", "0"], ends)


def _day(moment: object) -> str:
    return f"{moment:%Y-%m-%d}"


def hours_of(report: SimulationReport) -> list[list[Cell]]:
    """A row for each hour of the day, with a cell for each day of the week; a week on average."""
    weeks = max((report.until - report.start) / timedelta(days=7), 1.0)
    runs = [round(number / weeks) for number in report.hours]
    most = max(runs, default=0)
    return [
        [levelled(Cell(runs[day * 24 + hour]) if runs else None, most) for day in range(7)]
        for hour in range(24)
    ]
