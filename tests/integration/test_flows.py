"""Flows with real processes on both stores: the examples, workers that are killed, directories."""

from __future__ import annotations

import itertools
import json
import re
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from duebook.cli.output import run_name
from duebook.errors import NotFound
from tests.support.flow_worlds import ended, log_of, register, steps, write_flow
from tests.support.nodes import LEASE, ROOT, World, open_world
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duebook.model.run import Run

LONGER = 3 * LEASE
"""A lease that no busy machine costs a node."""
SLACK = 20.0
"""Seconds, for a machine that is busy."""
EXAMPLES = ROOT / "examples" / "flows"
HELD = """
steps:
  - name: first
    command: echo first >> "$EVIDENCE"
  - name: held
    command: echo held >> "$EVIDENCE"; while [ ! -e "$GO" ]; do sleep 0.1; done
  - name: last
    command: echo last >> "$EVIDENCE"
"""


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with open_world(tmp_path, url) as opened:
        yield opened


MOSTLY_ON_A_FILE = pytest.mark.parametrize(
    "world", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)], indirect=True
)
"""What a flow does with its steps is the same on both databases, says tests/conformance; and that
nodes are killed at it on PostgreSQL, tests/chaos/test_flows.py."""


def runs_of(world: World, name: str, limit: int = 20) -> list[Run]:
    """None as long as nobody has heard of the flow."""
    try:
        return world.book.flows.runs(name, limit)
    except NotFound:
        return []


@MOSTLY_ON_A_FILE
def test_the_example_etl_loads_its_rows(world: World) -> None:
    text = (EXAMPLES / "etl.yaml").read_text("utf-8")
    assert "/tmp/duebook-etl" in text  # noqa: S108
    own = text.replace("/tmp/duebook-etl", f"{world.folder}/etl")  # noqa: S108
    register(world, write_flow(world, "etl", own))  # others may run this test at the same time
    world.node()
    run = ended(world, world.book.flows.start("etl", {"DAY": "2026-02-07", "rows": 4}))
    assert run.status == "succeeded", run.error
    found = steps(world, run)
    assert json.loads(found["extract"].output)["rows"] == 4
    assert log_of(world, found["tell"]) == ["4 orders of 2026-02-07"]
    assert run.output["LOADED"].splitlines()[0] == "2026-02-07,1"


@MOSTLY_ON_A_FILE
def test_later_steps_get_all_of_a_large_output_or_fail(world: World) -> None:
    text = "steps: [{name: make, command: seq 1 LAST, output: J}, {name: use, command: 'USE'}]"
    for name, last, use in (
        ("short", "20000", 'printf %s "$J" | tail -1'),
        ("large", "60000", 'tail -1 "${J.file}"; rm -r "$(dirname "${J.file}")"'),
        ("named", "60000", 'printf %s "$J" | tail -1'),
        ("cut", "300000", "date"),
    ):
        folder = write_flow(world, name, text.replace("LAST", last).replace("USE", use))
    register(world, folder)
    world.node()
    runs = {name: world.book.flows.start(name) for name in ("short", "large", "named", "cut")}
    found = {name: ended(world, run) for name, run in runs.items()}
    told = {name: run.status for name, run in found.items()}
    assert told == {"short": "succeeded", "large": "succeeded", "named": "failed", "cut": "failed"}
    of = {name: steps(world, run) for name, run in found.items()}
    assert log_of(world, of["short"]["use"]) == ["20000"]
    assert log_of(world, of["large"]["use"]) == ["60000"]
    assert world.book.runs.output(of["large"]["make"].id).endswith("60000")
    assert "use ${J.file}" in (of["named"]["use"].error or "")
    assert "it printed 1,988,895 bytes into J" in (of["cut"]["make"].error or "")


