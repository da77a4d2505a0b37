"""For tests of schedules: the real planner, engine and store on a clock that a test moves."""

from __future__ import annotations

from duebook.testing.simulation import Simulation

__all__ = ["Simulation"]
