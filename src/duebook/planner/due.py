"""The due times of a schedule: its merged and bounded triggers, without excluded days, closed days
and maintenance windows, and with the changes that people made to single due times."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from duebook.model.plan import DueException, Hold, Reason, Skip
from duebook.model.run import lateness
from duebook.planner.day_times import DayTimes
from duebook.planner.merged import EARLIEST, LATEST, instant_before
from duebook.planner.merged import TICK as _TICK
from duebook.randomness import fraction
from duebook.triggers import Count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from duebook.budget import Budget
    from duebook.model.plan import Snapshot, WindowSpan
    from duebook.model.run import Run
    from duebook.model.schedule import ScheduleSpec

__all__ = ["LONGEST_UNRECORDED", "DueTimes", "instant_before", "jittered", "lateness_by"]

MOST_JITTERED: Final = 100_000
MOST_COUNTED_ROLLING: Final = 5_000
"""Due times that are counted one by one where a calendar rolls some of them."""
_SHORTEST_PART: Final = timedelta(hours=6)
LONGEST_UNRECORDED: Final = timedelta(days=7)
"""How long due times on closed days may wait to be recorded with the next due time."""
_EXCEPTION_REASONS: Final = {"skip": Reason.SKIPPED_BY_USER, "moved_away": Reason.SUPERSEDED}


def jittered(due_at: datetime, jitter: timedelta, name: str) -> datetime:
    """When a due time of the schedule `name` is to be planned."""
    if not jitter:
        return due_at
    return due_at + min(jitter * fraction(name, due_at), LATEST - due_at)


def lateness_by(
    run: Run, spec: ScheduleSpec | None, begun_at: datetime | None = None
) -> timedelta | None:
    """The lateness of a run that `spec` defined, counted from the end of its jitter."""
    if spec is None or run.due_at is None or run.schedule is None:
        return lateness(run, None, begun_at)
    return lateness(run, jittered(run.due_at, spec.jitter, run.schedule), begun_at)


class DueTimes(DayTimes):
    """Stretches are open at their start and closed at their end: (after, until].

    With a `budget`, every method raises OverBudget once that is used up.
    """

    def __init__(
        self,
        spec: ScheduleSpec,
        exceptions: Iterable[DueException],
        decided: datetime,
        seed: str,
        budget: Budget | None = None,
        windows: tuple[WindowSpan, ...] = (),
    ) -> None:
        super().__init__(spec, budget)
        self._jitter, self._seed = spec.jitter, seed
        self._windows = windows
        self._taken_out: dict[datetime, DueException] = {}
        self._put_in: list[datetime] = []
        if exceptions:
            self._except(tuple(exceptions), decided)

    @classmethod
    def of(cls, snapshot: Snapshot, now: datetime, budget: Budget | None = None) -> DueTimes:
        """The due times of a schedule in its current state."""
        decided = snapshot.decided_until(now)
        exceptions, windows = snapshot.exceptions, snapshot.windows
        return cls(snapshot.spec, exceptions, decided, snapshot.name, budget, windows)

    @classmethod
    def everything(cls, spec: ScheduleSpec, budget: Budget | None = None) -> DueTimes:
        """All due times that must be accounted for, including those of excluded and closed days."""
        made = cls(spec, (), EARLIEST, "", budget)
        made._excluded, made._days = (), None
        return made

    def _except(self, exceptions: tuple[DueException, ...], decided: datetime) -> None:
        put_in = {e.due_at for e in exceptions if e.kind == "moved_here"}
        self._taken_out = {
            e.due_at: e
            for e in sorted(exceptions, key=lambda e: e.kind == "done")  # "done" overrides others
            if e.kind in ("skip", "done") or (e.kind == "moved_away" and e.due_at not in put_in)
        }
        # a due time moved onto another, or back to its own place, does not count twice
        self._put_in = sorted(
            at
            for at in put_in
            if at not in self._taken_out and not (at > decided and self._is_regular(at))
        )

    # -- single due times

    def next_after(self, instant: datetime) -> datetime | None:
        """The first due time after `instant` that was not taken out manually."""
        due = self._next_regular(instant)
        if not self._put_in:
            return due
        moved = next((at for at in self._put_in if at > instant), None)
        return due if moved is None else moved if due is None else min(due, moved)

    def last(self, after: datetime, until: datetime) -> datetime | None:
        """The last due time of the stretch that was not taken out manually."""
        due, moved = self._previous_regular(until + _TICK), self._moved(after, until)
        if due is None or due <= after:
            return max(moved, default=None)
        return max([due, *moved])

    def holds_any(self, after: datetime, until: datetime) -> bool:
        """Whether there is anything to decide or record in the stretch."""
        due_at = self.next_after(after)
        return (due_at is not None and due_at <= until) or bool(self.left_out(after, until))

    def knows(self, instant: datetime) -> bool:
        """Whether it is a due time that was not taken out manually."""
        return self.next_after(instant - _TICK) == instant

    def _moved(self, after: datetime, until: datetime) -> list[datetime]:
        """The due times that people moved into the stretch."""
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
        """When there is next something to decide or record; due times taken out count as well."""
        due = self.next_after(instant)
        wake_at = None if due is None else self.ripe_at(due)
        if wake_at is None and self._excluded:
            wake_at = self._next(instant)
        raw = self._next(instant) if self._days is not None else None
        if raw is not None and (wake_at is None or wake_at - raw > LONGEST_UNRECORDED):
            # what closed days remove is recorded with the next due time, unless that is long after
            wake_at = raw
        if self._windows and (kept := self._next_kept(instant)) is not None and kept != due:
            # what falls into a window is recorded at once, while the window is still known
            wake_at = self.ripe_at(kept) if wake_at is None else min(wake_at, self.ripe_at(kept))
        # what was taken out is passed together with the due time before it, not earlier
        out = min((at for at in self._taken_out if at > instant), default=None)
        if out is None or (due is not None and due < out):
            return wake_at
        return out if wake_at is None else min(out, wake_at)

    # -- for comparison with another definition, with any outcome

    def yields(self, instant: datetime) -> bool:
        """Whether it is a due time, even one that is excluded or was taken out manually."""
        return instant in self._put_in or self.yields_itself(instant)

    def yielded(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The due times of the stretch, including excluded ones but not those taken out."""
        yield from self._moved(after, until)
        due = self._next_any(after)
        while due is not None and due <= until:
            if due not in self._taken_out:
                yield due
            due = self._next_any(due)

    def carried(self, renewed: DueTimes, decided: datetime) -> list[datetime]:
        """Where due times of closed days up to `decided` will still land, if another definition has
        these due times too."""
        found: set[datetime] = set()
        for at, landed in self._rolls.promised(decided) if self._rolls else ():
            if not self._keeps(landed) or renewed._merged.next(at - _TICK) != at:
                continue
            days, to = renewed._days, landed
            if days is not None and not days.is_open(landed):
                to = days.landing(at) or landed
                if to <= decided or not days.is_open(to):
                    continue
            if not renewed._keeps(to):
                found.add(to)
        return sorted(found)

    # -- jitter

    def ripe_at(self, due_at: datetime) -> datetime:
        """When the due time is to be planned."""
        return jittered(due_at, self._jitter, self._seed)

    def ripe_until(self, after: datetime, moment: datetime) -> datetime:
        """Up to where every due time after `after` is ripe at `moment`; keeps due times in
        order."""
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
        """One entry for all regular due times of the stretch, and one for each that was moved
        there.

        The cost does not depend on the stretch: only its ends are searched, the rest is counted.
        """
        moved = [Skip(at, at, 1, True, reason, facts) for at in self._moved(after, until)]
        return [*self._skip_regular(after, until, reason, facts), *moved]

    def _skip_regular(
        self, after: datetime, until: datetime, reason: Reason, facts: Mapping[str, Any]
    ) -> list[Skip]:
        first, last = self._next_regular(after), self._previous_regular(until + _TICK)
        if first is None or last is None or first > last or last <= after:
            return []
        count = self._count(after, until)
        follows = self.follows(first)
        return [Skip(first, last, int(count), count.exact, reason, facts, follows)]

    def hold_all(self, after: datetime, until: datetime) -> list[Hold]:
        """Like `skip_all`, but in parts that leave out everything taken out of the stretch manually
        or by a maintenance window."""
        gaps = [(at, at) for at in self._taken_out]
        gaps += [(window.start, window.last) for window in self._windows]
        found, place = [], after
        for first, last in (*sorted(gaps), (until + _TICK, until)):
            if (high := min(instant_before(first), until)) > place:
                found += self._skip_regular(place, high, Reason.MISSED, {})
            place = max(place, last)
        moved = (Hold(at, at, 1, True) for at in self._moved(after, until))
        return [
            *(Hold(part.due_from, part.due_to, part.count, part.exact) for part in found),
            *moved,
        ]

    def left_out(self, after: datetime, until: datetime) -> list[Skip]:
        """What people took out of the stretch, one entry each; and what excluded days, the calendar
        and maintenance windows removed."""
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
        if self._windows:
            entries += self._window_entries(after, until)
        return entries + self._day_entries(after, until)

    def _window_entries(self, after: datetime, until: datetime) -> list[Skip]:
        entries: list[Skip] = []
        for window in self._windows:
            low, high = max(after, instant_before(window.start)), min(until, window.last)
            first = self._next_kept(low) if low < high else None
            last = self._previous_kept(high + _TICK) if first and first <= high else None
            if first is not None and last is not None:
                count = self._count_kept(low, high)
                facts = {"window": window.name, "until": window.end}
                about = (int(count), count.exact, Reason.PAUSED, facts, self.follows(first))
                entries.append(Skip(first, last, *about))
        return entries

    # -- what the triggers yield

    def _next_regular(self, instant: datetime) -> datetime | None:
        """Neither excluded, closed nor taken out, and in no window."""
        due = self._next_kept(instant)
        while due is not None and self._windows and (window := self.window_at(due)) is not None:
            due = self._next_kept(window.last)
        return due

    def _previous_regular(self, instant: datetime) -> datetime | None:
        due = self._previous_kept(instant)
        while due is not None and self._windows and (window := self.window_at(due)) is not None:
            due = self._previous_kept(window.start)
        return due

    def _next_kept(self, instant: datetime) -> datetime | None:
        """Neither excluded, closed nor taken out; includes due times that roll to another day."""
        due = self._next_on_open_days(instant)
        while due is not None and due in self._taken_out:
            due = self._next_on_open_days(due)
        return due

    def _keeps(self, instant: datetime) -> bool:
        return self._next_kept(instant - _TICK) == instant

    def _previous_kept(self, instant: datetime) -> datetime | None:
        due = self._previous_on_open_days(instant)
        while due is not None and due in self._taken_out:
            due = self._previous_on_open_days(due)
        return due

    def window_at(self, instant: datetime) -> WindowSpan | None:
        """The window that an instant falls into."""
        return next((w for w in self._windows if w.start <= instant < w.end), None)

    def _is_regular(self, instant: datetime) -> bool:
        return self._next_regular(instant - _TICK) == instant

    def count(self, after: datetime, until: datetime) -> int:
        """How many due times the stretch has, moved ones included; a lower bound if many."""
        return int(self.regular_count(after, until)) + len(self._moved(after, until))

    def regular_count(self, after: datetime, until: datetime) -> Count:
        """Like `count`, without moved ones; tells whether it is exact."""
        due = self._next_regular(after)
        return Count(0) if due is None or due > until else self._count(after, until)

    def count_in_parts(self, after: datetime, until: datetime) -> tuple[int, bool]:
        """Like `count`, and whether it is exact: a stretch with too many is counted in halves."""
        count = self.regular_count(after, until)
        if not count.exact and until - after > _SHORTEST_PART:
            middle = after + (until - after) / 2
            halves = self.count_in_parts(after, middle), self.count_in_parts(middle, until)
            return sum(number for number, _ in halves), all(exact for _, exact in halves)
        return int(count) + len(self._moved(after, until)), count.exact

    def count_up_to(self, most: int, after: datetime, until: datetime) -> int:
        """How many due times the stretch has, moved ones included; `most`, if it has more."""
        if len(self._triggers) == 1 and self._rolls is None:
            count = self.regular_count(after, until)
            if count.exact:
                return min(int(count) + len(self._moved(after, until)), most)
        return sum(1 for _ in islice(self.among(after, until), most))

    def newest_from(self, after: datetime, until: datetime, keep: int) -> datetime:
        """The earliest place after which the stretch has at most `keep` due times."""
        if len(self._triggers) > 1 or self._rolls is not None:
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
        """For merged triggers, for which no quick count is exact."""
        found = until + _TICK
        for _ in range(keep + 1):
            older = self.last(after, instant_before(found))
            if older is None:
                return after
            found = older
        return found

    def _count(self, after: datetime, until: datetime) -> Count:
        """Like `_count_kept`, without due times in windows; there must be at least one."""
        count = self._count_kept(after, until)
        if not self._windows:
            return count
        inside = sum(skip.count for skip in self._window_entries(after, until))
        number = max(int(count) - inside, 1)
        return Count(number) if count.exact else Count.at_least(number)

    def _count_kept(self, after: datetime, until: datetime) -> Count:
        """How many are neither excluded, closed nor taken out."""
        if self._rolls is not None:
            return self._count_each(after, until)
        count = self._count_raw(after, until)
        out = sum(skip.count for skip in self._day_entries(after, until))
        out += sum(
            after < at <= until and self.yields_itself(at) and not self._excludes(at)
            for at in self._taken_out
        )
        number = max(int(count) - out, 1)
        return Count(number) if count.exact else Count.at_least(number)

    def _count_each(self, after: datetime, until: datetime) -> Count:
        """Count one by one, where due times roll to other days; a lower bound if many."""
        number, due = 0, self._next_kept(after)
        while due is not None and due <= until and number < MOST_COUNTED_ROLLING:
            number, due = number + 1, self._next_kept(due)
        return Count(number) if due is None or due > until else Count.at_least(number)
