"""Definitions that name secrets, where nothing is executed that would need the values."""

from __future__ import annotations

from duebook import every
from duebook.testing import Simulation


def test_a_simulation_needs_no_secrets() -> None:
    with Simulation(start="2026-03-06T00:00:00Z") as sim:
        sim.task("sync")
        payload = {"key": "{{ secret.KEY }}"}
        sim.book.schedules.create("sync", trigger=every("1h"), target="sync", payload=payload)
        sim.advance("1h")
        assert [run.status for run in sim.runs("sync")] == ["succeeded"]
        shown = sim.book.schedules.render("sync")
        assert shown["payload"] == payload
