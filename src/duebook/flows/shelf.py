"""The flows that a node has read, by the revision of each; builds one from its file once."""

from __future__ import annotations

import threading
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Protocol

from duebook.flows.build import build
from duebook.flows.files import default_name

if TYPE_CHECKING:
    from duebook.model.flow import Flow, Revision

__all__ = ["Shelf", "Unreadable"]

MOST_KEPT: Final = 2_000


class Unreadable(Exception):
    """Why a flow cannot be had: it does not exist, or this node cannot read it."""


class Revisions(Protocol):
    """Where the files of flows are kept as they once were."""

    def get_flow_revision(self, namespace: str, flow: str, digest: str) -> Revision | None: ...


class Shelf:
    """Safe to use from several threads: a revision never changes."""

    def __init__(self) -> None:
        self._flows: dict[tuple[str, str, str], Flow] = {}
        self._lock = threading.Lock()

    def peek(self, namespace: str, name: str, digest: str | None) -> Flow | None:
        """One that was read before; None when somebody has to find it first."""
        return self._flows.get((namespace, name, digest or ""))

    def find(self, kept: Revisions, namespace: str, name: str, digest: str | None) -> Flow:
        """Raises Unreadable."""
        if digest is None:
            raise Unreadable(f'flow "{name}" does not exist')
        key = (namespace, name, digest)
        if (flow := self._flows.get(key)) is not None:
            return flow
        revision = kept.get_flow_revision(*key)
        if revision is None:
            raise Unreadable(f'the revision of flow "{name}" that it began with is gone')
        place = PurePosixPath(revision.place)
        built = build(revision.source, revision.place, default_name(place))
        for flow in built.flows:
            if flow.name == name:
                with self._lock:
                    if len(self._flows) >= MOST_KEPT:
                        self._flows.clear()
                    self._flows[key] = flow
                return flow
        told = str(built.problems[0]) if built.problems else "its file has other flows only"
        raise Unreadable(f'flow "{name}" cannot be read: {told}')
