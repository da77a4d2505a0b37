"""Counts what is due in each coming hour and what ran in each past hour; caches the counts.

Counting the due times of many schedules takes a while: a thread does it, and pages show the
latest counts.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from duebook.errors import DuebookError, OverBudget
from duebook.lazy_dataclasses import dataclass
from duebook.model.insight import HourLoad
from duebook.planner import DueTimes, instant_before

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from duebook.book.insights import Insights
    from duebook.budget import Budget
    from duebook.model.insight import Planned

__all__ = ["Calendar", "Week", "coming_hours", "hours_from"]

HOUR: Final = timedelta(hours=1)
A_DAY: Final = 24
WEEK: Final = 7 * A_DAY
PORTION: Final = 100
RESTS: Final = 3
"""Pause after each portion, in multiples of its counting time, so that other pages do not wait."""
MOST_COUNTED: Final = 5_000
"""Distinct sets of due times whose counts are cached."""
AT_ONCE: Final = 300
"""Schedules that are counted while a page waits."""
FRESH: Final = 300.0
"""Seconds until a count is outdated."""
EACH: Final = 24 * 7 * 60
"""Due times of one schedule that are counted one by one; beyond them, a mean rate is assumed."""
KEPT: Final = 50


@dataclass(frozen=True, slots=True)
class Week:
    """The past and the coming week of a namespace."""

    past: Sequence[HourLoad]
    coming: Sequence[HourLoad]
    schedules: int
    complete: bool
    """whether all schedules are counted; if not, a thread is counting the rest"""


def hours_from(start: datetime) -> list[datetime]:
    """The hours of a week from `start`."""
    first = start.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return [first + number * HOUR for number in range(WEEK)]


def coming_hours(
    planned: Sequence[Planned],
    durations: dict[str, timedelta],
    now: datetime,
    counted: dict[Hashable, Counter[datetime]] | None = None,
    budget: Budget | None = None,
) -> dict[datetime, tuple[int, timedelta]]:
    """How many due times of these schedules fall into each hour of a week, and their expected work.

    Schedules that are due at the same times are counted once and cached in `counted`. Raises
    OverBudget if it takes longer than `budget`.
    """
    hours = hours_from(now)
    until = instant_before(hours[-1] + HOUR)
    found: dict[datetime, tuple[int, timedelta]] = defaultdict(lambda: (0, timedelta()))
    known = {} if counted is None else counted
    for schedule in planned:
        spec = schedule.spec
        days = (spec.exclude, spec.calendar)
        times = (spec.triggers, *days, spec.start_at, spec.end_at, spec.jitter)
        apart = (schedule.exceptions, schedule.windows)
        key = (*times, *apart, schedule.name if spec.jitter else "")
        counts = known.get(key)
        if counts is None:
            due = DueTimes(spec, apart[0], now, schedule.name, budget, apart[1]).among(now, until)
            counts = known[key] = _by_hour(list(islice(due, EACH)), hours, until)
        each = durations.get(schedule.id, timedelta())
        for hour, number in counts.items():
            runs, busy = found[hour]
            found[hour] = (runs + number, busy + number * each)
    return dict(found)


def _by_hour(due: list[datetime], hours: Sequence[datetime], until: datetime) -> Counter[datetime]:
    counts = Counter(at.replace(minute=0, second=0, microsecond=0) for at in due)
    if len(due) == EACH and due[-1] < until - HOUR:
        last = due[-1].replace(minute=0, second=0, microsecond=0)
        mean = round(EACH / max((due[-1] - due[0]) / HOUR, 1 / 60))
        counts.update({hour: mean for hour in hours if hour > last})
    return counts


class Calendar:
    """The weeks of a server's namespaces."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._rest = rest
        self._weeks: OrderedDict[str, tuple[float, Week]] = OrderedDict()
        self._past: dict[str, dict[datetime, HourLoad]] = {}
        self._counting: set[str] = set()
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def week(self, namespace: str, insights: Insights, budget: Budget | None = None) -> Week:
        """The past and the coming week; counted again if the cached counts are outdated.

        Counts that take longer than `budget` continue in a thread.
        """
        now = insights.now()
        past = self._past_hours(namespace, insights, now)
        with self._lock:
            found = self._weeks.get(namespace)
        if found is not None and self._clock() - found[0] < FRESH:
            return Week(past, found[1].coming, found[1].schedules, found[1].complete)
        durations = insights.durations()
        planned, after = insights.planned("", AT_ONCE)
        try:
            hours = coming_hours(planned, durations, now, budget=budget)
        except OverBudget:
            planned, after, hours = [], "", {}
        week = Week(past, _loads(hours), len(planned), after is None)
        if after is not None and found is not None:
            week = Week(past, found[1].coming, found[1].schedules, found[1].complete)
        self._keep(namespace, week)
        if after is not None:
            self._count_on(namespace, insights, now)
        return week

    def last_day(self, namespace: str, insights: Insights, now: datetime) -> list[HourLoad]:
        """The hours of the last day in which runs ended, including the current hour."""
        return self._past_hours(namespace, insights, now, A_DAY + 1)

    def _keep(self, namespace: str, week: Week) -> None:
        with self._lock:
            self._weeks[namespace] = (self._clock(), week)
            self._weeks.move_to_end(namespace)
            while len(self._weeks) > KEPT:
                forgotten, _ = self._weeks.popitem(last=False)
                self._past.pop(forgotten, None)

    def _past_hours(
        self, namespace: str, insights: Insights, now: datetime, most: int = WEEK
    ) -> list[HourLoad]:
        """The last `most` hours. Past hours do not change, so each is counted only once."""
        week = hours_from(now - (WEEK - 1) * HOUR)
        hours = week[-most:]
        known = self._past.get(namespace, {})
        missing = next((hour for hour in hours[:-1] if hour not in known), hours[-1])
        loads = {load.hour: load for load in insights.hours(missing, now + HOUR)}
        empty = {hour: HourLoad(hour, 0, 0, timedelta()) for hour in hours[:-1] if hour >= missing}
        over = {hour: load for hour, load in (empty | loads).items() if hour < hours[-1]}
        kept = {hour: load for hour, load in known.items() if hour >= week[0]} | over
        self._past[namespace] = kept
        return [load for load in (kept | loads).values() if load.runs and load.hour >= hours[0]]

    def _count_on(self, namespace: str, insights: Insights, now: datetime) -> None:
        with self._lock:
            if namespace in self._counting:
                return
            self._counting.add(namespace)
        threading.Thread(
            target=self._count, args=(namespace, insights, now), daemon=True, name="duebook-count"
        ).start()

    def _count(self, namespace: str, insights: Insights, now: datetime) -> None:
        try:
            durations = insights.durations()
            total: dict[datetime, tuple[int, timedelta]] = {}
            schedules = 0
            after: str | None = ""
            counted: dict[Hashable, Counter[datetime]] = {}
            while after is not None:
                with self._turn:  # one namespace at a time
                    began = self._clock()
                    planned, after = insights.planned(after, PORTION)
                    hours = coming_hours(planned, durations, now, counted)
                    self._rest(RESTS * (self._clock() - began))
                schedules += len(planned)
                for hour, (runs, busy) in hours.items():
                    before = total.get(hour, (0, timedelta()))
                    total[hour] = (before[0] + runs, before[1] + busy)
                if len(counted) > MOST_COUNTED:
                    counted.clear()
            self._keep(namespace, Week((), _loads(total), schedules, complete=True))
        except DuebookError:
            pass  # the database is unavailable; the next page tries again
        finally:
            with self._lock:
                self._counting.discard(namespace)


def _loads(found: dict[datetime, tuple[int, timedelta]]) -> list[HourLoad]:
    return [HourLoad(hour, runs, 0, busy) for hour, (runs, busy) in found.items()]
