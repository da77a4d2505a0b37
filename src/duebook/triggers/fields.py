"""Parses the fields of a cron expression; knows the dialect, but not days or zones."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NoReturn

from duebook.errors import InvalidTrigger, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.triggers.words import MONTHS, WEEKDAYS

__all__ = ["MAX_LENGTH", "Field", "Fields", "check_text", "parse_fields"]

MAX_LENGTH: Final = 1_000

_DESCRIPTORS: Final = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Spec:
    """What one field may hold."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    hash_high: int = 0  # highest value of H; it occurs in every month, and once a week

    def number(self, text: str, whole: str) -> int:
        """The value of a number or name, in range; raises InvalidTrigger."""
        if text.isdigit():
            value = int(text)
        elif text in self.names:
            value = self.names.index(text) + self.low
        else:
            self.refuse(text, f"is not a {self.accepted()}", whole)
        if not self.low <= value <= self.high:
            self.refuse(text, f"is out of range {self.low}-{self.high}", whole)
        return value

    def accepted(self) -> str:
        numbers = f"number {self.low}-{self.high}"
        return f"{numbers} or name {self.names[0]}-{self.names[-1]}" if self.names else numbers

    def refuse(self, text: str, why: str, whole: str, remedy: str = "") -> NoReturn:
        shown = text if text.isdigit() else f'"{text}"'
        raise InvalidTrigger(
            f'{self.name} {shorten(shown, 40)} {why} in "{shorten(whole)}"'
            + (f"; {remedy}" if remedy else ""),
            self.name,
        )


SECOND: Final = Spec("second", 0, 59, hash_high=59)
MINUTE: Final = Spec("minute", 0, 59, hash_high=59)
HOUR: Final = Spec("hour", 0, 23, hash_high=23)
DAY_OF_MONTH: Final = Spec("day-of-month", 1, 31, hash_high=28)
MONTH: Final = Spec("month", 1, 12, tuple(name[:3].upper() for name in MONTHS), hash_high=12)
DAY_OF_WEEK: Final = Spec(
    "day-of-week", 0, 7, tuple(name[:3].upper() for name in WEEKDAYS), hash_high=6
)


@dataclass(frozen=True, slots=True)
class Field:
    """One parsed field: its plain values, and the special days it names.

    `specials` holds ("L", 0) last day, ("LW", 0) last weekday, ("W", day) weekday nearest to the
    day for day-of-month; ("#", weekday * 10 + n) and ("L", weekday) for day-of-week.
    """

    spec: Spec
    text: str
    values: tuple[int, ...]
    specials: tuple[tuple[str, int], ...] = ()

    @property
    def starred(self) -> bool:
        """Whether it starts with a star, as crontab(5) means it: `*/2` counts."""
        return self.text[0] in "*?"

    @property
    def span(self) -> int:
        """How many different values there are; Sunday is both 0 and 7."""
        return 7 if self.spec is DAY_OF_WEEK else self.spec.high - self.spec.low + 1

    @property
    def unrestricted(self) -> bool:
        return len(self.values) == self.span


@dataclass(frozen=True, slots=True)
class Fields:
    """A whole parsed expression."""

    second: Field
    minute: Field
    hour: Field
    day_of_month: Field
    month: Field
    day_of_week: Field

    @property
    def follows_real_time(self) -> bool:
        """A star in the hour, minute or second: such an expression has no fixed wall times."""
        return self.hour.starred or self.minute.starred or self.second.starred

    @property
    def either_day(self) -> bool:
        """Day-of-month OR day-of-week: when both are restricted and neither starts with a star."""
        return not (self.day_of_month.starred or self.day_of_week.starred)


def parse_fields(expression: str, key: str | None) -> Fields:
    """Parse 5 fields, 6 with seconds first, or a descriptor; call check_text first.

    Raises InvalidTrigger.
    """
    upper = expression.upper()
    if upper.startswith("@"):
        upper = _descriptor(upper, expression)
    texts = upper.split()
    if len(texts) == 5:
        texts.insert(0, "0")
    elif len(texts) != 6:
        raise InvalidTrigger(
            f'expected 5 fields, or 6 with seconds first, but found {len(texts)} in "'
            f'{shorten(expression)}"' + ("; years are not supported" if len(texts) == 7 else ""),
            "cron",
        )
    specs = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
    return Fields(
        *(
            _parse_field(spec, text, expression, key if "H" in text else None)
            for spec, text in zip(specs, texts, strict=True)
        )
    )


def check_text(expression: object) -> None:
    """Reject anything but a short ASCII text, before spending time on it."""
    if not isinstance(expression, str):
        raise InvalidTrigger(
            f"a cron expression must be a string, not {shorten(expression)}", "cron"
        )
    if len(expression) > MAX_LENGTH:
        raise InvalidTrigger(
            f"the expression has {len(expression):,} characters; at most {MAX_LENGTH:,} are "
            "allowed",
            "cron",
        )
    if not expression.isascii() or any(c < " " and c not in "\t\r\n" for c in expression):
        raise InvalidTrigger(
            f'only ASCII letters, digits and punctuation are allowed in "{shorten(expression)}"',
            "cron",
        )


