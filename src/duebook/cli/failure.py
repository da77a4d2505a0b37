"""Turns errors into one line on stderr and the exit code of their family."""

from __future__ import annotations

import os
import sys
from typing import Any, Final, NoReturn

import click

from duebook.errors import DuebookError, Invalid, NotFound, Unavailable, printable

__all__ = ["FailingGroup"]

_EXIT_CODES: Final[dict[type[DuebookError], int]] = {Invalid: 2, NotFound: 3, Unavailable: 4}


class FailingGroup(click.Group):
    """A group whose commands may raise DuebookError; nobody sees a traceback for a mistake."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        extra["standalone_mode"] = False
        try:
            result = super().main(*args, **extra)
        except click.ClickException as error:
            _fail(_explain(error), error.exit_code)
        except DuebookError as error:
            families = (code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))
            _fail(str(error), next(families, 1))
        except (click.Abort, KeyboardInterrupt):
            _fail("interrupted", 130)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has left
            sys.exit(1)
        sys.exit(result if isinstance(result, int) else 0)


def _fail(message: str, exit_code: int) -> NoReturn:
    click.echo(f"error: {printable(message)}", err=True)
    sys.exit(exit_code)


def _explain(error: click.ClickException) -> str:
    message = error.format_message().removesuffix(".")
    if "unexpected extra argument" in message:
        message += "; put a cron expression in quotes"
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message += f" (try: {error.ctx.command_path} --help)"
    return message
