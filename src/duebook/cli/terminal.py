"""The terminal: its width, its colours, and pages that refresh."""

from __future__ import annotations

import io
import shutil
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Final

import click

from duebook.cli.commands import option
from duebook.clock import utc_now
from duebook.errors import Unavailable, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["painted", "prose_width", "show_page", "table_width", "watch_option"]

PROSE: Final = 80
"""Columns for sentences if the width of the terminal is unknown."""
WIDEST_PROSE: Final = 100
REFRESH: Final = 2.0
"""Seconds between two updates of --watch."""
HOME: Final = "\x1b[H"
CLEAR_LINE: Final = "\x1b[K"
CLEAR_BELOW: Final = "\x1b[J"

_COLORS: Final = {
    "green": ("active", "succeeded", "ready"),
    "red": ("failed", "problem", "expired", "revoked", "not"),
    "yellow": ("paused", "queued", "partial"),
    "cyan": ("running",),
    "bright_black": ("cancelled", "completed", "skipped", "deleted"),
}
_COLOR_OF: Final = {word: color for color, words in _COLORS.items() for word in words}

watch_option = option(
    "--watch", "-w", is_flag=True, help="Refresh every 2 seconds until Ctrl-C; needs a terminal."
)


def at_terminal() -> bool:
    return sys.stdout.isatty()


def table_width() -> int | None:
    """Columns of a table; None if the output is piped, so that nothing is shortened."""
    return _columns() if at_terminal() else None


def prose_width() -> int:
    """Columns for sentences, which are hard to read in very long lines."""
    return min(_columns(), WIDEST_PROSE) if at_terminal() else PROSE


def _columns() -> int:
    return shutil.get_terminal_size((PROSE, 24)).columns


def painted(text: str, state: str | None = None) -> str:
    """Text in the colour of a state, by default the one it starts with; click.echo removes colours
    if the output does not support them."""
    color = _COLOR_OF.get((state or text).partition(" ")[0])
    return click.style(text, fg=color) if color else text


class _Page(io.StringIO):
    """A screenful that is printed at once; code that prints to it sees a terminal."""

    def isatty(self) -> bool:
        return True


def show_page(render: Callable[[], None], watch: bool, as_json: bool = False) -> None:
    """Print once, or with `watch` repeatedly until Ctrl-C."""
    if not watch:
        render()
        return
    if as_json:
        raise click.UsageError("--watch and --json cannot be combined")
    if not at_terminal():
        raise click.UsageError("--watch needs a terminal; repeat the command instead")
    click.clear()
    try:
        while True:
            _refresh(_rendered(render))
            time.sleep(REFRESH)
    except KeyboardInterrupt:
        click.echo()


def _rendered(render: Callable[[], None]) -> list[str]:
    """The lines of a page; an error while the database is unreachable, because it may come back."""
    page = _Page()
    with redirect_stdout(page), redirect_stderr(page):
        try:
            render()
        except Unavailable as error:
            click.echo(f"error: {printable(str(error))}")
    return page.getvalue().splitlines()


def _refresh(lines: Sequence[str]) -> None:
    """Overwrite the old lines: clearing the screen first would flicker."""
    room = shutil.get_terminal_size((PROSE, 24)).lines
    head = f"{utc_now().astimezone():%H:%M:%S}, every {REFRESH:g} s; Ctrl-C to stop"
    shown = [head, "", *lines]
    if len(shown) >= room:
        shown = [*shown[: room - 2], f"… {len(shown) - room + 2:,} more lines"]
    text = "".join(f"{line}{CLEAR_LINE}\n" for line in shown)
    click.echo(f"{HOME}{text}{CLEAR_BELOW}", nl=False, color=True)
