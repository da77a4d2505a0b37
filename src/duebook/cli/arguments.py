"""The arguments that several commands share: names of schedules and templates, runs, JSON."""

from __future__ import annotations

import getpass
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from duebook.errors import DuebookError, Invalid, NotFound, json_problem, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duebook.client import Client
    from duebook.model.run import Run
    from duebook.model.schedule import Schedule
    from duebook.model.template import ScheduleTemplate

__all__ = [
    "complete_template",
    "count_option",
    "find_run",
    "name_argument",
    "optional_name_argument",
    "read_json",
    "read_object",
    "read_pair",
    "runs_of",
    "user",
]


def _complete_name(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    begin = f"{incomplete}*"
    return _complete(ctx, incomplete, lambda book: book.schedules.list(text=begin, limit=1_000))


def complete_template(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    return _complete(ctx, incomplete, lambda book: book.templates.list())


def _complete(
    ctx: click.Context,
    incomplete: str,
    ask: Callable[[Client], Sequence[Schedule | ScheduleTemplate]],
) -> list[str]:
    """Names for shell completion; errors are not shown while you type."""
    from duebook.cli.opening import open_book

    try:
        with ctx, open_book() as book:
            names = [found.name for found in ask(book)]
    except (DuebookError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]


count_option = click.option(
    "--count",
    "-n",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=5,
    show_default=True,
    help="How many due times to show.",
)
name_argument = click.argument("name", shell_complete=_complete_name)
optional_name_argument = click.argument("name", required=False, shell_complete=_complete_name)


def runs_of(book: Client, name: str, most: int) -> tuple[str, list[Run]]:
    """What NAME is (a schedule, a flow or a task with enqueued runs) and its newest runs.

    Raises NotFound."""
    try:
        return "schedule", list(book.runs.list(book.schedules.get(name).id, limit=most))
    except NotFound as unknown:
        for what, list_runs in (("flow", _of_flow), ("task", _of_task), ("schedule", _of_deleted)):
            with suppress(NotFound, Invalid):
                return what, list_runs(book, name, most)
        told = f'"{shorten(name)}" is not a schedule, a flow or a task with enqueued runs'
        raise NotFound(told) from unknown


def _of_flow(book: Client, name: str, most: int) -> list[Run]:
    return book.flows.runs(name, most)


def _of_task(book: Client, name: str, most: int) -> list[Run]:
    if found := list(book.runs.list(task=name, limit=most)):
        return found
    raise NotFound(f'no run was enqueued for task "{name}"')


def _of_deleted(book: Client, name: str, most: int) -> list[Run]:
    return list(book.runs.list(name, limit=most))


def find_run(book: Client, text: str) -> str:
    """The id of the run that RUN|NAME names: an id or its first characters, or the latest run of
    NAME."""
    try:
        what, runs = runs_of(book, text, 20)
    except NotFound as unknown:
        try:
            return book.runs.get(text).id
        except NotFound:
            raise NotFound(f"{unknown}, and not the id of a run") from unknown
    if not runs:
        raise NotFound(f'{what} "{text}" has no runs yet')
    return next((run for run in runs if run.status != "queued"), runs[0]).id


def read_pair(item: str, flag: str = "--env") -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not name or not equals:
        raise Invalid(f'{flag} "{item}" is not NAME=VALUE')
    return name, value


def read_params(params: Sequence[str], words: Sequence[str]) -> dict[str, str]:
    """The params of a flow: those of --param, and the values after `--`, by name or by position."""
    given = dict(read_pair(param, "--param") for param in params)
    place = 0
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name.isidentifier():
            given[name] = value
        else:
            place += 1
            given[str(place)] = word
    return given


def read_json(flag: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{flag} is not valid JSON: {json_problem(error)}") from None


def read_object(flag: str, text: str) -> dict[str, Any]:
    value = read_json(flag, text)
    if not isinstance(value, dict):
        raise Invalid(f'{flag} is not a JSON object such as {{"audience": "staff"}}')
    return value


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
