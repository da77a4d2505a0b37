"""The commands about schedules and runs, without a node: what they print, change and reject."""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from click.testing import CliRunner

from duebook.book import Book
from duebook.cli import main
from duebook.engine.session import new_session
from duebook.machine import this_process
from duebook.model.serving import ALL
from duebook.store.sqlite import SqliteStore
from tests.support.builders import begin, claim, overlap
from tests.support.cli import Cli

ANYWHERE = True

HELLO = ("add", "hello", "--every", "1h", "--", "echo", "hello")


def test_an_empty_book_teaches_the_first_command(cli: Cli) -> None:
    assert "duebook add hello" in cli.ok("ls")
    assert cli.json("ls") == []
    assert cli.ok("runs") == "no runs yet\n"


def test_a_schedule_is_added_listed_and_shown(cli: Cli) -> None:
    assert cli.ok(*HELLO).startswith("added hello: Every hour")
    (listed,) = cli.json("ls")
    assert listed["name"] == "hello"
    assert listed["status"] == "active"
    assert listed["target"] == {"command": ["echo", "hello"]}
    assert listed["trigger"]["every"] == "1h"
    assert "anchor" in listed["trigger"], "its phase is fixed when it is created"
    shown = cli.ok("show", "hello")
    assert "runs      echo hello" in shown
    assert cli.json("show", listed["id"]) == listed, "by id as well"


@pytest.mark.parametrize(
    "trigger",
    [
        ("--cron", "30 2 * * *", "--tz", "Europe/Brussels"),
        ("--cron", "H 2 * * *"),
        ("--every", "1d", "--tz", "Europe/Brussels"),
        ("--daily", "07:00,17:30"),
        ("--weekly", "MON 09:00"),
        ("--at", "2999-01-01T00:00:00Z"),
        ("--rrule", "FREQ=MONTHLY;BYDAY=-1FR"),
    ],
)
def test_every_kind_of_trigger_can_be_added(cli: Cli, trigger: tuple[str, ...]) -> None:
    cli.ok("add", "job", *trigger, "--", "true")
    assert cli.json("show", "job")["next_due_at"] is not None


def test_options_after_the_dashes_belong_to_the_command(cli: Cli) -> None:
    cli.ok("add", "job", "--every", "1h", "--", "ls", "--json", "-la", "--", "x y")
    assert cli.json("show", "job")["target"]["command"] == ["ls", "--json", "-la", "--", "x y"]


def test_target_and_policies_are_kept(cli: Cli) -> None:
    cli.ok(
        *("add", "job", "--every", "1h", "--shell", "echo $A", "--env", "A=b=c", "--cwd", "/"),
        *("--payload", '{"n": 1}', "--catchup", "skip", "--overlap", "allow", "--timeout", "5m"),
    )
    job = cli.json("show", "job")
    assert job["target"] == {"shell": "echo $A", "env": {"A": "***"}, "cwd": "/"}
    assert job["payload"] == {"n": 1}
    assert (job["catchup"], job["overlap"], job["timeout"]) == ("skip", "allow", "5m")


def test_a_name_is_free_again_after_rm(cli: Cli) -> None:
    cli.ok(*HELLO)
    assert cli.ok("rm", "hello", "--yes") == "deleted hello\n"
    assert cli("show", "hello").exit_code == 3
    cli.ok(*HELLO)


def test_pause_and_resume(cli: Cli) -> None:
    cli.ok(*HELLO)
    assert "duebook resume hello" in cli.ok("pause", "hello", "--reason", "holidays")
    paused = cli.json("show", "hello")
    assert (paused["status"], paused["pause_reason"]) == ("paused", "holidays")
    assert "holidays" in cli.ok("show", "hello")
    assert cli("pause", "hello").exit_code == 1
    assert cli.ok("resume", "hello").startswith("resumed hello; next due ")
    assert cli.json("show", "hello")["status"] == "active"
    assert cli("resume", "hello").exit_code == 1


def test_skip_next_moves_on_to_the_one_after(cli: Cli) -> None:
    cli.ok(*HELLO)
    before = cli.json("show", "hello")["next_due_at"]
    cli.ok("skip-next", "hello")
    after = cli.json("show", "hello")["next_due_at"]
    assert after > before


def test_what_was_said_about_a_due_time_is_taken_back(cli: Cli) -> None:
    cli.ok(*HELLO)
    due = cli.json("show", "hello")["next_due_at"]
    cli.ok("skip-next", "hello")
    assert cli.ok("restore", "hello", due).startswith("restored; next due ")
    cli.ok("reschedule", "hello", "2999-01-01T00:00:00Z")
    assert cli.json("restore", "hello", due)["next_due_at"] == due
    refused = cli("restore", "hello", due)
    assert (refused.exit_code, "is not skipped or moved" in refused.stderr) == (1, True)
    assert cli("restore", "hello", "soon").exit_code == 2


