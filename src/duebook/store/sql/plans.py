"""The tick's part of a transaction: due schedules out, plans in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.errors import Conflict, NotFound, shorten
from duebook.ids import new_id
from duebook.model.flow_target import FlowTarget
from duebook.model.plan import Fire, Hold, Plan, Reason, Skip, Snapshot
from duebook.model.unreadable import Salvaged, salvage
from duebook.store.sql.definitions import UNREADABLE_AGAIN, Definition, DefinitionReader
from duebook.store.sql.held import held_row
from duebook.store.sql.new_runs import Firing, NewRuns, new_run
from duebook.store.sql.rows import MovedState, clean, copied, delay_text, stretches_text
from duebook.store.sql.statements import Ask, Part, Row, Statements, Values
from duebook.store.values import FIRST, Broken, Mark, News, Taken
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import datetime

    from duebook.model.run import Claim
    from duebook.store.sql.ledger import Ledger
    from duebook.store.sql.lifecycle import Lifecycle
    from duebook.store.sql.run_ends import RunEnds
    from duebook.store.sql.snapshots import Snapshots
    from duebook.store.sql.wakes import Wakes
    from duebook.store.values import FreeWorker

__all__ = ["Plans", "moved_row"]


_MISSED: Final = (Reason.MISSED, Reason.COALESCED, Reason.EXPIRED)


class Decided(NamedTuple):
    """The decisions of plans, by their effect."""

    fires: list[Firing]
    ended: list[Firing]
    """runs that ended with their due time"""
    skips: list[tuple[tuple[str, int], Skip]]
    waited_for: list[str]
    """runs to cancel, because a due time waits for that"""
    holds: list[tuple[tuple[str, int], Hold]]
    """due times that wait for an operator"""


class Plans(Part):
    """Takes snapshots of schedules and commits the planner's plans."""

    _held_active: Collection[tuple[str, int]] = ()
    """active schedules, by id and version, that this transaction has locked but not moved yet"""
    worker: FreeWorker | None = None
    """starts committed runs as far as it can, if the database can do both at once; set it before
    schedules are taken"""
    claims: Sequence[Claim] = ()
    """what `worker` received in this transaction"""

    def __init__(
        self,
        db: Statements,
        definitions: DefinitionReader,
        wakes: Wakes,
        lifecycle: Lifecycle,
        ends: RunEnds,
        snapshots: Snapshots,
        ledger: Ledger,
        new_runs: NewRuns,
    ) -> None:
        super().__init__(db)
        self._definitions = definitions
        self._wakes = wakes
        self._lifecycle = lifecycle
        self._ends = ends
        self._snapshots = snapshots
        self._ledger = ledger
        self._new_runs = new_runs

    def take(self, limit: int, after: Mark | None = None) -> Taken:
        """Up to `limit` active schedules whose wake time has come, the most overdue first.

        They stay locked until the transaction ends. Those whose definition this node cannot read
        are returned separately: they show their problem, and are looked at again later. `after` is
        a hint: nothing before it needs to be found.
        """
        self._snapshots.taken = True
        self._snapshots.worker = self.worker
        at, id_ = after or FIRST
        due: Values = {"now": self._db.at, "limit": limit, "after": at, "after_id": id_}
        rows, said = self._db.together(Ask("take_due", due), Ask("get_any_exception", {}))
        last = Mark(self._db.time(rows[-1][-1]), rows[-1][0]) if len(rows) == limit else None
        self._held_active = {(row[0], row[1]) for row in rows if row[2] == "active"}
        snapshots = self._snapshots.read([row[:-1] for row in rows], said[0])
        if len(snapshots) == len(rows):
            return Taken(snapshots, last)
        pairs = ((row[0], row[1]) for row in rows)
        unread = [
            (pair, self._definitions.unreadable[pair])
            for pair in pairs
            if pair in self._definitions.unreadable
        ]
        broken = tuple(Broken(*pair, found.title, found.problem) for pair, found in unread)
        again = self._db.now + UNREADABLE_AGAIN
        self._mark_problems((found.id, found.problem, again) for found in broken)
        return Taken(snapshots, last, broken)

    def mark_problem(self, schedule_id: str, problem: str, wake_at: datetime | None) -> None:
        """Show the problem of a schedule that cannot be planned; look again at `wake_at`, or not
        before it is resumed."""
        self._mark_problems([(schedule_id, problem, wake_at)])

    def _mark_problems(self, marks: Iterable[tuple[str, str, datetime | None]]) -> None:
        self._db.many(
            "mark_problem",
            [
                {"id": id_, "problem": clean(problem), "wake_at": wake_at}
                for id_, problem, wake_at in sorted(marks)
            ],
        )

    def snapshot(self, schedule_id: str) -> Snapshot:
        """One schedule, locked, as the planner sees it."""
        rows = self._db.lock_state(schedule_id)
        if not rows:
            raise NotFound(f'schedule "{shorten(schedule_id)}" does not exist, or was deleted')
        snapshots = self._snapshots.read(rows)
        if not snapshots:
            found = self._definitions.unreadable[rows[0][0], rows[0][1]]
            raise Conflict(f'schedule "{found.name}": {found.problem}')
        return snapshots[0]

    def lock(self, schedule_ids: Sequence[str]) -> None:
        """Lock schedules until this transaction ends, in the common lock order."""
        self._db.lock_states(sorted(schedule_ids))

    def snapshots(self, schedule_ids: Sequence[str]) -> list[Snapshot]:
        """Like `snapshot`, for those that are not deleted and can be read, by id."""
        return self._snapshots.read(self._db.lock_states(sorted(schedule_ids)))

    def list_snapshots(
        self, namespace: str, after: str, limit: int
    ) -> tuple[list[Snapshot], str | None]:
        """Readable schedules by name, not locked; and the name to continue after, None: these are
        all."""
        rows = self._db.all("list_states_by_name", namespace=namespace, after=after, limit=limit)
        found = self._snapshots.read([row[:-1] for row in rows])
        return found, rows[-1][-1] if len(rows) == limit else None

    def salvage(self, schedule_ids: Sequence[str]) -> list[Salvaged]:
        """Schedules whose definitions this node cannot read, locked, by id, with the readable
        parts."""
        ids = sorted(schedule_ids)
        rows = self._db.lock_state(ids[0]) if len(ids) == 1 else self._db.lock_states(ids)
        read = self._definitions.read([(row[0], row[1]) for row in rows])
        rows = [row for row in rows if (row[0], row[1]) not in read]
        found = [self._definitions.unreadable[row[0], row[1]] for row in rows]
        kept = [salvage(unread.text, unread.name) for unread in found]
        definitions = [
            Definition(
                unread.name,
                spec,
                copied(unread.owner.namespace, spec),
                True,
                unread.owner,
                unread.handover,
            )
            for unread, (spec, _, _) in zip(found, kept, strict=True)
        ]
        return [
            Salvaged(snapshot, form, problems)
            for snapshot, (_, form, problems) in zip(
                self._snapshots.combine(rows, definitions), kept, strict=True
            )
        ]

    def commit(self, plans: Sequence[Plan], session_id: str | None) -> int:
        """Write runs, ledger entries and the schedules' new state; returns the number of runs.

        A due time that has a run already becomes a ledger entry (`already_started`). A plan for a
        version that is no longer current changes nothing.
        """
        plans, counted = self._save_states(plans)
        self._db.many(
            "delete_exception",
            [
                {"schedule_id": plan.schedule_id, "due_at": e.due_at, "kind": e.kind}
                for plan in plans
                for e in plan.used
            ],
        )
        fires, ended, skips, waited_for, holds = _by_outcome(plans)
        inserted = self._insert_runs(fires, session_id) if fires else 0
        doubled = self._new_runs.doubled(fires) if inserted < len(fires) else []
        if ended:
            doubled += self._new_runs.insert_ended(ended, session_id, counted=counted)
        self._wakes.follow_flows(
            (id_, target.name, dict(target.params))
            for id_, plan, _ in fires
            if isinstance(target := self._definitions.of(plan).spec.target, FlowTarget)
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
        self._ledger.add(skips + doubled, session_id)
        if holds:
            self._hold(holds)
        self._notify_of_plans(plans, inserted, bool(skips))
        self._record_plan_events(plans, fires)
        if skips:
            self._tell_missed(skips)
        return len(fires) + len(ended) - len(doubled)

    def _hold(self, holds: Sequence[tuple[tuple[str, int], Hold]]) -> None:
        """Set missed due times aside until an operator decides, and report it."""
        now, told = self._db.now, dict[str, Values]()
        self._db.many("insert_held", [held_row(*pair, hold, now) for pair, hold in holds])
        for (id_, _), hold in holds:
            first, last = format_instant(hold.due_from), format_instant(hold.due_to)
            about = told.setdefault(id_, {"due_from": first, "due_to": last, "count": 0})
            ends = min(about["due_from"], first), max(about["due_to"], last)
            told[id_] = dict(zip(about, (*ends, about["count"] + hold.count), strict=True))
        self._lifecycle.record_schedule_events(list(told), "catchup_held", told)

    def _insert_runs(self, fires: Sequence[Firing], session_id: str | None) -> int:
        """Returns how many due times had no run yet."""
        stamp, at, definition_of = self._db.stamp, self._db.now, self._definitions.of
        now, node, rows = stamp(at), self._new_runs.node_of(session_id), []
        for id_, plan, fire in fires:
            definition = definition_of(plan)
            expires = definition.spec.expire_after
            expires_at = stamp(at + expires) if expires else None
            times = stamp(fire.due_at), now, expires_at
            rows.append(new_run(id_, definition, plan, fire, times, stamp, node))
        return self._insert_rows(fires, rows)

    def _insert_rows(self, fires: Sequence[Firing], rows: Sequence[Row]) -> int:
        """Returns how many of these runs were inserted."""
        del fires
        return self._new_runs.insert(rows)

    def _save_controls(self, plans: Iterable[Plan]) -> None:
        """Up to where stops and restarts are decided, and those to be carried out."""
        controlled = [plan for plan in plans if plan.controlled_until is not None]
        decided: list[Values] = [
            {"schedule_id": plan.schedule_id, "decided_until": plan.controlled_until}
            for plan in controlled
        ]
        self._db.many("save_controls", decided)
        commands: list[Values] = []
        for plan in controlled:
            definition = self._definitions.of(plan)
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
            self._db.many("insert_command", commands)
            self._db.notify(News.FLOW)

    def _record_plan_events(self, plans: Sequence[Plan], fires: Sequence[Firing]) -> None:
        """Events about what is rare enough to be searched for first."""
        self._lifecycle.record_run_events(
            [id_ for id_, _, fire in fires if fire.origin == "catchup"], "run.late"
        )
        for kind, ids in (
            ("resumed", [plan.schedule_id for plan in plans if plan.resumed]),
            ("completed", [plan.schedule_id for plan in plans if plan.status == "completed"]),
        ):
            self._lifecycle.record_schedule_events(ids, kind)

    def _tell_missed(self, skips: Sequence[tuple[tuple[str, int], Skip]]) -> None:
        """Report due times that no scheduler saw in time, and that do not run."""
        told: dict[str, Values] = {}
        for (id_, _), skip in skips:
            if skip.reason in _MISSED:
                about = told.setdefault(id_, {"due_from": skip.due_from, "count": 0})
                about |= {"due_to": skip.due_to, "count": about["count"] + skip.count}
        for about in told.values():
            about |= {key: format_instant(about[key]) for key in ("due_from", "due_to")}
        self._lifecycle.record_schedule_events(list(told), "missed", told)

    def _notify_of_plans(self, plans: Sequence[Plan], inserted: int, skipped: bool) -> None:
        # a backfill may start when nothing else waits
        if inserted > len(self.claims) or skipped:
            self._db.notify(News.WORK)
        if inserted or self._snapshots.taken:
            return
        if wakes := [plan.wake_at for plan in plans if plan.wake_at]:
            self._db.notify(News.WAKE, min(wakes))

    def _give_way(self, run_id: str) -> None:
        """A newer due time replaces this run: end it, or ask it to stop."""
        how: Values = {"id": run_id, "now": self._db.now, "reason": Reason.SUPERSEDED.value}
        if not self._db.one("cancel_queued_run", **how):
            self._ends.ask_to_end(run_id, Reason.SUPERSEDED.value)
        else:
            self._lifecycle.record_run_events([run_id])

    def _save_states(self, plans: Sequence[Plan]) -> tuple[Sequence[Plan], dict[str, int]]:
        """Write the schedules' new states; returns the plans whose versions are still current, and
        what `_move_states` counted."""
        steady = [plan for plan in plans if plan.status == "active"]
        others = [plan for plan in plans if plan.status != "active"]
        moved, counted = self._move_states(steady)
        if moved < len(steady):
            others = list(plans)  # one was not active before, or has another version
        if self._db.many("commit_state", map(state_row, others)) < len(others):
            return self._in_force(plans), counted
        return plans, counted

    def _move_states(self, plans: Sequence[Plan]) -> tuple[int, dict[str, int]]:
        """Move active schedules; returns how many were moved, and for those whose events it counted
        at the same time the version of the last one."""
        rows = [moved_row(plan, self._db.stamp) for plan in plans]
        held, self._held_active = self._held_active, ()
        if not held or not all((plan.schedule_id, plan.version) in held for plan in plans):
            return self._db.rows("move_state", rows), {}
        self._db.soon("move_state", rows)
        return len(rows), {}

    def _in_force(self, plans: Sequence[Plan]) -> list[Plan]:
        """The plans of definitions that are still the latest ones."""
        ids = [plan.schedule_id for plan in plans]
        versions: dict[str, int] = dict(self._db.all("list_versions", ids=ids))
        return [plan for plan in plans if versions.get(plan.schedule_id) == plan.version]

    def pause(
        self, plans: Sequence[Plan], reason: str | None, until: datetime | None = None
    ) -> None:
        """Commit the state of schedules that pause now, and resume by themselves at `until`."""
        # a tick may have started later and committed first; what it saw was due before the pause
        seen = [max([plan.watermark, *(s.until for s in plan.seen)]) for plan in plans]
        self.save_paused(plans, [max(self._db.now, moment) for moment in seen], until, reason)
        how = {"reason": reason, "until": None if until is None else format_instant(until)}
        self._lifecycle.record_schedule_events(
            [plan.schedule_id for plan in plans], "paused", **how
        )

    def save_paused(
        self,
        plans: Sequence[Plan],
        since: Sequence[datetime | None],
        until: datetime | None,
        reason: str | None,
    ) -> None:
        """Like `pause`, for schedules paused since the times in `since`; without events."""
        paused = {
            "status": "paused",
            "wake_at": until,
            "paused_until": until,
            "pause_reason": clean(reason),
        }
        rows = [state_row(plan) | paused for plan in plans]
        for row, moment in zip(rows, since, strict=True):
            row["paused_at"] = moment
        self._db.many("commit_state", rows)
        self._db.notify(News.WORK)  # a backfill may start while nothing is decided
        self._save_controls(plans)
        if until is not None:
            self._db.notify(News.WAKE, until)

    def earliest_wake(self, after: Mark | None = None) -> datetime | None:
        """When the next active schedule is due for a look; `after` is a hint as in `take`."""
        at = (after or FIRST).wake_at
        found: datetime | None = self._db.time(self._db.value("get_earliest_wake", after=at))
        return found

    def wake_after_commit(self, after: Mark | None = None) -> Callable[[], datetime | None]:
        """Like `earliest_wake` at the end of the transaction; call the result after the commit."""
        answer = self._db.ask_last("get_earliest_wake", after=(after or FIRST).wake_at)
        return lambda: self._db.time(answer()[0][0])

    def count_due(self) -> int:
        """How many active schedules are due for a look."""
        return int(self._db.value("count_due", now=self._db.now))


def _by_outcome(plans: Sequence[Plan]) -> Decided:
    found = Decided([], [], [], [], [])
    for plan in plans:
        for decision in plan.decisions:
            if isinstance(decision, Fire):  # most are
                if decision.ended is None:
                    found.fires.append((new_id(), plan, decision))
                else:
                    found.ended.append((decision.ended.run_id, plan, decision))
            elif isinstance(decision, Skip):
                found.skips.append(((plan.schedule_id, plan.version), decision))
            elif isinstance(decision, Hold):
                found.holds.append(((plan.schedule_id, plan.version), decision))
            else:
                found.waited_for.extend(decision.cancels)
    return found


def moved_row(plan: Plan, stamp: Callable[[datetime | None], Any]) -> Row:
    """The values of a MovedState, as a plain tuple for half the cost."""
    next_due_at = stamp(plan.next_due_at)
    same = plan.wake_at is plan.next_due_at  # usual, and cheaper than converting
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
