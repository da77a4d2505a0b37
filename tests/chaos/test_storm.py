"""A short storm; `make chaos` runs longer ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.move_storm import MoveStorm
from tests.chaos.storm import Storm

if TYPE_CHECKING:
    from tests.chaos.fleet import Fleet


@pytest.mark.parametrize("seconds", [6, pytest.param(12, marks=pytest.mark.long)])
def test_the_books_are_right_after_a_storm(durable_fleet: Fleet, seconds: int) -> None:
    told: list[str] = []
    assert Storm(durable_fleet, 3, told.append).blow(seconds) == [], "\n".join(told)


@pytest.mark.long
def test_nothing_is_lost_when_the_books_move_in_a_storm(fleet: Fleet) -> None:
    told: list[str] = []
    assert MoveStorm(fleet, 3, told.append).blow(kills=1) == [], "\n".join(told)
