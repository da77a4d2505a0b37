"""The list commands, and those that act on many schedules."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.cli import Cli

ANYWHERE = True


@pytest.fixture
def team(cli: Cli, tmp_path: Path) -> Cli:
    """Five schedules of two teams, from a file."""
    forms = [
        {
            "name": f"job-{number}",
            "cron": f"{number} * * * *",
            "target": {"command": ["true"]},
            "labels": {"team": "data" if number % 2 else "sales"},
            "enabled": number != 4,
        }
        for number in range(5)
    ]
    path = tmp_path / "schedules.json"
    path.write_text(json.dumps(forms))
    assert cli.ok("add", "--file", str(path)) == "added 5 schedules\n"
    return cli


def names(cli: Cli, *options: str) -> list[str]:
    return [form["name"] for form in cli.json("ls", *options)]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), [0, 1, 2, 3, 4]),
        (("--label", "team=data"), [1, 3]),
        (("--label", "team:sales", "--status", "active"), [0, 2]),
        (("--text", "job-3"), [3]),
        (("--text", "job-*", "--sort", "-name"), [4, 3, 2, 1, 0]),
        (("--status", "paused"), [4]),
        (("--target", "command", "--no-problem", "--sort", "created_at"), [0, 1, 2, 3, 4]),
        (("--problem",), []),
        (("--due-before", "2h"), [0, 1, 2, 3]),
        (("--due-before", "2000-01-01T00:00:00Z"), []),
    ],
)
def test_schedules_are_found_by_options(
    team: Cli, options: tuple[str, ...], found: list[int]
) -> None:
    assert sorted(names(team, *options)) == [f"job-{number}" for number in sorted(found)]


def test_a_list_goes_on_where_it_ended(team: Cli) -> None:
    seen: list[str] = []
    cursor: list[str] = []
    while True:
        result = team("ls", "--limit", "2", "--json", *cursor)
        seen += [form["name"] for form in json.loads(result.stdout)]
        more = re.search(r"--cursor (\S+)", result.stderr)
        if more is None:
            break
        cursor = ["--cursor", more[1]]
    assert seen == [f"job-{number}" for number in range(5)]
    assert team.ok("ls", "--text", "nothing") == "no matching schedules\n"


@pytest.mark.parametrize(
    "options",
    [
        ("ls", "--cursor", "x"),
        ("ls", "--label", "team"),
        ("ls", "--text", "a b*"),
        ("ls", "--due-before", "soon"),
        ("ls", "--sort", "id"),
        ("runs", "--status", "odd"),
        ("runs", "--since", "soon"),
        ("runs", "--cursor", "W10"),
        ("pause",),
        ("pause", "job-1", "--label", "team=data"),
        ("pause", "job-1", "--dry-run"),
        ("rm", "--dry-run"),
        ("add",),
        ("add", "x", "--file", "/dev/null"),
        ("add", "--file", "/dev/null"),
    ],
)
def test_what_cannot_be_meant_is_refused(team: Cli, options: tuple[str, ...]) -> None:
    result = team(*options)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


def test_runs_are_found_by_options(team: Cli) -> None:
    team.ok("run", "job-1")
    team.ok("run", "job-2")
    team.ok("cancel", "job-2")
    assert [run["schedule"] for run in team.json("runs", "--status", "cancelled")] == ["job-2"]
    assert [
        run["schedule"] for run in team.json("runs", "--origin", "manual", "--since", "1h")
    ] == [
        "job-2",
        "job-1",
    ]
    assert team.json("runs", "--queue", "other") == []
    assert team.json("runs", "job-1", "--until", "1h") == []
    assert team.ok("runs", "--origin", "backfill") == "no matching runs\n"


def test_many_are_paused_resumed_skipped_and_deleted(team: Cli) -> None:
    data = ("--label", "team=data")
    assert team.ok("pause", *data, "--dry-run") == "would pause 2 schedules: job-1, job-3\n"
    assert names(team, "--status", "paused") == ["job-4"]
    assert team.ok("pause", *data, "--yes", "--reason", "a move") == (
        "paused 2 schedules: job-1, job-3\n"
    )
    assert team.json("show", "job-1")["pause_reason"] == "a move"
    assert team.json("resume", "--text", "*", "--yes") == {
        "action": "resume",
        "count": 3,
        "names": ["job-1", "job-3", "job-4"],
        "dry_run": False,
    }
    due = team.json("show", "job-0")["next_due_at"]
    team.ok("skip-next", "--text", "job-0", "-y")
    assert team.json("show", "job-0")["next_due_at"] > due
    assert team.json("rm", *data, "--dry-run")["count"] == 2
    team.ok("rm", *data, "-y")
    assert names(team) == ["job-0", "job-2", "job-4"]
    assert team.ok("rm", *data) == "would delete 0 schedules\n"


def test_nothing_is_done_to_many_unless_somebody_agrees(team: Cli) -> None:
    result = team("rm", "--text", "*")
    assert result.exit_code == 2
    assert "about to delete 5 schedules: job-0, job-1" in result.stderr
    assert "--yes" in result.stderr
    assert len(names(team)) == 5


def test_all_that_is_wrong_in_a_file_is_told(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "schedules.json"
    path.write_text('{"schedules": [{"name": "a", "cron": "x", "target": "t"}, {"name": "B"}]}')
    result = cli("add", "--file", str(path))
    assert result.exit_code == 2
    assert "schedules[0]: " in result.stderr
    assert "schedules[1]: invalid name" in result.stderr
    assert cli.json("ls") == []


def test_without_a_node_there_is_none(cli: Cli) -> None:
    cli.ok(*("add", "hello", "--every", "1h", "--", "true"))
    assert cli.json("nodes") == []
    assert "duebook up" in cli.ok("nodes")


def test_a_label_is_paused_until_a_time(team: Cli) -> None:
    told = team.ok("pause", "--label", "team=sales", "--until", "2h", "--yes")
    assert told.startswith("paused ")
    paused = {form["name"]: form["paused_until"] for form in team.json("ls", "--status", "paused")}
    assert [name for name, until in paused.items() if until] == ["job-0", "job-2"]
    result = team("pause", "--text", "*", "--until", "2001-01-01T00:00Z", "--dry-run")
    assert (result.exit_code, "is in the past" in result.stderr) == (2, True)


@pytest.fixture
def exported(cli: Cli, tmp_path: Path) -> Path:
    """A file with what `ls --json` prints of schedules of several kinds and states."""
    cli.ok("add", "hourly", "--every", "1h", "--label", "team=x", "--retry", "3", "--", "echo", "a")
    cli.ok("add", "digest", "--cron", "0 3 * * *", "--tz", "Europe/Brussels", "--task", "digest")
    cli.ok("add", "hook", "--daily", "07:00", "--http", "https://example.com/x")
    cli.ok("add", "later", "--every", "1h", "--depends-on", "hourly:1h", "--", "true")
    cli.ok("pause", "digest", "--reason", "holiday", "--until", "2h")
    path = tmp_path / "exported.json"
    path.write_text(cli.ok("ls", "--json"))
    return path


STATE = {"id", "created_at", "created_by", "updated_at", "watermark", "version", "next_due_at"}


def test_what_ls_prints_as_json_can_be_added_elsewhere(cli: Cli, exported: Path) -> None:
    result = cli("--namespace", "copy", "add", "--file", str(exported))
    assert result.stdout == "added 4 schedules\n"
    assert 'note: "digest" stays paused until you resume it' in result.stderr
    copies = {form["name"]: form for form in cli.json("--namespace", "copy", "ls")}
    for form in json.loads(exported.read_text()):
        copy = copies[form["name"]]
        paused = {"paused_at", "paused_until", "pause_reason", "namespace", "problem"}
        ignored = STATE | paused
        assert {key: value for key, value in copy.items() if key not in ignored} == {
            key: value for key, value in form.items() if key not in ignored
        }
        assert copy["version"] == 1


def test_one_schedule_and_a_page_of_the_api_can_be_added_as_well(
    cli: Cli, exported: Path, tmp_path: Path
) -> None:
    one = tmp_path / "one.json"
    one.write_text(cli.ok("show", "hourly", "--json"))
    assert cli.ok("--namespace", "one", "add", "--file", str(one)) == "added 1 schedule\n"
    one.write_text(json.dumps({"items": json.loads(exported.read_text()), "next_cursor": None}))
    assert cli.ok("--namespace", "page", "add", "--file", str(one)) == "added 4 schedules\n"


def test_completed_schedules_are_left_out(cli: Cli, exported: Path) -> None:
    forms = json.loads(exported.read_text())
    forms[0] |= {"status": "completed", "enabled": False}
    exported.write_text(json.dumps(forms))
    result = cli("--namespace", "copy", "add", "--file", str(exported))
    assert result.stdout == "added 3 schedules\n"
    assert f"1 completed schedule not added: {forms[0]['name']}" in result.stderr


def test_a_hidden_value_is_not_taken_for_a_value(cli: Cli, tmp_path: Path) -> None:
    cli.ok("add", "job", "--every", "1h", "--env", "KEY=secret", "--", "true")
    path = tmp_path / "hidden.json"
    path.write_text(cli.ok("ls", "--json"))
    result = cli("--namespace", "copy", "add", "--file", str(path))
    assert result.exit_code == 2
    assert (
        'schedules[0]: target env "KEY" is ***, a placeholder for a hidden value; give the real '
        "value" in result.stderr
    )


def test_of_many_mistakes_the_first_are_told_each_on_its_line(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    wrong = {"name": "a", "cron": "@daily", "target": "t", "overlapp": "skip", "colour": "red"}
    path.write_text(json.dumps([wrong | {"name": f"job-{number}"} for number in range(20)]))
    result = cli("add", "--file", str(path))
    assert result.exit_code == 2
    first, *others = result.stderr.splitlines()
    assert first.endswith(
        "schedules[0]: overlapp is not a field of a definition; did you mean overlap?"
    )
    assert others[0] == "       schedules[0]: colour is not a field of a definition"
    assert len(others) == 5
    assert others[-1] == "       and 35 more problems"
    path.write_text(json.dumps([{"name": "a", "cron": "@daily", "target": "t", "colour": "red"}]))
    told = cli("add", "--file", str(path)).stderr
    assert "colour is not a field of a definition; use one of trigger, target" in told
    form = {"name": "a", "trigger": {"daily": "06:00"}, "target": "t", "tz": "Europe/Brussels"}
    path.write_text(json.dumps([form]))
    told = cli("add", "--file", str(path)).stderr
    assert "tz is not a field of a definition; it belongs to the trigger" in told


def test_a_file_that_is_not_a_list_is_refused(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "text.json"
    for text, told in (("3", "is not a list of schedules"), ("[", "is not valid JSON")):
        path.write_text(text)
        result = cli("add", "--file", str(path))
        assert (result.exit_code, told in result.stderr) == (2, True)
