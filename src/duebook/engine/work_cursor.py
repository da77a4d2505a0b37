"""A cursor over the queues, so that a claim skips what the process has claimed before; only a
hint."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duebook.store.values import WHOLE_QUEUE, QueuePart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.model.run import Claim
    from duebook.store.values import QueueParts, Work

__all__ = ["WorkCursor"]

LONGEST_COMMIT: Final = timedelta(seconds=3)
"""A run may become visible in the database this much later than it was ready."""
LOOK_BACK_PART: Final = 40
"""Whole queues are searched again after this many times the extra cost of doing so."""
REMEMBERED: Final = 5
"""Looks of each kind to remember; the fastest shows the cost, as others may have had to wait."""
LONGEST_LOOK_BACK: Final = 10.0
"""Seconds after which whole queues are searched in any case, and claimed from their start."""
MOST_PRIORITIES: Final = 20
"""Per queue and namespace; with more, its marks are dropped."""
MOST_PLACES: Final = 100
"""Queues of namespaces whose marks are kept while nothing waits there."""
_FIRST, _EARLIEST, _LAST = WHOLE_QUEUE[0]

NamespaceQueue = tuple[str, str]
"""a queue and a namespace"""


class WorkCursor:
    """How far a worker has claimed each queue, by namespace and priority.

    While a long transaction makes the database keep old versions of rows, it also keeps the index
    entries of claimed runs. Claims that start at a mark never meet those again. Runs that others
    held, or that could not be claimed then, stay behind the marks until the next look at whole
    queues; the less that costs, the sooner it comes.
    """

    def __init__(self) -> None:
        self._marks: defaultdict[NamespaceQueue, dict[int, datetime]] = defaultdict(dict)
        """by rank, which is the negated priority: the time from which runs may be ready"""
        self._whole_at = 0.0
        self._forget_at = 0.0
        """when a look at whole queues will drop the marks of all places with work"""
        self._whole: deque[float] = deque(maxlen=REMEMBERED)
        self._parts: deque[float] = deque(maxlen=REMEMBERED)
        """duration of looks in seconds"""

    def look(self, look: Callable[[QueueParts], Work], monotonic: Callable[[], float]) -> Work:
        """Call `look` with parts of queues, or with whole ones when it is time for that."""
        asked_at = monotonic()
        if self._marks and asked_at < self._whole_at:
            work = look({place: self.parts(place) for place in self._marks})
            self._parts.append(monotonic() - asked_at)
            return work if work.places else replace(work, next_at=self._next_at(work, asked_at))
        work = look(dict.fromkeys(self._marks, WHOLE_QUEUE))
        now = monotonic()
        self._whole.append(now - asked_at)
        self._whole_at = now + min(LOOK_BACK_PART * self._excess(), LONGEST_LOOK_BACK)
        self._forget(work, now)
        return work

    def _forget(self, work: Work, monotonic: float) -> None:
        """Drop the marks of places where the next claim must start before them.

        That is where the first run is behind a mark. Elsewhere other runs may be behind the marks,
        and wait until all marks are dropped. Where no run may start, marks are useless for claims,
        but spare the next looks a walk over those runs.
        """
        is_time = monotonic >= self._forget_at
        if is_time:
            self._forget_at = monotonic + LONGEST_LOOK_BACK
            if len(self._marks) > MOST_PLACES:
                self._marks.clear()
        for place in work.places:
            if is_time or self._is_behind(place, work.firsts.get(place)):
                self._marks.pop(place, None)

    def _is_behind(self, place: NamespaceQueue, first: tuple[int, datetime] | None) -> bool:
        if first is None:
            return True
        mark = self._marks.get(place, {}).get(first[0])
        return mark is not None and first[1] < mark

    def _excess(self) -> float:
        """How many seconds longer a look at whole queues takes."""
        return max(min(self._whole) - min(self._parts, default=0.0), 0.0)

    def _next_at(self, work: Work, monotonic: float) -> datetime:
        """When to look again after a look at parts of queues found nothing."""
        whole_at = work.now + timedelta(seconds=self._whole_at - monotonic)
        return min(work.next_at or whole_at, whole_at)

    def parts(self, place: NamespaceQueue) -> Sequence[QueuePart]:
        """Where runs may wait, in the order of the queue."""
        marks = self._marks.get(place)
        if not marks:
            return WHOLE_QUEUE
        ranks = sorted(marks)
        starts = [(_FIRST, _EARLIEST), *((rank, marks[rank]) for rank in ranks)]
        ends = [*(rank - 1 for rank in ranks), _LAST]
        return [QueuePart(*start, end) for start, end in zip(starts, ends, strict=True)]

    def claimed(self, place: NamespaceQueue, claims: Sequence[Claim], now: datetime) -> None:
        """The next claim continues after these, which are in the order of the queue."""
        if not claims:
            return
        latest = now - LONGEST_COMMIT
        marks = self._marks[place]
        last = {claim.run.priority: claim.run.ready_at for claim in claims}
        for priority, ready_at in last.items():
            marks[-priority] = min(ready_at, latest)
        if len(marks) > MOST_PRIORITIES:
            del self._marks[place]
