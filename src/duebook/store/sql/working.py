"""The workers' part of a transaction: sessions, claims, outcomes, logs."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from duebook.errors import Invalid
from duebook.model.enqueued import enqueued_spec, step_spec
from duebook.model.fate import LOST, Ends, HandedBack, TriedAgain, fate_of_lost, when_asked_to_end
from duebook.model.flow_run import StepContext, StepState, step_state
from duebook.model.flow_target import FLOW_QUEUE
from duebook.model.queue import Queue, QueueLimiter, QueueLoad
from duebook.model.run import Claim, LogLine, Outcome, Run, Token
from duebook.model.serving import ALL, StrandedTask, serving_of, unserved
from duebook.store.sql.delivering import read_consumer
from duebook.store.sql.planning import UNREADABLE_AGAIN, Planning
from duebook.store.sql.rows import begun_text, clean, inline, is_large, read_limiter, read_output
from duebook.store.values import (
    NO_DELAY,
    Neighbour,
    News,
    OwnRun,
    Pulse,
    SessionInfo,
    WaitingStep,
    Work,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime, timedelta

    from duebook.model.run import Progress
    from duebook.model.schedule import ScheduleSpec
    from duebook.model.serving import Serving
    from duebook.store.sql.statements import Row, Values
    from duebook.store.values import FlowWake, Labels

__all__ = ["Claimer", "Working"]


class Orphan(NamedTuple):
    """A run whose node was lost."""

    id: str
    losses: int
    max_takeovers: int
    cancel_reason: str | None
    wakes: bool
    schedule_id: str | None
    parent_run_id: str | None

    @property
    def fate(self) -> Ends | HandedBack:
        return fate_of_lost(self.losses, self.max_takeovers, self.cancel_reason)


class Claimer(NamedTuple):
    """Whose runs become what is claimed, and since when."""

    session_id: str
    node: str
    at: datetime


class Working(Planning):
    """What nodes do with their sessions and runs."""

    def begin_session(self, session: SessionInfo, lease: timedelta) -> None:
        self._run(
            "insert_session",
            id=session.id,
            node=clean(session.node),
            pid=session.pid,
            roles=session.roles,
            version=session.version,
            tzdata=session.tzdata,
            tasks=json.dumps(session.tasks),
            clock_ahead=self.ahead.total_seconds(),
            queues=json.dumps(session.queues),
            labels=json.dumps(dict(session.labels)),
            namespaces=json.dumps(session.namespaces.to_json()),
            machine=session.machine,
            process_started=session.process_started,
            now=self.now,
            expires_at=self.now + lease,
        )

    def renew(self, session_id: str, lease: timedelta) -> bool:
        seen: Values = {"now": self.now, "expires_at": self.now + lease}
        seen["clock_ahead"] = self.ahead.total_seconds()
        return self._run("renew_session", id=session_id, **seen) == 1

    def end_session(self, session_id: str) -> None:
        self._run("end_session", id=session_id, now=self.now)
        if self._run("release_lead", id=session_id, now=self.now):
            self._notify(News.LEAD)
        self._run("release_directories", id=session_id, now=self.now)

    def bury(self) -> list[str]:
        return [row[0] for row in self._all("end_expired_sessions", now=self.now)]

    def bury_gone(self, session_ids: Sequence[str]) -> list[str]:
        if not session_ids:
            return []
        now, ids = self.now, list(session_ids)
        dead = [row[0] for row in self._all("end_gone_sessions", ids=ids, now=now)]
        for session_id in dead:
            if self._run("release_lead", id=session_id, now=now):
                self._notify(News.LEAD)
        return dead

    def neighbours(self, session_id: str) -> list[Neighbour]:
        return [Neighbour._make(row) for row in self._all("list_neighbours", id=session_id)]

    def take_over(self, limit: int) -> int:
        ids = [row[0] for row in self._all("list_orphans", limit=limit)]
        if not ids:
            return 0
        self._hold(ids)
        orphans = [Orphan._make(row) for row in self._all("take_orphans", ids=ids)]
        taken = [orphan.id for orphan in orphans]
        self._run("insert_lost_attempts", ids=taken, now=self.now, error=LOST)
        again = [orphan.id for orphan in orphans if isinstance(orphan.fate, HandedBack)]
        if again:
            self._run("requeue_runs", ids=again)
            self._notify(News.WORK)
        for orphan in orphans:
            if isinstance(orphan.fate, Ends):
                self._end_orphan(orphan, orphan.fate.outcome)
        return len(orphans)

    def _end_orphan(self, orphan: Orphan, outcome: Outcome) -> None:
        how = {"status": outcome.status, "reason": outcome.reason, "error": outcome.error}
        self._run("fail_lost_run", id=orphan.id, now=self.now, **how)
        self._record_run_events([orphan.id])
        self._wake_owner(orphan.wakes, orphan.schedule_id, orphan.parent_run_id)

    def pulse(
        self,
        session_id: str,
        lease: timedelta,
        queues: Sequence[str],
        leads: bool,
        namespaces: Serving = ALL,
    ) -> Pulse:
        """What Store.pulse says, one statement after another."""
        alive = self.renew(session_id, lease)
        term = self._lead(session_id, lease) if leads and alive else None
        return Pulse(
            now=self.now,
            alive=alive,
            term=term,
            lead_until=self._time(self._value("get_lead")) if leads else None,
            wake_at=self.earliest_wake(),
            queued=self._any_queued(queues, namespaces),
            ready_at=self.earliest_ready(),
            expiry=self.earliest_expiry(),
            deaths=bool(self._value("get_any_death", id=session_id, now=self.now)),
            own=tuple(self.own_runs(session_id)),
            behind=self.behind,
            sinks=tuple(read_consumer(row) for row in self._all("list_sinks")),
            flow_at=self.earliest_flow().earliest,
            neighbours=tuple(self.neighbours(session_id)),
        )

    def _any_queued(self, queues: Sequence[str], namespaces: Serving) -> bool:
        where = {"queues": list(queues), "namespaces": namespaces.listed}
        return self._one("get_any_queued", **where) is not None

    @abstractmethod
    def earliest_flow(self) -> FlowWake:
        """When somebody has to look at runs of flows again."""

    def _lead(self, session_id: str, lease: timedelta) -> int | None:
        """The term of this node's leadership, kept or taken."""
        mine: Values = {"id": session_id, "expires_at": self.now + lease}
        term: int | None = self._value("keep_lead", **mine)
        return term if term is not None else self._value("take_lead", now=self.now, **mine)

    def holds_term(self, session_id: str, term: int) -> bool:
        return self._one("get_term", id=session_id, term=term) is not None

    def list_work(
        self,
        queues: Sequence[str],
        tasks: Sequence[str] = (),
        labels: Labels = (),
        namespaces: Serving = ALL,
    ) -> Work:
        limiters = {limiter.queue.name: limiter for limiter in self._limiters()}
        places, moments = [], [self.earliest_ready()]
        for queue in queues:
            shut, opens_at = self._shut(limiters[queue]) if queue in limiters else (False, None)
            if shut:
                moments.append(opens_at)
                continue
            places += [
                (queue, namespace)
                for namespace in self._served(queue, namespaces)
                if self._claimable("list_claimable", queue, namespace, 1, tasks, labels)
            ]
        return Work(tuple(places), min(filter(None, moments), default=None), self.now)

    def _served(self, queue: str, namespaces: Serving) -> Iterable[str]:
        """The served namespaces that may have work in a queue; no others are looked at."""
        if namespaces.names is not None:
            return sorted(namespaces.names)
        return [namespace for (namespace,) in self._all("list_namespaces", queue=queue)]

    def _limiters(self) -> list[QueueLimiter]:
        return [read_limiter(row) for row in self._all("list_limiters")]

    def _shut(self, limiter: QueueLimiter) -> tuple[bool, datetime | None]:
        """Whether nothing of the queue may begin, and when its rate lets something begin again.

        A limiter ahead of its clock needs a claim that puts that down. The time of the books
        stands still while a clock that was set back catches up; rates go by that clock.
        """
        now = self._clock_at(limiter)
        if limiter.is_ahead(now) or limiter.room(now, self._running(limiter)):
            return False, None
        opens_at = limiter.opens_at(now)
        return True, None if opens_at is None else opens_at + max(self.now - now, NO_DELAY)

    def _clock_at(self, limiter: QueueLimiter) -> datetime:
        return self.now if limiter.queue.rate is None else self._clock_now()

    def _running(self, limiter: QueueLimiter) -> int:
        """Counted only where a limit asks for it."""
        if limiter.queue.concurrency is None:
            return 0
        return int(self._value("count_running", queue=limiter.queue.name))

    def claim(
        self,
        session_id: str,
        queue: str,
        limit: int,
        tasks: Sequence[str] = (),
        namespace: str = "default",
        labels: Labels = (),
    ) -> list[Claim]:
        alive = self._one("get_session_alive", id=session_id, queue=queue, now=self.now)
        if alive is None:
            return []
        node, served, limited = alive
        if namespace not in serving_of(json.loads(served)):
            return []

        def take(most: int, at: datetime) -> list[Run]:
            mine = Claimer(session_id, node, at)
            return self._claim_runs(mine, queue, namespace, most, tasks, labels)

        row = self._one("get_gate", queue=queue) if limited else None
        if row is None:
            return self._claims(take(limit, self.now), session_id)
        return self._claims(self._through(read_limiter(row), limit, take), session_id)

    def _through(
        self, limiter: QueueLimiter, limit: int, take: Callable[[int, datetime], list[Run]]
    ) -> list[Run]:
        """The clock is read, and runs are counted, after the limiter was locked."""
        before, now = limiter, self._clock_at(limiter)
        if limiter.is_ahead(now):
            limiter = limiter.set_back(now)
        room = limiter.room(now, self._running(limiter))
        runs = take(min(limit, room), max(self.now, limiter.instant(now))) if room else []
        limiter = limiter.passed(now, len(runs))
        if limiter is not before:
            self._run("note_begun", queue=limiter.queue.name, begun=begun_text(limiter))
        return runs

    @abstractmethod
    def _claim_runs(
        self,
        claimer: Claimer,
        queue: str,
        namespace: str,
        limit: int,
        tasks: Sequence[str],
        labels: Labels,
    ) -> list[Run]:
        """Give ready runs to the session, within the limits of their schedules, in order."""

    def _claimable(
        self,
        query: str,
        queue: str,
        namespace: str,
        limit: int,
        tasks: Sequence[str],
        labels: Labels,
    ) -> list[Row]:
        place = {"queue": queue, "namespace": namespace}
        fits = {"tasks": list(tasks), "labels": json.dumps(dict(labels))}
        return self._all(query, now=self.now, limit=limit, **place, **fits)

    def _claims(self, runs: list[Run], session_id: str) -> list[Claim]:
        pairs = [(run.schedule_id or "", run.version or 0) for run in runs]
        specs = self._definitions([pair for pair in pairs if pair[0]])
        steps = self._step_contexts([run.id for run in runs if run.parent_run_id is not None])
        enqueued = [run.id for run in runs if run.schedule_id is None and run.id not in steps]
        options: dict[str, str | None] = (
            dict(self._all("list_options", ids=enqueued)) if enqueued else {}
        )
        claims = []
        for run, pair in zip(runs, pairs, strict=True):
            token = Token(run.id, run.attempt, session_id)
            if pair in specs:
                claims.append(Claim(run, token, specs[pair].spec, specs[pair].owner.user))
            elif run.id in steps:
                context, user, text = steps[run.id]
                claims.append(Claim(run, token, step_spec(run.task, text), user, context))
            elif (spec := _enqueued(run, options)) is not None:
                claims.append(Claim(run, token, spec))
            else:  # somebody else may know how, and this node shall not ask again at once
                self.hand_back(token, UNREADABLE_AGAIN)
        return claims

    def _step_contexts(self, run_ids: list[str]) -> dict[str, tuple[StepContext, str, str | None]]:
        """What steps may know of their flows' runs, who made those, and their own policies."""
        if not run_ids:
            return {}
        rows = self._all("list_step_contexts", ids=run_ids)
        ends: dict[str, dict[str, tuple[StepState, Any]]] = {row[4]: {} for row in rows}
        for parent_id, step, status, reason, code, *kept in self._all(
            "list_outputs", ids=list(ends)
        ):
            ends[parent_id][step] = (step_state(status, reason, code), read_output(*kept))
        found = {}
        for id_, flow, digest, params, parent_id, origin, trigger, *rest in rows:
            due_at, created_at, schedule_id, schedule, user, options = rest
            context = StepContext(
                flow,
                digest,
                json.loads(params),
                parent_id,
                origin,
                trigger,
                self._time(due_at),
                self._time(created_at),
                schedule_id,
                schedule,
                ends[parent_id],
            )
            found[id_] = (context, user, options)
        return found

    def settle(self, token: Token, outcome: Outcome, retry_after: timedelta | None = None) -> bool:
        how: Values = {
            "reason": clean(outcome.reason),
            "error": clean(outcome.error),
            "exit_code": outcome.exit_code,
        }
        self._hold([token.run_id])
        if retry_after is not None and self._retry(token, outcome, retry_after, how):
            return True
        now, status = self.now, outcome.status
        how |= {"output": inline(outcome.output), "output_ref": clean(outcome.output_ref)}
        row = self._one("settle_run", **_token(token), now=now, status=status, **how)
        if row:
            wakes, schedule_id, parent_run_id, others_wait = row
            self._wake_owner(wakes, schedule_id, parent_run_id)
            if status == "succeeded" and schedule_id is not None and self._anybody_depends:
                self._wake_dependents([schedule_id])
            if others_wait:
                self._notify(News.WORK)
            self._append_of_runs([(token.run_id, outcome)])
            self._keep_large([(token.run_id, outcome.output)])
            self._keep_secrets([(token.run_id, outcome.output_secrets)])
            self._record_run_events([token.run_id])
            return True
        return self._settled_before(token)

    def _keep_large(self, outputs: Iterable[tuple[str, str | None]]) -> None:
        """Outputs that `inline` leaves out."""
        for run_id, output in outputs:
            if output is not None and is_large(output):
                self._run("keep_output", run_id=run_id, output=clean(output))
                size = len(output.encode(errors="replace"))
                self._run("note_output_size", run_id=run_id, size=size)

    def _keep_secrets(self, secrets: Iterable[tuple[str, Sequence[str]]]) -> None:
        """What outputs hide; most hide nothing."""
        for run_id, texts in secrets:
            if texts:
                kept = clean(json.dumps(list(texts), ensure_ascii=False))
                self._run("note_output_secrets", run_id=run_id, secrets=kept)

    def _append_of_runs(self, settled: Sequence[tuple[str, Outcome]]) -> None:
        """What runs publish by their success. They are locked, so that versions have no gaps."""
        told = {
            f"run:{run_id}": outcome.events
            for run_id, outcome in settled
            if outcome.events and outcome.status == "succeeded"
        }
        if not told:
            return
        last: dict[str, int] = dict(self._all("list_event_versions", aggregates=list(told)))
        self._append(
            [
                (draft, aggregate, last.get(aggregate, 0) + step)
                for aggregate, drafts in told.items()
                for step, draft in enumerate(drafts, 1)
            ]
        )

    def _settled_before(self, token: Token) -> bool:
        return self._one("get_token_state", **_token(token)) is not None

    def note_overlaps(self, ended: Iterable[tuple[Token, datetime]]) -> None:
        for token, until in ended:
            self._run("note_overlap", **_token(token), until=until)

    def settle_all(self, ended: Sequence[tuple[Token, Outcome]]) -> set[Token]:
        return {token for token, outcome in ended if self.settle(token, outcome)}

    @cached_property
    def _anybody_depends(self) -> bool:
        """Mostly nobody does, and then a settle need not look whom it wakes."""
        return bool(self._one("get_any_dependency"))

    def _retry(self, token: Token, outcome: Outcome, delay: timedelta, how: Values) -> bool:
        """The run waits for its next attempt; one that was to be cancelled ends instead, and so
        does one whose schedule was deleted."""
        own = self._one("get_own_run", **_token(token))
        if own is None or isinstance(when_asked_to_end(TriedAgain(outcome, delay), *own), Ends):
            return False
        self._end_attempt(token.run_id, outcome.status, clean(outcome.error), outcome.exit_code)
        self._run("retry_run", **_token(token), ready_at=self.now + delay, **how)
        self._notify(News.WORK)
        return True

    def expire(self, limit: int) -> int:
        ids = [row[0] for row in self._all("list_expiring", now=self.now, limit=limit)]
        if not ids:
            return 0
        self._hold(ids)
        rows = self._all("expire_runs", now=self.now, ids=ids)
        for _, *owner in rows:
            self._wake_owner(*owner)
        self._record_run_events([row[0] for row in rows])
        return len(rows)

    def earliest_expiry(self) -> datetime | None:
        found: datetime | None = self._time(self._value("get_earliest_expiry"))
        return found

    def hand_back(self, token: Token, delay: timedelta = NO_DELAY) -> bool:
        self._hold([token.run_id])
        own = self._one("get_own_run", **_token(token))
        if own is None:
            return False
        fate = when_asked_to_end(HandedBack(delay), *own)
        if isinstance(fate, Ends):
            return self.settle(token, fate.outcome)
        self._end_attempt(token.run_id, "handed_back", None)
        ready_at = self.now + delay if delay else None  # it keeps its place
        self._run("hand_back_run", **_token(token), ready_at=ready_at)
        self._notify(News.WORK)
        return True

    def _end_attempt(
        self, run_id: str, outcome: str, error: str | None, exit_code: int | None = None
    ) -> None:
        self._run(
            "insert_attempt",
            id=run_id,
            now=self.now,
            outcome=outcome,
            error=error,
            exit_code=exit_code,
        )

    def own_runs(self, session_id: str) -> list[OwnRun]:
        return [
            OwnRun(Token(id_, attempt, session_id), cancel_reason)
            for id_, attempt, cancel_reason in self._all("list_session_runs", id=session_id)
        ]

    def earliest_ready(self) -> datetime | None:
        """When queued work that is not ready yet will be."""
        found: datetime | None = self._time(self._value("get_earliest_ready", now=self.now))
        return found

    def note_progress(self, told: Sequence[tuple[Token, Progress]]) -> None:
        now = self._stamp(self.now)
        rows = (
            {
                **_token(token),
                "progress": progress.fraction,
                "text": clean(progress.text),
                "now": now,
            }
            for token, progress in sorted(told, key=lambda item: item[0].run_id)
        )
        self._many("note_progress", rows)

    def tell_tasks(self, session_id: str, tasks: Sequence[str]) -> None:
        self._run("tell_tasks", id=session_id, tasks=json.dumps(list(tasks)))

    def list_served(self) -> list[Serving]:
        rows = self._all("list_served", now=self.now)
        return [serving_of(json.loads(served)) for (served,) in rows]

    def list_known_tasks(self, namespace: str) -> set[str]:
        return {
            task for serving, tasks in self._known_tasks() if namespace in serving for task in tasks
        }

    def _known_tasks(self) -> list[tuple[Serving, list[str]]]:
        """What each live worker serves and knows."""
        rows = self._all("list_known_tasks", now=self.now)
        return [(serving_of(json.loads(served)), json.loads(tasks)) for tasks, served in rows]

    def list_waiting_steps(self, run_id: str) -> list[WaitingStep]:
        rows = self._all("list_waiting_steps", id=run_id)
        return [WaitingStep(step, task, json.loads(needs or "{}")) for step, task, needs in rows]

    def list_stranded_tasks(self) -> list[StrandedTask]:
        known, served = self._known_tasks(), self.list_served()
        anywhere = {task for _, tasks in known for task in tasks}
        return [
            StrandedTask(namespace, task, task in anywhere)
            for namespace, task in self._all("list_waiting_tasks")
            if unserved(namespace, served) is None
            and not any(namespace in serving and task in tasks for serving, tasks in known)
        ]

    def limit_queue(self, queue: Queue) -> None:
        rate = queue.rate
        self._run(
            "limit_queue",
            name=queue.name,
            concurrency=queue.concurrency,
            rate_count=None if rate is None else rate.count,
            rate_seconds=None if rate is None else int(rate.per.total_seconds()),
        )
        self._notify(News.WORK)

    def free_queue(self, name: str) -> bool:
        self._notify(News.WORK)
        return self._run("free_queue", name=name) == 1

    def get_queue(self, name: str) -> Queue | None:
        row = self._one("get_gate", queue=name)
        return None if row is None else read_limiter(row).queue

    def list_queues(self, of: Serving = ALL) -> list[QueueLoad]:
        queued: Counter[str] = Counter()
        running: Counter[str] = Counter()
        for name, namespace, waiting, under_way in self._all("list_loads"):
            if name != FLOW_QUEUE and namespace in of:  # nobody serves that queue
                queued[name] += waiting
                running[name] += under_way
        queues = {name: Queue(name) for name in queued}
        limited = {limiter.queue.name: limiter.queue for limiter in self._limiters()}
        queues |= {n: queue for n, queue in limited.items() if of == ALL or n in queues}
        return [QueueLoad(queues[name], queued[name], running[name]) for name in sorted(queues)]

    def append_log(self, token: Token, first_seq: int, lines: Sequence[LogLine]) -> None:
        self._many(
            "insert_log",
            (
                {
                    "run_id": token.run_id,
                    "attempt": token.attempt,
                    "seq": seq,
                    "at": line.at,
                    "stream": line.stream,
                    "text": clean(line.text),
                }
                for seq, line in enumerate(lines, first_seq)
            ),
        )

    def trim_log(self, token: Token, head_seq: int, tail_seq: int) -> None:
        self._run(
            "trim_log",
            run_id=token.run_id,
            attempt=token.attempt,
            head_seq=head_seq,
            tail_seq=tail_seq,
        )


def _enqueued(run: Run, options: dict[str, str | None]) -> ScheduleSpec | None:
    """How a run without a schedule is performed; None when this node cannot read that."""
    if run.schedule_id is not None or run.task is None:
        return None
    try:
        return enqueued_spec(run.task, options.get(run.id))
    except (Invalid, KeyError):  # a newer node knows more policies
        return None


def _token(token: Token) -> Values:
    return {"run_id": token.run_id, "attempt": token.attempt, "session_id": token.session_id}
