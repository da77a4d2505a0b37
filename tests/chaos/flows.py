"""The flows that a fleet runs beside its schedules, and what the checker knows of them: which step
comes after which, and after which failures other steps continue."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.nodes import SAY

_SAY: Final = SAY.replace('"$DUEBOOK_SCHEDULE"', "flow")  # a called flow has no schedule
QUICK: Final = _SAY + "say start; say end"
SLOW: Final = _SAY + "say start; for n in 1 2 3; do sleep 0.1; say beat; done; say end"
FAILING: Final = _SAY + "say start; say fail; exit 3"
SHAKY: Final = _SAY + 'say start; [ "$DUEBOOK_ATTEMPT" != 1 ] || { say fail; exit 3; }; say end'
MOST_NESTED: Final = 2
HANDLERS: Final = {
    "success": ("succeeded", "partial"),
    "failure": ("failed",),
    "abort": ("cancelled",),
}


@dataclass(frozen=True)
class Graph:
    """A flow by its steps."""

    after: dict[str, tuple[str, ...]]
    """step -> the steps that it depends on"""
    survived: frozenset[str] = frozenset()
    """steps after whose failure others continue"""
    unmet: frozenset[str] = frozenset()
    """steps whose condition never holds"""
    handlers: frozenset[str] = field(default_factory=frozenset)
    most_active: int | None = None
    """how many steps may be at work at once"""
    has_timeout: bool = False


GRAPHS: Final = {
    "wide": Graph(
        {
            "first": (),
            "shaky": ("first",),
            "broken": ("first",),
            "nested": ("first",),
            "guarded": ("first",),
            "behind": ("guarded",),
            "last": ("shaky", "broken", "nested"),
        },
        frozenset({"broken"}),
        frozenset({"guarded"}),
        frozenset({"success", "failure", "abort", "exit"}),
    ),
    "doomed": Graph(
        {"work": (), "after": ("work",)}, handlers=frozenset({"failure", "abort", "exit"})
    ),
    "inner": Graph({"one": (), "two": ("one",)}),
}
_DOES: Final[dict[str, dict[str, Any]]] = {
    "first": {"command": QUICK},
    "shaky": {"command": SHAKY, "retry_policy": {"limit": 3, "interval_sec": 1}},
    "broken": {"command": FAILING, "continue_on": "failed"},
    "nested": {"call": "inner"},
    "guarded": {"command": QUICK, "preconditions": ["false"]},
    "behind": {"command": QUICK},
    "last": {"command": SLOW},
    "work": {"command": FAILING},
    "after": {"command": QUICK},
    "one": {"command": SLOW},
    "two": {"command": QUICK},
}
_EVERY: Final = {"grace": "1s", "catchup": "all", "catchup_pace": "0s"}
SCHEDULES: Final[dict[str, dict[str, Any]]] = {
    "wide": {"trigger": {"every": "3s"}, "overlap": "allow", **_EVERY},
    "doomed": {"trigger": {"every": "4s"}, "overlap": "queue", **_EVERY},
}


def text_of(name: str, mark: str) -> str:
    """The file of a flow; its commands carry the mark of their world."""
    graph = GRAPHS[name]
    steps = [
        {"name": step, "depends": list(before), **_DOES[step]}
        for step, before in graph.after.items()
    ]
    flow: dict[str, Any] = {"name": name, "type": "graph", "env": {"WORK_MARK": mark}}
    flow["steps"] = steps
    if graph.handlers:
        flow["handler_on"] = dict.fromkeys(sorted(graph.handlers), QUICK)
    if name == "inner":
        flow["max_active_runs"] = MOST_NESTED
    return json.dumps(flow)
