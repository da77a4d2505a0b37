"""Real nodes for measurements, each a process as users start it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["node"]


class node:  # noqa: N801 - reads as a word in a with statement
    """A node in its own process, as users start it."""

    def __init__(
        self,
        url: str,
        slots: int = 50,
        env: dict[str, str] | None = None,
        options: Sequence[str] = ("--port", "0"),
    ) -> None:
        program = ["--app", "bench.program:book", "--slots", str(slots), "--quiet", *options]
        self._words = [sys.executable, "-m", "duebook", "up", *program]
        self._env = os.environ | {"DUEBOOK_DATABASE_URL": url} | (env or {})

    def __enter__(self) -> node:
        self._process = subprocess.Popen(self._words, stdout=subprocess.DEVNULL, env=self._env)
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """With SIGKILL."""
        self._process.kill()
        self._process.wait(30)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
