"""Stores the flows of files in the database, each with the schedule that starts it."""

from __future__ import annotations

import logging
from collections import defaultdict
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from duebook.book.actions import delete_all
from duebook.book.audit import ScheduleAudit
from duebook.book.schedules import Schedules
from duebook.errors import Conflict, DuebookError, Unavailable, shorten
from duebook.flows.flow_cache import FlowCache, NoFlow
from duebook.flows.problems import Problem
from duebook.flows.reconcile import Kept
from duebook.flows.redacted_source import show_source
from duebook.ids import new_id
from duebook.model.flow import root_of
from duebook.model.schedule import InvalidSchedule
from duebook.planner import UNATTENDED_AGAIN
from duebook.store.flow_values import BrokenFile
from duebook.store.joined import JoinedStore

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from duebook.flows.reconcile import Change, Reconciled
    from duebook.model.flow import Flow, Revision
    from duebook.store.base import Store, Tx

__all__ = ["FlowRegistry"]

log = logging.getLogger(__name__)

LEASE: Final = timedelta(minutes=1)
AT_ONCE: Final = 200
"""Changes in one transaction: others must not wait for ten thousand of them."""
LONGEST_TEXT: Final = 200_000
"""Characters that are stored of a file that has problems."""
RETURNED: Final = (
    "flows: after a takeover, %s has an earlier revision; check that this node's copy of "
    "directory %s is current"
)
PREFIX: Final = "flows:"
"""The prefix of the creator of flows' schedules."""


class _Made(NamedTuple):
    """A schedule with the name of a flow."""

    id: str
    maker: str

    @property
    def is_ours(self) -> bool:
        return self.maker.startswith(PREFIX)


