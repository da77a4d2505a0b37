"""Nodes that are killed, stopped or told to end while commands run; and books in trouble."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.clock_files import set_clock
from tests.support.disks import MIB, fill, small_disk
from tests.support.nodes import (
    BEATING,
    HELD,
    LEASE,
    QUICK,
    SAY,
    World,
    check,
    open_world,
    world,
)
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["world"]  # the fixture

LONGER = 3 * LEASE
"""A lease that no busy machine costs a node whose attempts are counted."""
FOR_AGES = 20 * PATIENCE
SLACK = 20.0
"""Seconds a busy machine may take on top."""
FAMILY = SAY + (
    'say start; (setsid sh -c "while :; do sleep 0.05; done" &) ; '
    'while [ ! -e "$GO" ]; do sleep 0.02; say beat; done; say end'
)


# ------------------------------------------------------------ a node dies


def test_a_killed_node_leaves_no_process_and_its_run_is_taken_over(world: World) -> None:
    world.add("job", FAMILY)
    first = world.node(lease=LONGER)
    run = world.trigger("job")
    world.wait_evidence("beat", "job")
    world.node(lease=LONGER)
    first.send(signal.SIGKILL)
    killed_at = time.time()
    first.process.wait()
    eventually(lambda: not first.family())
    again = world.wait_evidence("start", "job", 2)[-1]
    assert again.attempt == 2
    assert again.at - killed_at < LONGER + SLACK
    world.go.touch()
    world.wait_for(run, "succeeded")
    assert world.query("SELECT attempt, losses FROM runs") == [(2, 1)]
    assert world.query("SELECT attempt, outcome FROM run_attempts") == [(1, "lost")]
    check(world)


def test_a_run_that_kills_its_nodes_ends_as_poison(world: World) -> None:
    world.add("killer", SAY + 'say start; kill -9 "$NODE_PID"; sleep 600', max_takeovers=1)
    first = world.node(lease=LEASE)
    run = world.trigger("killer")
    first.wait_end()
    world.node(lease=LEASE).wait_end()
    third = world.node(lease=LEASE)
    world.wait_for(run, "failed")
    assert world.query("SELECT reason, attempt, losses FROM runs") == [("poison", 2, 2)]
    assert len(world.evidence("start")) == 2
    assert not world.working()
    world.add("next", QUICK)
    world.wait_for(world.trigger("next"), "succeeded")
    assert third.end() == 0
    check(world)


def test_a_killed_node_is_buried_by_the_next_one_of_its_machine_long_before_its_lease_ends(
    world: World,
) -> None:
    """One that is only stopped lives on its lease."""
    world.add("job", HELD)
    first = world.node(lease=FOR_AGES)
    run = world.trigger("job")
    world.wait_evidence("start", "job")
    world.stop_outside_transactions(first)
    second = world.node(lease=FOR_AGES)
    assert "is dead" not in second.log
    assert second.end() == 0
    first.end(signal.SIGKILL)
    eventually(lambda: not first.family())
    world.node(lease=FOR_AGES)
    assert world.wait_evidence("start", "job", 2)[-1].attempt == 2
    world.go.touch()
    world.wait_for(run, "succeeded")
    assert world.query("SELECT attempt, outcome FROM run_attempts") == [(1, "lost")]
    check(world)


def test_a_killed_spawner_costs_no_run(world: World) -> None:
    world.add("job", BEATING)
    node = world.node()
    run = world.trigger("job")
    world.wait_evidence("beat", "job")
    former = node.spawner()
    os.kill(former, signal.SIGKILL)
    world.wait_evidence("start", "job", 2)
    world.go.touch()
    world.wait_for(run, "succeeded", "failed", "cancelled")
    assert world.query("SELECT status, losses FROM runs") == [("succeeded", 0)]
    assert node.spawner() != former
    assert node.end() == 0
    check(world)


# ------------------------------------------------------------ a node is told to end


def test_a_node_told_to_end_finishes_short_work(world: World) -> None:
    world.add("short", HELD)
    node = world.up().wait_ready()
    run = world.trigger("short")
    world.wait_evidence("start", "short")
    node.send(signal.SIGTERM)
    world.go.touch()
    assert node.wait_end() == 0
    assert world.status(run) == "succeeded"
    _check_left(world, "short")


def test_ctrl_c_in_a_terminal_spares_the_commands(world: World) -> None:
    """A terminal sends SIGINT to the whole group; the work is the node's to end."""
    world.add("short", HELD)
    node = world.up().wait_ready()
    run = world.trigger("short")
    world.wait_evidence("start", "short")
    os.killpg(node.pid, signal.SIGINT)
    world.go.touch()
    assert node.wait_end() == 0
    assert world.status(run) == "succeeded"
    _check_left(world, "short")


