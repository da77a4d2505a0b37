"""Imports the program that a command line names as MODULE:BOOK."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import duebook
from duebook.app import Duebook
from duebook.errors import Invalid, printable, quoted, shorten

if TYPE_CHECKING:
    from types import ModuleType

    from duebook.settings import Settings

__all__ = ["imported", "load_app"]

OURS: Final = Path(duebook.__file__).parent
_MISSING: Final = object()


def load_app(text: str | None, settings: Settings) -> Duebook:
    """The Duebook of a program, or one without tasks if none is named.

    It keeps its own database and namespace, unless the command line names others. Raises Invalid
    if it cannot be imported, or is not a Duebook.
    """
    given = click.get_current_context().find_root().obj or {}
    if text is None:
        return Duebook(settings.database_url, settings.namespace)
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise Invalid(f"app {quoted(text)} is not in the form MODULE:BOOK, such as reports:book")
    book = _find(imported(module), name)
    book.move(given.get("database_url"), given.get("namespace"))
    return book


def imported(module: str) -> ModuleType:
    """Import a module of the current directory, or an installed one; raises Invalid."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise Invalid(
                f'app: there is no module "{shorten(module)}" in {here}; run this in the '
                "directory of your program, or install it"
            ) from None
        raise _broken(module, error) from error
    except SystemExit as error:
        told = f'app: module "{shorten(module)}" exits when it is imported'
        raise Invalid(f'{told}; move that below `if __name__ == "__main__":`') from error
    except Exception as error:
        raise _broken(module, error) from error


def _broken(module: str, error: Exception) -> Invalid:
    """An error with its place in the program, but without Duebook's own frames."""
    for line in _own_lines(error):
        click.echo(printable(line), err=True)
    told = f"{type(error).__name__}: {shorten(str(error), 200)}"
    return Invalid(f'app: module "{shorten(module)}" cannot be imported: {told}')


def _own_lines(error: Exception) -> list[str]:
    """The frames in the user's own files; for a syntax error, its place."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame)]
    lines = traceback.format_list(frames)
    if isinstance(error, SyntaxError):
        lines += traceback.format_exception_only(error)[:-1]
    return "".join(lines).splitlines()


def _is_own(frame: traceback.FrameSummary) -> bool:
    if frame.filename.startswith("<"):
        return False
    places = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    return not any(Path(frame.filename).is_relative_to(place) for place in [*places, OURS])


def _find(module: ModuleType, name: str) -> Duebook:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, _MISSING)
    if isinstance(found, Duebook):
        return found
    books = [key for key, value in vars(module).items() if isinstance(value, Duebook)]
    hint = f"; did you mean {module.__name__}:{books[0]}?" if books else ""
    place = f"{module.__name__}:{shorten(name)}"
    if found is _MISSING:
        raise Invalid(f"app: there is no {place}{hint}")
    raise Invalid(f"app: {place} is not a Duebook but a {type(found).__name__}{hint}")
