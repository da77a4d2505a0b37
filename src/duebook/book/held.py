"""Held due times in a transaction: reads them by their definitions, and applies a choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.errors import Conflict
from duebook.lazy_dataclasses import dataclass
from duebook.model.held import CatchupDecision
from duebook.model.plan import Reason, Skip
from duebook.planner import Held

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duebook.store.base import Tx

__all__ = ["Chosen", "held_of", "record_rejected"]


def held_of(tx: Tx, schedule_id: str) -> list[Held]:
    """What is held of a schedule, in order; raises Conflict if the definition that yields it cannot
    be read here."""
    ranges = tx.held.of([schedule_id])
    pairs = [(schedule_id, found.version) for found in ranges]
    known = tx.definitions.read(list(dict.fromkeys(pairs))) if ranges else {}
    for found, pair in zip(ranges, pairs, strict=True):
        if pair not in known:
            raise Conflict(
                f'schedule "{found.schedule}": this node cannot read version {found.version} of '
                "its definition, which has the held due times; upgrade Duebook"
            )
    return [Held.of(found, known[pair].spec) for found, pair in zip(ranges, pairs, strict=True)]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which of a schedule's held due times are chosen, and which are not."""

    inside: list[Held]
    rest: list[Held]

    @staticmethod
    def between(held: Sequence[Held], start: datetime, end: datetime) -> Chosen:
        """Those from `start` to `end`, both included."""
        parts = [one.cut(start, end) for one in held]
        inside = [part for part, _ in parts if part is not None]
        return Chosen(inside, [part for _, rest in parts for part in rest])

    @property
    def count(self) -> int:
        """How many are chosen; a lower bound if there are many."""
        return _count(self.inside)

    def decision(
        self, approved: int, rejected: Sequence[Held], held: Sequence[Held], dry_run: bool
    ) -> CatchupDecision:
        return CatchupDecision(
            approved,
            _count(rejected),
            _count(held),
            all(one.range.exact for one in (*rejected, *held)),
            min(one.range.due_from for one in self.inside),
            max(one.range.due_to for one in self.inside),
            dry_run=dry_run,
        )


def record_rejected(tx: Tx, rejected: Sequence[Held]) -> None:
    """Record them in the ledger."""
    entries = []
    for one in rejected:
        found = one.range
        span = found.due_from, found.due_to, found.count, found.exact
        facts = {"held_at": found.held_at}
        entry = Skip(*span, Reason.SKIPPED_BY_USER, facts, version=found.version)
        entries.append(((found.schedule_id, found.version), entry))
    tx.ledger.add(entries, None)


def _count(held: Sequence[Held]) -> int:
    return sum(one.range.count for one in held)
