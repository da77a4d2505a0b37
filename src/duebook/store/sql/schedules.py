"""Schedules and their templates in a transaction, as people define and change them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.ids import looks_like_id
from duebook.model.plan import DueException, Plan, Reason, Skip
from duebook.model.run import LatestRun
from duebook.model.schedule import Revision, Schedule, ScheduleSpec
from duebook.model.unreadable import read_spec
from duebook.store.sql.ledger import Ledger, skips_of
from duebook.store.sql.rows import (
    clean,
    copied,
    read_schedule,
    read_template,
    target_text,
    without_nul,
)
from duebook.store.sql.statements import Part, Row, Statements, Values
from duebook.store.values import News, NewSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.template import ScheduleTemplate
    from duebook.store.sql.lifecycle import Lifecycle
    from duebook.store.sql.plans import Plans
    from duebook.store.sql.quotas import Quotas
    from duebook.store.sql.snapshots import Snapshots

__all__ = ["Schedules"]


class Schedules(Part):
    """Definitions, exceptions and templates."""

    def __init__(
        self,
        db: Statements,
        lifecycle: Lifecycle,
        snapshots: Snapshots,
        ledger: Ledger,
        plans: Plans,
        quotas: Quotas,
    ) -> None:
        super().__init__(db)
        self._lifecycle = lifecycle
        self._snapshots = snapshots
        self._ledger = ledger
        self._plans = plans
        self._quotas = quotas

    def create_schedule(
        self,
        schedule_id: str,
        namespace: str,
        name: str,
        spec: ScheduleSpec,
        next_due_at: datetime | None,
        wake_at: datetime | None,
        by: str,
    ) -> None:
        """Store a new schedule; raises Conflict when the name is taken."""
        new = NewSchedule(schedule_id, namespace, name, spec, next_due_at, wake_at)
        self.create_schedules([new], by, self._db.now)

    def create_schedules(self, made: Sequence[NewSchedule], by: str, now: datetime) -> None:
        """Store new schedules as of `now`; raises Conflict when a name is taken."""
        stamp, at, maker = self._db.stamp, self._db.stamp(now), clean(by)
        if self._db.insert("insert_schedule", [_row(new, at, maker) for new in made]) < len(made):
            self._refuse_taken(made)
        texts = [(new.id, 1, json.dumps(new.spec.to_json()), at, maker) for new in made]
        for new, (_, _, text, _, _) in zip(made, texts, strict=True):
            self._quotas.note_use(new.namespace, 1, len(text))
        states = [
            (
                new.id,
                "paused" if new.paused else "active",
                at,
                stamp(new.next_due_at),
                stamp(new.wake_at),
                at if new.paused else None,
            )
            for new in made
        ]
        labels = [row for new in made for row in _labels(new)]
        self._db.insert_all(
            [("insert_revision", texts), ("insert_state", states), ("insert_label", labels)]
        )
        for new in made:
            self._depend(new.id, new.namespace, new.spec)
        self._lifecycle.record_schedule_events([new.id for new in made], "created")
        if wakes := [new.wake_at for new in made if new.wake_at is not None]:
            self._db.notify(News.WAKE, min(wakes))

    def _refuse_taken(self, made: Sequence[NewSchedule]) -> NoReturn:
        ids = {new.id for new in made}
        for namespace in sorted({new.namespace for new in made}):
            names = [new.name for new in made if new.namespace == namespace]
            for name, id_ in sorted(self.list_taken(namespace, names).items()):
                if id_ not in ids:
                    raise Conflict(f'schedule "{name}" already exists; choose another name')
        raise Conflict("two of the schedules have the same name; give each a different one")

    def list_taken(self, namespace: str, names: Sequence[str]) -> dict[str, str]:
        """Which of these names are taken, and by which ids."""
        return dict(self._db.all("list_taken", namespace=namespace, names=list(names)))

    def _depend(self, schedule_id: str, namespace: str, spec: ScheduleSpec) -> None:
        for dependency in spec.depends_on:
            self._db.run(
                "insert_dependency",
                namespace=namespace,
                upstream=dependency.schedule,
                schedule_id=schedule_id,
            )

    def update_schedule(self, schedule: Schedule, spec: ScheduleSpec, plan: Plan, by: str) -> None:
        """Put another definition in force, with the state that `plan` says."""
        id_, now = schedule.id, self._db.now
        limits = copied(schedule.namespace, spec)
        self._db.run(  # before the schedule is locked: a claim holds runs when it locks schedules
            "limit_queued_runs",
            id=id_,
            exclusive=limits.exclusive,
            max_concurrent=limits.max_concurrent,
        )
        labels = json.dumps(dict(spec.labels))
        text = json.dumps(spec.to_json())
        self._quotas.note_gone([id_])
        self._quotas.note_use(schedule.namespace, 1, len(text))
        self._db.insert(
            "insert_revision", [(id_, plan.version, text, self._db.stamp(now), clean(by))]
        )
        found: Values = {"labels": labels, "target": target_text(spec), "title": spec.title}
        found["calendar"] = None if spec.calendar is None else spec.calendar.name
        self._db.run("update_schedule", id=id_, version=plan.version, **found)
        self._db.run("update_state_version", id=id_, version=plan.version)
        self._db.run("delete_dependencies", ids=[id_])
        self._depend(id_, schedule.namespace, spec)
        self._db.run("delete_labels", ids=[id_])
        former = NewSchedule(id_, schedule.namespace, schedule.name, spec, None, None)
        self._db.insert("insert_label", _labels(former))
        for exception in plan.said:
            self.add_exception(id_, exception)
        self._lifecycle.record_schedule_events([id_], "updated", version=plan.version)
        if plan.status == "paused":
            since, until = schedule.paused_at, schedule.paused_until
            self._plans.save_paused([plan], [since], until, schedule.pause_reason)
            self._ledger.add(skips_of(plan), None)
        else:
            self._plans.commit([plan], None)

    def delete_schedules(self, ended: Sequence[tuple[Schedule, Sequence[Skip]]]) -> None:
        """Cancel queued runs, record pending due times, free the name; history stays."""
        ids, now = sorted(schedule.id for schedule, _ in ended), self._db.now
        self._db.all("take_states", ids=ids)
        skips = [((schedule.id, schedule.version), skip) for schedule, own in ended for skip in own]
        self._ledger.add(skips, None)
        self._db.run("delete_dependencies", ids=ids)
        self._db.run("delete_labels", ids=ids)
        how: Values = {"now": now, "reason": Reason.DELETED.value}
        self._lifecycle.record_run_events(
            [id_ for (id_,) in self._db.all("cancel_queued_runs", ids=ids, **how)]
        )
        self._lifecycle.record_schedule_events(ids, "deleted")
        self._db.run("delete_exceptions", ids=ids)
        self._db.run("delete_controls", ids=ids)
        self._db.run("delete_states", ids=ids)
        self._quotas.note_gone(ids)
        # after the runs: a claim holds runs when it locks schedules
        self._db.run("delete_schedules", ids=ids, now=now)

    def list_revisions(self, schedule_id: str) -> list[Revision]:
        """Every definition of the schedule, the first one first."""
        schedule = self.get_schedule(schedule_id)
        found = []
        for version, text, valid_from, by in self._db.all("list_revisions", id=schedule_id):
            try:
                spec: ScheduleSpec | None = read_spec(text, schedule.name)
            except Invalid:
                spec = None
            found.append(Revision(version, spec, self._db.time(valid_from), by))
        return found

    def find_schedule(self, namespace: str, name: str, deleted: bool = False) -> str:
        """The id of a schedule by its name, or its id; raises NotFound.

        With `deleted`, a name that is free means the schedule that had it last.
        """
        wanted = {"namespace": namespace, "name": without_nul(name)}
        row = self._db.one("find_schedule", **wanted)
        if row is None and deleted:
            row = self._db.one("find_deleted", **wanted)
        if row is None and looks_like_id(name):
            schedule = self._db.one("get_schedule", id=name)
            row = schedule if schedule and schedule[1] == namespace else None
        if row is None:
            raise NotFound(f'schedule "{shorten(name)}" does not exist')
        return str(row[0])

    def get_schedule(self, schedule_id: str) -> Schedule:
        row = self._db.one("get_schedule", id=schedule_id)
        if row is None:
            raise NotFound(f'schedule "{shorten(schedule_id)}" does not exist')
        return read_schedule(row, self._db.time)

    def get_schedules(self, schedule_ids: Sequence[str]) -> list[Schedule]:
        """Those that are not deleted, by id."""
        rows = self._db.all("list_schedules_by_id", ids=list(schedule_ids))
        return sorted((read_schedule(row, self._db.time) for row in rows), key=lambda s: s.id)

    def list_made_by(self, namespace: str, by: str) -> list[str]:
        """The names of the schedules that somebody made, in order."""
        return [name for (name,) in self._db.all("list_made_by", namespace=namespace, by=clean(by))]

    def latest_runs(self, schedule_ids: Sequence[str]) -> dict[str, LatestRun]:
        """The newest run of each schedule that has one."""
        # the last one created may be a backfill's, for an earlier due time: it is still active, or
        # among the last that ended
        return self.read_latest(self._db.all("list_latest_runs", ids=list(schedule_ids)))

    def read_latest(self, rows: Sequence[Row]) -> dict[str, LatestRun]:
        """As `latest_runs`, of the rows of that statement."""
        return {
            owner: LatestRun(id_, status, self._db.time(at), reason, self._db.time(enqueued_at))
            for owner, id_, status, at, reason, enqueued_at in rows
        }

    def list_exceptions(self, schedule_id: str) -> list[DueException]:
        """What people said about due times that are not decided yet, by due time."""
        said = self._snapshots.exceptions([schedule_id]).get(schedule_id, [])
        return sorted((e for e in said if e.kind != "done"), key=lambda e: e.due_at)

    def add_exception(self, schedule_id: str, exception: DueException) -> None:
        self._db.run(
            "insert_exception",
            schedule_id=schedule_id,
            due_at=exception.due_at,
            kind=exception.kind,
            moved_to=exception.moved_to,
        )

    def remove_exception(self, schedule_id: str, exception: DueException) -> None:
        used = {"schedule_id": schedule_id, "due_at": exception.due_at, "kind": exception.kind}
        self._db.many("delete_exception", [used])

    def save_template(self, namespace: str, name: str, defaults: dict[str, Any], by: str) -> None:
        """Keep defaults under a name; they replace the ones that it had."""
        self._db.run(
            "save_template",
            namespace=namespace,
            name=name,
            defaults=json.dumps(defaults),
            now=self._db.now,
            by=clean(by),
        )

    def get_template(self, namespace: str, name: str) -> ScheduleTemplate | None:
        row = self._db.one("get_template", namespace=namespace, name=without_nul(name))
        return None if row is None else read_template(row, self._db.time)

    def list_templates(self, namespace: str) -> list[ScheduleTemplate]:
        """By name."""
        rows = self._db.all("list_templates", namespace=namespace)
        return [read_template(row, self._db.time) for row in rows]

    def remove_template(self, namespace: str, name: str) -> bool:
        """Whether there was one."""
        return self._db.run("remove_template", namespace=namespace, name=without_nul(name)) == 1


def _row(new: NewSchedule, at: Any, by: str | None) -> Row:
    labels = json.dumps(dict(new.spec.labels))
    calendar = None if new.spec.calendar is None else new.spec.calendar.name
    said = labels, target_text(new.spec), new.spec.title, calendar
    return new.id, new.namespace, new.name, *said, at, by


def _labels(new: NewSchedule) -> list[Row]:
    return [(new.id, label, value, new.namespace, new.name) for label, value in new.spec.labels]
