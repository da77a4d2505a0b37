"""Random triggers in random zones, asked mostly near transitions, against the slow oracle."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duebook import at, cron, daily, every, rrule, weekly
from tests.support import oracle
from tests.support.examples import some_of
from tests.support.oracle import DAY, DAY_NAMES, HOUR, MONTH_NAMES, SECOND, Rule
from tests.support.zone_sweep import (
    Trigger,
    assert_agrees,
    chain_after,
    chain_before,
    in_zone,
    instants_around,
    new_year,
)

Gap = Literal["run_after", "skip"]
Fold = Literal["first", "both"]

# The years that zone files list, and some that they only have a rule for, around 2100.
ERAS = [(1970, 2040), (2097, 2103)]
MICROSECOND = timedelta(microseconds=1)
LIMIT = 100_000

AWKWARD = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Havana",
    "America/New_York",
    "America/Santiago",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Antarctica/Vostok",
    "Africa/Monrovia",
    "Asia/Amman",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Europe/London",
    "Pacific/Apia",
    "Pacific/Chatham",
    "UTC",
]


@dataclass(frozen=True)
class Moment:
    """A zone, an instant in it, and the transition (or any instant) it was drawn around."""

    tz: str
    instant: datetime
    landmark: datetime

    @property
    def walls(self) -> list[datetime]:
        """The wall times that are likely to matter: just before the landmark and from it on."""
        return [
            oracle.wall_at(self.landmark - SECOND, self.tz),
            oracle.wall_at(self.landmark, self.tz),
        ]


# Moments and options

# All the others have their turn in tests/zones.
zones = st.sampled_from(AWKWARD) | st.sampled_from(oracle.distinct_zone_names()[::9])
gaps: st.SearchStrategy[Gap] = st.sampled_from(["run_after", "skip"])
folds: st.SearchStrategy[Fold] = st.sampled_from(["first", "both"])
any_instants = st.datetimes(datetime(1970, 1, 1), datetime(2110, 1, 1), timezones=st.just(UTC)).map(
    lambda instant: instant.replace(microsecond=0)
)
nudges = st.sampled_from([timedelta(0), SECOND, -SECOND, MICROSECOND, -MICROSECOND])
leaps = st.sampled_from([timedelta(0), 17 * HOUR, -17 * HOUR, 3 * DAY, -3 * DAY])


@st.composite
def moments(draw: st.DrawFn) -> Moment:
    """Five times out of six near a transition, if the zone has any."""
    tz = draw(zones)
    known = oracle.transitions(tz, *draw(st.sampled_from(ERAS)))
    if not known or draw(st.integers(0, 5)) == 0:
        landmark = draw(any_instants)
        return Moment(tz, landmark + draw(nudges), landmark)
    landmark = draw(st.sampled_from(known))
    near = draw(st.sampled_from(instants_around(landmark, tz)))
    return Moment(tz, near + draw(nudges) + draw(leaps), landmark)


# Cron expressions


@st.composite
def items(draw: st.DrawFn, low: int, high: int, likely: list[int]) -> str:
    numbers = st.sampled_from(likely) | st.integers(low, high)
    first, last = sorted((draw(numbers), draw(numbers)))
    step = draw(st.integers(1, 12) | st.integers(13, 70))
    forms = [f"{first}", f"{last}", f"{first}-{last}", f"{first}-{last}/{step}", f"{first}/{step}"]
    return draw(st.sampled_from([*forms, f"*/{step}"]))


def fields(low: int, high: int, likely: list[int]) -> st.SearchStrategy[str]:
    some = items(low, high, likely)
    lists = st.lists(some, min_size=2, max_size=4).map(",".join)
    return some | st.just("*") | lists | st.just("?")


def day_fields(plain: st.SearchStrategy[str], special: list[str]) -> st.SearchStrategy[str]:
    named = st.lists(st.sampled_from(special), min_size=1, max_size=3).map(",".join)
    mixed = st.tuples(plain, named).map(",".join)
    return st.just("*") | plain | st.just("*") | named | mixed


days_of_month = day_fields(
    fields(1, 31, [1, 15, 28, 29, 30, 31]), ["L", "LW", "1W", "15W", "30W", "31W"]
)
months = (
    st.just("*") | fields(1, 12, [2, 3, 4, 10, 11]) | st.sampled_from([*MONTH_NAMES, "mar-nov"])
)
days_of_week = day_fields(
    fields(0, 7, [0, 5, 6, 7]),
    [*DAY_NAMES, "mon-fri", "Fri-Sat", "MON#2", "sun#5", "7#1", "0#2", "5L", "0L", "7L"],
)


@st.composite
def cron_texts(draw: st.DrawFn, moment: Moment) -> str:
    """Five fields whose hours and minutes favour those around the moment's transition."""
    minute = draw(fields(0, 59, [0, 15, 30, 59, *(wall.minute for wall in moment.walls)]))
    hour = draw(fields(0, 23, [wall.hour for wall in moment.walls]))
    return f"{minute} {hour} {draw(days_of_month)} {draw(months)} {draw(days_of_week)}"


