"""Times that people type: with an offset, or as the clocks of their zone show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from duebook.triggers.typed_time import read_time


def test_a_wall_time_is_read_in_the_zone_and_an_instant_as_it_is() -> None:
    tz = "America/New_York"
    assert read_time("2025-03-09T01:30", tz).at == datetime(2025, 3, 9, 6, 30, tzinfo=UTC)
    assert read_time("2025-03-09T06:30Z", tz).at == datetime(2025, 3, 9, 6, 30, tzinfo=UTC)
    jumped = read_time("2025-03-09T02:30", tz)
    assert jumped.at == datetime(2025, 3, 9, 7, tzinfo=UTC)
    assert jumped.wall == datetime(2025, 3, 9, 2, 30)
    first = read_time("2025-11-02T01:30", tz).at
    second = read_time(datetime(2025, 11, 2, 1, 30, fold=1), tz).at
    assert second - first == timedelta(hours=1)
