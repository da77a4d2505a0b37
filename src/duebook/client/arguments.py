"""Annotations for the arguments of use cases: help, bounds, how the server reads them and how the
remote client sends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from duebook.errors import Invalid, NotFound, shorten
from duebook.ids import check_name, looks_like_prefix, new_id
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import read_labels
from duebook.timetext import parse_instant

__all__ = [
    "AT_ONCE",
    "CURSOR",
    "DUE_FROM",
    "DUE_UNTIL",
    "JUDGED",
    "LIMIT",
    "NOT_SENT",
    "By",
    "Cursor",
    "FlowName",
    "Given",
    "Limit",
    "Payload",
    "QueueName",
    "RunId",
    "ScheduleName",
    "check_run_id",
    "labels_in_query",
    "labels_read",
    "named",
]


@dataclass(frozen=True, slots=True)
class Given:
    """The requirements for a value in a request."""

    description: str = ""
    alias: str | None = None
    """its name in the request, if it differs from the argument's"""
    ge: int | None = None
    le: int | None = None
    max_length: int | None = None
    """of a text or a list"""
    pattern: str | None = None
    in_query: bool = False
    """whether it is in the query although the request has a body"""
    json: Any = None
    """its type in the OpenAPI document, if that is more specific"""
    read: Callable[[str, Any], Any] | None = None
    """how the server reads it from a body; None: by its type"""
    send: Callable[[Any], Any] | None = None
    """how the remote client converts it before sending; raises as the local client would"""


NOT_SENT: Final = Given("not sent")
"""For arguments that only a local client takes."""


JUDGED: Final = Given(read=lambda _, value: value)
"""For arguments that the use case validates itself, so that it can report all problems at once."""


def named(what: str, least: int = 0) -> Given:
    """A name in a path."""

    def check(value: object) -> str:
        if isinstance(value, str) and len(value) >= least:
            return value
        raise Invalid(f"{what} {shorten(value)} is not a string")

    return Given(send=check)


def labels_read(description: str) -> Given:
    """An object of labels in a body."""
    return Given(
        description,
        json=dict[str, str],
        read=lambda key, value: dict(read_labels(key, value)),
    )


def check_run_id(value: object) -> str:
    """An id, or its first characters; raises NotFound for anything else."""
    if isinstance(value, str) and looks_like_prefix(value):
        return value
    raise NotFound(f'run "{shorten(value)}" does not exist; an id looks like {new_id()}')


def labels_in_query(value: Any) -> Any:
    """An object of labels as a list of texts for a query."""
    if isinstance(value, Mapping):
        return [f"{name}:{text}" for name, text in value.items()]
    return value


By = Annotated[str, NOT_SENT]
"""The author of the change; with a server, the owner of the token."""
ScheduleName = Annotated[str, named("name")]
RunId = Annotated[str, Given(send=check_run_id)]
FlowName = Annotated[str, named("flow", 1)]
QueueName = Annotated[str, Given(send=lambda value: check_name(value, "queue"))]
Payload = Annotated[dict[str, Any] | None, Given("Replaces the payload of the schedule.")]
DUE_FROM: Final = Given("Due at this time or later.")
DUE_UNTIL: Final = Given("Due at this time or earlier.")
AT_ONCE: Final = Given(send=parse_instant)
"""An instant that the client already parses, as the database would."""
CURSOR: Final = Given("The `next_cursor` of the previous page of the same list.")
Cursor = Annotated[str | None, CURSOR]
LIMIT: Final = Given(
    "The most items to return; a page may have fewer and still be followed by another.",
    ge=1,
    le=1000,
)
Limit = Annotated[int, LIMIT]
