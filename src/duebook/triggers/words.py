"""Small pieces of English that the triggers' descriptions share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MONTHS", "ORDINALS", "WEEKDAYS", "clock", "join", "runs", "weekday_list"]

WEEKDAYS: Final = (
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
)
MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
ORDINALS: Final = ("", "first", "second", "third", "fourth", "fifth")


def join(parts: Sequence[str], last: str = "and") -> str:
    """a, b and c"""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def runs(values: Sequence[int], names: Sequence[str], last: str = "and") -> str:
    """Sorted values by name, three or more in a row as "first to last"."""
    parts: list[str] = []
    start = 0
    for i, value in enumerate(values):
        if i + 1 < len(values) and values[i + 1] == value + 1:
            continue
        run = [names[v] for v in values[start : i + 1]]
        parts += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else run
        start = i + 1
    return join(parts, last)


def weekday_list(weekdays: Sequence[int], last: str = "and") -> str:
    """Weekdays (0 is Sunday) in the order of a week that starts on Monday."""
    from_monday = sorted((day - 1) % 7 for day in weekdays)
    return runs(from_monday, (*WEEKDAYS[1:], WEEKDAYS[0]), last)


def clock(second: int) -> str:
    """A second of the day as 07:00 or 07:00:15."""
    minutes, seconds = divmod(second, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{seconds:02d}" if seconds else text
