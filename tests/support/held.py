"""Due times that wait for an operator, although there was no outage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.model.held import HeldRange

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duebook.book import Book


def hold(book: Book, name: str, first: datetime, every: timedelta, count: int) -> None:
    """Hold this many due times of a schedule."""
    schedule = book.schedules.get(name)
    last, now = first + (count - 1) * every, book.insights.now()
    held = HeldRange(name, schedule.id, first, last, count, True, 1, now)
    book.store.transact(lambda tx: tx.held.replace(schedule.id, [held]))
