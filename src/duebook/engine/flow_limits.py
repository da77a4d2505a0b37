"""How many runs of a flow may be under way, and which would wait for themselves; asks the books."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duebook.errors import shorten
from duebook.flows.shelf import Shelf, Unreadable
from duebook.model.flow_target import FlowTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.flow import Flow
    from duebook.model.flow_run import FlowParent
    from duebook.store.base import Tx

__all__ = ["FlowLimits", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What concerns runs of flows that wait to begin, by run."""

    most: dict[str, int] = field(default_factory=dict)
    """how many runs of its flow may be under way"""
    circles: dict[str, str] = field(default_factory=dict)
    """why it would wait for itself; it has no limit"""


class FlowLimits:
    """Finds the limits of flows in their revisions."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def of(self, tx: Tx, parents: Sequence[FlowParent]) -> Limits:
        """By the revision in force; by that of the run once there is none."""
        names = defaultdict[str, set[str]](set)
        for parent in parents:
            names[parent.namespace].add(parent.flow)
        kept = {
            (namespace, name): flow.digest
            for namespace, wanted in names.items()
            for name, flow in tx.get_flows(namespace, sorted(wanted)).items()
        }
        limits = Limits()
        for parent in parents:
            key = parent.namespace, parent.flow
            flow = self._find(tx, *key, kept.get(key, parent.digest))
            if flow is None or flow.max_concurrent is None:
                continue
            if parent.depth and (told := self._circle(tx, parent)):
                limits.circles[parent.run_id] = told
            else:
                limits.most[parent.run_id] = flow.max_concurrent
        return limits

    def _circle(self, tx: Tx, parent: FlowParent) -> str | None:
        """What a run was called by holds what it waits for, when it may call that again."""
        way = self._way_back(tx, parent, set(tx.list_callers(parent.run_id)))
        if not way:
            return None
        told = " → ".join(shorten(name, 100) for name in way)
        return (
            f'flow "{parent.flow}" has max_active_runs and would wait for itself: {told}; '
            "leave out max_active_runs or one of the calls"
        )

    def _way_back(self, tx: Tx, parent: FlowParent, callers: set[str]) -> list[str]:
        """How a flow may call one of those that called it; empty when it cannot."""
        ways, seen = [[parent.flow]], {parent.flow}
        for way in ways:
            kept = tx.get_flow(parent.namespace, way[-1])
            digest = parent.digest if kept is None else kept.digest
            flow = self._find(tx, parent.namespace, way[-1], digest)
            for name in () if flow is None else _calls(flow):
                if name in callers:
                    return [*way, name]
                if name not in seen:
                    seen.add(name)
                    ways.append([*way, name])
        return []

    def _find(self, tx: Tx, namespace: str, name: str, digest: str | None) -> Flow | None:
        try:
            return self._shelf.find(tx, namespace, name, digest)
        except Unreadable:
            return None


def _calls(flow: Flow) -> list[str]:
    """The flows that a flow may call."""
    return [s.target.name for s in flow.all_steps() if isinstance(s.target, FlowTarget)]