@MOSTLY_ON_A_FILE
@pytest.mark.parametrize(
    ("fail", "status", "handlers"),
    [
        ("no", "partial", ["init", "success", "exit"]),
        ("yes", "failed", ["init", "failure", "exit"]),
    ],
)
def test_the_example_with_every_handler(
    world: World, fail: str, status: str, handlers: list[str]
) -> None:
    register(world, EXAMPLES)
    world.node()
    run = ended(world, world.book.flows.start("handlers", {"fail": fail}))
    found = steps(world, run)
    assert run.status == status
    assert [name for name in found if name.startswith("handler_on.")] == [
        f"handler_on.{event}" for event in handlers
    ]
    assert log_of(world, found["handler_on.exit"]) == [f"it ended as {status}"]
    assert found["optional"].exit_code == 3


@MOSTLY_ON_A_FILE
def test_the_example_with_every_handler_is_cancelled_when_its_condition_does_not_hold(
    world: World,
) -> None:
    register(world, EXAMPLES)
    world.node()
    run = ended(world, world.book.flows.start("handlers", {"fail": "perhaps"}))
    assert (run.status, run.state, run.reason) == ("cancelled", "skipped", "precondition")
    assert "its condition `" in run.why
    assert "was `perhaps`, not like `" in run.why
    assert steps(world, run)["work"].reason == "precondition"


@MOSTLY_ON_A_FILE
def test_the_nested_example_runs_the_flows_of_its_file(world: World) -> None:
    register(world, EXAMPLES)
    world.node()
    run = ended(world, world.book.flows.start("nested", {"greeting": "goodbye"}))
    found = steps(world, run)
    assert run.status == "succeeded", run.error
    assert found["first"].output == {"SAID": "goodbye, world"}
    assert found["second"].output == {"SAID": "goodbye, moon"}


@MOSTLY_ON_A_FILE
def test_a_step_writes_an_event_with_values_of_the_flow_when_it_ends(world: World) -> None:
    text = """
params: {WHO: world}
steps:
  - {name: count, command: echo 3, output: N}
  - name: tell
    event: {topic: greetings, type: greeted, data: {who: "{{ params.WHO }}", times: "${N}"}}
    preconditions: [{condition: "$N", expected: "3"}]
  - {name: never, event: greetings, preconditions: [{condition: "$N", expected: "4"}]}
"""
    register(world, write_flow(world, "tell", text))
    world.node(roles=["scheduler", "worker", "relay"])
    run = ended(world, world.book.flows.start("tell", {"WHO": "{{ moon }}"}))
    assert run.status == "succeeded", run.error
    (event,) = eventually(lambda: world.book.events.list("greetings"))
    assert (event.type, event.key, event.data) == (
        "greeted",
        "tell",
        {"who": "{{ moon }}", "times": "3"},
    )
    assert event.meta["run_id"] == steps(world, run)["tell"].id


@MOSTLY_ON_A_FILE
def test_a_condition_that_cannot_be_judged_fails_its_step_whatever_it_says(world: World) -> None:
    text = """
type: graph
steps:
  - {name: lost, command: "true", working_dir: /no/such/place, preconditions: ["true"]}
  - name: turned
    command: "true"
    working_dir: /no/such/place
    preconditions: [{condition: "false", negate: true}]
  - {name: unmet, command: "true", preconditions: ["false"]}
"""
    register(world, write_flow(world, "judged", text))
    world.node()
    found = steps(world, ended(world, world.book.flows.start("judged")))
    assert {name: (step.status, step.reason) for name, step in found.items()} == {
        "lost": ("failed", "not_started"),
        "turned": ("failed", "not_started"),
        "unmet": ("cancelled", "precondition"),
    }
    told = 'condition "true": cannot enter the directory /no/such/place: No such file or directory'
    assert found["lost"].error == told


@MOSTLY_ON_A_FILE
def test_a_flow_is_stopped_while_a_condition_is_judged(world: World) -> None:
    condition = 'echo asked >> "$EVIDENCE"; while [ ! -e "$GO" ]; do sleep 0.1; done'
    text = f"steps: [{{name: a, command: echo, preconditions: [{json.dumps(condition)}]}}]"
    register(world, write_flow(world, "asking", text))
    world.node()
    run = world.book.flows.start("asking")
    eventually(world.evidence_file.read_text)
    world.book.flows.stop("asking")
    assert ended(world, run).status == "cancelled"
    assert steps(world, run)["a"].reason == "flow_cancelled"


