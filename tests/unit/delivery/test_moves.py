"""Where a cursor goes after a round: past what was delivered, never past what nobody tried."""

from __future__ import annotations

import pytest

from duebook.delivery.moves import move_after
from duebook.model.consumer import Cursor, Report, new_consumer
from tests.support.builders import BEGIN
from tests.support.event_builders import delivery

CONSUMER = new_consumer("default", "billing", "group", None, 1, 3)
CURSOR = Cursor(0, 3, 1)


@pytest.mark.parametrize(
    ("untried", "position"),
    [
        (set(), 20),
        ({6}, 5),
        ({5, 6}, 4),
        ({4, 5, 6}, 3),
    ],
)
def test_a_cursor_rests_before_the_first_event_that_nobody_tried(
    untried: set[int], position: int
) -> None:
    events = [delivery(number, key=f"key-{number}").event for number in (4, 5, 6)]
    report = Report(untried={f"e{number}" for number in untried})
    move = move_after(CONSUMER, CURSOR, events, 20, report, BEGIN)
    assert (move.position, move.held, move.buried) == (position, (), ())


def test_a_cursor_goes_past_what_waits_behind_a_failure_of_its_own_key() -> None:
    events = [delivery(number).event for number in (4, 5)]
    report = Report(rejected={"e4": "no such thing"}, untried={"e5"})
    move = move_after(CONSUMER, CURSOR, events, 20, report, BEGIN)
    assert (move.position, [held.position for held in move.held]) == (20, [4])
