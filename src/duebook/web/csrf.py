"""Proves that a form, or a notice in an address, was made by us for this very session; pure."""

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
"""The field of an address that proves what it says was done."""
_OTHERS: Final = (TOLD, "namespace", "before")
"""What an address says besides."""
_PURPOSE: Final = b"a form of the dashboard"
_NOTICE: Final = b"a notice of the dashboard"


def token_for(session: str) -> str:
    """A session is a secret of its browser, so nobody else can make this from anything public."""
    return hmac.new(session.encode(), _PURPOSE, hashlib.sha256).hexdigest()


def is_right(session: str, given: str) -> bool:
    return hmac.compare_digest(token_for(session).encode(), given.encode())


def signed_address(session: str, address: str) -> str:
    """An address of ours that tells what was done, which nobody else can make up."""
    parts = urlsplit(address)
    fields = parse_qsl(parts.query, keep_blank_values=True)
    proof = _proof(session, unquote(parts.path), fields)
    return f"{address}{'&' if fields else '?'}{TOLD}={proof}"


def told_by(session: str, path: str, fields: Iterable[tuple[str, str]]) -> bool:
    """Whether an address with these fields was signed for this session."""
    known = list(fields)
    given = dict(known).get(TOLD, "")
    return hmac.compare_digest(_proof(session, path, known).encode(), given.encode())


def _proof(session: str, path: str, fields: Iterable[tuple[str, str]]) -> str:
    said = sorted(field for field in fields if field[0] not in _OTHERS)
    content = _NOTICE + json.dumps([path, said]).encode()
    return hmac.new(session.encode(), content, hashlib.sha256).hexdigest()[:32]
