"""The flows of a simulated world: their files, the schedules that start them, and what the judge
knows of them; plain values."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.chaos.flows import Graph

__all__ = ["DOINGS", "FAILING", "GRAPHS", "SCHEDULES", "text_of"]

ENDINGS: Final = frozenset({"success", "failure", "abort", "exit"})
GRAPHS: Final = {
    "diamond": Graph(
        {"top": (), "left": ("top",), "right": ("top",), "join": ("left", "right")},
        handlers=ENDINGS,
    ),
    "fan": Graph(
        {**dict.fromkeys("abcd", ()), "sum": tuple("abcd"), "after": ("sum",)},
        survived=frozenset("b"),
        most_active=2,
    ),
    "caller": Graph(
        {
            "first": (),
            "nested": ("first",),
            "guarded": ("first",),
            "behind": ("guarded",),
            "last": ("nested", "first"),
        },
        unmet=frozenset({"guarded"}),
        handlers=frozenset({"exit"}),
    ),
    "inner": Graph({"one": (), "two": ("one",)}),
    "doomed": Graph(
        {"work": (), "after": ("work",)}, handlers=frozenset({"failure", "abort", "exit"})
    ),
    "hasty": Graph({"long": (), "after": ("long",)}, handlers=ENDINGS, has_timeout=True),
}
"""By the names of flows, and of the schedules that start them; nothing but `caller` starts
`inner`."""
FAILING: Final = frozenset({"fan.b", "doomed.work"})
"""Steps of which every attempt fails."""
_TIMES: Final[dict[str, dict[str, Any]]] = {
    "diamond": {"trigger": {"every": "17s"}, "overlap": "queue", "grace": "5s"},
    "fan": {"trigger": {"every": "9s"}, "overlap": "allow"},
    "caller": {"trigger": {"every": "11s"}, "overlap": "cancel"},
    "doomed": {"trigger": {"every": "8s"}},
    "hasty": {"trigger": {"every": "10s"}, "overlap": "latest"},
}
SCHEDULES: Final = {name: {"target": {"flow": name}, **form} for name, form in _TIMES.items()}
DOINGS: Final = (*("start", "stop", "stop", "cancel", "retry"), *("trigger", "pause", "resume"))
"""What people do to flows."""
_RETRY: Final = {"retry_policy": {"limit": 2, "interval_sec": 1}}
_DOES: Final[dict[str, dict[str, Any]]] = {
    "left": _RETRY,
    "one": _RETRY,
    "b": {"continue_on": "failed"},
    "nested": {"call": "inner"},
    "guarded": {"preconditions": [{"condition": "${STAGE}", "expected": "prod"}]},
}
_KEYS: Final[dict[str, dict[str, Any]]] = {
    "fan": {"max_active_steps": 2},
    "hasty": {"timeout_sec": 6},
}


def text_of(name: str) -> str:
    """The file of a flow."""
    graph = GRAPHS[name]
    steps = [
        {"name": step, "depends": list(before), **_does(step)}
        for step, before in graph.after.items()
    ]
    flow: dict[str, Any] = {"name": name, "type": "graph", "env": {"STAGE": "dev"}, "steps": steps}
    if graph.handlers:
        flow["handler_on"] = dict.fromkeys(sorted(graph.handlers), "true")
    return json.dumps({**flow, **_KEYS.get(name, {})})


def _does(step: str) -> dict[str, Any]:
    does = _DOES.get(step, {})
    return does if "call" in does else {"command": "true", **does}
