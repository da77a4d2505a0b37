"""Definitions that are simulated before they are stored: they heed calendars and windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.errors import Invalid
from duebook.model.schedule import InvalidSchedule
from duebook.testing import Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

MONDAY = "2026-03-02T00:30:00Z"
DAILY: dict[str, Any] = {
    "name": "job",
    "trigger": {"cron": "0 9 * * *"},
    "target": {"task": "job"},
}
ON_WORKDAYS = DAILY | {"calendar": {"only": "workdays"}}
WORKDAYS = {"name": "workdays", "weekdays": "MON-FRI"}


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(start=MONDAY) as sim:
        sim.task("job", takes="1m")
        yield sim


def test_a_definition_heeds_its_calendar_before_and_after_it_is_stored(sim: Simulation) -> None:
    sim.book.calendars.save("workdays", weekdays="MON-FRI")
    assert sim.book.simulate(days=14, schedules=[ON_WORKDAYS]).runs == 10
    sim.book.schedules.create(**ON_WORKDAYS)
    assert sim.book.simulate(days=14).runs == 10
    assert sim.book.simulate(days=14, schedules=[ON_WORKDAYS]).runs == 10
    assert sim.book.simulate(days=14, schedules=[DAILY]).runs == 14


def test_stored_schedules_follow_a_calendar_that_is_given(sim: Simulation) -> None:
    sim.book.calendars.save("workdays", weekdays="MON-FRI")
    sim.book.schedules.create(**ON_WORKDAYS)
    given = [WORKDAYS | {"weekdays": "MON"}, {"name": "mine", "weekdays": "TUE"}]
    own = DAILY | {"name": "own", "calendar": {"only": "mine"}}
    found = sim.book.simulate(days=14, schedules=[own], calendars=given)
    assert {one.name: one.runs for one in found.outlooks} == {"job": 2, "own": 2}
    assert sim.book.calendars.get("workdays").version == 1


def test_a_definition_heeds_the_windows_that_its_labels_select(sim: Simulation) -> None:
    window = ("2026-03-03T00:00:00Z", "2026-03-06T00:00:00Z")
    sim.book.windows.add("move", *window, labels={"team": "data"})
    sim.book.schedules.create(**DAILY)
    labelled = DAILY | {"labels": {"team": "data"}}
    found = sim.book.simulate(days=7, schedules=[labelled, labelled | {"name": "new"}])
    assert {one.name: (one.runs, one.skips) for one in found.outlooks} == {
        "job": (4, {"paused": 3}),
        "new": (4, {"paused": 3}),
    }


def test_definitions_alone_need_their_calendars(sim: Simulation) -> None:
    asked: dict[str, Any] = {"days": 14, "start": MONDAY, "only": True}
    alone = Book(None)
    with pytest.raises(InvalidSchedule, match=r"job.*workdays.*calendars"):
        alone.simulate(schedules=[ON_WORKDAYS], **asked)
    assert alone.simulate(schedules=[ON_WORKDAYS], calendars=[WORKDAYS], **asked).runs == 10
    sim.book.calendars.save("workdays", weekdays="MON-FRI")
    with pytest.raises(InvalidSchedule, match="calendars"):
        sim.book.simulate(schedules=[ON_WORKDAYS], **asked)


def test_more_schedules_than_can_be_simulated_are_refused(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duebook.book.foresight.MOST_SCHEDULES", 2)
    sim.book.schedules.create(**DAILY)
    sim.book.schedules.create(**DAILY | {"name": "second"})
    third = DAILY | {"name": "third"}
    with pytest.raises(Invalid, match=r"more than 2 schedules.* of a file alone"):
        sim.book.simulate(schedules=[third])
    assert sim.book.simulate(days=1, schedules=[third], only=True).schedules == 1
    sim.book.schedules.create(**third)
    with pytest.raises(Invalid, match="more than 2 schedules"):
        sim.book.simulate()


def test_a_completed_schedule_runs_again_as_it_would_after_apply(sim: Simulation) -> None:
    once = DAILY | {"trigger": {"cron": "0 * * * *"}, "max_runs": 2}
    sim.book.schedules.declare([once], "me")
    sim.advance("5h")
    assert sim.book.schedules.get("job").status == "completed"
    assert sim.book.simulate(days=1, schedules=[once]).runs == 0
    more = once | {"max_runs": 1000}
    assert sim.book.simulate(days=1, schedules=[more]).runs == 24
    sim.book.schedules.declare([more], "me")
    assert sim.book.simulate(days=1).runs == 24


def test_a_calendar_that_does_not_exist_is_named(sim: Simulation) -> None:
    with pytest.raises(Invalid, match='"job": calendar "workdays" does not exist'):
        sim.book.simulate(schedules=[ON_WORKDAYS])
