"""The shapes of flows and of the problems in their files."""

from __future__ import annotations

from typing import Annotated, Final, NotRequired, TypedDict

from duebook.api.shapes import Object, items_of
from duebook.model.codec import Name, Shown
from duebook.model.flow_view import FlowView
from duebook.model.run import Run

__all__ = [
    "FlowList",
    "Forgotten",
    "StepList",
    "Validation",
]

StepList: Final = items_of("StepList", Run, str | None, "Runs of a flow, or of its steps.")


class FlowProblem(TypedDict):
    file: str
    line: int
    column: int
    key: str
    message: str
    hint: str
    text: NotRequired[Annotated[str, Shown("The line, with secrets hidden.", default="")]]


FlowList: Final = items_of(
    "FlowList",
    FlowView,
    str | None,
    problems=Annotated[
        list[FlowProblem], Shown("Problems in flow files, including files without a valid flow.")
    ],
)


class Forgotten(TypedDict):
    """Flows that were deleted."""

    names: list[Name]


Validation: Final = Object(
    "Validation",
    {"problems": list[FlowProblem]},
    "Problems in a file; empty if it is valid.",
)
