"""Tickers of a process take turns, and none of them misses what is due."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from duebook.engine.planning_turn import Answer, PlanningTurn
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

LATER = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def turn() -> PlanningTurn:
    return PlanningTurn()


@contextmanager
def waiting(turn: PlanningTurn, *tickers: str) -> Iterator[list[Future[Answer | None]]]:
    """Tickers that wait for their turn, each in a thread; one that gets it ends it at once."""

    def wait(ticker: str) -> Answer | None:
        answer = turn.begin(ticker)
        if answer is None:
            turn.look(ticker)
            turn.end(ticker, None)
        return answer

    before = turn.waiting
    with ThreadPoolExecutor(len(tickers)) as pool:
        found = [pool.submit(wait, ticker) for ticker in tickers]
        eventually(lambda: turn.waiting == before + len(tickers))
        yield found


def test_who_waits_before_a_look_begins_gets_what_it_finds(turn: PlanningTurn) -> None:
    assert turn.begin("first") is None
    with waiting(turn, "second", "third") as others:
        turn.look("first")
        turn.end("first", LATER)
        assert [other.result(PATIENCE) for other in others] == [Answer(LATER)] * 2


def test_who_waits_after_a_look_began_looks_as_well(turn: PlanningTurn) -> None:
    """What it was told of may have shown too late for that look."""
    assert turn.begin("first") is None
    turn.look("first")
    with waiting(turn, "second") as (second,):
        turn.end("first", LATER)
        assert second.result(PATIENCE) is None


def test_of_many_that_wait_one_looks_for_all(turn: PlanningTurn) -> None:
    assert turn.begin("first") is None
    turn.look("first")
    with waiting(turn, "second", "third", "fourth") as others:
        turn.end("first", LATER)
        answers = [other.result(PATIENCE) for other in others]
    assert sorted(answers, key=bool) == [None, Answer(None), Answer(None)]


def test_with_a_full_batch_the_turn_is_passed_on(turn: PlanningTurn) -> None:
    assert turn.begin("first") is None
    turn.look("first")
    turn.pass_on("first")
    assert turn.begin("second") is None
    turn.end("first", LATER)
    with waiting(turn, "third") as (third,):
        turn.look("first")
        turn.pass_on("first")
        assert not third.done(), "the turn is that of the second one"
        turn.end("second", LATER)
        assert third.result(PATIENCE) is None


def test_who_fails_leaves_the_turn_to_the_next_and_no_answer(turn: PlanningTurn) -> None:
    assert turn.begin("first") is None
    with waiting(turn, "second") as (second,):
        turn.look("first")
        turn.pass_on("first")
        assert second.result(PATIENCE) is None
