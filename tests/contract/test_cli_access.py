"""Tokens, the audit log and quotas of namespaces on the command line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from duebook.book import Book
from duebook.store.opening import open_store

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True

LONG = "a-name-that-is-as-long-as-a-name-may-be." * 3
NO_QUOTA = dict.fromkeys(
    ("schedules", "fires_per_minute", "payload_bytes", "definition_bytes", "max_priority")
)
SECRET = re.compile(r"dbk_[0-9a-f]{32}_[A-Za-z0-9_-]{43}")


def add(cli: Cli, name: str = "job", *more: str) -> None:
    cli.ok("add", name, "--every", "1m", *more, "--", "true")


def fits(text: str) -> bool:
    return all(len(line) <= 80 for line in text.splitlines())


def test_a_token_is_made_listed_and_revoked(cli: Cli) -> None:
    assert cli.ok("token", "ls").startswith("no tokens yet; create one: duebook token create")
    made = cli("token", "create", "ci", "--role", "operator", "--namespace", "shop")
    assert SECRET.fullmatch(made.stdout.strip()), "alone, so that a script can take it"
    assert made.stderr == "created ci: operator of shop; save its secret, shown only once:\n"
    with Book(open_store(str(cli.path))) as book:
        token = book.tokens.check(made.stdout.strip())
    assert token is not None
    assert token.created_by.startswith(cli.by)
    cli.ok("token", "create", "me", "--role", "viewer", "--expires", "90d", "--namespace", "*")
    head, ci, me = cli.ok("token", "ls").splitlines()
    assert head.split() == ["TOKEN", "ROLE", "STATE", "LAST", "USED", "NAMESPACES"]
    assert ci.split()[:3] == ["ci", "operator", "active"]
    assert ci.endswith("  shop")
    assert "expires in 89 d" in me or "expires in 90 d" in me
    assert me.endswith("never      all namespaces")
    assert cli.ok("token", "revoke", "ci") == "revoked ci\n"
    assert cli.json("token", "ls")[0]["revoked_at"] is not None
    assert "revoked" in cli.ok("token", "ls")


def test_a_token_as_json_has_its_secret_once(cli: Cli) -> None:
    made = cli.json("token", "create", "ci", "--role", "viewer")
    assert SECRET.fullmatch(made.pop("secret"))
    (listed,) = cli.json("token", "ls")
    assert listed == made
    assert (made["role"], made["namespaces"]) == ("viewer", ["default"])
    assert set(listed) == {
        *("id", "name", "role", "namespaces", "created_at", "created_by"),
        *("expires_at", "last_used_at", "revoked_at"),
    }


def test_the_namespace_of_a_token_is_the_current_one_unless_told(cli: Cli) -> None:
    made = cli("--namespace", "mail", "token", "create", "ci", "--role", "viewer", "--json")
    assert '"mail"' in made.stdout


def test_the_audit_tells_who_changed_what(cli: Cli) -> None:
    assert cli.ok("audit") == "no matching changes\n"
    add(cli)
    cli.ok("update", "job", "--queue", "slow")
    cli.ok("pause", "job", "--reason", "broken")
    cli.ok("queue", "limit", "slow", "--concurrency", "4")
    head, pause, update, create = cli.ok("audit", "job").splitlines()
    assert head.split() == ["AT", "BY", "ACTION", "SUBJECT", "CHANGED"]
    assert "status: active → paused" in pause
    assert "schedule job" in update
    assert "queue: default → slow" in update
    assert "trigger, target" in create
    assert f"  {cli.by}" in create
    assert [change["action"] for change in cli.json("audit")] == ["pause", "update", "create"]
    (limit,) = cli.json("audit", "--all", "--kind", "queue")
    assert (limit["subject"], limit["namespace"]) == ("slow", "")
    assert limit["after"] == {"concurrency": 4, "rate": None}
    assert limit["at"].endswith("Z")
    assert (
        cli.json("audit", "--since", "1h", "--until", "now", "-n", "2", "--all")
        == (cli.json("audit", "--all")[:2])
    )
    assert cli.json("audit", "--until", "1h") == []
    assert cli("audit", "--kind", "bogus").exit_code == 2
    assert cli.json("audit", "--by", "token:ci") == []
    assert "there are more" in cli("audit", "-n", "1").stderr


def test_namespaces_are_limited_listed_and_freed(cli: Cli) -> None:
    assert cli.ok("namespace", "ls") == "no namespaces have schedules, a quota or a keep\n"
    add(cli)
    said = cli.ok(
        *("namespace", "limit", "default", "--schedules", "1", "--fires-per-minute", "2.5"),
    )
    assert said == (
        "limited default: at most 1 schedule (has 1), at most 2.5 due times a minute (has\n  1)\n"
    )
    refused = cli("add", "more", "--every", "1h", "--", "true")
    assert refused.exit_code == 1
    assert 'namespace "default" is limited to 1 schedule and would have 2' in refused.stderr
    line = cli.ok("namespace", "ls").splitlines()[1]
    size = cli.json("namespace", "ls")[0]["used"]["definition_bytes"]
    assert line.split() == ["default", "1", "of", "1", str(size), "1", "of", "2.5", "-", "-", "90d"]
    assert cli.json("namespace", "ls") == [
        {
            "name": "default",
            "keep": "90d",
            "quota": NO_QUOTA | {"schedules": 1, "fires_per_minute": 2.5},
            "used": {"schedules": 1, "fires_per_minute": 1.0, "definition_bytes": size},
        }
    ]
    limits = ("--payload-bytes", "99", "--max-priority", "5", "--definition-bytes", "100000")
    assert cli.json("namespace", "limit", "default", *limits)["quota"] == NO_QUOTA | {
        "payload_bytes": 99,
        "definition_bytes": 100_000,
        "max_priority": 5,
    }
    said = " ".join(cli.ok("namespace", "limit", "default", *limits).split())
    assert "definitions of at most 100,000 bytes" in said
    assert said.endswith("a priority of at most 5")
    assert "up to 99 bytes" in cli.ok("namespace", "ls")
    assert cli.ok("namespace", "free", "default") == "removed the quota of default\n"
    cli.ok("add", "more", "--every", "1h", "--", "true")
    said = cli.ok("namespace", "limit", "*", "--schedules", "2")
    assert said == "limited all namespaces without a limit of their own: at most 2 schedules\n"
    assert cli("add", "most", "--every", "1h", "--", "true").exit_code == 1
    cli.ok("namespace", "free", "*")


@pytest.mark.on_file
def test_what_a_namespace_holds_can_be_counted_anew(cli: Cli) -> None:
    add(cli)
    assert cli.ok("namespace", "recount", "default").startswith("recounted default: 1 schedule, ")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("token", "create", "ci"), 2, "--role"),
        (("token", "create", "ci", "--role", "root"), 2, "'viewer', 'operator', 'admin'"),
        (("token", "create", "No", "--role", "viewer"), 2, 'invalid token "No": use 1 to 128'),
        (("token", "create", "ci", "--role", "viewer", "--namespace", "A b"), 2, "namespace"),
        (("token", "create", "ci", "--role", "viewer", "--expires", "soon"), 2, "soon"),
        (("token", "revoke", "ci"), 3, 'token "ci" does not exist, or was revoked'),
        (("audit", "--since", "soon"), 2, "soon"),
        (
            ("namespace", "limit", "shop"),
            2,
            "--payload-bytes, --definition-bytes or --max-priority",
        ),
        (("namespace", "limit", "shop", "--schedules", "-1"), 2, "schedules -1"),
        (("namespace", "limit", "A b", "--schedules", "1"), 2, 'namespace "A b"'),
        (("namespace", "free", "shop"), 3, 'namespace "shop" has no quota'),
    ],
)
def test_a_mistake_is_one_line(cli: Cli, arguments: tuple[str, ...], code: int, words: str) -> None:
    result = cli(*arguments)
    assert result.exit_code == code
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("terminal")
def test_tables_fit_eighty_columns_whatever_the_names(cli: Cli) -> None:
    made = cli("token", "create", LONG, "--role", "operator", "--namespace", LONG)
    assert fits(made.stdout)
    cli.ok("namespace", "limit", LONG, "--schedules", "100000000", "--fires-per-minute", "1e9")
    cli("--namespace", LONG, "add", LONG, "--every", "1m", "--", "true")
    for command in (("token", "ls"), ("namespace", "ls"), ("audit", "--all")):
        assert fits(cli.ok(*command)), command
