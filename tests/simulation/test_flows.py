"""Flows in a simulation: steps take their while, fail, are lost and skipped as in earnest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.testing import Simulation

    Make = Callable[..., Simulation]

ETL = """
name: etl
schedule: "0 * * * *"
env: {STAGE: dev}
steps:
  - {name: extract, command: ./extract, output: ROWS, retries: 1}
  - {name: load, command: ["./load", "${ROWS}"], depends: extract}
  - {name: report, task: send, depends: extract, continue_on: failed}
  - {name: publish, command: ./publish, depends: [load, report], preconditions: [
      {condition: "${STAGE}", expected: prod}]}
  - {name: nested, call: inner, depends: load}
handler_on: {success: ./tell, failure: ./cry}
---
name: inner
steps: [{name: one, command: ./one}, {name: two, command: ./two}]
"""


def told(sim: Simulation, flow: str = "etl") -> dict[str, tuple[str, str]]:
    """State and end of each step of the latest run."""
    run = sim.runs(flow)[-1]
    return {
        step.step or "": (step.state, f"{step.finished_at:%H:%M}" if step.finished_at else "")
        for step in sim.book.flows.steps(run.id)
    }


def test_a_flow_runs_at_its_times_and_its_steps_take_theirs(simulation: Make) -> None:
    sim = simulation(start="2026-02-07T11:59:00Z")
    sim.flow(ETL)
    sim.task("etl.extract", takes="10m", output="12")
    sim.task("etl.load", takes="5m")
    sim.task("send", takes="1m", fails=1)
    sim.task("etl.inner.two", takes="2m")
    sim.advance("1m")
    assert told(sim) == {"extract": ("running", "")}
    sim.advance("30m")
    assert told(sim) == {
        "extract": ("succeeded", "12:10"),
        "load": ("succeeded", "12:15"),
        "report": ("failed", "12:11"),
        "publish": ("skipped", "12:15"),
        "nested": ("succeeded", "12:17"),
        "handler_on.success": ("succeeded", "12:17"),
    }
    (run,) = sim.runs("etl")
    assert (run.status, run.output) == ("partial", {"ROWS": "12"})


def test_a_step_is_tried_again_and_outlives_its_node_and_waits_for_a_scheduler(
    simulation: Make,
) -> None:
    sim = simulation(start="2026-02-07T11:59:00Z", nodes=2)
    sim.flow(ETL)
    sim.task("send")
    sim.task("etl.extract", takes="10m", fails=1)
    sim.advance("15m")
    (extract,) = sim.book.flows.steps(sim.runs("etl")[0].id)
    assert (extract.status, extract.failures) == ("running", 1)
    assert extract.node is not None
    sim.kill_node(extract.node)
    sim.scheduler_down()
    sim.advance("30m")
    assert told(sim) == {"extract": ("succeeded", "12:25")}  # nobody decides what comes next
    sim.scheduler_up()
    sim.advance("1m")
    assert sim.runs("etl")[0].status == "succeeded"


def test_a_flow_is_started_and_stopped_by_hand(simulation: Make) -> None:
    sim = simulation()
    sim.flow(ETL.replace('schedule: "0 * * * *"\n', ""))
    sim.task("etl.extract", takes="1h")
    run = sim.book.flows.start("etl")
    sim.advance("5m")
    sim.book.flows.stop("etl")
    sim.advance("1m")
    assert [(each.id, each.status) for each in sim.runs("etl")] == [(run.id, "cancelled")]
    assert {step.state for step in sim.book.flows.steps(run.id)} == {"cancelled"}


def test_what_is_wrong_with_a_file_is_said(simulation: Make) -> None:
    with pytest.raises(Invalid, match=r"flow.yaml:1:\d+: .*retires"):
        simulation().flow("steps: [{name: a, command: x, retires: 1}]")


HOURLY = """
schedule: "0 * * * *"
steps: [{name: work, command: "true"}]
"""


def test_what_was_edited_while_the_scheduler_was_down_runs_as_it_is_now(simulation: Make) -> None:
    sim = simulation(start="2026-02-07T11:30:00Z")
    sim.flow(HOURLY, "etl")
    sim.flow(HOURLY, "gone")
    sim.advance("1h")
    sim.scheduler_down()
    sim.flow(HOURLY.replace("work", "better"), "etl")
    sim.delete_flow("gone")
    assert {step["name"] for step in sim.book.flows.get("etl").steps} == {"work"}
    sim.advance("30m")
    sim.scheduler_up()
    sim.advance("1m")
    runs = sim.runs("etl")
    assert [f"{run.due_at:%H:%M}" for run in runs] == ["12:00", "13:00"]
    steps = [sim.book.flows.steps(run.id)[0].step for run in runs]
    assert steps == ["work", "better"]
    assert len(sim.runs("gone")) == 1
    assert [entry.reason for entry in sim.ledger("gone")] == ["deleted"]


def test_another_node_reads_the_flows_of_one_that_died(simulation: Make) -> None:
    sim = simulation(start="2026-02-07T11:30:00Z", nodes=2)
    sim.flow(HOURLY, "etl")
    sim.kill_node(0)
    sim.advance("1h")
    assert [run.state for run in sim.runs("etl")] == ["succeeded"]


def test_a_backlog_of_a_flow_goes_on_with_the_end_of_each_run(simulation: Make) -> None:
    sim = simulation(start="2026-02-07T11:59:00Z")
    steps = "steps: [{name: one, command: ./one}, {name: two, command: ./two}]"
    sim.flow(f"name: etl\nschedule: '0 * * * *'\ncatchup_window: 6h\n{steps}")
    for step in ("one", "two"):
        sim.task(f"etl.{step}", takes="2s")
    sim.scheduler_down()
    sim.advance("5h")
    sim.scheduler_up()
    sim.advance("30s")
    runs = sim.runs("etl")
    assert [run.status for run in runs] == ["succeeded"] * 5
    began = [(run.started_at - runs[0].started_at).total_seconds() for run in runs]  # type: ignore[operator]
    assert began == [0, 4, 8, 12, 16]


POLL = """
name: poll
steps:
  - name: ask
    task: ask
    output: STATE
    repeat_policy:
      {repeat: until, condition: "${STATE}", expected: done, interval_sec: 60, limit: 3}
  - {name: use, command: ./use}
