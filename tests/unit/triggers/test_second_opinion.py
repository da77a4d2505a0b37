"""Other people's libraries as a second opinion, where they are right: in UTC and far from
transitions.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import pytest
from croniter import croniter
from cronsim import CronSim
from dateutil import rrule as dateutil
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duebook import cron, rrule
from tests.support import oracle
from tests.support.examples import some_of
from tests.support.oracle import DAY, DAY_NAMES, MONTH_NAMES
from tests.support.zone_sweep import chain_after, chain_before

if TYPE_CHECKING:
    from collections.abc import Iterable

SOME = 20
ZONES = ["America/New_York", "Europe/London", "Australia/Lord_Howe", "Asia/Kathmandu"]

instants = st.datetimes(datetime(2000, 1, 1), datetime(2050, 1, 1), timezones=st.just(UTC)).map(
    lambda instant: instant.replace(microsecond=0)
)


# Expressions that cronsim reads as we do: no "N-N/S" (it takes that for "N/S"), no "?", no "15W".


@st.composite
def items(draw: st.DrawFn, low: int, high: int) -> str:
    first = draw(st.integers(low, high))
    last = draw(st.integers(low, high))
    step = draw(st.integers(1, 15))
    forms = [f"{first}", f"{first}/{step}", f"*/{step}"]
    if first < last:
        forms += [f"{first}-{last}", f"{first}-{last}/{step}"]
    return draw(st.sampled_from(forms))


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    some = items(low, high)
    return st.just("*") | some | st.lists(some, min_size=2, max_size=3).map(",".join)


times = st.tuples(fields(0, 59), fields(0, 23)).map(" ".join)
days = st.just("*") | fields(1, 31) | st.sampled_from(["L", "LW", "1,L"])
months = st.just("*") | st.just("*") | fields(1, 12) | st.sampled_from(MONTH_NAMES)
weekdays = (
    st.just("*")
    | fields(0, 7)
    | st.sampled_from([*DAY_NAMES, "MON-FRI", "MON#2", "FRI#5", "0#1", "5L", "7L", "1,3L"])
)
expressions = st.tuples(times, days, months, weekdays).map(" ".join)
expressions_with_seconds = st.tuples(fields(0, 59), expressions).map(" ".join)


def fires_within_a_decade(text: str, instant: datetime) -> bool:
    rule = oracle.cron_rule(text, "UTC")
    return any(rule.falls_on(instant.date() + n * DAY) for n in range(3700))


def first_of(found: Iterable[datetime]) -> list[datetime]:
    return list(islice(found, SOME))


@settings(deadline=None, max_examples=some_of(200))
@given(expressions | expressions_with_seconds, instants)
def test_cronsim_agrees_in_utc(text: str, instant: datetime) -> None:
    assume(fires_within_a_decade(text, instant))
    ours = list(chain_after(cron(text), instant, SOME))
    horizon = instant + 20 * 365 * DAY
    theirs = takewhile(lambda due: due <= horizon, CronSim(text, instant))
    assert [due for due in ours if due <= horizon] == first_of(theirs)


@settings(deadline=None, max_examples=some_of(100))
@given(expressions, instants)
def test_cronsim_agrees_backwards_in_utc(text: str, instant: datetime) -> None:
    assume(fires_within_a_decade(text, instant - 3700 * DAY))
    ours = list(chain_before(cron(text), instant, SOME))
    horizon = instant - 20 * 365 * DAY
    theirs = takewhile(lambda due: due >= horizon, CronSim(text, instant, reverse=True))
    assert [due for due in ours if due >= horizon] == first_of(theirs)


@settings(deadline=None, max_examples=some_of(100))
@given(times, instants, st.sampled_from(ZONES))
def test_cronsim_agrees_in_a_zone_far_from_its_transitions(
    text: str, instant: datetime, tz: str
) -> None:
    nearby = oracle.transitions(tz, instant.year - 1, instant.year + 1)
    assume(all(abs(transition - instant) > 6 * DAY for transition in nearby))
    end = instant + 4 * DAY
    expression = f"{text} * * *"
    ours = cron(expression, tz=tz).between(instant, end, SOME)
    theirs = takewhile(
        lambda due: due <= end, CronSim(expression, instant.astimezone(oracle.zone(tz)))
    )
    assert list(ours) == first_of(theirs)


# croniter takes "59/1" for "*/1", so it gets no steps from a number.
times_for_croniter = times.filter(
    lambda text: all(
        "/" not in item or "-" in item or "*" in item for item in text.replace(" ", ",").split(",")
    )
)


@settings(deadline=None, max_examples=some_of(100))
@given(times_for_croniter, st.sampled_from(["* *", "JAN-JUN *", "* MON-FRI", "*/3 SUN"]), instants)
def test_croniter_agrees_in_utc(text: str, month_and_weekday: str, instant: datetime) -> None:
    expression = f"{text} * {month_and_weekday}"
    theirs = croniter(expression, instant, ret_type=datetime)
    ours = list(chain_after(cron(expression), instant, SOME))
    assert ours == [theirs.get_next() for _ in range(SOME)]


DTSTART = datetime(2020, 1, 31, tzinfo=UTC)
RECURRENCES = [
    "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=10;COUNT=5",
    "FREQ=DAILY;BYMONTH=1;UNTIL=20220103T000000Z",
    "FREQ=DAILY;BYHOUR=9,17;BYMINUTE=0,30",
    "FREQ=WEEKLY",
    "FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=TU,SU",
    "FREQ=MONTHLY",
    "FREQ=MONTHLY;BYMONTHDAY=-1",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=MONTHLY;BYDAY=1MO,3WE;INTERVAL=3",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
    "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO",
    "FREQ=YEARLY;BYYEARDAY=1,100,200,-1",
    "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
    "FREQ=HOURLY;INTERVAL=5",
    "FREQ=MINUTELY;INTERVAL=90;BYDAY=SA",
    "FREQ=SECONDLY;INTERVAL=4000",
    "FREQ=SECONDLY;COUNT=7",
]


@pytest.mark.parametrize("text", RECURRENCES)
def test_dateutil_agrees_on_recurrence_rules_in_utc(text: str) -> None:
    theirs = first_of(dateutil.rrulestr(text, dtstart=DTSTART))
    trigger = rrule(text, tz="UTC", dtstart=DTSTART)
    ours = list(chain_after(trigger, DTSTART - timedelta(seconds=1), SOME))
    assert ours == theirs
    backwards = list(chain_before(trigger, theirs[-1] + timedelta(seconds=1), SOME))
    assert backwards == theirs[::-1]


@pytest.mark.parametrize("text", RECURRENCES)
@settings(deadline=None, max_examples=some_of(20))
@given(instant=st.datetimes(datetime(2019, 1, 1), datetime(2024, 1, 1), timezones=st.just(UTC)))
def test_dateutil_agrees_wherever_one_asks(text: str, instant: datetime) -> None:
    theirs = dateutil.rrulestr(text, dtstart=DTSTART)
    trigger = rrule(text, tz="UTC", dtstart=DTSTART)
    assert trigger.next_after(instant) == theirs.after(instant)
    assert trigger.previous_before(instant) == theirs.before(instant)
