"""The flows of files in a transaction: revisions and problems."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duebook.model.flow import Revision, root_of
from duebook.model.listing import Found, PagePosition
from duebook.store.flow_values import BrokenFile, KeptFlow
from duebook.store.sql.rows import clean, without_nul
from duebook.store.sql.statements import Part, Values

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["Flows"]


class Flows(Part):
    """Flows by their newest valid revision, and the problems of files."""

    def get_flow(self, namespace: str, name: str) -> KeptFlow | None:
        row = self._db.one("get_flow", namespace=namespace, name=without_nul(name))
        return None if row is None else self._kept(*row)

    def flow_revisions(
        self, namespace: str, wanted: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], Revision]:
        """Earlier texts of flow files, by name and digest; only those that are still stored."""
        flows, digests = [flow for flow, _ in wanted], [digest for _, digest in wanted]
        rows = self._db.all(
            "list_flow_revisions", namespace=namespace, flows=flows, digests=digests
        )
        return {(found.flow, found.digest): found for found in (Revision(*row) for row in rows)}

    def list_flows(self, namespace: str) -> list[tuple[KeptFlow, str | None]]:
        """All, by name, each with the creator of the schedule of that name; None without one."""
        return [
            (self._kept(*flow), maker)
            for *flow, maker in self._db.all("list_flows", namespace=namespace)
        ]

    def get_flows(self, namespace: str, names: Sequence[str]) -> dict[str, KeptFlow]:
        """Those that exist, by name."""
        rows = self._db.all("list_flows_named", namespace=namespace, names=list(names))
        return {row[0]: self._kept(*row) for row in rows}

    def page_flows(self, namespace: str, after: PagePosition | None, limit: int) -> Found[KeptFlow]:
        """By name; a position is a name."""
        first = "" if after is None else str(after[0])
        rows = self._db.all("list_flows_after", namespace=namespace, after=first, limit=limit)
        found = [self._kept(*row) for row in rows]
        return Found(found, (found[-1].name,) if len(found) == limit else None)

    def _kept(self, name: str, place: str, digest: str, updated_at: Any) -> KeptFlow:
        return KeptFlow(name, place, digest, self._db.time(updated_at))

    def save_flows(self, namespace: str, revisions: Sequence[Revision]) -> None:
        """Make revisions of flows current."""
        rows: list[Values] = [
            {
                "namespace": namespace,
                "name": revision.flow,
                "flow": revision.flow,
                "digest": revision.digest,
                "place": revision.place,
                "source": clean(revision.source),
                "now": self._db.now,
            }
            for revision in revisions
        ]
        self._db.many("save_flow_revision", rows)
        self._db.many("save_flow", rows)

    def move_flow(self, namespace: str, name: str, place: str) -> None:
        self._db.run("move_flow", namespace=namespace, name=name, place=place)

    def remove_flows(self, namespace: str, names: Sequence[str]) -> None:
        self._db.run("remove_flows", namespace=namespace, names=list(names))

    def save_problems(
        self, namespace: str, roots: Collection[str], files: Mapping[str, BrokenFile]
    ) -> None:
        """Replace the problems of the files of some directories, by place."""
        for root in sorted(roots):
            self._db.run("delete_flow_problems", namespace=namespace, root=root)
        for place, file in sorted(files.items()):
            self._db.run(
                "insert_flow_problems",
                namespace=namespace,
                root=root_of(place),
                place=place,
                digest=clean(file.digest),
                source=clean(file.source),
                problems=clean(json.dumps(file.problems)),
                now=self._db.now,
            )

    def list_flow_problems(self, namespace: str) -> dict[str, BrokenFile]:
        """By place, without their texts."""
        rows = self._db.all("list_flow_problems", namespace=namespace)
        return {place: BrokenFile(json.loads(text), digest) for place, digest, text in rows}

    def list_broken_files(self, namespace: str, limit: int) -> list[str]:
        """Places of files with problems, in order."""
        rows = self._db.all("list_broken_files", namespace=namespace, limit=limit)
        return [place for (place,) in rows]

    def get_broken_source(self, namespace: str, place: str) -> str | None:
        """The text of a file with problems; None if it has none."""
        found: str | None = self._db.value(
            "get_broken_source", namespace=namespace, root=root_of(place), place=place
        )
        return found
