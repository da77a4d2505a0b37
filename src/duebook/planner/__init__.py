"""Answers every "should this run?", for live and missed due times alike; pure."""

from __future__ import annotations

from duebook.planner.controls import (
    control_due_times,
    control_spec,
    decided_controls,
    next_control,
)
from duebook.planner.due import DueTimes, instant_before
from duebook.planner.events import ended_fire
from duebook.planner.foresight import (
    MOST_COMPARED,
    Foreseen,
    after_plan,
    foresee_change,
    foresee_end,
    foresee_new,
)
from duebook.planner.held import Held, newest_since
from duebook.planner.intervals import new_fire
from duebook.planner.lifecycle import (
    count_edit,
    first_plan,
    plan_edit,
    plan_end,
    plan_pause,
    plan_resume,
    upcoming,
    upcoming_after,
)
from duebook.planner.merged import LATEST
from duebook.planner.open_days import REACH as ROLL_REACH
from duebook.planner.plan import plan
from duebook.planner.rate import mean_rate
from duebook.planner.repair import pause_unread, plan_repair, resume_unread
from duebook.planner.unattended import UNATTENDED_AGAIN

__all__ = [
    "LATEST",
    "MOST_COMPARED",
    "ROLL_REACH",
    "UNATTENDED_AGAIN",
    "DueTimes",
    "Foreseen",
    "Held",
    "after_plan",
    "control_due_times",
    "control_spec",
    "count_edit",
    "decided_controls",
    "ended_fire",
    "first_plan",
    "foresee_change",
    "foresee_end",
    "foresee_new",
    "instant_before",
    "mean_rate",
    "new_fire",
    "newest_since",
    "next_control",
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
