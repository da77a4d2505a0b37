"""The tick's part of a SQLite transaction: due schedules out, plans in."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.ids import new_id
from duebook.model.plan import (
    ActiveRun,
    DueException,
    Fire,
    Plan,
    Reason,
    Skip,
    Snapshot,
    Upstream,
)
from duebook.store.sqlite.rows import (
    Copied,
    MovedState,
    NewRun,
    clean,
    copied,
    facts_text,
    from_micros,
    micros,
    micros_of,
    moment,
    read_spec,
    read_stretches,
    stretches_text,
    to_micros,
)
from duebook.store.sqlite.statements import Row, Statements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.schedule import ScheduleSpec

__all__ = ["UNREADABLE_AGAIN", "Definitions", "Planning", "new_run", "skips_of", "state_row"]

MOST_KNOWN: Final = 100_000
UNREADABLE_AGAIN: Final = timedelta(minutes=1)


class Definition(NamedTuple):
    """A revision, with what its runs copy from it."""

    name: str
    spec: ScheduleSpec
    expire_after: int | None
    copied: Copied


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
        active = {row[0]: (_active_run(row),) for row in self._all("list_active", ids=ids)}
        exceptions = self._exceptions(ids) if self._one("get_any_exception") else {}
        snapshots = [
            Snapshot(
                id_,
                definition.name,
                version,
                definition.spec,
                status,
                moment(watermark),
                active.get(id_, ()),
                tuple(exceptions[id_]) if id_ in exceptions else (),
                read_stretches(seen) if seen else (),
                from_micros(considered_at),
                fired=fired,
                paused_until=from_micros(paused_until),
            )
            for id_, version, status, watermark, seen, considered_at, fired, paused_until in rows
            if (definition := definitions.get((id_, version)))
        ]
        return [s if s.spec.plain else self._with_facts(s) for s in snapshots]

    def _with_facts(self, snapshot: Snapshot) -> Snapshot:
        """The rarer facts, for the schedules whose policies ask for them."""
        spec, ids = snapshot.spec, json.dumps([snapshot.schedule_id])
        facts: dict[str, Any] = {}
        if spec.overlap == "cancel":
            facts["active"] = tuple(map(_active_run, self._all("list_all_active", ids=ids)))
        if snapshot.considered_at is not None:
            facts["settled_at"] = from_micros(self._all("list_settled", ids=ids)[0][1])
        if spec.skip_if_successful:
            found = [_active_run(row) for row in self._all("list_by_hand", ids=ids)]
            facts["by_hand"] = found[0] if found else None
        if spec.depends_on:
            facts["upstreams"] = {
                name: Upstream(bool(exists), from_micros(succeeded_at))
                for _, name, exists, succeeded_at in self._all("list_upstreams", ids=ids)
            }
        return replace(snapshot, **facts)

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

    def _definition_of(self, owner: Plan | Snapshot) -> Definition:
        """What was read when the schedule was taken."""
        pair = owner.schedule_id, owner.version
        return self._known.get(pair) or self._definitions([pair])[pair]

    def commit(self, plans: Sequence[Plan], session_id: str | None) -> int:
        now = micros(self.now)
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
        for _, _, fire in fires:
            for run_id in fire.cancels:
                self._give_way(run_id)
        inserted = self._insert(
            "insert_run",
            [new_run(id_, self._definition_of(plan), plan, fire, now) for id_, plan, fire in fires],
        )
        doubled = self._doubled(fires) if inserted < len(fires) else []
        self._record([skip for plan in plans for skip in skips_of(plan)] + doubled, session_id)
        return inserted

    def _give_way(self, run_id: str) -> None:
        """A run that a newer due time replaces: it ends, or is asked to."""
        now = to_micros(self.now)
        if not self._one("cancel_queued_run", id=run_id, now=now, reason=Reason.SUPERSEDED):
            self._run("request_cancel", id=run_id, now=now, reason=Reason.SUPERSEDED)

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

    def _doubled(self, fires: list[tuple[str, Plan, Fire]]) -> list[tuple[tuple[str, int], Skip]]:
        """Due times that had a run already: the unique key kept a second one out."""
        ids = json.dumps([id_ for id_, _, _ in fires])
        missing = {row[0] for row in self._all("list_missing_runs", ids=ids)}
        return [
            (
                (plan.schedule_id, plan.version),
                Skip(fire.due_at, fire.due_at, 1, True, Reason.ALREADY_STARTED),
            )
            for id_, plan, fire in fires
            if id_ in missing
        ]

    def _record(
        self, skips: Sequence[tuple[tuple[str, int], Skip]], session_id: str | None
    ) -> None:
        """Entries for the ledger; one that goes on where the latest ended only prolongs it."""
        common = {"session_id": session_id, "now": to_micros(self.now)}
        rows = [_ledger_row(*pair, skip) | common for pair, skip in skips]
        new = [
            row
            for row in rows
            if row["follows"] is None or not self._run("extend_ledger", **row).rowcount
        ]
        self._many("insert_ledger", new)

    def earliest_wake(self) -> datetime | None:
        return from_micros(self._value("get_earliest_wake"))


@lru_cache(maxsize=10_000)
def _definition(text: str, namespace: str, name: str) -> Definition:
    """Definitions never change, so the same text is read once."""
    spec = read_spec(text, name)
    return Definition(name, spec, micros_of(spec.expire_after), copied(namespace, spec))


def _active_run(row: Row) -> ActiveRun:
    _, id_, due_at, since, origin, status = row
    return ActiveRun(id_, from_micros(due_at), moment(since), origin, status)


def _moved(plan: Plan) -> MovedState:
    next_due_at = to_micros(plan.next_due_at)
    same = plan.wake_at is plan.next_due_at  # mostly, and asking is cheaper than converting
    return MovedState(
        micros(plan.watermark),
        next_due_at,
        next_due_at if same else to_micros(plan.wake_at),
        plan.problem,
        plan.fired,
        stretches_text(plan.seen) if plan.seen else None,
        to_micros(plan.considered_at),
        plan.schedule_id,
        plan.version,
    )


def state_row(plan: Plan) -> dict[str, object]:
    nothing = {"paused_at": None, "paused_until": None, "pause_reason": None}
    return _moved(plan)._asdict() | {"status": plan.status} | nothing


def new_run(
    id_: str, definition: Definition, owner: Plan | Snapshot, fire: Fire, now: int
) -> NewRun:
    expire_after = definition.expire_after
    return NewRun(
        id_,
        owner.schedule_id,
        owner.version,
        to_micros(fire.due_at),
        fire.origin,
        fire.wakes,
        None,
        now,
        now,
        None if expire_after is None else now + expire_after,
        *definition.copied,
    )


def skips_of(plan: Plan) -> list[tuple[tuple[str, int], Skip]]:
    """What a plan has for the ledger, under whose name."""
    pair = plan.schedule_id, plan.version
    return [(pair, decision) for decision in plan.decisions if isinstance(decision, Skip)]


def _ledger_row(schedule_id: str, version: int, skip: Skip) -> dict[str, object]:
    return {
        "schedule_id": schedule_id,
        "version": version,
        "due_from": to_micros(skip.due_from),
        "due_to": to_micros(skip.due_to),
        "count": skip.count,
        "exact": skip.exact,
        "reason": skip.reason,
        "facts": facts_text(skip.facts),
        "follows": to_micros(skip.follows),
    }