def _descriptor(upper: str, expression: str) -> str:
    try:
        return _DESCRIPTORS[upper.strip()]
    except KeyError:
        known = ", ".join(name.lower() for name in _DESCRIPTORS)
        why = "has no meaning for a durable schedule" if upper == "@REBOOT" else "is unknown"
        raise InvalidTrigger(
            f'"{shorten(expression)}" {why}; use one of {known} or @every 1h30m', "cron"
        ) from None


def _parse_field(spec: Spec, text: str, whole: str, key: str | None) -> Field:
    if text == "*" or text == "?":
        return _star(spec, text)
    values: set[int] = set()
    specials: list[tuple[str, int]] = []
    for item in text.split(","):
        special = None if item.isdigit() else _special(spec, item, whole)
        if special:
            specials.append(special)
        else:
            values.update(_values(spec, item, whole, key))
    if spec is DAY_OF_WEEK and 7 in values:
        values.remove(7)
        values.add(0)
    return Field(spec, text, tuple(sorted(values)), tuple(specials))


@lru_cache(maxsize=16)
def _star(spec: Spec, text: str) -> Field:
    high = 6 if spec is DAY_OF_WEEK else spec.high
    return Field(spec, text, tuple(range(spec.low, high + 1)))


def _values(spec: Spec, item: str, whole: str, key: str | None) -> range | tuple[int]:
    base, slash, step_text = item.partition("/")
    if not slash and base.isdigit():
        return (spec.number(base, whole),)
    step = _step(spec, item, step_text, whole) if slash else 1
    if base.startswith("H") and (match := _HASH.fullmatch(base)):
        return _hashed(spec, item, match, step if slash else 0, key, whole)
    if base in ("*", "?"):
        return range(spec.low, spec.high + 1, step)
    first, dash, last = base.partition("-")
    if not first or (dash and not last) or ("L" in (first, last) and spec is DAY_OF_MONTH):
        spec.refuse(item, f"is not a {spec.accepted()}, range or step", whole)
    low = spec.number(first, whole)
    high = spec.number(last, whole) if dash else (spec.high if slash else low)
    if low > high:
        spec.refuse(item, "runs backwards", whole, _instead(spec, low, high))
    return range(low, high + 1, step)


def _instead(spec: Spec, low: int, high: int) -> str:
    if spec is DAY_OF_WEEK and high == 0:
        return f"Sunday is 0 and 7, so write {low}-7"
    return f"write {low}-{spec.high},{spec.low}-{high}"


def _step(spec: Spec, item: str, text: str, whole: str) -> int:
    if not text.isdigit():
        spec.refuse(item, "has no number after /", whole)
    step = int(text)
    if step == 0:
        spec.refuse(item, "has a step of 0", whole, "a step must be 1 or greater")
    return step


_HASH: Final = re.compile(r"H(?:\((\d+)-(\d+)\))?")


def _hashed(
    spec: Spec, item: str, match: re.Match[str], step: int, key: str | None, whole: str
) -> range | tuple[int]:
    if not key:
        raise InvalidTrigger(
            f'H needs a key to hash in "{shorten(whole)}": '
            'give key="backup" (--key backup), or the schedule a name',
            spec.name,
        )
    low, high = spec.low, spec.hash_high
    if match[1]:
        low, high = spec.number(match[1], whole), spec.number(match[2], whole)
        if low > high:
            spec.refuse(item, "runs backwards", whole)
    if not step:
        return (low + _hash(spec, key) % (high - low + 1),)
    return range(low + _hash(spec, key) % min(step, high - low + 1), high + 1, step)


def _hash(spec: Spec, key: str) -> int:
    from hashlib import blake2b  # only H needs it

    digest = blake2b(key.encode(), digest_size=8, person=spec.name.encode()).digest()
    return int.from_bytes(digest, "big")


_NTH: Final = re.compile(r"([0-9A-Z]+)#([1-5])")


def _special(spec: Spec, item: str, whole: str) -> tuple[str, int] | None:
    """A day that depends on the month, or None when the item is a plain one."""
    if spec is DAY_OF_MONTH:
        if item in ("L", "LW"):
            return item, 0
        if item.endswith("W"):
            return "W", spec.number(item[:-1], whole)
    elif spec is DAY_OF_WEEK:
        if match := _NTH.fullmatch(item):
            return "#", spec.number(match[1], whole) % 7 * 10 + int(match[2])
        if "#" in item:
            spec.refuse(item, "is not a weekday with # and 1-5", whole, "use a form such as MON#2")
        if item == "L":
            spec.refuse(item, "does not name a weekday", whole, "5L is the last Friday")
        if item.endswith("L"):
            return "L", spec.number(item[:-1], whole) % 7
    return None
