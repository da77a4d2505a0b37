"""The tick's part of a SQLite transaction: due schedules out, plans in."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.ids import new_id
from duebook.model.plan import ActiveRun, DueException, Fire, Plan, Reason, Skip, Snapshot
from duebook.store.sqlite.rows import (
    MovedState,
    NewRun,
    clean,
    facts_text,
    from_micros,
    moment,
    read_spec,
    to_micros,
)
from duebook.store.sqlite.statements import Row, Statements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.schedule import ScheduleSpec

__all__ = ["UNREADABLE_AGAIN", "Definitions", "Planning", "ledger_row", "state_row"]

MOST_KNOWN: Final = 100_000
UNREADABLE_AGAIN: Final = timedelta(minutes=1)


class Definition(NamedTuple):
    """A revision, with whose it is."""

    namespace: str
    name: str
    spec: ScheduleSpec
    trigger: str
    """what its runs say about where they come from"""


Definitions = dict[tuple[str, int], Definition]


class Planning(Statements):
    """Takes snapshots of schedules and commits what the planner made of them."""

    @cached_property
    def _unreadable(self) -> dict[tuple[str, int], str]:
        """Definitions that this node cannot read, and why."""
        return {}

    def take(self, limit: int) -> list[Snapshot]:
        snapshots = self._snapshots(self._all("take_due", now=to_micros(self.now), limit=limit))
        later = to_micros(self.now + UNREADABLE_AGAIN)
        for (id_, _), problem in self._unreadable.items():
            self._run("mark_problem", id=id_, problem=clean(problem), wake_at=later)
        return snapshots

    def snapshot(self, schedule_id: str) -> Snapshot:
        rows = self._all("get_state", id=schedule_id)
        if not rows:
            raise NotFound(f'schedule "{shorten(schedule_id)}" does not exist, or was deleted')
        snapshots = self._snapshots(rows)
        if not snapshots:
            raise Conflict(
                f"the definition cannot be read: {next(iter(self._unreadable.values()))}"
            )
        return snapshots[0]

    def _snapshots(self, rows: list[Row]) -> list[Snapshot]:
        ids = json.dumps([row[0] for row in rows])
        definitions = self._definitions([(row[0], row[1]) for row in rows])
        active = {
            row[0]: (ActiveRun(row[1], from_micros(row[2]), moment(row[3])),)
            for row in self._all("list_active", ids=ids)
        }
        exceptions = self._exceptions(ids) if self._one("get_any_exception") else {}
        return [
            Snapshot(
                id_,
                definition.name,
                version,
                definition.spec,
                status,
                moment(watermark),
                active.get(id_, ()),
                tuple(exceptions[id_]) if id_ in exceptions else (),
            )
            for id_, version, status, watermark in rows
            if (definition := definitions.get((id_, version)))
        ]

    def _exceptions(self, ids: str) -> dict[str, list[DueException]]:
        exceptions: dict[str, list[DueException]] = {}
        for schedule_id, due_at, kind, moved_to in self._all("list_exceptions", ids=ids):
            said = DueException(moment(due_at), kind, from_micros(moved_to))
            exceptions.setdefault(schedule_id, []).append(said)
        return exceptions

    def _definitions(self, pairs: list[tuple[str, int]]) -> Definitions:
        """Name and definition of each pair; revisions never change, so they are read once."""
        unknown = [pair for pair in pairs if pair not in self._known]
        if unknown:
            if len(self._known) + len(unknown) > MOST_KNOWN:
                self._known.clear()
                unknown = pairs
            rows = self._all("list_definitions", pairs=json.dumps(unknown))
            for id_, version, namespace, name, spec in rows:
                try:
                    self._known[id_, version] = _definition(spec, namespace, name)
                except Invalid as error:  # a newer node may allow what this one does not know
                    self._unreadable[id_, version] = str(error)
        return self._known

    def commit(self, plans: Sequence[Plan], session_id: str | None) -> int:
        now = to_micros(self.now)
        plans = self._save_states(plans)
        self._many(
            "delete_exception",
            [
                {"schedule_id": plan.schedule_id, "due_at": to_micros(e.due_at), "kind": e.kind}
                for plan in plans
                for e in plan.used
            ],
        )
        fires = [
            (new_id(), plan, decision)
            for plan in plans
            for decision in plan.decisions
            if isinstance(decision, Fire)
        ]
        specs = self._definitions([(plan.schedule_id, plan.version) for plan in plans])
        inserted = self._insert(
            "insert_run",
            [
                _new_run(id_, specs[plan.schedule_id, plan.version], plan, fire, now)
                for id_, plan, fire in fires
            ],
        )
        doubled = self._doubled(fires) if inserted < len(fires) else []
        self._record(plans, doubled, session_id, now)
        return inserted

    def _save_states(self, plans: Sequence[Plan]) -> Sequence[Plan]:
        """Write what follows for the schedules; returns the plans of versions still in force."""
        steady = [plan for plan in plans if plan.status == "active"]
        others = [plan for plan in plans if plan.status != "active"]
        if self._rows("move_state", map(_moved, steady)) < len(steady):
            others = list(plans)  # one was not active before, or has another version
        if self._many("commit_state", map(state_row, others)) < len(others):
            return self._in_force(plans)
        return plans

    def _in_force(self, plans: Sequence[Plan]) -> list[Plan]:
        """The plans of definitions that are still the latest ones."""
        ids = json.dumps([plan.schedule_id for plan in plans])
        versions: dict[str, int] = dict(self._all("list_versions", ids=ids))
        return [plan for plan in plans if versions.get(plan.schedule_id) == plan.version]

    def _doubled(self, fires: list[tuple[str, Plan, Fire]]) -> list[tuple[Plan, Skip]]:
        """Due times that had a run already: the unique key kept a second one out."""
        ids = json.dumps([id_ for id_, _, _ in fires])
        missing = {row[0] for row in self._all("list_missing_runs", ids=ids)}
        return [
            (plan, Skip(fire.due_at, fire.due_at, 1, True, Reason.ALREADY_STARTED))
            for id_, plan, fire in fires
            if id_ in missing
        ]

    def _record(
        self,
        plans: Sequence[Plan],
        doubled: list[tuple[Plan, Skip]],
        session_id: str | None,
        now: int | None,
    ) -> None:
        skips = [(p, d) for p in plans for d in p.decisions if isinstance(d, Skip)]
        self._many(
            "insert_ledger",
            (
                ledger_row(plan.schedule_id, plan.version, skip)
                | {"session_id": session_id, "now": now}
                for plan, skip in skips + doubled
            ),
        )

    def earliest_wake(self) -> datetime | None:
        return from_micros(self._value("get_earliest_wake"))


@lru_cache(maxsize=10_000)
def _definition(text: str, namespace: str, name: str) -> Definition:
    """Definitions never change, so the same text is read once."""
    spec = read_spec(text, name)
    return Definition(namespace, name, spec, f"schedule:{spec.trigger_text}")


def _moved(plan: Plan) -> MovedState:
    return MovedState(
        to_micros(plan.watermark),
        to_micros(plan.next_due_at),
        to_micros(plan.wake_at),
        plan.problem,
        plan.schedule_id,
        plan.version,
    )


def state_row(plan: Plan) -> dict[str, object]:
    unpaused = {"status": plan.status, "paused_at": None, "pause_reason": None}
    return _moved(plan)._asdict() | unpaused


def _new_run(id_: str, definition: Definition, plan: Plan, fire: Fire, now: int | None) -> NewRun:
    """A run takes over from its definition what claims and takeovers ask for."""
    spec = definition.spec
    return NewRun(
        id_,
        definition.namespace,
        plan.schedule_id,
        plan.version,
        to_micros(fire.due_at),
        fire.origin,
        definition.trigger,
        spec.queue,
        spec.priority,
        spec.overlap != "allow",
        fire.wakes,
        spec.max_takeovers,
        None,
        now,
        now,
    )


def ledger_row(schedule_id: str, version: int, skip: Skip) -> dict[str, object]:
    return {
        "schedule_id": schedule_id,
        "version": version,
        "due_from": to_micros(skip.due_from),
        "due_to": to_micros(skip.due_to),
        "count": skip.count,
        "exact": skip.exact,
        "reason": skip.reason,
        "facts": facts_text(skip.facts),
    }
