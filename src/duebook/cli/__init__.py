"""The duebook command: reads arguments, prints results on stdout and complaints on stderr."""

from __future__ import annotations

import click

from duebook import __version__
from duebook.cli.failure import FailingGroup
from duebook.cli.times import describe_command, next_command

__all__ = ["main"]


@click.group(
    cls=FailingGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, "-V", "--version", message="duebook %(version)s")
def main() -> None:
    """A durable scheduler: every due time is accounted for.

    Exit codes: 0 ok, 1 failure, 2 usage or invalid input, 3 not found,
    4 unreachable, 5 the awaited run failed.
    """


main.add_command(next_command)
main.add_command(describe_command)
