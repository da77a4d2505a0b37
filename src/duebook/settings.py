"""Where options come from: flag, then DUEBOOK_* variable, then duebook.toml, then the default."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.secret_sources import read_sources

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "COORDINATIONS",
    "KEYS_KEPT",
    "LOG_FORMATS",
    "MEMORY",
    "RETENTION",
    "ROLES",
    "TRACING",
    "Settings",
    "database_path",
    "is_file",
    "is_memory",
    "is_postgres",
    "load_settings",
]

COORDINATIONS: Final = ("all", "leader")
LOG_FORMATS: Final = ("text", "json")
"""How a node writes its log."""
TRACING: Final = ("off", "on")
ROLES: Final = ("scheduler", "worker", "relay")
"""What a node can do: plan, execute runs, publish events."""
RETENTION: Final = timedelta(days=90)
"""How long runs, events and ledger entries are kept by default."""
MOST_CONNECTIONS: Final = 100_000
MEMORY: Final = "memory://"
"""URL of a database in the memory of the process; `memory://NAME` is shared within the process."""
KEYS_KEPT: Final = timedelta(hours=24)
"""How long the response to a request with an idempotency key is kept."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process needs to know before it opens the database."""

    database_url: str = "sqlite:///.duebook/duebook.db"
    """The database: `sqlite:///path`, a path, `postgresql://…`, or `memory://` for one process."""
    namespace: str = "default"
    """The namespace that commands work in."""
    serve: str = ""
    """The namespaces whose runs a node executes, such as `shop,billing`, or `*` for all."""
    url: str | None = None
    """A server to use instead of the database."""
    token: str | None = field(default=None, repr=False)
    """The token for that server."""
    listen_url: str | None = None
    """The database URL for notifications, if `database_url` goes through a pooler."""
    coordination: str = "all"
    """Which schedulers plan: `all` together, or one `leader` at a time."""
    http_allow: str = ""
    """Non-public networks that HTTP requests may reach, such as `127.0.0.0/8, fd00::/8`."""

    celery_app: str = ""
    """The Celery app to whose workers this node sends tasks, such as `proj.celery:app`."""

    smtp_url: str | None = field(default=None, repr=False)
    """The mail server of this node, such as `smtp://user:password@host:587?from=ops@example.com`."""

    public_url: str | None = None
    """The dashboard's public URL, such as `https://duebook.example.com`; alerts link to it."""

    pass_env: str = ""
    """Variables of the node that commands receive besides the usual ones, e.g. `EDITOR, AWS_*`."""
    run_as: str | None = None
    """The user that commands run as; by default the node's user. Requires root."""

    stop_within: str = "10s"
    """How long a stopping node waits for its runs before it hands them back."""
    lease: str = "30s"
    """How long a node may be out of touch with the database before others take over its runs."""
    secrets: str = ""
    """Where the node finds the secrets of each namespace: tables such as `[secrets.shop]`, or JSON.
    See [Use secrets](../how-to/secrets.md)."""

    host: str = "127.0.0.1"
    """The address that the API listens on; non-loopback addresses require that a token exists."""
    port: str = ""
    """The port of the API; by default 7420, or the next free one."""
    allowed_hosts: str = ""
    """Host names that the API accepts, besides addresses and the machine's own name."""
    cors_origins: str = ""
    """Other origins whose pages may use the API, such as `https://board.example.com`."""

    max_connections: str = ""
    """Connections that the API keeps open at once; by default 1,000, or as many as the limit on
    descriptors allows."""

    log_format: str = "text"
    """how a node writes its log: `text` or `json`"""

    tracing: str = "off"
    """`on`: write OpenTelemetry spans of runs; the variables `OTEL_…` configure where. Needs the
    extra `otel`. See [Trace runs](../how-to/tracing.md)."""

    given: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """the names of the settings that are not left to their defaults"""

    def __post_init__(self) -> None:
        if self.port and not (self.port.isascii() and self.port.isdecimal() and len(self.port) < 6):
            raise Invalid(f'port "{shorten(self.port)}" is not a number from 0 to 65535')
        if self.port and int(self.port) > 65_535:
            raise Invalid(f"port {self.port} is not a number from 0 to 65535")
        if self.max_connections and not _is_count(self.max_connections):
            raise Invalid(
                f'max_connections "{shorten(self.max_connections)}" is not a whole number '
                f"from 1 to {MOST_CONNECTIONS:,}"
            )
        if self.coordination not in COORDINATIONS:
            known = ", ".join(COORDINATIONS)
            raise Invalid(f'coordination "{shorten(self.coordination)}" is not one of {known}')
        if self.log_format not in LOG_FORMATS:
            known = ", ".join(LOG_FORMATS)
            raise Invalid(f'log_format "{shorten(self.log_format)}" is not one of {known}')
        if self.tracing not in TRACING:
            raise Invalid(f'tracing "{shorten(self.tracing)}" is not one of {", ".join(TRACING)}')
        if self.public_url is not None and not self.public_url.startswith(("http://", "https://")):
            raise Invalid("public_url must start with http:// or https://")
        if self.listen_url is not None and not is_postgres(self.listen_url):
            raise Invalid("listen_url must start with postgresql://, like database_url")
        read_sources(self.secrets)  # reports mistakes now


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= MOST_CONNECTIONS


NAMES: Final = tuple(name for name in Settings.__dataclass_fields__ if name != "given")
"""The names of all settings."""


def load_settings(
    flags: Mapping[str, str | None],
    environ: Mapping[str, str] = os.environ,
    file: Path = Path("duebook.toml"),
) -> Settings:
    """The effective settings; raises Invalid, naming the source and the key."""
    stored = _read_file(file)
    values = {}
    for name in NAMES:
        found = flags.get(name) or environ.get(f"DUEBOOK_{name.upper()}") or stored.get(name)
        if found is not None:
            values[name] = _flat(found)
    return Settings(**values, given=frozenset(values))


def _flat(found: Any) -> str:
    """A value as text, as an environment variable would hold it."""
    if isinstance(found, dict):
        return json.dumps(found, default=str)
    return ",".join(map(str, found)) if isinstance(found, list) else str(found)


def _read_file(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        stored = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Invalid(f"{file} cannot be read: {shorten(str(error), 200)}") from None
    if unknown := sorted(set(stored) - set(NAMES)):
        known = ", ".join(NAMES)
        raise Invalid(f'{file}: "{shorten(unknown[0])}" is not a setting; use one of {known}')
    return stored


def is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def is_memory(url: str) -> bool:
    return url.startswith(MEMORY)


def is_file(url: str) -> bool:
    return not is_postgres(url) and not is_memory(url)


def database_path(url: str) -> Path:
    """The file of a SQLite URL (sqlite:///relative, sqlite:////absolute) or plain path."""
    if is_memory(url):
        raise Invalid(
            f"{shorten(url)} has no file: the database is in the memory of one process, and no "
            "other can see it; use sqlite:///path/to/file.db or postgresql://…"
        )
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
    elif "://" in url:
        kind = shorten(url.split("://")[0])
        raise Invalid(
            f"{kind}:// databases are not supported; use sqlite:///path/to/file.db, postgresql://… "
            "or memory://"
        )
    else:
        path = url
    if path == ":memory:" or path.startswith("file:"):
        raise Invalid(
            f'"{shorten(path)}" cannot be shared with other processes; use the path of a file, or '
            "memory:// for a database in the memory of one process"
        )
    if not path or "\0" in path:
        raise Invalid(
            "the database URL has no path; use a URL such as sqlite:///.duebook/duebook.db"
        )
    return Path(path)
