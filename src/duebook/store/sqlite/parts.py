"""The parts of a transaction that SQLite implements in its own way: with one writer at a time."""

from __future__ import annotations

import json
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from duebook.model.finding import Finding
from duebook.model.serving import serving_of
from duebook.store.sql.attempts import Attempts
from duebook.store.sql.checks import Checks
from duebook.store.sql.claims import Claims, Taken, Wanted
from duebook.store.sql.flow_runs import FlowRuns
from duebook.store.sql.new_runs import NewRuns
from duebook.store.sql.rows import NewRun, claimed_run, clean, from_micros, inline, moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duebook.model.flow_run import FlowMove
    from duebook.model.run import Outcome, Token
    from duebook.store.sql.statements import Row, Values
    from duebook.store.sqlite.statements import SqliteStatements

    Places = dict[int, int | None]
    """places of runs in their table, with the time of their start if they were buffered"""
    Ended = list[tuple[Row, Outcome]]
    """rows of `list_own_runs`, and how those runs ended"""

__all__ = ["SqliteAttempts", "SqliteChecks", "SqliteClaims", "SqliteFlowRuns", "SqliteNewRuns"]

_HOW: Final = ("status", "reason", "error", "exit_code", "output", "output_ref")


class SqliteNewRuns(NewRuns):
    """Lowers priorities before runs are inserted."""

    def _capped(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Here, because a statement with a lookup could not insert many rows at once."""
        most: dict[str, int] = dict(self._db.all("list_ceilings"))
        if not most:
            return rows
        runs = map(NewRun._make, rows)
        return [
            run._replace(priority=min(run.priority, most.get(run.namespace, run.priority)))
            for run in runs
        ]


class SqliteAttempts(Attempts):
    """Many end with a few statements, as no other transaction can write in between."""

    def settle_all(
        self,
        ended: Sequence[tuple[Token, Outcome]],
        begun: Mapping[Token, datetime] = MappingProxyType({}),
    ) -> set[Token]:
        """Runs that end alike share a statement; only those not active are looked at one by one."""
        outcomes: dict[Row, Outcome] = {}
        for token, outcome in ended:
            outcomes.setdefault(token, outcome)
        rows = self._db.all("list_own_runs", ids=list({token[0]: None for token in outcomes}))
        own = [(row, outcomes[row[1:4]]) for row in rows if row[1:4] in outcomes]
        stamps: dict[Row, int | None] = {
            token: self._db.stamp(self._not_in_future(at)) for token, at in begun.items()
        }
        self._end_runs(own, stamps)
        told = [(row[1], outcome) for row, outcome in own]
        self._append_of_runs(told)
        self._ends.keep_large((id_, outcome.output) for id_, outcome in told)
        self._ends.keep_secrets((id_, outcome.output_secrets) for id_, outcome in told)
        self._lifecycle.record_run_events([id_ for id_, _ in told])
        self._wake_all(own)
        settled = {row[1:4] for row, _ in own}
        return {token for token, _ in ended if token in settled or self._settled_before(token)}

    def _end_runs(self, own: Ended, begun: Mapping[Row, int | None]) -> None:
        """One statement for each outcome that several runs have, and one for all others."""
        ways: dict[int, Row] = {}
        alike: dict[Row, Places] = {}
        for row, outcome in own:
            how = ways.get(id(outcome))  # usually one outcome for many
            if how is None:
                how = ways[id(outcome)] = _how(outcome)
            places = alike.setdefault(how, {})
            places[row[0]] = begun.get(row[1:4])
        now = self._db.now
        alone: list[Values] = []
        for how, places in alike.items():
            values: Values = {"now": now, **dict(zip(_HOW, how, strict=True))}
            if len(places) > 1:
                self._db.run("settle_alike", begun=json.dumps(places), **values)
            else:
                ((place, begun_at),) = places.items()
                alone.append({"place": place, "begun_at": begun_at, **values})
        if alone:
            self._db.many("settle_each", alone)

    def _wake_all(self, own: Ended) -> None:
        """Wake what waits for these ends: flows, schedules, and those that depend on them."""
        self._wakes.wake_flows(row[6] for row, _ in own)
        if woken := {row[5] for row, _ in own if row[4] and row[6] is None} - {None}:
            self._db.run("wake_schedules", ids=sorted(woken), now=self._db.now)
        if self._wakes.anybody_depends:
            succeeded = {row[5] for row, outcome in own if outcome.status == "succeeded"} - {None}
            self._wakes.wake_dependents(sorted(succeeded))


def _how(outcome: Outcome) -> Row:
    """The values of `_HOW`."""
    return (
        outcome.status,
        clean(outcome.reason),
        clean(outcome.error),
        outcome.exit_code,
        inline(outcome.output),
        clean(outcome.output_ref),
    )


class SqliteClaims(Claims):
    """Nothing is claimed in a database that is about to be copied."""

    def _rests_until(self) -> datetime | None:
        until: datetime | None = self._db.time(self._db.value("get_drain", now=self._db.now))
        return until

    def _claim_runs(self, wanted: Wanted, limit: int, ahead: int) -> Taken:
        session = {"id": wanted.session_id, "queue": wanted.queue, "now": self._db.now}
        alive = self._db.one("get_session_alive", **session)
        if alive is None:
            return Taken([], is_limited=False)
        node, served, limited = alive
        if wanted.namespace not in serving_of(json.loads(served)):
            return Taken([], is_limited=False)
        if not limited:
            return self._take(wanted, node, limit, ahead, self._db.now)
        return self._within_queue(
            wanted.queue, limit, ahead, lambda *most: self._take(wanted, node, *most)
        )

    def _take(self, wanted: Wanted, node: str, limit: int, ahead: int, at: datetime) -> Taken:
        """In portions, because a claim may use up the limit of a schedule with more work."""
        claimed: list[Row] = []
        is_limited = False
        while len(claimed) < limit + ahead and not is_limited:
            straight = max(limit - len(claimed), 0)
            found, is_limited = _before_limited(
                self._claimable(wanted, limit + ahead - len(claimed)), straight
            )
            places = _within_limits(found)
            claimed += self._claim_places(wanted.session_id, places, straight, at)
            if len(places) == len(found):
                break
        pairs = {row[3:5]: None for row in claimed if row[3] is not None}
        definitions = self._definitions.read(list(pairs))
        names = {pair: found.name for pair, found in definitions.items()}
        runs = [claimed_run(_with_times(row), names.get(row[3:5]), node, at) for row in claimed]
        return Taken(runs, is_limited)

    def _claim_places(
        self, session_id: str, places: list[int], straight: int, at: datetime
    ) -> list[Row]:
        """The runs at these places, in that order; only the first `straight` start at once."""
        rows: dict[int, Row] = {}
        for part, begun_at in ((places[:straight], at), (places[straight:], None)):
            if part:
                mine: Values = {"session_id": session_id, "now": at, "begun_at": begun_at}
                rows |= {row[0]: row for row in self._db.all("claim_runs", places=part, **mine)}
        return [rows[place] for place in places]


def _with_times(row: Row) -> tuple[Any, ...]:
    """A row of `claim_runs` in the form for `claimed_run`."""
    created_at, ready_at, expires_at = row[14:17]
    created = moment(created_at)
    ready = created if ready_at == created_at else moment(ready_at)
    begun_at, start, end = map(from_micros, row[21:24])
    return (
        *row[1:5],
        from_micros(row[5]),
        *row[6:14],
        created,
        ready,
        from_micros(expires_at),
        *row[17:21],
        begun_at,
        start,
        end,
        *row[24:],
    )


class SqliteFlowRuns(FlowRuns):
    """One statement for each flow that ends."""

    def _end_flows(self, ended: Sequence[FlowMove]) -> list[Row]:
        return [
            row
            for move in ended
            if move.end is not None
            for row in self._db.all(
                "end_flow_run",
                id=move.parent.run_id,
                now=self._db.now,
                status=move.end.status,
                reason=move.end.reason,
                error=clean(move.error),
                output=inline(move.output),
            )
        ]


class SqliteChecks(Checks):
    """Also checks the file itself."""

    _db: SqliteStatements

    def _damage(self, deep: bool) -> list[Finding]:
        """Both checks read the whole file."""
        if not deep:
            return []
        found = [
            Finding("I6", f"the file is damaged: {row[0]}")
            for row in self._db.connection.execute("PRAGMA quick_check").fetchall()
            if row[0] != "ok"
        ]
        return found + [
            Finding("I6", f"a row of {row[0]} refers to a row of {row[2]} that does not exist")
            for row in self._db.connection.execute("PRAGMA foreign_key_check").fetchall()
        ]


def _before_limited(found: list[Row], limit: int) -> tuple[list[Row], bool]:
    """What may be claimed when only `limit` start at once: runs that must not be buffered are not,
    and are not overtaken. The last column tells whether a run may be buffered."""
    for place, row in enumerate(found[limit:], limit):
        if not row[-1]:
            return found[:place], True
    return found, False


def _within_limits(found: list[Row]) -> list[int]:
    """The runs that may start together; each row has (place, schedule, its limit, its active runs,
    limit of its backfill, active runs of that, …)."""
    begun: Counter[str] = Counter()
    filled: Counter[str] = Counter()
    places = []
    for place, schedule_id, most, busy, limit, filling, _ in found:
        if most is not None and busy + begun[schedule_id] >= most:
            continue
        if limit is not None and filling + filled[schedule_id] >= limit:
            continue
        begun[schedule_id] += most is not None
        filled[schedule_id] += limit is not None
        places.append(place)
    return places
