"""The table of use cases, and what must agree with it: handlers, shapes and commands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click
import pytest

from duebook.api.operations import Handlers, bind
from duebook.api.routes import OPERATIONS
from duebook.api.shapes import keys_of
from duebook.cli import main
from duebook.client import TABLE
from duebook.model.access import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duebook.api.operations import Operation
    from duebook.client.use_cases import UseCase

API = [operation for operation in OPERATIONS if operation.documented]
WITHOUT_USE_CASE = {
    *("up", "web", "worker", "tick", "completion", "describe", "next", "mcp"),
    *("db backup", "db check", "db copy", "db migrate", "db reopen", "db restore", "db status"),
    *("flow check", "flow dry", "flow graph", "flow run"),
    *("import apscheduler", "import celery", "import crontab", "import dagu"),
    *("import kubernetes", "import systemd"),
    *("namespace recount", "token link", "token rotate"),
}
"""Commands that work on the database, on files, or on neither."""


def name(case: UseCase) -> str:
    return case.name


def commands(group: click.Group, *path: str) -> Iterator[str]:
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        if isinstance(command, click.Group):
            yield from commands(command, *path, word)
        else:
            yield " ".join((*path, word))


def test_every_command_is_named_by_a_use_case_or_needs_none() -> None:
    named = {command for case in TABLE.values() for command in case.cli}
    assert sorted(commands(main)) == sorted(named | WITHOUT_USE_CASE)
    assert not named & WITHOUT_USE_CASE


@pytest.mark.parametrize("case", TABLE.values(), ids=name)
def test_a_use_case_has_a_command_or_says_why_not(case: UseCase) -> None:
    assert bool(case.cli) != bool(case.no_cli)


def test_the_api_is_the_table() -> None:
    assert [operation.name for operation in API] == list(TABLE)


@pytest.mark.parametrize("operation", API, ids=name)
def test_a_shape_is_documented_for_every_body(operation: Operation) -> None:
    assert (operation.body is not None) == operation.takes_body


@pytest.mark.parametrize("operation", API, ids=name)
def test_a_body_is_documented_with_the_arguments_of_the_table(operation: Operation) -> None:
    if not operation.takes_body:
        return
    named = {argument.key for argument in operation.arguments if argument.place == "body"}
    documented = keys_of(operation.body).keys()
    if any(argument.place == "rest" for argument in operation.arguments):
        assert named <= documented
    else:
        assert named == documented


@pytest.mark.parametrize("case", TABLE.values(), ids=name)
def test_who_changes_something_is_no_viewer_and_may_be_repeated_or_not(case: UseCase) -> None:
    if case.audited:
        assert case.role is not None
        assert case.role > Role.VIEWER
    assert case.summary.endswith(".")
    assert not (case.keyed and case.keyless)


def test_a_use_case_that_nobody_answers_is_an_error() -> None:
    lonely = replace(TABLE["get_me"], name="get_you")
    with pytest.raises(LookupError, match="no handler is declared for get_you"):
        list(bind([], {"get_you": lonely}))


def test_a_handler_of_no_use_case_is_an_error() -> None:
    handlers = Handlers()

    @handlers
    def get_nothing() -> None:
        """Never called."""

    with pytest.raises(LookupError, match="no use case is called get_nothing"):
        list(bind([handlers]))
