"""The ledger in a transaction: why due times did not run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duebook.model.listing import Found, PagePosition
from duebook.model.plan import Plan, Skip
from duebook.store.sql.looking import look
from duebook.store.sql.rows import EARLIEST, LAST_PLACE, LATEST, facts_text, micros, moment
from duebook.store.sql.statements import Part, Row, Values
from duebook.store.values import LedgerEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.model.filters import LedgerFilter

__all__ = ["Ledger", "skips_of"]


class Ledger(Part):
    """Entries, the newest first in pages."""

    def add(self, skips: Sequence[tuple[tuple[str, int], Skip]], session_id: str | None) -> None:
        """Add entries; one that continues the latest entry extends it instead."""
        common: Values = {"session_id": session_id, "now": self._db.now}
        rows = [_ledger_row(*pair, skip) | common for pair, skip in skips]
        self._db.many("insert_ledger", self._extend(rows))

    def _extend(self, rows: list[Values]) -> list[Values]:
        """Extend existing entries; returns those that need a new one."""
        return [
            row
            for row in rows
            if row["follows"] is None or not self._db.run("extend_ledger", **row)
        ]

    def list_ledger(
        self, schedule_id: str, wanted: LedgerFilter, after: PagePosition | None, limit: int
    ) -> Found[LedgerEntry]:
        """The newest first."""
        time = self._db.time

        def read(after: PagePosition | None, most: int) -> list[Row]:
            at, id_ = after or (micros(LATEST), LAST_PLACE)
            return self._db.all(
                "list_ledger",
                schedule_id=schedule_id,
                since=wanted.since or EARLIEST,
                before=moment(int(at)),
                id=id_,
                limit=most,
            )

        def matches(row: Row) -> bool:
            return (wanted.reason is None or row[5] == wanted.reason) and (
                wanted.until is None or time(row[0]) <= wanted.until
            )

        found = look(read, matches, lambda row: (micros(time(row[1])), row[11]), after, limit)
        return Found([read_entry(row, time) for row in found.rows], found.last)

    def list_ledger_between(
        self, schedule_id: str, since: datetime, until: datetime, limit: int
    ) -> list[LedgerEntry]:
        """The entries about due times from `since` to `until`, the first one first."""
        rows = self._db.all(
            "list_ledger_between",
            id=schedule_id,
            since=since,
            until=until,
            limit=limit,
        )
        return [read_entry(row, self._db.time) for row in rows]


def skips_of(plan: Plan) -> list[tuple[tuple[str, int], Skip]]:
    """The entries of a plan for the ledger, with their schedule."""
    pair = plan.schedule_id, plan.version
    return [(pair, decision) for decision in plan.decisions if isinstance(decision, Skip)]


def _ledger_row(schedule_id: str, version: int, skip: Skip) -> Values:
    return {
        "schedule_id": schedule_id,
        "version": version if skip.version is None else skip.version,
        "due_from": skip.due_from,
        "due_to": skip.due_to,
        "count": skip.count,
        "exact": skip.exact,
        "verdict": skip.verdict,
        "kind": skip.kind,
        "reason": skip.reason.value,
        "facts": facts_text(skip.facts),
        "follows": skip.follows,
    }


def read_entry(row: Row, time: Callable[[Any], Any]) -> LedgerEntry:
    first, last, count, exact, verdict, reason, facts, at, version, session_id, kind = row[:11]
    return LedgerEntry(
        due_from=time(first),
        due_to=time(last),
        count=count,
        exact=bool(exact),
        verdict=verdict,
        reason=reason,
        facts=json.loads(facts),
        at=time(at),
        version=version,
        session_id=session_id,
        kind=kind,
    )
