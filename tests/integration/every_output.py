"""Every output that there is, for tests that search them all: addresses, and command lines."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.book.flow_registry import FlowRegistry
from duebook.flows.sync import FlowSync
from tests.support.api import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duebook import Duebook
    from duebook.model.run import Run


def put_flow(app: Duebook, folder: Path, text: str, broken: str = "") -> None:
    """A directory with a flow `etl`, and a file that is broken, as a node would read it."""
    folder.mkdir()
    (folder / "etl.yaml").write_text(text)
    (folder / "broken.yaml").write_text(f"params: [{{name: pwd, default: '{broken}'}}\n")
    registry = FlowRegistry(app.store, "default", timedelta(days=1))
    registry.hold([folder.name])
    sync = FlowSync([folder], registry)
    for moment in range(3):
        sync.step(float(moment))


def paths(runs: list[Run], events: list[str]) -> Iterator[str]:
    """Every place that can be looked at, of everything."""
    parts = {
        "run_id": [run.id for run in runs],
        "event_id": events,
        "name": [*sorted({run.schedule for run in runs if run.schedule}), "etl", "shared"],
        "action": ["start", "stop"],
        "node": sorted({run.node for run in runs if run.node}),
    }
    for operation in OPERATIONS:
        if operation.method == "GET" and not operation.path.endswith(("/live", "/log", "/events")):
            found = [operation.path]
            for part in re.findall(r"\{(\w+)\}", operation.path):
                found = [p.replace(f"{{{part}}}", v) for p in found for v in parts[part]]
            yield from found


def commands(runs: list[Run], file: Path) -> Iterator[list[str]]:
    """What a person would type to see all of it; `file` is that of the flow."""
    yield from (
        [*words, "--json"] for words in (["ls"], ["runs"], ["audit"], ["events", "sink", "ls"])
    )
    yield from (["alert", "ls"], ["alert", "ls", "--json"], ["alert", "show", "shared"])
    yield from (["alert", "history"], ["events", "groups"], ["events", "dlq"])
    yield from (["events", "ping"], ["events", "sink", "ls"], ["events", "groups", "pings"])
    yield ["flow", "dry", str(file)]
    yield from (["ls"], ["runs"], ["audit"], ["flow", "ls"], ["status"], ["template", "ls"])
    for name in sorted({run.schedule for run in runs if run.schedule}):
        yield from (["show", name], ["show", name, "--json"])
    for run in runs:
        yield from (["runs", run.id], ["runs", run.id, "--json"], ["output", run.id])
    yield ["logs", runs[0].id]
