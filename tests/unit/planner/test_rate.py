"""How often a schedule is due in the mean: over its next hundred due times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from duebook.model.definition import load_spec
from duebook.planner import mean_rate

NOW = datetime(2026, 1, 5, 12, 0, 30, tzinfo=UTC)


def rate(**definition: Any) -> float:
    return mean_rate("job", load_spec({"target": "report"} | definition, "job").anchored(NOW), NOW)


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ({"cron": "* * * * *"}, 1.0),
        ({"cron": "* * * * * *"}, 60.0),
        ({"trigger": {"every": "15s"}}, 4.0),
        ({"trigger": {"every": "1h"}}, 1 / 60),
        ({"trigger": [{"every": "1m"}, {"every": "1h"}]}, 1.0),
        ({"trigger": {"at": "2026-02-01T00:00Z"}}, 0.0),
        ({"trigger": {"every": "1m"}, "max_runs": 1}, 0.0),
        ({"trigger": {"every": "1m"}, "max_runs": 3}, 1.0),
        ({"trigger": {"every": "1m"}, "start_at": "2027-01-01T00:00Z"}, 1.0),
        ({"trigger": {"every": "1m"}, "end_at": "2026-01-05T12:05:00Z"}, 1.0),
        ({"cron": "0 0 29 2 *"}, 0.0),
    ],
)
def test_a_mean_rate_is_in_due_times_per_minute(
    definition: dict[str, Any], expected: float
) -> None:
    assert rate(**definition) == pytest.approx(expected, abs=1e-4)


def test_a_schedule_that_rests_at_night_is_due_less_often_than_by_day() -> None:
    assert 0.1 < rate(cron="* 9-16 * * *", trigger=None) <= 1.0
    assert rate(cron="*/30 9-16 * * *") == pytest.approx(16 / 1440, rel=0.1)
