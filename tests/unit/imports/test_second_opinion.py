"""Imported schedules are due when the library of their source says so.

Far from changes of clocks: there, libraries differ, which docs/explanation/imports.md lists.
"""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from celery.schedules import crontab
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from duebook.imports.aps_triggers import read_aps_trigger
from duebook.imports.beat import CRONTAB_FIELDS, crontab_trigger
from duebook.imports.crontab import read_crontab
from duebook.imports.files import next_due
from duebook.imports.found import Found, finish
from duebook.imports.pickles import unpickle
from duebook.triggers import load_trigger

if TYPE_CHECKING:
    from collections.abc import Iterator

BRUSSELS = ZoneInfo("Europe/Brussels")
NOW = datetime(2026, 11, 18, 6, 0, 30, tzinfo=UTC)
YEAR = timedelta(days=365)
MOST = 400
"""a year of daily due times"""


def ours(triggers: list[dict[str, Any]], form: dict[str, Any] | None = None) -> list[datetime]:
    read = tuple(load_trigger(trigger) for trigger in triggers)
    found = next_due(Found("job", form or {}, "", triggers=read), NOW, MOST)
    return [due for due in found if due <= NOW + YEAR]


def of_aps(trigger: Any) -> Iterator[datetime]:
    """Its due times within a year, by the library itself."""
    due = trigger.get_next_fire_time(None, NOW)
    for _ in range(MOST):
        if due is None or due > NOW + YEAR:
            return
        if due > NOW:
            yield due.astimezone(UTC)
        due = trigger.get_next_fire_time(due, due + timedelta(seconds=1))


def stored(trigger: Any) -> Any:
    """As an import reads it from a store of version 3."""
    return unpickle(pickle.dumps(trigger))


APS = [
    CronTrigger(hour=9, day_of_week="mon-fri", timezone=BRUSSELS),
    CronTrigger(minute="*/20", hour="8-18", day_of_week="0,3", timezone=UTC),
    CronTrigger(day="last", hour=23, minute=30, timezone=BRUSSELS),
    CronTrigger(day="2nd fri, last sun", hour=6, timezone=BRUSSELS),
    CronTrigger(day="1,15", day_of_week="mon", hour=5, timezone=UTC),
    CronTrigger(day="10-20/3", month="jan,mar-may", hour=12, timezone=UTC),
    CronTrigger(week="*/2", day_of_week="tue", hour=6, timezone=BRUSSELS),
    CronTrigger(week="1,52,53", hour=6, timezone=UTC),
    CronTrigger(year="2026-2027", month=6, day="1-5", hour=4, timezone=BRUSSELS),
    CronTrigger(second="*/15", minute=7, hour=4, day=3, timezone=UTC),
    CronTrigger(hour="5/6", timezone=BRUSSELS),
    CronTrigger(
        hour=7,
        start_date=datetime(2027, 1, 1, tzinfo=UTC),
        end_date=datetime(2027, 2, 1, tzinfo=UTC),
        timezone=UTC,
    ),
    IntervalTrigger(hours=36, start_date=datetime(2026, 11, 1, 3, tzinfo=UTC), timezone=BRUSSELS),
    IntervalTrigger(days=3, start_date=datetime(2027, 2, 1, 3, tzinfo=UTC), timezone=BRUSSELS),
    CalendarIntervalTrigger(months=3, hour=6, start_date=date(2026, 1, 31), timezone=BRUSSELS),
    CalendarIntervalTrigger(weeks=2, hour=6, start_date=date(2026, 1, 15), timezone=BRUSSELS),
    OrTrigger([CronTrigger(hour=1, timezone=UTC), CronTrigger(day=5, hour=13, timezone=UTC)]),
]


@pytest.mark.parametrize("trigger", APS, ids=str)
def test_a_job_is_due_when_apscheduler_says(trigger: Any) -> None:
    read = read_aps_trigger(stored(trigger), NOW)
    theirs = list(of_aps(trigger))
    assert ours(read.triggers, read.form) == theirs
    assert theirs


CELERY = [
    {"minute": 0, "hour": 9, "day_of_week": "1-5"},
    {"minute": "*/45", "hour": "*/7"},
    {"minute": 30, "hour": 2, "day_of_month": "1,15", "day_of_week": "mon"},
    {"minute": 30, "hour": 2, "day_of_month": "1-7", "day_of_week": "sun"},
    {"minute": 0, "hour": "22-2", "day_of_week": "fri-mon"},
    {"minute": 5, "hour": 4, "day_of_month": "*/10", "month_of_year": "*/4"},
    {"minute": "0,30", "hour": "8-17/3", "month_of_year": "jan-mar"},
    {"minute": 0, "hour": 0, "day_of_month": "31"},
]


def of_celery(entry: crontab) -> Iterator[datetime]:
    last = NOW
    for _ in range(MOST):
        entry.nowfun = lambda last=last: last
        start, delta, _ = entry.remaining_delta(last)
        last = start + delta
        if last > NOW + YEAR:
            return
        yield last


@pytest.mark.parametrize("given_fields", CELERY, ids=str)
def test_a_task_is_due_when_celery_says(given_fields: dict[str, Any]) -> None:
    entry = crontab(**given_fields)
    theirs = list(of_celery(entry))
    texts = {key: str(given_fields.get(key, "*")) for key in CRONTAB_FIELDS}
    assert ours([crontab_trigger(texts, "UTC")]) == theirs
    sets = {key: getattr(entry, key) for key in CRONTAB_FIELDS}
    assert crontab_trigger(sets, "UTC") == crontab_trigger(texts, "UTC")


CRONTAB = """\
CRON_TZ=Europe/Brussels
30 5 * * 1-5 a
*/25 9-17 * * mon,wed b
0 0 1,15 * 5 c
0 0 */2 * 1 d
15 4 * jan-mar sun e
0 22 28-31 * * f
5 5 * * 5-7 g
@monthly h
"""


def test_a_job_is_due_when_cronsim_says() -> None:
    done = finish(read_crontab(CRONTAB, "crontab", "UTC", system=False), {})
    assert [one.name for one in done.found] == list("abcdefgh")
    for one in done.found:
        text = one.form["trigger"]["cron"].replace("@monthly", "0 0 1 * *")
        simulated = CronSim(text, NOW.astimezone(BRUSSELS))
        theirs = [next(simulated).astimezone(UTC) for _ in range(MOST)]
        assert next_due(one, NOW, MOST) == theirs, text


aps_fields = st.fixed_dictionaries(
    {
        "month": st.sampled_from(["*", "*/5", "feb-apr", "6"]),
        "day": st.sampled_from(["*", "1,15", "last", "3rd wed", "20-28/2", "5"]),
        "day_of_week": st.sampled_from(["*", "mon-fri", "sat,sun", "2"]),
        "hour": st.sampled_from(["*", "4-20/4", "7", "*/6"]),
        "minute": st.sampled_from(["0", "7,30", "*/20"]),
    }
)


@pytest.mark.long
@given(aps_fields)
@settings(max_examples=150, deadline=None)
def test_random_jobs_are_due_when_apscheduler_says(texts: dict[str, str]) -> None:
    if texts["day"] == "3rd wed" and texts["day_of_week"] != "*":
        return  # named as not carried over
    trigger = CronTrigger(**texts, timezone=UTC)
    assert ours(read_aps_trigger(stored(trigger), NOW).triggers) == list(of_aps(trigger))
