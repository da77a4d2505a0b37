"""Starts a PgBouncer in transaction mode before a test server; it ends with the test process.

Its few connections pass from one client to another after each transaction, so code that relies on a
session gets the session of another client.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg

from tests.support.postgres import CONTAINER, PASSWORD, USER, answers, free_port, give, launch
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.postgres import Server

PLACES: Final = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
SERVER_CONNECTIONS: Final = 8
CONFIGURATION: Final = """
[databases]
* = host={host} port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
admin_users = {user}
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 500
server_login_retry = 1
"""


def is_installed() -> bool:
    return shutil.which("pgbouncer", path=PLACES) is not None


class Bouncer:
    def __init__(self, server: Server) -> None:
        program = shutil.which("pgbouncer", path=PLACES)
        assert program is not None, "PgBouncer is not installed: make test-pgbouncer"
        self.folder = Path(tempfile.mkdtemp(prefix="duebook-bouncer-"))
        give(self.folder)
        self.port = free_port()
        self.lead_to(server)
        users = self.folder / "users"
        users.write_text(f'"{USER}" "{PASSWORD}"\n')
        give(users)
        self._process = launch([program, str(self._file)], self.folder)
        eventually(self._answers)

    @property
    def _file(self) -> Path:
        return self.folder / "pgbouncer.ini"

    def lead_to(self, server: Server) -> None:
        """Takes effect at its next start or reload."""
        self._file.write_text(
            CONFIGURATION.format(
                host=server.folder,
                server_port=server.port,
                port=self.port,
                folder=self.folder,
                user=USER,
                connections=SERVER_CONNECTIONS,
            )
        )
        give(self._file)

    def through(self, url: str) -> str:
        """The same database as at its own URL, but through this PgBouncer."""
        return self.url(url.partition("@/")[2].partition("?")[0])

    def url(self, database: str) -> str:
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def command(self, words: str) -> list[tuple[object, ...]]:
        """Send a command to PgBouncer itself: SHOW …, RELOAD, PAUSE, KILL …"""
        with psycopg.connect(self.url("pgbouncer"), autocommit=True) as console:
            cursor = psycopg.ClientCursor(console)
            cursor.execute(words.encode())
            return cursor.fetchall() if cursor.description else []

    def stop(self) -> None:
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(10)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        return answers(self._process, self.folder, self.url(CONTAINER))
