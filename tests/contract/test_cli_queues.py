"""Queues, and the options of a node, on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True


def test_queues_are_limited_listed_and_freed(cli: Cli) -> None:
    assert cli.ok("queue", "ls") == "no queues have limits or work\n"
    said = cli.ok("queue", "limit", "mail", "--concurrency", "4", "--rate", "10/s")
    assert said == "limited mail: at most 4 at once, at most 10/s started\n"
    cli.ok("add", "job", "--every", "1h", "--queue", "mail", "--", "true")
    cli.ok("run", "job")
    assert cli.ok("queue", "ls").splitlines()[1].split() == ["mail", "1", "0", "4", "10/s"]
    assert cli.json("queue", "ls") == [
        {"name": "mail", "concurrency": 4, "rate": "10/s", "queued": 1, "running": 0}
    ]
    assert cli.ok("queue", "free", "mail") == "removed the limits of mail\n"
    assert cli.json("queue", "ls")[0]["concurrency"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("limit", "mail"), 2, "give --concurrency, --rate or both"),
        (("limit", "mail", "--rate", "fast"), 2, "rate fast is not a rate such as 10/s"),
        (("limit", "mail", "--concurrency", "-1"), 2, "concurrency -1 is not a whole number"),
        (("limit", "No Name", "--concurrency", "1"), 2, "queue"),
        (("free", "mail"), 3, 'queue "mail" has no limits'),
    ],
)
def test_a_mistake_about_a_queue_is_one_line(
    cli: Cli, arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = cli("queue", *arguments)
    assert result.exit_code == code
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--roles", "planner"), '--roles "planner" is not one of scheduler, worker'),
        (("--roles", ""), '--roles "" is not one of'),
        (("--coordination", "two"), "'two' is not one of 'all', 'leader'"),
    ],
)
def test_a_node_with_wrong_options_does_not_start(
    cli: Cli, arguments: tuple[str, ...], words: str
) -> None:
    result = cli("up", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_setting_that_is_none_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUEBOOK_COORDINATION", "anarchy")
    result = cli("ls")
    assert result.exit_code == 2
    assert 'coordination "anarchy" is not one of all, leader' in result.stderr
