"""Test helpers: the real planner, engine and store on a clock that the test controls."""

from __future__ import annotations

from duebook.testing.simulation import Simulation

__all__ = ["Simulation"]