@MOSTLY_ON_A_FILE
def test_the_service_is_stopped_and_started_again(world: World) -> None:
    register(world, EXAMPLES)
    world.node()
    run = world.book.flows.start("service")
    eventually(lambda: "serve" in steps(world, run) and steps(world, run)["serve"].started_at)
    world.book.flows.restart("service")
    first = ended(world, run)
    assert (first.status, first.reason) == ("cancelled", "stopped")
    assert "handler_on.abort" in steps(world, first)
    again = eventually(lambda: [r for r in world.book.flows.runs("service") if r.id != run.id])
    eventually(lambda: "serve" in steps(world, again[0]))
    world.book.flows.stop("service")
    assert ended(world, again[0]).status == "cancelled"


def test_a_worker_that_is_killed_during_a_step_costs_that_step_only(world: World) -> None:
    register(world, write_flow(world, "held", HELD))
    killed = world.node(lease=LONGER)
    run = world.book.flows.start("held")
    eventually(lambda: "held" in world.evidence_file.read_text().split())
    killed.end(signal.SIGKILL)
    world.node(lease=LONGER)
    eventually(lambda: world.evidence_file.read_text().split().count("held") == 2)
    world.go.touch()
    assert ended(world, run).status == "succeeded"
    assert world.evidence_file.read_text().split() == ["first", "held", "held", "last"]
    assert steps(world, run)["held"].losses == 1


@MOSTLY_ON_A_FILE
def test_workers_that_are_killed_between_steps_cost_nothing(world: World) -> None:
    register(world, write_flow(world, "held", HELD))
    world.go.touch()
    run = world.book.flows.start("held")
    for _ in range(3):
        node = world.node(lease=LEASE)
        node.end(signal.SIGKILL)
    world.node(lease=LEASE)
    assert ended(world, run).status == "succeeded"
    words = world.evidence_file.read_text().split()
    assert words[0] == "first"
    assert words[-1] == "last"


@MOSTLY_ON_A_FILE
@pytest.mark.parametrize(
    ("name", "params", "status", "last"),
    [
        ("etl", {}, "succeeded", "tell"),
        pytest.param(
            *("handlers", {"fail": "yes"}, "failed", "handler_on.exit"), marks=pytest.mark.long
        ),
        pytest.param("nested", {}, "succeeded", "second", marks=pytest.mark.long),
    ],
)
def test_an_example_survives_that_its_workers_are_killed_over_and_over(
    world: World, name: str, params: dict[str, str], status: str, last: str
) -> None:
    register(world, EXAMPLES)
    day = {"DAY": world.mark} if name == "etl" else {}  # its file is nobody else's
    run = world.book.flows.start(name, params | day)
    seen = 0
    for _ in range(2):
        node = world.node(lease=LEASE)
        eventually(lambda: far(world, run) > seen or is_over(world, run))  # noqa: B023
        node.end(signal.SIGKILL)
        seen = far(world, run)
    world.node(lease=LEASE)
    assert ended(world, run).status == status
    found = steps(world, run)
    assert found[last].status == "succeeded"
    assert all(step.status not in ("queued", "running") for step in found.values())
    assert problems(world) == []


def far(world: World, run: Run) -> int:
    """How far a run has come: what began, and what ended."""
    found = steps(world, run).values()
    return sum(bool(step.started_at) + bool(step.finished_at) for step in found)


def is_over(world: World, run: Run) -> bool:
    return world.book.runs.get(run.id).status not in ("queued", "running")


def problems(world: World) -> list[str]:
    found = world.book.store.read(lambda tx: tx.checks.check(deep=True))
    return [finding.text for finding in found if finding.problem]


