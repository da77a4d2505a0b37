"""Schedules for simulations, without a database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from duebook.foresight.entry import Entry
from duebook.foresight.report import report_of
from duebook.model.definition import load_spec
from duebook.model.plan import Snapshot
from duebook.timetext import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.foresight.simulate import Simulated
    from duebook.model.plan import WindowSpan
    from duebook.model.simulation import SimulationReport

START = datetime(2026, 3, 27, tzinfo=UTC)


def entry(
    name: str,
    trigger: Any = "0 * * * *",
    takes: str = "1m",
    windows: Sequence[WindowSpan] = (),
    **policies: Any,
) -> Entry:
    form = {"trigger": trigger, "target": {"command": ["true"]}, **policies}
    spec = load_spec(form, name).anchored(START)
    snapshot = Snapshot(name, name, 1, spec, "active", START, windows=tuple(windows))
    made = Entry(snapshot, parse_duration(takes), START)
    made.figures.trace = []
    return made


def report(found: Simulated) -> SimulationReport:
    sources = {one.name: "given" for one in found.entries}
    return report_of(found, sources, 50, parse_duration("1m"))  # type: ignore[arg-type]
