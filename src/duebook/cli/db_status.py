"""The command that shows where the database is and what it contains; changes nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from duebook.cli.commands import command
from duebook.cli.opening import database_settings
from duebook.cli.output import json_option, print_json, print_pairs
from duebook.errors import Conflict, Unavailable
from duebook.settings import database_path, is_postgres
from duebook.store.opening import open_store, place_of
from duebook.timetext import format_duration, format_instant

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from duebook.store.health_values import Inventory

__all__ = ["status_command"]


@command("status")
@json_option
def status_command(as_json: bool) -> None:
    """Show the database: its size, contents and nodes."""
    url = database_settings().database_url
    about = _about_postgres(url) if is_postgres(url) else _about_file(database_path(url))
    if about["schema"] is None:
        if as_json:
            print_json(about)
        else:
            missing = f"the {about.get('books')} has no Duebook schema yet"
            if "file" in about:
                missing = f"there is no database at {about['file']} yet"
            click.echo(f"{missing}; create it: duebook up, or duebook db migrate")
        return
    migrated = about["schema"] >= about["newest_schema"]  # opening an older one would migrate it
    inventory, closed = _look(url) if migrated else (None, None)
    if as_json:
        print_json(about | {"closed": closed} | (_as_json(inventory) if inventory else {}))
        return
    print_pairs([*_head(about, closed), *(_pairs(inventory) if inventory else ())])


def _about_postgres(url: str) -> dict[str, Any]:
    from duebook.store.postgres.migrate import schema_of

    have = schema_of(url)
    return {
        "store": "postgresql",
        "books": place_of(url),
        "size_bytes": have.size,
        "schema": have.number or None,
        "newest_schema": have.newest,
        "min_compatible": have.min_compatible,
    }


def _about_file(path: Path) -> dict[str, Any]:
    from duebook.store.sqlite.connection import connect
    from duebook.store.sqlite.migrate import applied, available

    about: dict[str, Any] = {"store": "sqlite", "file": str(path), "size_bytes": 0, "schema": None}
    about["newest_schema"] = available()[-1].number
    try:
        if not path.exists():
            return about
        size = path.stat().st_size
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error
    connection = connect(path, readonly=True)
    try:
        return about | {"size_bytes": size, "schema": max(applied(connection), default=0)}
    finally:
        connection.close()


def _look(url: str) -> tuple[Inventory | None, str | None]:
    """What the database contains; or why it is closed."""
    try:
        store = open_store(url)
    except (Conflict, Unavailable) as error:
        return None, str(error)
    try:
        return store.read(lambda tx: tx.status.inventory(), patient=True), None
    finally:
        store.close()


def _head(about: dict[str, Any], closed: str | None) -> list[tuple[str, str]]:
    compatible = about.get("min_compatible")
    oldest = f"; nodes with schema {compatible} or newer may use it" if compatible else ""
    return [
        ("file", about.get("file", "")),
        ("location", about.get("books", "")),
        ("size", f"{about['size_bytes']:,} bytes"),
        ("schema", f"{about['schema']} of {about['newest_schema']}{oldest}"),
        ("closed", closed or ""),
    ]


def _pairs(found: Inventory) -> list[tuple[str, str]]:
    active = found.active_runs
    runs = [f"{active.get(status, 0):,} {status}" for status in ("queued", "running")]
    nodes = ", ".join(f"{node} ({roles}; {version})" for node, roles, version in found.nodes)
    history = (
        f"{found.runs:,} runs, {found.entries:,} ledger entries, {found.log_lines:,} log lines"
    )
    return [
        ("schedules", ", ".join(f"{n:,} {status}" for status, n in found.schedules.items()) or "0"),
        ("runs", ", ".join(runs)),
        ("history", history),
        ("nodes", nodes or "no node is running"),
        ("oldest queued", _length(found.now, found.waits_since) or "none"),
        ("planning", _lag(found)),
    ]


def _lag(found: Inventory) -> str:
    behind = _length(found.now, found.wake_at)
    return f"{behind} behind" if behind else "on time"


def _length(now: datetime, since: datetime | None) -> str | None:
    """How long ago it was; None for less than a second."""
    if since is None or now - since < timedelta(seconds=1):
        return None
    return format_duration(timedelta(seconds=int((now - since).total_seconds())))


def _as_json(found: Inventory) -> dict[str, Any]:
    lag = max((found.now - found.wake_at).total_seconds(), 0.0) if found.wake_at else 0.0
    return {
        "now": format_instant(found.now),
        "schedules": found.schedules,
        "active_runs": found.active_runs,
        "runs": found.runs,
        "ledger_entries": found.entries,
        "log_lines": found.log_lines,
        "nodes": [
            {"node": node, "roles": roles.split(","), "version": version}
            for node, roles, version in found.nodes
        ],
        "waits_since": format_instant(found.waits_since) if found.waits_since else None,
        "lag_seconds": round(lag, 3),
    }
