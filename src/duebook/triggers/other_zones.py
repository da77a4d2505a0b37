"""Compares other time zone data, from a wheel or a directory, with this process's own.

Only zone files are read; no code of a package is run. A zone of other data gets a name that no user
can enter, so that triggers of both kinds can be compared.
"""

from __future__ import annotations

import binascii
import re
import struct
import zipfile
import zlib
from contextlib import contextmanager
from io import BytesIO
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from duebook.errors import Invalid, shorten
from duebook.triggers import tzif
from duebook.triggers.zones import DAY, Zone, known_zones, lend, take_back, zone, zone_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = [
    "Difference",
    "Interval",
    "OtherZones",
    "no_step",
    "open_wheel",
    "open_zones",
    "read_wheel",
]

LONGEST_FILE: Final = 256 * 1024
"""Maximum bytes of a file; zones have a few thousand, and of tzdata.zi the first line is used."""
LONGEST_WHEEL: Final = 1_500_000
"""Maximum bytes of a wheel in a request; real ones have less than 400,000."""
MOST_FILES: Final = 5_000
"""Maximum number of files in such a wheel; real ones have about 700."""
_VERSION: Final = re.compile(rb"""IANA_VERSION\s*=\s*["']([\w.-]{1,40})["']""")
_OF_TEXT: Final = re.compile(rb"#\s*version\s+([\w.-]{1,40})")
_BRUSSELS: Final = "Europe/Brussels"
_UNREADABLE: Final = (
    *(OSError, EOFError, RuntimeError, ValueError, OverflowError),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)
"""What the zip module raises for a file that is not a valid wheel."""
_KINDS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_numbers = count(1)
Interval = tuple[int, int]


def no_step() -> None:
    """The default `step`, which does nothing."""


class Difference(NamedTuple):
    """How a zone of other data differs from ours."""

    stretches: list[Interval]
    """where their clocks differ, with a day around it for wall times in gaps"""
    before: bool
    """whether they differed earlier: then rules that count from an anchor may differ anywhere"""


class _Files(Protocol):
    """The files of some time zone data, by their path below its root."""

    def read(self, path: str) -> bytes | None: ...


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, path: str) -> bytes | None:
        place = self._path / path
        if not place.is_file():
            return None
        with place.open("rb") as file:
            return file.read(LONGEST_FILE)


class _Wheel:
    def __init__(self, wheel: zipfile.ZipFile) -> None:
        self._wheel = wheel

    def read(self, path: str) -> bytes | None:
        try:
            info = self._wheel.getinfo(path)
            if info.compress_type not in _KINDS:
                raise Invalid(f"{path} of the wheel is compressed in a way that wheels do not use")
            with self._wheel.open(info) as file:
                return file.read(LONGEST_FILE)
        except KeyError:
            return None
        except _UNREADABLE as error:
            raise Invalid(f"{path} of the wheel cannot be read: {error}") from error


class OtherZones:
    """The zones of other time zone data that differ from ours."""

    def __init__(self, files: _Files, top: str) -> None:
        self._files = files
        self._top = top
        self._number = next(_numbers)
        self._lent: dict[str, str] = {}
        self.version = self._find_version()
        """such as 2026g; empty if the data does not include it"""

    def _find_version(self) -> str:
        package = self._files.read(f"{self._top.removesuffix('zoneinfo/')}__init__.py") or b""
        found = _VERSION.search(package)
        if found is None:
            found = _OF_TEXT.match(self._files.read(f"{self._top}tzdata.zi") or b"")
        return found[1].decode() if found else ""

    def _zone(self, name: str, data: bytes) -> Zone:
        try:
            made = Zone(f"{name} (other {self._number})", tzif.decode(data))
        except (ValueError, IndexError, ArithmeticError, struct.error) as error:
            raise Invalid(f"zone {name} of the new time zone data cannot be read") from error
        if not _is_in_order(made):
            raise Invalid(f"zone {name} of the new time zone data cannot be read: wrong order")
        return made

    def missing(self) -> list[str]:
        """Our zones that the other data does not have, by name."""
        return [name for name in known_zones() if self._files.read(f"{self._top}{name}") is None]

    def differing(
        self, since: int, after: int, until: int, step: Callable[[], None] = no_step
    ) -> dict[str, Difference]:
        """Our zones whose rules there differ at any time from `since` on, with the stretches of UTC
        seconds from `after` to `until` in which their clocks differ; `step` is called for each
        zone, and may raise."""
        found = {}
        for name in known_zones():
            step()
            data = self._files.read(f"{self._top}{name}")
            if data is None or data == zone_file(name):
                continue
            ours, theirs = zone(name), self._zone(name, data)
            if _rules(ours, since, until) == _rules(theirs, since, until):
                continue
            self._lent[name] = theirs.name
            lend(theirs)
            before = _rules(ours, since, after) != _rules(theirs, since, after)
            found[name] = Difference(_stretches(ours, theirs, after, until), before)
        return found

    def name_of(self, tz: str) -> str:
        """The name of the other data's zone that corresponds to one of ours; our own name if both
        have the same rules."""
        return self._lent.get(tz, tz)

    def close(self) -> None:
        """Forget its zones; their names become unknown."""
        take_back(self._lent.values())


