"""Real nodes for what is measured, each a process as users start it."""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["node"]


class node:  # noqa: N801 - reads as a word in a with statement
    """A node of one's own process, as users start it."""

    def __init__(self, url: str, slots: int = 50, env: dict[str, str] | None = None) -> None:
        program = ["--app", "bench.program:book", "--slots", str(slots), "--quiet", "--port", "0"]
        self._words = [sys.executable, "-m", "duebook", "up", *program]
        self._env = os.environ | {"DUEBOOK_DATABASE_URL": url} | (env or {})

    def __enter__(self) -> None:
        self._process = subprocess.Popen(self._words, stdout=subprocess.DEVNULL, env=self._env)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
