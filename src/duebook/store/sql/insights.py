"""What people see at a glance: marks of many runs, the load of hours, a sign that things changed.

Every look is along one index or at a bounded number of rows, and for many schedules at once.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid
from duebook.model.insight import HourLoad, Planned, RunMark
from duebook.model.unreadable import read_spec
from duebook.store.sql.lists import LAST_PLACE, Lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.run import Run
    from duebook.model.schedule import ScheduleSpec

__all__ = ["Insights"]

MOST_NAMESPACES: Final = 1_000_000

LOOKED: Final = 5_000
"""The newest runs, among which late ones are looked for."""
TIMED: Final = 20_000
"""The newest runs, which tell how long runs take."""
HOUR: Final = 3_600


class Insights(Lists):
    """What a dashboard asks."""

    def list_marks(self, schedule_ids: Sequence[str], each: int) -> dict[str, list[RunMark]]:
        found: dict[str, list[RunMark]] = defaultdict(list)
        rows = self._all("list_marks", ids=list(schedule_ids), each=each) if schedule_ids else []
        for owner, id_, status, origin, attempt, version, *times in rows:
            moments = map(self._time, times)
            found[owner].append(RunMark(id_, status, origin, attempt, version, *moments))
        for marks in found.values():
            marks.sort(key=lambda mark: (mark.at, mark.id))
            del marks[:-each]
        return found

    def list_specs(self, runs: Sequence[Run]) -> dict[str, ScheduleSpec]:
        pairs = {run.id: (run.schedule_id, run.version or 0) for run in runs if run.schedule_id}
        known = self._definitions(list(dict.fromkeys(pairs.values())))
        return {id_: known[pair].spec for id_, pair in pairs.items() if pair in known}

    def list_running(self, namespace: str, limit: int) -> list[Run]:
        rows = self._all("list_running", namespace=namespace, limit=limit)
        return self._runs([row[0] for row in rows])

    def list_late(self, namespace: str, since: datetime, late: timedelta, limit: int) -> list[Run]:
        rows = self._all(
            "list_late",
            namespace=namespace,
            since=since,
            seconds=late.total_seconds(),
            before=LAST_PLACE,
            looked=LOOKED,
            limit=limit,
        )
        return self._runs([row[0] for row in rows])

    def count_failed(self, namespace: str, since: datetime, most: int) -> int:
        first = self._place_of(namespace, since)
        return int(self._value("count_failed", namespace=namespace, first=first, most=most))

    def count_hours(self, namespace: str, since: datetime, until: datetime) -> list[HourLoad]:
        rows = self._all("count_hours", namespace=namespace, since=since, until=until)
        return [
            HourLoad(
                datetime.fromtimestamp(int(hour) * HOUR, UTC),
                runs,
                int(failed),
                timedelta(seconds=float(busy or 0)),
            )
            for hour, runs, failed, busy in rows
        ]

    def list_durations(self, namespace: str) -> dict[str, timedelta]:
        rows = self._all("list_durations", namespace=namespace, before=LAST_PLACE, looked=TIMED)
        return {owner: timedelta(seconds=float(mean)) for owner, mean in rows if mean is not None}

    def list_planned(
        self, namespace: str, after: str, limit: int
    ) -> tuple[list[Planned], str | None]:
        rows = self._all("list_planned", namespace=namespace, after=after, limit=limit)
        planned = []
        for id_, name, spec in rows:
            try:
                planned.append(Planned(id_, name, read_spec(spec, name)))
            except Invalid:  # a newer node wrote it: nobody here can count its due times
                continue
        return planned, rows[-1][1] if len(rows) == limit else None

    def list_inhabited(self) -> list[str]:
        return [row[0] for row in self._all("list_inhabited", limit=MOST_NAMESPACES)]

    def signal(self, namespace: str) -> tuple[Any, ...]:
        row = self._one("get_signal", now=self.now) or ()
        return (*row, self._value("get_last_place", namespace=namespace))
