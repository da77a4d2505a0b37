"""When a definition that is not stored yet would be due; writes nothing."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from duebook.book.bulk import Wanted, first_state
from duebook.book.calendar_use import look_up
from duebook.book.checks import named_spec
from duebook.book.schedule_reader import LAST
from duebook.model.edited import Drafted
from duebook.planner import DueTimes

if TYPE_CHECKING:
    from duebook.budget import Budget
    from duebook.store.base import Store, Tx

__all__ = ["preview_times"]


def preview_times(
    store: Store,
    namespace: str,
    name: str,
    count: int,
    budget: Budget | None,
    definition: dict[str, Any],
) -> Drafted:
    """The next due times of a definition; its target is not checked. Raises InvalidSchedule,
    NotFound for a calendar, and OverBudget."""
    spec = named_spec(name, definition)

    def work(tx: Tx) -> Drafted:
        found = look_up(tx, namespace, spec)
        new = first_state(Wanted(name, found, enabled=True), namespace, tx.now).spec
        due = DueTimes(new, (), tx.now, name, budget).among(tx.now, LAST)
        most = count if spec.max_runs is None else min(count, spec.max_runs)
        return Drafted(new, list(islice(due, most)))

    return store.read(work)
