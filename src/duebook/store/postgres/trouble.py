"""Describes a problem with a database in one line with a remedy, from the driver's message; pure
text.

When a connection cannot be opened, the driver has a text but no code.
"""

from __future__ import annotations

import re
from typing import Final

import psycopg
from psycopg import errors

from duebook.errors import printable

__all__ = ["NoHost", "trouble"]

_REMEDIES: Final = tuple(
    (frozenset(codes.split()), re.compile(text, re.IGNORECASE), remedy)
    for codes, text, remedy in (
        (
            "25006",
            r"read-only|hot standby",
            "a standby must be promoted, or the database URL must also name the primary",
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
            "raise max_connections on the server, or use a pooler",
        ),
        (
            "57P03",
            r"starting up|shutting down|recovery|not (yet )?accepting connections",
            "it responds when it has finished",
        ),
        (
            "53100",
            r"no space left",
            "free some space on the server's disk",
        ),
        (
            "42501",
            r"permission denied",
            "grant it to the role, as docs/postgresql.md shows",
        ),
        (
            "",
            r"unsupported startup parameter",
            "remove it from the database URL, or configure the pooler to ignore it",
        ),
        (
            "",
            r"refused|no such file|timeout|timed out|no response|no route|unreachable",
            "check that the server is running and that this is its address",
        ),
        (
            "",
            r"translate host name|name or service|resolve",
            "correct the host in the database URL",
        ),
    )
)
_PREFIX: Final = re.compile(
    r"connection (?:failed|is bad): |(?:connection to server .*? )failed: |(?:FATAL|ERROR): +"
)


class NoHost(psycopg.OperationalError):
    """None of several hosts works, each for its own reason."""

    def __init__(self, failures: dict[str, psycopg.Error]) -> None:
        super().__init__(", ".join(f"at {host} {_why(why)}" for host, why in failures.items()))


def trouble(place: str, error: psycopg.Error) -> str:
    """One line: what failed, where, why as far as the driver knows, and the remedy."""
    if isinstance(error, NoHost):
        place, why = place.rpartition(" at ")[0], str(error)
    else:
        why = _why(error)
    remedy = _remedy(error.sqlstate, why)
    return printable("; ".join(filter(None, [f"{_what(place, error)}: {why}", remedy])))


def _what(place: str, error: psycopg.Error) -> str:
    if isinstance(error, errors.InsufficientPrivilege):
        return f"not allowed in the {place}"
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return f"cannot write to the {place}"
    if isinstance(error, (errors.QueryCanceled, errors.IdleInTransactionSessionTimeout)):
        return f"the {place} took too long"
    return f"cannot reach the {place}"


def _why(error: psycopg.Error) -> str:
    """In one line, without the address, which is shown anyway, and without the severity.

    Of several addresses of a host, the last one tried comes first.
    """
    text = str(error).strip().partition("\n")[0]
    return _PREFIX.sub("", text).strip() or type(error).__name__


def _remedy(code: str | None, why: str) -> str | None:
    """The remedy for the first match in the list above."""
    for codes, text, remedy in _REMEDIES:
        if code in codes or text.search(why):
            return remedy
    return None
