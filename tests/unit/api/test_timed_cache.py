"""An answer that is kept for a while."""

from __future__ import annotations

import pytest

from duebook.api.timed_cache import TimedCache


def test_it_asks_again_only_when_the_answer_is_old() -> None:
    seconds, asked = 0.0, 0

    def ask() -> int:
        nonlocal asked
        asked += 1
        return asked

    recent = TimedCache(ask, 5.0, lambda: seconds)
    assert [recent.get(), recent.get()] == [1, 1]
    seconds = 4.9
    assert recent.get() == 1
    seconds = 5.0
    assert recent.get() == 2


def test_an_error_is_not_kept() -> None:
    failing = True

    def ask() -> int:
        if failing:
            raise ValueError("no")
        return 7

    recent = TimedCache(ask, 5.0, lambda: 0.0)
    with pytest.raises(ValueError, match="no"):
        recent.get()
    failing = False
    assert recent.get() == 7
