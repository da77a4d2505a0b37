"""Registered flows on the command line, on a file and through a server."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duebook.book import Book
from duebook.engine.advancer import Advancer
from duebook.model.flow import Revision
from duebook.model.flow_target import FlowTarget
from duebook.model.run import LogLine
from duebook.store.flow_values import BrokenFile
from duebook.store.sqlite import SqliteStore
from tests.support.builders import begin, claim, get_run
from tests.support.flow_builders import (
    BEGIN,
    GREET,
    GUARDED,
    PARTLY,
    PROBLEM,
    UNMET,
    leave_out,
    put_flow,
    settle,
    start,
    work,
)

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True


@pytest.fixture
def greet(cli: Cli) -> Cli:
    cli.ok("flow", "ls")
    store = SqliteStore(cli.path)
    put_flow(store, GREET, "greet")
    store.transact(
        lambda tx: tx.flows.save_problems(
            "default", ["flows"], {"flows/half.yaml": BrokenFile([PROBLEM])}
        )
    )
    store.close()
    return cli


def test_books_without_flows_say_how_to_get_some(cli: Cli) -> None:
    assert "duebook up --flows DIR" in cli.ok("flow", "ls")


def test_flows_are_listed_and_problems_of_files_told(greet: Cli) -> None:
    result = greet("flow", "ls")
    assert "greet" in result.stdout
    told = "flows/half.yaml:3:5: unknown key `retires`; did you mean `retries`?"
    assert told in result.stderr
    listed, _ = greet.json("flow", "ls")
    assert (listed["name"], listed["problem"]) == ("greet", None)
    assert "flows/greet.yaml" in greet.ok("flow", "show", "greet")
    assert greet.json("flow", "show", "greet") == listed


def test_what_is_wrong_with_the_file_of_a_flow_is_shown_at_its_line(greet: Cli) -> None:
    store = SqliteStore(greet.path)
    wrong = PROBLEM | {"file": "flows/greet.yaml", "text": "    retires: 3"}
    files = {"flows/greet.yaml": BrokenFile([wrong])}
    store.transact(lambda tx: tx.flows.save_problems("default", ["flows"], files))
    store.close()
    shown = greet.ok("flow", "show", "greet")
    assert "the last valid version stays in use" in shown
    lines = shown.splitlines()
    place = lines.index("flows/greet.yaml:3:5: unknown key `retires`; did you mean `retries`?")
    assert lines[place + 1 : place + 3] == ["  3 |     retires: 3", "    |     ^"]


def test_stops_and_restarts_are_shown(greet: Cli) -> None:
    store = SqliteStore(greet.path)
    times = '{stop: "0 22 * * *", restart: "0 4 * * 1"}'
    put_flow(store, f"schedule: {times}\nsteps: [a]\n", "service")
    store.close()
    shown = greet.ok("flow", "show", "service")
    assert re.search(r"^stops +At 22:00 every day \(UTC\)$", shown, re.MULTILINE)
    assert re.search(r"^restarts +At 04:00, on Monday", shown, re.MULTILINE)
    assert greet.json("flow", "show", "service")["stops"] == "At 22:00 every day (UTC)"


def test_the_times_of_a_flow_are_previewed_and_listed_with_their_kind(greet: Cli) -> None:
    store = SqliteStore(greet.path)
    put_flow(store, "steps: [a]\n", "service")
    times: dict[str, Any] = {"stop": {"cron": "0 22 * * *"}, "restart": {"cron": "0 4 * * 1"}}
    Book(store).schedules.create("service", trigger=[], target={"flow": "service"}, **times)
    store.close()
    kinds = [each["kind"] for each in greet.json("preview", "service", "--count", "9")]
    assert set(kinds) == {"stop", "restart"}
    shown = greet.ok("preview", "service", "--count", "9")
    assert "stops: At 22:00 every day (UTC)" in shown
    assert re.search(r" restart$", shown, re.MULTILINE)
    assert re.search(r"^stops +At 22:00 every day", greet.ok("show", "service"), re.MULTILINE)
    greet.ok("rm", "service")


def leave(greet: Cli) -> None:
    """Stop the node that reads the directory."""
    store = SqliteStore(greet.path)
    store.transact(lambda tx: tx.directories.release_directories("reader"))
    store.close()


def test_a_flow_whose_directory_no_node_reads_says_so(greet: Cli) -> None:
    leave(greet)
    told = 'no node has read directory "flows" since'
    assert told in greet.ok("flow", "show", "greet")
    started = greet("flow", "start", "greet")
    assert (started.exit_code, f"note: {told}" in started.stderr) == (0, True)
    assert f"note flows: {told}" in " ".join(greet("status").stdout.split())


def test_flows_of_a_directory_that_is_no_more_are_forgotten(greet: Cli) -> None:
    assert greet("flow", "forget", "flows").exit_code == 1, "a node attends it"
    leave(greet)
    assert greet.ok("flow", "forget", "flows") == "deleted greet\n"
    assert greet.json("flow", "ls") == []
    assert greet("flow", "forget", "flows").exit_code == 3


def test_words_behind_two_dashes_are_params_by_place_or_by_name(greet: Cli) -> None:
    store = SqliteStore(greet.path)
    put_flow(store, "params: one two\nsteps: [ls]\n", "copy")
    store.close()
    greet.ok("flow", "start", "copy", "--", "a b", "--c")
    greet.ok("flow", "start", "greet", "--", "WHO=moon")
    refused = greet("flow", "start", "greet", "--", "moon")
    assert (refused.exit_code, 'flow "greet" has no param "1"' in refused.stderr) == (2, True)


def test_flows_are_listed_by_their_labels_and_tags(greet: Cli) -> None:
    store = SqliteStore(greet.path)
    put_flow(store, "tags: [nightly, team=data]\nsteps: [ls]\n", "tagged")
    store.close()
    for wanted in (["nightly"], ["team"], ["team=data", "nightly"]):
        flags = [word for label in wanted for word in ("--label", label)]
        assert [view["name"] for view in greet.json("flow", "ls", *flags)] == ["tagged"]
    refused = greet("flow", "ls", "--label", "team=web")
    assert (refused.exit_code, "no flow has the label team=web" in refused.stderr) == (3, True)


def test_a_flow_is_started_stopped_and_retried(greet: Cli) -> None:
    run = greet.json("flow", "start", "greet", "--param", "WHO=moon")
    assert (run["flow"], run["status"]) == ("greet", "queued")
    assert f"run {run['id']} cancelled" in greet.ok("flow", "stop", "greet")
    assert f"run {run['id']} of flow greet continues" in greet.ok(
        "flow", "retry", "greet", "--step", "think"
    )
    assert greet("flow", "retry", run["id"]).exit_code == 1
    assert "flow greet restarts" in greet.ok("flow", "restart", "greet")


def test_a_retry_tells_of_a_file_that_changed_since(greet: Cli) -> None:
    greet.ok("flow", "start", "greet")
    greet.ok("flow", "stop", "greet")
    store = SqliteStore(greet.path)
    put_flow(store, GREET + "\n# mended\n", "greet")
    store.close()
    told = greet.ok("flow", "retry", "greet", "--step", "think")
    assert "the file has changed since this run started; the run uses the old version" in told
    assert "to use the new version: duebook flow start greet\n" in told


def test_a_retry_does_not_tell_of_a_file_that_says_the_same_under_another_name(greet: Cli) -> None:
    greet.ok("flow", "start", "greet")
    greet.ok("flow", "stop", "greet")
    store = SqliteStore(greet.path)
    put_flow(store, GREET + "\n# mended\n", "greet")
    digest = put_flow(store, GREET, "greet")
    moved = Revision("greet", "flows/hello.yaml", digest, GREET)
    store.transact(lambda tx: tx.flows.save_flows("default", [moved]))
    store.close()
    assert "has changed" not in greet.ok("flow", "retry", "greet", "--step", "think")


def test_mistakes_have_their_exit_codes(greet: Cli) -> None:
    assert greet("flow", "start", "ghost").exit_code == 3
    assert greet("flow", "show", "ghost").exit_code == 3
    assert greet("flow", "retry", "ghost").exit_code == 3
    assert greet("flow", "start", "greet", "--param", "WHAT=1").exit_code == 2
    assert greet("flow", "stop", "greet").exit_code == 1
    greet.ok("flow", "restart", "greet")
    assert (
        greet.ok("flow", "stop", "greet")
        == "flow greet has no active runs; it will not be restarted\n"
    )


TALK = """
name: talk
steps:
  - {name: hear, command: "true"}
  - {name: answer, call: deep}