def test_work_that_outlasts_the_lease_may_finish_within_the_grace(world: World) -> None:
    world.add("long", SAY + f"say start; sleep {LONGER + 1}; say end")
    node = world.node(lease=LONGER, shutdown_grace=PATIENCE)
    run = world.trigger("long")
    world.wait_evidence("start", "long")
    assert node.end() == 0
    assert world.status(run) == "succeeded"
    _check_left(world, "long")


def test_a_node_told_to_end_hands_long_work_back(world: World) -> None:
    world.add("long", BEATING)
    node = world.node(lease=2 * PATIENCE, shutdown_grace=0.2, stop_within=2 * PATIENCE)
    run = world.trigger("long")
    world.wait_evidence("beat", "long")
    assert node.end() == 0  # and has waited for neither
    assert not node.family()
    assert world.query("SELECT status, losses, session_id FROM runs") == [("queued", 0, None)]
    ((_, ended_at),) = world.sessions(node)
    assert ended_at is not None
    second = world.node()
    again = world.wait_evidence("start", "long", 2)[-1]  # no lease to wait for
    assert again.attempt == 2
    world.go.touch()
    world.wait_for(run, "succeeded")
    assert second.end() == 0
    check(world)


def _check_left(world: World, schedule: str) -> None:
    (node,) = world.nodes
    assert [(e.word, e.attempt) for e in world.evidence(schedule=schedule)] == [
        ("start", 1),
        ("end", 1),
    ]
    assert not node.family()
    ((_, ended_at),) = world.sessions(node)
    assert ended_at is not None
    check(world)


# ------------------------------------------------------------ a node stands still


def test_a_stopped_node_s_command_is_dead_before_its_run_is_taken_over(world: World) -> None:
    world.add("job", BEATING)
    stopped = world.node(lease=LONGER)
    run = world.trigger("job")
    world.wait_evidence("beat", "job")
    other = world.node(lease=LONGER)
    world.stop_outside_transactions(stopped)
    first = world.evidence("start", "job")[0]
    again = world.wait_evidence("start", "job", 2)[-1]
    assert (first.attempt, again.attempt) == (1, 2)
    assert {e.pid for e in world.evidence("beat") if e.at > again.at} <= {again.pid}
    stopped.send(signal.SIGCONT)
    eventually(lambda: "is ignored" in stopped.log)
    eventually(lambda: len(world.sessions(stopped)) > 1)
    world.go.touch()
    world.wait_for(run, "succeeded")
    other.end()
    world.add("next", QUICK)
    world.wait_for(world.trigger("next"), "succeeded")
    assert stopped.end() == 0
    assert all(ended_at is not None for _, ended_at in world.sessions(stopped))
    check(world)


def test_the_late_success_of_a_stopped_node_is_refused(world: World) -> None:
    world.add("job", HELD)
    stopped = world.node(lease=4 * LEASE)  # so that its command has the time to end
    run = world.trigger("job")
    world.wait_evidence("start", "job")
    other = world.node(lease=4 * LEASE)
    world.stop_outside_transactions(stopped)
    world.go.touch()
    world.wait_evidence("end", "job")  # the stopped node cannot say so
    world.go.unlink()
    world.wait_evidence("start", "job", 2)
    stopped.send(signal.SIGCONT)
    eventually(lambda: "is ignored" in stopped.log)
    assert world.status(run) == "running"
    world.go.touch()
    world.wait_for(run, "succeeded")
    assert world.query("SELECT attempt, losses FROM runs") == [(2, 1)]
    assert stopped.end() == 0
    assert other.end() == 0
    check(world)


# ------------------------------------------------------------ a clock set back


