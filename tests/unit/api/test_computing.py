"""Few requests compute at once, and none of them for long."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress

import pytest

from duebook.api.computing import AT_ONCE, EACH_WAITING, Computing
from duebook.api.problems import Busy, problem_of
from duebook.budget import LOOK_EVERY, Budget
from duebook.errors import OverBudget
from tests.support.waiting import PATIENCE, eventually


def spend(budget: Budget, steps: int) -> None:
    for _ in range(steps):
        budget.spend()


def test_a_budget_is_used_up_by_the_processor_time_of_its_thread() -> None:
    seconds = [0.0]
    budget = Budget(2.0, lambda: seconds[0])
    spend(budget, 10 * LOOK_EVERY)
    seconds[0] = 2.5
    with pytest.raises(OverBudget, match="more than 2 s of processor time; request fewer"):
        spend(budget, LOOK_EVERY)


def test_one_token_has_one_turn_and_all_together_have_two() -> None:
    computing = Computing(wait=0.0)
    with ExitStack() as stack:
        stack.enter_context(computing.turn("a"))
        with pytest.raises(Busy), computing.turn("a"):
            pass
        stack.enter_context(computing.turn("b"))
        with pytest.raises(Busy), computing.turn("c"):
            pass
    with computing.turn("a"), computing.turn("c"):
        pass
    assert AT_ONCE == 2
    assert not computing._busy
    assert not computing._waiting


def test_a_turn_comes_back_when_the_work_fails() -> None:
    computing = Computing(wait=0.0)
    for _ in range(3):
        with suppress(RuntimeError), computing.turn("a"):
            raise RuntimeError


def test_who_waits_has_the_next_turn_and_too_many_who_wait_are_refused_at_once() -> None:
    computing, had = Computing(wait=PATIENCE), []

    def ask() -> None:
        with computing.turn("a"):
            had.append(threading.get_ident())

    threads = [threading.Thread(target=ask) for _ in range(EACH_WAITING)]
    with computing.turn("a"):
        for thread in threads:
            thread.start()
        eventually(lambda: computing._waiting["a"] == EACH_WAITING)
        with pytest.raises(Busy, match="too many requests"), computing.turn("a"):
            pass
        with computing.turn("b"):  # another token does not wait for this one
            assert had == []
    for thread in threads:
        thread.join()
    assert len(had) == EACH_WAITING


def test_a_busy_server_says_when_to_try_again() -> None:
    problem = problem_of(Busy("later"))
    assert (problem.status, problem.code) == (429, "busy")
    assert problem.headers == {"Retry-After": "1"}
    assert problem_of(OverBudget("less")).status == 422
