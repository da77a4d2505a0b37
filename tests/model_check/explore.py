"""Breadth-first search through all states of a small model; knows nothing of what it models."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

__all__ = ["Found", "explore"]

S = TypeVar("S", bound="Hashable")


@dataclass
class Found(Generic[S]):
    """What a search reached."""

    states: int = 0
    moves: int = 0
    problem: str | None = None
    """the first violation, by a shortest history"""
    history: list[str] = field(default_factory=list)
    """the moves that lead there"""

    @property
    def violated(self) -> str | None:
        """The number of the invariant that does not hold."""
        return None if self.problem is None else self.problem.partition(":")[0]


def explore(
    start: S,
    moves: Callable[[S], Iterator[tuple[str, S | str]]],
    problem: Callable[[S], str | None],
    is_done: Callable[[S], bool],
    is_excused: Callable[[S], bool] = lambda _state: False,
    most: int = 2_000_000,
) -> Found[S]:
    """Every state that can be reached, until one has a problem.

    `moves` yields a name with the next state, or with the problem that the move itself is. Every
    state that is not excused must be able to come to one that `is_done`, or it is stuck.
    """
    found = Found[S]()
    came: dict[S, tuple[S, str] | None] = {start: None}
    before: dict[S, list[S]] = {}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        found.states += 1
        assert found.states <= most, "the model is too large"
        if (told := problem(state)) is not None:
            return _failed(found, told, _history(came, state))
        for name, after in moves(state):
            found.moves += 1
            if isinstance(after, str):
                return _failed(found, after, [*_history(came, state), name])
            if after not in came:
                came[after] = (state, name)
                waiting.append(after)
            before.setdefault(after, []).append(state)
    stuck = _stuck(came, before, is_done, is_excused)
    if stuck is not None:
        return _failed(found, "I8: nothing that can happen ends it", _history(came, stuck))
    return found


def _failed(found: Found[S], problem: str, history: list[str]) -> Found[S]:
    found.problem, found.history = problem, history
    return found


def _history(came: dict[S, tuple[S, str] | None], state: S) -> list[str]:
    names = []
    while (step := came[state]) is not None:
        state, name = step
        names.append(name)
    return names[::-1]


def _stuck(
    came: dict[S, tuple[S, str] | None],
    before: dict[S, list[S]],
    is_done: Callable[[S], bool],
    is_excused: Callable[[S], bool],
) -> S | None:
    """The first state from which none that is done can be reached."""
    waiting = [state for state in came if is_done(state)]
    hopeful = set(waiting)
    while waiting:
        for former in before.get(waiting.pop(), ()):
            if former not in hopeful:
                hopeful.add(former)
                waiting.append(former)
    hopeless = (state for state in came if state not in hopeful)
    return next((state for state in hopeless if not is_excused(state)), None)