"""


def test_a_step_repeats_until_its_condition_holds_and_then_the_flow_goes_on(
    simulation: Make,
) -> None:
    sim = simulation(start="2026-02-07T12:00:00Z")
    sim.flow(POLL)
    sim.task("ask", output="busy")
    run = sim.book.flows.start("poll")
    sim.advance("30s")
    (ask,) = sim.book.flows.steps(run.id)
    assert (ask.status, ask.reason, ask.failures) == ("queued", "repeat", 0)
    told_now = sim.book.flows.explain(run.id).steps[0].text
    assert told_now == "repeats at 12:01, after 1 execution"
    sim.task("ask", output="done")
    sim.advance("1m")
    ask, use = sim.book.flows.steps(run.id)
    assert (ask.status, ask.attempt, ask.output) == ("succeeded", 2, "done")
    assert use.status == "succeeded"


def test_a_step_that_was_repeated_often_enough_ends_as_it_did_last(simulation: Make) -> None:
    sim = simulation(start="2026-02-07T12:00:00Z")
    sim.flow(POLL)
    sim.task("ask", output="busy")
    run = sim.book.flows.start("poll")
    sim.advance("10m")
    ask, _ = sim.book.flows.steps(run.id)
    assert (ask.status, ask.attempt) == ("succeeded", 3)
    assert sim.book.runs.get(run.id).status == "succeeded"


def test_a_step_that_waits_to_be_repeated_ends_when_its_flow_is_stopped(simulation: Make) -> None:
    sim = simulation(start="2026-02-07T12:00:00Z")
    sim.flow(POLL)
    sim.task("ask", output="busy")
    run = sim.book.flows.start("poll")
    sim.advance("30s")
    sim.book.flows.stop("poll")
    sim.advance("1s")
    assert sim.book.runs.get(run.id).status == "cancelled"


def test_a_flow_with_a_retry_policy_goes_on_where_it_failed(simulation: Make) -> None:
    sim = simulation(start="2026-02-07T12:00:00Z")
    sim.flow(
        "name: shaky\nretry_policy: {limit: 2, interval_sec: 60}\n"
        "steps: [{name: one, command: ./one}, {name: two, command: ./two}, {name: three, task: t}]"
    )
    sim.task("t")
    sim.task("shaky.two", fails=1)
    run = sim.book.flows.start("shaky")
    sim.advance("30s")
    again = sim.book.runs.get(run.id)
    assert (again.status, again.failures, again.error) == ("queued", 1, "step two failed")
    sim.advance("2m")
    ended = sim.book.runs.get(run.id)
    assert (ended.status, ended.attempt) == ("succeeded", 2)
    names = [step.step for step in sim.book.flows.steps(run.id)]
    assert sorted(filter(None, names)) == ["one", "three", "two"]  # one ran once
    assert names.count(None) == 1


def test_a_flow_that_failed_as_often_as_its_retry_policy_allows_has_failed(
    simulation: Make,
) -> None:
    sim = simulation(start="2026-02-07T12:00:00Z")
    sim.flow("name: bad\nretry_policy: {limit: 1, interval_sec: 1}\nsteps: [{name: a, command: b}]")
    sim.task("bad.a", fails=5)
    run = sim.book.flows.start("bad")
    sim.advance("1m")
    ended = sim.book.runs.get(run.id)
    assert (ended.status, ended.attempt, ended.failures) == ("failed", 2, 2)


EACH = """
name: outer
steps:
  - {name: list, task: list, output: FILES}
  - name: load
    call: load
    parallel: {items: "${FILES}", max_concurrent: 2}
    params: {FILE: "${ITEM}"}
    output: RESULTS
  - {name: after, task: tell, payload: {good: "{{ steps.load.output.summary.succeeded }}"}}
