"""Appends events about the life cycles of runs and schedules, if any consumer reads them."""

from __future__ import annotations

import json
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.ids import new_id
from duebook.model.event import LIFECYCLE, Draft, cause, json_text
from duebook.store.sql.statements import Ask, Part, Row, Statements
from duebook.store.values import News
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duebook.model.run import Origin, RunStatus
    from duebook.store.sql.events import Events, Versioned

__all__ = ["LISTENERS", "Lifecycle"]

RUNS: Final = f"{LIFECYCLE}runs"
SCHEDULES: Final = f"{LIFECYCLE}schedules"


LISTENERS: Final = Ask("list_followed", {"begin": f'%"{LIFECYCLE}%'})


class ToldRun(NamedTuple):
    """What events report about a run."""

    id: str
    namespace: str
    schedule: str | None
    schedule_id: str | None
    due_at: Any
    origin: Origin
    status: RunStatus
    attempt: int
    reason: str | None
    error: str | None
    started_at: Any
    finished_at: Any
    task: str | None
    user: str | None
    flow: str | None
    step: str | None
    is_flow: bool


class Lifecycle(Part):
    """Most topics have no readers: one query for each transaction finds out."""

    def __init__(self, db: Statements, events: Events) -> None:
        super().__init__(db)
        self._events = events

    @cached_property
    def _followed(self) -> set[tuple[str, str]]:
        """Namespaces and topics about life cycles that have readers."""
        return _topics(self._db.all(LISTENERS.query, **LISTENERS.values))

    def learn(self, rows: Sequence[Row]) -> None:
        """The result of LISTENERS, which was queried together with something else."""
        self._followed = _topics(rows)

    def _follows(self, topic: str) -> bool:
        return any(topic == followed for _, followed in self._followed)

    def record_run_events(self, run_ids: Sequence[str], kind: str | None = None) -> None:
        """Append how runs ended, in this order; this transaction must have locked them. `kind`
        reports something else about them."""
        if not run_ids:
            return
        if kind is None:
            self._db.notify(News.ENDS)
        if not self._follows(RUNS):
            return
        order = {id_: place for place, id_ in enumerate(run_ids)}
        rows = self._db.all("list_told_runs", ids=list(run_ids))
        found = sorted(map(ToldRun._make, rows), key=lambda run: order[run.id])
        told = [
            (run, each)
            for run in found
            if (run.namespace, RUNS) in self._followed
            for each in (_ends(run) if kind is None else (kind,))
        ]
        names = sorted({f"run:{run.id}" for run, _ in told})
        last: Counter[str] = Counter(dict(self._db.all("list_event_versions", aggregates=names)))
        drafts: list[Versioned] = []
        for run, each in told:
            last[name := f"run:{run.id}"] += 1
            drafts.append((self._run_event(run, each), name, last[name]))
        self._events.append(drafts)

    def _run_event(self, run: ToldRun, kind: str) -> Draft:
        data = {
            "run": run.id,
            "schedule": run.schedule,
            "task": run.task,
            "flow": run.flow,
            "step": run.step,
            "status": run.status,
            "due_at": self._text(run.due_at),
            "attempt": run.attempt,
            "reason": run.reason,
            "error": run.error,
            "started_at": self._text(run.started_at),
            "finished_at": self._text(run.finished_at),
        }
        due_at = self._db.time(run.due_at)
        meta = cause(run.schedule, run.schedule_id, due_at, run.id, run.user or "", run.origin)
        return _draft(run.namespace, RUNS, kind, run.schedule or run.flow or run.id, data, meta)

    def _text(self, stamp: Any) -> str | None:
        moment = self._db.time(stamp)
        return None if moment is None else format_instant(moment)

    def record_schedule_events(
        self,
        ids: Sequence[str],
        kind: str,
        each: Mapping[str, Mapping[str, Any]] | None = None,
        /,
        **more: Any,
    ) -> None:
        """Append what happened to schedules, whose states this transaction must have locked; `each`
        has additional data for some of them, by id."""
        if not ids or not self._follows(SCHEDULES):
            return
        rows = self._db.all("list_told_schedules", ids=list(ids))
        found = {row[0]: row for row in rows if (row[1], SCHEDULES) in self._followed}
        versions = self._db.all("count_events", ids=sorted(found), counts=[1] * len(found))
        drafts: list[Versioned] = []
        for id_, version in versions:
            _, namespace, name, user, title = found[id_]
            meta = {"schedule": name, "schedule_id": id_, "user": user}
            titled = {"title": title} if title else {}
            own = (each or {}).get(id_, {})
            data = {"schedule": name, "id": id_, **titled, **more, **own}
            draft = _draft(namespace, SCHEDULES, f"schedule.{kind}", name, data, meta)
            drafts.append((draft, f"schedule:{id_}", version))
        self._events.append(drafts)


def _topics(rows: Sequence[Row]) -> set[tuple[str, str]]:
    return {(namespace, topic) for namespace, topics in rows for topic in json.loads(topics) or ()}


def _ends(run: ToldRun) -> tuple[str, ...]:
    """The kinds of events that report the end of a run; empty while it is active."""
    if run.finished_at is None:
        return ()
    ended = f"run.{run.status}"
    return (ended, "flow.finished") if run.is_flow else (ended,)


def _draft(
    namespace: str, topic: str, kind: str, key: str, data: dict[str, Any], meta: dict[str, Any]
) -> Draft:
    texts = (json_text(form) for form in (data, meta))
    return Draft(new_id(), namespace, topic, kind, key, *texts)
