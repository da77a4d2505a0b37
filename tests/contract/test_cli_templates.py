"""Schedule templates on the command line: saved, shown, used, removed; secrets stay hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.cli import GIVEN, HOLIDAYS

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True

SECRET = "s3cret-t0ken"  # noqa: S105
NIGHTLY = ("template", "save", "nightly", "--cron", "H 2 * * *", "--tz", "Europe/Brussels")


def test_templates_are_saved_listed_shown_and_removed(cli: Cli) -> None:
    assert cli.ok("template", "ls").startswith("no templates yet; save one: duebook template save")
    said = cli.ok(*NIGHTLY, "--retry", "3", "--timeout", "1h", "--", "pg_dump", "all")
    assert said == "saved nightly: trigger, target, timeout, retry\n"
    cli.ok("template", "save", "hourly", "--cron", "@hourly", "--description", "on the hour")
    lines = cli.ok("template", "ls").splitlines()
    assert [line.split()[0] for line in lines] == ["TEMPLATE", "hourly", "nightly"]
    assert "on the hour" in lines[1]
    shown = cli.ok("template", "show", "nightly")
    assert "cron H 2 * * *, tz Europe/Brussels" in shown
    assert "pg_dump all" in shown
    assert "timeout 1h, retry 3 attempts" in shown
    assert cli.ok("template", "rm", "nightly") == "deleted nightly\n"
    assert [template["name"] for template in cli.json("template", "ls")] == ["hourly"]


def test_every_command_prints_the_whole_template_as_json(cli: Cli) -> None:
    saved = cli.json(*NIGHTLY, "--overlap", "skip")
    assert saved["name"] == "nightly"
    assert saved["namespace"] == "default"
    assert saved["created_at"] == saved["updated_at"]
    assert saved["created_by"] == saved["updated_by"]
    assert saved["defaults"] == {
        "overlap": "skip",
        "trigger": {"cron": "H 2 * * *", "tz": "Europe/Brussels"},
    }
    assert cli.json("template", "show", "nightly") == saved
    assert cli.json("template", "ls") == [saved]
    assert cli.json("template", "rm", "nightly") == saved
    assert cli.json("template", "ls") == []


@pytest.mark.parametrize("policy", GIVEN)
def test_every_policy_comes_from_a_template(cli: Cli, policy: str) -> None:
    options, value = GIVEN[policy]
    if policy == "calendar":
        cli.ok(*HOLIDAYS)
    saved = cli.json("template", "save", "t", "--every", "1h", "--shell", "true", *options)
    assert saved["defaults"][policy] == value
    assert policy in cli.ok("template", "show", "t")
    assert cli.json("add", "job", "--template", "t")[policy] == value


def test_a_schedule_is_added_from_a_template_alone(cli: Cli) -> None:
    cli.ok("template", "save", "ping", "--every", "10s", "--", "true")
    assert cli.ok("add", "job", "--template", "ping").startswith("added job: Every 10 seconds")
    assert cli.json("show", "job")["target"] == {"command": ["true"]}


def test_what_the_command_line_gives_overrides_the_template(cli: Cli) -> None:
    cli.ok(*NIGHTLY, "--label", "team=data", "--retry", "3", "--retry-delay", "1s", "--", "true")
    added = cli.json(
        *("add", "job", "--template", "nightly", "--daily", "07:00", "--retry", "2"),
        *("--label", "tier=1", "--task", "digest"),
    )
    assert added["trigger"] == {"daily": ["07:00"]}
    assert added["target"] == {"task": "digest"}
    assert (added["labels"], added["retry"]) == ({"tier": "1"}, {"attempts": 2})


def test_h_hashes_the_name_of_the_schedule(cli: Cli) -> None:
    cli.ok(*NIGHTLY, "--", "true")
    for name in ("orders", "customers"):
        added = cli.json("add", name, "--template", "nightly")
        plain = cli.json(
            *("add", f"{name}-2", "--cron", "H 2 * * *", "--tz", "Europe/Brussels"),
            *("--key", name, "--task", "digest"),
        )
        assert (added["trigger"], added["next_due_at"]) == (plain["trigger"], plain["next_due_at"])


def test_a_program_that_is_not_here_is_noted_also_when_the_template_names_it(cli: Cli) -> None:
    cli.ok("template", "save", "t", "--every", "1h", "--", "no-such-program")
    result = cli("add", "job", "--template", "t")
    assert 'note: there is no program "no-such-program"' in result.stderr


def test_a_secret_is_shown_nowhere_and_sent_nevertheless(cli: Cli) -> None:
    hook = ("--http", "https://example.com/hook?key=" + SECRET)
    header = ("--header", f"Authorization: Bearer {SECRET}")
    said = cli.ok("template", "save", "hook", "--every", "1h", *hook, *header)
    said += cli.ok("template", "ls") + cli.ok("template", "show", "hook")
    assert SECRET not in said
    forms = (
        cli.json("template", "show", "hook")["defaults"],
        cli.json("template", "ls")[0]["defaults"],
        cli.json("template", "save", "hook", "--every", "1h", *hook, *header)["defaults"],
        cli.json("add", "job", "--template", "hook"),
        cli.json("template", "rm", "hook")["defaults"],
    )
    assert all(form["target"]["http"]["headers"] == {"Authorization": "***"} for form in forms)


def test_a_command_with_variables_is_told_without_their_values(cli: Cli) -> None:
    command = ("--every", "1h", "--env", "KEY=hunter2", "--", "echo", "hi")
    cli.ok("template", "save", "nightly", *command)
    cli.ok("add", "job", *command)
    assert "echo hi" in cli.ok("template", "ls")
    assert "echo hi" in cli.ok("template", "show", "nightly")
    assert cli.ok("run", "job", "--dry-run") == "runs  echo hi\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("template", "save", "t"), 2, 'template "t" has no defaults'),
        (("template", "save", "T!", "--queue", "slow"), 2, 'invalid name "T!": use 1 to 128'),
        (("template", "save", "t", "--cron", "99 * * * *"), 2, "99"),
        (("template", "save", "t", "--tz", "UTC"), 2, "give exactly one of --cron, --every"),
        (("template", "save", "t", "--retry-delay", "5s"), 2, "give --retry N as well"),
        (("template", "save", "t", "--method", "PUT"), 2, "--method needs --http URL"),
        (("template", "show", "nihgtly"), 3, "did you mean nightly?"),
        (("template", "rm", "weekly"), 3, 'template "weekly" does not exist'),
        (("add", "job", "--template", "nihgtly", "--", "true"), 3, "did you mean nightly?"),
        (("add", "job", "--template", "nightly"), 2, "target is missing"),
        (("add", "job", "--template", "nightly", "--tz", "UTC"), 2, "give exactly one of --cron"),
        (("add", "job", "--cron", "@daily"), 2, "give exactly one of: a COMMAND after --"),
    ],
)
def test_a_mistake_about_a_template_is_one_line(
    cli: Cli, arguments: tuple[str, ...], code: int, words: str
) -> None:
    cli.ok(*NIGHTLY)
    result = cli(*arguments)
    assert result.exit_code == code
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
