"""Inserts runs: those that wait to start, and those that ended with their due time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from duebook.model.plan import LANES, Fire, Plan, Reason, Skip, Snapshot
from duebook.store.sql.rows import NewRun, clean
from duebook.store.sql.statements import Part, Row, Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from duebook.model.event import Draft
    from duebook.store.sql.definitions import Definition, DefinitionReader
    from duebook.store.sql.events import Events
    from duebook.store.sql.lifecycle import Lifecycle
    from duebook.store.sql.wakes import Wakes

__all__ = ["Firing", "NewRuns", "new_run"]

MOST_NODES: Final = 100
"""Names of nodes that a store caches: usually one, that of this process."""
Firing = tuple[str, Plan | Snapshot, Fire]
"""The id of a run, its owner, and its due time."""


class NewRuns(Part):
    """A due time has one run; the unique key rejects a second one."""

    def __init__(
        self,
        db: Statements,
        definitions: DefinitionReader,
        wakes: Wakes,
        events: Events,
        lifecycle: Lifecycle,
    ) -> None:
        super().__init__(db)
        self._definitions = definitions
        self._wakes = wakes
        self._events = events
        self._lifecycle = lifecycle

    def node_of(self, session_id: str | None) -> str | None:
        """The name of a session's node, which never changes."""
        if session_id is None:
            return None
        nodes = self._db.nodes
        name = nodes.get(session_id)
        if name is None:
            name = self._db.value("get_node_name", id=session_id)
            if name is not None:
                if len(nodes) >= MOST_NODES:
                    nodes.clear()
                nodes[session_id] = name
        return name

    def insert(self, rows: Sequence[Row]) -> int:
        """Insert runs, with priorities limited to those of their namespaces; returns how many were
        new."""
        return self._db.insert("insert_run", self._capped(rows) if rows else rows)

    def _capped(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Runs as they are inserted, unless the statement itself lowers their priorities."""
        return rows

    def doubled(self, fires: Sequence[Firing]) -> list[tuple[tuple[str, int], Skip]]:
        """Due times that already had a run: the unique key rejected a second one."""
        ids = [id_ for id_, _, _ in fires]
        missing = {row[0] for row in self._db.all("list_missing_runs", ids=ids)}
        return [
            (
                (plan.schedule_id, plan.version),
                Skip(fire.due_at, fire.due_at, 1, True, Reason.ALREADY_STARTED),
            )
            for id_, plan, fire in fires
            if id_ in missing
        ]

    def insert_ended(
        self,
        fires: Sequence[Firing],
        session_id: str | None,
        payload: str | None = None,
        counted: Mapping[str, int] | None = None,
        requested_by: str | None = None,
    ) -> list[tuple[tuple[str, int], Skip]]:
        """Write runs that have ended, and their events; returns those whose due time had a run.

        The schedules are locked, so that the versions of their events have no gaps.
        """
        wanted = Counter(owner.schedule_id for _, owner, fire in fires if fire.emits)
        now, planned_by = self._db.stamp(self._db.now), self.node_of(session_id)
        asked = payload, requested_by
        rows = [
            self._ended_run(id_, owner, fire, now, (session_id, planned_by), asked)
            for id_, owner, fire in fires
        ]
        doubled: list[tuple[tuple[str, int], Skip]] = []
        if self._db.insert("insert_ended_run", rows) < len(rows):
            doubled = self.doubled(fires)
            kept_out = {(pair[0], skip.due_from) for pair, skip in doubled}
            fires = [f for f in fires if (f[1].schedule_id, f[2].due_at) not in kept_out]
        self._lifecycle.record_run_events([id_ for id_, _, _ in fires])
        drafts = [
            (owner.schedule_id, fire.ended.draft)
            for _, owner, fire in fires
            if fire.ended is not None and fire.ended.draft is not None
        ]
        following = self._count(Counter(id_ for id_, _ in drafts), wanted, counted or {})
        versioned: list[tuple[Draft, str | None, int | None]] = []
        for id_, draft in drafts:
            following[id_] += 1
            versioned.append((draft, f"schedule:{id_}", following[id_]))
        self._events.append(versioned)
        if following and self._db.one("get_any_dependency"):
            self._wakes.wake_dependents(sorted(following))
        return doubled

    def _count(
        self, counts: Counter[str], wanted: Counter[str], counted: Mapping[str, int]
    ) -> dict[str, int]:
        """The versions before those of the given numbers of events. Schedules counted with exactly
        the wanted number are not counted again, only those that now write fewer."""
        last = {id_: version for id_, version in counted.items() if counts[id_] == wanted[id_]}
        more = {
            id_: counts[id_] - (wanted[id_] if id_ in counted else 0)
            for id_ in sorted(wanted)
            if id_ not in last and (counts[id_] or id_ in counted)
        }
        if more:
            last |= dict(self._db.all("count_events", ids=list(more), counts=list(more.values())))
        return {id_: last[id_] - count for id_, count in counts.items()}

    def _ended_run(
        self,
        id_: str,
        owner: Plan | Snapshot,
        fire: Fire,
        now: Any,
        planner: tuple[str | None, str | None],
        asked: tuple[str | None, str | None],
    ) -> Row:
        """The values of `insert_ended_run`: those of a new run, and how it ended. `planner` is a
        session and the name of its node; `asked` is the payload, and who requested it."""
        (session_id, planned_by), (payload, requested_by) = planner, asked
        is_manual = fire.origin == "manual"
        due_at = None if is_manual else self._db.stamp(fire.due_at)
        times = due_at, now, None
        run = new_run(
            id_, self._definitions.of(owner), owner, fire, times, self._db.stamp, planned_by
        )
        if is_manual or fire.wakes or payload is not None or requested_by is not None:
            made = NewRun._make(run)._replace(
                wakes=False, payload=payload, requested_by=requested_by
            )
            run = made._replace(trigger="manual") if is_manual else made
        error = None if fire.ended is None else fire.ended.error
        if error is None:
            return (*run, "succeeded", None, None, session_id, 0, now, now, now)
        return (*run, "failed", "template", clean(error), session_id, 1, now, now, now)


def new_run(
    id_: str,
    definition: Definition,
    owner: Plan | Snapshot,
    fire: Fire,
    times: tuple[Any, Any, Any],
    stamp: Callable[[datetime | None], Any],
    planned_by: str | None,
) -> Row:
    """The values of a NewRun for a due time; its due time, now, and its expiry are already
    converted."""
    due_at, now, expires_at = times
    own = (
        id_,
        owner.schedule_id,
        owner.version,
        due_at,
        fire.origin,
        int(LANES[fire.origin]),
        fire.wakes,
        None,
        now,
        now,
        expires_at,
    )
    nominal_at = fire.nominal_at
    end = None if nominal_at is None else stamp(nominal_at)
    return own + definition.copied + (stamp(fire.since), end, None, planned_by, None)
