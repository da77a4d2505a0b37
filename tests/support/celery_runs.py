"""Runs with a Celery target in tests, with a Celery that remembers, and may be out of reach."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duebook.errors import Unavailable
from duebook.model.run import Outcome
from duebook.targets.celery_broker import MaybeSent, NotRevoked, NotSent
from duebook.targets.celery_run import CeleryRun
from duebook.targets.celery_runs import CeleryRuns
from duebook.targets.celery_states import CeleryRecord
from duebook.targets.context import TaskStop
from tests.support.targets import Told, claim_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.model.celery_target import CeleryTarget
    from duebook.model.run import Claim

ADD: dict[str, Any] = {"celery": "proj.add", "args": [1, 2]}


class FakeCelery:
    """A broker and a backend that remember, and may be out of reach."""

    def __init__(self) -> None:
        self.waits = True
        self.sent: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = []
        self.contexts: list[str | None] = []
        self.records: dict[str, CeleryRecord] = {}
        self.looks: list[int] = []
        self.revoked: list[tuple[str, bool]] = []
        self.down: set[str] = set()
        self.refuses = ""
        self.refuses_revokes = ""
        self.marks = True
        self.loses = False
        """whether the broker fails when it has a task"""

    def broker(self) -> FakeCelery:
        return self

    def results(self) -> FakeCelery:
        return self

    def connect(self) -> None:
        if "broker" in self.down:
            raise Unavailable("the broker cannot be reached")

    def send(
        self,
        target: CeleryTarget,
        kwargs: dict[str, Any],
        task_id: str,
        bare: bool,
        traceparent: str | None = None,
    ) -> None:
        self._reach("broker")
        self.contexts.append(traceparent)
        if self.refuses:
            raise NotSent(self.refuses)
        self.sent.append((target.task, target.args, kwargs, task_id if bare else "***"))
        if self.loses:
            raise MaybeSent("the broker does not answer")

    def mark(self, task_id: str) -> bool:
        self._reach("backend")
        if self.marks:
            self.records.setdefault(task_id, CeleryRecord(is_marked=True))
        return self.marks

    def look(self, task_ids: Sequence[str]) -> dict[str, CeleryRecord]:
        self._reach("backend")
        self.looks.append(len(task_ids))
        return {id_: self.records[id_] for id_ in task_ids if id_ in self.records}

    def revoke(self, task_ids: Sequence[str], terminate: bool) -> None:
        self._reach("broker")
        if self.refuses_revokes:
            raise NotRevoked(self.refuses_revokes)
        self.revoked += [(task_id, terminate) for task_id in task_ids]

    def _reach(self, what: str) -> None:
        if what in self.down:
            raise Unavailable(f"the {what} cannot be reached")


class Notes(Told):
    def note(self, text: str) -> None:
        self.lines.append(("duebook", text))

    def close(self) -> None:
        self.lines.append(("closed", ""))

    @property
    def notes(self) -> str:
        return "\n".join(text for stream, text in self.lines if stream == "duebook")


class World:
    def __init__(
        self,
        celery: FakeCelery | None = None,
        begin_thread: Callable[[str, Callable[[], None]], None] | None = None,
    ) -> None:
        self.celery = celery or FakeCelery()
        self.now = 0.0
        self.began = 1
        self.told: list[str] = []
        self.books_down = False
        self.ended: dict[str, Outcome] = {}
        self.reports: dict[str, Notes] = {}
        self.stops: dict[str, TaskStop] = {}
        self.outages: list[str | None] = []
        lent = self._prepared, self._began, self._tell, self.outages.append, lambda: self.now
        self.runs = CeleryRuns(self.celery, *lent, begin_thread=begin_thread)

    def begin(
        self,
        target: dict[str, Any] = ADD,
        run_id: str = "r",
        attempt: int = 1,
        traceparent: str | None = None,
        **policies: Any,
    ) -> None:
        claim = claim_of(target, {"x": 5})
        claim = claim._replace(spec=replace(claim.spec, **policies))
        run = claim.run._replace(id=run_id, attempt=attempt)
        self.stops[run_id], self.reports[run_id] = TaskStop(), Notes()
        claim = claim._replace(run=run, traceparent=traceparent)
        stop, reports = self.stops[run_id], self.reports[run_id]
        self.runs.add([CeleryRun(claim, stop, lambda _: reports, self._ended)])

    def step(self, seconds: float = 0.0) -> float | None:
        self.now += seconds
        return self.runs.step()

    def end(self, run_id: str = "r") -> Outcome:
        return eventually(lambda: self.ended.get(run_id))  # type: ignore[return-value]

    def _ended(self, claim: Claim, outcome: Outcome) -> None:
        self.ended[claim.run.id] = outcome

    def _prepared(self, claim: Claim) -> Claim | Outcome:
        if "boom" in str(claim.spec.target.to_json()):
            raise ValueError("boom")
        if "{{" in str(claim.spec.target.to_json()):
            return Outcome("failed", "template", "args: unknown")
        return claim

    def _began(self, claim: Claim) -> int:
        if self.books_down:
            raise Unavailable("the database cannot be reached")
        return min(self.began, claim.run.attempt)

    def _tell(self, claim: Claim, text: str) -> None:
        assert claim.run.status == "running"
        self.told.append(text)
