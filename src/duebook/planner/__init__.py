"""Answers every "should this run?", for live and missed due times alike; pure."""

from __future__ import annotations

from duebook.planner.due import DueTimes, instant_before
from duebook.planner.lifecycle import (
    first_plan,
    plan_edit,
    plan_end,
    plan_pause,
    plan_resume,
    upcoming_after,
)
from duebook.planner.plan import plan
from duebook.planner.rate import mean_rate

__all__ = [
    "DueTimes",
    "first_plan",
    "instant_before",
    "mean_rate",
    "plan",
    "plan_edit",
    "plan_end",
    "plan_pause",
    "plan_resume",
    "upcoming_after",
]
