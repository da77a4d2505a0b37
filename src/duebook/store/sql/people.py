"""The people's part of a transaction: schedules, templates, runs, ledger and logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.ids import SHORT_ID, looks_like_id, new_id
from duebook.model.flow_target import FlowTarget
from duebook.model.plan import DueException, Fire, Lane, Plan, Reason, Skip, Snapshot
from duebook.model.run import Attempt, LogLine, Run
from duebook.model.schedule import Revision
from duebook.model.unreadable import read_spec
from duebook.store.sql.lists import Lists, read_entry
from duebook.store.sql.planning import new_run, skips_of, state_row
from duebook.store.sql.quotas import Quotas
from duebook.store.sql.rows import (
    NewRun,
    clean,
    copied,
    read_run,
    read_schedule,
    read_template,
    target_text,
    without_nul,
)
from duebook.store.values import LedgerEntry, News, NewSchedule, Page, SessionSpan
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.model.enqueued import Enqueued
    from duebook.model.schedule import Schedule, ScheduleSpec
    from duebook.model.template import ScheduleTemplate
    from duebook.store.sql.statements import Row, Values

__all__ = ["People"]


class People(Lists, Quotas):
    """What the client's use cases need."""

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
        new = NewSchedule(schedule_id, namespace, name, spec, next_due_at, wake_at)
        self.create_schedules([new], by, self.now)

    def create_schedules(self, made: Sequence[NewSchedule], by: str, now: datetime) -> None:
        stamp, at, maker = self._stamp, self._stamp(now), clean(by)
        if self._insert("insert_schedule", [_row(new, at, maker) for new in made]) < len(made):
            self._refuse_taken(made)
        texts = [(new.id, 1, json.dumps(new.spec.to_json()), at, maker) for new in made]
        self._insert("insert_revision", texts)
        for new, (_, _, text, _, _) in zip(made, texts, strict=True):
            self._note_use(new.namespace, 1, len(text))
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
        self._insert("insert_state", states)
        for new in made:
            self._depend(new.id, new.namespace, new.spec)
        self._insert("insert_label", [row for new in made for row in _labels(new)])
        self._record_schedule_events([new.id for new in made], "created")
        if wakes := [new.wake_at for new in made if new.wake_at is not None]:
            self._notify(News.WAKE, min(wakes))

    def _refuse_taken(self, made: Sequence[NewSchedule]) -> NoReturn:
        ids = {new.id for new in made}
        for namespace in sorted({new.namespace for new in made}):
            names = [new.name for new in made if new.namespace == namespace]
            for name, id_ in sorted(self.list_taken(namespace, names).items()):
                if id_ not in ids:
                    raise Conflict(f'schedule "{name}" exists already; choose another name')
        raise Conflict("two of the schedules have the same name; give each one of its own")

    def list_taken(self, namespace: str, names: Sequence[str]) -> dict[str, str]:
        return dict(self._all("list_taken", namespace=namespace, names=list(names)))

    def _depend(self, schedule_id: str, namespace: str, spec: ScheduleSpec) -> None:
        for dependency in spec.depends_on:
            self._run(
                "insert_dependency",
                namespace=namespace,
                upstream=dependency.schedule,
                schedule_id=schedule_id,
            )

    def update_schedule(self, schedule: Schedule, spec: ScheduleSpec, plan: Plan, by: str) -> None:
        id_, now = schedule.id, self.now
        limits = copied(schedule.namespace, spec)
        self._run(  # before the schedule is locked: a claim holds runs when it locks schedules
            "limit_queued_runs",
            id=id_,
            exclusive=limits.exclusive,
            max_concurrent=limits.max_concurrent,
        )
        labels = json.dumps(dict(spec.labels))
        text = json.dumps(spec.to_json())
        self._note_gone([id_])
        self._note_use(schedule.namespace, 1, len(text))
        self._insert("insert_revision", [(id_, plan.version, text, self._stamp(now), clean(by))])
        found: Values = {"labels": labels, "target": target_text(spec), "title": spec.title}
        self._run("update_schedule", id=id_, version=plan.version, **found)
        self._run("update_state_version", id=id_, version=plan.version)
        self._run("delete_dependencies", ids=[id_])
        self._depend(id_, schedule.namespace, spec)
        self._run("delete_labels", ids=[id_])
        former = NewSchedule(id_, schedule.namespace, schedule.name, spec, None, None)
        self._insert("insert_label", _labels(former))
        for exception in plan.said:
            self.add_exception(id_, exception)
        self._record_schedule_events([id_], "updated", version=plan.version)
        if plan.status == "paused":
            since, until = schedule.paused_at, schedule.paused_until
            self._pause([plan], [since], until, schedule.pause_reason)
            self._record(skips_of(plan), None)
        else:
            self.commit([plan], None)

    def save_template(self, namespace: str, name: str, defaults: dict[str, Any], by: str) -> None:
        self._run(
            "save_template",
            namespace=namespace,
            name=name,
            defaults=json.dumps(defaults),
            now=self.now,
            by=clean(by),
        )

    def get_template(self, namespace: str, name: str) -> ScheduleTemplate | None:
        row = self._one("get_template", namespace=namespace, name=without_nul(name))
        return None if row is None else read_template(row, self._time)

    def list_templates(self, namespace: str) -> list[ScheduleTemplate]:
        rows = self._all("list_templates", namespace=namespace)
        return [read_template(row, self._time) for row in rows]

    def remove_template(self, namespace: str, name: str) -> bool:
        return self._run("remove_template", namespace=namespace, name=without_nul(name)) == 1

    def list_revisions(self, schedule_id: str) -> list[Revision]:
        schedule = self.get_schedule(schedule_id)
        found = []
        for version, text, valid_from, by in self._all("list_revisions", id=schedule_id):
            try:
                spec: ScheduleSpec | None = read_spec(text, schedule.name)
            except Invalid:
                spec = None
            found.append(Revision(version, spec, self._time(valid_from), by))
        return found

    def find_schedule(self, namespace: str, name: str, deleted: bool = False) -> str:
        wanted = {"namespace": namespace, "name": without_nul(name)}
        row = self._one("find_schedule", **wanted)
        if row is None and deleted:
            row = self._one("find_deleted", **wanted)
        if row is None and looks_like_id(name):
            schedule = self._one("get_schedule", id=name)
            row = schedule if schedule and schedule[1] == namespace else None
        if row is None:
            raise NotFound(f'schedule "{shorten(name)}" does not exist')
        return str(row[0])

    def get_schedule(self, schedule_id: str) -> Schedule:
        row = self._one("get_schedule", id=schedule_id)
        if row is None:
            raise NotFound(f'schedule "{shorten(schedule_id)}" does not exist')
        return read_schedule(row, self._time)

    def list_made_by(self, namespace: str, by: str) -> list[str]:
        return [name for (name,) in self._all("list_made_by", namespace=namespace, by=clean(by))]

    def list_exceptions(self, schedule_id: str) -> list[DueException]:
        said = self._exceptions([schedule_id]).get(schedule_id, [])
        return sorted((e for e in said if e.kind != "done"), key=lambda e: e.due_at)

    def pause(
        self, plans: Sequence[Plan], reason: str | None, until: datetime | None = None
    ) -> None:
        # a tick may have begun later and come first; what it saw was due before the pause
        seen = [max([plan.watermark, *(s.until for s in plan.seen)]) for plan in plans]
        self._pause(plans, [max(self.now, moment) for moment in seen], until, reason)
        how = {"reason": reason, "until": None if until is None else format_instant(until)}
        self._record_schedule_events([plan.schedule_id for plan in plans], "paused", **how)

    def _pause(
        self,
        plans: Sequence[Plan],
        since: Sequence[datetime | None],
        until: datetime | None,
        reason: str | None,
    ) -> None:
        paused = {
            "status": "paused",
            "wake_at": until,
            "paused_until": until,
            "pause_reason": clean(reason),
        }
        rows = [state_row(plan) | paused for plan in plans]
        for row, moment in zip(rows, since, strict=True):
            row["paused_at"] = moment
        self._many("commit_state", rows)
        self._notify(News.WORK)  # a backfill may begin while nothing is decided
        self._save_controls(plans)
        if until is not None:
            self._notify(News.WAKE, until)

    def delete_schedules(self, ended: Sequence[tuple[Schedule, Sequence[Skip]]]) -> None:
        ids, now = sorted(schedule.id for schedule, _ in ended), self.now
        self._all("take_states", ids=ids)
        skips = [((schedule.id, schedule.version), skip) for schedule, own in ended for skip in own]
        self._record(skips, None)
        self._run("delete_dependencies", ids=ids)
        self._run("delete_labels", ids=ids)
        how: Values = {"now": now, "reason": Reason.DELETED.value}
        self._record_run_events([id_ for (id_,) in self._all("cancel_queued_runs", ids=ids, **how)])
        self._record_schedule_events(ids, "deleted")
        self._run("delete_exceptions", ids=ids)
        self._run("delete_controls", ids=ids)
        self._run("delete_states", ids=ids)
        self._note_gone(ids)
        # after the runs: a claim holds runs when it locks schedules
        self._run("delete_schedules", ids=ids, now=now)

    def add_exception(self, schedule_id: str, exception: DueException) -> None:
        self._run(
            "insert_exception",
            schedule_id=schedule_id,
            due_at=exception.due_at,
            kind=exception.kind,
            moved_to=exception.moved_to,
        )

    def remove_exception(self, schedule_id: str, exception: DueException) -> None:
        used = {"schedule_id": schedule_id, "due_at": exception.due_at, "kind": exception.kind}
        self._many("delete_exception", [used])

    def create_run(self, snapshot: Snapshot, run_id: str, payload: dict[str, Any] | None) -> None:
        row = self._new_run(run_id, snapshot, Fire(self.now, "manual", wakes=True))
        text = None if payload is None else json.dumps(payload)
        self._insert_runs([row._replace(due_at=None, trigger="manual", payload=text)])
        self._follow([run_id], snapshot, payload)
        self._notify(News.WORK)

    def create_ended(
        self, snapshot: Snapshot, fires: Sequence[Fire], payload: dict[str, Any] | None = None
    ) -> list[str]:
        text = None if payload is None else json.dumps(payload)
        firing = [(fire.ended.run_id, snapshot, fire) for fire in fires if fire.ended is not None]
        had = {skip.due_from for _, skip in self._end_at_once(firing, None, text)}
        return [id_ for id_, _, fire in firing if fire.due_at not in had]

    def enqueue(self, run_id: str, namespace: str, wanted: Enqueued) -> str:
        now, policies = self.now, wanted.policies
        expires = policies.expire_after
        made = self._one(
            "enqueue_run",
            id=run_id,
            namespace=namespace,
            queue=policies.queue,
            priority=policies.priority,
            task=wanted.task,
            max_takeovers=policies.max_takeovers,
            payload=json.dumps(wanted.payload),
            now=now,
            ready_at=now + wanted.delay,
            expires_at=None if expires is None else now + wanted.delay + expires,
            key=wanted.key,
            options=wanted.options,
        )
        if made is not None:
            self._notify(News.WORK)
            return run_id
        found = self._value("find_by_key", namespace=namespace, key=wanted.key)
        if found is None:
            raise Conflict(
                f'key "{shorten(wanted.key)}" belongs to a run that this transaction cannot see; '
                "try again in another one"
            )
        return str(found)

    def create_backfill(self, snapshot: Snapshot, due_times: Sequence[datetime]) -> list[str]:
        rows = [
            self._new_run(new_id(), snapshot, Fire(due_at, "backfill", wakes=True))
            for due_at in due_times
        ]
        ids = [row.id for row in rows]
        self._notify(News.WORK)
        made = self._insert_runs(rows)
        self._follow(ids, snapshot, None)
        if made == len(rows):
            return ids
        missing = {row[0] for row in self._all("list_missing_runs", ids=ids)}
        return [id_ for id_ in ids if id_ not in missing]

    def _follow(
        self, run_ids: Sequence[str], snapshot: Snapshot, payload: dict[str, Any] | None
    ) -> None:
        """What a person gives a run of a flow are its params."""
        target = snapshot.spec.target
        if isinstance(target, FlowTarget):
            params = dict(target.params) if payload is None else payload
            self._follow_flows((id_, target.name, params) for id_ in run_ids)

    def _new_run(self, run_id: str, snapshot: Snapshot, fire: Fire) -> NewRun:
        definition, stamp = self._definition_of(snapshot), self._stamp
        # what people ask for is never dropped, so it does not expire
        return NewRun._make(
            new_run(run_id, definition, snapshot, fire, stamp(fire.due_at), stamp(self.now), None)
        )

    def reopen(self, run_id: str, lane: Lane = Lane.EXTRA) -> None:
        run = self.get_run(run_id)
        if run.is_active:
            raise Conflict(f"run {run_id} has not ended: {run.status}")
        if run.schedule_id is not None and lane == Lane.EXTRA:
            self._states(run.schedule_id)  # whoever decides about due times sees it, or goes first
        self._end_attempt(run_id, run.status, run.error, run.exit_code)
        if not self._run("reopen_run", id=run_id, now=self.now, lane=int(lane)):
            raise Conflict(f"run {run_id} has been opened again already")
        self._run("drop_output", run_id=run_id)
        self._notify(News.WORK)

    def cancel(self, run_id: str, reason: str) -> str:
        self._hold([run_id])
        if self._cancel_queued([run_id], reason):
            return "cancelled"
        run = self.get_run(run_id)
        if run.status != "running":
            raise Conflict(f"run {run_id} has ended already: {run.status}")
        self._ask_to_end(run_id, clean(reason) or "")
        return "requested"

    def withdraw(self, run_ids: Sequence[str], reason: str) -> list[str]:
        self._hold(run_ids)
        return self._cancel_queued(run_ids, reason)

    def _cancel_queued(self, run_ids: Sequence[str], reason: str) -> list[str]:
        """Those that nobody has begun end here, and who waits for them is woken; returns them."""
        how: Values = {"now": self.now, "reason": clean(reason)}
        found = [(id_, self._one("cancel_queued_run", id=id_, **how)) for id_ in sorted(run_ids)]
        cancelled = [(id_, row) for id_, row in found if row]
        self._record_run_events([id_ for id_, _ in cancelled])
        for _, row in cancelled:
            self._wake_owner(*row)
        return [id_ for id_, _ in cancelled]

    def find_run(self, namespace: str, text: str) -> str:
        rows = self._all("find_runs", namespace=namespace, prefix=text) if text else []
        if len(rows) > 1:
            raise Invalid(f'run "{shorten(text)}" may be one of several; write more of its id')
        if not rows:
            raise NotFound(f'run "{shorten(text)}" does not exist')
        return str(rows[0][0])

    def short_id(self, run_id: str) -> str:
        others = self._one("get_neighbours", id=run_id) or ()
        length = SHORT_ID
        while any(other and other[:length] == run_id[:length] for other in others):
            length += 1
        return run_id[:length]

    def list_attempts(self, run_id: str) -> list[Attempt]:
        time = self._time
        return [
            Attempt(
                number, node, time(claimed_at), time(finished_at), outcome, error, code, time(until)
            )
            for number, node, claimed_at, finished_at, outcome, error, code, until in self._all(
                "list_attempts", id=run_id
            )
        ]

    def list_runs_due(
        self, schedule_id: str, since: datetime, until: datetime, limit: int
    ) -> list[Run]:
        rows = self._all(
            "list_runs_due",
            schedule_id=schedule_id,
            since=since,
            until=until,
            limit=limit,
        )
        return [read_run(row, self._time) for row in rows]

    def list_ledger_between(
        self, schedule_id: str, since: datetime, until: datetime, limit: int
    ) -> list[LedgerEntry]:
        rows = self._all(
            "list_ledger_between",
            id=schedule_id,
            since=since,
            until=until,
            limit=limit,
        )
        return [read_entry(row, self._time) for row in rows]

    def list_sessions(self, since: datetime, until: datetime) -> list[SessionSpan]:
        time = self._time
        rows = self._all("list_sessions", since=since, until=until)
        return [
            SessionSpan(id_, node, roles, *map(time, times)) for id_, node, roles, *times in rows
        ]

    def list_log(self, run_id: str, after: Page, limit: int) -> list[tuple[Page, LogLine]]:
        rows = self._all(
            "list_log", run_id=run_id, attempt=after.attempt, seq=after.seq, limit=limit
        )
        return [
            (Page(attempt, seq), LogLine(self._time(at), stream, text))
            for attempt, seq, at, stream, text in rows
        ]


def _row(new: NewSchedule, at: Any, by: str | None) -> Row:
    labels = json.dumps(dict(new.spec.labels))
    said = labels, target_text(new.spec), new.spec.title
    return new.id, new.namespace, new.name, *said, at, by


def _labels(new: NewSchedule) -> list[Row]:
    return [(new.id, label, value, new.namespace, new.name) for label, value in new.spec.labels]