def test_reschedule_moves_only_the_next_due_time(cli: Cli) -> None:
    cli.ok(*HELLO)
    cli.ok("reschedule", "hello", "2999-01-01T00:00:00Z")
    moved = cli.json("show", "hello")
    assert moved["next_due_at"] < "2999", "the one after the moved one comes first"
    assert cli("reschedule", "hello", "tomorrow").exit_code == 2


def test_rescheduling_to_the_past_fires_at_once(cli: Cli) -> None:
    cli.ok(*HELLO)
    cli.ok("reschedule", "hello", "2020-01-01T00:00:00Z")
    (run,) = cli.json("runs", "hello")
    assert (run["origin"], run["status"]) == ("schedule", "queued")


def test_run_queues_a_manual_run_that_can_be_cancelled(cli: Cli) -> None:
    cli.ok(*HELLO)
    run = cli.json("run", "hello", "--payload", '{"a": 1}')
    assert (run["origin"], run["status"], run["payload"]) == ("manual", "queued", {"a": 1})
    assert run["due_at"] is None
    assert cli.ok("cancel", run["id"]) == f"run {run['id']} cancelled\n"
    assert cli.json("runs")[0]["status"] == "cancelled"
    again = cli("cancel", run["id"])
    assert again.exit_code == 1
    assert "has already finished: it is cancelled" in again.stderr


def test_actions_print_the_schedule_as_json(cli: Cli) -> None:
    cli.ok(*HELLO)
    for arguments, status in (
        (("pause", "hello"), "paused"),
        (("resume", "hello"), "active"),
        (("skip-next", "hello"), "active"),
        (("reschedule", "hello", "2999-01-01T00:00:00Z"), "active"),
        (("rm", "hello"), "active"),
    ):
        assert cli.json(*arguments)["status"] == status, arguments


def test_adding_a_program_that_does_not_exist_is_allowed_with_a_note(cli: Cli) -> None:
    result = cli("add", "job", "--every", "1h", "--", "no-such-program")
    assert result.exit_code == 0
    assert 'there is no program "no-such-program"' in result.stderr


@pytest.mark.on_file
def test_tick_plans_what_is_due_and_leaves(cli: Cli) -> None:
    cli.ok(*HELLO)
    told = cli.ok("tick", "--limit", "50").splitlines()
    assert told[0] == "0 fired, 0 skipped, 0 deferred, 0 remaining"
    assert told[1].startswith("next due ")


def schedules_of_long_ago(cli: Cli) -> None:
    """Four schedules, due once each; the third has a manual run."""
    with closing(SqliteStore(cli.path, lambda: datetime(2020, 1, 1, tzinfo=UTC))) as store:
        schedules = Book(store).schedules
        for day, catchup in enumerate(("one", "skip", "one", "one"), start=2):
            at = f"2020-01-{day:02}T00:00:00Z"
            policies: dict[str, Any] = {"catchup": catchup, "overlap": "queue"}
            schedules.create(f"day-{day}", trigger={"at": at}, target="t", **policies)
        schedules.trigger("day-4")


@pytest.mark.on_file
def test_tick_counts_what_it_decided_and_what_remains(cli: Cli) -> None:
    schedules_of_long_ago(cli)
    first = cli.json("tick", "--limit", "3")
    assert datetime.fromisoformat(first.pop("next_due_at")) <= datetime.now(UTC)
    assert first == {"fired": 1, "skipped": 1, "deferred": 1, "remaining": 1}
    second = cli.json("tick", "--limit", "3")
    assert datetime.fromisoformat(second.pop("next_due_at")) > datetime.now(UTC)
    assert second == {"fired": 1, "skipped": 0, "deferred": 0, "remaining": 0}


@pytest.mark.on_file
def test_a_verbose_tick_logs_each_decision(cli: Cli, caplog: pytest.LogCaptureFixture) -> None:
    schedules_of_long_ago(cli)
    caplog.set_level(logging.NOTSET, "duebook")  # puts the level back afterwards
    cli.json("tick", "--verbose")
    (line,) = [text for text in caplog.messages if text.startswith("planned ")]
    fired, skipped, waiting, _ = line.removeprefix("planned ").split("; ")
    assert fired == "day-2 2020-01-02T00:00:00Z: fire (catchup)"
    assert skipped == "day-3 2020-01-03T00:00:00Z: skip (missed)"
    assert waiting.startswith("day-4 2020-01-04T00:00:00Z: wait until ")


