"""Common parts of shapes: durations, namespaces and problems."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from duebook.model.codec import Shown

__all__ = ["Duration", "Namespaces", "Problem"]

Duration = Annotated[
    str,
    Shown(
        "A length of time: weeks, days, hours, minutes and seconds.",
        pattern="^([0-9]{1,9}[wdhms])+$",
        example="1h30m",
    ),
]
Namespaces = Annotated[list[str], Shown('["*"] for all.', least=1)]


class FieldProblem(TypedDict):
    field: str
    message: str


class Problem(TypedDict):
    """RFC 9457 problem details; `code` is stable, `detail` is a message for readers."""

    type: Literal["about:blank"]
    title: str
    status: Annotated[int, Shown(least=400, most=599)]
    detail: str
    code: Annotated[str, Shown(examples=("not_found", "invalid_schedule", "conflict"))]
    errors: NotRequired[Annotated[list[FieldProblem] | None, Shown("Every wrong field.")]]
