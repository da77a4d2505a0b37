"""`duebook next` and `duebook describe` as a person or a script meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result

import duebook
from duebook.cli import main
from duebook.triggers import cron, load_trigger


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def instants(*arguments: str) -> list[str]:
    result = run("next", *arguments, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, list)
    return found


def test_next_prints_a_json_list_of_utc_instants() -> None:
    arguments = ("30 2 * * *", "--tz", "America/New_York", "--after", "2025-03-08T00:00:00Z")
    assert instants(*arguments, "--count", "3") == [
        "2025-03-08T07:30:00Z",
        "2025-03-09T07:00:00Z",
        "2025-03-10T06:30:00Z",
    ]


def test_next_shows_wall_time_utc_distance_and_what_a_gap_moved() -> None:
    arguments = ("30 2 * * *", "--tz", "America/New_York", "--after", "2025-03-08T00:00:00Z")
    result = run("next", *arguments, "--count", "3")
    assert result.stdout == (
        "At 02:30 every day (America/New_York)\n"
        "  Sat 2025-03-08 02:30 -05:00  2025-03-08 07:30Z  in 7 h 30 min\n"
        "  Sun 2025-03-09 03:00 -04:00  2025-03-09 07:00Z  in 1 d 7 h     moved from 02:30\n"
        "  Mon 2025-03-10 02:30 -04:00  2025-03-10 06:30Z  in 2 d 6 h\n"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--every", "15m", "--anchor", "2026-01-01T00:05:00Z"], "2026-03-28T12:05:00Z"),
        (["--every", "1h30m"], "2026-03-28T13:30:00Z"),
        (["--daily", "07:00, 17:30", "--tz", "Europe/Brussels"], "2026-03-28T16:30:00Z"),
        (["--weekly", "SUN 02:30", "--tz", "Europe/Brussels"], "2026-03-29T01:00:00Z"),
        (
            ["--weekly", "SUN 02:30", "--tz", "Europe/Brussels", "--gap", "skip"],
            "2026-04-05T00:30:00Z",
        ),
        (["--at", "2026-04-01T10:00:00+02:00"], "2026-04-01T08:00:00Z"),
        (["--rrule", "FREQ=MONTHLY;BYDAY=-1FR", "--dtstart", "2026-01-01"], "2026-04-24T00:00:00Z"),
        (["H H * * *", "--key", "backup"], "2026-03-28T15:06:00Z"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_next_takes_every_kind_of_trigger(arguments: list[str], expected: str) -> None:
    assert instants(*arguments, "--after", "2026-03-28T12:00:00Z")[0] == expected


def test_next_counts_from_now() -> None:
    (due,) = instants("* * * * * *", "-n", "1")
    distance = datetime.fromisoformat(due) - datetime.now(UTC)
    assert abs(distance.total_seconds()) < 60


def test_next_says_when_nothing_is_due() -> None:
    arguments = ("next", "--at", "2020-01-01T00:00:00Z", "--after", "2026-01-01T00:00:00Z")
    result = run(*arguments)
    assert result.exit_code == 0
    assert "no due times after 2026-01-01T00:00:00Z" in result.stdout
    assert json.loads(run(*arguments, "--json").stdout) == []


def test_describe_says_it_in_words_with_warnings() -> None:
    result = run("describe", "*/7 9 * * MON-FRI", "--tz", "Europe/Brussels")
    assert result.exit_code == 0
    assert result.stdout == (
        "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 from 09:00 to 09:56, Monday to\n"
        "  Friday (Europe/Brussels)\n"
        "warning: */7 is uneven, as 7 does not divide 60: minute 56 is followed by 0,\n"
        "  only 4 later\n"
    )


def test_describe_as_json_carries_the_trigger() -> None:
    form = json.loads(run("describe", "30 2 * * *", "--tz", "Europe/Brussels", "--json").stdout)
    assert load_trigger(form["trigger"]) == cron("30 2 * * *", tz="Europe/Brussels")
    assert {warning["code"] for warning in form["warnings"]} == {"dst_gap", "dst_fold"}
    assert form["description"] == "At 02:30 every day (Europe/Brussels)"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["next", "60 * * * *"], 'error: minute 60 is out of range 0-59 in "60 * * * *"\n'),
        (["next", "0 0 * * *", "--tz", "Europe/Brusels"], "did you mean Europe/Brussels?"),
        (["next", "0 0 * * *", "--after", "yesterday"], "--after"),
        (["next", "0 0 * * *", "--after", "2026-02-30"], "that does not exist"),
        (["next", "backup"], "duebook preview backup"),
        (["describe", "backup"], "duebook show backup"),
        (["next"], "give exactly one of EXPR, --every"),
        (["next", "0 0 * * *", "--every", "5m"], "found --every and EXPR"),
        (["next", "0", "9", "*", "*", "*"], "put a cron expression in quotes"),
        (["next", "0 9 * * *", "\x1b]0;pwn\x07"], "?]0;pwn?"),
        (["next", "--every", "1.5s\r\nerror: fake"], "1.5s??error: fake"),
        (["next", "0 0 * * *", "--count", "0"], "--count"),
        (["next", "0 0 * * *", "--anchor", "2026-01-01T00:00:00Z"], "anchor"),
        (["next", "0 0 * * *", "--gap", "later"], "--gap"),
        (["describe"], "give exactly one of EXPR, --every"),
        (["describe", "0 0 30 2 *"], "never fires"),
        (["nonsense"], "there is no command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_on_stderr_and_exit_code_2(
    arguments: list[str], complaint: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert complaint in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr.rstrip("\n").isprintable()


@pytest.mark.parametrize("command", ["next", "describe"])
def test_help_has_examples_and_fits_80_columns(command: str) -> None:
    text = run(command, "--help").stdout
    assert "Examples:\n" in text
    assert f"duebook {command} " in text
    assert max(map(len, text.splitlines())) <= 80


def test_every_documented_example_in_the_help_works() -> None:
    import shlex

    for command in ("next", "describe"):
        for line in run(command, "--help").stdout.splitlines():
            if line.strip().startswith("duebook "):
                assert run(*shlex.split(line)[1:]).exit_code == 0, line


def test_the_command_is_installed_and_knows_its_version() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "duebook", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"duebook {duebook.__version__}\n"
