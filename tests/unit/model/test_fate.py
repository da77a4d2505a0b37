"""What becomes of an attempt that is over."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duebook.model.fate import (
    Calls,
    Ends,
    HandedBack,
    TriedAgain,
    fate_of,
    fate_of_lost,
    fate_of_lost_early,
    when_asked_to_end,
)
from duebook.model.flow_target import FlowTarget
from duebook.model.retry import Retry
from duebook.model.run import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

DONE = Outcome("succeeded")
FAILED = Outcome("failed", "exit_code", "exit code 3", 3)
RETRY = Retry(attempts=3, delay=timedelta(seconds=10), jitter=False)


def test_a_success_ends_its_run() -> None:
    assert fate_of(DONE, RETRY, 0, "job") == Ends(DONE)


def test_a_failure_is_tried_again_until_the_attempts_are_used_up() -> None:
    assert fate_of(FAILED, RETRY, 0, "job") == TriedAgain(FAILED, timedelta(seconds=10))
    assert fate_of(FAILED, RETRY, 1, "job") == TriedAgain(FAILED, timedelta(seconds=20))
    assert fate_of(FAILED, RETRY, 2, "job") == Ends(FAILED)
    assert fate_of(FAILED, None, 0, "job") == Ends(FAILED)


@pytest.mark.parametrize("reason", ["lost", "lease", "spawner"])
def test_what_says_nothing_about_the_work_is_handed_back_after_a_while(reason: str) -> None:
    assert fate_of(Outcome("cancelled", reason), RETRY, 0, "job") == HandedBack(
        timedelta(seconds=1)
    )
    assert fate_of(None, RETRY, 0, "job") == HandedBack(timedelta(seconds=1))


def test_what_a_node_hands_back_that_leaves_keeps_its_place() -> None:
    assert fate_of(Outcome("cancelled", "shutdown"), RETRY, 0, "job") == HandedBack(timedelta())


def test_a_step_that_calls_a_flow_goes_on_as_its_run() -> None:
    call = FlowTarget("inner")
    assert fate_of(Outcome("succeeded", call=call), RETRY, 0, "job") == Calls(call)


@given(losses=st.integers(0, 10), most=st.integers(0, 10))
def test_a_run_survives_as_many_losses_as_it_may(losses: int, most: int) -> None:
    fate = fate_of_lost(losses, most, None)
    assert isinstance(fate, HandedBack) is (losses < most)
    if isinstance(fate, Ends):
        assert (fate.outcome.status, fate.outcome.reason) == ("failed", "poison")
        assert fate.outcome.exit_code is None


@given(losses=st.integers(0, 20), most=st.integers(0, 10))
def test_a_run_survives_twice_as_many_losses_before_it_has_begun(losses: int, most: int) -> None:
    fate = fate_of_lost_early(losses, most, None)
    assert isinstance(fate, HandedBack) is (losses < 2 * most)
    if isinstance(fate, Ends):
        assert (fate.outcome.status, fate.outcome.reason) == ("failed", "poison")


@pytest.mark.parametrize("judge", [fate_of_lost, fate_of_lost_early])
def test_a_lost_run_that_was_to_end_ends(
    judge: Callable[[int, int, str | None], Ends | HandedBack],
) -> None:
    fate = judge(0, 3, "cancelled")
    assert isinstance(fate, Ends)
    assert (fate.outcome.status, fate.outcome.reason) == ("cancelled", "cancelled")


def test_nobody_tries_again_what_was_asked_to_end_or_deleted() -> None:
    again = TriedAgain(FAILED, timedelta(seconds=10))
    assert when_asked_to_end(again, None, False) == again
    assert when_asked_to_end(again, "cancelled", False) == Ends(FAILED)
    assert when_asked_to_end(again, None, True) == Ends(FAILED)


def test_what_is_handed_back_ends_when_it_was_asked_to_end_and_outlives_its_schedule() -> None:
    back = HandedBack(timedelta())
    assert when_asked_to_end(back, "superseded", False) == Ends(Outcome("cancelled", "superseded"))
    assert when_asked_to_end(back, None, True) == back
    assert when_asked_to_end(Ends(DONE), "cancelled", True) == Ends(DONE)
