"""Schedules as the planner sees them: their states, with the facts that their policies need."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duebook.model.plan import ActiveRun, DueException, Lane, Snapshot, Upstream, WindowSpan
from duebook.model.shadow import shadow_spans
from duebook.model.window import without_overlap
from duebook.store.sql.rows import read_delay, read_stretches
from duebook.store.sql.shadow import read_switch, switches_of
from duebook.store.sql.statements import Ask, Part, Row, Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from duebook.store.sql.definitions import Definition, DefinitionReader
    from duebook.store.sql.directories import Directories
    from duebook.store.values import FreeWorker

__all__ = ["Snapshots"]


class Snapshots(Part):
    """Reads the facts of many schedules with one statement for each kind."""

    taken = False
    """whether this transaction took due schedules: then its commits interest others only because of
    runs"""
    worker: FreeWorker | None = None
    """may start runs in this transaction"""
    idle: Collection[str] = ()
    """idle schedules whose runs exclude each other; no run of theirs can start before this
    transaction ends"""

    def __init__(
        self, db: Statements, definitions: DefinitionReader, directories: Directories
    ) -> None:
        super().__init__(db)
        self._definitions = definitions
        self._directories = directories

    def read(self, rows: list[Row], said: Row | None = None) -> list[Snapshot]:
        """Schedules by the rows of their states, without those whose definition cannot be read.

        `said` tells, if known, whether any due time has an exception, and whether any window
        exists.
        """
        if not rows:
            return []
        pairs = [(row[0], row[1]) for row in rows]
        runs = self._read_unknown(pairs)
        known = self._definitions.known(pairs)
        return self.combine(rows, [known.get(pair) for pair in pairs], said, runs)

    def _read_unknown(self, pairs: Sequence[tuple[str, int]]) -> list[Row] | None:
        """Read the definitions that are new, and with them the active runs of all schedules whose
        definitions may need them; None when all definitions are known."""
        unknown = self._definitions.unknown(pairs)
        if not unknown:
            return None
        known, new = self._definitions.known(pairs), set(unknown)
        heeding = [pair[0] for pair in pairs if pair in new or known[pair].heeds_runs]
        definitions, runs = self._db.together(
            self._definitions.ask(unknown), Ask("list_active", {"ids": heeding})
        )
        self._definitions.learn(definitions)
        return runs

    def combine(
        self,
        rows: list[Row],
        known: Sequence[Definition | None],
        said: Row | None = None,
        runs: list[Row] | None = None,
    ) -> list[Snapshot]:
        """The current schedules, each with the definition at the same index, if it has one.

        `runs` are their active ones, if already read.
        """
        ids, time = [row[0] for row in rows], self._db.time
        heeding = {id_ for id_, found in zip(ids, known, strict=True) if found and found.heeds_runs}
        if runs is None:
            begin = self._may_begin(zip(ids, known, strict=True))
            runs = self._active(heeding, begin) if heeding else []
        active = {row[0]: (_active_run(row, time),) for row in runs if row[0] in heeding}
        any_exception, any_window = said or self._db.all("get_any_exception")[0]
        exceptions = self.exceptions(ids) if any_exception else {}
        snapshots = [
            Snapshot(
                id_,
                definition.name,
                version,
                definition.spec,
                status,
                time(watermark),
                active.get(id_, ()),
                tuple(exceptions[id_]) if id_ in exceptions else (),
                () if seen is None else read_stretches(seen),
                time(considered_at),
                fired,
                time(until),
                definition.owner,
                None if delay is None else read_delay(delay),
                handover=definition.handover,
            )
            for (id_, version, status, watermark, seen, considered_at, fired, until, delay), (
                definition
            ) in zip(rows, known, strict=True)
            if definition
        ]
        facts = self._facts([s for s in snapshots if not s.spec.plain])
        for id_, unattended in self._directories.unattended(snapshots, self.taken).items():
            facts.setdefault(id_, {})["unattended"] = unattended
        if any_window:
            for id_, name, spans in self._spans(snapshots):
                facts.setdefault(id_, {})[name] = spans
        if not facts:
            return snapshots
        return [replace(s, **facts.get(s.schedule_id, {})) for s in snapshots]

    def _may_begin(self, known: Iterable[tuple[str, Definition | None]]) -> list[str]:
        """Schedules whose runs exclude each other, and could start now if they are idle."""
        if (worker := self.worker) is None:
            return []
        found = [(id_, each.copied) for id_, each in known if each and each.copied.exclusive]
        ids = [id_ for id_, run in found if worker.can_begin(run.queue, run.namespace, run.task)]
        return ids if len(ids) <= worker.free else []

    def _active(self, heeding: Collection[str], begin: list[str]) -> list[Row]:
        """Their active runs; those of the schedules in `begin` are read under the lock that claims
        of such runs take, too."""
        active = Ask("list_active", {"ids": list(heeding)})
        if not begin:
            return self._db.all(active.query, **active.values)
        locked, runs = self._db.together(Ask("lock_exclusive", {"ids": begin}), active)
        self.idle = {id_ for (id_,) in locked} - {row[0] for row in runs}
        return runs

    def _facts(self, snapshots: Sequence[Snapshot]) -> dict[str, dict[str, Any]]:
        """The rarer facts, for the schedules whose policies need them; each kind at once."""
        facts: dict[str, dict[str, Any]] = {s.schedule_id: {} for s in snapshots}
        kinds: tuple[tuple[str, list[Snapshot], Callable[[list[str]], Mapping[str, Any]]], ...] = (
            ("active", [s for s in snapshots if s.spec.overlap == "cancel"], self._all_active),
            ("settled_at", [s for s in snapshots if s.considered_at is not None], self._settled),
            (
                "manual_success",
                [s for s in snapshots if s.spec.skip_if_successful],
                self._manual_successes,
            ),
            ("upstreams", [s for s in snapshots if s.spec.depends_on], self._upstreams),
            ("controlled_until", [s for s in snapshots if s.spec.controlled], self._controlled),
        )
        for name, asking, read in kinds:
            ids = [snapshot.schedule_id for snapshot in asking]
            found = read(ids) if ids else {}
            for id_, fact in found.items():
                facts[id_][name] = fact
        return facts

    def _all_active(self, ids: list[str]) -> Mapping[str, tuple[ActiveRun, ...]]:
        active: dict[str, tuple[ActiveRun, ...]] = {}
        for row in self._db.all("list_all_active", ids=ids):
            active[row[0]] = (*active.get(row[0], ()), _active_run(row, self._db.time))
        return active

    def _settled(self, ids: list[str]) -> Mapping[str, datetime | None]:
        return {id_: self._db.time(at) for id_, at in self._db.all("list_settled", ids=ids)}

    def _manual_successes(self, ids: list[str]) -> Mapping[str, ActiveRun | None]:
        rows = self._db.all("list_by_hand", ids=ids)
        return dict.fromkeys(ids) | {row[0]: _active_run(row, self._db.time) for row in rows}

    def _upstreams(self, ids: list[str]) -> Mapping[str, dict[str, Upstream]]:
        upstreams: dict[str, dict[str, Upstream]] = {id_: {} for id_ in ids}
        for id_, name, exists, at in self._db.all("list_upstreams", ids=ids):
            upstreams[id_][name] = Upstream(bool(exists), self._db.time(at))
        return upstreams

    def _controlled(self, ids: list[str]) -> Mapping[str, datetime | None]:
        rows = self._db.all("list_controls", ids=ids)
        return dict.fromkeys(ids) | {id_: self._db.time(until) for id_, until in rows}

    def _spans(self, snapshots: Sequence[Snapshot]) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
        """The windows of schedules that have one now or later, or have undecided due times in one;
        and when they are in shadow mode."""
        since = min((one.decided_until(self._db.now) for one in snapshots), default=self._db.now)
        wanted = sorted({snapshot.owner.namespace for snapshot in snapshots})
        recent = {"namespaces": wanted, "since": min(since, self._db.now)}
        rows, switched = self._db.together(Ask("list_recent_windows", recent), switches_of(wanted))
        for id_, windows in self._windows(snapshots, rows).items():
            yield id_, "windows", windows
        switches = [read_switch(row, self._db.time) for row in switched]
        for snapshot in snapshots if switches else ():
            own = [one for one in switches if one.namespace == snapshot.owner.namespace]
            if spans := shadow_spans(own, snapshot.name, dict(snapshot.spec.labels)):
                yield snapshot.schedule_id, "shadows", spans

    def _windows(
        self, snapshots: Sequence[Snapshot], rows: Sequence[Row]
    ) -> dict[str, tuple[WindowSpan, ...]]:
        planned = [
            (namespace, json.loads(labels).items(), WindowSpan(name, time(start_at), time(end_at)))
            for time in (self._db.time,)
            for namespace, name, labels, start_at, end_at in rows
        ]
        found: dict[str, tuple[WindowSpan, ...]] = {}
        for snapshot in snapshots if planned else ():
            labels = set(snapshot.spec.labels)
            own = [
                w
                for space, wanted, w in planned
                if space == snapshot.owner.namespace and labels.issuperset(wanted)
            ]
            if own:
                found[snapshot.schedule_id] = without_overlap(own)
        return found

    def exceptions(self, ids: Sequence[str]) -> dict[str, list[DueException]]:
        """Exceptions of due times, by schedule."""
        exceptions: dict[str, list[DueException]] = {}
        time = self._db.time
        for schedule_id, due_at, kind, to, origin in self._db.all("list_exceptions", ids=ids):
            said = DueException(time(due_at), kind, time(to), time(origin))
            exceptions.setdefault(schedule_id, []).append(said)
        return exceptions


def _active_run(row: Row, time: Callable[[Any], Any]) -> ActiveRun:
    _, id_, due_at, since, origin, status, lane = row
    return ActiveRun(id_, time(due_at), time(since), origin, status, Lane(lane))
