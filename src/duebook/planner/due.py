"""The due times of a schedule: its triggers merged, with what people said about single ones."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from duebook.model.plan import DueException, Reason, Skip
from duebook.triggers import Count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from duebook.triggers import Trigger

__all__ = ["DueTimes", "instant_before"]

MOST_MERGED: Final = 1_000
"""Due times of several triggers that are counted one by one; beyond, a lower bound will do."""
_TICK: Final = timedelta(microseconds=1)
_EXCEPTION_REASONS: Final = {"skip": Reason.SKIPPED_BY_USER, "moved_away": Reason.SUPERSEDED}


def instant_before(instant: datetime) -> datetime:
    return instant - _TICK


class DueTimes:
    """Stretches are open at their start and closed at their end: (after, until]."""

    def __init__(
        self,
        triggers: tuple[Trigger, ...],
        exceptions: Iterable[DueException],
        decided: datetime,
    ) -> None:
        self._triggers = triggers
        # the same gap between two due times is asked about several times in a plan
        self._nothing_between: tuple[datetime | None, datetime | None] = (None, None)
        put_in = {e.due_at for e in exceptions if e.kind == "moved_here"}
        self._taken_out = {
            e.due_at: e
            for e in exceptions
            if e.kind == "skip" or (e.kind == "moved_away" and e.due_at not in put_in)
        }
        # a due time that was moved onto another, or back to where it was, is that one
        self._put_in = sorted(
            at
            for at in put_in
            if at not in self._taken_out and not (at > decided and self._is_due(at))
        )

    def next_after(self, instant: datetime) -> datetime | None:
        """The first due time after `instant` that nobody took out."""
        due = self._next(instant)
        while due in self._taken_out:
            due = self._next(due)
        return self._or_moved_here(due, instant)

    def wake_after(self, instant: datetime) -> datetime | None:
        """When there is something to record next: due times that were taken out count as well."""
        wake_at = self._or_moved_here(self._next(instant), instant)
        out = min((at for at in self._taken_out if at > instant), default=None)
        return wake_at if out is None else out if wake_at is None else min(out, wake_at)

    def _or_moved_here(self, due: datetime | None, after: datetime) -> datetime | None:
        moved = next((at for at in self._put_in if at > after), None)
        return due if moved is None else moved if due is None else min(due, moved)

    def regular(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """The first `limit` due times of the triggers that nobody took out."""
        found: list[datetime] = []
        due = self._next(after)
        while due is not None and due <= until and len(found) < limit:
            if due not in self._taken_out:
                found.append(due)
            due = self._next(due)
        return found

    def moved_here(self, until: datetime) -> list[datetime]:
        return [at for at in self._put_in if at <= until]

    def last_regular(self, after: datetime, until: datetime) -> datetime | None:
        due = self._previous(until + _TICK)
        while due in self._taken_out:
            due = self._previous(due)
        return due if due is not None and due > after else None

    def skip_all(
        self,
        after: datetime,
        until: datetime,
        moved: list[datetime],
        reason: Reason,
        facts: Mapping[str, Any],
    ) -> list[Skip]:
        """One entry for all due times of the stretch that nobody took out, one for each moved one.

        Bounded whatever the stretch: only its ends are looked for, the rest is counted.
        """
        entries = [Skip(at, at, 1, True, reason, facts) for at in moved]
        first = next(iter(self.regular(after, until, 1)), None)
        last = self.last_regular(after, until)
        if first is None or last is None:
            return entries
        taken = sum(after < at <= until and self._is_due(at) for at in self._taken_out)
        count = self._count(after, until)
        return [Skip(first, last, int(count) - taken, count.exact, reason, facts), *entries]

    def taken_out(self, after: datetime, until: datetime) -> list[Skip]:
        """What people took out of the stretch, one entry each."""
        return [
            Skip(
                at,
                at,
                1,
                True,
                _EXCEPTION_REASONS[e.kind],
                {"moved_to": e.moved_to} if e.moved_to else {},
            )
            for at, e in sorted(self._taken_out.items())
            if after < at <= until
        ]

    def _next(self, instant: datetime | None) -> datetime | None:
        if instant is None:
            return None
        start, found = self._nothing_between
        if start is not None and found is not None and start <= instant < found:
            return found
        due = self._next_of_all(instant)
        self._nothing_between = (instant, due)
        return due

    def _next_of_all(self, instant: datetime) -> datetime | None:
        if len(self._triggers) == 1:
            return self._triggers[0].next_after(instant)
        found = (trigger.next_after(instant) for trigger in self._triggers)
        return min((due for due in found if due is not None), default=None)

    def _previous(self, instant: datetime | None) -> datetime | None:
        if instant is None:
            return None
        found = (trigger.previous_before(instant) for trigger in self._triggers)
        return max((due for due in found if due is not None), default=None)

    def _is_due(self, instant: datetime) -> bool:
        return self._next(instant - _TICK) == instant

    def _count(self, after: datetime, until: datetime) -> Count:
        if len(self._triggers) == 1:
            return self._triggers[0].count(after, until)
        number, due = 0, self._next(after)
        while due is not None and due <= until and number < MOST_MERGED:
            number, due = number + 1, self._next(due)
        if due is None or due > until:
            return Count(number)
        return Count.at_least(max(trigger.count(after, until) for trigger in self._triggers))