@MOSTLY_ON_A_FILE
def test_the_service_goes_on_elsewhere_when_its_worker_is_killed(world: World) -> None:
    register(world, EXAMPLES)
    killed = world.node(lease=LEASE)
    run = world.book.flows.start("service")
    eventually(lambda: "serve" in steps(world, run) and steps(world, run)["serve"].started_at)
    killed.end(signal.SIGKILL)
    world.node(lease=LEASE)
    eventually(lambda: steps(world, run)["serve"].attempt > 1)
    world.book.flows.stop("service")
    assert ended(world, run).status == "cancelled"
    assert steps(world, run)["handler_on.abort"].status == "succeeded"


@MOSTLY_ON_A_FILE
def test_start_with_wait_tells_of_each_step_and_how_it_ended(world: World) -> None:
    register(world, EXAMPLES)
    world.node()
    told = world.cli("flow", "start", "handlers", "--param", "fail=yes", "--wait")
    assert told.returncode == 5, told.stderr
    assert "work  failed" in told.stdout
    assert told.stdout.splitlines()[-1] == "handlers failed: step work failed"
    shown = world.cli("flow", "show", "handlers").stdout
    line = r"^work +failed +\d+\.\d s +[0-9a-f-]{13,} +optional$"
    assert re.search(line, shown, re.MULTILINE), shown
    assert "\nwork: exit code 1\n" in shown
    told = world.cli("flow", "retry", "handlers", "--wait")
    assert told.returncode == 5, told.stderr
    assert "work  failed" in told.stdout
    assert "optional" not in told.stdout, "that stays as it was"
    former = [run for run in world.book.runs.list(limit=100) if run.parent_run_id and not run.step]
    assert "handlers: work (earlier)" in map(run_name, former)


# ------------------------------------------------------------ scenarios with a directory


def up(world: World, folder: Path) -> None:
    world.up("--flows", str(folder)).wait_ready()


@MOSTLY_ON_A_FILE
def test_a_new_flow_with_a_catchup_window_catches_up_nothing_after_a_restart(world: World) -> None:
    folder = world.folder / "flows"
    folder.mkdir()
    up(world, folder)
    other_half = (datetime.now(UTC).minute + 30) % 60  # of the hour: due in no moment of the test
    text = 'catchup_window: 6h\nsteps: [{name: a, command: "true"}]\n'
    write_flow(world, "fresh", f'schedule: "{other_half} * * * *"\n{text}')
    eventually(lambda: [s.name for s in world.book.schedules.list()] == ["fresh"])
    watermark = world.book.schedules.get("fresh").watermark
    assert watermark is not None
    assert (datetime.now(UTC) - watermark).total_seconds() < 60
    world.nodes[0].end()
    up(world, folder)
    assert runs_of(world, "fresh") == []


@MOSTLY_ON_A_FILE
def test_a_deleted_flow_is_never_started_again(world: World) -> None:
    text = 'schedule: "* * * * * *"\noverlap_policy: all\nsteps: [{name: a, command: "true"}]\n'
    folder = write_flow(world, "gone", text)
    up(world, folder)
    eventually(lambda: runs_of(world, "gone"))
    (folder / "gone.yaml").unlink()
    eventually(lambda: not world.book.flows.list())
    assert list(world.book.schedules.list()) == []
    before = len(runs_of(world, "gone", 1_000))
    eventually(lambda: all(r.status not in ("queued", "running") for r in runs_of(world, "gone")))
    assert len(runs_of(world, "gone", 1_000)) == before


@MOSTLY_ON_A_FILE
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_stop_an_edit_and_a_start_only_what_the_files_say_runs(
    world: World, how: signal.Signals
) -> None:
    text = 'schedule: "* * * * * *"\noverlap_policy: all\nsteps: [{name: a, command: "true"}]\n'
    folder = write_flow(world, "gone", text)
    write_flow(world, "edited", text)
    up(world, folder)
    eventually(lambda: runs_of(world, "gone") and runs_of(world, "edited"))
    world.nodes[0].end(how)
    before = {run.id for name in ("gone", "edited") for run in runs_of(world, name, 1_000)}
    old = world.book.flows.get("edited").digest
    (folder / "gone.yaml").unlink()
    write_flow(world, "edited", text.replace("name: a", "name: b"))
    up(world, folder)

    def fresh(name: str) -> list[Run]:
        return [run for run in runs_of(world, name, 1_000) if run.id not in before]

    eventually(lambda: fresh("edited"))
    performed = {world.book.flows.performed(run.id).digest for run in fresh("edited")}
    assert performed == {world.book.flows.get("edited").digest}
    assert world.book.flows.get("edited").digest != old
    assert fresh("gone") == []


