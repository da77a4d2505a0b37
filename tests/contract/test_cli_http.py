"""Requests and templates on the command line: defined, changed, shown without secrets, refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True

SECRET = "s3cret-t0ken"  # noqa: S105
HOOK = ("add", "hook", "--every", "1h", "--http", "https://example.com/hook")


def test_a_request_is_added_with_all_its_details(cli: Cli) -> None:
    added = cli.json(
        *HOOK,
        *("--method", "put", "--header", "Content-Type: text/csv", "--header", f"X-Key:{SECRET}"),
        *("--body", "a,b", "--expect", "204", "--expect", "3xx"),
    )
    assert added["target"] == {
        "http": {
            "method": "PUT",
            "url": "https://example.com/hook",
            "headers": {"Content-Type": "text/csv", "X-Key": "***"},
            "body": "a,b",
            "expect": [204, "3xx"],
        }
    }
    assert "PUT https://example.com/hook" in cli.ok("show", "hook")


def test_a_secret_is_shown_nowhere(cli: Cli) -> None:
    said = cli.ok(*HOOK, "--header", f"Authorization: Bearer {SECRET}")
    said += cli.ok("show", "hook") + cli.ok("show", "hook", "--json") + cli.ok("ls", "--json")
    said += cli.ok("update", "hook", "--expect", "200", "--json") + cli.ok(
        "pause", "hook", "--json"
    )
    assert SECRET not in said


def test_details_alone_change_a_request_and_keep_its_headers(cli: Cli) -> None:
    cli.ok(*HOOK, "--header", f"X-Key: {SECRET}", "--body", "text")
    cli.ok("update", "hook", "--body-json", '{"a": "{{ due_at }}"}', "--expect", "202")
    http = cli.json("show", "hook")["target"]["http"]
    assert http["json"] == {"a": "{{ due_at }}"}
    assert (http["method"], http["expect"], "body" in http) == ("POST", [202], False)
    assert http["headers"] == {"X-Key": "***"}
    cli.ok("update", "hook", "--http", "https://example.com/other")
    assert cli.json("show", "hook")["target"] == {
        "http": {"method": "GET", "url": "https://example.com/other"}
    }
    cli.ok("update", "hook", "--", "true")
    assert cli.json("show", "hook")["target"] == {"command": ["true"]}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("--http", "https://a.test", "--shell", "b"),
            "give exactly one of: a COMMAND after --, --shell",
        ),
        (
            ("--http", "https://a.test", "--", "b"),
            "give exactly one of: a COMMAND after --, --shell",
        ),
        (("--http", "https://a.test", "--cwd", "/"), "--cwd and --env need a COMMAND"),
        (("--method", "GET", "--", "true"), "--method needs --http URL"),
        (("--body-json", "{}"), "--body-json needs --http URL"),
        (("--http", "https://a.test", "--header", "X-Key"), "is not 'NAME: VALUE'"),
        (("--http", "https://a.test", "--body-json", "{"), "--body-json is not valid JSON"),
        (("--http", "https://a.test", "--body", "a", "--body-json", "{}"), "give one of them"),
        (("--http", "https://a.test", "--expect", "fine"), 'expect "fine" is not a status'),
        (("--http", "https://me:it@a.test"), "use an Authorization header"),
        (("--http", "https://a.test/{{ x }}"), 'http url: "x" is unknown; use one of schedule,'),
        (("--payload", '{"a": "{{ payload.b }}"}', "--", "true"), "payload.a: "),
        (("--", "docker", "ps", "--format", "{{.Names}}"), 'write {{ "{{" }}'),
        (("--", "{{ user }}"), "the program must be fixed"),
    ],
)
def test_a_mistake_is_one_line_and_adds_nothing(
    cli: Cli, arguments: tuple[str, ...], complaint: str
) -> None:
    result = cli("add", "job", "--every", "1h", *arguments)
    assert result.exit_code == 2, result.output
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert cli("show", "job").exit_code == 3


def test_an_update_checks_templates_too(cli: Cli) -> None:
    cli.ok("add", "job", "--every", "1h", "--", "true")
    result = cli("update", "job", "--", "echo", "{{ schedule.nme }}")
    assert result.exit_code == 2
    assert '"schedule.nme" is unknown; it has due_at, id, name, tz' in result.stderr
    assert cli.json("show", "job")["version"] == 1


def test_a_dry_run_shows_what_would_run_and_queues_nothing(cli: Cli) -> None:
    cli.ok(
        *("add", "hook", "--every", "1h", "--http", "https://example.com/{{ payload.id }}?a=b"),
        *("--header", f"X-Key: {SECRET}", "--body-json", '{"n": "{{ payload.n }}"}'),
        *("--payload", '{"id": "{{ schedule.name }}", "n": 5}'),
    )
    assert cli.ok("run", "hook", "--dry-run").splitlines() == [
        "runs     POST https://example.com/hook?a=b",
        "header   X-Key: ***",
        'json     {"n": 5}',
        'payload  {"id": "hook", "n": 5}',
    ]
    form = cli.json("run", "hook", "--dry-run", "--payload", '{"id": "{{", "n": null}')
    assert form["target"]["http"]["json"] == {"n": None}
    assert form["payload"] == {"id": "{{", "n": None}
    missing = cli("run", "hook", "--dry-run", "--payload", "{}")
    assert missing.exit_code == 2
    assert 'http url: "payload.id" is undefined' in missing.stderr
    cli.ok("add", "copy", "--every", "1h", "--", "cp", "{{ schedule.name }} 1", "b")
    assert cli.ok("run", "copy", "--dry-run") == "runs  cp 'copy 1' b\n"
    assert cli.json("runs") == []


@pytest.mark.on_file
def test_a_network_that_is_none_is_named_before_a_node_starts(cli: Cli) -> None:
    result = cli("up", "--http-allow", "private")
    assert result.exit_code == 2
    assert 'http_allow "private" is not a network such as 10.0.0.0/8' in result.stderr
