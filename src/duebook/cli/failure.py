"""Turns Duebook's errors into one line on stderr and the exit code of their family."""

from __future__ import annotations

from typing import IO, Any

import click

from duebook.errors import DuebookError, Invalid, NotFound, Unavailable

__all__ = ["FailingGroup"]

_EXIT_CODES: dict[type[DuebookError], int] = {Invalid: 2, NotFound: 3, Unavailable: 4}


class Failure(click.ClickException):
    def __init__(self, error: DuebookError) -> None:
        super().__init__(str(error))
        codes = (code for family, code in _EXIT_CODES.items() if isinstance(error, family))
        self.exit_code = next(codes, 1)  # type: ignore[misc] # click's stubs say ClassVar

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.message}", file=file, err=file is None)


class FailingGroup(click.Group):
    """A group whose commands may raise DuebookError."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DuebookError as error:
            raise Failure(error) from error
