"""The rrule trigger: a recurrence rule of RFC 5545, seen through its zone."""

from __future__ import annotations

from dataclasses import field, replace
from datetime import date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import InvalidTrigger, shorten
from duebook.lazy_dataclasses import dataclass
from duebook.timetext import format_instant, parse_date, parse_instant
from duebook.triggers.base import (
    Bounded,
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
from duebook.triggers.rules import parse_rule
from duebook.triggers.zones import (
    FIRST_SECOND,
    Fold,
    Gap,
    line,
    local_datetime,
    to_seconds,
    wall_datetime,
    wall_second,
    zone,
)

if TYPE_CHECKING:
    from datetime import tzinfo

__all__ = ["Rrule", "rrule"]

PHASE: Final = datetime(2001, 1, 1)  # noqa: DTZ001 - on the wall; a Monday


@dataclass(frozen=True, slots=True)
class Rrule(TimelineTrigger):
    """Due at the recurrences of `rule` on the wall clock of `tz`, from `dtstart` on.

    Without a dtstart the rule has no beginning, and its phase counts from Monday, 1 January 2001,
    00:00: weekly is on Mondays, monthly on the first, yearly on 1 January.
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
        begin = PHASE if self.dtstart is None else _begin(self.dtstart, self.tz)
        text = describe_rule(parse_rule(self.rule).with_defaults(begin))
        return f"{text}{f', from {begin:%Y-%m-%d}' if self.dtstart else ''} ({self.tz})"

    def warnings(self, now: datetime | None = None) -> tuple[TriggerWarning, ...]:
        if parse_rule(self.rule).below_a_day:
            return tuple(policy_cautions(self.gap, self.fold, "a rule below a day"))
        on_wall = _on_wall(self.rule, self.tz, self.dtstart, self.gap, self.fold)
        return tuple(jump_cautions(on_wall.line, on_wall.pattern, now))

    def anchored(self, instant: datetime) -> Rrule:
        return (
            self if self.dtstart else replace(self, dtstart=local_datetime(instant, self.tz).date())
        )

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
    if isinstance(begin, datetime):
        begin = begin.replace(microsecond=0)
    if parsed.count and begin is None:
        raise InvalidTrigger(f'rrule COUNT needs a dtstart in "{shorten(rule)}"', "dtstart")
    name, gap, fold = check_policy(tz, gap, fold)
    text = rule.strip().upper().removeprefix("RRULE:").strip(";")
    trigger = Rrule(text, name, begin, gap, fold)
    _check_fires(trigger)
    return trigger


def _check_fires(trigger: Rrule) -> None:
    """Reject a rule without any recurrence (30 February)."""
    if trigger.timeline.next(FIRST_SECOND) is None:
        raise InvalidTrigger(f'"{shorten(trigger.rule)}" never fires', "rrule")


def _date_or_instant(value: str | date | datetime) -> date | datetime:
    is_date = isinstance(value, str) and len(value) == 10
    if is_date or (isinstance(value, date) and not isinstance(value, datetime)):
        return parse_date(value)
    return parse_instant(value)


def _begin(dtstart: date | datetime, tz: str) -> datetime:
    """The beginning on the wall."""
    if isinstance(dtstart, datetime):
        return wall_datetime(zone(tz).wall_at(to_seconds(dtstart)))
    return datetime.combine(dtstart, datetime.min.time())


@lru_cache(maxsize=1024)
def _on_wall(
    text: str, tz: str, dtstart: date | datetime | None, gap: Gap, fold: Fold
) -> WallTimeline:
    """The rule in its phase, without beginning and end."""
    rule = parse_rule(text)
    if rule.below_a_day:  # follows real time, as a wildcard does
        gap, fold = "skip", "both"
    begin = PHASE if dtstart is None else _begin(dtstart, tz)
    return WallTimeline(line(tz, gap, fold), recurrences(rule, begin))


@lru_cache(maxsize=1024)
def _timeline(
    text: str, tz: str, dtstart: date | datetime | None, gap: Gap, fold: Fold
) -> Timeline:
    rule, timeline = parse_rule(text), _on_wall(text, tz, dtstart, gap, fold)
    first = None if dtstart is None else _first_second(dtstart, tz)
    last = None if rule.until is None else _last_second(rule.until, tz)
    if rule.count and first is not None:
        last = _nth_due(timeline, first, rule.count)
    return timeline if first is None and last is None else Bounded(timeline, first, last)


def _first_second(dtstart: date | datetime, tz: str) -> int:
    if isinstance(dtstart, datetime):
        return to_seconds(dtstart)
    return zone(tz).first_at(wall_second(_begin(dtstart, tz)))


def _last_second(until: datetime, tz: str) -> int:
    return to_seconds(until) if until.tzinfo else zone(tz).last_at(wall_second(until))


def _nth_due(timeline: Timeline, first: int, number: int) -> int:
    last = due = timeline.next(first - 1)
    while due is not None and number > 1:
        last, number = due, number - 1
        due = timeline.next(due)
    return first - 1 if last is None else (last if due is None else due)
