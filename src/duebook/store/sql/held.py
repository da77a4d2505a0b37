"""Missed due times that wait for an operator, in a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duebook.model.held import HeldRange
from duebook.model.listing import Found, PagePosition
from duebook.store.sql.rows import EARLIEST, micros, moment
from duebook.store.sql.statements import Part, Row, Values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from duebook.model.plan import Hold

__all__ = ["HeldCatchup", "held_row"]


class HeldCatchup(Part):
    """Ranges of due times, by their first one."""

    def of(self, schedule_ids: Sequence[str]) -> list[HeldRange]:
        """The held ranges of schedules, the first one first."""
        rows = self._db.all("list_held_of", ids=list(schedule_ids))
        return [_read(row, self._db.time) for row in rows]

    def list_held(
        self, namespace: str, only: str, after: PagePosition | None, limit: int
    ) -> Found[HeldRange]:
        """By schedule and due time; `only` is the id of one schedule, or empty for all."""
        name, due_from = ("", EARLIEST) if after is None else (str(after[0]), moment(int(after[1])))
        place: Values = {"name": name, "due_from": due_from}
        rows = self._db.all("list_held_in", namespace=namespace, only=only, limit=limit, **place)
        found = [_read(row, self._db.time) for row in rows]
        last = found[-1] if len(found) == limit else None
        return Found(found, None if last is None else (last.schedule, micros(last.due_from)))

    def replace(self, schedule_id: str, ranges: Sequence[HeldRange]) -> None:
        """Replace the held ranges of a locked schedule."""
        self._db.run("delete_held", ids=[schedule_id])
        self._db.many(
            "insert_held",
            [held_row(schedule_id, found.version, found, found.held_at) for found in ranges],
        )

    def note_approved(self, schedule_id: str, number: int) -> None:
        """Record that this many due times of a locked schedule became runs."""
        self._db.run("add_fired", id=schedule_id, number=number)


def held_row(schedule_id: str, version: int, held: Hold | HeldRange, since: datetime) -> Values:
    return {
        "schedule_id": schedule_id,
        "due_from": held.due_from,
        "due_to": held.due_to,
        "count": held.count,
        "exact": held.exact,
        "version": version,
        "held_at": since,
    }


def _read(row: Row, time: Callable[[Any], Any]) -> HeldRange:
    name, schedule_id, first, last, count, exact, version, held_at = row
    return HeldRange(
        name, schedule_id, time(first), time(last), count, bool(exact), version, time(held_at)
    )
