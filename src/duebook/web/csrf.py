"""Proves that Duebook created a form, or a notice in a URL, for this session; pure."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FIELD", "TOLD", "is_right", "signed_address", "token_for", "told_by"]

FIELD: Final = "csrf"
TOLD: Final = "told"
"""The query parameter that proves the notice in a URL."""
_OTHERS: Final = (TOLD, "namespace", "before")
"""Query parameters that the proof does not cover."""
_PURPOSE: Final = b"a form of the dashboard"
_NOTICE: Final = b"a notice of the dashboard"


def token_for(session: str) -> str:
    """Derived from the session, which only its browser knows, so no one else can compute it."""
    return hmac.new(session.encode(), _PURPOSE, hashlib.sha256).hexdigest()


def is_right(session: str, given: str) -> bool:
    return hmac.compare_digest(token_for(session).encode(), given.encode())


def signed_address(session: str, address: str) -> str:
    """A dashboard URL that reports what was done, signed so that no one else can forge it."""
    parts = urlsplit(address)
    fields = parse_qsl(parts.query, keep_blank_values=True)
    proof = _proof(session, unquote(parts.path), fields)
    return f"{address}{'&' if fields else '?'}{TOLD}={proof}"


def told_by(session: str, path: str, fields: Iterable[tuple[str, str]]) -> bool:
    """Whether a URL with these query parameters was signed for this session."""
    known = list(fields)
    given = dict(known).get(TOLD, "")
    return hmac.compare_digest(_proof(session, path, known).encode(), given.encode())


def _proof(session: str, path: str, fields: Iterable[tuple[str, str]]) -> str:
    said = sorted(field for field in fields if field[0] not in _OTHERS)
    content = _NOTICE + json.dumps([path, said]).encode()
    return hmac.new(session.encode(), content, hashlib.sha256).hexdigest()[:32]
