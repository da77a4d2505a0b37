"""The workers' part of a SQLite transaction: sessions, claims, outcomes, logs."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Final

from duebook.model.run import Claim, LogLine, Outcome, Run, Token
from duebook.store.base import NO_DELAY, OwnRun, SessionInfo
from duebook.store.sqlite.planning import UNREADABLE_AGAIN, Planning
from duebook.store.sqlite.rows import clean, from_micros, read_run, to_micros

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from duebook.store.sqlite.statements import Row

__all__ = ["Working"]

_LOST: Final = "the node that ran it was lost"


class Working(Planning):
    """What nodes do with their sessions and runs."""

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
        times = {"now": to_micros(self.now), "expires_at": to_micros(self.now + lease)}
        return self._run("renew_session", id=session_id, **times).rowcount == 1

    def end_session(self, session_id: str) -> None:
        self._run("end_session", id=session_id, now=to_micros(self.now))

    def bury(self) -> list[str]:
        return [row[0] for row in self._all("end_expired_sessions", now=to_micros(self.now))]

    def take_over(self, limit: int) -> int:
        orphans = self._all("list_orphans", limit=limit)
        now = to_micros(self.now)
        for id_, losses, most, cancel_reason, wakes, schedule_id in orphans:
            self._end_attempt(id_, "lost", _LOST)
            if cancel_reason is None and losses < most:
                self._run("requeue_run", id=id_, now=now)
                continue
            status, reason, error = ("failed", "poison", f"{_LOST}, as {losses} before it")
            if cancel_reason is not None:
                status, reason, error = ("cancelled", cancel_reason, _LOST)
            self._run("fail_lost_run", id=id_, now=now, status=status, reason=reason, error=error)
            self._wake(wakes, schedule_id)
        return len(orphans)

    def claim(
        self, session_id: str, queue: str, limit: int, tasks: Sequence[str] = ()
    ) -> list[Claim]:
        now = to_micros(self.now)
        if not self._one("get_session_alive", id=session_id, now=now):
            return []
        ids = [row[0] for row in self._claimable(queue, limit, tasks)]
        self._many("claim_run", ({"id": id_, "session_id": session_id, "now": now} for id_ in ids))
        rows = self._all("list_runs_by_id", ids=json.dumps(ids)) if ids else []
        return self._claims([read_run(row) for row in rows], session_id)

    def _claimable(self, queue: str, limit: int, tasks: Sequence[str]) -> list[Row]:
        return self._all(
            "list_claimable",
            queue=queue,
            now=to_micros(self.now),
            limit=limit,
            tasks=json.dumps(list(tasks)),
        )

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
        how: dict[str, object] = {
            "reason": clean(outcome.reason),
            "error": clean(outcome.error),
            "exit_code": outcome.exit_code,
        }
        if retry_after is not None and self._retry(token, outcome, retry_after, how):
            return True
        now = to_micros(self.now)
        row = self._one("settle_run", **_token(token), now=now, status=outcome.status, **how)
        if row:
            self._wake(*row)
            if outcome.status == "succeeded" and self._anybody_depends:
                self._run("wake_dependents", schedule_id=row[1], now=now)
            return True
        return self._one("get_token_state", **_token(token)) is not None

    @cached_property
    def _anybody_depends(self) -> bool:
        """Mostly nobody does, and then a settle need not look whom it wakes."""
        return bool(self._one("get_any_dependency"))

    def _retry(
        self, token: Token, outcome: Outcome, delay: timedelta, how: dict[str, object]
    ) -> bool:
        """The run waits for its next attempt; one that was to be cancelled ends instead."""
        own = self._one("get_own_run", **_token(token))
        if own is None or own[0] is not None:
            return False
        self._end_attempt(token.run_id, outcome.status, clean(outcome.error), outcome.exit_code)
        self._run("retry_run", **_token(token), ready_at=to_micros(self.now + delay), **how)
        return True

    def expire(self, limit: int) -> int:
        rows = self._all("expire_runs", now=to_micros(self.now), limit=limit)
        for row in rows:
            self._wake(*row)
        return len(rows)

    def earliest_expiry(self) -> datetime | None:
        return from_micros(self._value("get_earliest_expiry"))

    def hand_back(self, token: Token, delay: timedelta = NO_DELAY) -> bool:
        own = self._one("get_own_run", **_token(token))
        if own is None:
            return False
        if own[0] is not None:  # it was to be cancelled anyway
            return self.settle(token, Outcome("cancelled", own[0]))
        self._end_attempt(token.run_id, "handed_back", None)
        self._run("hand_back_run", **_token(token), ready_at=to_micros(self.now + delay))
        return True

    def _end_attempt(
        self, run_id: str, outcome: str, error: str | None, exit_code: int | None = None
    ) -> None:
        self._run(
            "insert_attempt",
            id=run_id,
            now=to_micros(self.now),
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
        return bool(self._claimable(queue, 1, tasks))

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


def _token(token: Token) -> dict[str, object]:
    return {"run_id": token.run_id, "attempt": token.attempt, "session_id": token.session_id}
