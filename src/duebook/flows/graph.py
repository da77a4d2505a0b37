"""The order of steps: what comes before what, their rows in a drawing, and circles; pure."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Graph = Mapping[str, Sequence[str]]
    """name -> the names that it depends on, each of which is also a key"""

__all__ = ["after", "before", "circle", "in_order", "rows"]


def in_order(graph: Graph) -> list[str]:
    """Each name after those it depends on, otherwise in the given order; omits those in circles."""
    waiting = {name: len(set(depends)) for name, depends in graph.items()}
    following, names = _following(graph), list(graph)
    places = {name: place for place, name in enumerate(names)}
    ready = [places[name] for name, count in waiting.items() if not count]
    found: list[str] = []
    while ready:
        found.append(names[heappop(ready)])
        for other in following[found[-1]]:
            waiting[other] -= 1
            if not waiting[other]:
                heappush(ready, places[other])
    return found


def circle(graph: Graph) -> list[str]:
    """One circle, with its first name repeated at the end; empty when there is no circle."""
    left = set(graph) - set(in_order(graph))
    if not left:
        return []
    path = [min(left, key=list(graph).index)]
    while True:
        step = next(name for name in graph[path[-1]] if name in left)
        if step in path:
            return [*path[path.index(step) :], step]
        path.append(step)


def before(graph: Graph) -> dict[str, frozenset[str]]:
    """For each step all steps before it, directly or not."""
    found: dict[str, frozenset[str]] = {}
    for name in in_order(graph):
        direct = frozenset(graph[name])
        found[name] = direct.union(*(found[other] for other in direct))
    return found


def after(graph: Graph, names: Sequence[str]) -> frozenset[str]:
    """All steps after any of these, directly or not."""
    following, found, todo = _following(graph), set[str](), list(names)
    while todo:
        for other in following[todo.pop()]:
            if other not in found:
                found.add(other)
                todo.append(other)
    return frozenset(found)


def rows(graph: Graph) -> list[list[str]]:
    """Rows of steps, by the longest way to each; steps of one row may run at the same time."""
    depth: dict[str, int] = {}
    for name in in_order(graph):
        depth[name] = 1 + max((depth[other] for other in graph[name]), default=-1)
    found: list[list[str]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for name in graph:
        if name in depth:
            found[depth[name]].append(name)
    return found


def _following(graph: Graph) -> dict[str, list[str]]:
    following: dict[str, list[str]] = {name: [] for name in graph}
    for name, depends in graph.items():
        for other in dict.fromkeys(depends):
            following[other].append(name)
    return following
