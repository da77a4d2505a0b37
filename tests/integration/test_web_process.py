"""The web process of `duebook up`: started again when it dies, and gone when its node is."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

from duebook.book.tokens import Tokens
from tests.attack import readers
from tests.support.node_checks import door
from tests.support.nodes import World, children_of, cmdline, world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.nodes import NodeProcess

__all__ = ["world"]  # the fixture


def web_processes(node: NodeProcess) -> list[int]:
    return [pid for pid in children_of(node.pid) if b"web_process" in cmdline(pid)]


def answers(api: httpx2.Client) -> bool:
    """A connection that was open to a process that died is no more."""
    try:
        return api.get("/healthz").status_code == 200
    except httpx2.TransportError:
        return False


def test_a_web_process_that_is_killed_is_started_again_beside_the_same_session(
    world: World,
) -> None:
    node = world.start("up", "--port", "0")
    with door(node) as api:
        assert api.get("/readyz").status_code == 200
        (before,) = web_processes(node)
        assert int(Path(f"/proc/{before}/oom_score_adj").read_text()) >= 500
        sessions = world.sessions(node)
        os.kill(before, signal.SIGTERM)  # as some service managers send it to all processes
        assert api.get("/healthz").status_code == 200
        os.kill(before, signal.SIGKILL)
        eventually(lambda: answers(api))
        (after,) = web_processes(node)
        assert after != before
        assert world.sessions(node) == sessions
        assert re.search("^duebook_web_restarts_total 1.0$", api.get("/metrics").text, re.MULTILINE)
    assert "the web process ended (killed by SIGKILL); starting it again" in node.log
    assert node.end() == 0
    assert node.family() == []


def test_a_web_process_that_hangs_is_killed_and_started_again(world: World) -> None:
    node = world.start("up", "--port", "0")
    with door(node) as api:
        assert api.get("/healthz").status_code == 200
        (before,) = web_processes(node)
        sessions = world.sessions(node)
        os.kill(before, signal.SIGSTOP)
        eventually(lambda: before not in web_processes(node))
        eventually(lambda: answers(api))
        assert world.sessions(node) == sessions
    assert "the web process does not respond; killing it" in node.log
    assert "the web process ended (killed by SIGKILL); starting it again" in node.log
    assert node.end() == 0
    assert node.family() == []


def test_a_node_that_stands_still_is_not_ready_and_its_web_process_says_so(world: World) -> None:
    node = world.start("up", "--port", "0")
    with door(node) as api:
        assert api.get("/readyz").status_code == 200
        world.stop_outside_transactions(node)
        eventually(lambda: api.get("/readyz").status_code == 503)
        (problem,) = api.get("/readyz").json()["problems"]
        assert problem["code"] == "node"
        assert "this node did not respond within 1 s" in problem["message"]
        assert "duebook_node_up 0.0" in api.get("/metrics").text
        assert api.get("/api/v1/schedules").status_code == 200
        node.send(signal.SIGCONT)
        eventually(lambda: api.get("/readyz").status_code == 200)
    assert node.end() == 0


def test_no_web_process_outlives_its_node_even_one_that_stands_still(world: World) -> None:
    node = world.start("up", "--port", "0")
    with door(node) as api:
        assert api.get("/healthz").status_code == 200
    (web,) = web_processes(node)
    os.kill(web, signal.SIGSTOP)
    node.end(signal.SIGKILL)
    eventually(lambda: web not in node.family())


def test_readers_that_compute_all_the_time_take_neither_the_lease_nor_the_time_of_the_node(
    world: World,
) -> None:
    """Judged by processor time and the node's own count of stalls: this machine may be busy."""
    world.add("job", "true", trigger={"cron": "* * * * * *"})
    _, viewer = Tokens(world.book.store).create("reader", "viewer", "*")
    node = world.start("up", "--port", "0")
    with door(node) as api:
        tokens = {"viewer": viewer, "admin": api.headers["authorization"].partition(" ")[2]}
        sessions = world.sessions(node)
        found = readers.run(str(api.base_url), tokens, seconds=2.0, parallel=20)
        assert world.sessions(node) == sessions
    assert found["lost"] == found["stalls"] == 0
    assert set(found["answers"]) <= readers.FINE
    assert 200 in found["answers"]
    assert found["node_cpu"] < found["web_cpu"]
    assert node.end() == 0
