"""The tick's part of a transaction: due schedules out, plans in."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.errors import Conflict, NotFound, shorten
from duebook.ids import new_id
from duebook.model.flow_target import FlowTarget
from duebook.model.plan import (
    LANES,
    ActiveRun,
    DueException,
    Fire,
    Lane,
    Owner,
    Plan,
    Reason,
    Skip,
    Snapshot,
    Upstream,
)
from duebook.model.schedule import InvalidSchedule
from duebook.model.unreadable import (
    Salvaged,
    describe_unreadable,
    missing_definition,
    read_spec,
    salvage,
)
from duebook.store.sql.directories import Directories
from duebook.store.sql.flowing import Flowing
from duebook.store.sql.rows import (
    Copied,
    MovedState,
    NewRun,
    clean,
    copied,
    delay_text,
    facts_text,
    read_delay,
    read_stretches,
    stretches_text,
)
from duebook.store.sql.telling import Telling
from duebook.store.values import FIRST, Broken, Mark, News, Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from duebook.model.event import Draft
    from duebook.model.schedule import ScheduleSpec
    from duebook.store.sql.statements import Row, Values

    Firing = tuple[str, Plan | Snapshot, Fire]
    """the id of a run, whose it is, and its due time"""

__all__ = [
    "UNREADABLE_AGAIN",
    "Definition",
    "Definitions",
    "Planning",
    "moved_row",
    "new_run",
    "remember",
    "skips_of",
    "state_row",
]

MOST_KNOWN: Final = 100_000
UNREADABLE_AGAIN: Final = timedelta(minutes=1)


class Definition(NamedTuple):
    """A revision, with what its runs copy from it."""

    name: str
    spec: ScheduleSpec
    copied: Copied
    heeds_runs: bool
    owner: Owner


Definitions = dict[tuple[str, int], Definition]


class Unread(NamedTuple):
    """A revision that this node cannot read."""

    owner: Owner
    name: str
    text: str | None
    """None when it is missing"""
    problem: str

    @property
    def title(self) -> str:
        namespace = self.owner.namespace
        return self.name if namespace == "default" else f"{namespace}/{self.name}"


def remember(known: Definitions, learned: Definitions) -> None:
    """Definitions that a committed transaction read; revisions never change."""
    if len(known) + len(learned) > MOST_KNOWN:
        known.clear()
    known.update(learned)


class Planning(Telling, Flowing, Directories):
    """Takes snapshots of schedules and commits what the planner made of them."""

    _taken = False
    """whether it took what is due: then nobody waits for what it commits but runs"""

    @cached_property
    def _unreadable(self) -> dict[tuple[str, int], Unread]:
        """Definitions that this node cannot read."""
        return {}

    def take(self, limit: int, after: Mark | None = None) -> Taken:
        self._taken = True
        at, id_ = after or FIRST
        rows = self._all("take_due", now=self.now, limit=limit, after=at, after_id=id_)
        last = Mark(self._time(rows[-1][-1]), rows[-1][0]) if len(rows) == limit else None
        snapshots = self._snapshots([row[:-1] for row in rows])
        if len(snapshots) == len(rows):
            return Taken(snapshots, last)
        pairs = ((row[0], row[1]) for row in rows)
        unread = [(pair, self._unreadable[pair]) for pair in pairs if pair in self._unreadable]
        broken = tuple(Broken(*pair, found.title, found.problem) for pair, found in unread)
        again = self.now + UNREADABLE_AGAIN
        self._mark_problems((found.id, found.problem, again) for found in broken)
        return Taken(snapshots, last, broken)

    def mark_problem(self, schedule_id: str, problem: str, wake_at: datetime | None) -> None:
        self._mark_problems([(schedule_id, problem, wake_at)])

    def _mark_problems(self, marks: Iterable[tuple[str, str, datetime | None]]) -> None:
        self._many(
            "mark_problem",
            [
                {"id": id_, "problem": clean(problem), "wake_at": wake_at}
                for id_, problem, wake_at in sorted(marks)
            ],
        )

    def snapshot(self, schedule_id: str) -> Snapshot:
        rows = self._states(schedule_id)
        if not rows:
            raise NotFound(f'schedule "{shorten(schedule_id)}" does not exist, or was deleted')
        snapshots = self._snapshots(rows)
        if not snapshots:
            found = self._unreadable[rows[0][0], rows[0][1]]
            raise Conflict(f'schedule "{found.name}": {found.problem}')
        return snapshots[0]

    def snapshots(self, schedule_ids: Sequence[str]) -> list[Snapshot]:
        return self._snapshots(self._all("take_states", ids=sorted(schedule_ids)))

    def salvage(self, schedule_ids: Sequence[str]) -> list[Salvaged]:
        ids = sorted(schedule_ids)
        rows = self._states(ids[0]) if len(ids) == 1 else self._all("take_states", ids=ids)
        read = self._definitions([(row[0], row[1]) for row in rows])
        rows = [row for row in rows if (row[0], row[1]) not in read]
        found = [self._unreadable[row[0], row[1]] for row in rows]
        kept = [salvage(unread.text, unread.name) for unread in found]
        definitions = [
            Definition(unread.name, spec, copied(unread.owner.namespace, spec), True, unread.owner)
            for unread, (spec, _, _) in zip(found, kept, strict=True)
        ]
        return [
            Salvaged(snapshot, form, problems)
            for snapshot, (_, form, problems) in zip(
                self._standing(rows, definitions), kept, strict=True
            )
        ]

    def _snapshots(self, rows: list[Row]) -> list[Snapshot]:
        if not rows:
            return []
        pairs = [(row[0], row[1]) for row in rows]
        definitions = self._definitions(pairs)
        return self._standing(rows, [definitions.get(pair) for pair in pairs])

    def _standing(self, rows: list[Row], known: Sequence[Definition | None]) -> list[Snapshot]:
        """Schedules as they stand, each with the definition at the same place, if it has one."""
        ids, time = [row[0] for row in rows], self._time
        heeding = [id_ for id_, found in zip(ids, known, strict=True) if found and found.heeds_runs]
        runs = self._all("list_active", ids=heeding) if heeding else []
        active = {row[0]: (_active_run(row, time),) for row in runs}
        exceptions = self._exceptions(ids) if self._one("get_any_exception") else {}
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
            )
            for (id_, version, status, watermark, seen, considered_at, fired, until, delay), (
                definition
            ) in zip(rows, known, strict=True)
            if definition
        ]
        facts = self._facts([s for s in snapshots if not s.spec.plain])
        for id_, unattended in self._unattended(snapshots, self._taken).items():
            facts.setdefault(id_, {})["unattended"] = unattended
        if not facts:
            return snapshots
        return [replace(s, **facts.get(s.schedule_id, {})) for s in snapshots]

    def _facts(self, snapshots: Sequence[Snapshot]) -> dict[str, dict[str, Any]]:
        """The rarer facts, for the schedules whose policies ask for them; each kind at once."""
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
        for row in self._all("list_all_active", ids=ids):
            active[row[0]] = (*active.get(row[0], ()), _active_run(row, self._time))
        return active

    def _settled(self, ids: list[str]) -> Mapping[str, datetime | None]:
        return {id_: self._time(at) for id_, at in self._all("list_settled", ids=ids)}

    def _manual_successes(self, ids: list[str]) -> Mapping[str, ActiveRun | None]:
        rows = self._all("list_by_hand", ids=ids)
        return dict.fromkeys(ids) | {row[0]: _active_run(row, self._time) for row in rows}

    def _upstreams(self, ids: list[str]) -> Mapping[str, dict[str, Upstream]]:
        upstreams: dict[str, dict[str, Upstream]] = {id_: {} for id_ in ids}
        for id_, name, exists, at in self._all("list_upstreams", ids=ids):
            upstreams[id_][name] = Upstream(bool(exists), self._time(at))
        return upstreams

    def _controlled(self, ids: list[str]) -> Mapping[str, datetime | None]:
        rows = self._all("list_controls", ids=ids)
        return dict.fromkeys(ids) | {id_: self._time(until) for id_, until in rows}

    def _exceptions(self, ids: Sequence[str]) -> dict[str, list[DueException]]:
        exceptions: dict[str, list[DueException]] = {}
        for schedule_id, due_at, kind, moved_to in self._all("list_exceptions", ids=ids):
            said = DueException(self._time(due_at), kind, self._time(moved_to))
            exceptions.setdefault(schedule_id, []).append(said)
        return exceptions

    def _definitions(self, pairs: Sequence[tuple[str, int]]) -> Definitions:
        """Name and definition of each pair; revisions never change, so they are read once."""
        known, learned = self._known, self.learned
        if unknown := [pair for pair in pairs if pair not in known and pair not in learned]:
            rows = self._all(
                "list_definitions",
                ids=[id_ for id_, _ in unknown],
                versions=[v for _, v in unknown],
            )
            for id_, version, namespace, name, spec, user in rows:
                try:
                    if spec is None:
                        raise missing_definition()
                    learned[id_, version] = _definition(spec, namespace, name, user)
                except InvalidSchedule as error:  # a newer node may allow what this one does not
                    problem = describe_unreadable(error.problems)
                    owner = Owner(namespace, user)
                    self._unreadable[id_, version] = Unread(owner, name, spec, problem)
        if not learned:
            return known
        return {pair: found for pair in pairs if (found := known.get(pair) or learned.get(pair))}

    def _definition_of(self, owner: Plan | Snapshot) -> Definition:
        """What was read when the schedule was taken."""
        pair = owner.schedule_id, owner.version
        return self._known.get(pair) or self._definitions([pair])[pair]

    def commit(self, plans: Sequence[Plan], session_id: str | None) -> int:
        stamp, now = self._stamp, self._stamp(self.now)
        plans, counted = self._save_states(plans)
        self._many(
            "delete_exception",
            [
                {"schedule_id": plan.schedule_id, "due_at": e.due_at, "kind": e.kind}
                for plan in plans
                for e in plan.used
            ],
        )
        fires: list[Firing] = []
        ended: list[Firing] = []
        skips: list[tuple[tuple[str, int], Skip]] = []
        waited_for: list[str] = []
        for plan in plans:
            for decision in plan.decisions:
                if isinstance(decision, Fire):
                    if decision.ended is None:
                        fires.append((new_id(), plan, decision))
                    else:
                        ended.append((decision.ended.run_id, plan, decision))
                elif isinstance(decision, Skip):
                    skips.append(((plan.schedule_id, plan.version), decision))
                else:
                    waited_for += decision.cancels
        inserted = self._insert_runs(
            [
                new_run(
                    id_,
                    (definition := self._definition_of(plan)),
                    plan,
                    fire,
                    stamp(fire.due_at),
                    now,
                    self._expiry(definition.spec) if definition.spec.expire_after else None,
                )
                for id_, plan, fire in fires
            ],
        )
        doubled = self._doubled(fires) if inserted < len(fires) else []
        if ended:
            doubled += self._end_at_once(ended, session_id, counted=counted)
        self._follow_flows(
            (id_, target.name, dict(target.params))
            for id_, plan, _ in fires
            if isinstance(target := self._definition_of(plan).spec.target, FlowTarget)
        )
        self._save_controls(plans)
        kept_out = {(pair[0], skip.due_from) for pair, skip in doubled}
        replaced = [
            run_id
            for _, plan, fire in fires
            if fire.cancels and (plan.schedule_id, fire.due_at) not in kept_out
            for run_id in fire.cancels
        ]
        for run_id in sorted(replaced + waited_for):  # in the order in which others lock runs
            self._give_way(run_id)
        self._record(skips + doubled, session_id)
        self._notify_of_plans(plans, inserted, bool(skips))
        self._record_plan_events(plans, fires)
        return len(fires) + len(ended) - len(doubled)

    def _save_controls(self, plans: Iterable[Plan]) -> None:
        """Up to where stops and restarts are decided, and those that are to be carried out."""
        controlled = [plan for plan in plans if plan.controlled_until is not None]
        decided: list[Values] = [
            {"schedule_id": plan.schedule_id, "decided_until": plan.controlled_until}
            for plan in controlled
        ]
        self._many("save_controls", decided)
        commands: list[Values] = []
        for plan in controlled:
            definition = self._definition_of(plan)
            target = definition.spec.target
            if plan.command is not None and isinstance(target, FlowTarget):
                commands.append(
                    {
                        "schedule_id": plan.schedule_id,
                        "namespace": definition.owner.namespace,
                        "flow": target.name,
                        "kind": plan.command.kind,
                        "due_at": plan.command.due_at,
                    }
                )
        if commands:
            self._many("insert_command", commands)
            self._notify(News.FLOW)

    def _record_plan_events(self, plans: Sequence[Plan], fires: Sequence[Firing]) -> None:
        """Of what is rare enough to be looked for first."""
        self._record_run_events(
            [id_ for id_, _, fire in fires if fire.origin == "catchup"], "run.late"
        )
        for kind, ids in (
            ("resumed", [plan.schedule_id for plan in plans if plan.resumed]),
            ("completed", [plan.schedule_id for plan in plans if plan.status == "completed"]),
        ):
            self._record_schedule_events(ids, kind)

    def _expiry(self, spec: ScheduleSpec) -> Any:
        return None if spec.expire_after is None else self._stamp(self.now + spec.expire_after)

    def _notify_of_plans(self, plans: Sequence[Plan], inserted: int, skipped: bool) -> None:
        if inserted or skipped:  # a backfill may begin when nothing waits any more
            self._notify(News.WORK)
        if inserted or self._taken:
            return
        if wakes := [plan.wake_at for plan in plans if plan.wake_at]:
            self._notify(News.WAKE, min(wakes))

    def _give_way(self, run_id: str) -> None:
        """A run that a newer due time replaces: it ends, or is asked to."""
        how: Values = {"id": run_id, "now": self.now, "reason": Reason.SUPERSEDED.value}
        if not self._one("cancel_queued_run", **how):
            self._ask_to_end(run_id, Reason.SUPERSEDED.value)
        else:
            self._record_run_events([run_id])

    def _ask_to_end(self, run_id: str, reason: str) -> None:
        """Its owner ends it; that of a run of a flow is whoever advances it."""
        is_flow = self._value("request_cancel", id=run_id, now=self.now, reason=reason)
        if is_flow:
            self._wake_flows([run_id])
        else:
            self._notify(News.CANCEL)

    def _save_states(self, plans: Sequence[Plan]) -> tuple[Sequence[Plan], dict[str, int]]:
        """Write what follows for the schedules; returns the plans of versions still in force, and
        what `_move_states` counted."""
        steady = [plan for plan in plans if plan.status == "active"]
        others = [plan for plan in plans if plan.status != "active"]
        moved, counted = self._move_states(steady)
        if moved < len(steady):
            others = list(plans)  # one was not active before, or has another version
        if self._many("commit_state", map(state_row, others)) < len(others):
            return self._in_force(plans), counted
        return plans, counted

    def _move_states(self, plans: Sequence[Plan]) -> tuple[int, dict[str, int]]:
        """Move active schedules on; returns how many did, and of those whose events it counted at
        the same time the version of the last one."""
        stamp = self._stamp
        return self._rows("move_state", [moved_row(plan, stamp) for plan in plans]), {}

    def _in_force(self, plans: Sequence[Plan]) -> list[Plan]:
        """The plans of definitions that are still the latest ones."""
        ids = [plan.schedule_id for plan in plans]
        versions: dict[str, int] = dict(self._all("list_versions", ids=ids))
        return [plan for plan in plans if versions.get(plan.schedule_id) == plan.version]

    def _doubled(self, fires: Sequence[Firing]) -> list[tuple[tuple[str, int], Skip]]:
        """Due times that had a run already: the unique key kept a second one out."""
        ids = [id_ for id_, _, _ in fires]
        missing = {row[0] for row in self._all("list_missing_runs", ids=ids)}
        return [
            (
                (plan.schedule_id, plan.version),
                Skip(fire.due_at, fire.due_at, 1, True, Reason.ALREADY_STARTED),
            )
            for id_, plan, fire in fires
            if id_ in missing
        ]

    def _end_at_once(
        self,
        fires: Sequence[Firing],
        session_id: str | None,
        payload: str | None = None,
        counted: Mapping[str, int] | None = None,
    ) -> list[tuple[tuple[str, int], Skip]]:
        """Write runs that have ended, and their events; returns those whose due time had a run.

        The schedules are locked, so that the versions of their events have no gaps.
        """
        wanted = Counter(owner.schedule_id for _, owner, fire in fires if fire.emits)
        now = self._stamp(self.now)
        rows = [
            self._ended_run(id_, owner, fire, now, session_id, payload)
            for id_, owner, fire in fires
        ]
        doubled: list[tuple[tuple[str, int], Skip]] = []
        if self._insert("insert_ended_run", rows) < len(rows):
            doubled = self._doubled(fires)
            kept_out = {(pair[0], skip.due_from) for pair, skip in doubled}
            fires = [f for f in fires if (f[1].schedule_id, f[2].due_at) not in kept_out]
        self._record_run_events([id_ for id_, _, _ in fires])
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
        self._append(versioned)
        if following and self._one("get_any_dependency"):
            self._wake_dependents(sorted(following))
        return doubled

    def _insert_runs(self, rows: Sequence[Row]) -> int:
        """New runs, with no higher priority than their namespaces may have; how many there were
        none of yet."""
        return self._insert("insert_run", self._capped(rows) if rows else rows)

    def _capped(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Runs as they are inserted, unless the statement itself lowers their priorities."""
        return rows

    def _count(
        self, counts: Counter[str], wanted: Counter[str], counted: Mapping[str, int]
    ) -> dict[str, int]:
        """The versions before those of so many events; of schedules that were counted, with as
        many as were wanted, only those are counted again that write fewer."""
        last = {id_: version for id_, version in counted.items() if counts[id_] == wanted[id_]}
        more = {
            id_: counts[id_] - (wanted[id_] if id_ in counted else 0)
            for id_ in sorted(wanted)
            if id_ not in last and (counts[id_] or id_ in counted)
        }
        if more:
            last |= dict(self._all("count_events", ids=list(more), counts=list(more.values())))
        return {id_: last[id_] - count for id_, count in counts.items()}

    def _ended_run(
        self,
        id_: str,
        owner: Plan | Snapshot,
        fire: Fire,
        now: Any,
        session_id: str | None,
        payload: str | None,
    ) -> Row:
        """The values of `insert_ended_run`: those of a new run, and how it ended."""
        is_manual = fire.origin == "manual"
        due_at = None if is_manual else self._stamp(fire.due_at)
        run = new_run(id_, self._definition_of(owner), owner, fire, due_at, now, None)
        if is_manual or fire.wakes or payload is not None:
            made = NewRun._make(run)._replace(wakes=False, payload=payload)
            run = made._replace(trigger="manual") if is_manual else made
        error = None if fire.ended is None else fire.ended.error
        if error is None:
            return (*run, "succeeded", None, None, session_id, 0, now, now, now)
        return (*run, "failed", "template", clean(error), session_id, 1, now, now, now)

    def _wake_dependents(self, schedule_ids: Iterable[str]) -> None:
        if self._run("wake_dependents", ids=list(schedule_ids), now=self.now):
            self._notify(News.WAKE)

    def _record(
        self, skips: Sequence[tuple[tuple[str, int], Skip]], session_id: str | None
    ) -> None:
        """Entries for the ledger; one that goes on where the latest ended only prolongs it."""
        common: Values = {"session_id": session_id, "now": self.now}
        rows = [_ledger_row(*pair, skip) | common for pair, skip in skips]
        self._many("insert_ledger", self._extend_ledger(rows))

    def _extend_ledger(self, rows: list[Values]) -> list[Values]:
        """Prolong entries; returns what needs an entry of its own."""
        return [
            row for row in rows if row["follows"] is None or not self._run("extend_ledger", **row)
        ]

    def earliest_wake(self, after: Mark | None = None) -> datetime | None:
        at = (after or FIRST).wake_at
        found: datetime | None = self._time(self._value("get_earliest_wake", after=at))
        return found

    def count_due(self) -> int:
        return int(self._value("count_due", now=self.now))


