"""The rrule trigger: a recurrence rule of RFC 5545, seen through its zone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from duebook.errors import InvalidTrigger, shorten
from duebook.timetext import format_instant, parse_date, parse_instant
from duebook.triggers.base import (
    COUNT_LIMIT,
    Timeline,
    TimelineTrigger,
    TriggerWarning,
    WallTimeline,
    check_policy,
    policy_json,
    reading,
)
from duebook.triggers.cautions import jump_cautions, policy_cautions
from duebook.triggers.recurrences import recurrences
from duebook.triggers.rule_words import describe_rule
from duebook.triggers.rules import Rule, parse_rule
from duebook.triggers.zones import (
    Fold,
    Gap,
    Line,
    Pattern,
    line,
    to_seconds,
    wall_datetime,
    wall_second,
    zone,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

__all__ = ["Rrule", "rrule"]


@dataclass(frozen=True, slots=True)
class Rrule(TimelineTrigger):
    """Due at the recurrences of `rule` on the wall clock of `tz`, from `dtstart` on.

    Without a dtstart the rule begins at 00:00 of the day that is asked about (below a day: at
    00:00 of 1 January 1970).
    """

    rule: str
    tz: str = "UTC"
    dtstart: date | datetime | None = None
    gap: Gap = "run_after"
    fold: Fold = "first"
    timeline: Timeline = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        timeline = _timeline(self.rule, self.tz, self.dtstart, self.gap, self.fold)
        object.__setattr__(self, "timeline", timeline)

    @property
    def text(self) -> str:
        return f"rrule {self.rule}"

    def describe(self) -> str:
        begin = None if self.dtstart is None else _begin(self.dtstart, self.tz)
        return f"{describe_rule(_rule(self.rule, self.tz), begin)} ({self.tz})"

    def warnings(self, now: datetime | None = None) -> tuple[TriggerWarning, ...]:
        if _rule(self.rule, self.tz).below_a_day:
            return tuple(policy_cautions(self.gap, self.fold, "a rule below a day"))
        if isinstance(self.timeline, WallTimeline):
            return tuple(jump_cautions(self.timeline.line, self.timeline.pattern, now))
        return ()

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = {"rrule": self.rule}
        if isinstance(self.dtstart, datetime):
            form["dtstart"] = format_instant(self.dtstart)
        elif self.dtstart is not None:
            form["dtstart"] = self.dtstart.isoformat()
        return {**form, **policy_json(self.tz, self.gap, self.fold)}


def rrule(
    rule: str,
    tz: str | tzinfo = "UTC",
    dtstart: str | date | datetime | None = None,
    gap: str = "run_after",
    fold: str = "first",
) -> Rrule:
    """A trigger from a recurrence rule; `dtstart` is a date (00:00 there) or an aware time.

    Raises InvalidTrigger, also for rules that have no recurrence.

    >>> rrule("FREQ=MONTHLY;BYDAY=-1FR", tz="Europe/Brussels").describe()
    'Every month on the last Friday at 00:00 (Europe/Brussels)'
    """
    parsed = parse_rule(rule)
    begin = None if dtstart is None else reading("dtstart", _date_or_instant, dtstart)
    if parsed.count and begin is None:
        raise InvalidTrigger(f'rrule COUNT needs a dtstart in "{shorten(rule)}"', "dtstart")
    name, gap, fold = check_policy(tz, gap, fold)
    text = rule.strip().upper().removeprefix("RRULE:").strip(";")
    trigger = Rrule(text, name, begin, gap, fold)
    _check_fires(trigger)
    return trigger


def _check_fires(trigger: Rrule) -> None:
    """Refuse a rule without any recurrence (30 February)."""
    if trigger.dtstart is None:  # any day may be its beginning, so no phase can rule it out
        begin = datetime(2000, 1, 1)  # noqa: DTZ001 - on the wall
        rule = replace(_rule(trigger.rule, trigger.tz), interval=1, until=None)
        pattern = recurrences(rule, begin)
    else:
        begin = _begin(trigger.dtstart, trigger.tz)
        pattern = _pattern(trigger.rule, trigger.tz, begin, False)
    if pattern.next(wall_second(begin)) is None:
        raise InvalidTrigger(f'"{shorten(trigger.rule)}" never fires', "rrule")


def _date_or_instant(value: str | date | datetime) -> date | datetime:
    is_date = isinstance(value, str) and len(value) == 10
    if is_date or (isinstance(value, date) and not isinstance(value, datetime)):
        return parse_date(value)
    return parse_instant(value)


def _begin(dtstart: date | datetime, tz: str) -> datetime:
    """The beginning on the wall."""
    if isinstance(dtstart, datetime):
        second = to_seconds(dtstart)
        return wall_datetime(second + zone(tz).offset_at(second))
    return datetime.combine(dtstart, datetime.min.time())


@lru_cache(maxsize=1024)
def _rule(text: str, tz: str) -> Rule:
    """The parsed rule, with an UNTIL in UTC put on the wall of `tz`."""
    rule = parse_rule(text)
    if rule.until is None or rule.until.tzinfo is None:
        return rule
    return replace(rule, until=_begin(rule.until, tz))


@lru_cache(maxsize=1024)
def _pattern(text: str, tz: str, begin: datetime, open_start: bool) -> Pattern:
    return recurrences(_rule(text, tz), begin, open_start)


@lru_cache(maxsize=1024)
def _timeline(
    text: str, tz: str, dtstart: date | datetime | None, gap: Gap, fold: Fold
) -> Timeline:
    if _rule(text, tz).below_a_day:  # follows real time, as a wildcard does
        gap, fold = "skip", "both"
    if dtstart is None:
        return _FloatingRule(text, line(tz, gap, fold))
    return WallTimeline(line(tz, gap, fold), _pattern(text, tz, _begin(dtstart, tz), False))


class _FloatingRule:
    """A rule without a dtstart: its phase is the day that is asked about.

    Below a day that would give it a new phase each midnight, so there it is 1 January 1970.
    """

    def __init__(self, text: str, line: Line) -> None:
        self._text = text
        self._line = line
        self._below_a_day = _rule(text, line.zone.name).below_a_day

    def next(self, second: int) -> int | None:
        return self._line.next(self._from(second), second)

    def previous(self, second: int) -> int | None:
        return self._line.previous(self._from(second), second)

    def count(self, after: int, until: int) -> int:
        # each due time lies in the phase of the one before, so counting needs no new beginning
        return self._line.count(self._from(after), after, until, COUNT_LIMIT)

    def lost(self, after: int, until: int) -> Iterator[tuple[int, int | None]]:
        return self._line.lost(self._from(after), after, until)

    def _from(self, second: int) -> Pattern:
        wall = second + self._line.zone.offset_at(second)
        day = 0 if self._below_a_day else wall - wall % 86_400
        return _pattern(self._text, self._line.zone.name, wall_datetime(day), True)
