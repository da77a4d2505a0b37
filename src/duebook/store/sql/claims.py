"""Claims of workers in a transaction: a session takes ready runs."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

from duebook.errors import Invalid
from duebook.model.enqueued import enqueued_spec, step_spec
from duebook.model.flow_run import StepContext, StepState, step_state
from duebook.model.run import Claim, Run, Token
from duebook.model.serving import ALL, Serving
from duebook.store.sql.definitions import UNREADABLE_AGAIN, DefinitionReader
from duebook.store.sql.rows import read_interval, read_limiter, read_output
from duebook.store.sql.statements import Part, Row, Statements
from duebook.store.values import WHOLE_QUEUE, Labels, OwnRun, QueuePart, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from duebook.model.schedule import ScheduleSpec
    from duebook.store.sql.attempts import Attempts
    from duebook.store.sql.queues import Queues

__all__ = ["Claims", "Taken", "Wanted"]


class Taken(NamedTuple):
    """What a claim took, and whether it ended at a run that must not be buffered."""

    runs: list[Run]
    is_limited: bool


class Wanted(NamedTuple):
    """Where and for whom runs are claimed, and which of them that worker can run."""

    session_id: str
    queue: str
    namespace: str
    tasks: Sequence[str]
    labels: Labels
    parts: Sequence[QueuePart] = WHOLE_QUEUE


class Claims(Part, ABC):
    """Which runs are ready, and for which workers."""

    def __init__(
        self, db: Statements, definitions: DefinitionReader, queues: Queues, attempts: Attempts
    ) -> None:
        super().__init__(db)
        self._definitions = definitions
        self._queues = queues
        self._attempts = attempts

    def list_work(
        self,
        queues: Sequence[str],
        tasks: Sequence[str] = (),
        labels: Labels = (),
        namespaces: Serving = ALL,
    ) -> Work:
        """Where `claim` would find runs now, as far as limits allow."""
        if (rests_until := self._rests_until()) is not None:
            return Work((), rests_until, self._db.now)
        limiters = {limiter.queue.name: limiter for limiter in self._queues.limiters()}
        places, moments = [], [self.earliest_ready()]
        for queue in queues:
            shut, opens_at = (
                self._queues.shut(limiters[queue]) if queue in limiters else (False, None)
            )
            if shut:
                moments.append(opens_at)
                continue
            places += [
                (queue, namespace)
                for namespace in self._served(queue, namespaces)
                if self._claimable(Wanted("", queue, namespace, tasks, labels), 1)
            ]
        return Work(tuple(places), min(filter(None, moments), default=None), self._db.now)

    def _served(self, queue: str, namespaces: Serving) -> Iterable[str]:
        """The served namespaces that may have work in a queue; others are not searched."""
        if namespaces.names is not None:
            return sorted(namespaces.names)
        return [namespace for (namespace,) in self._db.all("list_namespaces", queue=queue)]

    def claim(
        self,
        session_id: str,
        queue: str,
        limit: int,
        tasks: Sequence[str] = (),
        namespace: str = "default",
        labels: Labels = (),
        parts: Sequence[QueuePart] = WHOLE_QUEUE,
    ) -> list[Claim]:
        """Up to `limit` ready runs, by priority, then readiness; empty when the session is dead, or
        does not serve the namespace. Only `parts` of the queue need to be searched.

        Of a schedule whose runs must not overlap, at most one is active at any time, and of one
        with `max_concurrent` at most that many; of a queue with limits no more than those allow.
        Runs of tasks other than `tasks` are left to workers that know them, steps that need other
        labels to workers that have them; expired runs are not claimed.
        """
        return self.claim_ahead(session_id, queue, limit, 0, tasks, namespace, labels, parts)[0]

    def claim_ahead(
        self,
        session_id: str,
        queue: str,
        limit: int,
        ahead: int,
        tasks: Sequence[str],
        namespace: str,
        labels: Labels,
        parts: Sequence[QueuePart] = WHOLE_QUEUE,
    ) -> tuple[list[Claim], bool]:
        """Like `claim`, with up to `ahead` more to be buffered, which have not started.

        A run is never buffered where a limit of its queue or schedule counts it, where it must not
        be taken over, or after its node was lost before it had started; nor is any run after it in
        its queue. The result also tells whether that ended the claim.
        """
        if self._rests_until() is not None:
            return [], False
        wanted = Wanted(session_id, queue, namespace, tasks, labels, parts)
        runs, is_limited = self._claim_runs(wanted, limit, ahead)
        return self._claims(runs, session_id), is_limited

    def _within_queue(
        self, queue: str, limit: int, ahead: int, take: Callable[[int, int, datetime], Taken]
    ) -> Taken:
        """What the limits of a queue allow now; `take` is called with how many to take, how many
        more to buffer, and when they start. Where a limit counts runs, none is buffered."""
        row = self._db.one("get_limiter", queue=queue)
        if row is None:
            return take(limit, ahead, self._db.now)
        runs = self._queues.through(
            read_limiter(row), limit, lambda most, at: take(most, 0, at).runs
        )
        return Taken(runs, ahead > 0)

    def _rests_until(self) -> datetime | None:
        """Until when nothing at all is claimed; None: work continues."""
        return None

    @abstractmethod
    def _claim_runs(self, wanted: Wanted, limit: int, ahead: int) -> Taken:
        """Give ready runs to the session, if it is alive and serves the namespace, in order and
        within the limits of their queue and schedules."""

    def _claimable(self, wanted: Wanted, limit: int) -> list[Row]:
        return self._db.all(
            "list_claimable",
            now=self._db.now,
            limit=limit,
            queue=wanted.queue,
            namespace=wanted.namespace,
            tasks=list(wanted.tasks),
            labels=json.dumps(dict(wanted.labels)),
        )

    def _claims(self, runs: list[Run], session_id: str) -> list[Claim]:
        pairs = [(run.schedule_id or "", run.version or 0) for run in runs]
        distinct = [pair for pair in dict.fromkeys(pairs) if pair[0]]
        known = self._definitions.read(distinct)
        specs = {
            pair: (found.spec, found.owner.user)
            for pair in distinct
            if (found := known.get(pair)) is not None
        }
        steps = self._step_contexts([run.id for run in runs if run.parent_run_id is not None])
        enqueued = [run.id for run in runs if run.schedule_id is None and run.id not in steps]
        options: dict[str, str | None] = (
            dict(self._db.all("list_options", ids=enqueued)) if enqueued else {}
        )
        claims = []
        for run, pair in zip(runs, pairs, strict=True):
            token = Token(run.id, run.attempt, session_id)
            if (defined := specs.get(pair)) is not None:
                claims.append(Claim(run, token, *defined))
            elif run.id in steps:
                context, user, text = steps[run.id]
                claims.append(Claim(run, token, step_spec(run.task, text), user, context))
            elif (spec := _enqueued(run, options)) is not None:
                claims.append(Claim(run, token, spec))
            else:  # another node may know how, and this one should not claim it again at once
                self._attempts.hand_back(token, UNREADABLE_AGAIN)
        return claims

    def _step_contexts(self, run_ids: list[str]) -> dict[str, tuple[StepContext, str, str | None]]:
        """What steps may know of their flows' runs, the authors of those, and their own
        policies."""
        if not run_ids:
            return {}
        rows = self._db.all("list_step_contexts", ids=run_ids)
        ends: dict[str, dict[str, tuple[StepState, Any]]] = {row[4]: {} for row in rows}
        for parent_id, step, status, reason, code, *kept in self._db.all(
            "list_outputs", ids=list(ends)
        ):
            ends[parent_id][step] = (step_state(status, reason, code), read_output(*kept))
        found = {}
        for id_, flow, digest, params, parent_id, origin, trigger, *rest in rows:
            due_at, created_at, schedule_id, schedule, user, options, start, end = rest
            due = self._db.time(due_at)
            context = StepContext(
                flow,
                digest,
                json.loads(params),
                parent_id,
                origin,
                trigger,
                due,
                self._db.time(created_at),
                schedule_id,
                schedule,
                ends[parent_id],
                read_interval(start, end, due, self._db.time),
            )
            found[id_] = (context, user, options)
        return found

    def own_runs(self, session_id: str) -> list[OwnRun]:
        """The runs that the session is working on, according to the database."""
        return [
            OwnRun(Token(id_, attempt, session_id), cancel_reason)
            for id_, attempt, cancel_reason in self._db.all("list_session_runs", id=session_id)
        ]

    def earliest_ready(self) -> datetime | None:
        """When queued work that is not ready yet will be."""
        found: datetime | None = self._db.time(
            self._db.value("get_earliest_ready", now=self._db.now)
        )
        return found


def _enqueued(run: Run, options: dict[str, str | None]) -> ScheduleSpec | None:
    """The definition of a run without a schedule; None when this node cannot read it."""
    if run.schedule_id is not None or run.task is None:
        return None
    try:
        return enqueued_spec(run.task, options.get(run.id))
    except (Invalid, KeyError):  # a newer node knows more policies
        return None
