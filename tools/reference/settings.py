"""docs/reference/settings.md: the settings, from duebook/settings.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from duebook.cli import main
from duebook.settings import NAMES, Settings
from tools.reference.writing import NOTE, members, table

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["settings_page"]


def settings_page() -> Iterator[str]:
    yield from ("# Settings", "", NOTE, "")
    yield from (
        "A flag wins over a variable of the environment, a variable over `duebook.toml` in the",
        "current directory, and that over the default. In `duebook.toml` a setting is a key:",
        "",
        "```toml",
        'database_url = "postgresql://duebook@db.example.com/duebook"',
        'pass_env = ["AWS_*"]',
        "```",
        "",
    )
    told, flags = dict(members("settings.py", "Settings")), _flags()
    rows = [
        (
            f"`{name}`",
            f"`DUEBOOK_{name.upper()}`",
            ", ".join(f"`{flag}`" for flag in flags.get(name, ())),
            _default(name),
            told[name],
        )
        for name in NAMES
    ]
    yield from table(("setting", "variable", "flag", "default", "meaning"), rows)


def _default(name: str) -> str:
    default = Settings.__dataclass_fields__[name].default
    return f"`{default}`" if default else ""


def _flags() -> dict[str, list[str]]:
    """Setting -> the options of the command line that set it."""
    context = click.Context(main, info_name="duebook")
    up = main.get_command(context, "up")
    assert up is not None  # noqa: S101 - the command that starts a node
    found: dict[str, list[str]] = {}
    for parameter in (*main.params, *up.params):
        name = (parameter.name or "").replace("database", "database_url")
        if name in NAMES:
            found.setdefault(name, [parameter.opts[0]])
    return found
