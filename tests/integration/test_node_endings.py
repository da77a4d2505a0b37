"""How runs end when somebody else ends them, and what a node does when it runs out of things."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from duebook.store.sqlite import SqliteStore, migrate
from tests.support.nodes import SAY, World, world

if TYPE_CHECKING:
    import pytest

__all__ = ["world"]  # the fixture

POLITE = SAY + "trap 'exit 0' TERM; say start; sleep 600 & wait"


def test_a_command_that_ends_politely_when_cancelled_has_not_succeeded(world: World) -> None:
    world.node()
    world.add("polite", POLITE)
    run = world.trigger("polite")
    world.wait_evidence("start", "polite")
    world.cli("cancel", run)
    world.wait_for(run, "cancelled")


def test_a_command_that_ends_politely_at_shutdown_is_begun_again(world: World) -> None:
    node = world.node(shutdown_grace=0.5)
    world.add("polite", POLITE)
    run = world.trigger("polite")
    world.wait_evidence("start", "polite")
    assert node.end(signal.SIGTERM) == 0
    world.wait_for(run, "queued")


def test_a_node_that_runs_out_of_descriptors_goes_on(world: World) -> None:
    world.node(slots=30, descriptors=60)
    world.add("many", "sleep 0.2", overlap="allow")
    runs = [world.trigger("many") for _ in range(30)]
    for run in runs:
        world.wait_for(run, "succeeded")


def test_a_node_whose_books_are_taken_away_ends_loudly(world: World) -> None:
    node = world.up()
    node.wait_ready()
    for file in world.path.parent.glob(f"{world.path.name}*"):
        file.unlink(missing_ok=True)  # a node that has noticed takes some away itself
    assert node.wait_end() == 1
    assert "was deleted or replaced while it was in use" in node.log


def test_a_node_that_a_migration_makes_too_old_ends_loudly(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = world.node(lease=3)
    ours = migrate.available()
    newer = migrate.Migration(ours[-1].number + 1, "newer", "CREATE TABLE more (id INTEGER) STRICT")
    monkeypatch.setattr(migrate, "available", lambda: [*ours, newer])
    SqliteStore(world.path).close()
    assert node.wait_end() == 1
    assert f"schema {newer.number}, but this version supports only {ours[-1].number}" in node.log
