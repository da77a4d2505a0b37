"""Data for an overview: marks of many runs, the load of hours, a signal that something changed.

Every query uses one index or a bounded number of rows, for many schedules at once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.errors import Invalid
from duebook.model.insight import HourLoad, Planned, RunMark
from duebook.model.run import LogLine
from duebook.model.step_history import AttemptMark, StepLine, StepMark
from duebook.model.unreadable import read_spec
from duebook.store.sql.rows import LAST_PLACE
from duebook.store.sql.statements import Part, Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.run import Run
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.sql.definitions import DefinitionReader
    from duebook.store.sql.lists import Lists
    from duebook.store.sql.runs import Runs

__all__ = ["Insights"]

MOST_NAMESPACES: Final = 1_000_000
LOOKED: Final = 5_000
"""The newest runs, which are searched for late ones."""
TIMED: Final = 20_000
"""The newest runs, which show how long runs take."""
TRIED: Final = 1_000
"""The newest runs of a schedule, which are searched for a success."""
PRINTED: Final = 50
"""The last lines of a log, which are searched for an error."""
HOUR: Final = 3_600


class Insights(Part):
    """Queries of a dashboard."""

    def __init__(
        self, db: Statements, definitions: DefinitionReader, runs: Runs, lists: Lists
    ) -> None:
        super().__init__(db)
        self._definitions = definitions
        self._runs = runs
        self._lists = lists

    def list_marks(self, schedule_ids: Sequence[str], each: int) -> dict[str, list[RunMark]]:
        """The newest runs of each of these schedules that has any, the oldest of them first."""
        found: dict[str, list[RunMark]] = defaultdict(list)
        rows = self._db.all("list_marks", ids=list(schedule_ids), each=each) if schedule_ids else []
        for owner, id_, status, origin, attempt, version, *times in rows:
            moments = map(self._db.time, times)
            found[owner].append(RunMark(id_, status, origin, attempt, version, *moments))
        for marks in found.values():
            marks.sort(key=lambda mark: (mark.at, mark.id))
            del marks[:-each]
        return found

    def list_specs(self, runs: Sequence[Run]) -> dict[str, ScheduleSpec]:
        """The definitions from which these runs were created, by the run's id; without runs that
        have no schedule."""
        pairs = {run.id: (run.schedule_id, run.version or 0) for run in runs if run.schedule_id}
        known = self._definitions.read(list(dict.fromkeys(pairs.values())))
        return {id_: known[pair].spec for id_, pair in pairs.items() if pair in known}

    def list_labels(self, schedule_ids: Sequence[str]) -> dict[str, dict[str, str]]:
        """The labels that these schedules have, or had when they were deleted, by id."""
        rows = self._db.all("list_labels_of", ids=list(schedule_ids))
        return {id_: json.loads(labels) for id_, labels in rows}

    def list_dependents(self, namespace: str, name: str, limit: int) -> list[str]:
        """The names of schedules that depend on one, in order."""
        wanted = {"namespace": namespace, "name": name, "limit": limit}
        return [found for (found,) in self._db.all("list_dependents", **wanted)]

    def list_labelled(self, label: str, value: str, limit: int) -> list[tuple[str, str, str]]:
        """Id, namespace and name of schedules with a label, in all namespaces, by name."""
        rows = self._db.all("list_labelled", label=label, value=value, limit=limit)
        return [(id_, namespace, name) for id_, namespace, name in rows]

    def list_last_successes(self, schedule_ids: Sequence[str]) -> dict[str, datetime]:
        """When the latest success of each schedule ended, by id; a schedule without a success in
        its last thousand runs may be missing."""
        rows = self._db.all("list_last_successes", ids=list(schedule_ids), looked=TRIED)
        return {id_: self._db.time(at) for id_, at in rows}

    def list_last_errors(self, run_ids: Sequence[str]) -> dict[str, str]:
        """The last line that each of these runs printed to stderr, by id; only of those that
        printed one near their end."""
        rows = self._db.all("list_last_errors", ids=list(run_ids), looked=PRINTED)
        return {id_: text for id_, text in rows if text is not None}

    def list_step_marks(self, flow_run_ids: Sequence[str]) -> list[StepMark]:
        """The started steps of these runs of flows, in any order."""
        time = self._db.time
        rows = self._db.all("list_step_marks", ids=list(flow_run_ids))
        return [
            StepMark(parent, step, id_, status, reason, time(started_at), time(finished_at))
            for parent, step, id_, status, reason, started_at, finished_at in rows
        ]

    def list_attempts_of(self, run_ids: Sequence[str]) -> list[AttemptMark]:
        """The attempts of these runs that were followed by others."""
        time = self._db.time
        rows = self._db.all("list_attempts_of", ids=list(run_ids))
        return [
            AttemptMark(id_, number, time(claimed_at), time(finished_at), outcome)
            for id_, number, claimed_at, finished_at, outcome in rows
        ]

    def list_last_lines(self, run_ids: Sequence[str], each: int) -> list[StepLine]:
        """The last lines that these runs printed, `each` of every run, by time."""
        rows = self._db.all("list_last_lines", ids=list(run_ids), each=each)
        lines = [
            StepLine(id_, attempt, seq, LogLine(self._db.time(at), stream, text))
            for id_, attempt, seq, at, stream, text in rows
        ]
        return sorted(lines, key=lambda one: (one.line.at, one.run_id, one.attempt, one.seq))

    def get_name_and_zone(self, schedule_id: str) -> tuple[str, str]:
        """Of a schedule that may be deleted; UTC if its definition is unreadable."""
        name, spec = self._db.all("get_newest_definition", id=schedule_id)[0]
        try:
            return name, read_spec(spec, name).tz
        except Invalid:
            return name, "UTC"

    def list_running(self, namespace: str, limit: int) -> list[Run]:
        """Active runs, the oldest first."""
        rows = self._db.all("list_running", namespace=namespace, limit=limit)
        return self._runs.get_runs([row[0] for row in rows])

    def list_late(self, namespace: str, since: datetime, late: timedelta, limit: int) -> list[Run]:
        """Runs since `since` whose `lateness`, including jitter, is more than `late`, the newest
        first; among the newest few thousand. Runs that waited for manual work, or for another
        attempt, are not late."""
        rows = self._db.all(
            "list_late",
            namespace=namespace,
            since=since,
            seconds=late.total_seconds(),
            before=LAST_PLACE,
            looked=LOOKED,
            limit=limit,
        )
        return self._runs.get_runs([row[0] for row in rows])

    def count_failed(self, namespace: str, since: datetime, most: int) -> int:
        """How many runs created since `since` failed; counts no further than `most`."""
        first = self._lists.place_of(namespace, since)
        return int(self._db.value("count_failed", namespace=namespace, first=first, most=most))

    def count_hours(self, namespace: str, since: datetime, until: datetime) -> list[HourLoad]:
        """The hours in which runs ended, in any order."""
        rows = self._db.all("count_hours", namespace=namespace, since=since, until=until)
        return [
            HourLoad(
                _hour(hour),
                runs,
                int(failed),
                timedelta(seconds=float(busy or 0)),
            )
            for hour, runs, failed, busy in rows
        ]

    def list_late_hours(
        self, namespace: str, since: datetime, until: datetime, late: timedelta
    ) -> tuple[dict[datetime, tuple[int, timedelta]], datetime | None]:
        """Of the hours in which runs ended that had begun more than `late` after their due times,
        how many did, and the greatest lateness; all without jitter. And the hour up to which some
        may be missing, as only the newest few thousand are counted; None: these are all."""
        rows = self._db.all(
            "list_late_hours",
            namespace=namespace,
            since=since,
            until=until,
            seconds=late.total_seconds(),
            looked=LOOKED,
        )
        known = self._definitions.read(list({(id_, version): None for _, id_, version, *_ in rows}))
        found: dict[datetime, tuple[int, timedelta]] = {}
        for hour, id_, version, seconds, counts in rows:
            length = timedelta(seconds=float(seconds))
            if (definition := known.get((id_, version))) is not None:
                length -= definition.spec.jitter
            if counts and length > late:
                count, longest = found.get(_hour(hour), (0, length))
                found[_hour(hour)] = (count + 1, max(longest, length))
        return found, _hour(rows[-1][0]) if len(rows) == LOOKED else None

    def list_durations(self, namespace: str) -> dict[str, timedelta]:
        """The average duration of each schedule's runs, among the newest few thousand runs."""
        rows = self._db.all("list_durations", namespace=namespace, before=LAST_PLACE, looked=TIMED)
        return {owner: timedelta(seconds=float(mean)) for owner, mean in rows if mean is not None}

    def list_planned(
        self, namespace: str, after: str, limit: int
    ) -> tuple[list[Planned], str | None]:
        """Active schedules by name, and the name to continue after; None: these are all."""
        rows = self._db.all("list_planned", namespace=namespace, after=after, limit=limit)
        planned = []
        for id_, name, spec in rows:
            try:
                planned.append(Planned(id_, name, read_spec(spec, name)))
            except Invalid:  # written by a newer node: its due times cannot be counted here
                continue
        return planned, rows[-1][1] if len(rows) == limit else None

    def list_inhabited(self) -> list[str]:
        """The namespaces that have schedules, by name."""
        return [row[0] for row in self._db.all("list_inhabited", limit=MOST_NAMESPACES)]

    def signal(self, namespace: str) -> tuple[Any, ...]:
        """A cheap value that changes when the contents of a page may have changed."""
        row = self._db.one("get_signal", now=self._db.now) or ()
        return (*row, self._db.value("get_last_place", namespace=namespace))


def _hour(number: int) -> datetime:
    return datetime.fromtimestamp(int(number) * HOUR, UTC)
