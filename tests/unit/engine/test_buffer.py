"""The order in which buffered runs are begun."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from duebook.engine.buffer import Buffer
from duebook.model.run import Token


def token(number: int) -> Token:
    return Token(str(number), 1, "node-1")


def claim(number: int, priority: int = 0) -> Any:
    return SimpleNamespace(token=token(number), run=SimpleNamespace(priority=priority))


@given(st.lists(st.integers(-5, 5)), st.sets(st.integers(0, 20)))
def test_the_higher_priority_goes_first_then_what_came_first(
    priorities: list[int], dropped: set[int]
) -> None:
    buffer = Buffer()
    for number, priority in enumerate(priorities):
        buffer.put(claim(number, priority), 0.0)
    numbers = range(len(priorities))
    assert [buffer.drop(token(number)) for number in dropped] == [n in numbers for n in dropped]
    left = sorted(set(numbers) - dropped, key=lambda number: (-priorities[number], number))
    assert len(buffer) == len(left)
    taken = [buffer.take() for _ in left]
    assert [found.token for found in taken if found is not None] == [token(n) for n in left]
    assert buffer.take() is None


def test_what_has_waited_for_too_long_is_found() -> None:
    buffer = Buffer()
    for number in range(4):
        buffer.put(claim(number), float(number))
    assert [found.token for found in buffer.take_since(1.0)] == [token(0), token(1)]
    assert buffer.take_since(1.5) == []
    assert len(buffer) == 2
    assert not buffer.drop(token(1))
