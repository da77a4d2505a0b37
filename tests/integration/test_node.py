"""A node at its everyday work, as a person starts it: due times, logs, limits, start and end."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from duebook.engine.logs import LINE_COST
from duebook.engine.node import END_WITHIN
from tests.support.nodes import (
    BEATING,
    HELD,
    QUICK,
    SAY,
    World,
    check,
    cpu_seconds,
    peak_resident,
    resident,
    seconds_without_a_core,
    world,
)
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from tests.support.nodes import Evidence, NodeProcess

__all__ = ["world"]  # the fixture


@pytest.fixture
def node(world: World) -> NodeProcess:
    """`duebook up`, ready."""
    return world.up().wait_ready()


# ------------------------------------------------------------ start and end


def test_up_is_ready_within_a_second_and_says_little(world: World) -> None:
    for n in range(5):
        world.add(f"nightly-{n}", QUICK, trigger={"daily": ["02:00"]})
    took = []
    for _ in range(3):  # the quickest counts, without its wait for the cores: others want them too
        node = world.up().wait_ready()
        lasted = time.monotonic() - node.started_at
        took.append(lasted - sum(seconds_without_a_core(pid) for pid in node.family()))
        lines = node.output.splitlines()
        if took[-1] < 1.0:
            break
        node.end(signal.SIGTERM)
    assert min(took) < 1.0
    assert len(lines) <= 10
    assert str(world.path) in lines[0]
    assert any("nightly-0" in line for line in lines)
    assert lines[-1].startswith("ready")


def test_ctrl_c_ends_a_node_cleanly(world: World) -> None:
    for _ in range(3):  # the quickest counts: others want the cores too
        node = world.up().wait_ready()
        started = time.monotonic()
        assert node.end(signal.SIGINT) == 0
        took = time.monotonic() - started
        if took < END_WITHIN:
            break
    assert took < END_WITHIN
    assert "ended" in node.output.splitlines()[-1]
    assert len(node.output.splitlines()) <= 10
    assert "Traceback" not in node.log
    assert not node.family()
    ((_, ended_at),) = world.sessions(node)
    assert ended_at is not None


def test_the_log_of_a_node_is_json_where_that_is_asked_for(world: World) -> None:
    node = world.start("up", "--log-format", "json", "--port", "0")

    def lines() -> list[dict[str, str]]:
        return [json.loads(line) for line in node.log.splitlines(keepends=True) if line[-1] == "\n"]

    eventually(lambda: any(line["message"].startswith("ready") for line in lines()))
    world.add("hello", QUICK)
    run = world.trigger("hello")
    world.wait_for(run, "succeeded")
    assert node.end() == 0
    assert node.output == "", "every line is JSON, so all of them are in the log"
    assert {"at", "level", "logger", "message"} == set.intersection(*map(set, lines()))
    (told,) = [line for line in lines() if run in line["message"]]
    assert (told["level"], told["logger"]) == ("info", "duebook.engine.settler")


def test_a_due_time_missed_while_no_node_was_up_is_caught_up_once(world: World) -> None:
    first = world.up().wait_ready()
    first.end()
    due = datetime.now(UTC) + timedelta(seconds=8)  # when it is on the books
    world.add("once", QUICK, trigger={"at": due}, grace="0s")
    eventually(lambda: datetime.now(UTC) > due + timedelta(seconds=0.1))
    assert world.query("SELECT count(*) FROM runs") == [(0,)]
    second = world.up().wait_ready()
    world.wait_evidence("end", "once")
    eventually(lambda: world.query("SELECT status FROM schedule_state") == [("completed",)])
    assert second.end() == 0
    assert world.query("SELECT origin, status, attempt FROM runs") == [("catchup", "succeeded", 1)]
    assert len(world.evidence("start")) == 1
    check(world)


# ------------------------------------------------------------ due times


def test_a_schedule_runs_at_its_due_times_and_never_before(world: World, node: NodeProcess) -> None:
    words = ("--every", "1s", "--overlap", "allow", "--shell", QUICK)
    assert world.cli("add", "second", *words).returncode == 0
    eventually(lambda: _three_in_time(world.evidence("start")))
    assert node.end() == 0
    starts = world.evidence("start")
    assert all(start.at >= start.due for start in starts)
    dues = sorted(start.due for start in starts)
    assert dues == [dues[0] + n for n in range(len(dues))]
    assert {(e.run, e.attempt) for e in world.evidence("end")} <= {(s.run, 1) for s in starts}
    check(world)


def _three_in_time(starts: list[Evidence]) -> bool:
    """Whether three in a row began within their second, whoever else wanted the cores before."""
    soon = {start.due for start in starts if start.at - start.due < 0.9}
    return any({due + 1, due + 2} <= soon for due in soon)


# ------------------------------------------------------------ what people do with runs


@pytest.mark.parametrize(
    ("shell", "code", "status"), [("exit 0", 0, "succeeded"), ("exit 7", 5, "failed: exit code 7")]
)
def test_run_wait_tells_by_its_exit_code_how_the_run_ended(
    world: World, node: NodeProcess, shell: str, code: int, status: str
) -> None:
    world.add("job", shell)
    answer = world.cli("run", "job", "--wait")
    assert answer.returncode == code
    assert answer.stdout.splitlines()[-1].partition(";")[0].endswith(f" {status}")
    assert node.process.poll() is None


def test_logs_follow_a_growing_log_to_the_end_of_its_run(world: World, node: NodeProcess) -> None:
    world.add("chatty", 'echo one; while [ ! -e "$GO" ]; do sleep 0.1; done; echo two >&2')
    world.wait_for(world.trigger("chatty"), "running")
    with subprocess.Popen(  # noqa: S603
        world.cli_argv("logs", "-f", "chatty"), env=world.env, stdout=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        try:
            assert follower.stdout.readline() == "one\n"  # while the run goes on
            assert world.query("SELECT status FROM runs") == [("running",)]
            world.go.touch()
            assert follower.stdout.read() == "two\n"
            assert follower.wait(PATIENCE) == 0
        finally:
            follower.kill()
    assert node.process.poll() is None


def test_cancelling_a_run_kills_the_whole_family_of_its_command(
    world: World, node: NodeProcess
) -> None:
    world.add("family", SAY + "say start; (setsid sleep 600 &) ; sleep 600 & wait")
    run = world.trigger("family")
    world.wait_evidence("start", "family")
    eventually(lambda: len(world.working()) >= 3)
    assert world.cli("cancel", run).returncode == 0
    world.wait_for(run, "cancelled")
    assert not world.working()
    assert node.process.poll() is None


def test_a_command_past_its_timeout_is_stopped_and_fails(world: World, node: NodeProcess) -> None:
    world.add("slow", BEATING, timeout="1s")
    run = world.trigger("slow")
    world.wait_for(run, "failed")
    assert not world.working()
    assert world.query("SELECT reason, attempt FROM runs") == [("timeout", 1)]
    assert node.process.poll() is None


def test_of_a_flood_the_head_and_the_tail_are_kept(world: World, node: NodeProcess) -> None:
    flood = "echo FIRST; yes 'a line of no use to anybody who reads this log' | head -c 8000000"
    world.add("flood", flood + "; echo; echo LAST")
    run = world.trigger("flood")
    world.wait_for(run, "succeeded")
    lines = [row[0] for row in world.query("SELECT text FROM run_logs ORDER BY seq")]
    assert lines[0] == "FIRST"
    assert lines[-1] == "LAST"
    assert 900_000 < sum(len(line) + LINE_COST for line in lines) <= 1_000_000
    assert peak_resident(node.pid) < 150_000_000
    assert world.path.stat().st_size < 20_000_000
    shown = world.cli("logs", run)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[-1] == "LAST"


# ------------------------------------------------------------ rest


def test_a_node_at_rest_needs_little_memory_and_no_time(world: World) -> None:
    world.add("someday", QUICK)
    node = world.up().wait_ready()
    assert world.cli("run", "someday", "--wait").returncode == 0
    eventually(lambda: len(node.family()) == 2)  # it and its spawner
    pids = node.family()
    assert sum(resident(pid) for pid in pids) < 90_000_000
    used = _cpu_over_two_seconds(pids)
    assert used < 0.1
    assert node.family() == pids


def test_a_run_that_waits_for_another_costs_no_writes(world: World, node: NodeProcess) -> None:
    world.add("exclusive", HELD)
    first, second = world.trigger("exclusive"), world.trigger("exclusive")
    world.wait_evidence("start", "exclusive")
    high_water = "SELECT value FROM meta WHERE key = 'high_water_at'"
    seen: set[int] = set()
    deadline = time.monotonic() + 1.0

    def over() -> bool:
        seen.add(world.query(high_water)[0][0])
        return time.monotonic() > deadline

    eventually(over)
    world.go.touch()
    world.wait_for(first, "succeeded")
    world.wait_for(second, "succeeded")
    assert len(seen) <= 3
    assert node.process.poll() is None
    check(world)


def _cpu_over_two_seconds(pids: list[int]) -> float:
    before = sum(cpu_seconds(pid) for pid in pids)
    until = time.monotonic() + 2
    eventually(lambda: time.monotonic() >= until)
    return sum(cpu_seconds(pid) for pid in pids) - before
