"""How many runs of a flow may be active, and which runs would wait for themselves; reads the
database."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field
from typing import TYPE_CHECKING

from duebook.errors import shorten
from duebook.flows.flow_cache import FlowCache, NoFlow
from duebook.lazy_dataclasses import dataclass
from duebook.model.flow_target import FlowTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duebook.model.flow import Flow
    from duebook.model.flow_run import FlowParent
    from duebook.store.base import Tx

__all__ = ["FlowLimits", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for runs of flows that wait to start, by run."""

    most: dict[str, int] = field(default_factory=dict)
    """how many runs of its flow may be active"""
    circles: dict[str, str] = field(default_factory=dict)
    """why the run would wait for itself; such a run has no limit"""


class FlowLimits:
    """Finds the limits of flows in their revisions."""

    def __init__(self, flow_cache: FlowCache) -> None:
        self._flow_cache = flow_cache

    def of(self, tx: Tx, parents: Sequence[FlowParent]) -> Limits:
        """By the current revision; by the run's own once the flow has none."""
        names = defaultdict[str, set[str]](set)
        for parent in parents:
            names[parent.namespace].add(parent.flow)
        kept = {
            (namespace, name): flow.digest
            for namespace, wanted in names.items()
            for name, flow in tx.flows.get_flows(namespace, sorted(wanted)).items()
        }
        limits = Limits()
        for parent in parents:
            key = parent.namespace, parent.flow
            flow = self._find(tx, *key, kept.get(key, parent.digest))
            if flow is not None and flow.policies.max_concurrent is not None:
                limits.most[parent.run_id] = flow.policies.max_concurrent
        called = [p for p in parents if p.depth and p.run_id in limits.most]
        for run_id, told in self._circles(tx, called).items() if called else ():
            limits.circles[run_id] = told
            del limits.most[run_id]
        return limits

    def _circles(self, tx: Tx, called: Sequence[FlowParent]) -> dict[str, str]:
        """A run would wait for itself if it may call one of its callers again: the caller holds the
        place for which that call would wait."""
        callers = tx.flow_runs.list_callers([parent.run_id for parent in called])
        known: dict[tuple[str, str, str | None], dict[str, list[str]]] = {}
        circles = {}
        for parent in called:
            key = parent.namespace, parent.flow, parent.digest
            if key not in known:
                known[key] = self._ways(tx, *key)
            ways = known[key]
            way = next(
                (ways[name] for name in ways if name in callers.get(parent.run_id, ())), None
            )
            if way is not None:
                told = " → ".join(shorten(name, 100) for name in way)
                circles[parent.run_id] = (
                    f'flow "{parent.flow}" has max_active_runs and would wait for itself: {told}; '
                    "leave out max_active_runs or one of the calls"
                )
        return circles

    def _ways(self, tx: Tx, namespace: str, flow: str, digest: str | None) -> dict[str, list[str]]:
        """The flows that a flow may call directly or not, nearest first, each with its path."""
        found, todo = dict[str, list[str]](), [[flow]]
        for way in todo:
            kept = tx.flows.get_flow(namespace, way[-1])
            at = self._find(tx, namespace, way[-1], digest if kept is None else kept.digest)
            for name in () if at is None else _calls(at):
                if name not in found:
                    found[name] = [*way, name]
                    todo.append(found[name])
        return found

    def _find(self, tx: Tx, namespace: str, name: str, digest: str | None) -> Flow | None:
        try:
            return self._flow_cache.find(tx.flows, namespace, name, digest)
        except NoFlow:
            return None


def _calls(flow: Flow) -> list[str]:
    """The flows that a flow may call."""
    return [s.target.name for s in flow.all_steps() if isinstance(s.target, FlowTarget)]
