"""The shapes of tokens, namespaces and the audit."""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired, TypedDict

from duebook.api.schemas.base import Namespaces, RoleName
from duebook.model.access import TokenMade
from duebook.model.codec import Name

__all__ = [
    "TokenCreation",
    "TokenMade",
]


class TokenCreation(TypedDict):
    name: Name
    role: RoleName
    namespaces: Namespaces | str
    expires_at: NotRequired[datetime | None]