@lru_cache(maxsize=10_000)
def _definition(text: str, namespace: str, name: str, user: str) -> Definition:
    """Definitions never change, so the same text is read once."""
    spec = read_spec(text, name)
    owner = Owner(namespace, user)
    return Definition(name, spec, copied(namespace, spec), spec.heeds_runs, owner)


def _active_run(row: Row, time: Callable[[Any], Any]) -> ActiveRun:
    _, id_, due_at, since, origin, status, lane = row
    return ActiveRun(id_, time(due_at), time(since), origin, status, Lane(lane))


def moved_row(plan: Plan, stamp: Callable[[datetime | None], Any]) -> Row:
    """The values of a MovedState, which would cost as much again to make."""
    next_due_at = stamp(plan.next_due_at)
    same = plan.wake_at is plan.next_due_at  # mostly, and asking is cheaper than converting
    return (
        stamp(plan.watermark),
        next_due_at,
        next_due_at if same else stamp(plan.wake_at),
        plan.fired,
        stretches_text(plan.seen) if plan.seen else None,
        stamp(plan.considered_at),
        None if plan.delay is None else delay_text(plan.delay),
        plan.schedule_id,
        plan.version,
    )


def state_row(plan: Plan) -> Values:
    nothing = {"paused_at": None, "paused_until": None, "pause_reason": None}
    moved = MovedState._make(moved_row(plan, lambda moment: moment))
    return moved._asdict() | {"status": plan.status} | nothing


def new_run(
    id_: str,
    definition: Definition,
    owner: Plan | Snapshot,
    fire: Fire,
    due_at: Any,
    now: Any,
    expires_at: Any,
) -> Row:
    """The values of a NewRun for a due time; its times are stamped."""
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
    return own + definition.copied


def skips_of(plan: Plan) -> list[tuple[tuple[str, int], Skip]]:
    """What a plan has for the ledger, under whose name."""
    pair = plan.schedule_id, plan.version
    return [(pair, decision) for decision in plan.decisions if isinstance(decision, Skip)]


def _ledger_row(schedule_id: str, version: int, skip: Skip) -> Values:
    return {
        "schedule_id": schedule_id,
        "version": version if skip.version is None else skip.version,
        "due_from": skip.due_from,
        "due_to": skip.due_to,
        "count": skip.count,
        "exact": skip.exact,
        "verdict": skip.verdict,
        "kind": skip.kind,
        "reason": skip.reason.value,
        "facts": facts_text(skip.facts),
        "follows": skip.follows,
    }
