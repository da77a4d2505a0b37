"""Answers every "should this run?", for live and missed due times alike; pure."""

from __future__ import annotations

from duebook.planner.lifecycle import plan_broken, plan_end, plan_resume
from duebook.planner.plan import plan

__all__ = ["plan", "plan_broken", "plan_end", "plan_resume"]
