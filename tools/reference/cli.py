"""docs/reference/cli.md: every command with its arguments and options, from click."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import TYPE_CHECKING

import click

from duebook.cli import main
from tools.reference.writing import NOTE, table

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["commands_page"]


def commands_page() -> Iterator[str]:
    context = click.Context(main, info_name="duebook")
    yield from ("# Commands", "", NOTE, "")
    yield "`duebook COMMAND --help` prints the same for one command."
    yield ""
    yield from table(("command", "does"), _overview(context))
    yield from _options(context)
    for _, child in _commands(context):
        yield from _section(child)


def _commands(context: click.Context) -> Iterator[tuple[str, click.Context]]:
    """All commands below this one, groups before their commands."""
    group = context.command
    assert isinstance(group, click.Group)  # noqa: S101 - we only ask groups
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        child = click.Context(command, info_name=name, parent=context)
        yield child.command_path, child
        if isinstance(command, click.Group):
            yield from _commands(child)


def _overview(context: click.Context) -> Iterator[tuple[str, str]]:
    for path, child in _commands(context):
        if not isinstance(child.command, click.Group):
            yield (
                f"[`{path}`](#{path.replace(' ', '-')})",
                _first_sentence(child.command.help or ""),
            )


def _first_sentence(text: str) -> str:
    return re.split(r"\n\s*\n", text.strip())[0].replace("\b", "")


def _section(context: click.Context) -> Iterator[str]:
    command = context.command
    yield from (f"## {context.command_path}", "")
    if not isinstance(command, click.Group):
        yield from ("```text", _usage(context), "```", "")
    yield from _help(command.help or "")
    yield from _options(context)


def _usage(context: click.Context) -> str:
    return " ".join([context.command_path, *context.command.collect_usage_pieces(context)])


def _help(text: str) -> Iterator[str]:
    """Paragraphs; those that click does not wrap become code."""
    for block in re.split(r"\n\s*\n", text.strip()):
        if block.lstrip().startswith("\b"):
            text = dedent(block.replace("\b", "")).strip("\n ")
            yield from ("```text", *text.splitlines(), "```", "")
        else:
            yield " ".join(block.split())
            yield ""


def _options(context: click.Context) -> Iterator[str]:
    records = [
        parameter.get_help_record(context)
        for parameter in context.command.get_params(context)
        if "--help" not in parameter.opts
    ]
    if rows := [(f"`{record[0]}`", record[1]) for record in records if record and record[1]]:
        yield from table(("option", "meaning"), rows)
