"""The simulation as users meet it: time, durations, failures, outages, kills."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from duebook import Retry, cron, every
from duebook.book import Book
from duebook.errors import Invalid, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from duebook.model.run import Run
    from duebook.testing import Simulation

    Make = Callable[..., Simulation]

NOON = datetime(2026, 2, 7, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def story(sim: Simulation, name: str) -> list[tuple[str, str, str, str]]:
    """(due, origin, status, started-finished) of each run."""

    def clock(moment: datetime | None) -> str:
        return "" if moment is None else f"{moment:%H:%M}"

    return [
        (clock(r.due_at), r.origin, r.status, f"{clock(r.started_at)}-{clock(r.finished_at)}")
        for r in sim.runs(name)
    ]


def entries(sim: Simulation, name: str) -> list[tuple[str, str, int]]:
    return [(f"{e.due_at:%H:%M}", e.reason, e.count) for e in sim.ledger(name)]


def only(runs: list[Run]) -> Run:
    (run,) = runs
    return run


def test_a_run_takes_its_virtual_time_and_later_due_times_find_it_active(simulation: Make) -> None:
    sim = simulation(start="2026-02-07T12:00:00Z")
    sim.task("etl", takes="90m", fails=2)
    sim.book.schedules.create(
        "etl", trigger=cron("0 * * * *"), target="etl", catchup="all", catchup_window="6h"
    )
    sim.advance("3h")
    assert story(sim, "etl") == [
        ("13:00", "schedule", "failed", "13:00-14:30"),
        ("15:00", "schedule", "running", "15:00-"),
    ]
    assert entries(sim, "etl") == [("14:00", "overlap", 1)]
    sim.advance_to("2026-02-08T00:00:00Z")
    assert [run.status for run in sim.runs("etl")] == ["failed", "failed"] + ["succeeded"] * 3 + [
        "running"
    ]


def test_an_outage_of_the_scheduler_is_caught_up(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.task("etl", takes="10m")
    sim.book.schedules.create("etl", trigger=cron("0 * * * *"), target="etl")
    sim.advance("90m")
    sim.scheduler_down()
    sim.advance("3h")
    assert len(sim.runs("etl")) == 1
    sim.scheduler_up()
    sim.advance("1m")
    assert story(sim, "etl")[1:] == [("16:00", "catchup", "running", "16:30-")]
    assert entries(sim, "etl") == [("14:00", "coalesced", 2)]


def test_workers_go_on_while_nobody_plans(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.task("etl", takes="2h")
    sim.book.schedules.create("etl", trigger=cron("0 * * * *"), target="etl")
    sim.advance("70m")
    sim.scheduler_down()
    sim.advance("3h")
    assert story(sim, "etl") == [("13:00", "schedule", "succeeded", "13:00-15:00")]


def test_a_backlog_under_queue_is_worked_off_in_order(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.task("etl", takes="5m")
    sim.book.schedules.create(
        "etl", trigger=cron("0 * * * *"), target="etl", catchup="all", overlap="queue"
    )
    sim.scheduler_down()
    sim.advance("3h30m")
    sim.scheduler_up()
    sim.advance("20m")
    assert story(sim, "etl") == [
        ("13:00", "catchup", "succeeded", "15:30-15:35"),
        ("14:00", "catchup", "succeeded", "15:35-15:40"),
        ("15:00", "catchup", "succeeded", "15:40-15:45"),
    ]
    assert sim.ledger("etl") == []


def test_a_killed_nodes_run_is_taken_over_by_another(simulation: Make) -> None:
    sim = simulation(start=NOON, nodes=3)
    sim.task("etl", takes="30m")
    sim.book.schedules.create("etl", trigger=cron("0 * * * *"), target="etl")
    sim.advance("65m")
    first = only(sim.runs("etl"))
    assert first.node is not None
    sim.kill_node(first.node)
    sim.advance("5m")
    taken = only(sim.runs("etl"))
    assert (taken.status, taken.attempt, taken.losses) == ("running", 2, 1)
    assert taken.node != first.node
    assert taken.started_at is not None
    assert taken.started_at - (NOON + 65 * MINUTE) < 2 * MINUTE
    sim.advance("30m")
    assert only(sim.runs("etl")).status == "succeeded"


def test_nobody_left_means_nothing_happens_until_a_node_starts(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.task("etl", takes="30m")
    sim.book.schedules.create("etl", trigger=cron("0 * * * *"), target="etl")
    sim.advance("65m")
    sim.kill_node(0)
    sim.advance("3h")
    assert only(sim.runs("etl")).status == "running", "nobody was there to notice"
    assert sim.start_node() == "node-1"
    sim.advance("40m")
    assert [run.status for run in sim.runs("etl")] == ["succeeded"]
    assert sim.runs("etl")[0].attempt == 2


def test_a_run_that_costs_too_many_nodes_is_poison(simulation: Make) -> None:
    sim = simulation(start=NOON, nodes=3)
    sim.task("etl", takes="1h")
    sim.book.schedules.create("etl", trigger=cron("0 13 * * *"), target="etl", max_takeovers=1)
    sim.advance("65m")
    for _ in range(2):
        node = only(sim.runs("etl")).node
        assert node is not None
        sim.kill_node(node)
        sim.advance("5m")
    run = only(sim.runs("etl"))
    assert (run.status, run.reason, run.losses) == ("failed", "poison", 2)


def test_failures_are_retried_with_growing_delays(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.task("etl", takes="1m", fails=2, error="ConnectionError: no route")
    retry = Retry(attempts=3, delay="10m", backoff=2, max_delay="1h", jitter=False)
    sim.book.schedules.create("etl", trigger=cron("0 13 * * *"), target="etl", retry=retry)
    sim.advance("65m")
    waiting = only(sim.runs("etl"))
    assert (waiting.status, waiting.attempt, waiting.failures) == ("queued", 1, 1)
    assert waiting.ready_at == NOON + HOUR + 11 * MINUTE
    sim.advance("1h")
    run = only(sim.runs("etl"))
    assert (run.status, run.attempt, run.failures) == ("succeeded", 3, 2)
    assert run.started_at == NOON + HOUR + 32 * MINUTE
    attempts = sim.book.runs.attempts(run.id)
    assert [(a.number, a.outcome, a.error) for a in attempts] == [
        (1, "failed", "ConnectionError: no route"),
        (2, "failed", "ConnectionError: no route"),
    ]


def test_a_run_that_waits_for_its_retry_is_active(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.task("etl", fails=1)
    retry = Retry(attempts=2, delay="90m", backoff=1, max_delay="2h", jitter=False)
    sim.book.schedules.create("etl", trigger=cron("0 * * * *"), target="etl", retry=retry)
    sim.advance("125m")
    assert entries(sim, "etl") == [("14:00", "overlap", 1)]


def test_the_last_failure_is_final(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.task("etl", fails=9)
    sim.book.schedules.create(
        "etl", trigger=cron("0 13 * * *"), target="etl", retry={"attempts": 2, "delay": "1s"}
    )
    sim.advance("2h")
    run = only(sim.runs("etl"))
    assert (run.status, run.attempt, run.failures) == ("failed", 2, 2)
    again = sim.book.runs.retry(run.id)
    assert (again.status, again.attempt) == ("queued", 2)
    sim.task("etl")
    sim.advance("1m")
    assert only(sim.runs("etl")).status == "succeeded"


def test_a_task_that_nobody_knows_waits(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.book.schedules.create("etl", trigger=cron("0 13 * * *"), target="etl")
    sim.advance("2h")
    assert only(sim.runs("etl")).status == "queued"
    sim.task("etl")
    sim.advance("1s")
    assert only(sim.runs("etl")).status == "succeeded"


def test_work_that_nobody_began_in_time_expires(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.book.schedules.create("etl", trigger=cron("0 13 * * *"), target="etl", expire_after="30m")
    sim.advance("2h")
    run = only(sim.runs("etl"))
    assert (run.status, run.reason, run.started_at) == ("cancelled", "expired", None)
    assert run.finished_at is not None
    assert run.finished_at - (NOON + HOUR + 30 * MINUTE) < MINUTE


def test_under_cancel_a_due_time_replaces_the_run(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.task("etl", takes="90m")
    sim.book.schedules.create("etl", trigger=cron("0 * * * *"), target="etl", overlap="cancel")
    sim.advance("2h10m")
    assert story(sim, "etl") == [
        ("13:00", "schedule", "cancelled", "13:00-14:00"),
        ("14:00", "schedule", "running", "14:00-"),
    ]
    assert sim.runs("etl")[0].reason == "superseded"


def test_under_latest_only_the_newest_waits(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.task("etl", takes="150m")
    sim.book.schedules.create("etl", trigger=cron("0 * * * *"), target="etl", overlap="latest")
    sim.advance("4h")
    assert story(sim, "etl") == [
        ("13:00", "schedule", "succeeded", "13:00-15:30"),
        ("15:00", "schedule", "running", "15:30-"),
    ]
    assert entries(sim, "etl") == [("14:00", "superseded", 1)]


def test_a_dependency_is_waited_for(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.task("extract", takes="20m")
    sim.task("load")
    sim.book.schedules.create("extract", trigger=cron("0 * * * *"), target="extract")
    sim.book.schedules.create(
        "load",
        trigger=cron("0 * * * *"),
        target="load",
        depends_on=[{"schedule": "extract", "within": "30m", "wait": "25m"}],
    )
    sim.advance("2h")
    assert story(sim, "load") == [("13:00", "schedule", "succeeded", "13:20-13:20")]
    sim.task("extract", fails=1)
    sim.advance("1h")
    assert entries(sim, "load") == [("14:00", "dependency", 1)] or sim.runs("load")[1:]


def test_a_schedule_completes_after_its_most_runs(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.task("etl", takes="1m")
    sim.book.schedules.create("etl", trigger=every("10m"), target="etl", max_runs=3)
    sim.advance("2h")
    assert len(sim.runs("etl")) == 3
    assert sim.book.schedules.get("etl").status == "completed"


def test_runs_of_a_deleted_schedule_are_still_told(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.task("etl")
    sim.book.schedules.create("etl", trigger=cron("0 * * * *"), target="etl")
    sim.advance("61m")
    sim.book.schedules.delete("etl")
    assert len(sim.runs("etl")) == 1
    assert sim.ledger("etl") == []


def test_a_missing_hour_and_a_repeated_one(simulation: Make) -> None:
    sim = simulation(start="2025-03-09T00:00:00Z")
    sim.task("report")
    trigger = cron("30 2 * * *", tz="America/New_York")
    sim.book.schedules.create("report", trigger=trigger, target="report")
    sim.advance("1d")
    assert only(sim.runs("report")).due_at == datetime(2025, 3, 9, 7, tzinfo=UTC), "03:00 EDT"


def test_commands_are_stood_in_for_by_the_name_of_their_schedule(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.book.schedules.create(
        "dump", trigger=cron("0 * * * *"), target={"command": ["rm", "-rf", "/"]}, timeout="30m"
    )
    sim.advance("61m")
    assert only(sim.runs("dump")).status == "succeeded"
    sim.task("dump", takes="45m")
    sim.advance("2h")
    late = sim.runs("dump")[1]
    assert (late.status, late.reason) == ("failed", "timeout")
    assert late.finished_at == NOON + 2 * HOUR + 30 * MINUTE


def test_the_same_simulation_tells_the_same_story(simulation: Make) -> None:
    def tell() -> list[tuple[str, str, str, str]]:
        sim = simulation(start=NOON, nodes=2)
        sim.task("etl", takes="7m", fails=3)
        sim.book.schedules.create(
            "etl",
            trigger=every("5m"),
            target="etl",
            overlap="queue",
            retry=Retry(attempts=2, delay="1m", jitter=False),
        )
        sim.advance("1h")
        sim.kill_node(0)
        sim.advance("1h")
        return story(sim, "etl")

    assert tell() == tell()


def test_time_does_not_run_backwards(simulation: Make) -> None:
    sim = simulation(start=NOON)
    with pytest.raises(Invalid, match="2026-02-07T11:00:00Z is in the past"):
        sim.advance_to("2026-02-07T11:00:00Z")


def test_a_node_that_does_not_exist_cannot_be_killed(simulation: Make) -> None:
    with pytest.raises(NotFound, match='no node "7"; the nodes are node-0'):
        simulation().kill_node(7)


def test_a_template_without_a_value_fails_its_run_here_too(simulation: Make) -> None:
    sim = simulation(start=NOON)
    sim.book.schedules.create(
        "hook",
        trigger=every("1h"),
        target={"http": "https://example.com/{{ payload.id }}"},
        retry=Retry(attempts=3),
    )
    sim.book.schedules.trigger("hook", payload={"id": 5})
    sim.advance("2h")
    told = [(run.status, run.attempt, run.error) for run in sim.runs("hook")]
    failed = 'http url: "payload.id" is undefined; set a default with default(…)'
    assert told == [("succeeded", 1, None), *[("failed", 1, failed)] * 2]


def test_nodes_run_only_what_is_in_the_namespaces_that_they_serve(simulation: Make) -> None:
    sim = simulation(start=NOON, namespace="staging", nodes=2)
    prod = Book(sim.book.store, "prod")
    for book in (sim.book, prod):
        book.schedules.create("etl", trigger=every("1h"), target="etl", overlap="allow")
    sim.task("etl")
    sim.advance("90m")
    assert [run.status for run in sim.runs("etl")] == ["succeeded"]
    (waits,) = prod.runs.list("etl")
    assert waits.status == "queued", "any node plans it"
    other = sim.start_node(serve="prod")
    sim.advance("1h")
    assert [(run.status, run.node) for run in prod.runs.list("etl")] == [("succeeded", other)] * 2
    assert other not in {run.node for run in sim.runs("etl")}


def test_a_flow_s_steps_and_sub_flows_run_where_their_namespace_is_served(
    simulation: Make,
) -> None:
    sim = simulation(start=NOON, namespace="prod", nodes=1, serve="staging")
    sim.flow("name: child\nsteps:\n  - name: inner\n    command: 'true'\n", "child")
    source = "name: parent\nsteps:\n  - name: outer\n    command: 'true'\n  - call: child\n"
    sim.flow(source, "parent")
    run = sim.book.flows.start("parent")
    sim.advance("1m")
    nobody = 'no live node serves namespace "prod"; start one with --serve prod'
    assert sim.book.flows.get("parent").waits == (nobody,)
    assert nobody in sim.book.flows.explain(run.id).steps[0].text
    node = sim.start_node(serve="prod")
    sim.advance("1m")
    assert sim.book.runs.get(run.id).status == "succeeded"
    assert {step.node for step in sim.book.flows.steps(run.id) if step.flow == "parent"} == {node}
