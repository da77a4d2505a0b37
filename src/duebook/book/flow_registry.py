"""Keeps the flows of files in the books, each with the schedule that starts it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.book.schedules import Schedules
from duebook.errors import Conflict, DuebookError, Unavailable, shorten
from duebook.flows.lifecycle import next_control
from duebook.flows.problems import Problem
from duebook.flows.reconcile import Kept
from duebook.ids import new_id
from duebook.store.joined import JoinedStore

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from duebook.flows.reconcile import Change, Reconciled
    from duebook.model.flow import Flow
    from duebook.store.base import Store, Tx

__all__ = ["FlowRegistry"]

LEASE: Final = timedelta(minutes=1)
AT_ONCE: Final = 200
"""Changes that share a transaction: others must not wait for ten thousand of them."""
PREFIX: Final = "flows:"
"""How the schedules of flows say who made them."""


class FlowRegistry:
    """Implements flows.keeping.LeasedRegistry for a namespace."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._holder = new_id()
        self._saved: dict[frozenset[str], dict[str, list[dict[str, Any]]]] = {}
        self._refused: dict[str, Problem] = {}
        """by place: schedules that could not be made"""

    def hold(self, roots: Collection[str]) -> bool:
        try:
            self._store.transact(
                lambda tx: tx.lease_flows(self._namespace, roots, self._holder, LEASE)
            )
        except Conflict:
            return False
        return True

    def release(self) -> None:
        self._store.transact(lambda tx: tx.release_flows(self._holder))

    def kept(self) -> list[Kept]:
        flows = self._store.read(lambda tx: tx.list_flows(self._namespace))
        return [Kept(flow.name, flow.place, flow.digest) for flow in flows]

    def apply(self, found: Reconciled, roots: Collection[str]) -> None:
        """Large changes are done in parts, each flow as a whole: what is left comes next time."""
        changes = found.changes
        for first in range(0, len(changes), AT_ONCE):
            part = changes[first : first + AT_ONCE]
            self._store.transact(lambda tx, part=part: self._apply(tx, part, roots))  # type: ignore[misc]
        problems = {place: [p.to_json() for p in told] for place, told in found.problems.items()}
        for place, problem in self._refused.items():
            problems.setdefault(place, []).append(problem.to_json())
        if self._saved.get(frozenset(roots)) != problems:
            self._store.transact(lambda tx: tx.save_problems(self._namespace, roots, problems))
            self._saved[frozenset(roots)] = problems

    def _apply(self, tx: Tx, changes: Sequence[Change], roots: Collection[str]) -> None:
        tx.lease_flows(self._namespace, roots, self._holder, LEASE)
        for change in changes:
            kept = tx.get_flow(self._namespace, change.name)
            if (None if kept is None else kept.digest) != change.was:
                raise Conflict(f'flow "{change.name}" was changed meanwhile')
        for change in changes:
            self._change(tx, change)

    def _change(self, tx: Tx, change: Change) -> None:
        self._refused.pop(change.place, None)
        if change.kind == "delete":
            tx.remove_flow(self._namespace, change.name)
            self._unschedule(tx, change.name)
            return
        if change.revision is None or change.flow is None:
            tx.move_flow(self._namespace, change.name, change.place)
            return
        tx.save_flow(self._namespace, change.revision, next_control(change.flow, tx.now))
        try:
            self._schedule(tx, change.flow, change.place)
        except Unavailable:
            raise
        except DuebookError as error:
            told = f"it cannot be scheduled: {shorten(str(error), 300)}"
            self._refused[change.place] = Problem(change.place, 1, 1, "schedule", told)

    def _schedule(self, tx: Tx, flow: Flow, place: str) -> None:
        form = flow.schedule_form()
        if form is None:
            self._unschedule(tx, flow.name)
            return
        by = PREFIX + place.partition("/")[0]
        Schedules(JoinedStore(tx), self._namespace, by=by).declare(flow.name, by, **form)

    def _unschedule(self, tx: Tx, name: str) -> None:
        """Only what flows made: a schedule of somebody else stays."""
        id_ = tx.list_taken(self._namespace, [name]).get(name)
        if id_ is not None and tx.get_schedule(id_).created_by.startswith(PREFIX):
            Schedules(JoinedStore(tx), self._namespace).delete(name)
