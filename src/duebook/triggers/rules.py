"""Parses recurrence rules (RFC 5545) into plain values; knows the syntax, but not the calendar."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NoReturn

from duebook.errors import InvalidTrigger, shorten
from duebook.lazy_dataclasses import dataclass

__all__ = ["Frequency", "Rule", "parse_rule"]

MAX_LENGTH: Final = 1_000
MAX_COUNT: Final = 1_000

Frequency = Literal["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"]
MAX_INTERVAL: Final[dict[Frequency, int]] = {
    "YEARLY": 400,
    "MONTHLY": 1_000,
    "WEEKLY": 1_000,
    "DAILY": 10_000,
    "HOURLY": 10_000,
    "MINUTELY": 100_000,
    "SECONDLY": 1_000_000,
}
WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

_RANGES: Final = {
    "BYSETPOS": (-366, 366),
    "BYMONTH": (1, 12),
    "BYMONTHDAY": (-31, 31),
    "BYYEARDAY": (-366, 366),
    "BYWEEKNO": (-53, 53),
    "BYHOUR": (0, 23),
    "BYMINUTE": (0, 59),
    "BYSECOND": (0, 59),
}
_PARTS: Final = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_RANGES)


@dataclass(frozen=True, slots=True)
class Rule:
    """A parsed recurrence rule; `until` may end in Z, and is resolved by the trigger's zone."""

    freq: Frequency
    interval: int = 1
    count: int | None = None
    until: datetime | None = None  # naive: on the wall; aware: in UTC
    wkst: int = 0  # Monday
    byday: tuple[tuple[int, int], ...] = ()  # (weekday, which of them; 0 is all)
    by: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def below_a_day(self) -> bool:
        return self.freq in ("HOURLY", "MINUTELY", "SECONDLY")

    def with_defaults(self, begin: datetime) -> Rule:
        """The same rule with the parts that it takes from its beginning made explicit."""
        by, byday = dict(self.by), self.byday
        if not (byday or by.keys() & {"BYYEARDAY", "BYMONTHDAY"}):
            if self.freq == "WEEKLY" or "BYWEEKNO" in by:
                byday = ((begin.weekday(), 0),)
            elif self.freq in ("YEARLY", "MONTHLY"):
                by["BYMONTHDAY"] = (begin.day,)
                if self.freq == "YEARLY":
                    by.setdefault("BYMONTH", (begin.month,))
        finer = {"BYHOUR": begin.hour, "BYMINUTE": begin.minute, "BYSECOND": begin.second}
        kept_open = {"HOURLY": 1, "MINUTELY": 2, "SECONDLY": 3}.get(self.freq, 0)
        for name in list(finer)[kept_open:]:
            by.setdefault(name, (finer[name],))
        return replace(self, byday=byday, by=tuple(by.items()))

    def get(self, name: str) -> tuple[int, ...]:
        return dict(self.by).get(name, ())


def parse_rule(text: str) -> Rule:
    """Parse `FREQ=MONTHLY;BYDAY=-1FR`, with or without `RRULE:` before it.

    Raises InvalidTrigger that names the part, the value and what is accepted.
    """
    if not isinstance(text, str) or len(text) > MAX_LENGTH or not text.isascii():
        raise InvalidTrigger(
            f'rrule "{shorten(text)}" is not an ASCII text of up to {MAX_LENGTH:,} characters',
            "rrule",
        )
    parts = _split(text)
    freq = parts.get("FREQ", "")
    if freq not in MAX_INTERVAL:
        _refuse("FREQ", freq, f"is not one of {', '.join(MAX_INTERVAL)}", text)
    if "COUNT" in parts and "UNTIL" in parts:
        _refuse("COUNT", parts["COUNT"], "cannot be combined with UNTIL", text)
    rule = Rule(
        freq=freq,
        interval=_number("INTERVAL", parts.get("INTERVAL", "1"), 1, MAX_INTERVAL[freq], text),
        count=_number("COUNT", parts["COUNT"], 1, MAX_COUNT, text) if "COUNT" in parts else None,
        until=_until(parts["UNTIL"], text) if "UNTIL" in parts else None,
        wkst=_weekday("WKST", parts.get("WKST", "MO"), text),
        byday=tuple(sorted({_byday(item, text) for item in _items(parts, "BYDAY")})),
        by=tuple(
            (name, tuple(sorted({_number(name, i, *_RANGES[name], text) for i in items})))
            for name in _RANGES
            if (items := _items(parts, name))
        ),
    )
    _check_together(rule, text)
    return rule


