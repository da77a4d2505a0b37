"""Opens connections to PostgreSQL as Duebook needs them, and translates the driver's errors."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from duebook.errors import Invalid, Unavailable, printable
from duebook.store.postgres.trouble import trouble

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

__all__ = ["BRIEF", "SCHEMA", "Connection", "connect", "full_conninfo", "place_of", "translated"]

T = TypeVar("T")
SCHEMA: Final = "duebook"
"""The books have a schema of their own, so that their names meet nobody else's."""
BRIEF: Final = 5.0
"""Seconds within which a server answers what costs it nothing, unless the network is broken."""
DEFAULTS: Final[dict[str, str]] = {
    "application_name": "duebook",
    "connect_timeout": "5",
    "target_session_attrs": "read-write",  # a standby is refused
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """One that waits `patience` seconds for the answer to a statement, and then is closed.

    The server limits statements as well, but a network that swallows everything tells nobody.
    None is for what may take hours.
    """

    patience: float | None = BRIEF
    used = False
    """before: it may have broken since, and nobody noticed"""

    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **named: Any) -> T:
        """What the driver calls for everything that needs the network."""
        return super().wait(
            gen if self.patience is None else self._limited(gen), *arguments, **named
        )

    def _limited(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """The driver resumes `gen` ten times a second, also when nothing came."""
        patience = self.patience or 0.0
        deadline = time.monotonic() + patience
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > deadline:
                    self.close()
                    raise errors.ConnectionTimeout(f"no answer within {patience:.0f} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result


def full_conninfo(url: str, name: str = "database URL") -> str:
    """The connection string with what Duebook adds; raises Invalid when it cannot be read."""
    try:
        given = conninfo_to_dict(url)
        return make_conninfo("", **{**DEFAULTS, **given})
    except psycopg.Error as error:
        problem = printable(str(error).strip().partition("\n")[0])
        raise Invalid(f"the {name} cannot be read: {problem}") from None


def place_of(conninfo: str) -> str:
    """Where the database is, for messages: no user, no password."""
    parts: dict[str, Any] = conninfo_to_dict(conninfo)
    hosts = str(parts.get("host") or parts.get("hostaddr") or "the local socket").split(",")
    ports = str(parts.get("port") or "").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    where = [f"{host}:{port}".rstrip(":") for host, port in zip(hosts, ports, strict=False)]
    name = parts.get("dbname") or parts.get("user") or ""
    return printable(f"database {name!r} at {', '.join(where)}")


def connect(conninfo: str) -> Connection:
    """A connection whose transactions are explicit, and that prepares no statements: behind a
    pooler the next transaction may be another session's. Raises the driver's errors."""
    return Connection.connect(conninfo, autocommit=True, prepare_threshold=None)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Driver errors that say something about the database become ours, with its place.

    Those about what was written stay: they are a mistake of ours, or of the data.
    """
    try:
        yield
    except (errors.SerializationFailure, errors.DeadlockDetected):
        raise  # worth another try at once
    except (
        errors.ReadOnlySqlTransaction,
        errors.InsufficientPrivilege,
        errors.IdleInTransactionSessionTimeout,
        psycopg.OperationalError,
        psycopg.InterfaceError,
    ) as error:
        raise Unavailable(trouble(place, error)) from error
