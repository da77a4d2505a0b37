"""Finds and reads flow files: only as a whole, and none outside of its directory."""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from duebook.errors import shorten
from duebook.flows.parse import MOST_BYTES, SMALLER
from duebook.flows.problems import Problem, Refused
from duebook.lazy_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path, PurePath

__all__ = ["Content", "called", "default_name", "find", "read"]

SUFFIXES: Final = (".yaml", ".yml")
MOST_FILES: Final = 50_000
TRIES: Final = 5
"""How often a file that changes while it is read is read again."""


@dataclass(frozen=True, slots=True)
class Content:
    """The text of a file, with the digest by which Duebook detects changes."""

    text: str
    digest: str


def default_name(path: PurePath) -> str:
    """The name of a flow that does not set one."""
    return path.name.removesuffix(path.suffix)


def called(path: str) -> str:
    """A path as a string, in which undecodable bytes are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def find(root: Path) -> Iterator[Path]:
    """All flow files below a directory, in order, without hidden files and links to directories.

    Raises OSError when the directory itself cannot be listed.
    """
    todo, count = [root], 0
    while todo:
        here = todo.pop()
        try:
            with os.scandir(here) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            if here == root:
                raise
            continue  # it is gone, or not readable for us
        for entry in found:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                todo.append(here / entry.name)
            elif entry.name.endswith(SUFFIXES):
                count += 1
                if count > MOST_FILES:
                    raise OSError(f"{root} has more than {MOST_FILES:,} flow files")
                yield here / entry.name


def read(path: Path, name: str, root: Path | None = None) -> Content | None:
    """Read a whole file as it is at one instant; None when it is gone.

    `name` is its name in problems. Raises Refused for links that leave `root`, and for files that
    are not regular, too large, not text, or always changing.
    """
    if name != called(name):
        raise _refused(called(name), "its name is not valid UTF-8", "rename it")
    try:
        real = path.resolve(strict=True)
        if root is not None and not real.is_relative_to(root.resolve()):
            raise _refused(
                name, "it is a link to a place outside its directory", "copy the file there"
            )
        for _ in range(TRIES):
            data = _read_once(real, name)
            if data is not None:
                return Content(_decoded(data, name), sha256(data).hexdigest())
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        told = getattr(error, "strerror", None) or str(error)
        raise _refused(name, f"it cannot be read: {shorten(told)}") from None
    raise _refused(name, "it keeps changing while it is read")


def _read_once(real: Path, name: str) -> bytes | None:
    """The bytes; None when the file changed while it was read."""
    handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        first = os.fstat(handle)
        if not stat.S_ISREG(first.st_mode):
            raise _refused(name, "it is not a file")
        if first.st_size > MOST_BYTES:
            told = f"it has {first.st_size:,} bytes; at most {MOST_BYTES:,} are allowed"
            raise _refused(name, told, SMALLER)
        data = file.read(MOST_BYTES + 1)
        last = os.fstat(handle)
    whole = len(data) == last.st_size and _mark(first) == _mark(last)
    return data if whole and _mark(real.stat()) == _mark(last) else None


def _mark(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise _refused(name, "it is UTF-16", "save it as UTF-8", 1, 1) from None
        line = data.count(b"\n", 0, error.start) + 1
        before = data[data.rfind(b"\n", 0, error.start) + 1 : error.start]
        column = len(before.decode("utf-8", "replace")) + 1
        told = f"byte {data[error.start]:#04x} is not valid UTF-8"
        raise _refused(name, told, "save it as UTF-8", line, column) from None


def _refused(file: str, message: str, hint: str = "", line: int = 0, column: int = 0) -> Refused:
    return Refused(Problem(file, line, column, "", message, hint))
