"""One transaction on a SQLite file: the verbs of the store, in named statements."""

from __future__ import annotations

import json
import sqlite3
from datetime import timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duebook.errors import Conflict, Invalid, NotFound, shorten
from duebook.ids import looks_like_id, new_id
from duebook.model.plan import ActiveRun, DueException, Fire, Plan, Reason, Skip, Snapshot
from duebook.model.run import Claim, LogLine, Outcome, Run, Token
from duebook.store.base import NO_DELAY, LedgerEntry, OwnRun, Page, SessionInfo
from duebook.store.queries import load_queries, positional
from duebook.store.sqlite.rows import (
    clean,
    facts_text,
    from_micros,
    moment,
    read_run,
    read_schedule,
    read_spec,
    to_micros,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from duebook.model.schedule import Schedule, ScheduleSpec

__all__ = ["SqliteTx"]

QUERIES: Final = load_queries(Path(__file__).with_name("queries.sql"))
POSITIONAL: Final = {name: positional(sql) for name, sql in QUERIES.items()}
Row = tuple[Any, ...]
MOST_KNOWN: Final = 100_000
OVERDUE: Final = timedelta(minutes=1)
UNREADABLE_AGAIN: Final = timedelta(minutes=1)


class Definition(NamedTuple):
    """A revision, with what its runs copy from it."""

    name: str
    spec: ScheduleSpec
    copied: dict[str, object]


Definitions = dict[tuple[str, int], Definition]


class SqliteTx:
    """Implements store.base.Tx on a connection whose transaction the caller opens and ends."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        clock: Callable[[], datetime],
        hook: Callable[[str], None] | None,
        definitions: Definitions,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._hook = hook
        self._known = definitions
        self._unreadable: dict[tuple[str, int], str] = {}

    @cached_property
    def now(self) -> datetime:
        """The machine's clock, but never earlier than anybody has seen in this file."""
        row = self._one("read_high_water")
        now = self._clock()
        return max(now, moment(row[0])) if row else now

    def keep_time(self) -> None:
        """Remember `now`, so that a clock set back fires nothing twice."""
        self._run("write_high_water", now=to_micros(self.now))

    # -- the tick

    def take(self, limit: int) -> list[Snapshot]:
        snapshots = self._snapshots(self._all("take_due", now=to_micros(self.now), limit=limit))
        later = to_micros(self.now + UNREADABLE_AGAIN)
        for (id_, _), problem in self._unreadable.items():
            self._run("mark_problem", id=id_, problem=clean(problem), wake_at=later)
        return snapshots

    def snapshot(self, schedule_id: str) -> Snapshot:
        rows = self._all("get_state", id=schedule_id)
        if not rows:
            raise NotFound(f'schedule "{shorten(schedule_id)}" does not exist, or was deleted')
        snapshots = self._snapshots(rows)
        if not snapshots:
            raise Conflict(
                f"the definition cannot be read: {next(iter(self._unreadable.values()))}"
            )
        return snapshots[0]

    def _snapshots(self, rows: list[Row]) -> list[Snapshot]:
        ids = json.dumps([row[0] for row in rows])
        definitions = self._definitions([(row[0], row[1]) for row in rows])
        active = {
            row[0]: ActiveRun(row[1], from_micros(row[2]), moment(row[3]))
            for row in self._all("list_active", ids=ids)
        }
        exceptions = self._exceptions(ids) if self._one("get_any_exception") else {}
        return [
            Snapshot(
                schedule_id=id_,
                name=definitions[id_, version].name,
                version=version,
                spec=definitions[id_, version].spec,
                status=status,
                watermark=moment(watermark),
                active=(active[id_],) if id_ in active else (),
                exceptions=tuple(exceptions.get(id_, ())),
            )
            for id_, version, status, watermark in rows
            if (id_, version) in definitions
        ]

    def _exceptions(self, ids: str) -> dict[str, list[DueException]]:
        exceptions: dict[str, list[DueException]] = {}
        for schedule_id, due_at, kind, moved_to in self._all("list_exceptions", ids=ids):
            said = DueException(moment(due_at), kind, from_micros(moved_to))
            exceptions.setdefault(schedule_id, []).append(said)
        return exceptions

    def _definitions(self, pairs: list[tuple[str, int]]) -> Definitions:
        """Name and definition of each pair; revisions never change, so they are read once."""
        unknown = [pair for pair in pairs if pair not in self._known]
        if unknown:
            if len(self._known) + len(unknown) > MOST_KNOWN:
                self._known.clear()
                unknown = pairs
            rows = self._all("list_definitions", pairs=json.dumps(unknown))
            for id_, version, namespace, name, spec in rows:
                try:
                    self._known[id_, version] = _definition(spec, namespace, name)
                except Invalid as error:  # a newer node may allow what this one does not know
                    self._unreadable[id_, version] = str(error)
        return self._known

    def commit(self, plans: Sequence[Plan], session_id: str | None) -> int:
        now = to_micros(self.now)
        changes = self._connection.total_changes
        self._many("commit_state", (_state(plan) for plan in plans))
        if self._connection.total_changes - changes < len(plans):
            plans = self._in_force(plans)
        specs = self._definitions([(plan.schedule_id, plan.version) for plan in plans])
        self._many(
            "delete_exception",
            (
                {"schedule_id": plan.schedule_id, "due_at": to_micros(e.due_at), "kind": e.kind}
                for plan in plans
                for e in plan.used
            ),
        )
        fires = {
            new_id(): (plan, decision)
            for plan in plans
            for decision in plan.decisions
            if isinstance(decision, Fire)
        }
        self._many(
            "insert_run",
            (
                _new_run(id_, plan, fire, now, specs[plan.schedule_id, plan.version].copied)
                for id_, (plan, fire) in fires.items()
            ),
        )
        doubled = self._doubled(fires) if fires else []
        self._record(plans, doubled, session_id, now)
        return len(fires) - len(doubled)

    def _in_force(self, plans: Sequence[Plan]) -> list[Plan]:
        """The plans of definitions that are still the latest ones."""
        ids = json.dumps([plan.schedule_id for plan in plans])
        versions: dict[str, int] = dict(self._all("list_versions", ids=ids))
        return [plan for plan in plans if versions.get(plan.schedule_id) == plan.version]

    def _doubled(self, fires: dict[str, tuple[Plan, Fire]]) -> list[tuple[Plan, Skip]]:
        """Due times that had a run already: the unique key kept a second one out."""
        missing = self._all("list_missing_runs", ids=json.dumps(list(fires)))
        return [
            (plan, Skip(fire.due_at, fire.due_at, 1, True, Reason.ALREADY_STARTED))
            for plan, fire in (fires[row[0]] for row in missing)
        ]

    def _record(
        self,
        plans: Sequence[Plan],
        doubled: list[tuple[Plan, Skip]],
        session_id: str | None,
        now: int | None,
    ) -> None:
        skips = [(p, d) for p in plans for d in p.decisions if isinstance(d, Skip)]
        self._many(
            "insert_ledger",
            (
                _entry(plan.schedule_id, plan.version, skip)
                | {"session_id": session_id, "now": now}
                for plan, skip in skips + doubled
            ),
        )

    def earliest_wake(self) -> datetime | None:
        return from_micros(self._value("get_earliest_wake"))

    # -- sessions and leases

    def begin_session(self, session: SessionInfo, lease: timedelta) -> None:
        self._run(
            "insert_session",
            id=session.id,
            node=session.node,
            pid=session.pid,
            roles=session.roles,
            version=session.version,
            tzdata=session.tzdata,
            now=to_micros(self.now),
            expires_at=to_micros(self.now + lease),
        )

    def renew(self, session_id: str, lease: timedelta) -> bool:
        expires_at = to_micros(self.now + lease)
        return self._run("renew_session", id=session_id, expires_at=expires_at).rowcount == 1

    def end_session(self, session_id: str) -> None:
        self._run("end_session", id=session_id, now=to_micros(self.now))

    def bury(self) -> list[str]:
        return [row[0] for row in self._all("end_expired_sessions", now=to_micros(self.now))]

    def take_over(self, limit: int) -> int:
        orphans = self._all("list_orphans", limit=limit)
        for id_, _, _, losses, most, cancel_requested, wakes, schedule_id in orphans:
            now = to_micros(self.now)
            if cancel_requested is None and losses < most:
                self._run("insert_attempt", id=id_, now=now, outcome="lost", error=_LOST)
                self._run("requeue_run", id=id_, now=now)
                continue
            ending = ("failed", "poison", f"{_LOST}, as {losses} before it")
            if cancel_requested is not None:
                ending = ("cancelled", "cancelled", _LOST)
            status, reason, error = ending
            self._run("insert_attempt", id=id_, now=now, outcome="lost", error=_LOST)
            self._run("fail_lost_run", id=id_, now=now, status=status, reason=reason, error=error)
            self._wake(wakes, schedule_id)
        return len(orphans)

    # -- work

    def claim(self, session_id: str, queue: str, limit: int) -> list[Claim]:
        now = to_micros(self.now)
        if not self._one("get_session_alive", id=session_id, now=now):
            return []
        rows = self._all("list_claimable", queue=queue, now=now, limit=limit)
        self._many(
            "claim_run", ({"id": id_, "session_id": session_id, "now": now} for (id_,) in rows)
        )
        return self._claims([self.get_run(id_) for (id_,) in rows], session_id)

    def _claims(self, runs: list[Run], session_id: str) -> list[Claim]:
        pairs = [(run.schedule_id or "", run.version) for run in runs]
        specs = self._definitions(pairs)
        claims = []
        for run, pair in zip(runs, pairs, strict=True):
            token = Token(run.id, run.attempt, session_id)
            if pair in specs:
                claims.append(Claim(run, token, specs[pair].spec))
            else:  # somebody else may know how, and this node shall not ask again at once
                later = to_micros(self.now + UNREADABLE_AGAIN)
                self._run("hand_back_run", **_token(token), ready_at=later)
        return claims

    def settle(self, token: Token, outcome: Outcome) -> bool:
        row = self._one(
            "settle_run",
            **_token(token),
            now=to_micros(self.now),
            status=outcome.status,
            reason=clean(outcome.reason),
            error=clean(outcome.error),
            exit_code=outcome.exit_code,
        )
        if row:
            self._wake(*row)
            return True
        settled = self._one("get_token_state", **_token(token))
        return settled is not None and settled[0] != "queued"

    def hand_back(self, token: Token, delay: timedelta = NO_DELAY) -> bool:
        ready_at = to_micros(self.now + delay)
        if self._run("hand_back_run", **_token(token), ready_at=ready_at).rowcount == 1:
            return True
        own = self._one("get_cancel_requested", **_token(token))
        return own is not None and self.settle(token, Outcome("cancelled", "cancelled"))

    def own_runs(self, session_id: str) -> list[OwnRun]:
        return [
            OwnRun(Token(id_, attempt, session_id), cancel_requested is not None)
            for id_, attempt, cancel_requested in self._all("list_session_runs", id=session_id)
        ]

    def has_work(self, queue: str) -> bool:
        return bool(self._all("list_claimable", queue=queue, now=to_micros(self.now), limit=1))

    def earliest_ready(self) -> datetime | None:
        return from_micros(self._value("get_earliest_ready", now=to_micros(self.now)))

    def append_log(self, token: Token, first_seq: int, lines: Sequence[LogLine]) -> None:
        self._many(
            "insert_log",
            (
                {
                    "run_id": token.run_id,
                    "attempt": token.attempt,
                    "seq": seq,
                    "at": to_micros(line.at),
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

    # -- schedules and runs, for people

    def create_schedule(
        self,
        schedule_id: str,
        namespace: str,
        name: str,
        spec: ScheduleSpec,
        next_due_at: datetime | None,
        by: str,
    ) -> None:
        now = to_micros(self.now)
        labels = json.dumps(dict(spec.labels))
        try:
            self._run(
                "insert_schedule",
                id=schedule_id,
                namespace=namespace,
                name=name,
                labels=labels,
                now=now,
                by=by,
            )
        except sqlite3.IntegrityError as error:
            raise Conflict(f'schedule "{name}" exists already; choose another name') from error
        text = json.dumps(spec.to_json())
        self._run("insert_revision", id=schedule_id, version=1, spec=text, now=now, by=by)
        due = to_micros(next_due_at)
        self._run("insert_state", id=schedule_id, now=now, next_due_at=due, wake_at=due)

    def find_schedule(self, namespace: str, name: str) -> str:
        row = self._one("find_schedule", namespace=namespace, name=name)
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
        return read_schedule(row)

    def list_schedules(self, namespace: str, after: str, limit: int) -> list[Schedule]:
        rows = self._all("list_schedules", namespace=namespace, after=after, limit=limit)
        return [read_schedule(row) for row in rows]

    def pause(self, plan: Plan, reason: str | None) -> None:
        self._run(
            "commit_state",
            **_state(plan)
            | {
                "status": "paused",
                "wake_at": None,
                "paused_at": to_micros(self.now),
                "pause_reason": reason,
            },
        )

    def delete_schedule(self, snapshot: Snapshot, skips: Sequence[Skip]) -> None:
        id_, now = snapshot.schedule_id, to_micros(self.now)
        entries = (
            _entry(id_, snapshot.version, skip) | {"session_id": None, "now": now} for skip in skips
        )
        self._many("insert_ledger", entries)
        self._run("cancel_queued_runs", id=id_, now=now, reason=Reason.DELETED)
        self._run("delete_exceptions", id=id_)
        self._run("delete_state", id=id_)
        self._run("delete_schedule", id=id_, now=now)

    def add_exception(self, schedule_id: str, exception: DueException) -> None:
        self._run(
            "insert_exception",
            schedule_id=schedule_id,
            due_at=to_micros(exception.due_at),
            kind=exception.kind,
            moved_to=to_micros(exception.moved_to),
        )

    def remove_exception(self, schedule_id: str, exception: DueException) -> None:
        self._run(
            "delete_exception",
            schedule_id=schedule_id,
            due_at=to_micros(exception.due_at),
            kind=exception.kind,
        )

    def create_run(self, snapshot: Snapshot, run_id: str, payload: dict[str, Any] | None) -> None:
        self._run(
            "insert_run",
            **self._definitions([(snapshot.schedule_id, snapshot.version)])[
                snapshot.schedule_id, snapshot.version
            ].copied
            | {
                "id": run_id,
                "schedule_id": snapshot.schedule_id,
                "version": snapshot.version,
                "due_at": None,
                "origin": "manual",
                "trigger": "manual",
                "wakes": True,
                "payload": None if payload is None else json.dumps(payload),
                "now": to_micros(self.now),
            },
        )

    def cancel(self, run_id: str, reason: str) -> str:
        now = to_micros(self.now)
        row = self._one("cancel_queued_run", id=run_id, now=now, reason=reason)
        if row:
            self._wake(*row)
            return "cancelled"
        run = self.get_run(run_id)
        if run.status != "running":
            raise Conflict(f"run {run_id} has ended already: {run.status}")
        self._run("request_cancel", id=run_id, now=now)
        return "requested"

    def get_run(self, run_id: str) -> Run:
        row = self._one("get_run", id=run_id)
        if row is None:
            raise NotFound(f'run "{shorten(run_id)}" does not exist')
        return read_run(row)

    def list_runs(self, namespace: str, schedule_id: str | None, limit: int) -> list[Run]:
        if schedule_id is None:
            rows = self._all("list_runs", namespace=namespace, limit=limit)
        else:
            rows = self._all("list_runs_of", schedule_id=schedule_id, limit=limit)
        return [read_run(row) for row in rows]

    def list_ledger(self, schedule_id: str, limit: int) -> list[LedgerEntry]:
        return [
            LedgerEntry(
                moment(first),
                moment(last),
                count,
                bool(exact),
                reason,
                json.loads(facts),
                moment(at),
            )
            for first, last, count, exact, reason, facts, at in self._all(
                "list_ledger", id=schedule_id, limit=limit
            )
        ]

    def list_log(self, run_id: str, after: Page, limit: int) -> list[tuple[Page, LogLine]]:
        rows = self._all(
            "list_log", run_id=run_id, attempt=after.attempt, seq=after.seq, limit=limit
        )
        return [
            (Page(attempt, seq), LogLine(moment(at), stream, text))
            for attempt, seq, at, stream, text in rows
        ]

    def purge(self, before: datetime, limit: int) -> int:
        old = to_micros(before)
        runs = self._run("delete_old_runs", before=old, limit=limit).rowcount
        return runs + self._run("delete_old_ledger", before=old, limit=limit - runs).rowcount

    def check(self) -> list[str]:
        problems = [
            f"the file is damaged: {row[0]}"
            for row in self._connection.execute("PRAGMA quick_check").fetchall()
            if row[0] != "ok"
        ]
        problems += [
            f"a row of {row[0]} refers to a row of {row[2]} that does not exist"
            for row in self._connection.execute("PRAGMA foreign_key_check").fetchall()
        ]
        parameters = {
            "check_abandoned": {"now": to_micros(self.now)},
            "check_overdue": {"before": to_micros(self.now - OVERDUE)},
        }
        for query, text in _CHECKS.items():
            rows = self._all(query, **parameters.get(query, {}))
            problems += [text.format(*row) for row in rows]
        return problems

    # -- statements

    def _wake(self, wakes: int, schedule_id: str | None) -> None:
        if wakes and schedule_id is not None:
            self._run("wake_schedule", schedule_id=schedule_id, now=to_micros(self.now))

    def _run(self, query: str, /, **parameters: object) -> sqlite3.Cursor:
        self._point(f"before:{query}")
        try:
            cursor = self._connection.execute(QUERIES[query], parameters)
        except UnicodeEncodeError:
            raise Invalid(
                "a text with halves of characters can be neither stored nor found"
            ) from None
        self._point(f"after:{query}")
        return cursor

    def _many(self, query: str, /, parameters: Iterable[dict[str, object]]) -> None:
        self._point(f"before:{query}")
        sql, pick = POSITIONAL[query]
        self._connection.executemany(sql, map(pick, parameters))
        self._point(f"after:{query}")

    def _all(self, query: str, /, **parameters: object) -> list[Row]:
        return self._run(query, **parameters).fetchall()

    def _one(self, query: str, /, **parameters: object) -> Row | None:
        rows = self._all(query, **parameters)
        return rows[0] if rows else None

    def _value(self, query: str, /, **parameters: object) -> Any:
        row = self._one(query, **parameters)
        return row[0] if row else None

    def _point(self, name: str) -> None:
        if self._hook is not None:
            self._hook(name)


_CHECKS: Final = {
    "check_overlaps": "schedule {0} has {1} runs under way that exclude each other",
    "check_abandoned": "run {0} belongs to {1}, which is dead; a live node takes it over",
    "check_doubled": "run {0} has a due time that was also recorded as {1}",
    "check_early": "run {0} started before it was due",
    "check_order": "schedule {0} has a next due time that is decided already",
    "check_overdue": "schedule {0} is overdue by more than a minute: is a node running?",
}
_LOST: Final = "the node that ran it was lost"


@lru_cache(maxsize=10_000)
def _definition(text: str, namespace: str, name: str) -> Definition:
    """Definitions never change, so the same text is read once."""
    spec = read_spec(text, name)
    return Definition(name, spec, {"namespace": namespace, **_copied(spec)})


def _state(plan: Plan) -> dict[str, object]:
    return {
        "schedule_id": plan.schedule_id,
        "version": plan.version,
        "status": plan.status,
        "watermark": to_micros(plan.watermark),
        "next_due_at": to_micros(plan.next_due_at),
        "wake_at": to_micros(plan.wake_at),
        "paused_at": None,
        "pause_reason": None,
        "problem": plan.problem,
    }


def _new_run(
    id_: str, plan: Plan, fire: Fire, now: int | None, copied: dict[str, object]
) -> dict[str, object]:
    return {
        **copied,
        "id": id_,
        "schedule_id": plan.schedule_id,
        "version": plan.version,
        "due_at": to_micros(fire.due_at),
        "origin": fire.origin,
        "wakes": fire.wakes,
        "payload": None,
        "now": now,
    }


def _copied(spec: ScheduleSpec) -> dict[str, object]:
    """What a run takes over from its definition, because claims and takeovers ask for it."""
    return {
        "trigger": f"schedule:{spec.trigger_text}",
        "queue": spec.queue,
        "priority": spec.priority,
        "exclusive": spec.overlap != "allow",
        "max_takeovers": spec.max_takeovers,
    }


def _entry(schedule_id: str, version: int, skip: Skip) -> dict[str, object]:
    return {
        "schedule_id": schedule_id,
        "version": version,
        "due_from": to_micros(skip.due_from),
        "due_to": to_micros(skip.due_to),
        "count": skip.count,
        "exact": skip.exact,
        "reason": skip.reason,
        "facts": facts_text(skip.facts),
    }


def _token(token: Token) -> dict[str, object]:
    return {"run_id": token.run_id, "attempt": token.attempt, "session_id": token.session_id}
