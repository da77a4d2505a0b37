"""Directories of flows in a transaction: which node reads each, and whether it has done so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duebook.errors import Conflict
from duebook.model.flow_directory import FlowDirectory
from duebook.model.flow_target import FlowTarget
from duebook.model.plan import Snapshot, Unattended
from duebook.store.sql.statements import Part, Row
from duebook.store.values import News

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime, timedelta

    Pair = tuple[str, str]
    """a namespace and a name in it"""

__all__ = ["Directories"]


class Directories(Part):
    """Leases of directories, and what the planner must know about them."""

    def take_directory(
        self, namespace: str, name: str, session_id: str, lease: timedelta
    ) -> int | None:
        """Take charge of a directory for a while; returns the term, which is new unless this
        session was in charge throughout. None while another live node is."""
        row = self._db.one(
            "take_directory",
            namespace=namespace,
            name=name,
            session_id=session_id,
            now=self._db.now,
            expires_at=self._db.now + lease,
        )
        return None if row is None else int(row[0])

    def keep_directory(
        self, namespace: str, name: str, session_id: str, term: int, lease: timedelta
    ) -> None:
        """Extend the lease of a directory; raises Conflict when that term is over."""
        row = self._db.one(
            "keep_directory",
            namespace=namespace,
            name=name,
            session_id=session_id,
            term=term,
            now=self._db.now,
            expires_at=self._db.now + lease,
        )
        if row is None:
            raise _lost(name)

    def mark_scanned(
        self, namespace: str, name: str, session_id: str, term: int, wake_until: datetime | None
    ) -> None:
        """Its files were read under a term, and its flows match them.

        With `wake_until`, schedules that would be due for a look until then are looked at now.
        Raises Conflict when that term is over.
        """
        row = self._db.one(
            "mark_scanned",
            namespace=namespace,
            name=name,
            session_id=session_id,
            term=term,
            now=self._db.now,
        )
        if row is None:
            raise _lost(name)
        if wake_until is not None:
            self._wake_flow_schedules(namespace, name, wake_until)

    def _wake_flow_schedules(self, namespace: str, name: str, until: datetime) -> None:
        found = self._db.all(
            "list_flow_schedules", namespace=namespace, name=name, now=self._db.now, until=until
        )
        if ids := [id_ for (id_,) in found]:
            self._db.all("take_states", ids=ids)  # in the order in which others lock them
            self._db.run("wake_schedules", ids=ids, now=self._db.now)
            self._db.notify(News.WAKE)

    def save_returned(self, namespace: str, name: str, flows: Iterable[str]) -> None:
        """The flows for which a takeover restored an earlier revision; replaces the former list."""
        returned = json.dumps(sorted(flows))
        self._db.run("save_returned", namespace=namespace, name=name, returned=returned)

    def list_returned(self, namespace: str, name: str) -> list[str]:
        text = self._db.value("get_returned", namespace=namespace, name=name)
        return [] if text is None else list(json.loads(text))

    def leases_of_others(
        self, namespace: str, roots: Iterable[str], session_id: str
    ) -> dict[str, datetime]:
        """The directories of other nodes, and until when they hold them unless they renew."""
        rows = self._db.all(
            "list_directory_leases", namespace=namespace, names=list(roots), id=session_id
        )
        ends = {name: self._db.time(until) for name, until in rows}
        return {root: until for root, until in ends.items() if until > self._db.now}

    def release_directories(self, session_id: str) -> None:
        """Let other nodes take charge of them."""
        self._db.run("release_directories", id=session_id, now=self._db.now)

    def delete_directory(self, namespace: str, name: str) -> None:
        """Forget when it was read, and by whom."""
        self._db.run("delete_directory", namespace=namespace, name=name)

    def list_directories(self, namespaces: Collection[str] | None = None) -> list[FlowDirectory]:
        """Those of some namespaces, or of all, by name."""
        pairs = [
            (place, name)
            for place, name in self._db.all("list_directory_names")
            if namespaces is None or place in namespaces
        ]
        return [self._directory(row) for row in self._read_directories("list_directories", pairs)]

    def _read_directories(self, query: str, pairs: Sequence[Pair]) -> list[Row]:
        if not pairs:
            return []
        namespaces, names = [place for place, _ in pairs], [name for _, name in pairs]
        return self._db.all(query, namespaces=namespaces, names=names, now=self._db.now)

    def _directory(self, row: Row) -> FlowDirectory:
        namespace, name, node, scanned_at, is_attended, returned = row
        waiting = 0
        if not is_attended:
            waiting = self._db.value(
                "count_waiting_flows", namespace=namespace, name=name, now=self._db.now
            )
        return FlowDirectory(
            namespace,
            name,
            self._db.time(scanned_at),
            node if is_attended else None,
            bool(is_attended),
            tuple(json.loads(returned)),
            waiting,
        )

    def unattended(self, snapshots: Sequence[Snapshot], taken: bool) -> dict[str, Unattended]:
        """Of schedules that start flows, those whose directories no node reads, by their ids."""
        flows: dict[Pair, list[str]] = {}
        for snapshot in snapshots:
            target = snapshot.spec.target
            if isinstance(target, FlowTarget):
                pair = (snapshot.owner.namespace, target.name)
                flows.setdefault(pair, []).append(snapshot.schedule_id)
        if not flows:
            return {}
        namespaces, names = [place for place, _ in flows], [name for _, name in flows]
        rows = self._db.all("list_flow_roots", namespaces=namespaces, flows=names)
        roots = {(namespace, flow): root for namespace, flow, root in rows}
        known = self._attended({(pair[0], root) for pair, root in roots.items()}, taken)
        return {
            schedule_id: unattended
            for pair, root in roots.items()
            if (unattended := known[pair[0], root]) is not None
            for schedule_id in flows[pair]
        }

    def _attended(self, directories: set[Pair], taken: bool) -> dict[Pair, Unattended | None]:
        """What blocks each directory, if anything; one that was never read is unknown."""
        found: dict[Pair, Unattended | None] = {}
        query = self._db.sharing if taken else "list_directories"
        for row in self._read_directories(query, sorted(directories)):
            place, name, _, scanned_at, is_attended, _ = row
            read_at = self._db.time(scanned_at)
            found[place, name] = None if is_attended else Unattended(name, read_at)
        if missing := directories - found.keys():
            others = {(place, name) for place, name in self._db.all("list_directory_names")}
            for pair in missing:  # another transaction is changing the existing ones
                found[pair] = Unattended(pair[1], None, is_changing=pair in others)
        return found


def _lost(name: str) -> Conflict:
    return Conflict(f'this node no longer reads directory "{name}"; it tries again')
