"""The file by which a test sets the clock of another process. A reader during a write sees the old
shift or the new one, and never an empty file. Does not use any code under test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["clock_of", "set_clock"]


def set_clock(file: Path, seconds: float) -> None:
    """Make every clock that reads the file wrong by this much."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(str(seconds))
    fresh.replace(file)


def clock_of(file: Path) -> Callable[[], datetime]:
    """The time of this machine, wrong by the seconds in the file."""
    return lambda: datetime.now(UTC) + timedelta(seconds=float(file.read_text()))
