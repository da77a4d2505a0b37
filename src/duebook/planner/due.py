"""The due times of a schedule: its triggers merged and bounded, without excluded days, and with
what people said about single ones."""

from __future__ import annotations

from bisect import bisect_right
from datetime import date, datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from duebook.model.plan import DueException, Hold, Reason, Skip
from duebook.model.run import lateness
from duebook.randomness import fraction
from duebook.triggers import Count
from duebook.triggers.zones import day_start

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from duebook.budget import Budget
    from duebook.model.fields import DateRange
    from duebook.model.plan import Snapshot
    from duebook.model.run import Run
    from duebook.model.schedule import ScheduleSpec
    from duebook.triggers import Trigger

__all__ = ["DueTimes", "instant_before", "jittered", "lateness_by"]

MOST_COUNTED: Final = 1_000
"""Due times that are counted one by one; beyond, a lower bound will do."""
MOST_JITTERED: Final = 100_000
_LAST_DAY: Final = date(9999, 12, 30)
_TICK: Final = timedelta(microseconds=1)
_EXCEPTION_REASONS: Final = {"skip": Reason.SKIPPED_BY_USER, "moved_away": Reason.SUPERSEDED}
Interval = tuple[datetime, datetime]


def instant_before(instant: datetime) -> datetime:
    return instant - _TICK


@lru_cache(maxsize=1_000)
def _excluded_intervals(exclude: tuple[DateRange, ...], tz: str) -> tuple[Interval, ...]:
    """Excluded days as instants, from the first up to but without the second, merged."""
    merged: list[Interval] = []
    for days in exclude:
        last = min(days.last, _LAST_DAY) + timedelta(days=1)
        start, end = day_start(days.first, tz), day_start(last, tz)
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def jittered(due_at: datetime, jitter: timedelta, name: str) -> datetime:
    """When a due time of the schedule `name` is to be planned."""
    return due_at + jitter * fraction(name, due_at) if jitter else due_at


def lateness_by(
    run: Run, spec: ScheduleSpec | None, begun_at: datetime | None = None
) -> timedelta | None:
    """The lateness of a run that `spec` defined, counted from when its jitter let it begin."""
    if spec is None or run.due_at is None or run.schedule is None:
        return lateness(run, None, begun_at)
    return lateness(run, jittered(run.due_at, spec.jitter, run.schedule), begun_at)


