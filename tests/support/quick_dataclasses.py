"""Keeps in a file what `dataclasses` compiles in each process: a third of the work of a node that
starts. For the processes of tests that start hundreds of nodes; knows no code under test."""

from __future__ import annotations

import builtins
import dataclasses
import marshal
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import CodeType

__all__ = ["Kept", "start_quickly"]

FILE: Final = Path(__file__).parent / "__pycache__" / f"dataclasses.{sys.hexversion:x}"
MOST: Final = 5_000
"""Texts; of more than that most are of code that has changed since."""


class Kept:
    """Code by the text that it was compiled from, which is therefore never out of date."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._codes: dict[str, CodeType] = {}
        with suppress(OSError, ValueError, EOFError, TypeError):  # as in the first process
            self._codes = marshal.loads(path.read_bytes())  # noqa: S302 - our own file
        if len(self._codes) > MOST:
            self._codes = {}
        self._known = len(self._codes)

    def execute(self, text: str, *names: dict[str, Any]) -> None:
        """As `exec` does."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = compile(text, "<string>", "exec", dont_inherit=True)
        builtins.exec(code, *names)  # noqa: S102 - what dataclasses would

    def keep(self) -> None:
        """Write what is new. Of several processes that do so at once the last wins."""
        if len(self._codes) == self._known:
            return
        own = self._path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # then each process compiles its own
            own.write_bytes(marshal.dumps(self._codes))
            own.replace(self._path)


def start_quickly() -> Kept:
    """From now on; to be called before the modules with dataclasses are imported."""
    kept = Kept(FILE)
    vars(dataclasses)["exec"] = kept.execute
    return kept
