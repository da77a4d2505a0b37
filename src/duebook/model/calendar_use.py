"""How a schedule uses a calendar, with the days it had when the definition was made."""

from __future__ import annotations

from dataclasses import field, replace
from datetime import datetime  # noqa: TC003 - FIELDS reads the types
from typing import Any, Final, Literal, get_args

from duebook.errors import Invalid, shorten
from duebook.ids import check_name
from duebook.lazy_dataclasses import dataclass
from duebook.model.calendar_days import DaySet
from duebook.timetext import format_instant, parse_instant

__all__ = ["CalendarMode", "CalendarUse", "Roll", "read_calendar_use"]

CalendarMode = Literal["only", "except"]
Roll = Literal["skip", "next", "previous"]
_MODES: Final = get_args(CalendarMode)
_ROLLS: Final = get_args(Roll)
_SHOWN: Final = '{"except": "holidays", "roll": "next"}'


@dataclass(frozen=True, slots=True)
class CalendarUse:
    """On which days of a calendar a schedule is due, and where due times of other days move.

    The days are those of the calendar's current version; a new version makes a new definition of
    the schedule. Two uses are equal if a person wrote the same.
    """

    name: str
    mode: CalendarMode
    roll: Roll = "skip"
    version: int | None = field(default=None, compare=False)
    days: DaySet | None = field(default=None, compare=False, repr=False)
    """None: the calendar was not looked up yet, and closes no day"""
    since: datetime | None = field(default=None, compare=False)
    """where the definition takes effect: due times never roll to before it; None: always"""

    def resolved(self, version: int, days: DaySet) -> CalendarUse:
        return replace(self, version=version, days=days, since=None)

    def counting_from(self, since: datetime | None) -> CalendarUse:
        return replace(self, since=since)

    def to_shown(self) -> dict[str, Any]:
        """As a person writes it."""
        form: dict[str, Any] = {self.mode: self.name}
        return form if self.roll == "skip" else form | {"roll": self.roll}

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        form = self.to_shown()
        if self.days is not None:
            form["resolved"] = {"version": self.version, "days": self.days.text}
            if self.since is not None:
                form["resolved"]["since"] = format_instant(self.since)
        return form

    def __str__(self) -> str:
        text = f"{self.mode} {self.name}"
        return text if self.roll == "skip" else f"{text}, roll {self.roll}"


def read_calendar_use(key: str, value: Any) -> CalendarUse:
    """An object such as {"except": "holidays", "roll": "next"}; raises Invalid."""
    if isinstance(value, CalendarUse):
        return value
    if not isinstance(value, dict):
        raise Invalid(f"{key} {shorten(value)} is not an object such as {_SHOWN}")
    modes = [mode for mode in _MODES if value.get(mode) is not None]
    unknown = [name for name in value if name not in (*_MODES, "roll", "resolved")]
    if len(modes) != 1 or unknown:
        raise Invalid(
            f"{key} {shorten(value)} needs either only or except, and may have roll, as in {_SHOWN}"
        )
    (mode,) = modes
    roll: Any = value.get("roll") or "skip"
    if roll not in _ROLLS:
        raise Invalid(f"{key} roll {shorten(roll)} is not one of {', '.join(_ROLLS)}")
    use = CalendarUse(check_name(value[mode], f"{key} {mode}"), mode, roll)
    return _with_days(use, value.get("resolved"))


def _with_days(use: CalendarUse, form: Any) -> CalendarUse:
    """With the stored days; a definition given by a person has none, so they are looked up
    again."""
    if not isinstance(form, dict):
        return use
    since = None if form.get("since") is None else parse_instant(form["since"])
    return replace(
        use, version=form.get("version"), days=DaySet.load(form.get("days")), since=since
    )
