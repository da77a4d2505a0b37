"""The command `completion`: prints a script for shell completion of duebook's commands."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Final

import click
from click.shell_completion import get_completion_class

from duebook.cli.commands import command

__all__ = ["completion_command"]

SHELLS: Final = ("bash", "zsh", "fish")


@command("completion")
@click.argument("shell", metavar="[bash|zsh|fish]", required=False, type=click.Choice(SHELLS))
def completion_command(shell: str | None) -> None:
    """Print the completion script for your shell.

    \b
    Examples:
      eval "$(duebook completion bash)"      in ~/.bashrc
      eval "$(duebook completion zsh)"       in ~/.zshrc
      duebook completion fish | source       in ~/.config/fish/config.fish
    """
    shell = shell or PurePath(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        raise click.UsageError(f"name the shell: duebook completion {'|'.join(SHELLS)}")
    complete = get_completion_class(shell)
    root = click.get_current_context().find_root().command
    if complete is None:
        raise click.UsageError(f"there is no completion for {shell}")
    click.echo(complete(root, {}, "duebook", "_DUEBOOK_COMPLETE").source())
