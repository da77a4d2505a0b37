"""Hard cases worked out by hand: every expectation is a literal UTC time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

import pytest

from duebook import cron, daily, every, rrule, weekly
from duebook.errors import InvalidTrigger
from tests.support.zone_sweep import Trigger, chain_after, chain_before

NEW_YORK = "America/New_York"
LONDON = "Europe/London"
DUBLIN = "Europe/Dublin"
LORD_HOWE = "Australia/Lord_Howe"
HAVANA = "America/Havana"
SANTIAGO = "America/Santiago"
APIA = "Pacific/Apia"
CASABLANCA = "Africa/Casablanca"
KATHMANDU = "Asia/Kathmandu"
CASEY = "Antarctica/Casey"
TROLL = "Antarctica/Troll"
VOSTOK = "Antarctica/Vostok"
MONROVIA = "Africa/Monrovia"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Case(NamedTuple):
    """The due times in (start, end], all of them."""

    name: str
    trigger: Trigger
    start: str
    end: str
    due: list[str]


# New York: 2025-03-09 02:00 EST becomes 03:00 EDT (07:00Z); 2025-11-02 02:00 EDT becomes 01:00 EST
# (06:00Z).
IN_NEW_YORK = [
    Case(
        "a fixed time in the gap runs when the gap ends",
        cron("30 2 * * *", tz=NEW_YORK),
        "2025-03-08 00:00",
        "2025-03-11 00:00",
        ["2025-03-08 07:30", "2025-03-09 07:00", "2025-03-10 06:30"],
    ),
    Case(
        "a fixed time in the gap is skipped on request",
        cron("30 2 * * *", tz=NEW_YORK, gap="skip"),
        "2025-03-08 00:00",
        "2025-03-11 00:00",
        ["2025-03-08 07:30", "2025-03-10 06:30"],
    ),
    Case(
        "several times in the gap become one, also with one at its end",
        cron("0,15,30 2-3 * * *", tz=NEW_YORK),
        "2025-03-09 00:00",
        "2025-03-10 00:00",
        ["2025-03-09 07:00", "2025-03-09 07:15", "2025-03-09 07:30"],
    ),
    Case(
        "the first second of the gap does not exist",
        cron("0 2 * * *", tz=NEW_YORK, gap="skip"),
        "2025-03-09 00:00",
        "2025-03-10 12:00",
        ["2025-03-10 06:00"],
    ),
    Case(
        "the last second of the gap runs when it ends",
        cron("59 59 2 * * *", tz=NEW_YORK),
        "2025-03-09 00:00",
        "2025-03-10 00:00",
        ["2025-03-09 07:00"],
    ),
    Case(
        "the last second before the gap is real",
        cron("59 59 1 * * *", tz=NEW_YORK),
        "2025-03-09 00:00",
        "2025-03-10 00:00",
        ["2025-03-09 06:59:59"],
    ),
    Case(
        "a fixed time in the fold runs on the first pass",
        cron("30 1 * * *", tz=NEW_YORK),
        "2025-11-01 12:00",
        "2025-11-04 00:00",
        ["2025-11-02 05:30", "2025-11-03 06:30"],
    ),
    Case(
        "a fixed time in the fold runs on both passes on request",
        cron("30 1 * * *", tz=NEW_YORK, fold="both"),
        "2025-11-01 12:00",
        "2025-11-04 00:00",
        ["2025-11-02 05:30", "2025-11-02 06:30", "2025-11-03 06:30"],
    ),
    Case(
        "the end of the fold is no part of it",
        cron("0 1,2 * * *", tz=NEW_YORK),
        "2025-11-02 00:00",
        "2025-11-03 00:00",
        ["2025-11-02 05:00", "2025-11-02 07:00"],
    ),
    Case(
        "a wildcard follows real time over the gap",
        cron("*/30 * * * *", tz=NEW_YORK),
        "2025-03-09 06:00",
        "2025-03-09 08:00",
        ["2025-03-09 06:30", "2025-03-09 07:00", "2025-03-09 07:30", "2025-03-09 08:00"],
    ),
    Case(
        "a wildcard follows real time through the fold",
        cron("*/30 1 * * *", tz=NEW_YORK),
        "2025-11-02 00:00",
        "2025-11-03 00:00",
        ["2025-11-02 05:00", "2025-11-02 05:30", "2025-11-02 06:00", "2025-11-02 06:30"],
    ),
    Case(
        "a wildcard brings nothing back from the gap",
        cron("*/30 2 * * *", tz=NEW_YORK),
        "2025-03-09 00:00",
        "2025-03-10 12:00",
        ["2025-03-10 06:00", "2025-03-10 06:30"],
    ),
    Case(
        "a step from a number is no wildcard",
        cron("0/30 2 * * *", tz=NEW_YORK),
        "2025-03-09 00:00",
        "2025-03-10 12:00",
        ["2025-03-09 07:00", "2025-03-10 06:00", "2025-03-10 06:30"],
    ),
    Case(
        "only the gap of the day that matches counts",
        cron("30 2 9 3 *", tz=NEW_YORK),
        "2025-01-01 00:00",
        "2026-12-31 00:00",
        ["2025-03-09 07:00", "2026-03-09 06:30"],
    ),
    Case(
        "every week at a local time, also before the anchor",
        every("1w", anchor=utc("2025-03-02 07:30"), tz=NEW_YORK),
        "2025-02-20 00:00",
        "2025-03-20 00:00",
        ["2025-02-23 07:30", "2025-03-02 07:30", "2025-03-09 07:00", "2025-03-16 06:30"],
    ),
    Case(
        "an elapsed interval takes no notice of the gap",
        every("90m", anchor=utc("2025-03-09 04:00")),
        "2025-03-09 04:00",
        "2025-03-09 10:00",
        ["2025-03-09 05:30", "2025-03-09 07:00", "2025-03-09 08:30", "2025-03-09 10:00"],
    ),
    Case(
        "a month begins at local midnight, winter and summer",
        cron("0 0 1 * *", tz=NEW_YORK),
        "2025-02-15 00:00",
        "2025-05-15 00:00",
        ["2025-03-01 05:00", "2025-04-01 04:00", "2025-05-01 04:00"],
    ),
    Case(
        "the last second of the year",
        cron("59 59 23 31 12 *", tz=NEW_YORK),
        "2025-01-15 00:00",
        "2027-01-15 00:00",
        ["2026-01-01 04:59:59", "2027-01-01 04:59:59"],
    ),
    Case(
        "a daily recurrence rule in the gap",
        rrule("FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0", tz=NEW_YORK, dtstart="2025-03-01"),
        "2025-03-08 00:00",
        "2025-03-11 00:00",
        ["2025-03-08 07:30", "2025-03-09 07:00", "2025-03-10 06:30"],
    ),
    Case(
        "an hourly recurrence rule in the fold",
        rrule("FREQ=HOURLY", tz=NEW_YORK, dtstart="2025-11-01"),
        "2025-11-02 04:30",
        "2025-11-02 07:30",
        ["2025-11-02 05:00", "2025-11-02 06:00", "2025-11-02 07:00"],
    ),
    Case(
        "the last Friday of the month by a recurrence rule",
        rrule("FREQ=MONTHLY;BYDAY=-1FR", tz=NEW_YORK, dtstart="2025-01-01"),
        "2024-12-01 00:00",
        "2025-04-01 00:00",
        ["2025-01-31 05:00", "2025-02-28 05:00", "2025-03-28 04:00"],
    ),
]

# London and Dublin: 2025-03-30 01:00 becomes 02:00 and 2025-10-26 02:00 becomes 01:00, both at
# 01:00Z. Dublin's data calls summer the standard and winter the (negative) saving.
IN_LONDON_AND_DUBLIN = [
    Case(
        "London in the gap",
        daily("01:30", tz=LONDON),
        "2025-03-29 12:00",
        "2025-03-31 12:00",
        ["2025-03-30 01:00", "2025-03-31 00:30"],
    ),
    Case(
        "London in the fold",
        daily("01:30", tz=LONDON),
        "2025-10-25 12:00",
        "2025-10-27 12:00",
        ["2025-10-26 00:30", "2025-10-27 01:30"],
    ),
    Case(
        "London on both passes, once a week",
        weekly("SUN 01:30", tz=LONDON, fold="both"),
        "2025-10-20 00:00",
        "2025-11-02 12:00",
        ["2025-10-26 00:30", "2025-10-26 01:30", "2025-11-02 01:30"],
    ),
    Case(
        "Dublin in the gap",
        daily("01:30", tz=DUBLIN),
        "2025-03-29 12:00",
        "2025-03-31 12:00",
        ["2025-03-30 01:00", "2025-03-31 00:30"],
    ),
    Case(
        "Dublin on both passes",
        daily("01:30", tz=DUBLIN, fold="both"),
        "2025-10-25 12:00",
        "2025-10-27 12:00",
        ["2025-10-26 00:30", "2025-10-26 01:30", "2025-10-27 01:30"],
    ),
    Case(
        "Dublin every day from a winter anchor",
        every("1d", anchor=utc("2025-03-01 01:30"), tz=DUBLIN),
        "2025-03-28 12:00",
        "2025-03-31 12:00",
        ["2025-03-29 01:30", "2025-03-30 01:00", "2025-03-31 00:30"],
    ),
]

# Lord Howe: 2025-04-06 02:00 +11 becomes 01:30 +10:30 (04-05 15:00Z); 2025-10-05 02:00 +10:30
# becomes 02:30 +11 (10-04 15:30Z).
IN_LORD_HOWE = [
    Case(
        "half an hour of gap",
        cron("15 2 * * *", tz=LORD_HOWE),
        "2025-10-03 12:00",
        "2025-10-06 00:00",
        ["2025-10-03 15:45", "2025-10-04 15:30", "2025-10-05 15:15"],
    ),
    Case(
        "half an hour of fold, first pass",
        cron("45 1 * * *", tz=LORD_HOWE),
        "2025-04-04 12:00",
        "2025-04-06 18:00",
        ["2025-04-04 14:45", "2025-04-05 14:45", "2025-04-06 15:15"],
    ),
    Case(
        "half an hour of fold, both passes",
        cron("45 1 * * *", tz=LORD_HOWE, fold="both"),
        "2025-04-04 12:00",
        "2025-04-06 18:00",
        ["2025-04-04 14:45", "2025-04-05 14:45", "2025-04-05 15:15", "2025-04-06 15:15"],
    ),
    Case(
        "every full hour through half an hour of fold",
        cron("0 * * * *", tz=LORD_HOWE),
        "2025-04-05 13:00",
        "2025-04-05 17:00",
        ["2025-04-05 14:00", "2025-04-05 15:30", "2025-04-05 16:30"],
    ),
    Case(
        "every full hour over half an hour of gap",
        cron("0 * * * *", tz=LORD_HOWE),
        "2025-10-04 14:00",
        "2025-10-04 17:00",
        ["2025-10-04 14:30", "2025-10-04 16:00", "2025-10-04 17:00"],
    ),
]

# Havana: 2025-03-09 00:00 becomes 01:00, 2025-11-02 01:00 becomes 00:00, both at 05:00Z.
# Santiago: 2025-04-06 00:00 becomes 04-05 23:00 (03:00Z); 2025-09-07 00:00 becomes 01:00 (04:00Z).
AT_MIDNIGHT = [
    Case(
        "Havana has no midnight",
        cron("0 0 * * *", tz=HAVANA),
        "2025-03-08 12:00",
        "2025-03-10 12:00",
        ["2025-03-09 05:00", "2025-03-10 04:00"],
    ),
    Case(
        "Havana has midnight twice",
        cron("0 0 * * *", tz=HAVANA, fold="both"),
        "2025-11-01 12:00",
        "2025-11-03 12:00",
        ["2025-11-02 04:00", "2025-11-02 05:00", "2025-11-03 05:00"],
    ),
    Case(
        "Santiago's Sunday has no midnight",
        cron("0 0 * * SUN", tz=SANTIAGO),
        "2025-09-06 12:00",
        "2025-09-15 00:00",
        ["2025-09-07 04:00", "2025-09-14 03:00"],
    ),
    Case(
        "Santiago's Saturday ends twice, first pass",
        cron("30 23 * * SAT", tz=SANTIAGO),
        "2025-04-05 12:00",
        "2025-04-13 12:00",
        ["2025-04-06 02:30", "2025-04-13 03:30"],
    ),
    Case(
        "Santiago's Saturday ends twice, both passes",
        cron("30 23 * * SAT", tz=SANTIAGO, fold="both"),
        "2025-04-05 12:00",
        "2025-04-13 12:00",
        ["2025-04-06 02:30", "2025-04-06 03:30", "2025-04-13 03:30"],
    ),
]

# Apia: 2011-12-29 24:00 -10 becomes 2011-12-31 00:00 +14 (12-30 10:00Z): no 30 December.
IN_APIA = [
    Case(
        "the missing day brings nothing back",
        cron("0 12 * * *", tz=APIA),
        "2011-12-28 00:00",
        "2012-01-01 00:00",
        ["2011-12-28 22:00", "2011-12-29 22:00", "2011-12-30 22:00", "2011-12-31 22:00"],
    ),
    Case(
        "a month whose 30th is missing",
        cron("0 0 30 * *", tz=APIA),
        "2011-11-15 00:00",
        "2012-01-31 00:00",
        ["2011-11-30 10:00", "2012-01-29 10:00"],
    ),
    Case(
        "a week whose Friday is missing",
        weekly("FRI 12:00", tz=APIA),
        "2011-12-23 00:00",
        "2012-01-07 00:00",
        ["2011-12-23 22:00", "2012-01-05 22:00"],
    ),
    Case(
        "every other day counts the missing one",
        every("2d", anchor=utc("2011-12-26 22:00"), tz=APIA),
        "2011-12-27 00:00",
        "2012-01-03 00:00",
        ["2011-12-28 22:00", "2011-12-31 22:00", "2012-01-02 22:00"],
    ),
    Case(
        "a wildcard goes on over the missing day",
        cron("0 */6 * * *", tz=APIA),
        "2011-12-30 00:00",
        "2011-12-31 00:00",
        ["2011-12-30 04:00", "2011-12-30 10:00", "2011-12-30 16:00", "2011-12-30 22:00"],
    ),
]

# Casablanca: 2025-02-23 03:00 +01 becomes 02:00 +00 for Ramadan; 2025-04-06 02:00 becomes 03:00;
# both at 02:00Z. Troll: 2025-03-30 01:00 becomes 03:00, 2025-10-26 03:00 becomes 01:00, at 01:00Z.
# Casey: 2009-10-18 02:00 +8 becomes 05:00 +11 (10-17 18:00Z); 2010-03-05 02:00 +11 becomes
# 03-04 23:00 +8 (15:00Z). Vostok: 1994-02-01 00:00 +7 becomes 01-31 17:00 +0 (17:00Z); 1994-11-01
# 00:00 becomes 07:00. Monrovia: 1972-01-07 00:00 -0:44:30 becomes 00:44:30 +0.
ELSEWHERE = [
    Case(
        "Casablanca goes back for Ramadan",
        cron("30 2 * * *", tz=CASABLANCA),
        "2025-02-22 12:00",
        "2025-02-24 12:00",
        ["2025-02-23 01:30", "2025-02-24 02:30"],
    ),
    Case(
        "Casablanca returns after Ramadan",
        cron("30 2 * * *", tz=CASABLANCA),
        "2025-04-05 12:00",
        "2025-04-07 12:00",
        ["2025-04-06 02:00", "2025-04-07 01:30"],
    ),
    Case(
        "Kathmandu is three quarters of an hour off at midnight",
        cron("0 0 * * *", tz=KATHMANDU),
        "2025-01-01 00:00",
        "2025-01-03 00:00",
        ["2025-01-01 18:15", "2025-01-02 18:15"],
    ),
    Case(
        "Kathmandu is three quarters of an hour off on the half hour",
        cron("*/30 * * * *", tz=KATHMANDU),
        "2025-01-01 00:00",
        "2025-01-01 01:00",
        ["2025-01-01 00:15", "2025-01-01 00:45"],
    ),
    Case(
        "Troll brings two hours back as one",
        cron("30 1,2 * * *", tz=TROLL),
        "2025-03-29 12:00",
        "2025-03-31 12:00",
        ["2025-03-30 01:00", "2025-03-30 23:30", "2025-03-31 00:30"],
    ),
    Case(
        "Troll repeats two hours",
        cron("30 2 * * *", tz=TROLL, fold="both"),
        "2025-10-25 12:00",
        "2025-10-27 12:00",
        ["2025-10-26 00:30", "2025-10-26 02:30", "2025-10-27 02:30"],
    ),
    Case(
        "Casey jumps three hours and brings nothing back",
        cron("30 3 * * *", tz=CASEY),
        "2009-10-17 00:00",
        "2009-10-19 00:00",
        ["2009-10-18 16:30"],
    ),
    Case(
        "Casey repeats three hours, first pass",
        cron("30 0 * * *", tz=CASEY),
        "2010-03-03 00:00",
        "2010-03-06 00:00",
        ["2010-03-03 13:30", "2010-03-04 13:30", "2010-03-05 16:30"],
    ),
    Case(
        "Casey repeats three hours, both passes over midnight",
        daily("00:30", "23:30", tz=CASEY, fold="both"),
        "2010-03-04 00:00",
        "2010-03-05 00:00",
        ["2010-03-04 12:30", "2010-03-04 13:30", "2010-03-04 15:30", "2010-03-04 16:30"],
    ),
    Case(
        "Vostok repeats seven hours, first pass",
        cron("0 20 * * *", tz=VOSTOK),
        "1994-01-31 00:00",
        "1994-02-02 00:00",
        ["1994-01-31 13:00", "1994-02-01 20:00"],
    ),
    Case(
        "Vostok jumps seven hours",
        cron("0 3 * * *", tz=VOSTOK),
        "1994-10-31 00:00",
        "1994-11-03 00:00",
        ["1994-10-31 03:00", "1994-11-01 20:00", "1994-11-02 20:00"],
    ),
    Case(
        "Monrovia gives up its odd seconds",
        cron("0 0 * * *", tz=MONROVIA),
        "1972-01-06 00:00",
        "1972-01-08 12:00",
        ["1972-01-06 00:44:30", "1972-01-07 00:44:30", "1972-01-08 00:00"],
    ),
]

IN_THE_CALENDAR = [
    Case(
        "the 31st exists in some months",
        cron("0 0 31 * *"),
        "2025-01-31 00:00",
        "2025-07-31 00:00",
        ["2025-03-31", "2025-05-31", "2025-07-31"],
    ),
    Case(
        "the last day of each month",
        cron("0 0 L * *"),
        "2024-01-31 00:00",
        "2024-04-30 00:00",
        ["2024-02-29", "2024-03-31", "2024-04-30"],
    ),
    Case(
        "the last weekday of each month",
        cron("0 0 LW * *"),
        "2025-04-30 00:00",
        "2025-08-31 00:00",
        ["2025-05-30", "2025-06-30", "2025-07-31", "2025-08-29"],
    ),
    Case(
        "the weekday nearest to the 1st stays in its month",
        cron("0 0 1W * *"),
        "2025-01-15 00:00",
        "2025-06-15 00:00",
        ["2025-02-03", "2025-03-03", "2025-04-01", "2025-05-01", "2025-06-02"],
    ),
    Case(
        "the weekday nearest to the 31st stays in its month",
        cron("0 0 31W * *"),
        "2025-01-01 00:00",
        "2025-09-01 00:00",
        ["2025-01-31", "2025-03-31", "2025-05-30", "2025-07-31", "2025-08-29"],
    ),
    Case(
        "the weekday nearest to the 15th",
        cron("0 0 15W * *"),
        "2025-02-01 00:00",
        "2025-06-30 00:00",
        ["2025-02-14", "2025-03-14", "2025-04-15", "2025-05-15", "2025-06-16"],
    ),
    Case(
        "a fifth Monday",
        cron("0 0 * * MON#5"),
        "2025-01-01 00:00",
        "2025-12-31 00:00",
        ["2025-03-31", "2025-06-30", "2025-09-29", "2025-12-29"],
    ),
    Case(
        "the last Friday",
        cron("0 0 * * 5L"),
        "2025-01-01 00:00",
        "2025-04-01 00:00",
        ["2025-01-31", "2025-02-28", "2025-03-28"],
    ),
    Case(
        "two restricted day fields: one is enough",
        cron("0 0 13 7 FRI"),
        "2025-07-01 00:00",
        "2025-07-31 00:00",
        ["2025-07-04", "2025-07-11", "2025-07-13", "2025-07-18", "2025-07-25"],
    ),
    Case(
        "a day field that starts with a star: both must match",
        cron("0 0 */2 7 FRI"),
        "2025-07-01 00:00",
        "2025-07-31 00:00",
        ["2025-07-11", "2025-07-25"],
    ),
    Case(
        "a step among weekdays runs on to seven",
        cron("0 0 * * 5/2"),
        "2025-07-01 00:00",
        "2025-07-14 00:00",
        ["2025-07-04", "2025-07-06", "2025-07-11", "2025-07-13"],
    ),
    Case(
        "leap days",
        cron("0 0 29 2 *"),
        "2024-02-29 00:00",
        "2032-03-01 00:00",
        ["2028-02-29", "2032-02-29"],
    ),
    Case(
        "2000 had a leap day",
        cron("0 0 29 2 *"),
        "1999-01-01 00:00",
        "2004-03-01 00:00",
        ["2000-02-29", "2004-02-29"],
    ),
    Case(
        "2100 has no leap day",
        cron("0 0 29 2 *"),
        "2096-02-29 00:00",
        "2108-03-01 00:00",
        ["2104-02-29", "2108-02-29"],
    ),
    Case(
        "2100 has a last day of February",
        cron("0 12 L 2 *"),
        "2099-01-01 00:00",
        "2101-01-01 00:00",
        ["2099-02-28 12:00", "2100-02-28 12:00"],
    ),
    Case(
        "a day counts on over the leap day",
        every("10d", anchor=utc("2024-02-20 06:00"), tz="UTC"),
        "2024-02-10 00:00",
        "2024-03-12 00:00",
        ["2024-02-10 06:00", "2024-02-20 06:00", "2024-03-01 06:00", "2024-03-11 06:00"],
    ),
]

CASES = [
    *IN_NEW_YORK,
    *IN_LONDON_AND_DUBLIN,
    *IN_LORD_HOWE,
    *AT_MIDNIGHT,
    *IN_APIA,
    *ELSEWHERE,
    *IN_THE_CALENDAR,
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_due_times_are_those_worked_out_by_hand(case: Case) -> None:
    due = [utc(text) for text in case.due]
    start, end = utc(case.start), utc(case.end)
    assert list(case.trigger.between(start, end, 100)) == due
    assert int(case.trigger.count(start, end)) == len(due)
    assert list(chain_after(case.trigger, start, len(due))) == due
    beyond = end + timedelta(microseconds=1)
    assert list(chain_before(case.trigger, beyond, len(due))) == due[::-1]


class Question(NamedTuple):
    """An instant asked about, and the due times on either side of it."""

    name: str
    trigger: Trigger
    asked: str
    previous: str
    following: str


QUESTIONS = [
    Question(
        "in the second pass, the first is over",
        cron("30 1 * * *", tz=NEW_YORK),
        "2025-11-02 06:15",
        "2025-11-02 05:30",
        "2025-11-03 06:30",
    ),
    Question(
        "at the very repeat of a due time",
        cron("30 1 * * *", tz=NEW_YORK),
        "2025-11-02 06:30",
        "2025-11-02 05:30",
        "2025-11-03 06:30",
    ),
    Question(
        "between the two passes",
        cron("30 1 * * *", tz=NEW_YORK, fold="both"),
        "2025-11-02 06:00",
        "2025-11-02 05:30",
        "2025-11-02 06:30",
    ),
    Question(
        "a second before the fold's transition",
        cron("0 1 * * *", tz=NEW_YORK, fold="both"),
        "2025-11-02 05:59:59",
        "2025-11-02 05:00",
        "2025-11-02 06:00",
    ),
    Question(
        "a wildcard in the second pass",
        cron("*/15 * * * *", tz=NEW_YORK),
        "2025-11-02 06:00",
        "2025-11-02 05:45",
        "2025-11-02 06:15",
    ),
    Question(
        "a second before the gap",
        cron("30 2 * * *", tz=NEW_YORK),
        "2025-03-09 06:59:59",
        "2025-03-08 07:30",
        "2025-03-09 07:00",
    ),
    Question(
        "a microsecond before the gap",
        cron("30 2 * * *", tz=NEW_YORK),
        "2025-03-09 06:59:59.999999",
        "2025-03-08 07:30",
        "2025-03-09 07:00",
    ),
    Question(
        "at the end of the gap",
        cron("30 2 * * *", tz=NEW_YORK),
        "2025-03-09 07:00",
        "2025-03-08 07:30",
        "2025-03-10 06:30",
    ),
    Question(
        "a microsecond after the end of the gap",
        cron("30 2 * * *", tz=NEW_YORK),
        "2025-03-09 07:00:00.000001",
        "2025-03-09 07:00",
        "2025-03-10 06:30",
    ),
    Question(
        "in the half hour that Lord Howe repeats",
        cron("45 1 * * *", tz=LORD_HOWE),
        "2025-04-05 15:01",
        "2025-04-05 14:45",
        "2025-04-06 15:15",
    ),
    Question(
        "eight years between leap days",
        cron("0 0 29 2 *"),
        "2100-03-01 00:00",
        "2096-02-29",
        "2104-02-29",
    ),
]


@pytest.mark.parametrize("question", QUESTIONS, ids=[question.name for question in QUESTIONS])
def test_the_neighbours_are_those_worked_out_by_hand(question: Question) -> None:
    asked = utc(question.asked)
    assert question.trigger.previous_before(asked) == utc(question.previous)
    assert question.trigger.next_after(asked) == utc(question.following)


class Loss(NamedTuple):
    """The wall times that gaps with their transition in (start, end] removed."""

    name: str
    trigger: Trigger
    start: str
    end: str
    omitted: list[tuple[str, str | None]]


LOSSES = [
    Loss(
        "a fixed time is moved to the end of the gap",
        cron("0,30 2 * * *", tz=NEW_YORK),
        "2025-01-01",
        "2025-12-31",
        [
            ("2025-03-09 02:00", "2025-03-09 07:00"),
            ("2025-03-09 02:30", "2025-03-09 07:00"),
        ],
    ),
    Loss(
        "a fixed time is dropped on request",
        cron("30 2 * * *", tz=NEW_YORK, gap="skip"),
        "2025-01-01",
        "2025-12-31",
        [("2025-03-09 02:30", None)],
    ),
    Loss(
        "a wildcard moves nothing",
        cron("*/30 2 * * *", tz=NEW_YORK),
        "2025-01-01",
        "2025-12-31",
        [("2025-03-09 02:00", None), ("2025-03-09 02:30", None)],
    ),
    Loss(
        "a transition at the end of the interval counts",
        daily("02:30", tz=NEW_YORK),
        "2025-03-09 06:59:59",
        "2025-03-09 07:00",
        [("2025-03-09 02:30", "2025-03-09 07:00")],
    ),
    Loss(
        "a transition at the start of the interval does not",
        daily("02:30", tz=NEW_YORK),
        "2025-03-09 07:00",
        "2026-03-08 06:59:59",
        [],
    ),
    Loss(
        "year after year",
        weekly("SUN 02:30", tz=NEW_YORK),
        "2024-01-01",
        "2026-12-31",
        [
            ("2024-03-10 02:30", "2024-03-10 07:00"),
            ("2025-03-09 02:30", "2025-03-09 07:00"),
            ("2026-03-08 02:30", "2026-03-08 07:00"),
        ],
    ),
    Loss(
        "the end of the gap is no part of it",
        daily("01:59", "03:00", tz=NEW_YORK),
        "2025-01-01",
        "2025-12-31",
        [],
    ),
    Loss(
        "a fold removes nothing",
        daily("01:30", tz=NEW_YORK),
        "2025-11-01",
        "2025-11-03",
        [],
    ),
    Loss(
        "half an hour",
        cron("0,15,30 2 * * *", tz=LORD_HOWE),
        "2025-10-01",
        "2025-11-01",
        [
            ("2025-10-05 02:00", "2025-10-04 15:30"),
            ("2025-10-05 02:15", "2025-10-04 15:30"),
        ],
    ),
    Loss(
        "midnight",
        cron("0 0 * * *", tz=HAVANA),
        "2025-03-01",
        "2025-04-01",
        [("2025-03-09 00:00", "2025-03-09 05:00")],
    ),
    Loss(
        "two hours",
        cron("30 1,2 * * *", tz=TROLL),
        "2025-03-01",
        "2025-04-01",
        [
            ("2025-03-30 01:30", "2025-03-30 01:00"),
            ("2025-03-30 02:30", "2025-03-30 01:00"),
        ],
    ),
    Loss(
        "three hours are too many to bring back",
        cron("30 3 * * *", tz=CASEY),
        "2009-10-01",
        "2009-11-01",
        [("2009-10-18 03:30", None)],
    ),
    Loss(
        "a whole day",
        every("2d", anchor=utc("2011-12-26 22:00"), tz=APIA),
        "2011-12-25",
        "2012-01-05",
        [("2011-12-30 12:00", None)],
    ),
    Loss(
        "a zone without transitions",
        cron("* * * * *", tz=KATHMANDU),
        "2025-01-01",
        "2025-12-31",
        [],
    ),
]


@pytest.mark.parametrize("loss", LOSSES, ids=[loss.name for loss in LOSSES])
def test_the_omitted_wall_times_are_those_worked_out_by_hand(loss: Loss) -> None:
    omitted = loss.trigger.omitted(utc(loss.start), utc(loss.end))
    expected = [
        (datetime.fromisoformat(wall), utc(moved) if moved else None)
        for wall, moved in loss.omitted
    ]
    assert [(omission.wall, omission.moved_to) for omission in omitted] == expected


AROUND_A_REPEATED_SECOND: list[Trigger] = [
    cron("59 59 23 * * *"),
    cron("* * * * * *"),
    cron("0 0 * * *"),
    cron("0 0 * * *", tz=LONDON),
    daily("23:59", "00:00"),
    every("1s", anchor=utc("2016-12-31 00:00")),
]


@pytest.mark.parametrize("trigger", AROUND_A_REPEATED_SECOND)
def test_a_second_that_the_clock_shows_twice_yields_its_due_times_once(trigger: Trigger) -> None:
    # 2016 ended with a leap second: a system clock showed 23:59:59 twice.
    shown = ["23:59:58", "23:59:59", "23:59:59.9", "23:59:59", "23:59:59.9", "23:59:58.5"]
    readings = [utc(f"2016-12-31 {text}") for text in shown] + [utc("2017-01-01 00:00:00")]
    watermark = readings[0]
    planned: list[datetime] = []
    for now in readings:
        planned += trigger.between(watermark, now, 100) if now > watermark else []
        watermark = max(watermark, now)
    assert planned == list(trigger.between(readings[0], readings[-1], 100))
    assert len(planned) == len(set(planned))


@pytest.mark.parametrize("trigger", AROUND_A_REPEATED_SECOND)
def test_asking_again_and_out_of_order_gives_the_same_answers(trigger: Trigger) -> None:
    readings = [
        utc("2016-12-31 23:59:59") + step * timedelta(milliseconds=250) for step in range(-8, 9)
    ]
    first = {now: (trigger.previous_before(now), trigger.next_after(now)) for now in readings}
    for now in [*reversed(readings), *readings, *readings[::3]]:
        assert (trigger.previous_before(now), trigger.next_after(now)) == first[now]


# The last two have no counterpart in UTC: they lie outside the years 1 to 9999.
ENDS_OF_THE_CALENDAR = [
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
]
TO_THE_END: list[Trigger] = [
    cron("* * * * *", tz=NEW_YORK),
    cron("0 0 29 2 *", tz=APIA),
    daily("02:30", tz=NEW_YORK, fold="both"),
    weekly("SUN 23:59", tz=KATHMANDU),
    every("1d", anchor=utc("2025-01-01"), tz=NEW_YORK),
    every("1d", tz=NEW_YORK),
    every("15m", anchor=utc("2025-01-01")),
    every("15m"),
    rrule("FREQ=DAILY", tz=NEW_YORK, dtstart="2025-01-01"),
    rrule("FREQ=HOURLY", tz=NEW_YORK, dtstart="2025-01-01"),
]


@pytest.mark.parametrize("trigger", TO_THE_END)
@pytest.mark.parametrize("instant", ENDS_OF_THE_CALENDAR, ids=str)
def test_at_the_ends_of_the_calendar_there_is_a_due_time_or_none(
    trigger: Trigger, instant: datetime
) -> None:
    following, previous = trigger.next_after(instant), trigger.previous_before(instant)
    assert following is None or following > instant
    assert previous is None or previous < instant


@pytest.mark.parametrize(
    "text",
    ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30W 2 *", "0 0 30-31 2 ?", "0 0 0 30/1 2 *"],
)
def test_a_day_that_never_comes_is_refused(text: str) -> None:
    with pytest.raises(InvalidTrigger):
        cron(text)
