"""How often a step is executed, and when again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duebook.model.repeat import Repeat
from duebook.model.run import Outcome

GOOD, BAD = Outcome("succeeded", exit_code=0), Outcome("failed", "exit_code", exit_code=3)


@pytest.mark.parametrize(
    ("repeat", "outcome", "is_met", "more"),
    [
        (Repeat(), GOOD, None, True),
        (Repeat(), BAD, None, False),
        (Repeat(until=True), GOOD, None, False),
        (Repeat(until=True), BAD, None, True),
        (Repeat(exit_codes=(3,)), BAD, None, True),
        (Repeat(exit_codes=(3,)), GOOD, None, False),
        (Repeat(until=True, exit_codes=(0,)), BAD, None, True),
        (Repeat(until=True, exit_codes=(0,)), GOOD, None, False),
        (Repeat(), BAD, True, True),
        (Repeat(), GOOD, False, False),
        (Repeat(until=True), GOOD, False, True),
        (Repeat(until=True), BAD, True, False),
        (Repeat(), Outcome("cancelled", "stopped"), None, False),
    ],
)
def test_a_step_is_repeated_as_in_dagu(
    repeat: Repeat, outcome: Outcome, is_met: bool | None, more: bool
) -> None:
    assert repeat.wants_more(outcome, is_met) is more


def test_the_interval_grows_up_to_its_limit() -> None:
    repeat = Repeat(
        interval=timedelta(seconds=1), backoff=3.0, longest=timedelta(seconds=5), limit=4
    )
    found = [repeat.after(done) for done in range(1, 5)]
    assert found == [*(timedelta(seconds=s) for s in (1, 3, 5)), None]