@pytest.mark.on_file
def test_tick_takes_over_what_a_process_of_this_machine_left_that_is_gone(cli: Cli) -> None:
    this = this_process()
    assert this is not None
    cli.ok(*HELLO)
    run_id = cli.json("run", "hello")["id"]
    worker = new_session("worker", queues=("default",), namespaces=ALL)
    another = replace(worker, process_started=this.started - 1)
    with closing(SqliteStore(cli.path)) as store:
        store.transact(lambda tx: tx.nodes.begin_session(another, timedelta(hours=1)))
        assert store.transact(lambda tx: tx.claims.claim(another.id, "default", 1))
    assert cli.json("runs")[0]["status"] == "running"
    cli.ok("tick")
    again = cli.json("show", run_id)
    assert (again["status"], again["losses"]) == ("queued", 1)


@pytest.mark.on_file
def test_a_run_is_shown_with_attempts_that_went_on(cli: Cli) -> None:
    cli.ok(*HELLO)
    run_id = cli.json("run", "hello")["id"]
    with closing(SqliteStore(cli.path)) as store:
        begin(store)
        (claimed,) = claim(store)
        overlap(store, claimed, timedelta(seconds=1))
    told = " ".join(cli.ok("show", run_id).split())
    assert "attempt 1 on host-of-node-1 continued until" in told
    assert "beside attempt 2, because its node was paused" in told
    assert cli.json("show", run_id)["attempts"][0]["went_on_until"]


@pytest.mark.on_file
def test_the_books_can_be_checked(cli: Cli) -> None:
    cli.ok(*HELLO)
    assert cli.ok("db", "check") == "the books balance\n"
    assert "1 of 1" in cli.ok("db", "status")
    assert cli.ok("db", "migrate") == "the database has schema 1\n"


@pytest.mark.on_file
def test_db_status_makes_no_file(cli: Cli) -> None:
    cli = Cli(cli.path.with_name("other.db"))
    assert "there is no database at" in cli.ok("db", "status")
    assert not cli.path.exists()


