"""The command that shows which due times move with other time zone data."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click

from duebook.book import Book
from duebook.book.zones import diff_zones, read_ahead
from duebook.cli.commands import group
from duebook.cli.opening import open_book
from duebook.cli.output import json_option, print_json, wrapped
from duebook.errors import Invalid, Unavailable, counted, printable, shorten
from duebook.model.codec import encode
from duebook.timetext import format_instant
from duebook.triggers.other_zones import open_zones

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from duebook.client import Client
    from duebook.model.zones_diff import MovedDueTime, MovedSchedule, ZonesDiff

__all__ = ["zones_group"]

_IANA: Final = re.compile(r"(\d{4})([a-z])")
_PACKAGE: Final = re.compile(r"\d{4}\.\d{1,2}")
SHOWN: Final = 3
"""Due times of each schedule that are printed; --json prints ten."""
MOST_ZONES: Final = 8
PATIENCE: Final = 60
"""Seconds that a download may take."""


@group("zones")
def zones_group() -> None:
    """Compare time zone data before an upgrade."""


@zones_group.command("diff")
@click.argument("new", metavar="NEW")
@click.option(
    "--ahead",
    default="366d",
    show_default=True,
    metavar="LENGTH",
    help="How far ahead to compare.",
)
@json_option
def diff_command(new: str, ahead: str, as_json: bool) -> None:
    """Show which due times would move with other time zone data.

    NEW is a tzdata wheel, a directory with time zone data (an unpacked or
    installed tzdata package, or a zoneinfo directory), or a version such as
    2026c, which pip downloads without installing it.

    It compares the active and paused schedules of all namespaces, and changes
    nothing. With --url, NEW is a wheel or a version; the server compares it
    with its own data.

    \b
    Examples:
      duebook zones diff tzdata-2026.3-py2.py3-none-any.whl
      duebook zones diff /usr/share/zoneinfo
      duebook zones diff 2026c --json
    """
    length = read_ahead(ahead)
    with _path_of(new) as path, open_book() as book:
        found = _diff(book, path, length)
    if as_json:
        print_json(encode(found))
    else:
        _print(found)


def _diff(book: Client, path: Path, length: timedelta) -> ZonesDiff:
    if isinstance(book, Book):
        with open_zones(path) as other:
            return diff_zones(book.store, other, length)
    if path.is_dir():
        raise Invalid(f"{path} is a directory; a server compares a wheel or a version")
    return book.zones.diff(path.read_bytes(), length)


@contextmanager
def _path_of(new: str) -> Iterator[Path]:
    """The path to a file or directory; a version is downloaded, and deleted afterwards."""
    version = _version_of(new)
    if version is None or Path(new).exists():
        if not Path(new).exists():
            raise Invalid(f'NEW "{shorten(new)}" is not a file, a directory or a version as 2026c')
        yield Path(new)
        return
    with TemporaryDirectory(prefix="duebook-zones-") as folder:
        _download(version, folder)
        yield next(Path(folder).glob("tzdata-*.whl"))


def _version_of(text: str) -> str | None:
    """The version of the tzdata package; 2026c is its 2026.3."""
    if found := _IANA.fullmatch(text):
        return f"{found[1]}.{ord(found[2]) - ord('a') + 1}"
    return text if _PACKAGE.fullmatch(text) else None


def _download(version: str, folder: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", folder, f"tzdata=={version}"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        output: bytes = getattr(error, "stderr", None) or b""
        lines = output.decode(errors="replace").strip().splitlines()
        why = shorten(lines[-1] if lines else type(error).__name__, 200)
        raise Unavailable(
            f"pip cannot download tzdata {version} ({why}); download its wheel and give its path"
        ) from error


def _print(found: ZonesDiff) -> None:
    new = f"tzdata {found.new}" if found.new else "the new time zone data"
    head = f"compared tzdata {found.current} with {new} until {format_instant(found.until)}: "
    if not found.zones:
        click.echo(wrapped(f"{head}no rules differ"))
    else:
        more = len(found.zones) - MOST_ZONES
        names = ", ".join(found.zones[:MOST_ZONES]) + (f" and {more} more" if more > 0 else "")
        number = counted(len(found.zones), "zone")
        click.echo(wrapped(f"{head}the rules of {number} differ ({names})"))
    for name in found.missing:
        click.echo(wrapped(f"warning: zone {name} is in use, but {new} does not have it"))
    for schedule in found.schedules:
        _print_schedule(schedule)
    looked = counted(found.looked_at, "schedule")
    if found.schedules:
        click.echo(f"due times of {len(found.schedules):,} of {looked} move")
    else:
        click.echo(f"no due time of {looked} moves")


def _print_schedule(schedule: MovedSchedule) -> None:
    least = "" if schedule.complete else "at least "
    number = counted(schedule.count, "due time")
    click.echo(printable(f"{schedule.schedule} ({schedule.tz}): {least}{number}"))
    for moved in schedule.first[:SHOWN]:
        click.echo(f"  {_moved(moved)}")
    if schedule.count > SHOWN:
        click.echo(f"  … and {schedule.count - SHOWN:,} more")


def _moved(moved: MovedDueTime) -> str:
    kind = "" if moved.kind == "start" else f"{moved.kind} "
    if moved.was is None and moved.becomes is not None:
        return f"{kind}{format_instant(moved.becomes)} is new"
    was = "" if moved.was is None else format_instant(moved.was)
    if moved.becomes is None:
        return f"{kind}{was} disappears"
    return f"{kind}{was} → {format_instant(moved.becomes)}"
