"""No rule of the protocol can be broken without a state that shows it, and with all of them there
is none: every order of steps of two schedulers and two workers, crashes included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model_check import directories, runs
from tests.model_check.explore import Found, explore

if TYPE_CHECKING:
    from collections.abc import Iterator

BROKEN_RUNS = {
    "unique_key row_lock": ("I1", {"surprises": 0, "most_sessions": 2}),
    "together": ("I2", {}),
    "database_clock": ("I7", {}),
    "exclusive": ("I3", {"due_times": 2, "surprises": 0, "most_sessions": 2}),
    "lease_from_request": ("I3", {"lease": 3, "surprises": 0, "most_sessions": 2}),
    "begins_under_lease": ("I3", {"surprises": 0, "most_sessions": 3}),
    "stops_in_time": ("I3", {"surprises": 0, "most_sessions": 3}),
    "settle_needs_session": ("I4", {}),
    "claim_checks_session finds_orphans": ("I8", {"surprises": 0, "most_sessions": 2}),
    "finds_orphans": ("I8", {"surprises": 1, "most_sessions": 2}),
}
"""Rules, what breaks without them, and a model that is large enough to show it."""
LARGE_RUNS = {"due_times": 2, "surprises": 1, "most_sessions": 3}
LARGE_DIRECTORY = {"most_sessions": 3, "most_terms": 3, "versions": 2}


def search(model: runs.Model | directories.Model) -> Found[runs.World | directories.World]:
    return explore(model.start, model.moves, model.problem, model.is_done, model.is_excused)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "size",
    [
        pytest.param({"surprises": 1, "most_sessions": 3}, id="crashes"),
        pytest.param({"due_times": 2, "surprises": 0, "most_sessions": 3}, id="two due times"),
        pytest.param(LARGE_RUNS, id="both", marks=pytest.mark.long),
    ],
)
def test_no_order_of_steps_breaks_a_rule_about_runs(size: dict[str, int]) -> None:
    found = search(runs.Model(**size))  # type: ignore[arg-type]
    assert (found.problem, found.history) == (None, [])
    assert found.states > 10_000


@pytest.mark.parametrize("broken", BROKEN_RUNS)
def test_a_broken_rule_about_runs_is_found(broken: str) -> None:
    invariant, size = BROKEN_RUNS[broken]
    rules = runs.Rules(**dict.fromkeys(broken.split(), False))
    found = search(runs.Model(rules, **size))
    assert found.violated == invariant
    assert found.history


@pytest.mark.parametrize("rule", ["unique_key", "row_lock", "claim_checks_session"])
def test_one_of_two_rules_is_enough(rule: str) -> None:
    """The other one holds alone: they are broken together above."""
    found = search(runs.Model(runs.Rules(**{rule: False}), surprises=0, most_sessions=3))
    assert found.problem is None


@pytest.mark.parametrize(
    "size",
    [
        pytest.param({"most_sessions": 3, "most_terms": 2, "versions": 1}, id="an edit"),
        pytest.param(LARGE_DIRECTORY, id="two edits", marks=pytest.mark.long),
    ],
)
def test_no_order_of_steps_breaks_a_rule_about_directories(size: dict[str, int]) -> None:
    found = search(directories.Model(**size))  # type: ignore[arg-type]
    assert (found.problem, found.history) == (None, [])
    assert found.states > 10_000


@pytest.mark.parametrize("broken", ["new_term", "fenced", "scanned", "row_share"])
def test_a_broken_rule_about_directories_is_found(broken: str) -> None:
    rules = directories.Rules(**{broken: False})
    found = search(directories.Model(rules, versions=1, most_sessions=3, most_terms=3))
    assert found.violated == "24a"


def test_two_nodes_that_read_a_directory_in_one_term_are_found() -> None:
    found = search(directories.Model(directories.Rules(new_term=False), versions=0))
    assert found.problem == "24a: two nodes read a directory in one term"


def test_the_history_of_a_problem_is_a_shortest_one() -> None:
    def moves(number: int) -> Iterator[tuple[str, int | str]]:
        if number < 40:
            yield "one more", number + 1
            yield "twice", number * 2

    def problem(number: int) -> str | None:
        return "I1: it is ten" if number == 10 else None

    found = explore(1, moves, problem, lambda _: True)
    assert (found.violated, found.history) == ("I1", ["one more", "twice", "one more", "twice"])


def test_a_state_from_which_nothing_is_reached_is_stuck() -> None:
    def moves(number: int) -> Iterator[tuple[str, int | str]]:
        yield from {0: [("left", 1), ("right", 2)], 2: [("on", 3)]}.get(number, [])

    found = explore(0, moves, lambda _: None, lambda number: number == 3)
    assert (found.violated, found.history) == ("I8", ["left"])
