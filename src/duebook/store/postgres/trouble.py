"""What is wrong with a database, in one line with a remedy, from what the driver says; pure text.

When a connection cannot be made the driver has a text and no code, and with several hosts a text
for each of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from psycopg import errors

from duebook.errors import printable

if TYPE_CHECKING:
    import psycopg

__all__ = ["trouble"]

_READ_ONLY: Final = "the server must be promoted, or the database URL must also name the primary"
_REMEDIES: Final = tuple(
    (frozenset(codes.split()), re.compile(text, re.IGNORECASE), remedy)
    for codes, text, remedy in (
        (
            "25006",
            r"read-only|hot standby",
            _READ_ONLY,
        ),
        (
            "28P01",
            r"password|SASL|authentication failed|auth failed",
            "correct the user or the password in the database URL",
        ),
        (
            "3D000",
            r'database ".*" does not exist|no such database',
            "create it with createdb, or correct the database URL",
        ),
        (
            "28000",
            r'role ".*" does not exist|no such user',
            "create it with createuser, or correct the database URL",
        ),
        (
            "",
            r"pg_hba\.conf",
            "the server's pg_hba.conf must let this machine in",
        ),
        (
            "53300",
            r"too many (clients|connections)|connection slots|no more connections",
            "raise max_connections of the server, or put a pooler in between",
        ),
        (
            "57P03",
            r"starting up|shutting down|recovery|not (yet )?accepting connections",
            "it answers when it is done with that",
        ),
        (
            "53100",
            r"no space left",
            "make room on the server's disk",
        ),
        (
            "42501",
            r"permission denied",
            "grant it to the role, as docs/postgresql.md shows",
        ),
        (
            "",
            r"unsupported startup parameter",
            "leave it out of the database URL, or let the pooler ignore it",
        ),
        (
            "",
            r"refused|no such file|timeout|timed out|no answer|no route|unreachable",
            "is the server running, and is this its address?",
        ),
        (
            "",
            r"translate host name|name or service|resolve",
            "correct the host in the database URL",
        ),
    )
)
_ATTEMPT: Final = re.compile(r"- host: '?(.+?)'?, port: '?(.+?)'?, hostaddr: .+?: (.*)")
_PREFIX: Final = re.compile(
    r"connection failed: |(?:connection to server .*? )failed: |(?:FATAL|ERROR): +"
)


def trouble(place: str, error: psycopg.Error) -> str:
    """One line: what cannot be done, where, why as far as the driver knows, and what helps."""
    reasons = _reasons(str(error)) or {"": type(error).__name__}
    remedies = [remedy for why in reasons.values() if (remedy := _remedy(error.sqlstate, why))]
    told = ", ".join(f"{host} says: {why}" if host else why for host, why in reasons.items())
    remedy = _READ_ONLY if _READ_ONLY in remedies else next(iter(remedies), "")
    return printable("; ".join(filter(None, [f"{_what(place, error)}: {told}", remedy])))


def _what(place: str, error: psycopg.Error) -> str:
    if isinstance(error, errors.InsufficientPrivilege):
        return f"not allowed in the {place}"
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return f"cannot write to the {place}"
    if isinstance(error, (errors.QueryCanceled, errors.IdleInTransactionSessionTimeout)):
        return f"the {place} took too long"
    return f"cannot reach the {place}"


def _reasons(text: str) -> dict[str, str]:
    """Why it failed, by host where there were several: the last try at each counts."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("\t")]
    tried = {}
    host = None
    for line in lines:
        if found := _ATTEMPT.match(line):
            host = f"{found[1]}:{found[2]}"
            tried[host] = _bare(found[3])
        elif host is not None and "failed: " in line:
            tried[host] = _bare(line)
    if tried:
        return tried
    last = [line for line in lines if "failed: " in line][-1:] or lines[:1]
    return {"": _bare(last[0])} if last else {}


def _bare(line: str) -> str:
    """Without where it was tried, which is said anyway, and how bad it is."""
    return _PREFIX.sub("", line).strip()


def _remedy(code: str | None, why: str) -> str | None:
    for codes, text, remedy in _REMEDIES:
        if code in codes or text.search(why):
            return remedy
    return None