---
name: load
params: [{FILE: none}]
steps: [{name: copy, task: copy, payload: {file: "{{ params.FILE }}"}, output: COPIED}]
"""


def test_a_flow_is_called_for_each_item_so_many_at_a_time(simulation: Make) -> None:
    sim = simulation(start="2026-02-07T12:00:00Z")
    sim.flow(EACH)
    sim.task("list", output=["a", "${HOME}", "{{ c }}"])
    sim.task("copy", takes="1m", output="done")
    sim.task("tell")
    run = sim.book.flows.start("outer")
    sim.advance("30s")
    load = sim.book.flows.steps(run.id)[1]
    items = sim.book.flows.steps(load.id)
    assert [(item.step, item.status) for item in items] == [
        ("item-1", "running"),
        ("item-2", "running"),
    ]
    sim.advance("5m")
    ended, _, after = sim.book.runs.get(run.id), *sim.book.flows.steps(run.id)[1:]
    assert (ended.status, after.status) == ("succeeded", "succeeded")
    results = sim.book.runs.output(load.id)
    assert results["summary"] == {"total": 3, "succeeded": 3, "failed": 0}
    assert [each["params"] for each in results["results"]] == [
        {"FILE": "a"},
        {"FILE": "${HOME}"},
        {"FILE": "{{ c }}"},
    ]
    assert results["outputs"] == [{"COPIED": "done"}] * 3


def test_all_items_run_though_one_fails_and_then_the_step_has_failed(simulation: Make) -> None:
    sim = simulation(start="2026-02-07T12:00:00Z")
    sim.flow(EACH)
    sim.task("list", output="a b c")
    sim.task("copy", fails=1)
    sim.task("tell")
    run = sim.book.flows.start("outer")
    sim.advance("5m")
    _, load, after = sim.book.flows.steps(run.id)
    assert (load.status, after.state) == ("failed", "skipped")
    assert len([s for s in sim.book.flows.steps(load.id) if s.status == "succeeded"]) == 2
    assert sim.book.runs.output(load.id)["summary"] == {"total": 3, "succeeded": 2, "failed": 1}
    sim.book.flows.retry(run.id)
    sim.advance("5m")
    assert sim.book.runs.get(run.id).status == "succeeded"
    attempts = sorted(item.attempt for item in sim.book.flows.steps(load.id))
    assert attempts == [1, 1, 2]  # only the item that failed ran again


def test_an_item_is_what_the_flow_gets_if_the_step_gives_it_nothing_else(simulation: Make) -> None:
    sim = simulation(start="2026-02-07T12:00:00Z")
    sim.flow(
        "name: outer\nsteps:\n"
        "  - {name: load, call: load, parallel: [{FILE: a}, FILE=b]}\n---\n"
        "name: load\nparams: [{FILE: none}]\n"
        'steps: [{name: copy, task: copy, payload: {file: "{{ params.FILE }}"}}]'
    )
    sim.task("copy")
    run = sim.book.flows.start("outer")
    sim.advance("1m")
    (load,) = sim.book.flows.steps(run.id)
    results = sim.book.runs.output(load.id)["results"]
    assert [each["params"] for each in results] == [{"FILE": "a"}, {"FILE": "b"}]
    assert sim.book.runs.get(run.id).status == "succeeded"


def test_a_step_asks_a_person_with_its_values_and_the_flow_waits(simulation: Make) -> None:
    sim = simulation(start="2026-02-07T12:00:00Z")
    sim.flow(
        "name: deploy\nparams: [{VERSION: v1}]\nsteps:\n"
        "  - name: ok\n    action: human.task\n    with: {prompt: 'Deploy ${VERSION}?'}\n"
        "    timeout_sec: 3600\n"
        "  - {name: ship, command: ./ship}\n"
    )
    run = sim.book.flows.start("deploy", {"VERSION": "v2"})
    sim.advance("30m")
    (ok,) = sim.book.flows.steps(run.id)
    assert (ok.state, ok.progress_text) == ("queued", "Deploy v2?")
    assert sim.book.flows.get("deploy").waits == ('step "ok" waits for a person: Deploy v2?',)
    sim.book.flows.approve(run.id, "ok")
    sim.advance("1m")
    assert sim.book.runs.get(run.id).status == "succeeded"
    late = sim.book.flows.start("deploy")
    sim.advance("2h")
    assert sim.book.runs.get(late.id).status == "failed"
    assert (
        "it was not approved or rejected in time" in sim.book.flows.explain(late.id).steps[0].text
    )
