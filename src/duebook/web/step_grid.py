"""A table of a flow's steps in its latest runs: how each ended and how long it took; pure."""

from __future__ import annotations

from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING, Final

from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.run import Run
    from duebook.model.step_history import StepMark

__all__ = ["MOST_STEPS", "StepRow", "step_grid"]

MOST_STEPS: Final = 40
NOTICED: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step in each of the runs, the oldest first; None where it did not start."""

    step: str
    cells: Sequence[StepMark | None]

    @property
    def typical(self) -> timedelta | None:
        """The median of its durations."""
        took = [cell.took for cell in self.cells if cell is not None and cell.took is not None]
        return median(took) if took else None  # type: ignore[type-var]

    @property
    def latest(self) -> StepMark | None:
        """The latest run in which it ended."""
        ended = [cell for cell in self.cells if cell is not None and cell.took]
        return ended[-1] if ended else None

    @property
    def slower(self) -> bool:
        """Whether it last took at least 1.5 times the median, and at least NOTICED more."""
        latest, usual = self.latest, self.typical
        if latest is None or latest.took is None or usual is None:
            return False
        return latest.took >= usual * 1.5 and latest.took - usual >= NOTICED

    @property
    def longest(self) -> StepMark | None:
        """The run in which it took longest."""
        ended = [(cell.took, cell) for cell in self.cells if cell is not None and cell.took]
        return max(ended, key=lambda pair: pair[0])[1] if ended else None


def step_grid(
    names: Sequence[str], runs: Sequence[Run], marks: Sequence[StepMark]
) -> list[StepRow]:
    """The rows of the given steps; `runs` are the newest first."""
    found = {(mark.flow_run_id, mark.step): mark for mark in marks}
    return [
        StepRow(name, [found.get((run.id, name)) for run in reversed(runs)])
        for name in names[:MOST_STEPS]
    ]
