"""Bodies that are large, or small and grow: each is refused, or served, soon and in short."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import httpx2

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["run"]

SILENT: Final = 120.0
SLOWEST: Final = 10.0
"""Seconds, on a machine that has other things to do."""
LARGEST: Final = 3_000_000
"""Bytes of an answer."""
JOB: Final = {"name": "attack-body", "trigger": "@daily", "target": {"command": ["true"]}}
LARGE: Final = {"trigger": "@daily", "target": {"command": ["true"]}}


def _bodies() -> dict[str, tuple[str, str, str]]:
    """Name -> method, path and body."""
    unknown = {f"unknown-{number}": 1 for number in range(400_000)}
    twice = ",".join(f'"{number}":1' for number in [*range(30_000), 29_999])
    many = [{"name": f"attack-{n}", "template": "attack-large"} for n in range(300)]
    wrong = [{f"unknow-{n}": 1 for n in range(20)}] * 10_000
    sources = {
        "dashes": "\n".join("a-" * 999 for _ in range(450)),
        "pairs": "x: 1\n" + "\n".join("#" + "a:" * 999 for _ in range(450)),
        "documents": "---\n".join(f"name: d{n}\nsteps: [x]\n" for n in range(5_000)),
        "params": "params:\n" + "".join(f"- P{n}: 1\n" for n in range(15_000)) + "steps: [x]\n",
    }
    bodies: dict[str, tuple[str, str, Any]] = {
        "unknown fields": ("POST", "schedules", JOB | unknown),
        "unknown fields in bulk": ("POST", "bulk/schedules", {"schedules": [JOB | unknown]}),
        "unknown filters": ("POST", "bulk/actions", {"action": "pause", "filter": unknown}),
        "a template in bulk": ("POST", "bulk/schedules", {"schedules": many}),
        "mistakes in bulk": ("POST", "bulk/schedules", {"schedules": wrong}),
        "a long shell": ("POST", "schedules", JOB | {"target": {"shell": "x" * 10_000_000}}),
    }
    bodies |= {
        f"flow of {name}": ("POST", "flows/validate", {"source": source})
        for name, source in sources.items()
    }
    made = {name: (method, path, json.dumps(body)) for name, (method, path, body) in bodies.items()}
    return made | {"a key twice": ("POST", "schedules", f"{{{twice}}}")}


def run(base_url: str, tokens: Mapping[str, str]) -> dict[str, int | str]:
    """Send each with the token `admin`; returns the status of each. Fails when an answer is an
    error of the server, late or large, or when `/healthz` does not answer afterwards."""
    headers = {"Authorization": f"Bearer {tokens['admin']}", "Content-Type": "application/json"}
    found: dict[str, int | str] = {}
    with httpx2.Client(base_url=base_url, headers=headers, timeout=SILENT) as client:
        template = LARGE | {"payload": {"text": "x" * 999_000}}
        client.put("/api/v1/templates/attack-large", json=template).raise_for_status()
        for name, (method, path, body) in _bodies().items():
            began = time.monotonic()
            answer = client.request(method, f"/api/v1/{path}", content=body)
            took = time.monotonic() - began
            assert answer.status_code < 500, (name, answer.status_code)
            assert len(answer.content) < LARGEST, (name, len(answer.content))
            assert took < SLOWEST, (name, took)
            found[name] = answer.status_code
            assert client.get("/healthz").status_code == 200, name
        client.delete("/api/v1/templates/attack-large").raise_for_status()
    return found
