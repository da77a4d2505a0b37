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
    assert (run.status, run.output) == ("succeeded", {"ROWS": "12"})


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
