"""Decodes time zone files (TZif, RFC 9636) into offset changes; knows the format, touches no file.

The standard library's zoneinfo returns the offset at any time but hides where it changes, and that
is what an evaluator needs: between two changes a zone is plain arithmetic.
"""

from __future__ import annotations

import re
import struct
from calendar import monthrange
from datetime import date
from itertools import pairwise

from duebook.lazy_dataclasses import dataclass
from duebook.triggers.days import EPOCH_ORDINAL, is_leap

__all__ = ["Change", "YearlyRule", "ZoneData", "decode"]

DAY = 86_400
LATEST_RULE = 167 * 3_600
"""Maximum seconds between the midnight of a rule's day and its time, either way."""
_BOUNDS = {"M": ((1, 12), (1, 5), (0, 6)), "J": ((1, 365),), "": ((0, 365),)}
"""The lowest and the highest number of each part of a rule's day."""

Change = tuple[int, int]
"""(first UTC second, offset from UTC in seconds from then on)"""


@dataclass(frozen=True, slots=True)
class RuleDay:
    """A day of the year as POSIX TZ writes it, and the wall-clock second at which it acts."""

    kind: str  # "M" month.week.weekday, "J" day 1 to 365 without 29 February, "" day 0 to 365
    numbers: tuple[int, ...]
    second: int

    def wall_second(self, year: int) -> int:
        return (self._ordinal(year) - EPOCH_ORDINAL) * DAY + self.second

    def _ordinal(self, year: int) -> int:
        new_year = date(year, 1, 1).toordinal()
        if self.kind == "M":
            return self._month_week_day(year)
        if self.kind == "J":
            day = self.numbers[0]
            return new_year + day - 1 + (is_leap(year) and day >= 60)
        return new_year + self.numbers[0]

    def _month_week_day(self, year: int) -> int:
        month, week, weekday = self.numbers
        first = date(year, month, 1)
        day = first.toordinal() + (weekday - first.isoweekday()) % 7 + (week - 1) * 7
        last = first.toordinal() + monthrange(year, month)[1] - 1
        return day - 7 if day > last else day


@dataclass(frozen=True, slots=True)
class YearlyRule:
    """The file's footer: the rule for all later years, with summer time from `start` to `end`."""

    standard: int
    summer: int
    start: RuleDay
    end: RuleDay

    def changes(self, year: int) -> list[Change]:
        return sorted(
            [
                (self.start.wall_second(year) - self.standard, self.summer),
                (self.end.wall_second(year) - self.summer, self.standard),
            ]
        )


@dataclass(frozen=True, slots=True)
class ZoneData:
    """A zone's offset at the beginning of time, its changes in order, and the rule for later
    years."""

    first_offset: int
    changes: tuple[Change, ...]
    rule: YearlyRule | None


def decode(data: bytes) -> ZoneData:
    """Parse a TZif file of version 2 or later; raises ValueError for anything else."""
    if data[:4] != b"TZif" or data[4:5] < b"2":
        raise ValueError("no TZif file of version 2 or later")
    body = _Block(data, 0, time_size=4).end
    block = _Block(data, body, time_size=8)
    times = struct.unpack_from(f">{block.timecnt}q", data, block.times_at)
    kinds = data[block.kinds_at : block.kinds_at + block.timecnt]
    offsets = [
        struct.unpack_from(">i", data, block.types_at + 6 * k)[0] for k in range(block.typecnt)
    ]
    _refuse_days(*offsets)
    if any(later <= earlier for earlier, later in pairwise(times)):
        raise ValueError("times that are not in order")
    footer = data[block.end :].strip(b"\n").decode("ascii")
    return ZoneData(
        first_offset=offsets[0],
        changes=tuple(zip(times, (offsets[kind] for kind in kinds), strict=True)),
        rule=_parse_footer(footer),
    )


class _Block:
    """The positions of the parts of one TZif header and data block."""

    def __init__(self, data: bytes, at: int, time_size: int) -> None:
        counts = struct.unpack_from(">6I", data, at + 20)
        utcnt, stdcnt, leapcnt, self.timecnt, self.typecnt, charcnt = counts
        self.times_at = at + 44
        self.kinds_at = self.times_at + self.timecnt * time_size
        self.types_at = self.kinds_at + self.timecnt
        self.end = (
            self.types_at + 6 * self.typecnt + charcnt + leapcnt * (time_size + 4) + stdcnt + utcnt
        )


_NAME = r"(?:[A-Za-z]+|<[A-Za-z0-9+-]+>)"
_CLOCK = r"[+-]?\d+(?::\d+(?::\d+)?)?"
_FOOTER = re.compile(rf"{_NAME}({_CLOCK})(?:{_NAME}({_CLOCK})?,([^,]+),([^,]+))?")


def _parse_footer(text: str) -> YearlyRule | None:
    match = _FOOTER.fullmatch(text)
    if match is None or match[3] is None:
        return None
    standard = -_clock_seconds(match[1])
    summer = -_clock_seconds(match[2]) if match[2] else standard + 3_600
    _refuse_days(standard, summer)
    return YearlyRule(standard, summer, _rule_day(match[3]), _rule_day(match[4]))


def _refuse_days(*offsets: int) -> None:
    if any(abs(offset) >= DAY for offset in offsets):
        raise ValueError("an offset of a day or more")


def _rule_day(text: str) -> RuleDay:
    day, _, clock = text.partition("/")
    kind = day[0] if day[0] in "MJ" else ""
    numbers = tuple(int(number) for number in day.removeprefix(kind).split("."))
    second = _clock_seconds(clock or "2")
    bounds = _BOUNDS[kind]
    inside = all(low <= number <= high for number, (low, high) in zip(numbers, bounds, strict=True))
    if not inside or abs(second) > LATEST_RULE:
        raise ValueError(f"{text} is not a day of the year")
    return RuleDay(kind, numbers, second)


def _clock_seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = ([int(part) for part in text.lstrip("+-").split(":")] + [0, 0])[:3]
    return sign * (hours * 3_600 + minutes * 60 + seconds)
