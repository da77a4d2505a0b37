"""Opens connections to PostgreSQL as Duebook needs them, and translates the driver's errors."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from duebook.errors import Invalid, Unavailable, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SCHEMA", "connect", "full_conninfo", "place_of", "translated"]

SCHEMA: Final = "duebook"
"""The books have a schema of their own, so that their names meet nobody else's."""
DEFAULTS: Final[dict[str, str]] = {
    "application_name": "duebook",
    "connect_timeout": "5",
    "target_session_attrs": "read-write",  # a standby is refused
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


def full_conninfo(url: str) -> str:
    """The connection string with what Duebook adds; raises Invalid when it cannot be read."""
    try:
        given = conninfo_to_dict(url)
        return make_conninfo("", **{**DEFAULTS, **given})
    except psycopg.Error as error:
        problem = _first_line(error)
        raise Invalid(f"the database URL cannot be read: {problem}") from None


def place_of(conninfo: str) -> str:
    """Where the database is, for messages: no user, no password."""
    parts: dict[str, Any] = conninfo_to_dict(conninfo)
    hosts = str(parts.get("host") or parts.get("hostaddr") or "the local socket").split(",")
    ports = str(parts.get("port") or "").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    where = [f"{host}:{port}".rstrip(":") for host, port in zip(hosts, ports, strict=False)]
    name = parts.get("dbname") or parts.get("user") or ""
    return printable(f"database {name!r} at {', '.join(where)}")


def connect(conninfo: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection whose transactions are explicit; raises Unavailable."""
    with translated(place_of(conninfo)):
        return psycopg.connect(conninfo, autocommit=True)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Driver errors that say something about the database become ours, with its place.

    Those about what was written stay: they are a mistake of ours, or of the data.
    """
    try:
        yield
    except (errors.SerializationFailure, errors.DeadlockDetected):
        raise  # worth another try at once
    except errors.ReadOnlySqlTransaction as error:
        raise Unavailable(f"the {place} cannot be written here: it is read-only") from error
    except errors.InsufficientPrivilege as error:
        raise Unavailable(f"not allowed in the {place}: {_first_line(error)}") from error
    except (errors.QueryCanceled, errors.IdleInTransactionSessionTimeout) as error:
        raise Unavailable(f"the {place} took too long: {_first_line(error)}") from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Unavailable(f"cannot reach the {place}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    """What a driver says, in one line; the last line of several tries is the one that counts."""
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return printable(text.removeprefix("connection failed: "))
