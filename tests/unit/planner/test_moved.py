"""Which due times move with other time zone data: all that do, and paired by their wall time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.planner import DueTimes, moved
from duebook.planner.moved import counts_from_anchor, moved_due_times, zones_of
from duebook.triggers.other_zones import open_zones
from duebook.triggers.zones import to_seconds
from tests.support.builders import make_spec
from tests.support.zone_wheels import write_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duebook.model.zones_diff import MovedDueTime
    from duebook.triggers.other_zones import OtherZones

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
YEAR_LATER = NOW + timedelta(days=366)
ZONE = "Europe/Brussels"
TRIGGERS: dict[str, Any] = {
    "daily": {"daily": "09:00", "tz": ZONE},
    "in the gap": {"cron": "30 2 * * *", "tz": ZONE},
    "in the gap, left out": {"cron": "30 2 * * *", "tz": ZONE, "gap": "skip", "fold": "both"},
    "every hour": {"cron": "15 * * * *", "tz": ZONE},
    "monthly": {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "tz": ZONE},
    "every other day": {"every": "2d", "tz": ZONE, "anchor": "2025-07-01T06:00:00Z"},
    "in UTC as well": [{"cron": "0 8 * * *"}, {"weekly": "MON,SUN 02:00", "tz": ZONE}],
}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherZones]:
    """Belgium stays on winter time."""
    wheel = write_wheel(tmp_path_factory.mktemp("wheel"), Europe__Brussels="Africa/Algiers")
    with open_zones(wheel) as found:
        yield found


def compare(other: OtherZones, **definition: Any) -> tuple[list[MovedDueTime], bool]:
    seconds = to_seconds(NOW), to_seconds(YEAR_LATER)
    spec, difference = make_spec(**definition), other.differing(0, *seconds)[ZONE]
    stretches = [seconds] if counts_from_anchor(spec) else difference.stretches
    return moved_due_times(spec, (), "job", other.name_of, stretches, NOW)


@pytest.mark.parametrize("name", TRIGGERS)
def test_the_stretches_that_differ_hold_all_that_moves_in_a_year(
    other: OtherZones, name: str
) -> None:
    found, complete = compare(other, trigger=TRIGGERS[name])
    spec = make_spec(trigger=TRIGGERS[name])
    new = moved._retimed(spec, other.name_of)
    was, will = (set(DueTimes(one, (), NOW, "job").among(NOW, YEAR_LATER)) for one in (spec, new))
    assert complete
    assert {one.was for one in found} - {None} == was - will
    assert {one.becomes for one in found} - {None} == will - was


def test_due_times_are_paired_by_their_wall_time(other: OtherZones) -> None:
    found, _ = compare(other, trigger=TRIGGERS["daily"])
    assert len(found) == 210
    assert {one.becomes - one.was for one in found if one.was and one.becomes} == {
        timedelta(hours=1)
    }


def test_a_due_time_at_the_beginning_is_not_paired_with_one_at_the_end(tmp_path: Path) -> None:
    with open_zones(write_wheel(tmp_path, Europe__Brussels="Asia/Tokyo")) as tokyo:
        found, _ = compare(tokyo, trigger={"daily": "17:00", "tz": ZONE})
    assert (found[0].was, found[0].becomes) == (NOW.replace(hour=16), None), "8 h is over"
    assert (found[-1].was, found[-1].becomes) == (None, YEAR_LATER.replace(hour=8))
    moves = {one.was - one.becomes for one in found if one.was and one.becomes}
    assert moves == {timedelta(hours=8), timedelta(hours=7)}


def test_excluded_days_follow_the_other_clock(other: OtherZones) -> None:
    day = {"trigger": {"every": "1h", "anchor": "2026-01-01T00:00:00Z"}, "exclude": ["2026-07-01"]}
    assert compare(other, **day)[0] == [], "the schedule itself goes by UTC"


def test_what_is_due_very_often_is_compared_in_part(
    other: OtherZones, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moved, "MOST", 5)
    found, complete = compare(other, trigger=TRIGGERS["daily"])
    assert not complete
    assert 0 < len(found) <= 5


def test_the_zones_of_a_definition_are_those_of_its_triggers() -> None:
    assert zones_of(make_spec(trigger=TRIGGERS["in UTC as well"])) == {"UTC", ZONE}
