"""Finds the program that a command line names as MODULE:BOOK, and imports it."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from duebook.app import Duebook
from duebook.errors import Invalid, quoted, shorten

if TYPE_CHECKING:
    from types import ModuleType

    from duebook.settings import Settings

__all__ = ["load_app"]


def load_app(text: str | None, settings: Settings) -> Duebook:
    """The Duebook of a program, or one without tasks when none is named.

    It brings its own database and namespace, unless the command line names others. Raises Invalid
    for what cannot be imported, or is no Duebook.
    """
    given = click.get_current_context().find_root().obj or {}
    if text is None:
        return Duebook(settings.database_url, settings.namespace)
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise Invalid(f"app {quoted(text)} is not written as MODULE:BOOK, such as reports:book")
    book = _find(_imported(module), name)
    book.move(given.get("database_url"), given.get("namespace"))
    return book


def _imported(module: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise Invalid(f'app: there is no module "{shorten(module)}" here') from None
        raise _broken(module, error) from error
    except Exception as error:
        raise _broken(module, error) from error


def _broken(module: str, error: Exception) -> Invalid:
    traceback.print_exc()
    told = f"{type(error).__name__}: {shorten(str(error), 200)}"
    return Invalid(f'app: module "{shorten(module)}" cannot be imported: {told}')


def _find(module: ModuleType, name: str) -> Duebook:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Duebook):
        return found
    books = [key for key, value in vars(module).items() if isinstance(value, Duebook)]
    hint = f"; did you mean {module.__name__}:{books[0]}?" if books else ""
    raise Invalid(f"app: {module.__name__}:{shorten(name)} is no Duebook{hint}")
