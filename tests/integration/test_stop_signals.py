"""Commands get the signal that their definition names, and are killed when their time is over."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from duebook.model.stopping import STOP_SIGNALS
from duebook.targets.processes import Stop, supervise
from duebook.targets.spawner import Spawner
from tests.support.flow_worlds import ended, register, steps, write_flow
from tests.support.nodes import open_world
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duebook.model.run import Run
    from duebook.targets.processes import Exit
    from tests.support.nodes import World

TRAPPED = [name for name in STOP_SIGNALS if name != "SIGKILL"]
TRAPS = "".join(f"trap 'echo {name}; exit 0' {name.removeprefix('SIG')}; " for name in TRAPPED)
HANDLER = "  abort: {command: 'echo handled >> \"$EVIDENCE\"'}"
WAITS = "echo ready; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def spawner() -> Iterator[Spawner]:
    with Spawner() as started:
        yield started


def stopped(spawner: Spawner, script: str, name: str, grace: float) -> tuple[Exit, str]:
    """How a script ended that was stopped once it had said something, and what it printed."""
    printed: list[bytes] = []
    process = spawner.spawn(["sh", "-c", script], {"PATH": os.environ["PATH"]})
    with Stop() as stop:

        def take(stream: str, piece: bytes) -> None:
            if stream == "stdout":  # on the other, a shell says how its child ended
                printed.append(piece)
            stop.set("cancelled")

        number = signal.Signals[name]
        found = supervise(process, take, stop, PATIENCE, grace, stop_signal=number)
    return found, b"".join(printed).decode()


@pytest.mark.parametrize("name", TRAPPED)
def test_a_command_gets_the_signal_that_its_definition_names(spawner: Spawner, name: str) -> None:
    found, printed = stopped(spawner, TRAPS + WAITS, name, PATIENCE)
    assert (found.code, found.stopped) == (0, "cancelled")
    assert printed.split() == ["ready", name]


def test_a_command_that_ignores_its_signal_is_killed_when_its_time_is_over(
    spawner: Spawner,
) -> None:
    found, printed = stopped(spawner, f"trap '' INT; {WAITS}", "SIGINT", 0.2)
    assert (found.signal, found.stopped) == (signal.SIGKILL, "cancelled")
    assert printed.split() == ["ready"]


def test_sigkill_does_not_wait_for_anything(spawner: Spawner) -> None:
    began = time.monotonic()
    found, _ = stopped(spawner, TRAPS + WAITS, "SIGKILL", 10 * PATIENCE)
    assert (found.signal, found.stopped) == (signal.SIGKILL, "cancelled")
    assert time.monotonic() - began < 10 * PATIENCE


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path, None) as opened:
        yield opened


def start(world: World, *steps_and_keys: str, head: str = "") -> Run:
    """A run of a flow whose steps have begun: each says by which signal it was stopped."""
    traps = "".join(f"trap 'echo {name} >> \"$EVIDENCE\"; exit 3' {name[3:]}; " for name in TRAPPED)
    waits = 'echo begun >> "$EVIDENCE"; while :; do sleep 0.05; done'
    made = [f"  - {{command: {json.dumps(traps + waits)}{keys}}}" for keys in steps_and_keys]
    text = "\n".join([head, "type: graph", "steps:", *made, "handler_on:", HANDLER])
    register(world, write_flow(world, "service", text))
    world.node()
    run = world.book.flows.start("service")
    eventually(lambda: said(world).count("begun") >= len(made))
    return run


def said(world: World) -> list[str]:
    return world.evidence_file.read_text().split() if world.evidence_file.exists() else []


def test_each_step_of_a_stopped_flow_gets_its_own_signal(world: World) -> None:
    run = start(world, ", signal_on_stop: SIGINT", ", signalOnStop: SIGUSR1", "")
    world.book.flows.stop("service")
    assert ended(world, run).status == "cancelled"
    assert sorted(said(world)[3:6]) == ["SIGINT", "SIGTERM", "SIGUSR1"]
    assert said(world)[6:] == ["handled"]
    assert {
        step.status for name, step in steps(world, run).items() if name != "handler_on.abort"
    } == {"cancelled"}


def test_a_flow_that_gives_no_time_kills_its_steps_at_once_and_not_its_handlers(
    world: World,
) -> None:
    run = start(world, ", signal_on_stop: SIGINT", head="max_clean_up_time_sec: 0")
    world.book.flows.stop("service")
    assert ended(world, run).status == "cancelled"
    assert said(world) == ["begun", "handled"]


def test_a_step_that_takes_too_long_gets_its_signal_too(world: World) -> None:
    run = start(world, ", signal_on_stop: SIGHUP, timeout_sec: 1", head="max_clean_up_time_sec: 60")
    assert ended(world, run).status == "failed"
    assert said(world) == ["begun", "SIGHUP"]
    assert steps(world, run)["step-1"].reason == "timeout"


def test_a_command_of_a_schedule_gets_the_signal_of_its_target(world: World) -> None:
    script = "trap 'echo INT >> \"$EVIDENCE\"; exit 0' INT; "
    script += 'echo begun >> "$EVIDENCE"; while :; do sleep 0.05; done'
    target = {"shell": script, "stop_signal": "SIGINT", "stop_grace": "1m"}
    world.book.schedules.create("serve", trigger={"every": "1d"}, target=target)
    world.node()
    run = world.book.schedules.trigger("serve")
    eventually(lambda: said(world) == ["begun"])
    world.book.runs.cancel(run.id)
    world.wait_for(run.id, "cancelled")
    assert said(world) == ["begun", "INT"]
