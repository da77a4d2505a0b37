"""Small disks for tests, and functions that fill them. Does not use any code under test."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["MIB", "fill", "large_disk", "leave_free", "small_disk"]

MIB = 1024 * 1024


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A new folder on a disk of this many bytes; skips the test where mounting is not permitted."""
    with _mounted(folder, "-t", "tmpfs", "-o", f"size={size}", "tmpfs"):
        yield folder


@contextmanager
def large_disk(folder: Path, size: int) -> Iterator[Path]:
    """Like `small_disk`, for any size: it only takes space for what is written to it."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("mkfs.ext4 is not installed; on Debian: apt-get install e2fsprogs")
    image = folder.with_name(f"{folder.name}.img")
    with image.open("wb") as file:
        file.truncate(size)
    _run("mkfs.ext4", "-q", "-m0", "-O", "^has_journal", str(image), check=True)
    try:
        with _mounted(folder, "-o", "loop", str(image)):
            yield folder
    finally:
        image.unlink()


@contextmanager
def _mounted(folder: Path, *words: str) -> Iterator[None]:
    folder.mkdir()
    mounted = _run("mount", *words, str(folder))
    if mounted.returncode != 0:
        pytest.skip(f"mounting is not permitted: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        _run("umount", "-l", str(folder), check=True)


def _run(*words: str, check: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=check)  # noqa: S603


def fill(disk: Path) -> Path:
    """Fill all free space with one file."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (MIB, 4096):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


def leave_free(disk: Path, size: int) -> Path:
    """Fill space with one file, so that about this many bytes remain free."""
    ballast = disk / "ballast"
    _run("fallocate", "-l", str(shutil.disk_usage(disk).free - size), str(ballast), check=True)
    return ballast
