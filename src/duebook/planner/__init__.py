"""Answers every "should this run?", for live and missed due times alike; pure."""

from __future__ import annotations

from duebook.planner.due import DueTimes, instant_before
from duebook.planner.lifecycle import (
    first_plan,
    plan_edit,
    plan_end,
    plan_pause,
    plan_resume,
    upcoming,
    upcoming_after,
)
from duebook.planner.plan import UNATTENDED_AGAIN, plan
from duebook.planner.rate import mean_rate
from duebook.planner.repair import pause_unread, plan_repair, resume_unread

__all__ = [
    "UNATTENDED_AGAIN",
    "DueTimes",
    "first_plan",
    "instant_before",
    "mean_rate",
    "pause_unread",
    "plan",
    "plan_edit",
    "plan_end",
    "plan_pause",
    "plan_repair",
    "plan_resume",
    "resume_unread",
    "upcoming",
    "upcoming_after",
]