def window(rule: Rule, instant: datetime) -> tuple[datetime, datetime]:
    """As wide as brute force can bear: hours for a rule of seconds, weeks for a sparse one."""
    per_day = len(rule.times)
    if per_day > 3000:
        return instant - 20 * timedelta(minutes=1), instant + 20 * timedelta(minutes=1)
    if per_day > 100:
        return instant - 12 * HOUR, instant + 20 * HOUR
    return instant - 10 * DAY, instant + 25 * DAY


def falls_within_a_decade(rule: Rule, instant: datetime) -> bool:
    return any(rule.falls_on(instant.date() + n * DAY) for n in range(3700))


def assert_agrees_around(trigger: Trigger, rule: Rule, moment: Moment) -> None:
    start, end = window(rule, moment.instant)
    asked = [moment.instant, moment.landmark, *instants_around_landmark(moment)]
    assert_agrees(trigger, rule, start, end, asked)


def instants_around_landmark(moment: Moment) -> list[datetime]:
    around = instants_around(moment.landmark, moment.tz)
    return [*around, *(instant - MICROSECOND for instant in around)]


@pytest.mark.lengthy
@settings(deadline=None, max_examples=some_of(200))
@given(st.data(), moments(), gaps, folds)
def test_a_cron_trigger_agrees_with_the_oracle(
    data: st.DataObject, moment: Moment, gap: Gap, fold: Fold
) -> None:
    text = data.draw(cron_texts(moment))
    rule = oracle.cron_rule(text, moment.tz, gap, fold)
    assume(falls_within_a_decade(rule, moment.instant))
    assert_agrees_around(cron(text, tz=moment.tz, gap=gap, fold=fold), rule, moment)


@pytest.mark.lengthy
@settings(deadline=None, max_examples=some_of(30))
@given(st.data(), moments(), gaps, folds)
def test_a_cron_trigger_with_seconds_agrees_with_the_oracle(
    data: st.DataObject, moment: Moment, gap: Gap, fold: Fold
) -> None:
    seconds = data.draw(fields(0, 59, [0, 1, 59]))
    text = f"{seconds} {data.draw(cron_texts(moment))}"
    rule = oracle.cron_rule(text, moment.tz, gap, fold)
    assume(falls_within_a_decade(rule, moment.instant))
    assert_agrees_around(cron(text, tz=moment.tz, gap=gap, fold=fold), rule, moment)


# Daily, weekly, every


@st.composite
def clock_times(draw: st.DrawFn, moment: Moment) -> str:
    wall = draw(st.sampled_from(moment.walls))
    minutes = draw(st.sampled_from([-60, -31, -1, 0, 1, 15, 30, 60]) | st.integers(0, 1440))
    return (wall + timedelta(minutes=minutes)).strftime("%H:%M")


@settings(deadline=None, max_examples=some_of(100))
@given(st.data(), moments(), gaps, folds)
def test_a_daily_trigger_agrees_with_the_oracle(
    data: st.DataObject, moment: Moment, gap: Gap, fold: Fold
) -> None:
    times = data.draw(st.lists(clock_times(moment), min_size=1, max_size=4, unique=True))
    rule = oracle.daily_rule(times, moment.tz, gap, fold)
    assert_agrees_around(daily(*times, tz=moment.tz, gap=gap, fold=fold), rule, moment)


@settings(deadline=None, max_examples=some_of(100))
@given(st.data(), moments(), gaps, folds)
def test_a_weekly_trigger_agrees_with_the_oracle(
    data: st.DataObject, moment: Moment, gap: Gap, fold: Fold
) -> None:
    names = data.draw(st.lists(st.sampled_from(DAY_NAMES), min_size=1, max_size=5, unique=True))
    text = f"{','.join(names)} {data.draw(clock_times(moment))}"
    rule = oracle.weekly_rule(text, moment.tz, gap, fold)
    assert_agrees_around(weekly(text, tz=moment.tz, gap=gap, fold=fold), rule, moment)


