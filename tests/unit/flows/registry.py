"""A registry in memory, which refuses what is based on something else than it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duebook.errors import Conflict
from duebook.flows.reconcile import Kept

if TYPE_CHECKING:
    from collections.abc import Collection

    from duebook.flows.problems import Problem
    from duebook.flows.reconcile import Change, Reconciled
    from duebook.model.flow import Flow


class MemoryRegistry:
    """What a store does, without one; `history` has all changes in order."""

    def __init__(self) -> None:
        self.flows: dict[str, Kept] = {}
        self.definitions: dict[str, Flow] = {}
        self.problems: dict[str, tuple[Problem, ...]] = {}
        self.history: list[Change] = []
        self.read: set[str] = set()

    def kept(self) -> list[Kept]:
        return list(self.flows.values())

    def apply(self, found: Reconciled, roots: Collection[str]) -> None:
        for change in found.changes:
            current = self.flows.get(change.name)
            if (current and current.digest) != change.was:
                raise Conflict(f"flow {change.name} has been changed in the meantime")
        for change in found.changes:
            self._apply(change)
            self.history.append(change)
        others = {p: v for p, v in self.problems.items() if p.partition("/")[0] not in roots}
        self.problems = others | dict(found.problems)

    def scanned(self, roots: Collection[str]) -> None:
        self.read = set(roots)

    def _apply(self, change: Change) -> None:
        if change.kind == "delete":
            del self.flows[change.name]
            self.definitions.pop(change.name, None)
            return
        digest = change.revision.digest if change.revision else change.was
        assert digest is not None
        self.flows[change.name] = Kept(change.name, change.place, digest)
        if change.flow is not None:
            self.definitions[change.name] = change.flow

    def kinds(self) -> list[tuple[str, str]]:
        """What was done since the last question."""
        done: list[tuple[str, str]] = [(change.kind, change.name) for change in self.history]
        self.history.clear()
        return done