@pytest.mark.parametrize(
    ("arguments", "exit_code", "complaint"),
    [
        (("show", "nobody"), 3, 'schedule "nobody" does not exist'),
        (("rm", "nobody"), 3, 'schedule "nobody" does not exist'),
        (("logs", "nobody"), 3, '"nobody" is not a schedule, a flow or a task'),
        (("cancel", "no-such-run"), 3, "task with enqueued runs, and not the id of a run"),
        (("add", "Bad Name", "--every", "1h", "--", "true"), 2, 'invalid name "Bad Name"'),
        (
            ("add", "0190a0b0-0000-7000-8000-000000000000", "--every", "1h", "--", "true"),
            2,
            "and not an id",
        ),
        (("add", "job", "--cron", "0 0 30 2 *", "--", "true"), 2, "never fires"),
        (("add", "job", "--cron", "0 0 * * *", "--tz", "Mars", "--", "true"), 2, "not a time zone"),
        (("add", "job", "--at", "2020-01-01T00:00:00Z", "--", "true"), 2, "is in the past"),
        (("add", "job", "--", "true"), 2, "give exactly one of --cron, --every"),
        (("add", "job", "--every", "1h", "--timout", "5s", "--", "true"), 2, "No such option"),
        (("add", "job", "--rrule", "FREQ=DAILY;UNTIL=20200101", "--", "true"), 2, "no due time"),
        (("show", "\udcff"), 2, "unpaired surrogates"),
        (("add", "job", "--every", "1h"), 2, "give exactly one of: a COMMAND"),
        (
            ("add", "job", "--every", "1h", "--shell", "x", "--", "true"),
            2,
            "give exactly one of: a COMMAND",
        ),
        (("add", "job", "--every", "1h", "--env", "novalue", "--", "true"), 2, "NAME=VALUE"),
        (("add", "job", "--every", "1h", "--payload", "[1]", "--", "true"), 2, "JSON object"),
        (("add", "job", "--every", "1h", "--payload", "{", "--", "true"), 2, "is not valid JSON"),
        (
            ("add", "job", "--every", "1h", "--payload", "[" * 50_000, "--", "true"),
            2,
            "is not valid JSON",
        ),
        (("add", "job", "--every", "1h", "--timeout", "0s", "--", "true"), 2, "timeout"),
        (("add", "job", "--every", "1h", "--overlap", "maybe", "--", "true"), 2, "--overlap"),
        (("--namespace", "No Way", "ls"), 2, "namespace"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_a_mistake_is_one_line_and_its_exit_code(
    cli: Cli, arguments: tuple[str, ...], exit_code: int, complaint: str
) -> None:
    refuse(cli, arguments, exit_code, complaint)


@pytest.mark.on_file
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--payload", '{"a": "\\ud800"}', "--", "true"), "payload is not valid JSON"),
        (("--payload", '{"a": "\\u0000"}', "--", "true"), "payload contains a NUL"),
    ],
)
def test_a_payload_that_no_database_keeps_is_refused(
    cli: Cli, arguments: tuple[str, ...], complaint: str
) -> None:
    refuse(cli, ("add", "job", "--every", "1h", *arguments), 2, complaint)


@pytest.mark.on_file
def test_books_that_nobody_else_could_open_are_refused(cli: Cli) -> None:
    refuse(cli, ("--database", ":memory:", "ls"), 2, "cannot be shared with other processes")


def refuse(cli: Cli, arguments: tuple[str, ...], exit_code: int, complaint: str) -> None:
    result = cli(*arguments)
    assert result.exit_code == exit_code, result.output
    assert complaint in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_taken_name_is_a_conflict(cli: Cli) -> None:
    cli.ok(*HELLO)
    result = cli(*HELLO)
    assert result.exit_code == 1
    assert result.stderr == 'error: schedule "hello" already exists; choose another name\n'


def test_namespaces_do_not_see_each_other(cli: Cli) -> None:
    cli.ok("--namespace", "a", *HELLO)
    cli.ok("--namespace", "b", *HELLO)
    assert cli.json("ls") == []
    (mine,) = cli.json("--namespace", "a", "ls")
    assert cli("--namespace", "b", "show", mine["id"]).exit_code == 3


@pytest.mark.on_file
def test_a_file_that_is_no_database_is_left_alone(cli: Cli) -> None:
    cli = Cli(cli.path.with_name("notes"))
    cli.path.write_text("these are my notes, not a database\n" * 100)
    result = cli("ls")
    assert result.exit_code == 2
    assert "is not an SQLite database" in result.stderr
    assert cli.path.read_text().startswith("these are my notes")


@pytest.mark.on_file
def test_somebody_elses_database_is_left_alone(cli: Cli) -> None:
    cli = Cli(cli.path.with_name("theirs.db"))
    connection = sqlite3.connect(cli.path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.commit()
    connection.close()
    before = cli.path.read_bytes()
    for command in (("ls",), ("db", "status"), ("db", "check"), HELLO):
        result = cli(*command)
        assert result.exit_code == 2
        assert "but not a Duebook database" in result.stderr
    assert cli.path.read_bytes() == before


def test_the_books_are_for_their_owner_only(cli: Cli) -> None:
    cli.ok(*HELLO)
    assert cli.path.parent.stat().st_mode & 0o777 == 0o700
    for file in cli.path.parent.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file


def test_the_bare_command_shows_its_help() -> None:
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 0
    assert result.stdout.startswith("Usage: ")


def test_nothing_is_due_while_paused(cli: Cli) -> None:
    cli.ok(*HELLO)
    cli.ok("pause", "hello")
    assert "next due  -" in cli.ok("show", "hello")


@pytest.mark.on_file
def test_a_schema_from_the_future_is_refused(cli: Cli) -> None:
    cli.ok("ls")
    connection = sqlite3.connect(cli.path)
    connection.execute("INSERT INTO migrations VALUES (99, 'later', 'x', 0)")
    connection.commit()
    connection.close()
    result = cli("ls")
    assert result.exit_code == 1
    assert "has schema 99, but this version supports only 1; upgrade Duebook" in result.stderr


def test_another_database_system_is_refused_without_its_password() -> None:
    result = CliRunner().invoke(main, ["--database", "mysql://me:secret@host/db", "ls"])
    assert result.exit_code == 2
    assert "secret" not in result.stderr


@pytest.mark.usefixtures("terminal")
def test_tables_fit_80_columns_of_a_terminal(cli: Cli) -> None:
    cli.ok("add", "a" * 40, "--cron", "0,5,10,15,20,25,30,35,40 1-20 * * *", "--", "true")
    cli.ok("add", "b" * 40, "--cron", "0,5,10,15,20,25,30 1 1 1,7 *", "--", "true")  # another day
    cli.ok("run", "a" * 40)
    for arguments in (("ls",), ("runs",), ("show", "a" * 40)):
        lines = cli.ok(*arguments).splitlines()
        assert max(map(len, lines)) <= 80, arguments


def test_the_beginning_of_an_id_stands_for_the_run(cli: Cli) -> None:
    cli.ok(*HELLO)
    run_id = cli.json("run", "hello")["id"]
    shown = cli.ok("runs").splitlines()[1].split()[0]
    assert run_id.startswith(shown)
    assert len(shown) < len(run_id)
    assert f"run           {run_id}" in cli.ok("show", shown)
    assert cli.json("show", shown)["attempts"] == []
    assert cli.ok("cancel", shown) == f"run {run_id} cancelled\n"


def test_a_beginning_that_several_runs_share_is_refused(cli: Cli) -> None:
    cli.ok(*HELLO)
    for _ in range(3):
        cli.ok("run", "hello")
    beginnings = Counter(run["id"][:8] for run in cli.json("runs"))
    shared, _ = beginnings.most_common(1)[0]  # lasts a minute, which may end between two runs
    result = cli("cancel", shared)
    assert result.exit_code == 2
    assert "matches several runs; give more of the id" in result.stderr


def test_a_name_stands_for_its_only_active_run(cli: Cli) -> None:
    cli.ok(*HELLO)
    assert "has no active run" in cli("cancel", "hello").stderr
    run_id = cli.json("run", "hello")["id"]
    assert run_id in cli.ok("cancel", "hello")
    for _ in range(2):
        cli.ok("run", "hello")
    assert "has 2 active runs; name one" in cli("cancel", "hello").stderr


def test_what_was_said_about_due_times_to_come_is_shown(cli: Cli) -> None:
    cli.ok(*HELLO)
    cli.ok("skip-next", "hello")
    cli.ok("reschedule", "hello", "90m")
    shown = cli.ok("show", "hello")
    assert "skipped: " in shown
    assert "moved: " in shown


@pytest.mark.parametrize("moment", ["now", "10m", "2999-01-01T00:00:00Z"])
def test_a_due_time_is_moved_to_an_instant_or_by_a_length(cli: Cli, moment: str) -> None:
    cli.ok(*HELLO)
    assert cli.ok("reschedule", "hello", moment).startswith("moved to ")


def test_payload_keys_that_would_share_a_variable_are_refused(cli: Cli) -> None:
    both = '{"user-id": 1, "user_id": 2}'
    result = cli("add", "job", "--every", "1h", "--payload", both, "--", "true")
    assert result.exit_code == 2
    assert "would both become DUEBOOK_PAYLOAD_USER_ID; rename one" in result.stderr
    cli.ok(*HELLO)
    assert cli("run", "hello", "--payload", both).exit_code == 2


def test_names_of_schedules_are_completed(cli: Cli) -> None:
    cli.ok(*HELLO)
    environment = {
        "_DUEBOOK_COMPLETE": "bash_complete",
        "COMP_WORDS": "duebook pause he",
        "COMP_CWORD": "2",
        "DUEBOOK_DATABASE_URL": str(cli.path),
    }
    result = CliRunner().invoke(main, [], env=environment, prog_name="duebook")
    assert result.stdout == "plain,hello\n"


def test_hostile_text_cannot_steer_the_terminal(cli: Cli) -> None:
    cli.ok("add", "job", "--every", "1h", "--description", "\x1b[31mred\x07", "--", "echo", "\x1b")
    assert "\x1b" not in cli.ok("show", "job")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(cli: Cli, shell: str) -> None:
    assert "_DUEBOOK_COMPLETE" in cli.ok("completion", shell)


def test_every_command_has_help(cli: Cli) -> None:
    overview = cli.ok("--help")
    for command in main.list_commands(click.Context(main)):
        assert f"  {command}" in overview
        text = cli.ok(command, "--help")
        assert max(map(len, text.splitlines())) <= 80, command


@pytest.mark.on_file
def test_an_update_that_widens_catchup_names_the_backfill(cli: Cli) -> None:
    now = datetime.now(UTC)
    with closing(SqliteStore(cli.path, lambda: now - timedelta(minutes=330))) as store:
        trigger = {"every": "1h"}
        Book(store).schedules.create("job", trigger=trigger, target="t", catchup="skip")
    cli.ok("tick")
    wider = ("update", "job", "--catchup", "all", "--catchup-window", "12h")
    dry = cli(*wider, "--dry-run")
    assert "duebook backfill job --from " in dry.stderr
    assert cli.json(*wider, "--dry-run")["notes"][0]["code"] == "missed"
    told = cli(*wider).stderr
    words = told[told.index("duebook backfill") :].split()[1:]
    assert len(cli.json(*words, "--yes")) == 5
    assert "notes" not in cli.json("show", "job")
