"""Draws the report of a simulation for the dashboard, or as one self-contained page; pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from duebook.triggers.zones import local_datetime
from duebook.web.charts import CHART_HEIGHT, CHART_WIDTH, framed
from duebook.web.rendering import render, static
from duebook.web.times import Clock
from duebook.web.week import Cell, levelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.simulation import SimulationReport, SpreadProposal

__all__ = ["drawn", "drawn_proposal", "simulation_page", "spread_page"]

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def simulation_page(report: SimulationReport, breaches: Sequence[str] = ()) -> str:
    """The report as one HTML page without scripts, in a light and a dark theme."""
    return render(
        "simulation_page.html", breaches=breaches, **_style(), **drawn(report, _dated(report))
    )


def spread_page(proposal: SpreadProposal) -> str:
    """The state before and after as one page."""
    clock = _dated(proposal.before)
    return render("spread_page.html", **_style(), **drawn_proposal(proposal, clock))


def drawn(report: SimulationReport, clock: Clock) -> dict[str, Any]:
    """The values for the template of a report, with times as `clock` shows them."""
    chart, hours = load_chart(report, clock), hours_of(report)
    return {"report": report, "clock": clock, "chart": chart, "hours": hours, "days": DAYS}


def drawn_proposal(proposal: SpreadProposal, clock: Clock) -> dict[str, Any]:
    """The values for the template of a proposal; both charts have the same scale."""
    top = max(proposal.before.peak, proposal.after.peak)
    return {
        "proposal": proposal,
        "clock": clock,
        "before": load_chart(proposal.before, clock, top),
        "after": load_chart(proposal.after, clock, top),
    }


def _style() -> dict[str, Markup]:
    return {"style": Markup(static("duebook.css").decode())}  # noqa: S704 - a file of Duebook


def _dated(report: SimulationReport) -> Clock:
    """Shows every time with its date: on a saved page, "today" means nothing."""
    return Clock(report.start - timedelta(days=1))


def load_chart(report: SimulationReport, clock: Clock, top: int | None = None) -> Markup:
    """The peak number of parallel runs over the period, with a line at the number of workers."""
    most = max(top or 0, report.peak, 1)
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
    ends = [report.start, report.until - timedelta(seconds=1)]
    days = [f"{local_datetime(moment, clock.zone):%Y-%m-%d}" for moment in ends]
    return framed(area, words, [str(most), f"{most / 2:g}", "0"], days)


def hours_of(report: SimulationReport) -> list[list[Cell]]:
    """An average week: a row for each hour of the day, with a cell for each day of the week."""
    weeks = max((report.until - report.start) / timedelta(days=7), 1.0)
    runs = [round(number / weeks) for number in report.hours]
    most = max(runs, default=0)
    return [
        [levelled(Cell(runs[day * 24 + hour]) if runs else None, most) for day in range(7)]
        for hour in range(24)
    ]
