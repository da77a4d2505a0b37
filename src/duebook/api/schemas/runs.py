"""The shapes of runs, their attempts and their logs."""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple, TypedDict

from duebook.api.shapes import items_of
from duebook.model.codec import Shown, shown
from duebook.model.run import LogLine

__all__ = ["LogList", "Output", "PlacedLine"]


class Output(TypedDict):
    output: Any


@shown("LogLine")
class PlacedLine(NamedTuple):
    """A line of a run's output, and its place in the log."""

    place: Annotated[str, Shown("The cursor to continue after this line.")]
    line: Annotated[LogLine, Shown(spread=True)]


LogList: Final = items_of(
    "LogList",
    PlacedLine,
    Annotated[
        str | None,
        Shown("Where to continue; null if the run has finished and there are no more lines."),
    ],
)
