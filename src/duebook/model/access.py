"""Access for remote clients: tokens as values, their roles, and the text that proves a token.

Only the digest of a token's secret is stored, so reading the database does not give access.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import datetime
from enum import Enum
from functools import total_ordering
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from duebook.errors import Invalid, quoted, shorten
from duebook.ids import check_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.codec import Id, Name, Shown, shown

__all__ = [
    "EVERYWHERE",
    "AccessToken",
    "Role",
    "TokenMade",
    "digest_of",
    "read_namespaces",
    "read_role",
    "read_session",
    "secret_of",
    "secret_text",
    "session_digest",
    "session_of",
    "split_secret",
]

EVERYWHERE: Final = "*"
"""Stands for all namespaces, including future ones."""
MOST_NAMESPACES: Final = 1_000
_SECRET: Final = re.compile(r"dbk_([0-9a-f]{32})_([A-Za-z0-9_-]{43})", re.ASCII)


@total_ordering
class Role(Enum):
    """What a token may do; each role includes the ones before it."""

    VIEWER = "viewer"
    """read"""
    OPERATOR = "operator"
    """use every action, and create schedules for existing tasks and flows"""
    ADMIN = "admin"
    """also define commands, requests, events and flows, tokens and limits"""

    def __lt__(self, other: Role) -> bool:
        return _RANKS[self] < _RANKS[other]

    def __str__(self) -> str:
        return self.value


_RANKS: Final = {role: rank for rank, role in enumerate(Role)}


@shown("Token")
@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token, without its secret."""

    id: Id
    name: Name
    role: Annotated[Role, Shown(read=lambda name: read_role(name))]  # noqa: PLW0108 - it comes later
    namespaces: Annotated[tuple[str, ...], Shown('["*"] for all.', least=1)]
    """the namespaces that it can see"""
    created_at: datetime
    created_by: str = ""
    expires_at: datetime | None = None
    last_used_at: Annotated[datetime | None, Shown("To the minute.")] = None
    revoked_at: datetime | None = None

    def sees(self, namespace: str) -> bool:
        return EVERYWHERE in self.namespaces or namespace in self.namespaces

    def opens(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@shown()
class TokenMade(NamedTuple):
    """A token with its secret text, which is shown only once."""

    about: Annotated[AccessToken, Shown(spread=True)]
    token: Annotated[str, Shown("Send it as `Authorization: Bearer …`.")]


def secret_text(token_id: str, secret: str) -> str:
    """The token as text: shown once, and sent with each request."""
    return f"dbk_{UUID(token_id).hex}_{secret}"


def split_secret(text: str) -> tuple[str, str] | None:
    """The id of a token and the digest of its secret, still to be verified; None for other
    texts."""
    found = _SECRET.fullmatch(text)
    return None if found is None else (str(UUID(found[1])), digest_of(found[2]))


def digest_of(secret: str) -> str:
    """What the database stores: the digests of a secret and of its proof. A secret has 256 random
    bits, so it cannot be guessed from a plain digest."""
    return _digest(secret) + _digest(_proof(secret))


def session_of(text: str, claim: str) -> str:
    """A session for the owner of a token: the claim, a proof of the secret that is not stored in
    the database, and a signature that can only be created with what is stored."""
    secret = secret_of(text)
    claimed = f"{claim}.{_proof(secret)}"
    return f"{claimed}.{_sign(_digest(secret), claimed)}"


def read_session(session: str, digest: str) -> bool:
    """Whether a session was created with the secret that has this digest."""
    claimed, _, signature = session.rpartition(".")
    proof = claimed.rpartition(".")[2]
    secret, proven = digest[:64], digest[64:]
    signed = hmac.compare_digest(_sign(secret, claimed).encode(), signature.encode())
    return signed and hmac.compare_digest(_digest(proof), proven)


def session_digest(session: str) -> str:
    """What the database stores about an ended session."""
    return _digest(session)


def secret_of(text: str) -> str:
    """The secret in the text of a token, either a stored or a local one."""
    return text.split("_", 2)[2]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _proof(secret: str) -> str:
    return _sign(secret, "session")


def _sign(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), "sha256").hexdigest()


def read_role(value: Any) -> Role:
    if isinstance(value, Role):
        return value
    known = {role.value: role for role in Role}
    if isinstance(value, str) and value in known:
        return known[value]
    raise Invalid(f"role {quoted(value)} is not one of {', '.join(known)}")


def read_namespaces(value: Any) -> tuple[str, ...]:
    """Names of namespaces, or "*" for all of them; each once, in order."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple | set | frozenset) or not names:
        raise Invalid(f'namespaces {shorten(value)} is not a list of names; ["*"] means all')
    if len(names) > MOST_NAMESPACES:
        told = f"namespaces has {len(names):,} names; at most {MOST_NAMESPACES:,} are allowed"
        raise Invalid(f'{told}; ["*"] means all')
    if EVERYWHERE in names:
        return (EVERYWHERE,)
    return tuple(sorted({check_name(name, "namespace") for name in names}))