def _split(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    if not text.strip():
        _refuse("text", "", "is empty; use a form such as FREQ=DAILY", text)
    for part in text.upper().strip().removeprefix("RRULE:").strip(";").split(";"):
        name, equals, value = part.partition("=")
        if name not in _PARTS:
            _refuse("part", name, "is unknown; write a rule like FREQ=MONTHLY;BYDAY=-1FR", text)
        if not equals or not value:
            _refuse(name, value, "has no value", text)
        if name in parts:
            _refuse(name, value, "appears twice", text)
        parts[name] = value
    return parts


def _items(parts: dict[str, str], name: str) -> list[str]:
    return parts[name].split(",") if name in parts else []


def _number(name: str, value: str, low: int, high: int, text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", value):
        _refuse(name, value, f"is not a number from {low} to {high}", text)
    number = int(value)
    if not low <= number <= high or (low < 0 and number == 0):
        _refuse(name, value, f"is out of range {low} to {high}" + " without 0" * (low < 0), text)
    return number


def _weekday(name: str, value: str, text: str) -> int:
    if value not in WEEKDAYS:
        _refuse(name, value, f"is not one of {', '.join(WEEKDAYS)}", text)
    return WEEKDAYS.index(value)


def _byday(value: str, text: str) -> tuple[int, int]:
    nth = value[:-2]
    return _weekday("BYDAY", value[-2:], text), _number("BYDAY", nth, -53, 53, text) if nth else 0


_UNTIL: Final = re.compile(r"[0-9]{8}(?:T[0-9]{6}Z?)?")


def _until(value: str, text: str) -> datetime:
    """An UNTIL date includes its whole day."""
    try:
        moment = datetime.fromisoformat(value.removesuffix("Z"))
    except ValueError:
        moment = None
    if moment is None or not _UNTIL.fullmatch(value):
        _refuse("UNTIL", value, "is not a date such as 20261231 or 20261231T220000Z", text)
    if "T" not in value:
        return moment + timedelta(days=1, seconds=-1)
    return moment.replace(tzinfo=UTC) if value.endswith("Z") else moment


def _check_together(rule: Rule, text: str) -> None:
    """Reject combinations that RFC 5545 forbids."""
    if any(nth for _, nth in rule.byday) and (
        rule.freq not in ("MONTHLY", "YEARLY") or rule.get("BYWEEKNO")
    ):
        _refuse(
            "BYDAY",
            "",
            "can have a number only with FREQ=MONTHLY or YEARLY, and without BYWEEKNO",
            text,
        )
    if rule.get("BYWEEKNO") and rule.freq != "YEARLY":
        _refuse("BYWEEKNO", "", "needs FREQ=YEARLY", text)
    if rule.get("BYYEARDAY") and rule.freq in ("DAILY", "WEEKLY", "MONTHLY"):
        _refuse("BYYEARDAY", "", f"cannot be combined with FREQ={rule.freq}", text)
    if rule.get("BYMONTHDAY") and rule.freq == "WEEKLY":
        _refuse("BYMONTHDAY", "", "cannot be combined with FREQ=WEEKLY", text)
    if rule.get("BYSETPOS") and not rule.byday and len(rule.by) == 1:
        _refuse("BYSETPOS", "", "needs another BY part to choose from", text)


def _refuse(name: str, value: str, why: str, text: str) -> NoReturn:
    shown = f' "{shorten(value)}"' if value else ""
    raise InvalidTrigger(f'rrule {name}{shown} {why} in "{shorten(text)}"', "rrule")