@settings(deadline=None, max_examples=some_of(100))
@given(moments(), st.integers(1, 10), st.integers(-40, 40), st.booleans(), gaps, folds)
def test_a_calendar_every_agrees_with_the_oracle_before_and_after_its_anchor(
    moment: Moment, number: int, days_away: int, in_weeks: bool, gap: Gap, fold: Fold
) -> None:
    anchor = moment.landmark + days_away * DAY + 30 * timedelta(minutes=1)
    text = f"{number}w" if in_weeks else f"{number}d"
    days = number * 7 if in_weeks else number
    rule = oracle.calendar_rule(days, anchor, moment.tz, gap, fold)
    trigger = every(text, anchor=anchor, tz=moment.tz, gap=gap, fold=fold)
    assert_agrees_around(trigger, rule, moment)


periods = st.integers(1, 500_000).map(lambda seconds: timedelta(seconds=seconds))


def steps_from(anchor: datetime, period: timedelta, first: int, last: int) -> list[datetime]:
    return [anchor + step * period for step in range(first, last + 1)]


@settings(deadline=None, max_examples=some_of(100))
@given(any_instants, periods, st.integers(-1000, 1000), st.sampled_from([0, 1, 999_999]))
def test_an_anchored_every_yields_the_anchor_and_whole_periods_away_from_it(
    anchor: datetime, period: timedelta, step: int, microseconds: int
) -> None:
    trigger = every(period, anchor=anchor)
    start = anchor + step * period
    due = steps_from(anchor, period, step + 1, step + 20)
    assert list(chain_after(trigger, start, 20)) == due
    assert list(chain_before(trigger, due[-1] + MICROSECOND, 20)) == due[::-1]
    assert list(trigger.between(start, due[-1], 100)) == due
    assert trigger.count(start, due[-1]) == 20
    between_two = start + timedelta(microseconds=microseconds)
    assert trigger.next_after(between_two) == start + period
    assert trigger.previous_before(start + MICROSECOND) == start
    assert not trigger.omitted(start, due[-1])


@settings(deadline=None, max_examples=some_of(50))
@given(any_instants, periods)
def test_an_unanchored_every_counts_from_the_instant_asked_about(
    instant: datetime, period: timedelta
) -> None:
    trigger = every(period)
    assert trigger.next_after(instant) == instant + period
    assert trigger.previous_before(instant) == instant - period
    end = instant + 5 * period + period / 2
    assert list(trigger.between(instant, end, 100)) == steps_from(instant, period, 1, 5)
    assert trigger.count(instant, end) == 5


@given(any_instants, st.sampled_from([MICROSECOND, SECOND, DAY]))
def test_a_one_off_yields_its_instant_and_nothing_else(
    instant: datetime, distance: timedelta
) -> None:
    trigger = at(instant)
    assert trigger.next_after(instant - distance) == instant
    assert trigger.next_after(instant) is None
    assert trigger.previous_before(instant + distance) == instant
    assert trigger.previous_before(instant) is None
    assert list(trigger.between(instant - distance, instant, 9)) == [instant]
    assert trigger.count(instant, instant + distance) == 0


# Recurrence rules that say the same as a cron expression

SAME_AS_CRON = [
    ("FREQ=DAILY;BYHOUR=0,1,2,3,23;BYMINUTE=0,30;BYSECOND=0", "0,30 0-3,23 * * *"),
    ("FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=0,1,2;BYMINUTE=15;BYSECOND=0", "15 0,1,2 * * SAT,SUN"),
    ("FREQ=MONTHLY;BYDAY=-1SU;BYHOUR=1,2;BYMINUTE=30;BYSECOND=0", "30 1,2 * * 7L"),
    ("FREQ=HOURLY", "0 * * * *"),
    ("FREQ=HOURLY;INTERVAL=2;BYMINUTE=30;BYSECOND=0", "30 */2 * * *"),
    ("FREQ=MINUTELY;INTERVAL=20", "*/20 * * * *"),
]


@pytest.mark.parametrize(("text", "same"), SAME_AS_CRON)
@settings(deadline=None, max_examples=some_of(15))
@given(moment=moments(), gap=gaps, fold=folds)
def test_a_recurrence_rule_obeys_the_gap_and_fold_rules(
    text: str, same: str, moment: Moment, gap: Gap, fold: Fold
) -> None:
    dtstart = oracle.wall_at(moment.landmark - 60 * DAY, moment.tz).date().isoformat()
    trigger = rrule(text, tz=moment.tz, dtstart=dtstart, gap=gap, fold=fold)
    assert_agrees_around(trigger, oracle.cron_rule(same, moment.tz, gap, fold), moment)


