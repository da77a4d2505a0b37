"""Reads the files that an import names, up to a maximum size."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid, NotFound, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duebook.imports.found import Import

__all__ = ["STDIN", "is_directory", "read_source", "read_sources", "title_of"]

STDIN: Final = "-"
MOST_BYTES: Final = 16 * 1024 * 1024
MOST_FILES: Final = 10_000


def title_of(path: str) -> str:
    return "stdin" if path == STDIN else path


def read_source(path: str) -> str:
    """The text of a file, or of stdin; raises Invalid and NotFound."""
    try:
        with sys.stdin.buffer if path == STDIN else Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except OSError as error:
        raise Invalid(f"{path}: {_why(error)}") from None
    if len(content) > MOST_BYTES:
        raise Invalid(f"{title_of(path)}: it has more than {MOST_BYTES:,} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid(f"{title_of(path)}: it is not UTF-8 text; convert it") from None
    if "\0" in text:
        raise Invalid(f"{title_of(path)}: it is a binary file, not text")
    return text


def read_sources(
    paths: Iterable[str], wanted: Callable[[Path], bool], done: Import
) -> dict[str, str]:
    """The texts of files by title. In a directory and its immediate subdirectories, only files that
    are `wanted` are read, judged by their path relative to it; `done` records those that cannot be
    read."""
    found: dict[str, str] = {}
    for path in paths:
        folder = Path(path)
        if path == STDIN or not is_directory(path):
            found[title_of(path)] = read_source(path)
            continue
        below = _below(folder, done)
        named = [one for one in below if wanted(one.relative_to(folder))]
        gone = (one for one in named if one.is_symlink() and not one.exists())
        # a missing service is reported by its timer
        for one in sorted(one for one in gone if one.suffix != ".service"):
            done.leave(
                str(one), "", f"it is a link to {shorten(str(one.readlink()))}, which is missing"
            )
        files = sorted(one for one in named if one.is_file() or _is_nothing(one))
        if len(files) > MOST_FILES:
            raise Invalid(f"{path}: it has more than {MOST_FILES:,} files")
        for title in map(str, files):
            try:
                found[title] = read_source(title)
            except (Invalid, NotFound) as error:
                done.leave(title, "", str(error).removeprefix(f"{title}: "))
    return found


def is_directory(path: str) -> bool:
    """Raises Invalid for what cannot be a path."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError) as error:
        raise Invalid(f"{shorten(path, 200)}: {_why(error)}") from None


def _below(folder: Path, done: Import) -> list[Path]:
    """What is in a directory and in the directories in it; `done` names those of them that cannot
    be read. Raises Invalid for the directory itself."""
    try:
        found = list(folder.iterdir())
    except OSError as error:
        raise Invalid(f"{folder}: {_why(error)}") from None
    for inner in sorted(one for one in found if one.is_dir()):
        try:
            found += inner.iterdir()
        except OSError as error:
            done.leave(str(inner), "", _why(error))
    return found


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _is_nothing(path: Path) -> bool:
    """A link to /dev/null, which deliberately disables a name."""
    return path.is_symlink() and path.resolve() == Path(os.devnull)
