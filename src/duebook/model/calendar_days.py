"""Sets of calendar days in their stored form: one bit for each day of a hundred years."""

from __future__ import annotations

import base64
import binascii
import zlib
from dataclasses import field
from datetime import date, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from duebook.errors import Invalid
from duebook.lazy_dataclasses import dataclass
from duebook.model.fields import DateRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["FIRST_DAY", "LAST_DAY", "MOST_DAYS", "DaySet"]

FIRST_DAY: Final = date(2000, 1, 1)
LAST_DAY: Final = date(2099, 12, 31)
MOST_DAYS: Final = (LAST_DAY - FIRST_DAY).days + 1
_FIRST: Final = FIRST_DAY.toordinal()


@dataclass(frozen=True, slots=True)
class DaySet:
    """Days from 2000 to 2099; `flags` has a byte for each, 1 for those in the set."""

    text: str
    """the stored form"""
    flags: bytes = field(repr=False, compare=False)

    @classmethod
    def of(cls, days: Iterable[date]) -> DaySet:
        """Days outside the hundred years are left out."""
        flags = bytearray(MOST_DAYS)
        for day in days:
            place = day.toordinal() - _FIRST
            if 0 <= place < MOST_DAYS:
                flags[place] = 1
        return cls.of_flags(bytes(flags))

    @classmethod
    def of_flags(cls, flags: bytes) -> DaySet:
        bits = int(flags.translate(_DIGITS).decode(), 2).to_bytes((MOST_DAYS + 7) // 8, "big")
        return cls(base64.b64encode(zlib.compress(bits, 9)).decode(), flags)

    @classmethod
    def load(cls, text: object) -> DaySet:
        """From the stored form; raises Invalid. Equal texts share their days."""
        if not isinstance(text, str):
            raise Invalid("the days of a calendar are not a string")
        return _load(text)

    def __len__(self) -> int:
        return self.flags.count(1)

    def __contains__(self, day: date) -> bool:
        place = day.toordinal() - _FIRST
        return 0 <= place < MOST_DAYS and self.flags[place] == 1

    def __or__(self, other: DaySet) -> DaySet:
        return _combined(self, other, "or")

    def __sub__(self, other: DaySet) -> DaySet:
        return _combined(self, other, "without")

    def between(self, first: date, last: date) -> Iterator[date]:
        """Those from `first` to `last`, in order."""
        start = max(first.toordinal() - _FIRST, 0)
        end = min(last.toordinal() - _FIRST + 1, MOST_DAYS)
        place = self.flags.find(1, start, end) if start < end else -1
        while place >= 0:
            yield FIRST_DAY + timedelta(place)
            place = self.flags.find(1, place + 1, end)

    def ranges(self, first: date, last: date) -> list[DateRange]:
        """The same as ranges of days."""
        found: list[DateRange] = []
        for day in self.between(first, last):
            if found and found[-1].last + timedelta(1) == day:
                found[-1] = DateRange(found[-1].first, day)
            else:
                found.append(DateRange(day, day))
        return found


_DIGITS: Final = bytes([ord("0"), ord("1"), *range(2, 256)])
_FLAGS: Final = bytes(place & 1 for place in range(256))
"""the last bit of the digits 0 and 1"""


@lru_cache(maxsize=1_000)
def _load(text: str) -> DaySet:
    try:
        bits = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 8_192)
    except (binascii.Error, ValueError, zlib.error):
        bits = b""
    digits = f"{int.from_bytes(bits, 'big'):0{MOST_DAYS}b}".encode()
    if len(bits) != (MOST_DAYS + 7) // 8 or len(digits) != MOST_DAYS:
        raise Invalid("the days of a calendar cannot be read")
    return DaySet(text, digits.translate(_FLAGS))


def _combined(one: DaySet, other: DaySet, how: str) -> DaySet:
    left, right = (int.from_bytes(days.flags, "big") for days in (one, other))
    both = left | right if how == "or" else left & ~right
    return DaySet.of_flags(both.to_bytes(MOST_DAYS, "big"))
