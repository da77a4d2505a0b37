"""Celery tasks on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True
ADD = ("add", "sum", "--every", "1h", "--celery", "proj.tasks.add")


def target(cli: Cli) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli.ok("show", "sum", "--json"))["target"]
    return found


def test_a_celery_task_is_added_with_its_arguments_and_changed_part_by_part(cli: Cli) -> None:
    options = ("--celery-option", "queue=sums", "--celery-option", "expires=10m")
    told = cli(*ADD, "--args", "[1, 2]", *options).output
    assert "no live worker sends Celery tasks" in " ".join(told.split())
    whole = {"celery": "proj.tasks.add", "args": [1, 2], "queue": "sums", "expires": "10m"}
    assert target(cli) == whole
    cli.ok("update", "sum", "--kwargs", '{"z": 3}', "--celery-option", "terminate=true")
    cli.ok("update", "sum", "--celery-option", "priority=5")
    assert target(cli) == whole | {"kwargs": {"z": 3}, "terminate": True, "priority": 5}
    assert "celery proj.tasks.add" in cli.ok("show", "sum")
    assert "sum" in cli.ok("ls", "--target", "celery:proj.tasks.add")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*ADD, "--args", "{"), "--args is not valid JSON"),
        ((*ADD, "--celery-option", "queue"), "is not NAME=VALUE, such as queue=mail"),
        ((*ADD, "--celery-option", "color=red"), 'target key "color" is unknown'),
        ((*ADD, "--task", "other"), "give exactly one of"),
        (("add", "sum", "--every", "1h", "--args", "[]", "--", "true"), "--args needs --celery"),
        (("ls", "--target", "celery:{{ no }}"), "is not a task such as proj.tasks.add"),
    ],
)
def test_what_is_wrong_is_told(cli: Cli, words: tuple[str, ...], told: str) -> None:
    result = cli(*words)
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())
