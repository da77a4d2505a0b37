"""Active attempts in a transaction: what they log, and how they end."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from duebook.model.fate import (
    LOST,
    Ends,
    HandedBack,
    TriedAgain,
    fate_of_lost,
    fate_of_lost_early,
    when_asked_to_end,
)
from duebook.model.repeat import REPEAT
from duebook.model.run import Outcome, Token
from duebook.store.sql.rows import clean, inline
from duebook.store.sql.statements import Part, Statements, Values
from duebook.store.values import NO_DELAY, News

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from duebook.model.run import LogLine, Progress
    from duebook.store.sql.events import Events
    from duebook.store.sql.lifecycle import Lifecycle
    from duebook.store.sql.run_ends import RunEnds
    from duebook.store.sql.wakes import Wakes

__all__ = ["Attempts"]


class Orphan(NamedTuple):
    """A run whose node was lost."""

    id: str
    begun: bool
    losses: int
    """those before it that count like this one"""
    max_takeovers: int
    cancel_reason: str | None
    wakes: bool
    schedule_id: str | None
    parent_run_id: str | None

    @property
    def fate(self) -> Ends | HandedBack:
        judge = fate_of_lost if self.begun else fate_of_lost_early
        return judge(self.losses, self.max_takeovers, self.cancel_reason)


class Attempts(Part):
    """Only the owner of a current token can end an attempt."""

    def __init__(
        self, db: Statements, wakes: Wakes, events: Events, lifecycle: Lifecycle, ends: RunEnds
    ) -> None:
        super().__init__(db)
        self._wakes = wakes
        self._events = events
        self._lifecycle = lifecycle
        self._ends = ends

    def settle(
        self,
        token: Token,
        outcome: Outcome,
        retry_after: timedelta | None = None,
        begun_at: datetime | None = None,
    ) -> bool:
        """End a run; False when the token is no longer current. Repeating it is harmless.

        With `retry_after` only the attempt ends, and the run waits for the next one, unless it was
        to be cancelled: then it ends. `begun_at`: when it started, if it was buffered.
        """
        how: Values = {
            "reason": clean(outcome.reason),
            "error": clean(outcome.error),
            "exit_code": outcome.exit_code,
        }
        self._wakes.hold([token.run_id])
        if retry_after is not None and self._retry(token, outcome, retry_after, how):
            return True
        now, status = self._db.now, outcome.status
        how |= {"output": inline(outcome.output), "output_ref": clean(outcome.output_ref)}
        how["begun_at"] = self._not_in_future(begun_at)
        row = self._db.one("settle_run", **_token(token), now=now, status=status, **how)
        if row:
            wakes, schedule_id, parent_run_id, others_wait = row
            self._wakes.wake_owner(wakes, schedule_id, parent_run_id)
            if status == "succeeded" and schedule_id is not None and self._wakes.anybody_depends:
                self._wakes.wake_dependents([schedule_id])
            if others_wait:
                self._db.notify(News.WORK)
            self._append_of_runs([(token.run_id, outcome)])
            self._ends.keep_large([(token.run_id, outcome.output)])
            self._ends.keep_secrets([(token.run_id, outcome.output_secrets)])
            self._lifecycle.record_run_events([token.run_id])
            return True
        return self._settled_before(token)

    def settle_all(
        self,
        ended: Sequence[tuple[Token, Outcome]],
        begun: Mapping[Token, datetime] = MappingProxyType({}),
    ) -> set[Token]:
        """Like `settle`, for many; returns the tokens that were current."""
        return {
            token
            for token, outcome in ended
            if self.settle(token, outcome, begun_at=begun.get(token))
        }

    def _not_in_future(self, begun_at: datetime | None) -> datetime | None:
        """A node estimates the database's time, and may be slightly ahead."""
        return None if begun_at is None else min(begun_at, self._db.now)

    def mark_begun(self, begun: Sequence[tuple[Token, datetime]]) -> None:
        """Record when buffered runs were started; a token that is not current is ignored."""
        rows = (
            {**_token(token), "begun_at": self._db.stamp(min(at, self._db.now))}
            for token, at in sorted(begun, key=lambda item: item[0].run_id)
        )
        self._db.many("mark_begun", rows)

    def _retry(self, token: Token, outcome: Outcome, delay: timedelta, how: Values) -> bool:
        """The run waits for its next attempt, unless it was to be cancelled or its schedule was
        deleted: then it ends."""
        own = self._db.one("get_own_run", **_token(token))
        if own is None or isinstance(when_asked_to_end(TriedAgain(outcome, delay), *own), Ends):
            return False
        self._ends.end_attempt(
            token.run_id, outcome.status, clean(outcome.error), outcome.exit_code
        )
        failed = 1 if outcome.repeat is None else 0
        how = how if failed else how | {"reason": REPEAT}
        ready_at = self._db.now + delay
        self._db.run("retry_run", **_token(token), ready_at=ready_at, failed=failed, **how)
        self._db.notify(News.WORK)
        return True

    def count_done(self, run_id: str) -> int:
        """How many earlier attempts of a run have finished."""
        return int(self._db.value("count_done_attempts", run_id=run_id))

    def _append_of_runs(self, settled: Sequence[tuple[str, Outcome]]) -> None:
        """Append the events of runs that succeeded. Their rows are locked, so versions have no
        gaps."""
        told = {
            f"run:{run_id}": outcome.events
            for run_id, outcome in settled
            if outcome.events and outcome.status == "succeeded"
        }
        if not told:
            return
        last: dict[str, int] = dict(self._db.all("list_event_versions", aggregates=list(told)))
        self._events.append(
            [
                (draft, aggregate, last.get(aggregate, 0) + step)
                for aggregate, drafts in told.items()
                for step, draft in enumerate(drafts, 1)
            ]
        )

    def _settled_before(self, token: Token) -> bool:
        return self._db.one("get_token_state", **_token(token)) is not None

    def ask_person(self, token: Token, prompt: str, timeout: timedelta | None) -> bool:
        """Let a step wait for a person, without occupying a worker; False when the token is no
        longer current. A step that was cancelled ends."""
        self._wakes.hold([token.run_id])
        own = self._db.one("get_own_run", **_token(token))
        if own is None:
            return False
        if own[0] is not None:
            return self.settle(token, Outcome("cancelled", own[0]))
        expires_at = None if timeout is None else self._db.now + timeout
        self._db.run(
            "ask_person",
            **_token(token),
            prompt=clean(prompt),
            expires_at=expires_at,
            now=self._db.now,
        )
        return True

    def answer(self, run_id: str, outcome: Outcome) -> bool:
        """A person approved or rejected a step; False when it is not waiting for one."""
        self._wakes.hold([run_id])
        row = self._db.one(
            "answer_person",
            id=run_id,
            now=self._db.now,
            status=outcome.status,
            reason=clean(outcome.reason),
            error=clean(outcome.error),
            output=clean(outcome.output),
        )
        if row is None:
            return False
        self._wakes.wake_owner(*row)
        self._lifecycle.record_run_events([run_id])
        return True

    def hand_back(self, token: Token, delay: timedelta = NO_DELAY) -> bool:
        """Return an unfinished run to the queue for another start after `delay`; without a delay it
        keeps its place there. A run that was cancelled ends."""
        self._wakes.hold([token.run_id])
        own = self._db.one("get_own_run", **_token(token))
        if own is None:
            return False
        fate = when_asked_to_end(HandedBack(delay), *own)
        if isinstance(fate, Ends):
            return self.settle(token, fate.outcome)
        self._ends.end_attempt(token.run_id, "handed_back", None)
        ready_at = self._db.now + delay if delay else None  # it keeps its place
        self._db.run("hand_back_run", **_token(token), ready_at=ready_at)
        self._db.notify(News.WORK)
        return True

    def hand_back_all(self, tokens: Sequence[Token]) -> set[Token]:
        """Like `hand_back` without a delay, for many; returns the tokens that were current."""
        ids = sorted({token.run_id for token in tokens})
        self._wakes.hold(ids)
        found = {Token._make(row[:3]): row[3] for row in self._db.all("lock_own_runs", ids=ids)}
        own = {token: found[token] for token in tokens if token in found}
        back = [token.run_id for token, asked_to_end in own.items() if asked_to_end is None]
        if back:
            self._db.run("insert_returned_attempts", ids=back, now=self._db.now)
            self._db.run("hand_back_runs", ids=back)
            self._db.notify(News.WORK)
        for token, asked_to_end in own.items():
            if asked_to_end is not None:
                self.settle(token, Outcome("cancelled", asked_to_end))
        return set(own)

    def take_over(self, limit: int) -> int:
        """Requeue up to `limit` runs of dead sessions, in their places; beyond `max_takeovers` they
        fail, and beyond twice as many losses before they had started."""
        ids = [row[0] for row in self._db.all("list_orphans", limit=limit)]
        if not ids:
            return 0
        self._wakes.hold(ids)
        orphans = [Orphan._make(row) for row in self._db.all("take_orphans", ids=ids)]
        taken = [orphan.id for orphan in orphans]
        self._db.run("insert_lost_attempts", ids=taken, now=self._db.now, error=LOST)
        again = [orphan.id for orphan in orphans if isinstance(orphan.fate, HandedBack)]
        if again:
            self._db.run("requeue_runs", ids=again)
            self._db.notify(News.WORK)
        for orphan in orphans:
            if isinstance(orphan.fate, Ends):
                self._end_orphan(orphan, orphan.fate.outcome)
        return len(orphans)

    def _end_orphan(self, orphan: Orphan, outcome: Outcome) -> None:
        how = {"status": outcome.status, "reason": outcome.reason, "error": outcome.error}
        self._db.run("fail_lost_run", id=orphan.id, now=self._db.now, **how)
        self._lifecycle.record_run_events([orphan.id])
        self._wakes.wake_owner(orphan.wakes, orphan.schedule_id, orphan.parent_run_id)

    def expire(self, limit: int) -> int:
        """Cancel up to `limit` runs that were not started by their deadline."""
        ids = [row[0] for row in self._db.all("list_expiring", now=self._db.now, limit=limit)]
        if not ids:
            return 0
        self._wakes.hold(ids)
        rows = self._db.all("expire_runs", now=self._db.now, ids=ids)
        for _, *owner in rows:
            self._wakes.wake_owner(*owner)
        self._lifecycle.record_run_events([row[0] for row in rows])
        return len(rows)

    def earliest_expiry(self) -> datetime | None:
        """When the next run that has not been started expires."""
        found: datetime | None = self._db.time(self._db.value("get_earliest_expiry"))
        return found

    def note_overlaps(self, ended: Iterable[tuple[Token, datetime]]) -> None:
        """Record until when tasks continued after their attempts had been ended in the database;
        has no effect if the run had no other attempt, or that had ended by then."""
        for token, until in ended:
            self._db.run("note_overlap", **_token(token), until=until)

    def note_progress(self, told: Sequence[tuple[Token, Progress]]) -> None:
        """Record the progress of active attempts; a token that is not current is ignored."""
        now = self._db.stamp(self._db.now)
        rows = (
            {
                **_token(token),
                "progress": progress.fraction,
                "text": clean(progress.text),
                "now": now,
            }
            for token, progress in sorted(told, key=lambda item: item[0].run_id)
        )
        self._db.many("note_progress", rows)

    def append_log(self, token: Token, first_seq: int, lines: Sequence[LogLine]) -> None:
        """Add lines, numbered from `first_seq`; existing lines are kept."""
        self._db.many(
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
        """Delete the lines between the two, keeping both."""
        self._db.run(
            "trim_log",
            run_id=token.run_id,
            attempt=token.attempt,
            head_seq=head_seq,
            tail_seq=tail_seq,
        )


def _token(token: Token) -> Values:
    return {"run_id": token.run_id, "attempt": token.attempt, "session_id": token.session_id}