def test_a_clock_set_back_fires_nothing_twice(world: World) -> None:
    clock = world.folder / "clock"
    set_clock(clock, 0)
    world.add("second", QUICK, trigger={"every": "1s"})
    world.add("asked", QUICK)
    node = world.node(clock=str(clock))
    world.wait_evidence("end", "second", 2)
    set_clock(clock, -3600)
    for _ in range(3):  # the node goes on working, though its time stands still
        world.wait_for(world.trigger("asked"), "succeeded")
    before = len(world.evidence("start", "second"))
    set_clock(clock, -1)
    world.wait_evidence("end", "second", before + 2)
    set_clock(clock, 0)
    world.wait_evidence("end", "second", before + 4)
    assert node.end() == 0
    assert "lost" not in node.log
    dues = [e.due for e in world.evidence("start", "second")]
    assert dues == sorted(set(dues))
    check(world)


# ------------------------------------------------------------ a full disk


@pytest.fixture
def on_small_disk(tmp_path: Path) -> Iterator[World]:
    """A world whose books, and nothing else, are on a disk of 8 MB."""
    with small_disk(tmp_path / "disk", 8 * MIB) as disk, open_world(tmp_path) as world:
        world.path = disk / "books.db"
        yield world


def _fill_until_refused(world: World) -> Path:
    ballast = fill(world.path.parent)
    refused = world.cli("add", "extra", "--every", "1h", "--shell", "x" * 100_000)
    assert refused.returncode == 4
    assert refused.stderr.count("\n") == 1
    assert "disk is full" in refused.stderr
    assert "Traceback" not in refused.stderr
    return ballast


def test_a_run_that_ends_while_the_disk_is_full_is_settled_later(on_small_disk: World) -> None:
    world = on_small_disk
    world.add("held", HELD + "; echo done")
    world.add("second", QUICK, trigger={"every": "1s"}, overlap="allow")
    node = world.node(lease=2 * PATIENCE)
    run = world.trigger("held")
    world.wait_evidence("start", "held")
    ballast = _fill_until_refused(world)
    eventually(lambda: "disk is full" in node.log)
    world.go.touch()
    world.wait_evidence("end", "held")
    reported = node.log.count("disk is full")
    eventually(lambda: node.log.count("disk is full") > reported)
    ballast.unlink()
    before = len(world.evidence("end", "second"))
    world.wait_for(run, "succeeded", "failed", "cancelled")
    world.wait_evidence("end", "second", before + 2)
    assert node.end() == 0
    assert len(world.evidence("start", "held")) == 1
    assert world.query("SELECT status FROM runs WHERE due_at IS NULL") == [("succeeded",)]
    assert world.query("SELECT text FROM run_logs WHERE run_id = ?", run) == [("done",)]
    starts = [e.run for e in world.evidence("start", "second")]
    assert len(starts) == len(set(starts))
    assert "Traceback" not in node.log
    check(world)


def test_a_command_goes_on_while_its_log_cannot_be_written(on_small_disk: World) -> None:
    world = on_small_disk
    waiting = 'while [ ! -e "$GO" ]; do sleep 0.02; echo word; done; '
    world.add("chatty", SAY + "say start; " + waiting + "echo last; say end")
    node = world.node(lease=2 * PATIENCE)
    run = world.trigger("chatty")
    world.wait_evidence("start", "chatty")
    ballast = _fill_until_refused(world)
    until = time.monotonic() + 1.5  # longer than words wait to be written
    eventually(lambda: time.monotonic() > until or not world.working())
    ballast.unlink()
    world.go.touch()
    world.wait_for(run, "succeeded", "failed", "cancelled")
    assert world.query("SELECT status, attempt FROM runs") == [("succeeded", 1)]
    assert world.query("SELECT text FROM run_logs ORDER BY seq")[-1] == ("last",)
    assert node.end() == 0
    check(world)


def test_a_disk_full_beyond_the_lease_costs_an_attempt_and_no_run(on_small_disk: World) -> None:
    world = on_small_disk
    world.add("job", BEATING)
    node = world.node(lease=LEASE)
    run = world.trigger("job")
    world.wait_evidence("beat", "job")
    ballast = _fill_until_refused(world)
    eventually(lambda: "lost its session" in node.log)
    eventually(lambda: not world.working())
    ballast.unlink()
    world.wait_evidence("start", "job", 2)
    world.go.touch()
    world.wait_for(run, "succeeded")
    assert node.end() == 0
    check(world)


def test_up_on_a_full_disk_says_so(on_small_disk: World) -> None:
    world = on_small_disk
    fill(world.path.parent)
    node = world.up()
    assert node.wait_end() == 4
    assert "error:" in node.log
    assert "Traceback" not in node.log
    assert "full" in node.log
