"""Tells of the life cycles of runs and schedules, as events, where anybody listens."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from duebook.ids import new_id
from duebook.model.event import LIFECYCLE, Draft, cause, json_text
from duebook.store.sql.events import EventLog
from duebook.timetext import format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.store.sql.events import Versioned
    from duebook.store.sql.statements import Row

__all__ = ["Telling"]

RUNS: Final = f"{LIFECYCLE}runs"
SCHEDULES: Final = f"{LIFECYCLE}schedules"
_FINISHED: Final = 11


class Telling(EventLog):
    """Nobody listens to most of it: one question for each transaction finds out."""

    @cached_property
    def _followed(self) -> set[tuple[str, str]]:
        """Namespaces and topics about life cycles that anybody reads."""
        return {
            (namespace, topic)
            for namespace, topics in self._all("list_followed", begin=f'%"{LIFECYCLE}%')
            for topic in json.loads(topics) or ()
        }

    def _follows(self, topic: str) -> bool:
        return any(topic == followed for _, followed in self._followed)

    def _tell_runs(self, run_ids: Sequence[str], kind: str | None = None) -> None:
        """What became of runs, which this transaction has locked; `kind` says it otherwise."""
        if not run_ids or not self._follows(RUNS):
            return
        rows = self._all("list_told_runs", ids=list(run_ids))
        rows = [
            row
            for row in rows
            if (row[1], RUNS) in self._followed and (kind is not None or row[_FINISHED] is not None)
        ]
        names = [f"run:{row[0]}" for row in rows]
        last: dict[str, int] = dict(self._all("list_event_versions", aggregates=names))
        self._append([self._run_told(row, last.get(f"run:{row[0]}", 0), kind) for row in rows])

    def _run_told(self, row: Row, last: int, kind: str | None) -> Versioned:
        id_, namespace, schedule, schedule_id, due_at, origin, status, attempt, *rest = row
        reason, error, started_at, finished_at, task, user, flow, step = rest
        due = self._time(due_at)
        data = {
            "run": id_,
            "schedule": schedule,
            "task": task,
            "flow": flow,
            "step": step,
            "status": status,
            "due_at": self._text(due_at),
            "attempt": attempt,
            "reason": reason,
            "error": error,
            "started_at": self._text(started_at),
            "finished_at": self._text(finished_at),
        }
        meta = cause(schedule, schedule_id, due, id_, user or "", origin)
        key = schedule or flow or id_
        draft = _draft(namespace, RUNS, kind or f"run.{status}", key, data, meta)
        return draft, f"run:{id_}", last + 1

    def _text(self, stamp: Any) -> str | None:
        moment = self._time(stamp)
        return None if moment is None else format_instant(moment)

    def _tell_schedules(self, ids: Sequence[str], kind: str, **more: Any) -> None:
        """What happened to schedules whose states this transaction has locked."""
        if not ids or not self._follows(SCHEDULES):
            return
        rows = self._all("list_told_schedules", ids=list(ids))
        found = {row[0]: row for row in rows if (row[1], SCHEDULES) in self._followed}
        versions = self._all("count_events", ids=sorted(found), counts=[1] * len(found))
        drafts: list[Versioned] = []
        for id_, version in versions:
            _, namespace, name, user = found[id_]
            meta = {"schedule": name, "schedule_id": id_, "user": user}
            data = {"schedule": name, "id": id_, **more}
            draft = _draft(namespace, SCHEDULES, f"schedule.{kind}", name, data, meta)
            drafts.append((draft, f"schedule:{id_}", version))
        self._append(drafts)


def _draft(
    namespace: str, topic: str, kind: str, key: str, data: dict[str, Any], meta: dict[str, Any]
) -> Draft:
    texts = (json_text(form) for form in (data, meta))
    return Draft(new_id(), namespace, topic, kind, key, *texts)
