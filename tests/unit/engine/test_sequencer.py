"""When the sequencer looks again."""

from __future__ import annotations

from typing import Any

from duebook.engine.sequencer import HELD_BY_ANOTHER, LONGEST_WAIT, Sequencer


class Store:
    """Answers one transaction after another."""

    def __init__(self, answers: list[int | None]) -> None:
        self._answers = answers

    def transact(self, work: Any) -> int | None:  # noqa: ARG002
        return self._answers.pop(0)


def test_it_looks_soon_when_another_is_at_it_and_later_when_that_one_stays() -> None:
    answers: list[int | None] = [*[None] * 9, 3, None]
    sequencer = Sequencer(Store(answers), batch=5)  # type: ignore[arg-type]
    waits = [sequencer.step() or 0.0 for _ in range(9)]
    assert waits[0] == HELD_BY_ANOTHER
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_WAIT
    assert sequencer.step() is None
    assert sequencer.step() == HELD_BY_ANOTHER
