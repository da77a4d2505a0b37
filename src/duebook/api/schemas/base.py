"""What all shapes share: their strictness, instants, lengths, names, lists and problems."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Duration", "FieldProblem", "Id", "Instant", "Name", "ProblemShape", "Shape"]

Instant = Annotated[
    str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-03-29T02:10:00Z"])
]
Duration = Annotated[
    str,
    Field(
        pattern="^([0-9]{1,9}[wdhms])+$",
        description="A length of time: weeks, days, hours, minutes and seconds.",
        examples=["1h30m"],
    ),
]
Name = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9._-]{0,127}$", examples=["nightly-backup"])]
Id = Annotated[
    str,
    Field(json_schema_extra={"format": "uuid"}, examples=["01a1de90-53bb-7c3e-8d5f-0123456789ab"]),
]
RunStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
RunState = Literal["queued", "running", "succeeded", "failed", "cancelled", "skipped"]


class Shape(BaseModel):
    """Nothing is in it but what it says. It is built when somebody asks for the document."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class FieldProblem(Shape):
    field: str
    message: str


class ProblemShape(Shape):
    """RFC 9457 problem details; `code` is stable, `detail` is for people."""

    model_config = ConfigDict(extra="forbid", title="Problem")

    type: Literal["about:blank"]
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    detail: str
    code: Annotated[str, Field(examples=["not_found", "invalid_schedule", "conflict"])]
    errors: Annotated[
        list[FieldProblem] | None, Field(description="Every field that is wrong, at once.")
    ] = None
