"""Plays a script and judges what happened; a failing script is reduced to what is needed to fail,
and written as a test."""

from __future__ import annotations

import gc
import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.sim.books import read_books
from tests.sim.judge import judge
from tests.sim.script import draw
from tests.sim.world import World

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    from tests.sim.script import Script

__all__ = ["Played", "as_test", "play", "play_seed", "shrink"]


@dataclass(frozen=True)
class Played:
    problems: list[str]
    trace: str
    counts: Counter[str]
    points: set[str]
    due_times: int
    """runs of due times, plus due times in the ledger"""
    cost: float = 0.0
    """seconds of processor time"""

    @property
    def violated(self) -> set[str]:
        """The numbers of the violated invariants."""
        return {problem.partition(":")[0] for problem in self.problems}


def play(script: Script) -> Played:
    """Rubbish is collected at moments that the script decides: cut off transactions end with it."""
    logging.getLogger("duebook").setLevel(logging.CRITICAL + 1)
    gc.collect()
    gc.disable()
    try:
        return _play(script)
    finally:
        gc.enable()


def play_seed(seed: int) -> Played:
    """The world of a seed, without what takes long to send to another process."""
    began = time.process_time()
    played = play(draw(seed))
    return replace(played, trace="", cost=time.process_time() - began)


def _play(script: Script) -> Played:
    world = World(script)
    world.run()
    problems = judge(world)
    books = read_books(world.memory.connection, world.database_clock())
    due = sum(run["due_at"] is not None for run in books.runs)
    due += sum(entry["count"] for entry in books.ledger)
    due += sum(event["type"] == "due" for event in books.events)
    trace = "\n".join([*world.trace, *problems, ""])
    return Played(problems, trace, world.counts, world.points, due)


def shrink(
    script: Script, fails: Callable[[Script], bool], most_tries: int = 150
) -> tuple[Script, int]:
    """A smaller script that also fails, and how many scripts were tried."""
    tries = 0
    improved = True
    while improved and tries < most_tries:
        improved = False
        for smaller in _smaller(script):
            tries += 1
            if fails(smaller):
                script, improved = smaller, True
                break
            if tries >= most_tries:
                break
    return script, tries


def _smaller(script: Script) -> Iterator[Script]:
    """Simpler scripts, the boldest first: without half of a part, then without ever less of it."""
    parts: dict[str, tuple[Any, ...]] = {
        "faults": script.faults,
        "actions": script.actions,
        "schedules": script.schedules,
    }
    for name, part in parts.items():
        size = len(part)
        while size >= 1:
            for start in range(0, len(part), size):
                rest = part[:start] + part[start + size :]
                if rest or name != "schedules":
                    yield replace(script, **{name: rest})  # type: ignore[arg-type]
            size //= 2
    moments = [fault.at for fault in script.faults] + [action.at for action in script.actions]
    latest = max([20.0, *(at + 5.0 for at in moments)])
    for seconds in (latest, script.seconds / 2):
        if seconds < script.seconds:
            yield replace(script, seconds=seconds)
    if script.nodes > 1:
        yield replace(script, nodes=script.nodes - 1)


def as_test(script: Script, problems: list[str]) -> str:
    """A test that can be pasted into tests/sim/test_found.py."""

    def rows(values: tuple[Any, ...]) -> str:
        return "(" + "".join(f"\n            {value!r}," for value in values) + ")"

    return f"""
def test_seed_{script.seed}() -> None:
    # {problems[0]}
    script = Script(
        seed={script.seed},
        nodes={script.nodes},
        slots={script.slots},
        seconds={script.seconds},
        schedules={script.schedules!r},
        faults={rows(script.faults)},
        actions={rows(script.actions)},
    )
    assert play(script).problems == []
"""
