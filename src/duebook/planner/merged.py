"""Several triggers as one, within the bounds of their schedule; pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from duebook.triggers import Trigger

__all__ = ["EARLIEST", "LATEST", "TICK", "Merged", "Span", "instant_before"]

TICK: Final = timedelta(microseconds=1)
EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)
LATEST: Final = datetime.max.replace(tzinfo=UTC)
Span = tuple[datetime, datetime]


def instant_before(instant: datetime) -> datetime:
    return instant - TICK


class Merged(NamedTuple):
    """What the triggers yield from `start_at` to `end_at`, before anything else is applied."""

    triggers: tuple[Trigger, ...]
    start_at: datetime | None
    end_at: datetime | None

    def next(self, instant: datetime) -> datetime | None:
        """The first one after `instant`."""
        if self.start_at is not None and instant < self.start_at:
            instant = instant_before(self.start_at)
        if len(self.triggers) == 1:
            due = self.triggers[0].next_after(instant)
        else:
            found = (trigger.next_after(instant) for trigger in self.triggers)
            due = min((at for at in found if at is not None), default=None)
        return None if due is None or (self.end_at is not None and due > self.end_at) else due

    def before(self, instant: datetime) -> datetime | None:
        """The last one before `instant`."""
        if self.end_at is not None and instant > self.end_at:
            instant = self.end_at + TICK
        found = (trigger.previous_before(instant) for trigger in self.triggers)
        due = max((at for at in found if at is not None), default=None)
        return None if due is None or (self.start_at and due < self.start_at) else due

    def holds(self, instant: datetime) -> bool:
        """Whether an instant is within the bounds."""
        if self.start_at is not None and instant < self.start_at:
            return False
        return self.end_at is None or instant <= self.end_at
