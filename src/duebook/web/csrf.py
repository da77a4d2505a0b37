"""What proves that a form was made by a page of ours for this very session; pure."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

__all__ = ["FIELD", "is_right", "token_for"]

FIELD: Final = "csrf"
_PURPOSE: Final = b"a form of the dashboard"


def token_for(session: str) -> str:
    """A session is a secret of its browser, so nobody else can make this from anything public."""
    return hmac.new(session.encode(), _PURPOSE, hashlib.sha256).hexdigest()


def is_right(session: str, given: str) -> bool:
    return hmac.compare_digest(token_for(session).encode(), given.encode())
