"""Prints figures and goals, each the median of its rounds with their spread, and collects goals.

    goals = Goals()
    goals.at_least("times pgqueuer", 2, ratios(ours, theirs))
    goals.below("p99 of one claim, ms", 100, [p99])
    sys.exit(goals.exit_code)

`python -m bench` collects the lines of all benchmarks: every line of the form
"… goal >= 2 holds" or "… goal >= 2 MISSED" counts, whoever printed it.
"""

from __future__ import annotations

import operator
import re
import statistics
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["LINE", "Goals", "interleaved", "ratios", "show"]

LINE: Final = re.compile(r" goal [<>]\S* ?\S* +(holds|MISSED)$")
"""How a line that states a goal ends."""


class Goals:
    """What a benchmark shall reach; prints each goal as it is given."""

    def __init__(self) -> None:
        self.missed = 0

    def at_least(self, what: str, bound: float, figures: Sequence[float]) -> None:
        self._state(what, ">=", operator.ge, bound, figures)

    def at_most(self, what: str, bound: float, figures: Sequence[float]) -> None:
        self._state(what, "<=", operator.le, bound, figures)

    def below(self, what: str, bound: float, figures: Sequence[float]) -> None:
        self._state(what, "<", operator.lt, bound, figures)

    def _state(
        self,
        what: str,
        sign: str,
        compare: Callable[[Any, Any], bool],
        bound: float,
        figures: Sequence[float],
    ) -> None:
        holds = compare(statistics.median(figures), bound)
        self.missed += not holds
        goal = f"goal {sign} {bound:,}"
        print(f"{_line(what, figures):92}  {goal:16}{'holds' if holds else 'MISSED'}", flush=True)

    @property
    def exit_code(self) -> int:
        return 1 if self.missed else 0


def show(what: str, figures: Sequence[float]) -> None:
    """A figure without a goal."""
    print(_line(what, figures), flush=True)


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round: what slows a round down slows both, and their ratio stays."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def interleaved(kinds: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """The figures of each kind, measured by turns, because the machine may be busy at times."""
    found: dict[str, list[float]] = {what: [] for what in kinds}
    for _ in range(rounds):
        for what, measure in kinds.items():
            found[what].append(measure())
    return found


def _line(what: str, figures: Sequence[float]) -> str:
    median, low, high = (_number(f(figures)) for f in (statistics.median, min, max))
    spread = f"  ({low} to {high})" if len(figures) > 1 else ""
    return f"{what:56}{median:>12}{spread}"


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 1_000 else f"{figure:.2f}"
