"""Flows on the books from the command line, on a file and through a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duebook.store.sqlite import SqliteStore
from tests.conformance.flow_builders import put_flow
from tests.contract.api.test_flows import GREET, PROBLEM

if TYPE_CHECKING:
    from tests.contract.conftest import Cli

ANYWHERE = True


@pytest.fixture
def greet(cli: Cli) -> Cli:
    cli.ok("flow", "ls")
    store = SqliteStore(cli.path)
    put_flow(store, GREET, "greet")
    store.transact(
        lambda tx: tx.save_problems("default", ["flows"], {"flows/half.yaml": [PROBLEM]})
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
    (listed,) = greet.json("flow", "ls")
    assert (listed["name"], listed["problem"]) == ("greet", None)
    assert "flows/greet.yaml" in greet.ok("flow", "show", "greet")
    assert greet.json("flow", "show", "greet") == listed


def test_a_flow_is_started_stopped_and_retried(greet: Cli) -> None:
    run = greet.json("flow", "start", "greet", "--param", "WHO=moon")
    assert (run["flow"], run["status"]) == ("greet", "queued")
    assert f"run {run['id']} is cancelled" in greet.ok("flow", "stop", "greet")
    assert f"run {run['id']} of flow greet goes on" in greet.ok(
        "flow", "retry", "greet", "--step", "think"
    )
    assert greet("flow", "retry", run["id"]).exit_code == 1
    assert "flow greet is restarted" in greet.ok("flow", "restart", "greet")


def test_mistakes_have_their_exit_codes(greet: Cli) -> None:
    assert greet("flow", "start", "ghost").exit_code == 3
    assert greet("flow", "show", "ghost").exit_code == 3
    assert greet("flow", "retry", "ghost").exit_code == 3
    assert greet("flow", "start", "greet", "--param", "WHAT=1").exit_code == 2
    assert greet("flow", "stop", "greet").exit_code == 1
