"""The shapes of queues, tokens, health and the caller."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal, NotRequired, TypedDict

from duebook.api.schemas.base import Namespaces
from duebook.api.shapes import Object, keys_of
from duebook.model.access import Role
from duebook.model.codec import Name, Shown
from duebook.model.queue import MOST
from duebook.model.readiness import Readiness as Status

__all__ = [
    "Health",
    "Me",
    "NamespaceKeep",
    "QueueLimits",
    "Readiness",
    "TokenCreation",
]

Readiness: Final = Object(
    "Readiness",
    {key: hint if key == "ready" else NotRequired[hint] for key, hint in keys_of(Status).items()},
    "Whether a node is ready; details only with a token for all namespaces.",
)


class CalendarDays(TypedDict):
    days: list[Annotated[str, Shown(format="date", example="2026-12-25")]]


class QueueLimits(TypedDict, total=False):
    """At least one limit; they replace the previous limits of the queue."""

    concurrency: Annotated[int | None, Shown(least=0, most=MOST)]
    rate: Annotated[str | None, Shown(examples=("10/s", "100/m", "5/10s"))]


class NamespaceKeep(TypedDict, total=False):
    """How long runs are kept; without it, as long as those of other namespaces."""

    keep: Annotated[str | None, Shown(examples=("30d", "12h", "365d"))]


class TokenCreation(TypedDict):
    name: Name
    role: Role
    namespaces: Namespaces | str
    expires_at: NotRequired[datetime | None]


class Me(TypedDict):
    """The token in use."""

    name: str
    role: Role
    namespaces: Annotated[list[str], Shown('["*"] for all.')]


class Health(TypedDict):
    status: Literal["ok"]
