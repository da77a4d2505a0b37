"""What is said about a run of a flow and its steps, for each thing that they may wait for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from textwrap import dedent
from typing import Any

import pytest

from duebook.explain.flow_runs import FlowStanding, explain_flow
from duebook.explain.runs import explain_run
from duebook.explain.words import Clock
from duebook.flows.build import build
from duebook.model.codec import encode
from duebook.model.node import LiveNode
from duebook.model.queue import Queue, QueueLoad, Rate
from duebook.model.run import Run
from duebook.model.serving import ALL, Serving

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TEXT = """
max_active_steps: 1
steps:
  - {name: get, command: "true"}
  - {name: look, command: "true", depends: []}
  - {name: put, command: "true", depends: get, worker_selector: {gpu: a100}}
  - {name: tell, task: tell, depends: [put, look]}
"""


def run(step: str | None, status: Any, **more: Any) -> Run:
    given = {
        "id": f"0190-{step}",
        "namespace": "default",
        "schedule_id": None,
        "schedule": None,
        "version": None,
        "due_at": None,
        "origin": "manual" if step is None else "flow",
        "trigger": "",
        "queue": "@flow" if step is None else "default",
        "priority": 0,
        "status": status,
        "attempt": 1,
        "failures": 0,
        "losses": 0,
        "payload": None,
        "created_at": NOW - 90 * SECOND,
        "ready_at": NOW - 90 * SECOND,
        "started_at": NOW - 90 * SECOND,
        "flow": "a",
        "step": step,
    }
    return Run(**(given | more))


def test_a_run_that_no_node_owns_is_explained_without_one() -> None:
    told = explain_run(run(None, "running"), Clock("UTC", NOW), NOW).text
    assert told == "running since 11:58:30 as a manual run, for 90 s"
    claimed = explain_run(run("get", "running", started_at=None), Clock("UTC", NOW), NOW)
    assert claimed.text == "claimed by a node, about to start"


def node(queues: tuple[str, ...] = ("default",), namespaces: Serving = ALL) -> LiveNode:
    roles, none = ("worker", "scheduler"), timedelta()
    times = (NOW, NOW, NOW, none, 0, False)
    return LiveNode("s", "n1", 1, roles, "", "", (), queues, namespaces, {}, *times)


def standing(*steps: Run, text: str = TEXT, **more: Any) -> FlowStanding:
    built = build(dedent(text), "a.yaml", "a")
    assert not built.problems
    by_name = {step.step or "": step for step in steps}
    found = FlowStanding(built.flows[0], run(None, "running"), by_name, {}, [node()], {}, NOW)
    return replace(found, **more)


def told(at: FlowStanding) -> dict[str, str]:
    return {step.step: step.text for step in explain_flow(at).steps}


def test_steps_wait_for_others_and_for_room() -> None:
    at = standing(run("get", "running", node="n1"))
    assert explain_flow(at).text == "running since 11:58:30, for 90 s"
    assert told(at) == {
        "get": "running since 11:58:30, for 90 s, on n1",
        "look": "waits for one of get to finish: max_active_steps is 1",
        "put": "waits for get (running)",
        "tell": "waits for put (not started), look (not started)",
    }


def test_a_step_that_ended_says_how() -> None:
    done = run("get", "failed", finished_at=NOW, error="exit code 1", node="n1")
    skipped = run("put", "cancelled", attempt=0, started_at=None, reason="upstream_failed")
    assert told(standing(done, skipped)) == {
        "get": "ran at 11:58:30, for 90 s, failed on n1: exit code 1",
        "look": "can start: a scheduler is about to plan it",
        "put": "skipped: an earlier step failed",
        "tell": "waits for look (not started)",
    }
    assert told(standing(nodes=[]))["get"] == "can start: no scheduler is running"


@pytest.mark.parametrize(
    ("step", "more", "words"),
    [
        ("get", {"nodes": []}, "no worker is running"),
        ("put", {}, "it needs a worker with gpu=a100, and no live worker has them"),
        ("tell", {}, 'no live worker knows task "tell"'),
        ("get", {"nodes": [node(queues=("x",))]}, 'no live worker serves queue "default"'),
        (
            "get",
            {"nodes": [node(namespaces=Serving(("staging",)))]},
            'no live node serves namespace "default"; start one with --serve default',
        ),
        (
            "get",
            {"queues": Queue("default", 2)},
            'queue "default" runs at most 2 at a time, and 2 are running',
        ),
        (
            "get",
            {"queues": Queue("default", 0)},
            'queue "default" is on hold: its concurrency is 0',
        ),
        ("get", {"queues": Queue("default", None, Rate(1, SECOND))}, "starts at most 1/s"),
        ("get", {}, "no worker has started it yet"),
    ],
)
def test_a_step_that_is_ready_says_what_keeps_it(
    step: str, more: dict[str, Any], words: str
) -> None:
    if "queues" in more:
        more = {"queues": {"default": QueueLoad(more["queues"], 1, 2)}}
    needs = {"task": step} if step == "tell" else {}
    at = standing(run(step, "queued", attempt=0, started_at=None, **needs), **more)
    found = told(at)[step]
    assert found.startswith("queued since 11:58:30, for 90 s: ")
    assert found.endswith(words)


def test_a_step_that_waits_for_its_next_attempt_says_when_and_after_what() -> None:
    again = {"failures": 1, "error": "exit code 3", "ready_at": NOW + 10 * SECOND}
    at = standing(run("get", "queued", started_at=None, **again))
    assert told(at)["get"] == (
        "waiting for attempt 2 at 12:00:10, after 1 failed attempt: exit code 3"
    )


def test_a_run_that_has_not_begun_says_what_it_waits_for() -> None:
    queued = run(None, "queued", attempt=0, started_at=None)
    found = explain_flow(
        standing(run=queued, held={queued.id: "it waits for run 0190abcd-1 to finish"})
    )
    assert found.text == "queued since 11:58:30, for 90 s: it waits for run 0190abcd-1 to finish"
    assert {step.text for step in found.steps} == {"waits for the run to start"}
    late = standing(text=f"delay_sec: 120\n{TEXT}")
    assert told(late)["get"] == "waits until 12:00:30, because of delay_sec"
    init = standing(run("handler_on.init", "running"), text=f"handler_on: {{init: a}}\n{TEXT}")
    assert told(init)["get"] == "waits for the handler init (running)"


def test_one_step_is_explained_alone_and_as_json() -> None:
    called = standing(run("get", "running", queue="@flow", flow="deep"))
    form = encode(explain_flow(called, "get"))
    assert form["steps"] == [
        {
            "step": "get",
            "verdict": "running",
            "text": "has been running flow deep since 11:58:30; see duebook explain 0190-get",
            "run_id": "0190-get",
        }
    ]