@MOSTLY_ON_A_FILE
def test_a_changed_schedule_takes_effect(world: World) -> None:
    never = 'schedule: "0 0 29 2 *"\nsteps: [{name: a, command: "true"}]\n'
    folder = write_flow(world, "moved", never)
    up(world, folder)
    eventually(lambda: list(world.book.schedules.list()))
    assert runs_of(world, "moved") == []
    write_flow(world, "moved", never.replace("0 0 29 2 *", "* * * * * *"))
    eventually(lambda: runs_of(world, "moved"))


@MOSTLY_ON_A_FILE
def test_a_flow_with_a_catchup_window_catches_up_what_an_outage_missed(world: World) -> None:
    text = (
        'schedule: "*/2 * * * * *"\ncatchup_window: 6h\noverlap_policy: all\n'
        'steps: [{name: a, command: "true"}]\n'
    )
    folder = write_flow(world, "missed", text)
    up(world, folder)
    eventually(lambda: runs_of(world, "missed"))
    world.nodes[0].end()
    stopped = datetime.now(UTC)
    eventually(lambda: (datetime.now(UTC) - stopped).total_seconds() > 5)
    up(world, folder)

    def due_times() -> list[datetime]:
        return sorted(run.due_at for run in runs_of(world, "missed", 1_000) if run.due_at)

    eventually(lambda: any(at > stopped for at in due_times()))
    found = due_times()
    gaps = {(late - early).total_seconds() for early, late in itertools.pairwise(found)}
    assert gaps == {2.0}, "none is missing and none is there twice"


@MOSTLY_ON_A_FILE
def test_a_directory_whose_node_is_killed_is_looked_after_by_another_within_a_lease(
    world: World,
) -> None:
    folder = write_flow(world, "first", 'steps: [{name: a, command: "true"}]')
    killed = world.node(lease=LONGER, flows=str(folder))
    eventually(world.book.flows.list)
    heir = world.node(flows=str(folder))
    eventually(lambda: "another node reads flows" in heir.log)
    killed.end(signal.SIGKILL)
    eventually(lambda: "this node reads flows" in heir.log, LONGER + SLACK)
    write_flow(world, "second", 'steps: [{name: a, command: "true"}]')
    eventually(lambda: len(world.book.flows.list()) == 2)


def test_nodes_that_race_over_a_directory_in_a_storm_agree_and_start_nothing_twice(
    world: World,
) -> None:
    text = 'schedule: "* * * * * *"\noverlap_policy: all\nsteps: [{name: a, command: "true"}]\n'
    folder = write_flow(world, "steady", text)
    nodes = [world.up("--flows", str(folder)) for _ in range(2)]
    for node in nodes:
        node.wait_ready()
    for number in range(60):
        write_flow(world, f"new-{number}", text.replace("* * * * * *", f"{number} 3 * * *"))
        if number % 3 == 1:
            (folder / f"new-{number}.yaml").rename(folder / f"moved-{number}.yaml")
        if number % 3 == 2:
            (folder / f"new-{number}.yaml").unlink()
    nodes[0].end()  # perhaps the one that looks after it
    write_flow(world, "late", text.replace("* * * * * *", "0 4 * * *"))
    wanted = {path.stem for path in folder.iterdir()}
    eventually(lambda: {flow.name for flow in world.book.flows.list()} == wanted)
    assert {schedule.name for schedule in world.book.schedules.list(limit=100)} == wanted
    eventually(lambda: len(runs_of(world, "steady")) > 2)
    due = [run.due_at for run in runs_of(world, "steady", 1_000)]
    assert len(due) == len(set(due))
    for node in nodes:
        assert "Traceback" not in node.log, node.log
    assert problems(world) == []