class DueTimes:
    """Stretches are open at their start and closed at their end: (after, until].

    With a `budget` every method raises OverBudget once that is used up.
    """

    def __init__(
        self,
        spec: ScheduleSpec,
        exceptions: Iterable[DueException],
        decided: datetime,
        seed: str,
        budget: Budget | None = None,
    ) -> None:
        self._budget = budget
        self._triggers: tuple[Trigger, ...] = spec.triggers
        self._start_at, self._end_at = spec.start_at, spec.end_at
        self._jitter, self._seed = spec.jitter, seed
        self._excluded: tuple[Interval, ...] = ()
        if spec.exclude:
            self._excluded = _excluded_intervals(spec.exclude, spec.tz)
        # the same gap between two due times is asked about several times in a plan
        self._nothing_between: tuple[datetime | None, datetime | None] = (None, None)
        self._taken_out: dict[datetime, DueException] = {}
        self._put_in: list[datetime] = []
        if exceptions:
            self._except(tuple(exceptions), decided)

    @classmethod
    def of(cls, snapshot: Snapshot, now: datetime, budget: Budget | None = None) -> DueTimes:
        """The due times of a schedule as it stands."""
        decided = snapshot.decided_until(now)
        return cls(snapshot.spec, snapshot.exceptions, decided, snapshot.name, budget)

    def _except(self, exceptions: tuple[DueException, ...], decided: datetime) -> None:
        put_in = {e.due_at for e in exceptions if e.kind == "moved_here"}
        self._taken_out = {
            e.due_at: e
            for e in sorted(exceptions, key=lambda e: e.kind == "done")  # which has the last word
            if e.kind in ("skip", "done") or (e.kind == "moved_away" and e.due_at not in put_in)
        }
        # a due time that was moved onto another, or back to where it was, is that one
        self._put_in = sorted(
            at
            for at in put_in
            if at not in self._taken_out and not (at > decided and self._is_regular(at))
        )

    # -- single due times

    def next_after(self, instant: datetime) -> datetime | None:
        """The first due time after `instant` that nobody took out."""
        due = self._next_regular(instant)
        if not self._put_in:
            return due
        moved = next((at for at in self._put_in if at > instant), None)
        return due if moved is None else moved if due is None else min(due, moved)

    def last(self, after: datetime, until: datetime) -> datetime | None:
        """The last due time of the stretch that nobody took out."""
        due, moved = self._previous_regular(until + _TICK), self._moved(after, until)
        if due is None or due <= after:
            return max(moved, default=None)
        return max([due, *moved])

    def holds_any(self, after: datetime, until: datetime) -> bool:
        """Whether there is anything to decide or record in the stretch."""
        due_at = self.next_after(after)
        return (due_at is not None and due_at <= until) or bool(self.left_out(after, until))

    def knows(self, instant: datetime) -> bool:
        """Whether it is a due time that nobody took out."""
        return self.next_after(instant - _TICK) == instant

    def _moved(self, after: datetime, until: datetime) -> list[datetime]:
        """What people put into the stretch."""
        return [at for at in self._put_in if after < at <= until]

    def put_in_until(self, until: datetime) -> list[datetime]:
        return [at for at in self._put_in if at <= until]

    def among(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The due times of the stretch in order."""
        due = self.next_after(after)
        while due is not None and due <= until:
            yield due
            due = self.next_after(due)

    def wake_after(self, instant: datetime) -> datetime | None:
        """When there is something to decide or record next; what was taken out counts as well."""
        due = self.next_after(instant)
        wake_at = None if due is None else self.ripe_at(due)
        if wake_at is None and self._excluded:
            wake_at = self._next(instant)
        # what was taken out is passed together with the due time before it, not earlier
        out = min((at for at in self._taken_out if at > instant), default=None)
        if out is None or (due is not None and due < out):
            return wake_at
        return out if wake_at is None else min(out, wake_at)

    # -- what another definition knows, whatever became of it

    def yields_itself(self, instant: datetime) -> bool:
        """Whether the triggers yield it, whatever was moved there."""
        return self._next(instant - _TICK) == instant

    def yields(self, instant: datetime) -> bool:
        """Whether it is a due time, even one that is excluded or that somebody took out."""
        return instant in self._put_in or self.yields_itself(instant)

    def yielded(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The due times of the stretch, excluded ones as well, but for those taken out."""
        yield from self._moved(after, until)
        due = self._next(after)
        while due is not None and due <= until:
            if due not in self._taken_out:
                yield due
            due = self._next(due)

    def count_yielded(self, after: datetime, until: datetime) -> int:
        """How many due times the triggers yield; a lower bound of many."""
        due = self._next(after)
        return 0 if due is None or due > until else int(self._count_raw(after, until))

    def same_times(self, other: DueTimes) -> bool:
        """Whether the triggers of both certainly yield the same."""
        return (self._triggers, self._start_at, self._end_at) == (
            other._triggers,
            other._start_at,
            other._end_at,
        )

    # -- jitter

    def ripe_at(self, due_at: datetime) -> datetime:
        """When the due time is to be planned."""
        return jittered(due_at, self._jitter, self._seed)

    def ripe_until(self, after: datetime, moment: datetime) -> datetime:
        """Up to where every due time after `after` is ripe at `moment`; order goes first."""
        if not self._jitter:
            return moment
        place = max(after, moment - self._jitter)
        for number, due in enumerate(self.among(place, moment)):
            if self.ripe_at(due) > moment or number == MOST_JITTERED:
                return instant_before(due)
        return moment

    # -- stretches as entries

    def skip_all(
        self, after: datetime, until: datetime, reason: Reason, facts: Mapping[str, Any]
    ) -> list[Skip]:
        """One entry for all due times of the stretch that nobody took out, one for each moved one.

        Bounded whatever the stretch: only its ends are looked for, the rest is counted.
        """
        entries = [Skip(at, at, 1, True, reason, facts) for at in self._moved(after, until)]
        first, last = self._next_regular(after), self._previous_regular(until + _TICK)
        if first is None or last is None or first > last or last <= after:
            return entries
        count = self._count(after, until)
        follows = self.before(first)
        return [Skip(first, last, int(count), count.exact, reason, facts, follows), *entries]

    def hold_all(self, after: datetime, until: datetime) -> list[Hold]:
        """As `skip_all`, in parts without anything that a person took out of the stretch."""
        parts, place = [], after
        for at in sorted(out for out in self._taken_out if after < out <= until):
            parts.append((place, instant_before(at)))
            place = at
        return [
            Hold(skip.due_from, skip.due_to, skip.count, skip.exact)
            for low, high in (*parts, (place, until))
            if low < high
            for skip in self.skip_all(low, high, Reason.MISSED, {})
        ]

    def left_out(self, after: datetime, until: datetime) -> list[Skip]:
        """What people took out of the stretch, one entry each; and what excluded days took."""
        entries = [
            Skip(
                at,
                at,
                1,
                True,
                _EXCEPTION_REASONS[e.kind],
                {"moved_to": e.moved_to} if e.moved_to else {},
            )
            for at, e in sorted(self._taken_out.items())
            if after < at <= until and e.kind != "done" and not self._excludes(at)
        ]
        return entries + self._excluded_entries(after, until) if self._excluded else entries

    def _excluded_entries(self, after: datetime, until: datetime) -> list[Skip]:
        entries = []
        begin = bisect_right(self._excluded, after, key=itemgetter(1))
        end_at = bisect_right(self._excluded, until, key=itemgetter(0))
        for start, end in self._excluded[begin:end_at]:
            low, high = max(after, instant_before(start)), min(until, instant_before(end))
            first = self._next(low) if low < high else None
            last = self.before(high + _TICK) if first and first <= high else None
            if first is not None and last is not None:
                count = self._count_raw(low, high)
                follows = self.before(first)
                entries.append(
                    Skip(first, last, int(count), count.exact, Reason.EXCLUDED, {}, follows)
                )
        return entries

    # -- what the triggers yield

    def _next_regular(self, instant: datetime) -> datetime | None:
        """Neither excluded nor taken out."""
        due = self._next(instant)
        while due is not None:
            if excluded := self._excluding(due):
                due = self._next(instant_before(excluded[1]))
            elif due in self._taken_out:
                due = self._next(due)
            else:
                break
        return due

    def _previous_regular(self, instant: datetime) -> datetime | None:
        due = self.before(instant)
        while due is not None:
            if excluded := self._excluding(due):
                due = self.before(excluded[0])
            elif due in self._taken_out:
                due = self.before(due)
            else:
                break
        return due

    def _is_regular(self, instant: datetime) -> bool:
        return self._next_regular(instant - _TICK) == instant

    def _excludes(self, instant: datetime) -> bool:
        """Whether an excluded day took a due time of the triggers, and nobody else."""
        return self._excluding(instant) is not None and self.yields_itself(instant)

    def _excluding(self, instant: datetime) -> Interval | None:
        """The excluded days that an instant falls into."""
        if not self._excluded:
            return None
        place = bisect_right(self._excluded, instant, key=itemgetter(0))
        found = self._excluded[place - 1] if place else None
        return found if found is not None and instant < found[1] else None

    def count(self, after: datetime, until: datetime) -> int:
        """How many due times the stretch has, moved ones included; a lower bound of many."""
        due = self._next_regular(after)
        regular = 0 if due is None or due > until else int(self._count(after, until))
        return regular + len(self._moved(after, until))

    def newest_from(self, after: datetime, until: datetime, keep: int) -> datetime:
        """The latest place from which on the stretch has at most `keep` due times."""
        if len(self._triggers) > 1:
            return self._newest_one_by_one(after, until, keep)
        if self.count(after, until) <= keep:
            return after
        low, high = after, until
        while high - low > timedelta(milliseconds=1):
            middle = low + (high - low) / 2
            if self.count(middle, until) <= keep:
                high = middle
            else:
                low = middle
        return high

    def _newest_one_by_one(self, after: datetime, until: datetime, keep: int) -> datetime:
        """For merged triggers, of which no quick count is exact."""
        found = until + _TICK
        for _ in range(keep + 1):
            older = self.last(after, instant_before(found))
            if older is None:
                return after
            found = older
        return found

    def _count(self, after: datetime, until: datetime) -> Count:
        """How many are neither excluded nor taken out; at least one is."""
        count = self._count_raw(after, until)
        out = sum(skip.count for skip in self._excluded_entries(after, until))
        out += sum(
            after < at <= until and self.yields_itself(at) and not self._excludes(at)
            for at in self._taken_out
        )
        number = max(int(count) - out, 1)
        return Count(number) if count.exact else Count.at_least(number)

    def _next(self, instant: datetime) -> datetime | None:
        start, found = self._nothing_between
        if start is not None and found is not None and start <= instant < found:
            return found
        due = self._next_of_all(instant)
        self._nothing_between = (instant, due)
        return due

    def _next_of_all(self, instant: datetime) -> datetime | None:
        if self._budget is not None:
            self._budget.spend()
        if self._start_at is not None and instant < self._start_at:
            instant = instant_before(self._start_at)
        if len(self._triggers) == 1:
            due = self._triggers[0].next_after(instant)
        else:
            found = (trigger.next_after(instant) for trigger in self._triggers)
            due = min((at for at in found if at is not None), default=None)
        return None if due is None or (self._end_at is not None and due > self._end_at) else due

    def before(self, instant: datetime) -> datetime | None:
        """The last due time before `instant` that the triggers yield, whatever became of it."""
        if self._budget is not None:
            self._budget.spend()
        if self._end_at is not None and instant > self._end_at:
            instant = self._end_at + _TICK
        found = (trigger.previous_before(instant) for trigger in self._triggers)
        due = max((at for at in found if at is not None), default=None)
        return None if due is None or (self._start_at and due < self._start_at) else due

    def _count_raw(self, after: datetime, until: datetime) -> Count:
        if self._budget is not None:
            self._budget.spend()
        if self._start_at is not None:
            after = max(after, instant_before(self._start_at))
        if self._end_at is not None:
            until = min(until, self._end_at)
        if len(self._triggers) == 1:
            return self._triggers[0].count(after, until)
        number, due = 0, self._next(after)
        while due is not None and due <= until and number < MOST_COUNTED:
            number, due = number + 1, self._next(due)
        if due is None or due > until:
            return Count(number)
        most = max(trigger.count(after, until) for trigger in self._triggers)
        return Count.at_least(max(number, most))