def _is_in_order(found: Zone) -> bool:
    starts, _ = found.segments(far=False)
    return all(earlier < later for earlier, later in pairwise(starts))


def _rules(found: Zone, since: int, until: int) -> list[tuple[int, int]]:
    jumps = [(jump.at, jump.after - jump.at) for jump in found.jumps(since, until)]
    return [(since, found.offset_at(since)), *jumps]


def _stretches(ours: Zone, theirs: Zone, after: int, until: int) -> list[Interval]:
    changes = {jump.at for one in (ours, theirs) for jump in one.jumps(after, until)}
    places = sorted({after, *changes, until})
    found: list[Interval] = []
    for start, end in pairwise(places):
        if ours.offset_at(start) == theirs.offset_at(start):
            continue
        low, high = max(start - DAY, after), min(end + DAY, until)
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return found


@contextmanager
def open_zones(path: Path) -> Iterator[OtherZones]:
    """Open a wheel, an installed or unpacked tzdata package, or a zoneinfo directory.

    Raises Invalid for anything else.
    """
    if path.is_dir():
        with _lending(_found(_Folder(path), str(path))) as other:
            yield other
        return
    wrong = f"{path} is neither a tzdata wheel nor a directory with time zone data"
    with _unpacked(path, wrong) as wheel, _lending(_found(_Wheel(wheel), str(path))) as other:
        yield other


@contextmanager
def open_wheel(wheel: bytes) -> Iterator[OtherZones]:
    """Open a wheel sent in a request; raises Invalid for anything else."""
    if len(wheel) > LONGEST_WHEEL:
        raise Invalid(f"wheel: it has more than {LONGEST_WHEEL:,} bytes; send a tzdata wheel")
    with _unpacked(BytesIO(wheel), "wheel: it is not a tzdata wheel") as files:
        if len(files.namelist()) > MOST_FILES:
            raise Invalid(f"wheel: it has more than {MOST_FILES:,} files; send a tzdata wheel")
        with _lending(_found(_Wheel(files), "wheel: it")) as other:
            yield other


def read_wheel(_: str, value: Any) -> bytes:
    """Decode a wheel from its JSON form; raises Invalid."""
    if not isinstance(value, str):
        raise Invalid(f"wheel {shorten(value)} is not base64")
    try:
        return binascii.a2b_base64(value.encode("ascii", "replace"), strict_mode=True)
    except binascii.Error as error:
        raise Invalid(f"wheel {shorten(value)} is not base64: {error}") from error


def _unpacked(file: Path | BytesIO, wrong: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except _UNREADABLE as error:
        raise Invalid(wrong) from error


@contextmanager
def _lending(other: OtherZones) -> Iterator[OtherZones]:
    try:
        yield other
    finally:
        other.close()


def _found(files: _Files, what: str) -> OtherZones:
    for top in ("tzdata/zoneinfo/", "zoneinfo/", ""):
        if (files.read(f"{top}{_BRUSSELS}") or b"").startswith(b"TZif"):
            return OtherZones(files, top)
    raise Invalid(f"{what} has no time zone data: {_BRUSSELS} is missing")
