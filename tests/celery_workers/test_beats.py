"""Beats and workers of Celery are killed under load, and every due time is accounted for."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook import Duebook
from tests.celery_workers.world import PROGRAM
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import subprocess

    from duebook.model.run import Run
    from tests.celery_workers.world import CeleryWorld

STEADY = "steady-entry"
"""The schedule of the entry in `beat_schedule`; its worker is never killed."""
RISKY: dict[str, Any] = {
    "target": {"celery": f"{PROGRAM}.risky", "queue": "risky"},
    "trigger": {"every": "1s"},
    "overlap": "allow",
    "catchup": "all",
    "timeout": "5s",
    "retry": {"attempts": 10, "delay": "1s", "backoff": 1},
    "max_takeovers": 100,
}
"""Added through Duebook. What a worker takes with it is tried again after its timeout. On a slow
machine, one run may meet more beats that are killed than three, after which it would fail."""


@pytest.fixture(params=["postgres", pytest.param("sqlite", marks=pytest.mark.long)])
def stored(request: pytest.FixtureRequest, world: CeleryWorld) -> CeleryWorld:
    """With its beats on each kind of database."""
    if request.param == "postgres":
        world.url = request.getfixturevalue("postgres_url")
    return world


def test_two_beats_send_each_due_time_once_though_one_is_killed(stored: CeleryWorld) -> None:
    world = stored
    with closing(Duebook(world.url)) as book:
        book.schedules.create("risky", **RISKY)
        world.worker("steady", "risky")
        beats = [world.beat(), world.beat()]
        wait_for_more(world, 2)
        eventually(lambda: len(book.nodes.list()) == 2, told=lambda: world.story)
        world.kill(beats.pop(0))
        wait_for_more(world, 3)
        finish(book, world, beats, set())


@pytest.mark.kills
def test_beats_and_workers_are_killed_again_and_again(stored: CeleryWorld) -> None:
    storm(stored, rounds=8)


def storm(world: CeleryWorld, rounds: int) -> None:
    with closing(Duebook(world.url)) as book:
        book.schedules.create("risky", **RISKY)
        world.worker("steady")
        worker, beats = world.worker("risky"), [world.beat(), world.beat()]
        killed = set()
        for _ in range(rounds):
            wait_for_more(world, 2)
            world.kill(beats.pop(0))
            beats.append(world.beat())
            wait_for_more(world, 2)
            killed.add(world.kill(worker))
            worker = world.worker("risky")
        wait_for_more(world, 2)
        finish(book, world, beats, killed)


def finish(
    book: Duebook,
    world: CeleryWorld,
    beats: list[subprocess.Popen[bytes]],
    killed: set[int],
) -> None:
    """Let what is under way end, and look at all of it."""
    for name in (STEADY, "risky"):
        book.schedules.pause(name)
    eventually(lambda: not active(book), timeout=120, told=lambda: world.story)
    check(book, world, STEADY, "steady", set())
    check(book, world, "risky", "risky", killed)
    end(beats)


def wait_for_more(world: CeleryWorld, number: int) -> None:
    """Until so many more tasks of each kind have run."""
    wanted = {word: len(world.lines(word)) + number for word in ("steady", "risky")}
    eventually(
        lambda: all(len(world.lines(word)) >= most for word, most in wanted.items()),
        timeout=120,
        told=lambda: world.story,
    )


def active(book: Duebook) -> list[Run]:
    """Each is looked at once: a run that changes its state meanwhile is not overlooked."""
    runs = [run for name in (STEADY, "risky") for run in every_run(book, name)]
    return [run for run in runs if run.status in ("queued", "running")]


def end(beats: list[subprocess.Popen[bytes]]) -> None:
    """A beat that is asked to end does so, and says that all is well."""
    for beat in beats:
        beat.terminate()
    assert [beat.wait(60) for beat in beats] == [0] * len(beats)


def check(book: Duebook, world: CeleryWorld, name: str, word: str, killed: set[int]) -> None:
    """Every second from the first to the last has a run that succeeded, or is in the ledger; every
    run left its evidence, once, unless a worker was killed or a node could not know."""
    runs = every_run(book, name)
    lines = world.by_run(word)
    assert {run.status for run in runs} == {"succeeded"}, [run for run in runs if run.error]
    due = [run.due_at for run in runs if run.due_at is not None]
    assert len(set(due)) == len(due) == len(runs)
    second, moment = timedelta(seconds=1), min(due)
    ledger = [(entry.due_from, entry.due_to) for entry in book.schedules.ledger(name, limit=100)]
    while moment <= max(due):
        assert moment in due or any(start <= moment <= stop for start, stop in ledger), moment
        moment += second
    assert set(lines) == {run.id for run in runs}
    for run in runs:
        notes = " ".join(line.text for _, line in book.runs.log(run.id))
        may_be_twice = "may run twice" in notes or run.attempt > 1
        assert len(lines[run.id]) == 1 or may_be_twice, (run, lines[run.id], notes)
    assert {line.pid for each in lines.values() for line in each} >= killed


def every_run(book: Duebook, name: str) -> list[Run]:
    found: list[Run] = []
    cursor = None
    while True:
        page = book.runs.list(schedule=name, limit=100, cursor=cursor)
        found += page
        if (cursor := page.next_cursor) is None:
            return found