---
name: deep
steps:
  - {name: think, command: "true"}
"""


@pytest.fixture
def talk(cli: Cli) -> tuple[Cli, str]:
    """A flow without a schedule that has run, and its run."""
    cli.ok("flow", "ls")
    store = SqliteStore(cli.path)
    put_flow(store, TALK, "talk")
    put_flow(store, TALK, "talk.deep")
    begin(store)
    run_id, target = start(store, "talk"), FlowTarget("talk.deep")
    Advancer(store).step()
    for number in range(3):
        (claimed,) = claim(store)
        if claimed.run.step == "answer":
            assert store.transact(lambda tx, c=claimed: tx.flow_runs.call_flow(c.token, target))  # type: ignore[misc]
        else:
            at = BEGIN + timedelta(seconds=number)
            line = LogLine(at, "stdout", f"{claimed.run.step} says hi")
            store.transact(lambda tx, c=claimed, n=line: tx.attempts.append_log(c.token, 1, [n]))  # type: ignore[misc]
            settle(store, claimed.token)
        Advancer(store).step()
    assert get_run(store, run_id).status == "succeeded"
    store.close()
    return cli, run_id


def test_what_the_steps_of_a_flow_printed_is_found_by_its_name(talk: tuple[Cli, str]) -> None:
    cli, run_id = talk
    assert cli.ok("logs", "talk").splitlines() == [
        "hear         | hear says hi",
        "answer/think | think says hi",
    ]
    assert cli.ok("logs", run_id, "--follow") == cli.ok("logs", "talk")
    assert cli.ok("logs", "talk", "--step", "hear") == "hear says hi\n"
    assert cli.ok("logs", "talk", "--step", "answer") == "think | think says hi\n"
    assert cli.ok("logs", "talk", "--step", "answer/think") == "think says hi\n"
    first, second = cli.json("logs", "talk")
    assert (first["step"], second["step"]) == ("hear", "answer/think")
    assert cli.ok("logs", second["run_id"]) == "think says hi\n"


def test_a_step_that_is_none_is_named_with_what_was_meant(talk: tuple[Cli, str]) -> None:
    cli, _ = talk
    result = cli("logs", "talk", "--step", "heer")
    assert result.exit_code == 3
    assert 'flow "talk" has no step "heer"; did you mean `hear`?' in result.stderr
    (hear,) = [step for step in cli.json("logs", "talk") if step["step"] == "hear"]
    result = cli("logs", hear["run_id"], "--step", "hear")
    assert result.exit_code == 2
    assert "--step is for runs of flows" in result.stderr


def test_a_flow_is_shown_with_the_runs_of_its_steps_and_how_to_read_them(
    talk: tuple[Cli, str],
) -> None:
    cli, run_id = talk
    shown = cli.ok("flow", "show", "talk")
    hear = next(s["run_id"] for s in cli.json("logs", "talk") if s["step"] == "hear")
    row = next(line for line in shown.splitlines() if line.startswith("hear "))
    short = next(word for word in row.split() if hear.startswith(word))
    assert cli.ok("logs", short) == "hear says hi\n"
    assert "to see their logs: duebook logs talk" in shown
    assert cli.json("runs", "talk")[0]["id"] == run_id
    assert len(cli.json("runs", "talk")) == 1
    assert "flow  " in cli.ok("show", run_id)


def test_a_flow_without_a_schedule_is_found_by_what_is_said_about_runs(cli: Cli) -> None:
    cli.ok("flow", "ls")
    store = SqliteStore(cli.path)
    put_flow(store, TALK, "talk")
    store.close()
    assert cli.ok("runs", "talk") == "no runs yet\n"
    assert cli("logs", "talk").stderr.strip().endswith('flow "talk" has no runs yet')
    run = cli.json("flow", "start", "talk")
    assert f"run {run['id']} (queued) has printed nothing" in cli("logs", "talk").stderr
    assert (
        '"hear" (not started) has printed nothing' in cli("logs", "talk", "--step", "hear").stderr
    )
    assert f"run {run['id']}" in cli.ok("cancel", "talk")
    assert 'flow "talk" has no active run' in cli("cancel", "talk").stderr
    assert '"ghost" is not a schedule, a flow or a task' in cli("runs", "ghost").stderr
    assert "duebook flow show talk" in cli("show", "talk").stderr


@pytest.mark.usefixtures("terminal")
def test_steps_with_long_names_and_reasons_are_shown_in_eighty_columns(cli: Cli) -> None:
    cli.ok("flow", "ls")
    first, second = "fetch " * 6 + "1", "fetch " * 6 + "2"
    store = SqliteStore(cli.path)
    steps = f"[{{name: {first}, command: a}}, {{name: {second}, command: b}}, c]"
    put_flow(store, f"steps: {steps}\n", "long")
    store.close()
    cli.ok("flow", "start", "long")
    cli.ok("flow", "stop", "long")
    for told in (cli.ok("flow", "show", "long"), cli.ok("explain", "long")):
        assert max(map(len, told.splitlines())) <= 80, told
    assert f"  {second}\n" in cli.ok("explain", "long")


def test_what_the_steps_of_a_flow_wait_for_is_explained(talk: tuple[Cli, str]) -> None:
    cli, run_id = talk
    told = cli.ok("explain", "talk")
    first, steps = told.split("\n  hear ")
    assert "succeeded" in first
    assert [line.split()[0] for line in f"hear {steps}".splitlines()[:-1]] == ["hear", "answer"]
    cli.ok("flow", "start", "talk")
    lines = cli.ok("explain", "talk").splitlines()
    assert "queued since" in lines[0]
    assert lines[-3:] == [
        "  hear    waits for the run to start",
        "  answer  waits for the run to start",
        "times in UTC",
    ]
    there = cli.ok("explain", "talk", "--tz", "Asia/Tokyo")
    assert there.endswith("times in Asia/Tokyo\n")
    assert there.splitlines()[0] != lines[0]
    assert "Nowhere" in cli("explain", "talk", "--tz", "Nowhere").stderr
    assert "duebook explain talk" in cli.ok("flow", "show", "talk")
    hear = next(s["run_id"] for s in cli.json("logs", run_id) if s["step"] == "hear")
    found = cli.json("explain", hear)
    assert (found["run_id"], found["verdict"]) == (run_id, "ran")
    assert [step["step"] for step in found["steps"]] == ["hear"]


def test_waiting_says_what_for_and_exits_with_6_when_the_flow_ends_partial(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("flow", "ls")
    steps = '{name: tidy, command: "true", continue_on: failed}, {name: load, command: "true"}'
    store = SqliteStore(cli.path)
    put_flow(store, f"steps: [{steps}]", "etl")
    looks = iter((lambda: Advancer(store).step(), lambda: begin(store), None))

    def pause(_seconds: float) -> None:
        look = next(looks)
        look() if look is not None else work(store, tidy="failed")

    monkeypatch.setattr("duebook.cli.flow_runs.CHECK_EVERY", -1.0)
    monkeypatch.setattr("duebook.cli.flow_runs.time.sleep", pause)
    result = cli("flow", "start", "etl", "--wait")
    store.close()
    assert result.exit_code == 6
    lines = result.stdout.splitlines()
    assert "  etl  waits: no scheduler is running" in lines
    assert "  tidy  waits: no worker is running" in lines
    assert lines[-1] == "etl partial: step tidy failed, and the flow continued"


def test_waiting_says_that_a_person_has_to_answer(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("flow", "ls")
    store = SqliteStore(cli.path)
    put_flow(store, "steps: [{name: ok, action: human.task, with: {prompt: Ship?}}]", "ship")

    def ask() -> None:
        begin(store, "worker")
        Advancer(store).step()
        (claimed,) = claim(store, "worker")
        store.transact(lambda tx: tx.attempts.ask_person(claimed.token, "Ship?", None))

    looks = iter((ask, lambda: None, lambda: cli.ok("flow", "approve", "ship", "ok")))

    def pause(_seconds: float) -> None:
        next(looks, lambda: Advancer(store).step())()

    monkeypatch.setattr("duebook.cli.flow_runs.CHECK_EVERY", -1.0)
    monkeypatch.setattr("duebook.cli.flow_runs.time.sleep", pause)
    told = " ".join(cli("flow", "start", "ship", "--wait").stdout.split())
    store.close()
    assert "ok waits: Ship?; to answer: duebook flow approve" in told


def test_waiting_says_until_when_a_delay_lasts(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.ok("flow", "ls")
    store = SqliteStore(cli.path)
    put_flow(store, "delay_sec: 600\nsteps: [{name: a, command: x}]", "late")
    looks = iter((lambda: Advancer(store).step(), lambda: None))

    def pause(_seconds: float) -> None:
        if (look := next(looks, None)) is not None:
            look()
            return
        cli.ok("flow", "stop", "late")
        Advancer(store).step()

    monkeypatch.setattr("duebook.cli.flow_runs.CHECK_EVERY", -1.0)
    monkeypatch.setattr("duebook.cli.flow_runs.time.sleep", pause)
    told = " ".join(cli("flow", "start", "late", "--wait").stdout.split())
    store.close()
    assert "a waits until" in told
    assert "because of delay_sec" in told


def test_a_step_that_waits_for_a_person_is_approved_or_rejected(cli: Cli) -> None:
    cli.ok("flow", "ls")
    store = SqliteStore(cli.path)
    put_flow(store, "steps: [{name: ok, action: human.task, with: {prompt: Ship?}}]", "ship")
    for command, status in (("approve", "succeeded"), ("reject", "failed")):
        cli.ok("flow", "start", "ship")
        begin(store, command)
        Advancer(store).step()
        (claimed,) = claim(store, command)
        token = claimed.token
        store.transact(lambda tx, token=token: tx.attempts.ask_person(token, "Ship?", None))  # type: ignore[misc]
        assert "Ship?; to answer: duebook flow approve" in " ".join(
            cli.ok("explain", "ship").split()
        )
        done = cli.json("flow", command, "ship", "ok", "--comment", "because")
        assert (done["status"], done["output"]["comment"]) == (status, "because")
        assert cli("flow", command, "ship", "ok").exit_code == 1
    store.close()


def test_broken_files_are_listed_and_status_names_them(greet: Cli) -> None:
    rows = [line.split() for line in greet.ok("flow", "ls").splitlines()]
    assert [row[0] for row in rows] == ["FLOW", "greet", "flows/half.yaml"]
    assert "unknown key `retires`" in " ".join(rows[2])
    _, half = greet.json("flow", "ls")
    assert (half["name"], half["place"]) == (None, "flows/half.yaml")
    assert half["problem"].startswith("flows/half.yaml:3:5: unknown key `retires`")
    told = " ".join(greet("status").stdout.split())
    assert "note flows: a flow file is broken, so it defines no flow: flows/half.yaml:3:5" in told


def test_a_broken_file_has_no_labels_to_be_found_by(greet: Cli) -> None:
    store = SqliteStore(greet.path)
    put_flow(store, GREET.replace("steps:", "tags: [team=data]\nsteps:", 1), "greet")
    store.close()
    assert "half.yaml" not in greet("flow", "ls", "--label", "team=data").stdout
    assert [flow["name"] for flow in greet.json("flow", "ls", "--label", "team=data")] == ["greet"]


def test_a_flow_that_never_ran_cannot_be_explained(greet: Cli) -> None:
    result = greet("explain", "greet")
    assert result.exit_code == 3
    assert 'flow "greet" has no runs yet; start it: duebook flow start greet' in result.stderr
    assert greet("explain", "ghost").exit_code == 3


def test_what_was_not_to_run_is_skipped_with_the_reason(cli: Cli) -> None:
    cli.ok("flow", "ls")
    store = SqliteStore(cli.path)
    put_flow(store, PARTLY, "partly")
    put_flow(store, GUARDED, "guarded")
    run = cli.json("flow", "start", "partly")
    guarded = cli.json("flow", "start", "guarded")
    begin(store)
    leave_out(store)
    store.close()
    shown = cli.ok("flow", "show", "partly")
    assert re.search(r"^work +skipped ", shown, re.MULTILINE), shown
    assert re.search(r"^after +skipped +work$", shown, re.MULTILINE)
    assert f"work: {UNMET}\nafter: an earlier step was skipped\n" in shown
    told = cli.ok("show", guarded["id"])
    assert re.search(r"^status +skipped, attempt 1$", told, re.MULTILINE), told
    assert UNMET in told
    assert f"run {run['id']} (succeeded) has printed nothing" in cli("logs", run["id"]).stderr
    assert "skipped" in cli.ok("flow", "ls")
    assert (found := cli.json("show", guarded["id"]))["state"] == "skipped"
    assert found["status"] == "cancelled"
    listed = cli.json("runs")
    assert {each["state"] for each in listed if each["parent_run_id"] == run["id"]} == {"skipped"}
    assert "cancelled" not in cli.ok("runs")


def test_the_output_of_a_step_is_printed_however_large(greet: Cli) -> None:
    store = SqliteStore(greet.path)
    put_flow(store, "name: wide\nsteps: [{name: make, command: x, output: J}]", "wide")
    run_id = start(store, "wide")
    begin(store)
    Advancer(store).step()
    (step,) = claim(store)
    settle(store, step.token, output=f'"{"x" * 300_000}"')
    store.close()
    assert greet.ok("output", run_id, "--step", "make") == "x" * 300_000 + "\n"
    assert "300,002 bytes; to print it: duebook output" in greet.ok("show", step.run.id)
    told = greet("output", run_id, "--step", "nope")
    assert told.exit_code == 3
    assert 'has no step "nope"; its steps are make' in told.stderr
