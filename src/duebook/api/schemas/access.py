"""The shapes of tokens, namespaces and the audit."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NotRequired, TypedDict

from duebook.api.schemas.base import Namespaces, RoleName
from duebook.api.shapes import items_of
from duebook.model.access import AccessToken, TokenMade
from duebook.model.change import Change
from duebook.model.codec import Name
from duebook.model.quota import NamespaceUse, Quota

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

NamespaceShape = NamespaceUse
QuotaShape = Quota
TokenShape = AccessToken
ChangeList: Final = items_of("ChangeList", Change, str | None)
NamespaceList: Final = items_of("NamespaceList", NamespaceUse)
TokenList: Final = items_of("TokenList", AccessToken)


class TokenCreation(TypedDict):
    name: Name
    role: RoleName
    namespaces: Namespaces | str
    expires_at: NotRequired[datetime | None]
