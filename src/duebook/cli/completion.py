"""The command `completion`: prints what makes a shell complete duebook's words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["completion_command"]


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of a SHELL.

    \b
    Example, for bash: eval "$(duebook completion bash)"
    """
    complete = get_completion_class(shell)
    root = click.get_current_context().find_root().command
    if complete is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(complete(root, {}, "duebook", "_DUEBOOK_COMPLETE").source())
