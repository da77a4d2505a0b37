"""How often a schedule is due on average; pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from duebook.planner.due import DueTimes

if TYPE_CHECKING:
    from duebook.model.schedule import ScheduleSpec

__all__ = ["mean_rate"]

LOOKED_AT: Final = 100
"""Due times from which the average is computed."""
LAST: Final = datetime(9999, 1, 1, tzinfo=UTC)
_MINUTE: Final = timedelta(minutes=1)


def mean_rate(name: str, spec: ScheduleSpec, now: datetime) -> float:
    """Due times per minute over its next hundred; 0 if it has only one more due time, or never."""
    most = LOOKED_AT if spec.max_runs is None else min(LOOKED_AT, spec.max_runs)
    due_times = list(islice(DueTimes(spec, (), now, name).among(now, LAST), most))
    if len(due_times) < 2:
        return 0.0
    return (len(due_times) - 1) * _MINUTE / (due_times[-1] - due_times[0])
