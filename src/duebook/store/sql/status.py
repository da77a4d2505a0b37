"""Data for frequent monitoring: each query looks at a bounded number of rows."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Final

from duebook.model.channel import show_address
from duebook.model.serving import ALL, unserved
from duebook.store.health_values import (
    ChannelHealth,
    Health,
    HeldSchedule,
    Inventory,
    Load,
    OpenWindow,
    Overdue,
    WaitingPlace,
    WrongFile,
)
from duebook.store.sql.schema import unfit
from duebook.store.sql.statements import Part, Statements, Values
from duebook.store.values import Broken

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime, timedelta

    from duebook.model.node import LiveNode
    from duebook.store.sql.directories import Directories
    from duebook.store.sql.nodes import Nodes
    from duebook.store.sql.shadow import Shadows

__all__ = ["Status"]

MOST_QUEUES: Final = 1_000
MOST_PLACES: Final = 100
MOST_BROKEN: Final = 1_000
MOST_NAMESPACES: Final = 1_000
MOST_HELD: Final = 1_000
MOST_OPEN: Final = 1_000
MOST_FILES: Final = 1_000
FIRST_RUNS: Final = 100
"""Runs of each queue and namespace that show which tasks are waited for, and schedules of each
namespace that show whether any is active."""


class Status(Part):
    """Load, health and contents of the database."""

    def __init__(
        self, db: Statements, directories: Directories, nodes: Nodes, shadows: Shadows
    ) -> None:
        super().__init__(db)
        self._shadows = shadows
        self._directories = directories
        self._nodes = nodes

    def load(self, most: int) -> Load:
        """What waits and runs in each queue, counting up to `most` queued runs."""
        queues = self._waiting_queues()
        held: dict[str, int] = dict(self._db.all("count_troubles", limit=MOST_HELD))
        each = max(most // len(queues), 1) if queues else most
        return Load(
            now=self._db.now,
            queued={
                queue: self._db.value("count_queued", queue=queue, limit=each) for queue in queues
            },
            running=dict(self._db.all("count_running_by_queue")),
            nodes=tuple(self._nodes.list_nodes()),
            overdue=self._most_overdue(self._db.now),
            broken=held.pop("", 0),
            held=held,
        )

    def health(self, grace: timedelta, namespaces: Collection[str] | None = None) -> Health:
        """Which nodes work on what, and which schedule is overdue by more than `grace`.

        With `namespaces`, only their runs and schedules count.
        """
        queues = self._waiting_queues()
        places = list(islice(self._places(queues, namespaces), MOST_PLACES))
        if namespaces is not None:
            queues = list(dict.fromkeys(queue for queue, _ in places))
        nodes = self._nodes.list_nodes()
        return Health(
            now=self._db.now,
            unfit=self.unfit(),
            nodes=tuple(nodes),
            queues=tuple(queues),
            waiting=tuple(WaitingPlace(*place, self._first_tasks(*place)) for place in places),
            unserved=tuple(self._unserved(nodes, namespaces)),
            overdue=self._most_overdue(self._db.now - grace, namespaces),
            broken=self._broken(namespaces),
            directories=tuple(self._directories.list_directories(namespaces)),
            held=self._held(namespaces),
            windows=tuple(self._open_windows(namespaces)),
            switches=tuple(
                switch
                for switch in self._shadows.list_used()
                if namespaces is None or switch.namespace in namespaces
            ),
            channels=tuple(self._channels(namespaces)),
            files=tuple(self._wrong_files(namespaces)),
        )

    def _wrong_files(self, namespaces: Collection[str] | None) -> Iterator[WrongFile]:
        wanted: Values = {"every": namespaces is None, "namespaces": sorted(namespaces or ())}
        for namespace, place, text, in_use in self._db.all(
            "list_wrong_files", limit=MOST_FILES, **wanted
        ):
            yield WrongFile(namespace, place, json.loads(text)[0], bool(in_use))

    def _unserved(
        self, nodes: Sequence[LiveNode], namespaces: Collection[str] | None
    ) -> Iterator[str]:
        """Usually a worker serves all namespaces, or none is live, and then nothing is searched."""
        serving = [node.namespaces for node in nodes if node.works]
        if not serving or ALL in serving:
            return
        for (namespace,) in self._db.all("list_inhabited", limit=MOST_NAMESPACES):
            wanted = namespaces is None or namespace in namespaces
            if wanted and unserved(namespace, serving) is not None:
                place = {"namespace": namespace, "limit": FIRST_RUNS}
                if self._db.one("get_any_active", **place) is not None:
                    yield namespace

    def _first_tasks(self, queue: str, namespace: str) -> tuple[str, ...]:
        place = {"queue": queue, "namespace": namespace}
        rows = self._db.all("list_first_tasks", limit=FIRST_RUNS, **place)
        return tuple(sorted(task for (task,) in rows))

    def count_statuses(self, after: str, limit: int) -> tuple[dict[str, int], str | None]:
        """The states of up to `limit` schedules by id, and the one to continue after, if any."""
        rows = self._db.all("count_statuses", after=after, limit=limit)
        counts = {status: number for status, number, _ in rows}
        whole = sum(counts.values()) >= limit
        return counts, max(last for *_, last in rows) if whole else None

    def _waiting_queues(self) -> list[str]:
        return [queue for (queue,) in self._db.all("list_waiting_queues", limit=MOST_QUEUES)]

    def _places(
        self, queues: list[str], namespaces: Collection[str] | None
    ) -> Iterator[tuple[str, str]]:
        for queue in queues:
            for (namespace,) in self._db.all("list_namespaces", queue=queue):
                if namespaces is None or namespace in namespaces:
                    yield queue, namespace

    def _most_overdue(
        self, before: datetime, namespaces: Collection[str] | None = None
    ) -> Overdue | None:
        if namespaces is None:
            rows = self._db.all("get_most_overdue", before=before)
        else:
            rows = [
                row
                for namespace in namespaces
                for row in self._db.all("get_most_overdue_in", namespace=namespace, before=before)
            ]
        found = [Overdue(row[0], row[1], self._db.time(row[2])) for row in rows]
        return min(found, key=lambda overdue: overdue.since, default=None)

    def _broken(self, namespaces: Collection[str] | None = None) -> tuple[Broken, ...]:
        rows = self._db.all("list_problems", limit=MOST_BROKEN)
        return tuple(
            Broken(id_, version, name if namespace == "default" else f"{namespace}/{name}", problem)
            for id_, version, namespace, name, problem in rows
            if namespaces is None or namespace in namespaces
        )

    def _open_windows(self, namespaces: Collection[str] | None) -> Iterator[OpenWindow]:
        rows = self._db.all("list_open_windows", now=self._db.now, limit=MOST_OPEN)
        for namespace, name, labels, end_at in rows:
            if namespaces is None or namespace in namespaces:
                yield OpenWindow(namespace, name, json.loads(labels), self._db.time(end_at))

    def _channels(self, namespaces: Collection[str] | None) -> Iterator[ChannelHealth]:
        for namespace, name, options, *health in self._db.all("list_channels", limit=MOST_OPEN):
            if namespaces is None or namespace in namespaces:
                address = show_address(json.loads(options)["channel"])
                yield ChannelHealth(namespace, name, address, *health)

    def _held(self, namespaces: Collection[str] | None = None) -> tuple[HeldSchedule, ...]:
        rows = self._db.all("count_held", limit=MOST_HELD)
        return tuple(
            HeldSchedule(namespace, name, count, self._db.time(since))
            for namespace, name, count, since in rows
            if namespaces is None or namespace in namespaces
        )

    def schema(self) -> int:
        """The newest migration that the database has."""
        return int(self._db.all("get_schema")[0][0])

    def unfit(self) -> str | None:
        """Why this Duebook should not use the schema; None: it may."""
        return unfit(self._db)

    def inventory(self) -> Inventory:
        """The contents of the database, its nodes, and what waits."""
        alive = self._db.all("list_alive", now=self._db.now)
        (runs, entries, log_lines), (ready_at, wake_at) = (
            self._db.all("count_rows")[0],
            self._db.all("get_waiting", now=self._db.now)[0],
        )
        return Inventory(
            now=self._db.now,
            schedules=dict(self._db.all("count_schedules")),
            active_runs=dict(self._db.all("count_active_runs")),
            runs=runs,
            entries=entries,
            log_lines=log_lines,
            nodes=tuple((node, roles, version) for node, roles, _, version in alive),
            waits_since=self._db.time(ready_at),
            wake_at=self._db.time(wake_at),
        )
