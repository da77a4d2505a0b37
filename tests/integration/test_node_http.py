"""A node that sends requests and renders templates, as a person starts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.http_server import Server
from tests.support.nodes import World, world
from tests.support.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["world"]  # the fixture


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as opened:
        yield opened


def add(world: World, name: str, target: Any, **definition: Any) -> str:
    """A schedule, and the run of it that was asked for."""
    definition.setdefault("trigger", {"cron": "0 0 29 2 *"})
    world.book.schedules.create(name, target=target, **definition)
    return world.trigger(name)


def log_of(world: World, run: str) -> list[str]:
    return [line.text for _, line in world.book.runs.log(run)]


def test_requests_to_this_machine_need_a_setting(world: World, server: Server) -> None:
    world.up().wait_ready()
    run = add(world, "hook", {"http": server.url()}, retry={"attempts": 3, "delay": "0s"})
    world.wait_for(run, "failed")
    found = world.book.runs.get(run)
    assert (found.reason, found.attempt) == ("refused", 1)  # it would only be refused again
    assert "127.0.0.1 is loopback" in str(found.error)
    assert server.asked == []


def test_a_request_is_sent_with_the_values_of_its_run(world: World, server: Server) -> None:
    world.up("--http-allow", "127.0.0.0/8").wait_ready()
    http = {
        "url": server.url("/echo?s={{ schedule.name }}"),
        "json": {"day": "{{ payload.day }}", "n": "{{ payload.n }}"},
        "headers": {"Authorization": "Bearer s3cret-t0ken"},
    }
    run = add(world, "hook", {"http": http}, payload={"day": "{{ due_at | time }}", "n": 5})
    world.wait_for(run, "succeeded")
    (asked,) = server.asked
    assert asked.path == "/echo?s=hook"
    assert asked.json == {"day": f"{world.book.runs.get(run).created_at:%Y-%m-%d}", "n": 5}
    assert asked.headers["Idempotency-Key"] == run
    log = "\n".join(log_of(world, run))
    assert "returned 200 OK" in log
    assert '"Authorization": "***"' in log
    output = world.book.runs.get(run).output
    assert output["status"] == 200
    assert "s3cret" not in str(output)


def test_a_status_is_retried_under_the_same_key(world: World, server: Server) -> None:
    world.up("--http-allow", "127.0.0.1").wait_ready()
    server.statuses += [503, 503, 200, 404]
    retry = {"attempts": 5, "delay": "0s", "on": [503]}
    run = add(world, "hook", {"http": server.url("/next")}, retry=retry)
    world.wait_for(run, "succeeded")
    keys = [(a.headers["Idempotency-Key"], a.headers["Duebook-Attempt"]) for a in server.asked]
    assert keys == [(run, "1"), (run, "2"), (run, "3")]
    other = world.trigger("hook")
    world.wait_for(other, "failed")
    found = world.book.runs.get(other)
    assert (found.attempt, found.exit_code, found.reason) == (1, 404, "http_status")
    assert found.output == {"status": 404}


def test_a_cancel_ends_the_request_of_a_run(world: World, server: Server) -> None:
    world.up("--http-allow", "127.0.0.1").wait_ready()
    run = add(world, "hook", {"http": server.url("/hold")}, timeout="1h")
    eventually(lambda: server.asked)
    world.book.runs.cancel(run)
    world.wait_for(run, "cancelled")
    assert server.gone.wait(PATIENCE)


def test_a_node_that_ends_hands_its_request_back(world: World, server: Server) -> None:
    node = world.node(shutdown_grace=0, http_allow="127.0.0.1")
    run = add(world, "hook", {"http": server.url("/hold")}, timeout="1h")
    eventually(lambda: server.asked)
    assert node.end() == 0
    assert server.gone.wait(PATIENCE)
    assert world.status(run) == "queued"


def test_a_template_without_a_value_fails_its_run_for_good(world: World) -> None:
    world.up().wait_ready()
    target = {"command": ["printf", "%s|", "{{ payload.file }}", "{{ schedule.name }}"]}
    retry = {"attempts": 3, "delay": "0s"}
    run = add(world, "copy", target, retry=retry)
    world.wait_for(run, "failed")
    found = world.book.runs.get(run)
    assert (found.reason, found.attempt) == ("template", 1)
    told = 'command[2]: "payload.file" is undefined; set a default with default(…)'
    assert found.error == told
    assert log_of(world, run) == [told]
    given = world.book.schedules.trigger("copy", payload={"file": "$(id) '\" {{ user }}\n-o"}).id
    world.wait_for(given, "succeeded")
    assert "\n".join(log_of(world, given)) == "$(id) '\" {{ user }}\n-o|copy|"
