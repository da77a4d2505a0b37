"""`duebook status`: whether everything that is due can run, for users, probes and scripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from click.testing import CliRunner

from duebook.cli import main
from tests.support.cli import live

if TYPE_CHECKING:
    from tests.support.cli import Cli

ANYWHERE = True


def test_books_that_nobody_works_on_are_not_ready(cli: Cli) -> None:
    result = cli("status")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0].startswith(
        "problem scheduler: no live node is a scheduler"
    )
    assert result.stdout.splitlines()[-1] == "not ready"


def test_books_that_are_worked_on_are_ready(cli: Cli) -> None:
    cli.ok("add", "hello", "--every", "1h", "--", "true")
    live(cli)
    assert cli.ok("status") == "ready\n"


def test_the_json_form_has_every_check(cli: Cli) -> None:
    cli.ok("add", "hello", "--every", "1h", "--queue", "slow", "--", "true")
    cli.ok("run", "hello")
    live(cli)
    result = cli("status", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["ready"] is False
    assert found["checks"] == {
        "database": True,
        "schema": True,
        "scheduler": True,
        "queue": False,
        "namespace": True,
        "task": True,
        "overdue": True,
        "schedule": True,
        "flows": True,
    }
    assert [problem["code"] for problem in found["problems"]] == ["queue"]


def test_a_namespace_has_a_status_of_its_own(cli: Cli) -> None:
    live(cli)
    cli.ok("--namespace", "shop", "add", "hello", "--every", "1h", "--queue", "slow", "--", "true")
    cli.ok("--namespace", "shop", "run", "hello")
    assert cli("status").exit_code == 1
    assert cli("--namespace", "shop", "status").exit_code == 1
    assert cli.ok("--namespace", "bank", "status") == "ready\n"


def test_a_database_that_does_not_answer_is_not_ready() -> None:
    url = "postgresql://nobody@127.0.0.1:1/nothing"
    result = CliRunner().invoke(main, ["--database", url, "status", "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["checks"]["database"] is False
    assert found["checks"]["scheduler"] is None


def test_a_wrong_grace_is_refused(cli: Cli) -> None:
    assert cli("status", "--grace", "soon").exit_code == 2
