"""The rows of a log on a page: lines, dividers between attempts, and notes about gaps; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duebook.errors import counted
from duebook.lazy_dataclasses import dataclass
from duebook.web.ansi import stripped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from duebook.model.run import LogLine
    from duebook.store.values import LogSize, Page

    Lines = Sequence[tuple[Page, LogLine]]

__all__ = ["LogRow", "fitting_lines", "log_rows", "log_summary", "matching", "text_of_log"]

PAGE_SIZE: Final = 100_000
"""Bytes of a log on one page; the rest is behind a link, or loaded by script."""
ROW_COST: Final = 60
"""Bytes of a row in addition to its text."""


@dataclass(frozen=True, slots=True)
class LogRow:
    """A line with its number, or a divider or note between lines."""

    text: str
    number: int = 0
    """0: a divider or note"""
    stream: str = "duebook"
    at: datetime | None = None


def log_rows(lines: Iterable[tuple[Page, LogLine]], gaps: bool = True) -> Iterator[LogRow]:
    """Every line, a divider where another attempt starts and, if `gaps`, a note where lines were
    not kept. The first lines of an attempt are always kept, so a gap never precedes them."""
    attempt, last = 0, 0
    for place, line in lines:
        if place.attempt != attempt and (attempt or place.attempt > 1):
            yield LogRow(f"attempt {place.attempt}")
        elif gaps and place.attempt == attempt and place.seq > last + 1:
            yield LogRow(left_out(place.seq - last - 1))
        attempt, last = place.attempt, place.seq
        yield LogRow(line.text, place.seq, line.stream, line.at)


def left_out(count: int) -> str:
    return f"{counted(count, 'line')} not kept: the log was too long"


def fitting_lines(lines: Lines, newest: bool, size: int = PAGE_SIZE) -> Lines:
    """As many lines as fit on a page, from the end or from the beginning; at least one."""
    ordered = reversed(lines) if newest else lines
    room, count = size, 0
    for _, line in ordered:
        room -= ROW_COST + len(line.text.encode())
        if room < 0 and count:
            break
        count += 1
    return lines[len(lines) - count :] if newest else lines[:count]


def matching(lines: Lines, find: str) -> Lines:
    """The lines that contain a text, ignoring case."""
    wanted = find.lower()
    return [one for one in lines if wanted in stripped(one[1].text).lower()]


def log_summary(sizes: Iterable[LogSize]) -> str:
    """The length of the log, and how much of it was kept; empty for an empty log."""
    known = list(sizes)
    kept, printed = sum(one.kept for one in known), sum(one.printed for one in known)
    if kept < printed:
        return f"{kept:,} of {printed:,} lines kept"
    return counted(kept, "line") if kept else ""


def text_of_log(lines: Iterable[tuple[Page, LogLine]]) -> Iterator[str]:
    """The log as a text file, with the dividers and notes that a page shows."""
    for row in log_rows(lines):
        text = stripped(row.text)
        yield f"{text}\n" if row.number else f"--- {text} ---\n"
