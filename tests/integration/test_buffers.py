"""Workers that are killed or stopped with runs in their buffer, on both databases."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.nodes import LEASE, NodeProcess, World, open_world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP: Final = "tests.integration.program:book"
MANY: Final = 60
SLOTS: Final = 2
HELD: Final = 10


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with open_world(tmp_path, url) as opened:
        yield opened


MOSTLY_ON_POSTGRES = pytest.mark.parametrize(
    "world", ["postgres", pytest.param("sqlite", marks=pytest.mark.long)], indirect=True
)
"""The buffer of a node knows no database; what it asks of one is in tests/conformance."""


def worker(world: World, **options: Any) -> NodeProcess:
    """With a lease that no busy machine costs it; it is buried at once when its process is gone."""
    return world.node(app=APP, scaled=True, slots=SLOTS, **{"lease": 3 * LEASE} | options)


def enqueue(world: World, task: str, number: int, **policies: int) -> list[str]:
    return [world.book.enqueue(task, **policies).id for _ in range(number)]  # type: ignore[arg-type]


def statuses(world: World, ids: list[str]) -> set[str]:
    return {world.status(id_) for id_ in ids}


def test_runs_that_a_killed_worker_had_buffered_begin_elsewhere_and_were_not_taken_over(
    world: World,
) -> None:
    """It is killed when it would hand back what waits for slots that are held for long."""
    quick, held = enqueue(world, "nothing", MANY), enqueue(world, "thread", HELD)
    worker(world, kill_at="* before:lock_own_runs").wait_end()
    world.go.touch()
    worker(world)
    for id_ in held:
        world.wait_for(id_, "succeeded")
    assert statuses(world, quick) == {"succeeded"}
    lost = [run for run in map(world.book.runs.get, held) if run.attempt > 1]
    buffered = [run for run in lost if not run.losses]
    assert buffered, "what was not begun does not count"
    for run in buffered:
        started = [e.attempt for e in world.evidence("start") if e.run == run.id]
        (first, *_) = world.book.store.read(lambda tx, id_=run.id: tx.runs.list_attempts(id_))  # type: ignore[misc]
        assert first.outcome == "lost"
        assert 2 in started
    assert world.cli("db", "check").returncode == 0


@MOSTLY_ON_POSTGRES
def test_a_task_that_kills_its_nodes_from_the_buffer_ends_as_poison_and_nothing_else_does(
    world: World,
) -> None:
    before = enqueue(world, "nothing", MANY)
    (killer,) = enqueue(world, "kills", 1, max_takeovers=1)
    after = enqueue(world, "nothing", MANY)
    deaths = 0
    while world.status(killer) != "failed":
        node = worker(world)
        eventually(lambda node=node: node.has_ended or world.status(killer) == "failed")  # type: ignore[misc]
        deaths += node.has_ended
    assert world.book.runs.get(killer).reason == "poison"
    assert deaths <= 3, "lost early once, taken over once, and lost once too often"
    assert len(world.evidence("start")) == deaths
    for id_ in (*before, *after):
        world.wait_for(id_, "succeeded")
    assert world.cli("db", "check").returncode == 0


@MOSTLY_ON_POSTGRES
def test_a_worker_that_stops_hands_back_what_it_has_buffered_at_once(world: World) -> None:
    """While it waits for what it has begun, others can begin the rest."""
    enqueue(world, "nothing", MANY)
    held = enqueue(world, "thread", HELD)
    node = worker(world, shutdown_grace=60)
    eventually(lambda: len(world.evidence("start")) == SLOTS)
    node.send(signal.SIGTERM)
    eventually(lambda: sum(world.status(id_) == "queued" for id_ in held) == HELD - SLOTS)
    assert not node.has_ended
    world.go.touch()
    assert node.wait_end() == 0
    assert (
        sorted(world.status(id_) for id_ in held)
        == ["queued"] * (HELD - SLOTS) + ["succeeded"] * SLOTS
    )
    worker(world)
    for id_ in held:
        world.wait_for(id_, "succeeded")
    assert world.cli("db", "check").returncode == 0
