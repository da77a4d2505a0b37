"""The way to a database: its hosts, the one that last worked, and how to connect."""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from duebook.errors import Invalid, printable
from duebook.store.postgres.connection import Connection
from duebook.store.postgres.trouble import NoHost

__all__ = ["Route"]

DEFAULTS: Final[dict[str, str]] = {
    "application_name": "duebook",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
OURS: Final = {"target_session_attrs": "any"}
"""The driver's own search for a primary trusts a pooler's stale data about its server."""

PERCENT: Final = (
    "percent-encode special characters in the user name and password: / as %2F, @ as %40, % as %25"
)


ABOUT: Final = b"SELECT pg_backend_pid(), current_setting('transaction_read_only')"


class Route:
    """To the database of a URL; raises Invalid, with the name of the setting, for a bad URL."""

    def __init__(self, url: str, setting: str = "database URL") -> None:
        try:
            parts: dict[str, Any] = {**DEFAULTS, **conninfo_to_dict(url), **OURS}
            self._hosts = _by_host(parts)
        except psycopg.Error as error:
            problem = printable(str(error).strip().partition("\n")[0])
            if "percent" in problem:  # the driver's message shows what may be the password
                problem = PERCENT
            raise Invalid(f"the {setting} cannot be read: {problem}") from None
        if any("@" in str(parts.get(key)) for key in ("host", "port", "dbname")):
            raise Invalid(f"the {setting} cannot be read: {PERCENT}")  # it may show the password
        name = parts.get("dbname") or parts.get("user") or ""
        self.place = printable(f"database {name!r} at {', '.join(self._hosts)}")
        """its address for messages: no user, no password"""
        self._last: str | None = None

    def connect(self) -> Connection:
        """A connection to a writable server; tries the host that last worked first, as others may
        take long to fail. Raises the driver's errors."""
        failures: dict[str, psycopg.Error] = {}
        for address in sorted(self._hosts, key=lambda address: address != self._last):
            try:
                connection = _connect(self._hosts[address])
            except psycopg.Error as error:
                failures[address] = error
            else:
                self._last = address
                return connection
        if len(failures) == 1:
            raise next(iter(failures.values()))
        raise NoHost({address: failures[address] for address in self._hosts})


def _by_host(parts: dict[str, Any]) -> dict[str, str]:
    """A connection string for each host, by its address for messages."""
    keys: tuple[str, ...] = ("host", "hostaddr", "port")
    given = {key: str(parts[key]).split(",") for key in keys if key in parts}
    found = {}
    for index in range(max(map(len, given.values()), default=1)):
        own = {key: words[index % len(words)] for key, words in given.items()}
        host = own.get("host") or own.get("hostaddr") or "the local socket"
        address = f"{host}:{own['port']}" if own.get("port") else host
        found[address] = make_conninfo("", **{**parts, **own})
    return found


def _connect(conninfo: str) -> Connection:
    """With explicit transactions, and without the driver's own preparation. A pooler has its own
    session numbers: behind it, the next transaction may be in another session."""
    connection = Connection.connect(conninfo, autocommit=True, prepare_threshold=None)
    try:
        session, read_only = connection.execute(ABOUT).fetchall()[0]
        if read_only != "off":
            raise errors.ReadOnlySqlTransaction("the server is read-only")  # noqa: TRY301
    except BaseException:
        connection.close()
        raise
    connection.keeps_plans = session == connection.info.backend_pid
    return connection
