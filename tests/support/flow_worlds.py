"""Flows in a world with real nodes: their files, ends and logs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from duebook.book.flow_registry import FlowRegistry
from duebook.flows.sync import FlowSync

if TYPE_CHECKING:
    from pathlib import Path

    from duebook.model.run import Run
    from tests.support.nodes import World

__all__ = ["ended", "log_of", "register", "steps", "write_flow"]


def write_flow(world: World, name: str, text: str) -> Path:
    folder = world.folder / "flows"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(text)
    return folder


def ended(world: World, run: Run) -> Run:
    world.wait_for(run.id, "succeeded", "failed", "cancelled", "partial")
    return world.book.runs.get(run.id)


def steps(world: World, run: Run) -> dict[str, Run]:
    return {step.step: step for step in world.book.flows.steps(run.id) if step.step}


def log_of(world: World, run: Run) -> list[str]:
    return [line.text for _, line in world.book.runs.log(run.id)]


def register(world: World, path: Path) -> None:
    """Register the flows of a directory in the database."""
    registry = FlowRegistry(world.book.store, "default", timedelta(days=1))
    registry.hold([path.name])
    sync = FlowSync([path], registry)
    for moment in range(3):
        sync.step(float(moment))