# Laws that need no oracle


@st.composite
def repeating(draw: st.DrawFn, moment: Moment) -> Trigger:
    """Any kind of trigger whose due times do not depend on the instant asked about."""
    tz, gap, fold = moment.tz, draw(gaps), draw(folds)
    time = draw(clock_times(moment))
    anchor = moment.landmark - 30 * DAY
    kinds: list[Trigger] = [
        cron(f"{int(time[3:])} {int(time[:2])} * * *", tz=tz, gap=gap, fold=fold),
        cron(f"*/{draw(st.integers(1, 59))} * * * *", tz=tz, gap=gap, fold=fold),
        daily("00:00", "01:30", time, tz=tz, gap=gap, fold=fold),
        weekly(f"SAT,SUN {time}", tz=tz, gap=gap, fold=fold),
        every("1d", anchor=anchor, tz=tz, gap=gap, fold=fold),
        every("47m", anchor=anchor),
        rrule("FREQ=DAILY;INTERVAL=2", dtstart=anchor, tz=tz, gap=gap, fold=fold),
        rrule("FREQ=HOURLY;INTERVAL=3", dtstart=anchor, tz=tz, gap=gap, fold=fold),
    ]
    return draw(st.sampled_from(kinds))


@settings(deadline=None, max_examples=some_of(200))
@given(st.data(), moments())
def test_the_next_is_later_and_the_previous_earlier_wherever_one_asks(
    data: st.DataObject, moment: Moment
) -> None:
    unanchored: list[Trigger] = [every("1d", tz=moment.tz), every("90s"), every("2w", tz=moment.tz)]
    trigger = data.draw(repeating(moment) | st.sampled_from(unanchored))
    for instant in [moment.instant, *instants_around_landmark(moment)]:
        following, preceding = trigger.next_after(instant), trigger.previous_before(instant)
        assert following is not None
        assert following > instant
        assert preceding is None or preceding < instant


@settings(deadline=None, max_examples=some_of(200))
@given(st.data(), moments())
def test_the_previous_mirrors_the_next(data: st.DataObject, moment: Moment) -> None:
    trigger = data.draw(repeating(moment))
    for instant in instants_around_landmark(moment):
        forwards = list(chain_after(trigger, instant, 4))
        end = forwards[-1] + MICROSECOND
        assert list(chain_before(trigger, end, 4)) == forwards[::-1]


@settings(deadline=None, max_examples=some_of(200))
@given(st.data(), moments())
def test_between_equals_repeated_next(data: st.DataObject, moment: Moment) -> None:
    unanchored: list[Trigger] = [every("1d", tz=moment.tz), every("5h")]
    trigger = data.draw(repeating(moment) | st.sampled_from(unanchored))
    start, end = moment.landmark - 2 * DAY, moment.landmark + 3 * DAY
    repeated = chain_after(trigger, start, 10_000)
    expected = list(takewhile(lambda instant: instant <= end, repeated))
    assert list(trigger.between(start, end, 10_000)) == expected
    assert list(trigger.between(start, end, 3)) == expected[:3]
    assert int(trigger.count(start, end)) == len(expected)


@settings(deadline=None, max_examples=some_of(100))
@given(st.data(), moments(), zones)
def test_it_does_not_matter_in_which_zone_one_asks(
    data: st.DataObject, moment: Moment, other: str
) -> None:
    trigger = data.draw(repeating(moment))
    for instant in instants_around_landmark(moment):
        for tz in (other, moment.tz):
            elsewhere = in_zone(instant, tz)
            assert trigger.next_after(elsewhere) == trigger.next_after(instant)
            assert trigger.previous_before(elsewhere) == trigger.previous_before(instant)


@pytest.mark.parametrize("tz", ["UTC", "America/New_York"])
@pytest.mark.parametrize("surplus", [-1, 0, 1, 1_000_000])
def test_a_count_is_exact_up_to_its_limit_and_a_lower_bound_above(tz: str, surplus: int) -> None:
    start = new_year(2010)
    counted = cron("* * * * *", tz=tz).count(start, start + timedelta(minutes=LIMIT + surplus))
    assert counted == min(LIMIT, LIMIT + surplus)
    assert counted.exact is (surplus <= 0)
