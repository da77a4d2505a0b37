"""The database's clock steps back and forth; `make chaos` runs this for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.clock_storm import ClockStorm

if TYPE_CHECKING:
    from tests.chaos.fleet import Fleet


@pytest.mark.long
def test_the_books_are_right_after_the_clock_stepped_back_and_forth(durable_fleet: Fleet) -> None:
    told: list[str] = []
    assert ClockStorm(durable_fleet, 8, told.append).blow(20) == [], "\n".join(told)
