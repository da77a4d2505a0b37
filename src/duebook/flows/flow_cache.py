"""The flows that a node has read, by revision; builds each revision from its file once."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Protocol

from duebook.flows.build import build
from duebook.flows.files import default_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duebook.model.flow import Flow, Revision

__all__ = ["FlowCache", "NoFlow"]

MOST_KEPT: Final = 2_000


class NoFlow(Exception):
    """Why a flow is not available: it does not exist, or this node cannot read it."""


class Revisions(Protocol):
    """Where old and new texts of flow files are stored."""

    def flow_revisions(
        self, namespace: str, wanted: Sequence[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Revision]: ...


class FlowCache:
    """Safe to use from several threads: a revision never changes."""

    def __init__(self) -> None:
        self._flows: dict[tuple[str, str, str], Flow] = {}
        self._lock = threading.Lock()

    def peek(self, namespace: str, name: str, digest: str | None) -> Flow | None:
        """A flow that was read before; None when it must be loaded first."""
        return self._flows.get((namespace, name, digest or ""))

    def find(self, kept: Revisions, namespace: str, name: str, digest: str | None) -> Flow:
        """Raises NoFlow."""
        if digest is None:
            raise NoFlow(f'flow "{name}" does not exist')
        (found,) = self.find_all(kept, namespace, [(name, digest)])
        if isinstance(found, NoFlow):
            raise found
        return found

    def find_all(
        self, kept: Revisions, namespace: str, wanted: Sequence[tuple[str, str]]
    ) -> list[Flow | NoFlow]:
        """Flows by name and digest, or why one is not available; queries at most once."""
        known = {pair: self.peek(namespace, *pair) for pair in wanted}
        missing = [pair for pair, flow in known.items() if flow is None]
        revisions = kept.flow_revisions(namespace, missing) if missing else {}
        return [
            known[pair] or self._build(namespace, pair[0], revisions.get(pair)) for pair in wanted
        ]

    def _build(self, namespace: str, name: str, revision: Revision | None) -> Flow | NoFlow:
        if revision is None:
            return NoFlow(f'the revision of flow "{name}" that it started with has been deleted')
        place = PurePosixPath(revision.place)
        built = build(revision.source, revision.place, default_name(place))
        for flow in built.flows:
            if flow.name == name:
                placed = replace(flow, place=revision.place)
                self._keep((namespace, name, revision.digest), placed)
                return placed
        told = str(built.problems[0]) if built.problems else "its file contains only other flows"
        return NoFlow(f'flow "{name}" cannot be read: {told}')

    def _keep(self, key: tuple[str, str, str], flow: Flow) -> None:
        with self._lock:
            if len(self._flows) >= MOST_KEPT:
                self._flows.clear()
            self._flows[key] = flow