class FlowRegistry:
    """Implements flows.directory_keeper.LeasedRegistry for a namespace."""

    def __init__(self, store: Store, namespace: str, lease: timedelta = LEASE) -> None:
        self._store = store
        self._namespace = namespace
        self._lease = lease
        self._flow_cache = FlowCache()
        self._session_id = new_id()
        self._terms: dict[str, int] = {}
        """of the directories that this node holds"""
        self._scanned: dict[str, int] = {}
        """the terms in which it scanned them"""
        self._refused: dict[str, Problem] = {}
        """by place: schedules that could not be created just now"""

    def owned_by(self, session_id: str) -> None:
        if session_id != self._session_id:
            self._terms = {}  # if another thread still uses the former, the database rejects them
            self._session_id = session_id

    def hold(self, roots: Collection[str]) -> tuple[set[str], float]:
        others = self._others(set(roots) - self._terms.keys())
        found = {root: self._take(root) for root in roots if root not in others}
        held = {root: term for root, term in found.items() if term is not None}
        self._terms = held
        return set(held), min(others.values(), default=self._lease.total_seconds())

    def _others(self, roots: Collection[str]) -> dict[str, float]:
        """Directories that other nodes hold, and in how many seconds that could end.

        They are only read, not taken: most of the time the other nodes keep them.
        """

        def work(tx: Tx) -> dict[str, float]:
            leases = tx.directories.leases_of_others(self._namespace, roots, self._session_id)
            return {root: (until - tx.now).total_seconds() for root, until in leases.items()}

        return self._store.read(work) if roots else {}

    def _take(self, root: str) -> int | None:
        return self._store.transact(
            lambda tx: tx.directories.take_directory(
                self._namespace, root, self._session_id, self._lease
            )
        )

    def _keep(self, tx: Tx, roots: Collection[str]) -> None:
        """Renew the leases of directories; raises Conflict if another node has taken one over."""
        for root in sorted(roots):
            term = self._terms.get(root, 0)
            tx.directories.keep_directory(
                self._namespace, root, self._session_id, term, self._lease
            )

    def scanned(self, roots: Collection[str]) -> None:
        """The first scan in a term wakes the schedules that waited for it."""

        def work(tx: Tx, root: str, term: int) -> None:
            is_first = self._scanned.get(root) != term
            wake_until = tx.now + UNATTENDED_AGAIN if is_first else None
            place = (self._namespace, root, self._session_id, term)
            tx.directories.mark_scanned(*place, wake_until)

        for root in sorted(roots):
            term = self._terms.get(root)
            if term is None:
                raise Conflict(f'this node does not read directory "{root}"')
            self._store.transact(partial(work, root=root, term=term))
            self._scanned[root] = term

    def release(self) -> None:
        self._terms = {}
        self._store.transact(lambda tx: tx.directories.release_directories(self._session_id))

    def queues(self, roots: Collection[str]) -> set[str]:
        """The queues of the flows of these directories that are in force."""

        def work(tx: Tx) -> set[str]:
            kept = [flow for flow, _ in tx.flows.list_flows(self._namespace)]
            wanted = [(flow.name, flow.digest) for flow in kept if root_of(flow.place) in roots]
            found = self._flow_cache.find_all(tx.flows, self._namespace, wanted)
            return {flow.policies.queue for flow in found if not isinstance(flow, NoFlow)}

        return self._store.read(work)

    def forget(self, tx: Tx, root: str) -> list[str]:
        """Delete the flows of a directory that no node holds, with their schedules; returns their
        names. Raises Conflict if a node holds it."""
        if (
            tx.directories.take_directory(self._namespace, root, self._session_id, timedelta())
            is None
        ):
            raise Conflict(
                f'a node reads directory "{root}"; restart it without that directory first'
            )
        names = [
            flow.name
            for flow, _ in tx.flows.list_flows(self._namespace)
            if root_of(flow.place) == root
        ]
        if names:
            tx.flows.remove_flows(self._namespace, names)
            self._unschedule(tx, self._made(tx, names))
        tx.flows.save_problems(self._namespace, [root], {})
        tx.directories.delete_directory(self._namespace, root)
        return names

    def kept(self) -> list[Kept]:
        return self._store.read(self._kept)

    def _kept(self, tx: Tx) -> list[Kept]:
        """The stored flows. One without its calendar has no schedule yet, and is tried again."""
        flows, files = (
            tx.flows.list_flows(self._namespace),
            tx.flows.list_flow_problems(self._namespace),
        )
        waiting = {
            place
            for place, file in files.items()
            if any(problem["key"] == "calendar" for problem in file.problems)
        }
        return [
            Kept(
                flow.name,
                flow.place,
                flow.digest,
                maker is not None and flow.place not in waiting,
            )
            for flow, maker in flows
        ]

    def apply(self, found: Reconciled, roots: Collection[str]) -> None:
        """Split large changes into parts, each flow as a whole; the rest is applied next time."""
        changes = found.changes
        for first in range(0, len(changes), AT_ONCE):
            part = changes[first : first + AT_ONCE]
            self._store.transact(lambda tx, part=part: self._apply(tx, part, roots))  # type: ignore[misc]
        known, files = self._store.read(lambda tx: self._broken(tx, found, roots))
        if files != known:
            self._store.transact(lambda tx: self._save(tx, found, files, roots))
        self._refused.clear()

    def _broken(
        self, tx: Tx, found: Reconciled, roots: Collection[str]
    ) -> tuple[dict[str, BrokenFile], dict[str, BrokenFile]]:
        """The problems in the database, which nodes agree on, and the current ones."""
        digests = {flow.place: flow.digest for flow, _ in tx.flows.list_flows(self._namespace)}
        known = {
            place: file
            for place, file in tx.flows.list_flow_problems(self._namespace).items()
            if root_of(place) in roots
        }
        changed = {change.place for change in found.changes}
        files = {
            place: file  # its schedule was rejected, and it is unchanged
            for place, file in known.items()
            if place not in changed and digests.get(place) == file.digest
        }
        for place, problem in self._refused.items():
            files[place] = BrokenFile([problem.to_json()], digests.get(place, ""))
        return known, files | {
            place: BrokenFile([p.to_json() for p in told], found.broken[place].digest)
            for place, told in found.problems.items()
        }

    def _save(
        self, tx: Tx, found: Reconciled, files: Mapping[str, BrokenFile], roots: Collection[str]
    ) -> None:
        self._keep(tx, roots)
        texts = {place: _shown(file.source) for place, file in found.broken.items()}
        whole = {place: file._replace(source=texts.get(place, "")) for place, file in files.items()}
        tx.flows.save_problems(self._namespace, roots, whole)

    def _apply(self, tx: Tx, changes: Sequence[Change], roots: Collection[str]) -> None:
        self._keep(tx, roots)
        kept = tx.flows.get_flows(self._namespace, [change.name for change in changes])
        for change in changes:
            found = kept.get(change.name)
            if (None if found is None else found.digest) != change.was:
                raise Conflict(f'flow "{change.name}" has been changed in the meantime')
            self._refused.pop(change.place, None)
        gone = [change.name for change in changes if change.kind == "delete"]
        if gone:
            tx.flows.remove_flows(self._namespace, gone)
        revised: list[tuple[Flow, Revision]] = []
        for change in changes:
            if change.flow is not None and change.revision is not None:
                revised.append((change.flow, change.revision))
            elif change.kind == "move":
                tx.flows.move_flow(self._namespace, change.name, change.place)
        self._note_returned(tx, [revision for _, revision in revised])
        tx.flows.save_flows(self._namespace, [revision for _, revision in revised])
        made = self._made(tx, [change.name for change in changes])
        ended = {*gone, *(flow.name for flow, _ in revised if not flow.has_times)}
        self._unschedule(tx, {name: found for name, found in made.items() if name in ended})
        flows = ((change.flow, change.place) for change in changes if change.flow is not None)
        self._schedule(
            tx, {flow.name: (flow, place) for flow, place in flows if flow.has_times}, made
        )

    def _note_returned(self, tx: Tx, revisions: Sequence[Revision]) -> None:
        """Note flows that a takeover sets back to an earlier revision: this node's copy of the
        directory may be outdated. A later change of such a flow clears the note."""
        known = tx.flows.flow_revisions(
            self._namespace, [(revision.flow, revision.digest) for revision in revisions]
        )
        for root in {root_of(revision.place) for revision in revisions}:
            took_over = self._scanned.get(root) != self._terms.get(root)
            changed = {r.flow: r.digest for r in revisions if root_of(r.place) == root}
            returned = {flow for flow, digest in changed.items() if (flow, digest) in known}
            before = set(tx.directories.list_returned(self._namespace, root))
            after = (before - changed.keys()) | (returned if took_over else set())
            if after != before:
                tx.directories.save_returned(self._namespace, root, after)
            if took_over and returned:
                names = shorten(", ".join(sorted(returned)), 200)
                log.warning(RETURNED, names, root)

    def _schedule(
        self, tx: Tx, flows: Mapping[str, tuple[Flow, str]], made: Mapping[str, _Made]
    ) -> None:
        """Create the new ones of each directory together; one by one if any of them is rejected."""
        fresh: dict[str, list[tuple[Flow, str]]] = defaultdict(list)
        for name, (flow, place) in flows.items():
            found = made.get(name)
            if found is None:
                fresh[root_of(place)].append((flow, place))
            elif found.is_ours:
                self._declare(tx, flow, place, found.maker)
            else:
                told = f'it cannot be scheduled: schedule "{name}" already exists'
                hint = "delete that schedule, or rename the flow"
                self._refused[place] = Problem(place, 1, 1, "schedule", told, hint)
        for root, ready in fresh.items():
            forms = [{"name": flow.name, **(flow.schedule_form() or {})} for flow, _ in ready]
            try:
                self._schedules(tx, PREFIX + root).create_many(forms, PREFIX + root, PREFIX + root)
            except Unavailable:
                raise
            except DuebookError:
                for flow, place in ready:
                    self._declare(tx, flow, place, PREFIX + root)

    def _made(self, tx: Tx, names: Sequence[str]) -> dict[str, _Made]:
        """The existing schedules with these names, all of them locked in one order."""
        taken = tx.schedules.list_taken(self._namespace, names)
        ids = sorted(taken.values())
        found = tx.plans.snapshots(ids)
        if len(found) < len(ids):
            found += [salvaged.snapshot for salvaged in tx.plans.salvage(ids)]
        users = {s.schedule_id: s.owner.user for s in found}
        return {name: _Made(id_, users[id_]) for name, id_ in taken.items() if id_ in users}

    def _declare(self, tx: Tx, flow: Flow, place: str, by: str) -> None:
        """`by` is its creator, perhaps for another directory that its file was in before."""
        try:
            schedules = self._schedules(tx, by)
            schedule, _ = schedules.declare_one(flow.name, by, **(flow.schedule_form() or {}))
            for note in schedule.notes:
                log.info("schedule %s: %s", schedule.name, note.message)
        except Unavailable:
            raise
        except DuebookError as error:
            told = f"it cannot be scheduled: {shorten(str(error), 300)}"
            no_calendar = isinstance(error, InvalidSchedule) and "calendar" in error.problems
            line, column = flow.calendar_at if no_calendar else (1, 1)
            key = "calendar" if no_calendar else "schedule"
            self._refused[place] = Problem(place, line, column, key, told)

    def _schedules(self, tx: Tx, by: str) -> Schedules:
        return Schedules(JoinedStore(tx), self._namespace, by=by)

    def _unschedule(self, tx: Tx, made: Mapping[str, _Made]) -> None:
        """Delete schedules, but only those that flows created."""
        ours = [found.id for found in made.values() if found.is_ours]
        if ours:
            delete_all(tx, ScheduleAudit(self._namespace, "flows"), ours)


def _shown(source: str) -> str:
    """A text that is not valid, without its secrets."""
    return "\n".join(show_source(source[:LONGEST_TEXT]))
