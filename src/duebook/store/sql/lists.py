"""Lists of schedules and runs, a page at a time and by index.

Every query uses one index and a bounded number of rows; other filters are applied here.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.model.celery_target import CELERY
from duebook.model.listing import Found, PagePosition
from duebook.model.serving import unserved
from duebook.store.sql.looking import look
from duebook.store.sql.rows import (
    EARLIEST,
    LAST_PLACE,
    LATEST,
    micros,
    moment,
    read_schedule,
    without_nul,
)
from duebook.store.sql.statements import Ask, Part, Row, Statements, Values

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.filters import RunFilter, ScheduleFilter, ScheduleSort
    from duebook.model.run import Run
    from duebook.model.schedule import Schedule
    from duebook.store.sql.nodes import Nodes
    from duebook.store.sql.runs import Runs
    from duebook.store.sql.schedules import Schedules
    from duebook.store.values import Abilities

    Read = Callable[[PagePosition | None, int], list[Row]]

__all__ = ["Lists"]

SLACK: Final = timedelta(seconds=10)
"""How far the order of creation and the times of creation may differ."""
FEW: Final = 10_000
"""Queued runs that SQLite sorts; if there are more, it looks for them among the newest runs."""
AFTER_NAMES: Final = "{"
"""Sorts after every character of a name."""


_NAMED: Final = ("task", "flow", "celery")
"""Kinds of targets with a name that filters can use."""


class _Seen(NamedTuple):
    """What filters need to know about a schedule."""

    id: str
    name: str
    created_at: datetime
    labels: str
    target: str
    status: str
    next_due_at: datetime | None
    wake_at: datetime | None
    problem: str | None
    namespace: str
    title: str


class _SeenRun(NamedTuple):
    """What filters need to know about a run; `at` is when it was due, or created."""

    id: str
    namespace: str
    status: str
    origin: str
    queue: str
    at: datetime
    place: int


class _Known(NamedTuple):
    """What the workers of a namespace can do."""

    served: bool
    """False: there are live workers, but none serves it"""
    tasks: set[str]


class Lists(Part):
    """Pages of schedules and runs."""

    def __init__(self, db: Statements, schedules: Schedules, runs: Runs, nodes: Nodes) -> None:
        super().__init__(db)
        self._schedules = schedules
        self._runs = runs
        self._nodes = nodes

    def list_schedules(
        self,
        namespace: str,
        wanted: ScheduleFilter,
        sort: ScheduleSort,
        after: PagePosition | None,
        limit: int,
    ) -> Found[Schedule]:
        """Schedules in an order, after a position, each with its latest run."""
        found = self.find_schedules(namespace, wanted, sort, after, limit)
        ids = [id_ for id_, _ in found.rows]
        if not ids:
            return Found([], found.last)
        rows = self._db.together(*self._about(ids))
        return Found(self._with_latest_runs(ids, *rows), found.last)

    def show_schedules(
        self,
        namespace: str,
        wanted: ScheduleFilter,
        sort: ScheduleSort,
        after: PagePosition | None,
        limit: int,
    ) -> tuple[Found[Schedule], Abilities]:
        """Like list_schedules, with the abilities of live workers; must be the last read of a
        transaction."""
        found = self.find_schedules(namespace, wanted, sort, after, limit)
        ids = [id_ for id_, _ in found.rows]
        *rows, workers = self._db.together(*self._about(ids), self._workers(), last=True)
        page = Found(self._with_latest_runs(ids, *rows), found.last)
        return page, self._nodes.read_abilities(workers)

    def show_schedule(self, namespace: str, name: str) -> tuple[Schedule, Abilities] | None:
        """The schedule of that name with its latest run, and the abilities of live workers; must be
        the last read of a transaction."""
        where = {"namespace": namespace, "name": without_nul(name)}
        rows, latest, workers = self._db.together(
            Ask("get_schedule_named", where),
            Ask("get_latest_run_named", where),
            self._workers(),
            last=True,
        )
        if not rows:
            return None
        last_run = self._schedules.read_latest(latest).get(rows[0][0])
        schedule = read_schedule(rows[0], self._db.time, last_run)
        return schedule, self._nodes.read_abilities(workers)

    @staticmethod
    def _about(ids: list[str]) -> list[Ask]:
        return [Ask("list_schedules_by_id", {"ids": ids}), Ask("list_latest_runs", {"ids": ids})]

    def _workers(self) -> Ask:
        return Ask("list_abilities", {"now": self._db.at})

    def _with_latest_runs(
        self, ids: list[str], rows: list[Row], latest_runs: list[Row]
    ) -> list[Schedule]:
        latest, time = self._schedules.read_latest(latest_runs), self._db.time
        found = {row[0]: read_schedule(row, time, latest.get(row[0])) for row in rows}
        return [found[id_] for id_ in ids if id_ in found]

    def find_schedules(
        self,
        namespace: str,
        wanted: ScheduleFilter,
        sort: ScheduleSort,
        after: PagePosition | None,
        limit: int,
    ) -> Found[tuple[str, str]]:
        """Like list_schedules, but only their ids and names."""
        known = None if wanted.problem is None else self._known_here(namespace)

        def matches(row: Row) -> bool:
            seen = _Seen._make(row)
            if wanted.due_before and not self._due_before(seen, wanted.due_before):
                return False
            return seen.namespace == namespace and _matches(seen, wanted, known)

        if sort == "next_due_at":
            found = self._by_wake(namespace, wanted, matches, after, limit)
        else:
            read, place_of = self._reader(namespace, wanted, sort)
            found = look(read, matches, place_of, after, limit)
        return Found([(row[0], row[1]) for row in found.rows], found.last)

    def _known_here(self, namespace: str) -> _Known:
        workers = self._nodes.list_abilities()
        nobody = unserved(namespace, workers.served) is not None
        return _Known(not nobody, workers.tasks_of(namespace))

    def _due_before(self, seen: _Seen, moment: datetime) -> bool:
        due = seen.status == "active" and seen.next_due_at is not None
        return due and bool(self._db.time(seen.next_due_at) < moment)

    def _reader(
        self, namespace: str, wanted: ScheduleFilter, sort: str
    ) -> tuple[Read, Callable[[Row], PagePosition]]:
        if sort in ("created_at", "-created_at"):
            return self._by_age(namespace, "list_by_age" if sort[0] != "-" else "list_by_age_back")
        back = sort == "-name"
        values: Values = {"namespace": namespace}
        query = "list_by_name_back" if back else "list_by_name"
        if wanted.status == "paused" and not back:
            query = "list_paused"  # few of many
        elif wanted.text and wanted.text.isascii():  # SQLite lowers no other letters
            values["text"] = wanted.text
            query = "search_by_name_back" if back else "search_by_name"
        if wanted.labels:
            label, value = wanted.labels[0]
            values = {"namespace": namespace, "label": label, "value": value}
            query = "list_by_label_back" if back else "list_by_label"
        low, high = "", wanted.prefix + AFTER_NAMES
        if wanted.prefix:
            low = wanted.prefix[:-1] + chr(ord(wanted.prefix[-1]) - 1) + AFTER_NAMES

        def read(after: PagePosition | None, most: int) -> list[Row]:
            at = {} if after is None else {"before" if back else "after": after[0]}
            asked = values | {"after": low, "before": high, "limit": most} | at
            return self._db.all(query, **asked)

        return read, lambda row: (row[1],)

    def _by_age(self, namespace: str, query: str) -> tuple[Read, Callable[[Row], PagePosition]]:
        end = (micros(LATEST if query.endswith("back") else EARLIEST), "")

        def read(after: PagePosition | None, most: int) -> list[Row]:
            at, id_ = after or end
            place = {"at": moment(int(at)), "id": id_}
            return self._db.all(query, namespace=namespace, limit=most, **place)

        return read, lambda row: (micros(self._db.time(row[2])), row[0])

    def _by_wake(
        self,
        namespace: str,
        wanted: ScheduleFilter,
        matches: Callable[[Row], bool],
        after: PagePosition | None,
        limit: int,
    ) -> Found[Row]:
        """Those with a wake time, then the others by name."""

        def waking(after: PagePosition | None, most: int) -> list[Row]:
            at, id_ = after or (micros(EARLIEST), "")
            return self._db.all("list_by_wake", at=moment(int(at)), id=id_, limit=most)

        found: Found[Row] = Found([], None)
        if after is None or len(after) == 2:
            found = look(waking, matches, self._wake_place, after, limit)
            if found.last is not None:
                return found
            after = ("",)
            if wanted.due_before:
                return found
            if len(found.rows) == limit:
                return Found(found.rows, after)
        read, place_of = self._reader(namespace, wanted, "name")
        asleep = look(
            read,
            lambda row: row[7] is None and matches(row),
            place_of,
            after,
            limit - len(found.rows),
        )
        return Found([*found.rows, *asleep.rows], asleep.last)

    def _wake_place(self, row: Row) -> PagePosition:
        return micros(self._db.time(row[7])), row[0]

    def list_runs(
        self, namespace: str, wanted: RunFilter, after: PagePosition | None, limit: int
    ) -> Found[Run]:
        """The newest first: for a schedule by due or creation time, for all by creation."""

        def matches(row: Row) -> bool:
            seen = _SeenRun._make(row)
            return seen.namespace == namespace and self._run_matches(seen, wanted)

        if wanted.schedule_id is not None:
            read = self._runs_of(wanted.schedule_id, wanted)
            found = look(read, matches, self._due_place, after, limit)
        else:
            read = self._newest_runs(namespace, wanted)
            found = look(read, matches, lambda row: (row[6],), after, limit)
        return Found(self._runs.get_runs([row[0] for row in found.rows]), found.last)

    def _due_place(self, row: Row) -> PagePosition:
        return micros(self._db.time(row[5])), row[6]

    def _run_matches(self, seen: _SeenRun, wanted: RunFilter) -> bool:
        asked = (wanted.status, wanted.origin, wanted.queue)
        if any(
            value is not None and value != found
            for value, found in zip(asked, seen[2:5], strict=True)
        ):
            return False
        at = self._db.time(seen.at) if wanted.since or wanted.until else LATEST
        return (wanted.since is None or at >= wanted.since) and (
            wanted.until is None or at <= wanted.until
        )

    def _runs_of(self, schedule_id: str, wanted: RunFilter) -> Read:
        def read(after: PagePosition | None, most: int) -> list[Row]:
            at, place = after or (micros(wanted.until or LATEST), LAST_PLACE)
            return self._db.all(
                "list_runs_of",
                schedule_id=schedule_id,
                since=wanted.since or EARLIEST,
                before=moment(int(at)),
                place=place,
                limit=most,
            )

        return read

    def _newest_runs(self, namespace: str, wanted: RunFilter) -> Read:
        query = "list_runs_by_place"
        values: Values = {"namespace": namespace, "first": 0}
        if wanted.flow is not None:
            query = "list_runs_of_flow"
            values["flow"] = wanted.flow
        elif wanted.task is not None:
            query = "list_runs_of_task"
            values["task"] = wanted.task
        elif wanted.status in ("partial", "failed", "cancelled"):
            query = "list_failed_runs"
            values["status"] = wanted.status
        elif wanted.status == "running":
            query = "list_running_runs"
        elif wanted.status == "queued":
            query = "list_queued_runs"
            values["few"] = FEW
        if wanted.since is not None:
            values["first"] = self.place_of(namespace, wanted.since - SLACK)

        def read(after: PagePosition | None, most: int) -> list[Row]:
            before = LAST_PLACE if after is None else after[0]
            if after is None and wanted.until is not None:
                before = self.place_of(namespace, wanted.until + SLACK)
            return self._db.all(query, before=before, limit=most, **values)

        return read

    def place_of(self, namespace: str, at: datetime) -> int:
        """The place of the first run created since `at`, by binary search, which needs no index."""
        low, high = 0, (self._db.value("get_last_place", namespace=namespace) or 0) + 1
        while low < high:
            middle = (low + high) // 2
            row = self._db.one("get_place", namespace=namespace, place=middle)
            if row is None or self._db.time(row[1]) >= at:
                high = middle
            else:
                low = row[0] + 1
        return low


def _matches(seen: _Seen, wanted: ScheduleFilter, known: _Known | None) -> bool:
    if wanted.status is not None and seen.status != wanted.status:
        return False
    if wanted.text not in seen.name and wanted.text not in seen.title.lower():
        return False
    if not seen.name.startswith(wanted.prefix):
        return False
    if wanted.target is not None and not _runs_target(seen.target, wanted.target):
        return False
    if wanted.labels and not set(wanted.labels) <= set(json.loads(seen.labels).items()):
        return False
    return known is None or wanted.problem == _has_problem(seen, known)


def _runs_target(target: str, wanted: str) -> bool:
    return target == wanted or (wanted in _NAMED and target.startswith(f"{wanted}:"))


def _has_problem(seen: _Seen, known: _Known) -> bool:
    if seen.problem is not None:
        return True
    if seen.status != "active":
        return False
    kind, _, task = seen.target.partition(":")
    needed = {"task": task, "celery": CELERY}.get(kind)
    is_unknown = needed is not None and needed not in known.tasks
    return (kind != "event" and not known.served) or is_unknown
