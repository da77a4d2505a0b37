"""Keeps the flows of files in the books, each with the schedule that starts it."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from duebook.book.audit import ScheduleAudit
from duebook.book.bulk import delete_all
from duebook.book.schedules import Schedules
from duebook.errors import Conflict, DuebookError, Unavailable, shorten
from duebook.flows.lifecycle import next_control
from duebook.flows.problems import Problem
from duebook.flows.reconcile import Kept
from duebook.ids import new_id
from duebook.store.joined import JoinedStore

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from duebook.flows.reconcile import Change, Reconciled
    from duebook.model.flow import Flow, Revision
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
        kept = tx.get_flows(self._namespace, [change.name for change in changes])
        for change in changes:
            found = kept.get(change.name)
            if (None if found is None else found.digest) != change.was:
                raise Conflict(f'flow "{change.name}" was changed meanwhile')
            self._refused.pop(change.place, None)
        gone = [change.name for change in changes if change.kind == "delete"]
        if gone:
            tx.remove_flows(self._namespace, gone)
        revised: list[tuple[Flow, Revision]] = []
        for change in changes:
            if change.flow is not None and change.revision is not None:
                revised.append((change.flow, change.revision))
            elif change.kind == "move":
                tx.move_flow(self._namespace, change.name, change.place)
        tx.save_flows(
            self._namespace, [(revision, next_control(flow, tx.now)) for flow, revision in revised]
        )
        self._unschedule(tx, [*gone, *(flow.name for flow, _ in revised if not flow.start)])
        self._schedule(tx, {flow.name: (flow, r.place) for flow, r in revised if flow.start})

    def _schedule(self, tx: Tx, flows: Mapping[str, tuple[Flow, str]]) -> None:
        """The new ones of each directory together, unless one of them is refused."""
        taken = tx.list_taken(self._namespace, list(flows))
        fresh: dict[str, list[tuple[Flow, str]]] = defaultdict(list)
        for name, (flow, place) in flows.items():
            if name in taken:
                self._declare(tx, flow, place)
            else:
                fresh[place.partition("/")[0]].append((flow, place))
        for root, found in fresh.items():
            forms = [{"name": flow.name, **(flow.schedule_form() or {})} for flow, _ in found]
            try:
                self._schedules(tx, PREFIX + root).create_many(forms, PREFIX + root)
            except Unavailable:
                raise
            except DuebookError:
                for flow, place in found:
                    self._declare(tx, flow, place)

    def _declare(self, tx: Tx, flow: Flow, place: str) -> None:
        by = PREFIX + place.partition("/")[0]
        try:
            self._schedules(tx, by).declare(flow.name, by, **(flow.schedule_form() or {}))
        except Unavailable:
            raise
        except DuebookError as error:
            told = f"it cannot be scheduled: {shorten(str(error), 300)}"
            self._refused[place] = Problem(place, 1, 1, "schedule", told)

    def _schedules(self, tx: Tx, by: str) -> Schedules:
        return Schedules(JoinedStore(tx), self._namespace, by=by)

    def _unschedule(self, tx: Tx, names: Sequence[str]) -> None:
        """Only what flows made: a schedule of somebody else stays."""
        ids = tx.list_taken(self._namespace, names).values() if names else ()
        ours = [
            snapshot.schedule_id
            for snapshot in (tx.snapshots(sorted(ids)) if ids else ())
            if snapshot.owner.user.startswith(PREFIX)
        ]
        if ours:
            delete_all(tx, ScheduleAudit(self._namespace, "flows"), ours)
