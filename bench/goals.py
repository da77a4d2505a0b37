"""Prints figures and goals, each as the median and spread of its rounds, and records each.

    goals = Goals()
    goals.at_least("times pgqueuer", 2, ratios(ours, theirs))
    goals.below("p99 of one claim, ms", 100, [p99])
    sys.exit(goals.exit_code)

Figures are recorded only here: `python -m bench` names a file in the environment, to which each
figure is appended as a line of JSON (see results.py). A name that starts with spaces continues the
last one without; a name that ends with ", ms" or the like has that unit.
"""

from __future__ import annotations

import json
import operator
import os
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["RECORD", "Goals", "interleaved", "leave_out", "ratios", "show"]

RECORD: Final = "DUEBOOK_BENCH_RECORD"
"""The variable that names the file to which figures are appended."""
UNITS: Final = ("µs", "ms", "s", "MB", "bytes")
_parent = [""]


class Goals:
    """The goals of a benchmark; prints each when it is added."""

    def __init__(self) -> None:
        self.missed = 0

    def at_least(
        self, what: str, bound: float, figures: Sequence[float], unit: str = "", chart: str = ""
    ) -> None:
        self._state(what, (">=", operator.ge, bound), figures, unit, chart)

    def at_most(
        self, what: str, bound: float, figures: Sequence[float], unit: str = "", chart: str = ""
    ) -> None:
        self._state(what, ("<=", operator.le, bound), figures, unit, chart)

    def below(
        self, what: str, bound: float, figures: Sequence[float], unit: str = "", chart: str = ""
    ) -> None:
        self._state(what, ("<", operator.lt, bound), figures, unit, chart)

    def _state(
        self,
        what: str,
        wanted: tuple[str, Callable[[Any, Any], bool], float],
        figures: Sequence[float],
        unit: str,
        chart: str,
    ) -> None:
        sign, compare, bound = wanted
        holds = compare(statistics.median(figures), bound)
        self.missed += not holds
        goal = f"{sign} {bound:,}"
        print(
            f"{_line(what, figures):92}  goal {goal:11}{'holds' if holds else 'MISSED'}", flush=True
        )
        _record(what, figures, unit, chart, goal, holds)

    @property
    def exit_code(self) -> int:
        return 1 if self.missed else 0


def show(what: str, figures: Sequence[float], unit: str = "", chart: str = "") -> None:
    """Print a figure without a goal; those with the same `chart` are drawn side by side."""
    print(_line(what, figures), flush=True)
    _record(what, figures, unit, chart)


def leave_out(what: str, why: str) -> None:
    """Report that something was not measured here."""
    print(f"{what} is left out: {why}", flush=True)
    _append({"left_out": what, "why": why})


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round: what slows a round down affects both, and their ratio stays."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def interleaved(kinds: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """The figures of each kind, measured in turn because the machine may be busy at times."""
    found: dict[str, list[float]] = {what: [] for what in kinds}
    for number in range(1, rounds + 1):
        for what, measure in kinds.items():
            found[what].append(measure())
            figure = _number(found[what][-1])
            print(f"  round {number} of {rounds}: {what} {figure}", file=sys.stderr, flush=True)
    return found


def _line(what: str, figures: Sequence[float]) -> str:
    median, low, high = (_number(f(figures)) for f in (statistics.median, min, max))
    spread = f"  ({low} to {high})" if len(figures) > 1 else ""
    return f"{what:56}{median:>12}{spread}"


def _number(figure: float) -> str:
    return f"{figure:,.0f}" if abs(figure) >= 1_000 else f"{figure:.2f}"


def _record(
    what: str,
    figures: Sequence[float],
    unit: str,
    chart: str,
    goal: str | None = None,
    holds: bool | None = None,
) -> None:
    name, _, last = what.strip().rpartition(", ")
    if not unit and name and last in UNITS:
        unit = last
    else:
        name = what.strip()
    if what.startswith(" "):
        name = f"{_parent[0]}: {name}"
    else:
        _parent[0] = name
    figure = {
        "name": name,
        "unit": unit,
        "value": _rounded(statistics.median(figures)),
        "low": _rounded(min(figures)),
        "high": _rounded(max(figures)),
        "rounds": len(figures),
        "goal": goal,
        "holds": holds,
        "chart": chart or None,
    }
    _append({key: value for key, value in figure.items() if value is not None})


def _rounded(figure: float) -> float:
    """Rounded to four digits: the others mean nothing."""
    return float(f"{figure:.4g}")


def _append(record: dict[str, Any]) -> None:
    if place := os.environ.get(RECORD):
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
