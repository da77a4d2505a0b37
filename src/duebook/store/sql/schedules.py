"""Schedules and their templates in a transaction, as people define and change them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.ids import looks_like_id
from duebook.model.plan import DueException, Reason, Skip
from duebook.model.revision import Revision
from duebook.model.run import LatestRun
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
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from duebook.model.plan import Plan
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.model.template import ScheduleTemplate
    from duebook.store.sql.history import Histories
    from duebook.store.sql.lifecycle import Lifecycle
    from duebook.store.sql.plans import Plans
    from duebook.store.sql.quotas import Quotas
    from duebook.store.sql.snapshots import Snapshots
    from duebook.store.values import Edit

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
        history: Histories,
    ) -> None:
        super().__init__(db)
        self._lifecycle = lifecycle
        self._snapshots = snapshots
        self._ledger = ledger
        self._plans = plans
        self._quotas = quotas
        self._history = history

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
        texts = [(new.id, 1, json.dumps(new.spec.to_json()), at, maker, None, None) for new in made]
        for new, (_, _, text, *_) in zip(made, texts, strict=True):
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
        labels = [row for new in made for row in _labels(new, new.spec)]
        self._db.insert_all(
            [("insert_revision", texts), ("insert_state", states), ("insert_label", labels)]
        )
        self._depend((new.id, new.namespace, new.spec) for new in made)
        self._history.save(((new.id, new.namespace, new.spec) for new in made), new=True)
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

    def _depend(self, specs: Iterable[tuple[str, str, ScheduleSpec]]) -> None:
        """Save the dependencies of schedules, given with their id and namespace."""
        rows = [
            (namespace, dependency.schedule, id_)
            for id_, namespace, spec in specs
            for dependency in spec.depends_on
        ]
        self._db.insert("insert_dependency", rows)

    def update_schedules(self, edits: Sequence[Edit], by: str) -> None:
        """Replace definitions, with the states from their plans."""
        ids, stamp = [edit.schedule.id for edit in edits], self._db.stamp(self._db.now)
        # before schedules are locked: a claim holds runs when it locks schedules
        self._db.many("limit_queued_runs", _other_limits(edits))
        texts = [json.dumps(edit.spec.to_json()) for edit in edits]
        self._quotas.note_gone(ids)
        for edit, text in zip(edits, texts, strict=True):
            self._quotas.note_use(edit.schedule.namespace, 1, len(text))
        self._db.insert(
            "insert_revision",
            [
                (
                    edit.schedule.id,
                    edit.plan.version,
                    text,
                    stamp,
                    clean(by),
                    *self._left(edit.plan),
                )
                for edit, text in zip(edits, texts, strict=True)
            ],
        )
        self._db.many("update_schedule", [_edited_row(edit) for edit in edits])
        versions = [{"id": edit.schedule.id, "version": edit.plan.version} for edit in edits]
        self._db.many("update_state_version", versions)
        self._db.run("delete_dependencies", ids=ids)
        self._depend((edit.schedule.id, edit.schedule.namespace, edit.spec) for edit in edits)
        self._history.save(
            ((edit.schedule.id, edit.schedule.namespace, edit.spec) for edit in edits), new=False
        )
        self._db.run("delete_labels", ids=ids)
        self._db.insert(
            "insert_label", [row for edit in edits for row in _labels(edit.schedule, edit.spec)]
        )
        for edit in edits:
            for exception in edit.plan.said:
                self.add_exception(edit.schedule.id, exception)
        for version, some in _grouped(edits, lambda edit: edit.plan.version):
            told = [edit.schedule.id for edit in some]
            self._lifecycle.record_schedule_events(told, "updated", version=version)
        self._commit([edit for edit in edits if edit.plan.status == "paused"])
        going = [edit.plan for edit in edits if edit.plan.status != "paused"]
        if going:
            self._plans.commit(going, None)

    def _left(self, plan: Plan) -> Row:
        """Where the previous definition ended, and its last due time by then."""
        if plan.handover is None:
            return None, None
        return self._db.stamp(plan.handover.at), self._db.stamp(plan.handover.last_due_at)

    def _commit(self, paused: Sequence[Edit]) -> None:
        """The states of schedules that stay paused."""
        how = _grouped(
            paused, lambda edit: (edit.schedule.paused_until, edit.schedule.pause_reason)
        )
        for (until, reason), some in how:
            since = [edit.schedule.paused_at for edit in some]
            self._plans.save_paused([edit.plan for edit in some], since, until, reason)
        self._ledger.add([skip for edit in paused for skip in skips_of(edit.plan)], None)

    def list_owned(self, namespace: str, owner: str) -> dict[str, str]:
        """The names of the schedules that an owner declares, in order, with their ids."""
        return dict(self._db.all("list_owned", namespace=namespace, owner=clean(owner)))

    def list_bases(self, ids: Sequence[str]) -> dict[str, tuple[int, str]]:
        """The version and the owner of each that is not deleted."""
        rows = self._db.all("list_bases", ids=list(ids))
        return {id_: (version, owner) for id_, version, owner in rows}

    def change_owner(self, ids: Sequence[str], owner: str) -> None:
        """They are declared by `owner` from now on."""
        self._db.run("change_owner", ids=list(ids), owner=clean(owner))

    def delete_schedules(self, ended: Sequence[tuple[Schedule, Sequence[Skip]]]) -> None:
        """Cancel queued runs, record pending due times, free the name; history stays."""
        ids, now = sorted(schedule.id for schedule, _ in ended), self._db.now
        self._db.all("take_states", ids=ids)
        skips = [((schedule.id, schedule.version), skip) for schedule, own in ended for skip in own]
        self._ledger.add(skips, None)
        self._db.run("end_held", ids=ids, now=now, reason=Reason.DELETED.value)
        self._db.run("delete_held", ids=ids)
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

        With `deleted`, a free name stands for the schedule that last had it.
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

    def latest_runs(self, schedule_ids: Sequence[str]) -> dict[str, LatestRun]:
        """The newest run of each schedule that has one."""
        # the last one created may be a backfill's, for an earlier due time: it is still active, or
        # among the last that ended
        return self.read_latest(self._db.all("list_latest_runs", ids=list(schedule_ids)))

    def read_latest(self, rows: Sequence[Row]) -> dict[str, LatestRun]:
        """Like `latest_runs`, from the rows of that statement."""
        return {
            owner: LatestRun(id_, status, self._db.time(at), reason, self._db.time(enqueued_at))
            for owner, id_, status, at, reason, enqueued_at in rows
        }

    def list_exceptions(self, schedule_id: str) -> list[DueException]:
        """Exceptions for due times that are not decided yet, by due time."""
        said = self._snapshots.exceptions([schedule_id]).get(schedule_id, [])
        return sorted((e for e in said if e.kind != "done"), key=lambda e: e.due_at)

    def list_exceptions_of(self, ids: Sequence[str]) -> dict[str, list[DueException]]:
        """Like `list_exceptions`, for many schedules at once, with `done` ones and in any order;
        without schedules that have no exceptions."""
        return self._snapshots.exceptions(list(ids)) if ids else {}

    def add_exception(self, schedule_id: str, exception: DueException) -> None:
        self._db.run(
            "insert_exception",
            schedule_id=schedule_id,
            due_at=exception.due_at,
            kind=exception.kind,
            moved_to=exception.moved_to,
            moved_from=exception.moved_from,
        )

    def remove_exception(self, schedule_id: str, exception: DueException) -> None:
        used = {"schedule_id": schedule_id, "due_at": exception.due_at, "kind": exception.kind}
        self._db.many("delete_exception", [used])

    def save_template(self, namespace: str, name: str, defaults: dict[str, Any], by: str) -> None:
        """Save defaults under a name; they replace existing ones."""
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
        """Whether it existed."""
        return self._db.run("remove_template", namespace=namespace, name=without_nul(name)) == 1


def _row(new: NewSchedule, at: Any, by: str | None) -> Row:
    labels = json.dumps(dict(new.spec.labels))
    said = labels, target_text(new.spec), new.spec.title, clean(new.owner), _calendar(new.spec)
    return new.id, new.namespace, new.name, *said, at, by


def _labels(new: NewSchedule | Schedule, spec: ScheduleSpec) -> list[Row]:
    return [(new.id, label, value, new.namespace, new.name) for label, value in spec.labels]


def _edited_row(edit: Edit) -> Values:
    spec = edit.spec
    return {
        "id": edit.schedule.id,
        "version": edit.plan.version,
        "labels": json.dumps(dict(spec.labels)),
        "target": target_text(spec),
        "title": spec.title,
        "calendar": _calendar(spec),
    }


def _calendar(spec: ScheduleSpec) -> str | None:
    return None if spec.calendar is None else spec.calendar.name


def _other_limits(edits: Iterable[Edit]) -> Iterator[Values]:
    """The changed limits that waiting runs must follow."""
    for edit in edits:
        limits = copied(edit.schedule.namespace, edit.spec)
        found: Values = {"exclusive": limits.exclusive, "max_concurrent": limits.max_concurrent}
        if edit.was is not None:
            former = copied(edit.schedule.namespace, edit.was)
            if (former.exclusive, former.max_concurrent) == tuple(found.values()):
                continue
        yield {"id": edit.schedule.id, **found}


def _grouped(edits: Iterable[Edit], key: Callable[[Edit], Any]) -> list[tuple[Any, list[Edit]]]:
    """In the order of the first of each group."""
    groups: dict[Any, list[Edit]] = {}
    for edit in edits:
        groups.setdefault(key(edit), []).append(edit)
    return list(groups.items())
