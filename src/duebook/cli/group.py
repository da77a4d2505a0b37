"""The group of all commands: loads each when it is called, and prints errors as one line."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from duebook.cli import exit_codes
from duebook.cli.commands import Group
from duebook.errors import (
    DuebookError,
    Invalid,
    NotFound,
    Unavailable,
    WaitTimeout,
    counted,
    printable,
)

__all__ = ["DuebookGroup"]

_EXIT_CODES: Final[dict[type[DuebookError], int]] = {
    Invalid: exit_codes.INVALID,
    NotFound: exit_codes.NOT_FOUND,
    Unavailable: exit_codes.UNREACHABLE,
    WaitTimeout: exit_codes.NOT_ENDED,
}

MOST_PROBLEMS: Final = 5
"""How many problems are printed if there are several."""


class DuebookGroup(Group):
    """Commands are given as `module:attribute`, so that `--version` imports none of them.

    They may raise DuebookError, which becomes one line on stderr and an exit code.
    """

    def __init__(self, *args: Any, commands_of: dict[str, dict[str, str]], **extra: Any) -> None:
        """`commands_of`: commands by their heading in the help text."""
        super().__init__(*args, **extra)
        self._headings = commands_of
        self._commands_of = {
            name: at for found in commands_of.values() for name, at in found.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self._commands_of)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self._commands_of:
            return None
        module, _, attribute = self._commands_of[cmd_name].partition(":")
        command = getattr(import_module(f"duebook.cli.{module}"), attribute)
        assert isinstance(command, click.Command)  # noqa: S101 - our own table
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in self._headings.items():
            self.write_commands(ctx, formatter, heading, names)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        extra["standalone_mode"] = False
        try:
            result = super().main(*args, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            sys.exit(0)
        except click.ClickException as error:
            _fail(_explain(error), error.exit_code)
        except DuebookError as error:
            families = (code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))
            _fail(_first_of(error), next(families, 1))
        except (click.Abort, KeyboardInterrupt):
            _fail("interrupted", 130)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader is gone
            sys.exit(1)
        except OSError as error:
            _fail(str(error), 1)
        sys.exit(result if isinstance(result, int) else 0)


def _fail(message: str, exit_code: int) -> NoReturn:
    for number, line in enumerate(message.split("\n")):
        click.echo(f"{'error: ' if number == 0 else '       '}{printable(line)}", err=True)
    sys.exit(exit_code)


def _first_of(error: DuebookError) -> str:
    """The message; if there are several problems, the first ones, each on its own line."""
    problems: dict[str, str] = getattr(error, "problems", {})
    if len(problems) < 2:
        return str(error).replace("\n", " ")
    told = [text.replace("\n", " ") for text in problems.values()]
    left = len(told) - MOST_PROBLEMS
    more = [f"and {counted(left, 'more problem')}"] if left > 0 else []
    return "\n".join([*told[:MOST_PROBLEMS], *more])


def _about_extra(error: click.UsageError) -> str:
    """What was probably meant by an extra argument."""
    command = error.ctx.command if error.ctx else None
    if command is not None and any(param.name == "expression" for param in command.params):
        return "; put a cron expression in quotes"
    if command is not None and command.name == "ls":
        return "; to see one by its name, use show instead of ls"
    return ""


def _explain(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split()).removesuffix(".")  # click splits lists
    if "unexpected extra argument" in message and isinstance(error, click.UsageError):
        message += _about_extra(error)
    if isinstance(error, click.NoSuchOption) and error.option_name == "--retries":
        message = "no such option --retries; use --retry, which counts the first attempt: for 3 "
        message += "retries, as retries: 3 in a flow file, use --retry 4"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message += f" (try: {error.ctx.command_path} --help)"
    return message
