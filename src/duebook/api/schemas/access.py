"""The shapes of tokens, namespaces and the audit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from duebook.api.schemas.base import Id, Instant, Name, Shape

__all__ = [
    "ChangeList",
    "NamespaceList",
    "NamespaceShape",
    "QuotaShape",
    "TokenCreation",
    "TokenList",
    "TokenMade",
    "TokenShape",
]

RoleName = Literal["viewer", "operator", "admin"]
Namespaces = Annotated[list[str], Field(min_length=1, description='["*"] for all.')]


class TokenShape(Shape):
    """What is known about a token, but for its secret."""

    model_config = ConfigDict(extra="forbid", title="Token")

    id: Id
    name: Name
    role: RoleName
    namespaces: Namespaces
    created_at: Instant
    created_by: str
    expires_at: Instant | None
    last_used_at: Annotated[Instant | None, Field(description="To the minute.")]
    revoked_at: Instant | None


class TokenMade(TokenShape):
    """A token with its secret text, shown this once."""

    model_config = ConfigDict(extra="forbid", title="TokenMade")

    token: Annotated[str, Field(description="Send it as `Authorization: Bearer …`.")]


class TokenList(Shape):
    items: list[TokenShape]
    next_cursor: None


class TokenCreation(Shape):
    name: Name
    role: RoleName
    namespaces: Namespaces | str
    expires_at: Instant | None = None


class QuotaShape(Shape):
    """Limits of a namespace, at least one; null for none. They replace those that it had."""

    model_config = ConfigDict(extra="forbid", title="Quota")

    schedules: Annotated[int | None, Field(ge=0, le=100_000_000)] = None
    fires_per_minute: Annotated[
        float | None,
        Field(ge=0, le=1_000_000_000, description="Of all schedules, by the mean of each."),
    ] = None
    payload_bytes: Annotated[int | None, Field(ge=2, le=1_000_000_000)] = None
    definition_bytes: Annotated[
        int | None,
        Field(ge=0, le=1_000_000_000_000, description="Of the definitions of all schedules."),
    ] = None
    max_priority: Annotated[
        int | None, Field(ge=-1_000, le=1_000, description="Of schedules and runs.")
    ] = None


class QuotaUse(Shape):
    schedules: int
    fires_per_minute: Annotated[float | None, Field(description="Known where it is limited.")]
    definition_bytes: int


class NamespaceShape(Shape):
    model_config = ConfigDict(extra="forbid", title="Namespace")

    name: Name
    quota: QuotaShape
    used: QuotaUse


class NamespaceList(Shape):
    items: list[NamespaceShape]
    next_cursor: None


class ChangeShape(Shape):
    """Something that somebody did; of an update only what is different."""

    model_config = ConfigDict(extra="forbid", title="Change")

    id: int
    at: Instant
    by: Annotated[str, Field(examples=["token:ci", "cli:alice", "code:shop"])]
    namespace: Annotated[str, Field(description="Empty for what all share.")]
    action: Annotated[str, Field(examples=["create", "update", "pause"])]
    kind: str
    subject: str
    subject_id: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class ChangeList(Shape):
    items: list[ChangeShape]
    next_cursor: str | None
