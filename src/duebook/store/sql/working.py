"""The workers' part of a transaction: sessions, claims, outcomes, logs."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Final

from duebook.model.run import Claim, LogLine, Outcome, Run, Token
from duebook.store.base import NO_DELAY, OwnRun, SessionInfo
from duebook.store.sql.planning import UNREADABLE_AGAIN, Planning
from duebook.store.sql.rows import clean, read_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from duebook.store.sql.statements import Row, Values

__all__ = ["Working"]

_LOST: Final = "the node that ran it was lost"


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
            now=self.now,
            expires_at=self.now + lease,
        )

    def renew(self, session_id: str, lease: timedelta) -> bool:
        times = {"now": self.now, "expires_at": self.now + lease}
        return self._run("renew_session", id=session_id, **times) == 1

    def end_session(self, session_id: str) -> None:
        self._run("end_session", id=session_id, now=self.now)

    def bury(self) -> list[str]:
        return [row[0] for row in self._all("end_expired_sessions", now=self.now)]

    def take_over(self, limit: int) -> int:
        ids = [row[0] for row in self._all("list_orphans", limit=limit)]
        if not ids:
            return 0
        self._hold(ids)
        orphans = self._all("take_orphans", ids=ids)
        for id_, losses, most, cancel_reason, wakes, schedule_id in orphans:
            self._end_attempt(id_, "lost", _LOST)
            if cancel_reason is None and losses < most:
                self._run("requeue_run", id=id_, now=self.now)
                self._tell()
                continue
            status, reason, error = ("failed", "poison", f"{_LOST}, as {losses} before it")
            if cancel_reason is not None:
                status, reason, error = ("cancelled", cancel_reason, _LOST)
            how = {"status": status, "reason": reason, "error": error}
            self._run("fail_lost_run", id=id_, now=self.now, **how)
            self._wake(wakes, schedule_id)
        return len(orphans)

    def claim(
        self, session_id: str, queue: str, limit: int, tasks: Sequence[str] = ()
    ) -> list[Claim]:
        if not self._one("get_session_alive", id=session_id, now=self.now):
            return []
        ids = self._claim_runs(session_id, queue, limit, tasks)
        rows = self._all("list_runs_by_id", ids=ids) if ids else []
        return self._claims([read_run(row, self._time) for row in rows], session_id)

    @abstractmethod
    def _claim_runs(
        self, session_id: str, queue: str, limit: int, tasks: Sequence[str]
    ) -> list[str]:
        """Give ready runs to the session, within their limits; returns their ids in order."""

    def _claimable(self, query: str, queue: str, limit: int, tasks: Sequence[str]) -> list[Row]:
        return self._all(query, queue=queue, now=self.now, limit=limit, tasks=list(tasks))

    def _claims(self, runs: list[Run], session_id: str) -> list[Claim]:
        pairs = [(run.schedule_id or "", run.version) for run in runs]
        specs = self._definitions(pairs)
        claims = []
        for run, pair in zip(runs, pairs, strict=True):
            token = Token(run.id, run.attempt, session_id)
            if pair in specs:
                claims.append(Claim(run, token, specs[pair].spec))
            else:  # somebody else may know how, and this node shall not ask again at once
                self.hand_back(token, UNREADABLE_AGAIN)
        return claims

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
        row = self._one("settle_run", **_token(token), now=now, status=status, **how)
        if row:
            wakes, schedule_id, others_wait = row
            self._wake(wakes, schedule_id)
            woken = 0
            if status == "succeeded" and self._anybody_depends:
                woken = self._run("wake_dependents", schedule_id=schedule_id, now=now)
            if others_wait or woken:
                self._tell()
            return True
        return self._one("get_token_state", **_token(token)) is not None

    @cached_property
    def _anybody_depends(self) -> bool:
        """Mostly nobody does, and then a settle need not look whom it wakes."""
        return bool(self._one("get_any_dependency"))

    def _retry(self, token: Token, outcome: Outcome, delay: timedelta, how: Values) -> bool:
        """The run waits for its next attempt; one that was to be cancelled ends instead, and so
        does one whose schedule was deleted."""
        own = self._one("get_own_run", **_token(token))
        if own is None or own[0] is not None or own[1]:
            return False
        self._end_attempt(token.run_id, outcome.status, clean(outcome.error), outcome.exit_code)
        self._run("retry_run", **_token(token), ready_at=self.now + delay, **how)
        self._tell()
        return True

    def expire(self, limit: int) -> int:
        ids = [row[0] for row in self._all("list_expiring", now=self.now, limit=limit)]
        if not ids:
            return 0
        self._hold(ids)
        rows = self._all("expire_runs", now=self.now, ids=ids)
        for row in rows:
            self._wake(*row)
        return len(rows)

    def earliest_expiry(self) -> datetime | None:
        found: datetime | None = self._time(self._value("get_earliest_expiry"))
        return found

    def hand_back(self, token: Token, delay: timedelta = NO_DELAY) -> bool:
        self._hold([token.run_id])
        own = self._one("get_own_run", **_token(token))
        if own is None:
            return False
        if own[0] is not None:  # it was to be cancelled anyway
            return self.settle(token, Outcome("cancelled", own[0]))
        self._end_attempt(token.run_id, "handed_back", None)
        self._run("hand_back_run", **_token(token), ready_at=self.now + delay)
        self._tell()
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

    def has_work(self, queue: str, tasks: Sequence[str] = ()) -> bool:
        return bool(self._claimable("list_claimable", queue, 1, tasks))

    def earliest_ready(self) -> datetime | None:
        found: datetime | None = self._time(self._value("get_earliest_ready", now=self.now))
        return found

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


def _token(token: Token) -> Values:
    return {"run_id": token.run_id, "attempt": token.attempt, "session_id": token.session_id}
